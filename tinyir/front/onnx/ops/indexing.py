"""Ops whose places are values."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import known
from ..node import Node
from ..table import onnx_op

_REDUCTIONS = ("none", "add", "mul", "max", "min")


@onnx_op("Gather")
def gather(node: Node) -> Any:
    """Read along an axis at an index tensor."""
    x = node.input(0)
    found = node.op("Gather", x, node.input(1), axis=node.attr("axis", 0))
    found.form = x.form
    return found


@onnx_op("GatherElements")
def gather_elements(node: Node) -> Any:
    """Read along an axis, each element at its own index."""
    return node.op("GatherElements", node.input(0), node.input(1), axis=node.attr("axis", 0))


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(node: Node) -> Any:
    """A copy with elements put at their own index along an axis."""
    reduction = node.attr("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise node.fault(Phrase("reduction is {reduction}", reduction=reduction))
    return node.op(
        "Scatter", node.input(0), node.input(1), node.input(2), axis=node.attr("axis", 0), reduction=reduction
    )


@onnx_op("GatherND")
def gather_nd(node: Node) -> Any:
    """Read at tuples of indices, one set of tuples for each of the first `batch_dims` places."""
    return node.op("GatherND", node.input(0), node.cast(node.input(1), "i64"), batch=node.attr("batch_dims", 0))


@onnx_op("ScatterND")
def scatter_nd(node: Node) -> Any:
    """A copy with slices put at tuples of indices."""
    reduction = node.attr("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise node.fault(Phrase("reduction is {reduction}", reduction=reduction))
    return node.op("ScatterND", node.input(0), node.cast(node.input(1), "i64"), node.input(2), reduction=reduction)


@onnx_op("TensorScatter")
def tensor_scatter(node: Node) -> Any:
    """A cache with new rows put from an index on that each batch has for itself, round and round when `circular`."""
    cache, update = node.input(0), node.input(1)
    axis = node.axis(cache.rank, -2)
    if cache.rank != update.rank or axis == 0:
        raise node.fault(Phrase("the cache and its update do not have the same axes, or rows go along the batch"))
    rows, room = update.shape[axis], cache.shape[axis]
    line = node.op("Iota", shape=[rows])
    place = node.reshape(line, [1, rows])
    if node.has(2):
        place = node.fn("add", place, node.reshape(node.cast(node.input(2), "i64"), [cache.shape[0], 1]))
    if node.attr("mode", "linear") == "circular":
        place = node.fn("mod", place, known(room, "i64"))
    shape = [Expr.of(1)] * cache.rank
    shape[0], shape[axis] = place.shape[0], rows
    index = node.op("Expand", node.reshape(place, shape), shape=list(update.shape))
    return node.op("Scatter", cache, index, update, axis=axis)
