"""Reductions, scans and orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten
from .elementwise import as_bool

_REDUCTIONS = {
    "sum": ("sum", ("default", "dim_IntList")),
    "mean": ("mean", ("default", "dim")),
    "amax": ("max", ("default",)),
    "amin": ("min", ("default",)),
    "max": ("max", ("default",)),
    "min": ("min", ("default",)),
    "prod": ("prod", ("default", "dim_int")),
    "any": ("any", ("default", "dim", "dims")),
    "all": ("all", ("default", "dim", "dims")),
}


def _reduction(op: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x = call.tensor("self")
        x = as_bool(call, x) if op in ("any", "all") else x
        if op in ("sum", "mean", "prod"):
            x = call.cast(x, call.dtype)
        axes = call.axes("dim", x.rank)
        if not x.rank:
            return x
        return call.op("Reduce", x, op=op, axes=axes, keepdims=bool(call.get("keepdim", False)), gives=x.dtype)

    return translate


for _name, (_op, _overloads) in _REDUCTIONS.items():
    aten(*(f"{_name}.{o}" for o in _overloads))(_reduction(_op))


@aten("argmax.default", "argmin.default")
def arg(call: Call) -> Any:
    """The place of the greatest or the least; without an axis among all elements in their order."""
    x = call.tensor("self")
    op = call.target.removesuffix(".default")
    if call.get("dim") is None:
        found = call.op("Reduce", call.reshape(x, [-1]), op=op, axes=[0])
        return call.reshape(found, call.shape)
    return call.op("Reduce", x, op=op, axes=[call.axis("dim", x.rank)], keepdims=bool(call.get("keepdim", False)))


@aten("max.dim", "min.dim")
def extreme(call: Call) -> Any:
    """The greatest or least along an axis, and its place."""
    x, word = call.tensor("self"), call.target[:3]
    attrs = {"axes": [call.axis("dim", x.rank)], "keepdims": bool(call.get("keepdim", False))}
    value = call.op("Reduce", x, op=word, gives=x.dtype, **attrs)
    return value, call.op("Reduce", x, op=f"arg{word}", **attrs) if call.wants(1) else None


def spread(call: Call, x: Term, op: str) -> Term:
    """The variance or deviation, with torch's corrections."""
    correction = call.get("correction", 1 if call.get("unbiased", True) else 0)
    if correction != int(correction):
        raise call.fault(Phrase("its correction is {correction}", correction=correction))
    return call.op(
        "Reduce",
        x,
        op=op,
        axes=call.axes("dim", x.rank),
        keepdims=bool(call.get("keepdim", False)),
        ddof=int(correction) or None,
        gives=x.dtype,
    )


@aten("var.correction", "var.dim", "var.default", "std.correction", "std.dim", "std.default")
def variance(call: Call) -> Any:
    """The variance, or its root."""
    return spread(call, call.tensor("self"), call.target[:3])


@aten("var_mean.correction", "var_mean.dim")
def variance_and_mean(call: Call) -> Any:
    """The variance and the mean."""
    x = call.tensor("self")
    attrs = {"axes": call.axes("dim", x.rank), "keepdims": bool(call.get("keepdim", False))}
    mean = call.op("Reduce", x, op="mean", gives=x.dtype, **attrs) if call.wants(1) else None
    return spread(call, x, "var") if call.wants(0) else None, mean


@aten("linalg_vector_norm.default", "norm.ScalarOpt_dim")
def vector_norm(call: Call) -> Any:
    """A norm over axes: the root of a sum of powers, the greatest or the least, or how many are not 0. A dtype that is
    asked for is what it is computed in, too: it may be out of the range of the operand's."""
    x, order = call.cast(call.tensor("self"), call.dtype), call.get("ord", call.get("p", 2))
    attrs = {"axes": call.axes("dim", x.rank), "keepdims": bool(call.get("keepdim", False))}
    return call.cast(_norm(call, x, order, **attrs), call.dtype)


