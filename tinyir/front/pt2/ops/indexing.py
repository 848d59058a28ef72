"""Ops whose places are values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....ir.types import DTYPES, DType
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten
from .pointwise import in_turn

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@aten("embedding.default")
def embedding(call: Call) -> Any:
    """Rows of a table."""
    return call.op("Gather", call.tensor("weight"), call.tensor("indices"), axis=0)


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default", "embedding_bag.default",
      "embedding_bag.padding_idx")  # fmt: skip
def embedding_bag(call: Call) -> Any:
    """Rows of a table, summed, averaged, or their greatest by bags: the indices from an offset to the next one."""
    table, indices, offsets = (call.tensor(key) for key in ("weight", "indices", "offsets"))
    mode, padding = ("sum", "mean", "max")[call.get("mode", 0)], call.get("padding_idx", -1)
    if any(call.wants(n) for n in range(1, 4)):
        raise call.fault(Phrase("a result besides the bags is read"))
    if call.get("include_last_offset", False):
        offsets = call.cut(offsets, 0, 0, offsets.shape[0] - 1)
    rows = call.op("Gather", table, indices, axis=0, part="rows")
    if call.args.get("per_sample_weights") is not None:
        weights = call.reshape(call.tensor("per_sample_weights"), [indices.shape[0], 1])
        rows = call.fn("mul", rows, weights, part="weighed")
    counts = call.expand(call.known(1, "i32"), indices.shape)
    if padding >= 0:
        counts = call.cast(call.fn("not_equal", indices, padding), "i32")
        is_kept = call.expand(call.reshape(counts, [indices.shape[0], 1]), rows.shape)
        none = call.expand(neutral(call, "amax" if mode == "max" else "sum", rows.dtype), rows.shape)
        rows = call.fn("where", call.fn("greater", is_kept, 0), rows, none, part="kept")
    bags = _bags(call, indices, offsets)
    if not isinstance(bags, Term):  # all bags are as long
        wide = call.reshape(rows, [*bags, *rows.shape[1:]])
        found = call.op("Reduce", wide, op="max" if mode == "max" else "sum", axes=[1])
        number = call.op("Reduce", call.reshape(counts, bags), op="sum", axes=[1], part="count")
    else:
        start = neutral(call, "amax" if mode == "max" else "sum", rows.dtype)
        start = call.expand(start, [offsets.shape[0], *rows.shape[1:]])
        found = call.op("ScatterND", start, bags, rows, reduction="max" if mode == "max" else "add")
        none = call.expand(call.known(0, "i32"), offsets.shape)
        number = call.op("ScatterND", none, bags, counts, reduction="add", part="count")
    number = call.reshape(number, [offsets.shape[0], 1])
    if mode == "mean":
        found = call.fn("div", found, call.cast(call.fn("max", number, 1), found.dtype), part="mean")
    if mode == "max":  # a bag of nothing has zeros
        is_empty = call.expand(call.fn("equal", number, 0), found.shape)
        found = call.fn("where", is_empty, 0.0, found, part="filled")
    return found, None, None, None


def _bags(call: Call, indices: Term, offsets: Term) -> Any:
    """The bag of each index, [indices, 1]; the number of bags and their length where all are as long and known."""
    known, count = offsets.known, indices.shape[0].constant
    if known is not None and known.dtype != object and known.size and count is not None and not count % known.size:
        length = count // known.size
        if [*known] == [length * n for n in range(known.size)]:
            return known.size, length
    places = call.op("Iota", shape=[indices.shape[0], 1], axis=0, part="place")
    starts = call.reshape(call.cast(offsets, "i64"), [1, offsets.shape[0]])
    begun = call.cast(call.fn("less_equal", starts, places, part="begun"), "i64")
    return call.fn("sub", call.op("Reduce", begun, op="sum", axes=[1], keepdims=True), 1, part="bag")


@aten("index_select.default")
def index_select(call: Call) -> Any:
    """Places of an axis."""
    x, index = call.tensor("self"), call.tensor("index")
    if not x.rank:
        return x
    index = call.reshape(index, [1]) if not index.rank else index
    return call.op("Gather", x, index, axis=call.axis("dim", x.rank))


@aten("gather.default", "take_along_dim.default")
def gather(call: Call) -> Any:
    """Each element at its own place along an axis. The index may be shorter than the tensor along the others."""
    x, index = call.tensor("self"), call.tensor("index" if "index" in call.args else "indices")
    axis = call.axis("dim", x.rank)
    for other in range(x.rank):
        if other != axis and x.shape[other] != index.shape[other]:
            x = call.cut(x, other, 0, index.shape[other])
    return call.op("GatherElements", x, index, axis=axis)


@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add.default")
def scatter(call: Call) -> Any:
    """A copy with elements put, added or multiplied at their own place along an axis."""
    x, index = call.tensor("self"), call.tensor("index")
    word = call.get("reduce", "add" if call.target.startswith("scatter_add") else "none")
    return _scattered(call, x, index, {"multiply": "mul"}.get(word, word))


@aten("scatter_reduce.two")
def scatter_reduce(call: Call) -> Any:
    """A copy into which elements are reduced at their own place along an axis, beside what was there or in its
    place."""
    word, counts = call.get("reduce"), call.get("include_self", True)
    x, index = call.tensor("self"), call.tensor("index")
    if word != "mean" and word not in _REDUCTIONS:
        raise call.fault(Phrase("reduce is {word}", word=word))
    ones = call.expand(call.known(1, "i32"), index.shape)
    before = call.expand(call.known(int(counts), "i32"), x.shape)
    if not counts or word == "mean":  # how many elements each is made of
        axis = call.axis("dim", x.rank)
        number = call.op("Scatter", before, index, ones, axis=axis, reduction="add", part="count")
    if not counts:
        is_met = call.fn("greater", number, 0, part="met")
        x = call.fn("where", is_met, call.expand(neutral(call, word, x.dtype), x.shape), x, part="start")
    found = _scattered(call, x, index, _REDUCTIONS.get(word, "add"))
    if word == "mean":
        divisor = call.cast(call.fn("max", number, 1), x.dtype)
        found = call.fn("div" if x.dtype.is_float else "floordiv", found, divisor, part="mean")
    return found


def neutral(call: Call, word: str, dtype: DType) -> Term:
    """What changes no result of a reduction."""
    if word in ("amax", "amin"):
        sign = -1 if word == "amax" else 1
        if dtype.is_float:
            return call.known(sign * math.inf, dtype)
        if dtype.kind == "b":
            return call.known(sign > 0, dtype)
        span = np.iinfo(dtype.numpy)
        return call.known(int(span.min if sign < 0 else span.max), dtype)
    return call.known(1 if word == "prod" else 0, dtype)


def _scattered(call: Call, x: Term, index: Term, reduction: str) -> Term:
    axis = call.axis("dim", x.rank)
    if "src" in call.args:
        source = call.tensor("src")
        for other in range(source.rank):
            if source.shape[other] != index.shape[other]:
                source = call.cut(source, other, 0, index.shape[other])
    else:
        value = call.get("value", 0)
        number = float(value) if x.dtype.is_float else value
        source = call.expand(call.known(number, x.dtype), index.shape)
    return call.op("Scatter", x, index, source, axis=axis, reduction=reduction)


@aten("index.Tensor", "index.Tensor_hacked_twin", "_unsafe_index.Tensor")
def index(call: Call) -> Any:
    """NumPy's indexing by tensors: they broadcast, and their axes take the place of those they index, or come first
    where these are apart."""
    x = call.tensor("self")
    axes, indices, place = _indices(call, call.tensors("indices"))
    if len(axes) == 1 and place == axes[0]:
        return call.op("Gather", x, indices[0], axis=axes[0])
    rest = [a for a in range(x.rank) if a not in axes]
    found = call.op("GatherND", call.transpose(x, [*axes, *rest]), _tuples(call, indices))
    count = indices[0].rank
    perm = [*range(count, count + place), *range(count), *range(count + place, found.rank)]
    return call.transpose(found, perm)


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(call: Call) -> Any:
    """A copy with values put, or added, where tensors index it."""
    x, values = call.tensor("self"), call.cast(call.tensor("values"), call.dtype)
    masked = _masked(call, x, values)
    if masked is not None:
        return masked
    axes, indices, place = _indices(call, call.tensors("indices"))
    rest = [a for a in range(x.rank) if a not in axes]
    order = [*axes, *rest]
    shape = [x.shape[a] for a in rest]
    count = indices[0].rank
    values = call.expand(values, [*shape[:place], *indices[0].shape, *shape[place:]])
    values = call.transpose(values, [*range(place, place + count), *range(place), *range(place + count, values.rank)])
    reduction = "add" if call.get("accumulate", False) else "none"
    found = call.op("ScatterND", call.transpose(x, order), _tuples(call, indices), values, reduction=reduction)
    return call.transpose(found, [order.index(a) for a in range(x.rank)])


def _masked(call: Call, x: Term, values: Term) -> Term | None:
    """The copy where a mask of the first axes says what is put: the same for each of these elements, or one after the
    other. None for other indices."""
    first, *others = call.tensors("indices")
    if first is None or first.dtype.kind != "b" or others or values.rank > x.rank - first.rank + 1:
        return None
    mask = call.expand(call.reshape(first, [*first.shape, *[1] * (x.rank - first.rank)]), x.shape)
    if values.rank > x.rank - first.rank:
        if values.shape[0].constant == 1:
            values = call.reshape(values, values.shape[1:])
        else:
            values = in_turn(call, first, call.expand(values, [values.shape[0], *x.shape[first.rank :]]))
    values = call.expand(values, x.shape)
    return call.fn("where", mask, call.fn("add", x, values) if call.get("accumulate", False) else values, x)


@aten("index_reduce.default")
def index_reduce(call: Call) -> Any:
    """A copy into which slices are reduced at places of an axis: each element is, at its slice's place."""
    source = call.tensor("source")
    axis = call.axis("dim", source.rank)
    column = call.reshape(call.cast(call.tensor("index"), "i64"), [-1, *[1] * (source.rank - axis - 1)])
    call.args |= {"index": call.expand(column, source.shape), "src": source}
    return scatter_reduce(call)


