"""Reduce and the running folds. Sums accumulate in fp32 where the operand is narrower, and what they give keeps that
dtype."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import ONE, Expr
from ...ir.rules import product
from ...ir.types import DTYPES, DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref, accumulator
from . import functions
from .elementwise import as_ref
from .movement import axes_of, axis_of
from .table import Attr, Attrs, front_op

REDUCTIONS = (
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "var",
    "std",
    "l1",
    "l2",
    "sum_square",
    "log_sum",
    "log_sum_exp",
    "argmax",
    "argmin",
    "any",
    "all",
)


def keep(b: Builder, x: Ref, like: Ref, axes: tuple[int, ...]) -> Ref:
    """`x`, reduced from `like` over `axes`, repeated along them again."""
    return b.spread(x, like.shape, [a for a in range(like.rank) if a not in axes])


def count(x: Ref, axes: tuple[int, ...]) -> Expr:
    """How many elements of x one element of the reduction sees."""
    return product([x.shape[a] for a in axes])


def mean(b: Builder, x: Ref, axes: tuple[int, ...], acc: DType, less: int = 0) -> Ref:
    """The sum over `axes` by their number of elements (minus `less`), in `acc`."""
    total = b.reduce(x, "SUM", axes, acc)
    return b.emit("FDIV", total, b.const(count(x, axes) - less, acc, total.shape), part="mean")


def variance(b: Builder, x: Ref, axes: tuple[int, ...], acc: DType, less: int = 0) -> tuple[Ref, Ref]:
    """The mean of the squared distances from the mean, and these distances, both in `acc`: two passes, so that nothing
    cancels."""
    wide = b.cast(x, acc)
    centred = b.emit("SUB", wide, keep(b, mean(b, wide, axes, acc), wide, axes), part="centred")
    return mean(b, b.emit("MUL", centred, centred, part="square"), axes, acc, less), centred


def _sums(b: Builder, x: Ref, op: str, axes: tuple[int, ...], acc: DType, less: int) -> Ref:
    wide = b.cast(x, acc) if op != "sum" else x
    if op == "sum":
        return b.reduce(x, "SUM", axes, acc)
    if op == "mean":
        return mean(b, x, axes, acc)
    if op in ("var", "std"):
        found, _ = variance(b, x, axes, acc, less)
        return b.emit("SQRT", found) if op == "std" else found
    if op == "l1":
        return b.reduce(b.emit("ABS", wide) if acc.kind != "u" else wide, "SUM", axes, acc)
    if op in ("l2", "sum_square"):
        found = b.reduce(b.emit("MUL", wide, wide, part="square"), "SUM", axes, acc)
        return b.emit("SQRT", found) if op == "l2" else found
    if op == "log_sum":
        return functions.log(b, b.reduce(x, "SUM", axes, acc))
    top = b.reduce(wide, "MAX", axes, acc)
    base = b.emit("WHERE", functions.isinf(b, top), b.const(0, acc, top.shape), top)  # inf - inf would be NaN
    shifted = functions.exp(b, b.emit("SUB", wide, keep(b, base, wide, axes)))
    return b.emit("ADD", functions.log(b, b.reduce(shifted, "SUM", axes, acc)), base)


@front_op(
    "Reduce",
    inputs=1,
    attrs=[
        Attr("op", "word", words=REDUCTIONS),
        Attr("axes", "ints", None),
        Attr("keepdims", "flag", False),
        Attr("acc_dtype", "dtype", None),
        Attr("ddof", "int", 0, low=0),
        Attr("select_last_index", "flag", False),
    ],
)
def reduce(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The reduction over `axes` (default: all), which go or stay with size 1 (`keepdims`). max and min keep the dtype,
    any and all take and give bool, argmax and argmin give i64, the others give the dtype they accumulate in."""
    x = as_ref(b, operands[0])
    axes = axes_of(attrs.axes, x.rank)
    op = attrs.op
    if op in ("argmax", "argmin"):
        found = _index(b, x, op.upper(), axes, attrs.select_last_index)
    elif op in ("any", "all"):
        if x.dtype.kind != "b":
            raise refuse("E1002", fault=Phrase("{op} takes bool, not {dtype}", op=op, dtype=x.dtype))
        found = b.reduce(x, "MAX" if op == "any" else "MIN", axes)
    elif op in ("max", "min"):
        found = b.reduce(x, op.upper(), axes)
    else:
        acc = attrs.acc_dtype or accumulator(x.dtype)
        if op in ("mean", "var", "std", "l2", "log_sum", "log_sum_exp") and not acc.is_float:
            acc = DTYPES["fp64" if acc.bits > 32 else "fp32"]
        found = b.reduce(x, "PROD", axes, acc) if op == "prod" else _sums(b, x, op, axes, acc, attrs.ddof)
    return b.reshape(found, [ONE if a in axes else d for a, d in enumerate(x.shape)]) if attrs.keepdims else found


def _index(b: Builder, x: Ref, op: str, axes: tuple[int, ...], is_last: bool) -> Ref:
    i64 = DTYPES["i64"]
    if not is_last:
        return b.reduce(x, op, axes, i64)
    found = b.reduce(b.flip(x, axes), op, axes, i64)
    return b.emit("SUB", b.const(count(x, axes) - 1, i64, found.shape), found)


def _cumulative(op: str) -> Callable[..., Ref]:
    def lower(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
        x = as_ref(b, operands[0])
        axis = axis_of(attrs.axis, x.rank)
        acc = attrs.acc_dtype or (accumulator(x.dtype) if op in ("SUM", "PROD") else x.dtype)
        stated = {key: True for key in ("reverse", "exclusive") if attrs[key]}
        return b.emit("SCAN", x, op=op, axis=axis, dtype=acc, **stated)

    return lower


for _name, _op in (("CumSum", "SUM"), ("CumProd", "PROD"), ("CumMax", "MAX"), ("CumMin", "MIN")):
    front_op(
        _name,
        inputs=1,
        attrs=[
            Attr("axis", "int"),
            Attr("reverse", "flag", False),
            Attr("exclusive", "flag", False),
            Attr("acc_dtype", "dtype", None),
        ],
    )(_cumulative(_op))