def _norm(call: Call, x: Term, order: float, **attrs: Any) -> Term:
    """The norm of that order, in fp32 where x is narrower: powers go out of the range of fp16."""
    wide = x if x.dtype.name == "fp64" else call.cast(x, "fp32")
    if order == 2:
        return call.fn("sqrt", call.op("Reduce", call.fn("mul", wide, wide), op="sum", **attrs))
    size = call.fn("abs", wide, part="size")
    if math.isinf(order):
        return call.op("Reduce", size, op="max" if order > 0 else "min", **attrs)
    if order == 0:
        return call.op("Reduce", call.cast(call.fn("not_equal", size, 0.0), size.dtype), op="sum", **attrs)
    if order == 1:
        return call.op("Reduce", size, op="sum", **attrs)
    total = call.op("Reduce", call.fn("pow", size, float(order), part="power"), op="sum", part="total", **attrs)
    return call.fn("pow", total, 1 / order)


@aten("_cdist_forward.default", "cdist.default")
def distances(call: Call) -> Any:
    """The norm of each row of one matrix less each row of another."""
    x, y = call.tensor("x1"), call.tensor("x2")
    one, other = (call.reshape(t, [*t.shape[:-2], *own]) for t, own in (
        (x, (x.shape[-2], 1, x.shape[-1])), (y, (1, y.shape[-2], y.shape[-1]))))  # fmt: skip
    apart = call.fn("sub", one, other, part="apart")
    return call.cast(_norm(call, apart, call.get("p", 2.0), axes=[apart.rank - 1]), x.dtype)


@aten("bucketize.Tensor", "searchsorted.Tensor")
def places_among(call: Call) -> Any:
    """How many of the sorted numbers along the last axis are before a value: with `right` those that equal it too.
    NaN is behind all."""
    is_own = call.target.startswith("searchsorted")
    if call.args.get("sorter") is not None:
        raise call.fault(Phrase("its numbers are in the order of another tensor"))
    ends, x = call.tensor("sorted_sequence" if is_own else "boundaries"), call.tensor("self")
    is_right = call.get("right", False) or call.get("side", "left") == "right"
    sides = call.promoted(ends, x)
    wide = call.reshape(sides[0], [*ends.shape[:-1], *[1] * (x.rank - ends.rank + 1), ends.shape[-1]])
    is_behind = call.fn("greater" if is_right else "greater_equal", wide, call.reshape(sides[1], [*x.shape, 1]))
    before = call.cast(call.fn("not", is_behind), "i64")
    return call.cast(call.op("Reduce", before, op="sum", axes=[x.rank]), call.dtype)


@aten("cumsum.default", "cumprod.default")
def cumulative(call: Call) -> Any:
    """Running sums or products."""
    x = call.cast(call.tensor("self"), call.dtype)
    if not x.rank:
        return x
    op = "CumSum" if call.target.startswith("cumsum") else "CumProd"
    return call.op(op, x, axis=call.axis("dim", x.rank), gives=x.dtype)


@aten("topk.default")
def top_k(call: Call) -> Any:
    """The k greatest or least along an axis, in order, and their places."""
    x = call.tensor("self")
    return call.op(
        "TopK",
        x,
        outputs=2,
        k=call.get("k"),
        axis=call.axis("dim", x.rank, -1),
        largest=bool(call.get("largest", True)),
    )


@aten("sort.default", "sort.stable")
def sort(call: Call) -> Any:
    """All elements along an axis, in order, and their places."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank, -1)
    count = x.shape[axis].constant if x.rank else None
    if count is None:
        raise call.fault(Phrase("the size of its axis is a symbol"))
    return call.op("TopK", x, outputs=2, k=count, axis=axis, largest=bool(call.get("descending", False)))


@aten("argsort.default", "argsort.stable")
def argsort(call: Call) -> Any:
    """The places of all elements along an axis, in order."""
    return sort(call)[1]


@aten("diff.default")
def diff(call: Call) -> Any:
    """What neighbours along an axis differ by, `n` times; of truth values whether they do. No times are the operand
    alone, whatever is joined to it."""
    x = call.tensor("self")
    if call.get("n", 1) == 0:
        return call.fn("identity", x)
    axis = call.axis("dim", x.rank, -1)
    ends = [call.optional(key) for key in ("prepend", "append")]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    found = call.op("Concat", *parts, axis=axis, part="joined") if len(parts) > 1 else x
    for _ in range(call.get("n", 1)):
        size = found.shape[axis]
        later, earlier = call.cut(found, axis, 1, size), call.cut(found, axis, 0, size - 1)
        found = call.fn("not_equal" if found.dtype.kind == "b" else "sub", later, earlier)
    return found