@aten("put.default")
def put(call: Call) -> Any:
    """A copy with elements put, or added, at places among all in their order."""
    x, index, source = (call.tensor(key) for key in ("self", "index", "source"))
    flat, places, values = (call.reshape(t, [-1]) for t in (x, index, source))
    places = call.fn("mod", call.cast(places, "i64"), call.known(flat.shape[0], "i64"))
    reduction = "add" if call.get("accumulate", False) else "none"
    return call.reshape(call.op("ScatterND", flat, call.reshape(places, [-1, 1]), values, reduction=reduction), x.shape)


@aten("diagonal_scatter.default")
def diagonal_scatter(call: Call) -> Any:
    """A copy with another diagonal."""
    x, source, offset = call.tensor("self"), call.tensor("src"), call.get("offset", 0)
    axes = [call.axis(key, x.rank, own) for key, own in (("dim1", 0), ("dim2", 1))]
    order = [*(a for a in range(x.rank) if a not in axes), *axes]
    turned, along = call.transpose(x, order), int(offset < 0)  # which of the two axes counts along the diagonal
    extent = turned.shape[x.rank - 2 + along]
    pads = [0, extent - source.shape[-1]]
    line = call.op("Pad", source, pads=pads, axes=[source.rank - 1], value=0)
    line = call.reshape(line, [*source.shape[:-1], 1, extent] if along else [*source.shape[:-1], extent, 1])
    row, column = (call.op("Iota", shape=list(turned.shape[-2:]), axis=a, part="place") for a in (0, 1))
    is_own = call.fn("equal", call.fn("sub", column, row), offset, part="own")
    found = call.fn("where", is_own, line, turned)
    return call.transpose(found, [order.index(a) for a in range(x.rank)])


