"""Ops that ask for the order of elements: medians, the k-th, quantiles, running extremes."""

from __future__ import annotations

import math
from typing import Any

from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten
from .indexing import neutral
from .pointwise import rounded, wide


def length_of(call: Call, x: Term, axis: int) -> int:
    """The length of an axis, which must be known and not 0. Raises Refused (E0144)."""
    found = x.shape[axis].constant if x.rank else 1
    if not found:
        raise call.fault(Phrase("the size of its axis is a symbol, or 0"))
    return found


def nth(call: Call, x: Term, axis: int, number: int) -> tuple[Term, Term]:
    """The element with `number` elements before it along an axis, and its place; the axis has one element."""
    value, index = call.op("TopK", x, outputs=2, k=number + 1, axis=axis, largest=False)
    return tuple(call.cut(t, axis, number, number + 1) for t in (value, index))  # type: ignore[return-value]


def along(call: Call) -> tuple[Term, int]:
    """The operand and the axis of an op that has an axis, or one line of all elements; both have an axis at least."""
    x = call.tensor("self")
    if call.get("dim") is None or not x.rank:
        return call.reshape(x, [-1] if x.rank else [1]), 0
    return x, call.axis("dim", x.rank)


@aten("median.default", "median.dim", "nanmedian.default", "nanmedian.dim")
def median(call: Call) -> Any:
    """The element in the middle, the lesser one of two, and its place: NaN where there is one, unless these are left
    out."""
    x, axis = along(call)
    length = length_of(call, x, axis)
    if call.target.startswith("nan") and x.dtype.is_float:
        return _of_numbers(call, x, axis)
    value, index = nth(call, x, axis, (length - 1) // 2)
    if x.dtype.is_float:
        none = call.fn("isnan", x)
        is_none = call.op("Reduce", none, op="any", axes=[axis], keepdims=True)
        value = call.fn("where", is_none, call.known(math.nan, x.dtype), value)
        first = call.op("Reduce", call.cast(none, "i64"), op="argmax", axes=[axis], keepdims=True)
        index = call.fn("where", is_none, first, index)
    return _told(call, value, index)


def _of_numbers(call: Call, x: Term, axis: int) -> Any:
    """NaN is behind all numbers: the middle is where half of these are before."""
    value, index = call.op("TopK", x, outputs=2, k=length_of(call, x, axis), axis=axis, largest=False)
    numbers = call.cast(call.fn("not", call.fn("isnan", x)), "i64")
    count = call.op("Reduce", numbers, op="sum", axes=[axis], keepdims=True)
    place = call.fn("max", call.fn("floordiv", call.fn("sub", count, 1), 2), 0, part="place")
    return _told(call, *(call.op("GatherElements", t, place, axis=axis) for t in (value, index)))


@aten("kthvalue.default")
def kthvalue(call: Call) -> Any:
    """The k-th least element along an axis, and its place."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank, -1)
    line = x if x.rank else call.reshape(x, [1])
    return _told(call, *nth(call, line, axis, int(call.get("k")) - 1))


def _told(call: Call, value: Term, index: Term) -> Any:
    shape = call.shape
    if call.target.endswith(".default") and "median" in call.target:
        return call.reshape(value, shape)
    return call.reshape(value, shape), call.reshape(index, shape) if call.wants(1) else None


@aten("msort.default")
def msort(call: Call) -> Any:
    """In order along the first axis."""
    x = call.tensor("self")
    return call.op("TopK", x, outputs=2, k=length_of(call, x, 0), axis=0, largest=False)[0] if x.rank else x


@aten("quantile.scalar", "quantile.default", "nanquantile.scalar", "nanquantile.default")
def quantile(call: Call) -> Any:
    """Where parts of the elements are before, between two neighbours in order; NaN where there is one, unless these
    are left out."""
    x, axis = along(call)
    last = length_of(call, x, axis) - 1
    part = call.operand("q")
    parts = call.reshape(call.cast(part, x.dtype) if isinstance(part, Term) else call.known(part, x.dtype), [-1])
    line = call.transpose(x, [*(a for a in range(x.rank) if a != axis), axis])
    ordered = call.op("TopK", line, outputs=2, k=last + 1, axis=line.rank - 1, largest=False)[0]
    is_none = call.fn("isnan", line)
    if call.target.startswith("nan"):
        numbers = call.cast(call.fn("not", is_none), "i64")
        count = call.op("Reduce", numbers, op="sum", axes=[line.rank - 1], keepdims=True)
        end = call.cast(call.fn("max", call.fn("sub", count, 1), 0), x.dtype)
        place = call.fn("mul", parts, end, part="place")
    else:
        place = call.expand(call.fn("mul", parts, float(last), part="place"), [*line.shape[:-1], parts.shape[0]])
    sides = [call.fn(fn, place) for fn in ("floor", "ceil")]
    low, high = (call.op("GatherElements", ordered, call.cast(s, "i64"), axis=line.rank - 1) for s in sides)
    found = _between(call, low, high, place, sides)
    if not call.target.startswith("nan"):
        has_none = call.op("Reduce", is_none, op="any", axes=[line.rank - 1], keepdims=True)
        found = call.fn("where", has_none, call.known(math.nan, x.dtype), found)
    return call.reshape(call.transpose(found, [found.rank - 1, *range(found.rank - 1)]), call.shape)


def _between(call: Call, low: Term, high: Term, place: Term, sides: list[Term]) -> Term:
    """What is taken of two neighbours by the mode: what is between them is counted from the nearer one, the greater in
    the middle, beside which the other may be infinite."""
    mode = call.get("interpolation", "linear")
    share = call.fn("sub", place, sides[0], part="share")
    if mode in ("lower", "higher"):
        return low if mode == "lower" else high
    if mode == "nearest":
        return call.fn("where", call.fn("equal", call.fn("round", place), sides[0]), low, high)
    apart = call.fn("sub", high, low, part="apart")
    if mode == "midpoint":
        return call.fn("sub", high, call.fn("mul", apart, 0.5))
    near_low, near_high = call.fn("mul", apart, share), call.fn("mul", apart, call.fn("sub", 1.0, share))
    is_low = call.fn("less", share, 0.5)
    return call.fn("where", is_low, call.fn("add", low, near_low), call.fn("sub", high, near_high))


@aten("cummax.default", "cummin.default")
def running(call: Call) -> Any:
    """The greatest or least so far along an axis, and the last place of it."""
    x = call.tensor("self")
    if not x.rank:
        return x, call.known(0, "i64") if call.wants(1) else None
    axis = call.axis("dim", x.rank)
    op = "CumMax" if call.target.startswith("cummax") else "CumMin"
    bools = x.dtype.kind == "b"
    x = call.cast(x, "i32") if bools else x
    value = call.op(op, x, axis=axis, gives=x.dtype)
    index = None
    if call.wants(1):
        is_it = call.fn("equal", x, value)
        if x.dtype.is_float:
            is_it = call.fn("or", is_it, call.fn("isnan", x))
        places = call.op("Iota", shape=list(x.shape), axis=axis)
        own = call.fn("where", is_it, places, 0, part="own")
        index = call.op("CumMax", own, axis=axis, part="place", gives=DTYPES["i64"])
    return call.fn("not_equal", value, 0) if bools else value, index


@aten("trapezoid.x", "trapezoid.dx")
def trapezoid(call: Call) -> Any:
    """The area below lines from point to point along an axis."""
    pieces, axis = _trapezoids(call)
    return rounded(call, call.op("Reduce", pieces, op="sum", axes=[axis]))


def _trapezoids(call: Call) -> tuple[Term, int]:
    """The area below each line, and the axis that they are along."""
    y = wide(call, call.tensor("y"))
    axis = call.axis("dim", y.rank, -1)
    size = y.shape[axis]
    sums = call.fn("add", call.cut(y, axis, 1, size), call.cut(y, axis, 0, size - 1), part="both")
    if call.args.get("x") is not None:
        x = wide(call, call.tensor("x"))
        at = x.rank - 1 if x.rank == 1 else axis
        steps = call.fn("sub", call.cut(x, at, 1, size), call.cut(x, at, 0, size - 1), part="steps")
        if x.rank == 1:
            steps = call.reshape(steps, [steps.shape[0], *[1] * (y.rank - axis - 1)])
        sums = call.fn("mul", sums, steps)
    else:
        sums = call.fn("mul", sums, float(call.get("dx", 1)))
    return call.fn("mul", sums, 0.5), axis


@aten("cumulative_trapezoid.x", "cumulative_trapezoid.dx")
def cumulative_trapezoid(call: Call) -> Any:
    """The same from the first point to each one after it."""
    pieces, axis = _trapezoids(call)
    return rounded(call, call.op("CumSum", pieces, axis=axis, gives=pieces.dtype))


@aten("logcumsumexp.default")
def logcumsumexp(call: Call) -> Any:
    """The logarithm of the sum of the powers so far, each less the greatest so far: of each pair of places a power."""
    x = call.tensor("self")
    if not x.rank:
        return x
    axis, own = call.axis("dim", x.rank), wide(call, x)
    most = call.op("CumMax", own, axis=axis, part="most", gives=own.dtype)
    shape = [*x.shape[: axis + 1], *x.shape[axis:]]
    line = [*x.shape[:axis], 1, *x.shape[axis:]]
    level = call.reshape(most, [*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]])
    places = [call.op("Iota", shape=shape, axis=axis + n, part="place") for n in range(2)]
    power = call.fn("exp", call.fn("sub", call.reshape(own, line), level), part="power")
    is_so_far = call.fn("less_equal", places[1], places[0], part="so_far")
    total = call.op("Reduce", call.fn("where", is_so_far, power, 0.0), op="sum", axes=[axis + 1])
    found = call.fn("add", most, call.fn("log", total))
    return rounded(call, call.fn("where", call.fn("isinf", most), most, found))


@aten("mode.default")
def mode(call: Call) -> Any:
    """The least of the elements along an axis that are equal to most others, and its last place. NaN equals none."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank, -1)
    line = x if x.rank else call.reshape(x, [1])
    rows, columns = ([*line.shape[: axis + 1 - n], 1, *line.shape[axis + 1 - n :]] for n in range(2))
    same = call.fn("equal", call.reshape(line, rows), call.reshape(line, columns), part="same")
    counts = call.op("Reduce", call.cast(same, "i64"), op="sum", axes=[axis + 1], part="count")
    most = call.op("Reduce", counts, op="max", axes=[axis], keepdims=True)
    is_most = call.fn("equal", counts, most, part="most")
    others = call.fn("where", is_most, line, neutral(call, "amin", line.dtype))
    value = call.op("Reduce", others, op="min", axes=[axis], keepdims=True, gives=x.dtype)
    places = call.op("Iota", shape=list(line.shape), axis=axis, part="place")
    at = call.fn("where", call.fn("equal", line, value), places, 0, part="at")
    return _told(call, value, call.op("Reduce", at, op="max", axes=[axis], keepdims=True))
