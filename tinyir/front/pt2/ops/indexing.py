"""Ops whose places are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@aten("embedding.default")
def embedding(call: Call) -> Any:
    """Rows of a table."""
    return call.op("Gather", call.tensor("weight"), call.tensor("indices"), axis=0)


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
    """A copy into which elements are reduced at their own place along an axis."""
    word = call.get("reduce")
    if word not in _REDUCTIONS or not call.get("include_self", True):
        raise call.fault(Phrase("reduce is {word}, or what was there does not count", word=word))
    return _scattered(call, call.tensor("self"), call.tensor("index"), _REDUCTIONS[word])


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