@aten("repeat_interleave.self_Tensor", "repeat_interleave.Tensor")
def repeat_interleave(call: Call) -> Any:
    """Each place of an axis as often as a tensor says, or the numbers of these places. How many there are in all must
    be stated. A single number of repeats is that of all places."""
    repeats, count = call.tensor("repeats"), call.get("output_size")
    if count is None:
        raise call.fault(Phrase("the size of its result is data"))
    if "self" in call.args:
        x, axis = call.tensor("self"), call.get("dim")
        x, axis = (call.reshape(x, [-1]), 0) if axis is None else (x, call.axis("dim", x.rank))
        if not repeats.rank or repeats.shape[0].constant == 1:
            repeats = call.expand(call.reshape(repeats, [1]), [x.shape[axis]])
    ends = call.op("CumSum", call.cast(repeats, "i64"), axis=0, part="end", gives=DTYPES["i64"])
    places = call.op("Iota", shape=[count, 1], axis=0, part="place")
    behind = call.cast(call.fn("less_equal", call.reshape(ends, [1, -1]), places), "i64")
    index = call.op("Reduce", behind, op="sum", axes=[1], part="index")
    if "self" not in call.args:
        return call.cast(index, call.dtype)
    return call.op("Gather", x, index, axis=axis)


@aten("index_add.default", "index_copy.default")
def index_add(call: Call) -> Any:
    """A copy with slices put, or added, at places of an axis."""
    x, index, source = call.tensor("self"), call.tensor("index"), call.tensor("source")
    axis = call.axis("dim", x.rank)
    alpha = call.get("alpha", 1)
    if alpha != 1:
        source = call.fn("mul", source, float(alpha) if source.dtype.is_float else alpha)
    perm = [axis, *(a for a in range(x.rank) if a != axis)]
    rows = call.reshape(index, [-1, 1])
    found = call.op(
        "ScatterND",
        call.transpose(x, perm),
        call.cast(rows, "i64"),
        call.transpose(source, perm),
        reduction="add" if call.target.startswith("index_add") else "none",
    )
    return call.transpose(found, [perm.index(a) for a in range(x.rank)])


