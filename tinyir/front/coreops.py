"""The instructions of Core IR (seed 004): what each takes and what it gives, by way of the front ends' ops.

The result has the dtype of the operands: narrower floats accumulate in fp32 and are rounded once. What the seed leaves
open: a Mean of integers drops the fraction; an Index, Slice or Gather counts negative indices from the end, an Index or
Slice beyond the extent is refused, and a Gather out of range reads 0. A Slice that steps backwards ends at -size-1
where it takes the first element too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..ir.attrs import flat
from ..ir.expr import ONE, Expr
from ..ir.rules import fills, literal_shape, product
from ..ir.types import DTYPES, TensorType
from ..kit.diag import Diag, refuse
from ..kit.phrase import Listing, Phrase
from .builder import Builder, Ref, rounded
from .ops import ELEMENTWISE, FRONT_OPS
from .ops.table import Attr, Attrs, FrontOp, check_attrs, registered
from .shorttypes import LONG

CORE: dict[str, FrontOp] = {}
_PADDINGS = ("Valid", "Same", "Custom")


def _core(name: str, operands: int, *attrs: Attr) -> Callable[..., Any]:
    return registered(CORE, name, row=partial(FrontOp, name, (operands, operands), (1, 1), attrs))


def from_attrs(row: FrontOp, items: Sequence[tuple[str, Any]], at: str) -> tuple[Attrs, list[Diag]]:
    """Attributes as the text has them, checked (E0102, E0103, E0104, E0107)."""
    plain = {key: _plain(item) for key, item in items}
    if row.name == "Transpose" and "perm" in plain:
        plain["permutation"] = plain.pop("perm")
    if row.name == "Conv2d" and isinstance(plain.get("padding"), list):
        plain |= {"padding": "Custom", "pads": plain["padding"]}
    if isinstance(plain.get("dtype"), str) and plain["dtype"] in LONG:
        plain["dtype"] = LONG[plain["dtype"]].name
    checked, faults = check_attrs(row, plain, at)
    return checked, [
        Diag(d.code, d.at, {**d.facts, "key": "padding"} if d.facts.get("key") == "pads" else d.facts) for d in faults
    ]


def _plain(item: Any) -> Any:
    """An attribute as JSON would have it."""
    if isinstance(item, tuple):
        return [_plain(i) for i in item]
    if not isinstance(item, Expr):
        return item
    if item.constant is not None:
        return item.constant
    return {"true": True, "false": False}.get(str(item), str(item))


def _by(b: Builder, op: str, /, *operands: Ref, **attrs: Any) -> Ref:
    """The value of a front end's op."""
    row = FRONT_OPS.get(op) or ELEMENTWISE[op]
    checked, faults = check_attrs(row, attrs, op)
    assert not faults, faults
    return row.lower(b, operands, checked)


def _one_dtype(op: str, *operands: Ref) -> None:
    if len({o.dtype for o in operands}) > 1:
        raise refuse(
            "E1002",
            fault=Phrase(
                "{op} takes one dtype, not {listing}", op=op, listing=Listing((o.dtype for o in operands), " and ")
            ),
        )


def _floats(op: str, x: Ref) -> None:
    if not x.dtype.is_float:
        raise refuse("E1002", fault=Phrase("{op} takes floats, not {dtype}", op=op, dtype=x.dtype))


def _rank(op: str, x: Ref, allowed: Sequence[int], wanted: str) -> None:
    if x.rank not in allowed:
        raise refuse("E1012", op=op, tensor=x.called, given=x.type, wanted=wanted)


# --- inputs and constants


@_core("Input", 0, Attr("name", "string"))
def _input(b: Builder, attrs: Attrs) -> Ref:
    raise AssertionError("an Input is declared, not lowered")


def _constant(dtype: str) -> Callable[..., Ref]:
    return lambda b, attrs: b.const(rounded(DTYPES[dtype], attrs.value), DTYPES[dtype])


_core("ConstI64", 0, Attr("value", "int", low=-(1 << 63), high=(1 << 63) - 1))(_constant("i64"))
_core("ConstF32", 0, Attr("value", "float"))(_constant("fp32"))
_core("ConstF64", 0, Attr("value", "float"))(_constant("fp64"))


@_core("ConstTensor", 0, Attr("data", "literal"), Attr("dtype", "dtype"), Attr("shape", "dims"))
def _const_tensor(b: Builder, attrs: Attrs) -> Ref:
    wanted = TensorType(attrs.dtype, attrs.shape)
    if not fills(attrs.data, wanted.shape):
        raise refuse("E1009", given=list(literal_shape(attrs.data)), result=wanted)
    for size in (n for n in flat(attrs.data) if isinstance(n, Expr)):
        raise refuse(
            "E0103", key="data", expected=Phrase("a number or nested lists of numbers, and {size} is a size", size=size)
        )
    return b.const(attrs.data, attrs.dtype, attrs.shape)


# --- arithmetic and reductions


@_core("BinOp", 2, Attr("op", "word", words=("Add", "Sub", "Mul")))
def _binop(b: Builder, x: Ref, y: Ref, attrs: Attrs) -> Ref:
    _one_dtype(attrs.op, x, y)
    return _by(b, attrs.op.lower(), x, y)


_AXES = (Attr("axes", "ints"), Attr("keepdims", "flag", False))


@_core("Sum", 1, *_AXES)
def _sum(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    return b.cast(_by(b, "Reduce", x, op="sum", **_reduced(x, attrs)), x.dtype)


@_core("Mean", 1, *_AXES)
def _mean(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    if x.dtype.is_float:
        return b.cast(_by(b, "Reduce", x, op="mean", **_reduced(x, attrs)), x.dtype)
    total = _by(b, "Reduce", x, op="sum", **_reduced(x, attrs))
    axes = [a % x.rank for a in attrs.axes] or range(x.rank)
    return b.cast(_by(b, "div", total, b.const(product([x.shape[a] for a in axes]), total.dtype, total.shape)), x.dtype)


def _reduced(x: Ref, attrs: Attrs) -> dict[str, Any]:
    """No axes at all means all of them, whatever keepdims says."""
    return {"axes": list(attrs.axes), "keepdims": attrs.keepdims} if attrs.axes else {}


# --- shapes


@_core("Reshape", 1, Attr("new_shape", "dims", low=-1))
def _reshape(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    if Expr.of(0) in attrs.new_shape:
        raise refuse("E1013", shape=list(attrs.new_shape))
    return _by(b, "Reshape", x, shape=list(attrs.new_shape))


@_core("Transpose", 1, Attr("permutation", "ints", low=0))
def _transpose(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    return _by(b, "Transpose", x, perm=list(attrs.permutation))


@_core("ExpandDims", 1, Attr("axes", "ints", low=0))
def _expand_dims(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    """One axis after the other, in rising order, each counted among those that are there by then."""
    shape = list(x.shape)
    for axis in sorted(attrs.axes):
        if axis > len(shape):
            raise refuse("E1006", axis=axis, rank=len(shape))
        shape.insert(axis, ONE)
    return b.reshape(x, shape)


@_core("Squeeze", 1, Attr("axes", "ints", low=0))
def _squeeze(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    return _by(b, "Squeeze", x, axes=list(attrs.axes))


# --- indexing


@_core("Index", 1, Attr("indices", "ints"))
def _index(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    if len(attrs.indices) != x.rank:
        raise refuse("E1101", what="indices", given=len(attrs.indices), rank=x.rank)
    starts = []
    for axis, (index, size) in enumerate(zip(attrs.indices, x.shape)):
        if size.constant is not None and not -size.constant <= index < size.constant:
            raise refuse("E1020", index=index, axis=axis, size=size, low=-size.constant, high=size.constant - 1)
        starts.append(size + index if index < 0 else Expr.of(index))
    return b.reshape(b.shrink(x, starts, [s + 1 for s in starts]), [])


@_core("Slice", 1, Attr("starts", "dims"), Attr("ends", "dims"), Attr("steps", "ints"))
def _slice(b: Builder, x: Ref, attrs: Attrs) -> Ref:
    for what in ("starts", "ends", "steps"):
        if len(attrs[what]) != x.rank:
            raise refuse("E1101", what=what, given=len(attrs[what]), rank=x.rank)
    for axis, (low, high, step, size) in enumerate(zip(attrs.starts, attrs.ends, attrs.steps, x.shape)):
        if not (_is_within(low, size, 0, 0 if step > 0 else 1) and _is_within(high, size, 0 if step > 0 else 1, 0)):
            raise refuse("E1102", axis=axis, low=low, high=high, size=size)
    return _by(
        b,
        "Slice",
        x,
        starts=list(attrs.starts),
        ends=list(attrs.ends),
        steps=list(attrs.steps),
        axes=list(range(x.rank)),
    )


def _is_within(bound: Expr, size: Expr, before: int, less: int) -> bool:
    """Whether a bound is known to be nowhere beyond the extent: from `before` ahead of the first element to `less`
    short of the end. A negative number counts from the end."""
    over = (bound - size).constant
    if over is not None and over > -less:
        return False
    under = (bound + size).constant if bound.constant is not None and bound.constant < 0 else None
    return under is None or under >= -before


@_core("Gather", 2)
def _gather(b: Builder, x: Ref, index: Ref, attrs: Attrs) -> Ref:
    _rank("Gather", x, range(1, 65), Phrase("1 or more"))
    if index.dtype.name not in ("i32", "i64"):
        raise refuse("E1002", fault=Phrase("Gather takes indices of i32 or i64, not {dtype}", dtype=index.dtype))
    return _by(b, "Gather", x, index, axis=0)


# --- products


@_core("Dot", 2)
def _dot(b: Builder, x: Ref, y: Ref, attrs: Attrs) -> Ref:
    _one_dtype("Dot", x, y)
    for o in (x, y):
        _rank("Dot", o, (1, 2), Phrase("1 or 2"))
    return b.cast(_by(b, "MatMul", x, y), x.dtype)


@_core("MatMul", 2)
def _matmul(b: Builder, x: Ref, y: Ref, attrs: Attrs) -> Ref:
    _one_dtype("MatMul", x, y)
    for o in (x, y):
        _rank("MatMul", o, range(2, 65), Phrase("2 or more"))
    return b.cast(_by(b, "MatMul", x, y), x.dtype)


@_core(
    "Conv2d", 2, Attr("strides", "ints", low=1), Attr("padding", "word", words=_PADDINGS), Attr("pads", "pairs", None)
)
def _conv2d(b: Builder, x: Ref, w: Ref, attrs: Attrs) -> Ref:
    _one_dtype("Conv2d", x, w)
    for o in (x, w):
        _rank("Conv2d", o, (4,), "4")
    if len(attrs.strides) != 2:
        raise refuse("E1101", what="strides", given=len(attrs.strides), rank=2)
    stated: dict[str, Any] = {"auto_pad": {"Valid": "valid", "Same": "same_upper"}.get(attrs.padding, "explicit")}
    if attrs.padding == "Custom":
        pads = attrs.pads or ()
        if len(pads) != 2 or any(n.constant is None or n.constant < 0 for pair in pads for n in pair):
            raise refuse(
                "E0103",
                key="padding",
                expected=Phrase("Valid, Same, or two pairs of sizes [[top, bottom], [left, right]]"),
            )
        stated["pad"] = [low for low, _ in pads] + [high for _, high in pads]
    turned = b.permute(w, [3, 2, 0, 1], part="filter")
    turned.tensor, turned.place = w.tensor, w.place
    return b.cast(_by(b, "Conv", x, turned, stride=list(attrs.strides), layout="NHWC", **stated), x.dtype)


# --- functions


def _unary(name: str, takes_integers: bool = False) -> Callable[..., Ref]:
    def lower(b: Builder, x: Ref, attrs: Attrs) -> Ref:
        if not takes_integers:
            _floats(name, x)
        return _by(b, name.lower(), x)

    return lower


_core("Relu", 1)(_unary("Relu", True))
_core("Neg", 1)(_unary("Neg", True))
_core("Exp", 1)(_unary("Exp"))
_core("Log", 1)(_unary("Log"))