def _indices(call: Call, given: Sequence[Term | None]) -> tuple[list[int], list[Term], int]:
    """The axes that tensors index, these tensors in one shape, and how many of the other axes come before theirs in the
    result."""
    axes = [a for a, t in enumerate(given) if t is not None]
    terms = [t for t in given if t is not None]
    if not terms or any(t.dtype.kind == "b" for t in terms):
        raise call.fault(Phrase("an index is a mask, whose count of elements is data"))
    if any(not t.dtype.is_integer for t in terms):
        raise call.fault(Phrase("an index is not of integers"))
    rank = max(t.rank for t in terms)
    shape: list[Expr] = [Expr.of(1)] * rank
    for term in terms:
        for axis, size in enumerate(reversed(term.shape), 1):
            if size.constant != 1:
                shape[-axis] = size
    terms = [call.expand(call.cast(t, "i64"), shape) for t in terms]
    is_together = axes == list(range(axes[0], axes[0] + len(axes)))
    return axes, terms, axes[0] if is_together else 0


def _tuples(call: Call, indices: Sequence[Term]) -> Term:
    """Index tensors of one shape as tuples along a last axis."""
    wide = [call.reshape(t, [*t.shape, 1]) for t in indices]
    return wide[0] if len(wide) == 1 else call.op("Concat", *wide, axis=wide[0].rank - 1)


@aten("one_hot.default")
def one_hot(call: Call) -> Any:
    """1 at the index along a new last axis, 0 elsewhere."""
    depth = call.shape[-1]
    return call.op("OneHot", call.tensor("self"), depth=depth, axis=-1, dtype=call.dtype)


@aten("histc.default")
def histc(call: Call) -> Any:
    """How many elements there are in each of as many bins between two numbers, the last one's end included; of equal
    numbers the least and the greatest element are the ends, 1 around both where these are equal too."""
    x, bins = call.tensor("self"), call.get("bins", 100)
    low, high = call.get("min", 0), call.get("max", 0)
    kind = x.dtype if x.dtype.is_float else "fp32"
    flat = call.cast(call.reshape(x, [-1]), kind)
    ends: list[Term] = [call.known(float(n), flat.dtype) for n in (low, high)]
    if low == high:
        ends = [call.op("Reduce", flat, op=word, axes=[0], part=word) for word in ("min", "max")]
        is_one = call.fn("equal", *ends)
        ends = [call.fn("where", is_one, call.fn("add", e, s), e) for e, s in zip(ends, (-1.0, 1.0))]
    span = call.fn("sub", ends[1], ends[0], part="span")
    place = call.fn("div", call.fn("mul", call.fn("sub", flat, ends[0]), float(bins), part="place"), span, part="place")
    place = call.fn("min", call.fn("floor", place, part="bin"), float(bins - 1), part="bin")
    is_within = call.fn(
        "and", call.fn("greater_equal", flat, ends[0]), call.fn("less_equal", flat, ends[1]), part="within"
    )
    at = call.fn("where", is_within, call.cast(place, "i64"), bins, part="bin")  # none beyond the last
    none, one = (call.expand(call.known(n, x.dtype), s) for n, s in ((0, [bins]), (1, flat.shape)))
    return call.op("ScatterND", none, call.reshape(at, [-1, 1]), one, reduction="add")
