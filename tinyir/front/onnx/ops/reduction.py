"""Reductions, running folds, and what is chosen by order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....ir.expr import Expr
from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..node import Node
from ..table import onnx_op
from .elementwise import plain

_REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceProd": "prod",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceSumSquare": "sum_square",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
}


def _reduction(op: str) -> Callable[[Node], Any]:
    def translate(node: Node) -> Any:
        x = plain(node, 0)
        axes = node.ints(1, "axes")
        if not axes:
            axes = [] if node.attr("noop_with_empty_axes", 0) else None
        return node.op("Reduce", x, op=op, axes=axes, keepdims=bool(node.attr("keepdims", 1)), gives=x.dtype)

    return translate


for _name, _op in _REDUCTIONS.items():
    onnx_op(_name)(_reduction(_op))


@onnx_op("ArgMax", "ArgMin")
def arg(node: Node) -> Any:
    """The index of the greatest or the least."""
    x = plain(node, 0)
    attrs = {"select_last_index": bool(node.attr("select_last_index", 0)), "keepdims": bool(node.attr("keepdims", 1))}
    return node.op("Reduce", x, op=node.proto.op_type.lower(), axes=[node.axis(x.rank)], **attrs)


@onnx_op("CumSum", "CumProd")
def cumulative(node: Node) -> Any:
    """Running sums or products."""
    x = plain(node, 0)
    attrs = {"reverse": bool(node.attr("reverse", 0)), "exclusive": bool(node.attr("exclusive", 0))}
    return node.op(node.proto.op_type, x, axis=node.scalar(1), gives=x.dtype, **attrs)


@onnx_op("Hardmax")
def hardmax(node: Node) -> Any:
    """1 at the first maximum along an axis, 0 elsewhere; in opset 12 and earlier over all axes from `axis` on."""
    x = plain(node, 0)
    flat, axis, back = flattened(node, x)
    index = node.op("Reduce", flat, op="argmax", axes=[axis])
    return back(node.op("OneHot", index, depth=flat.shape[axis], axis=axis, dtype=x.dtype))


def flattened(node: Node, x: Term) -> tuple[Term, int, Callable[[Term], Term]]:
    """The operand, the axis, and the way back, of an op that before opset 13 saw its operand as a matrix."""
    if node.opset >= 13:
        return x, node.axis(x.rank, -1), lambda found: found
    from ....ir.rules import product

    axis = node.axis(x.rank, 1)
    if axis == x.rank - 1:
        return x, axis, lambda found: found
    flat = node.reshape(x, [product(x.shape[:axis]), product(x.shape[axis:])])
    return flat, 1, lambda found: node.reshape(found, x.shape)


@onnx_op("TopK")
def top_k(node: Node) -> Any:
    """The k greatest or least along an axis, in order, and where they are."""
    x = plain(node, 0)
    count = node.scalar(1, "k")
    largest, axis = bool(node.attr("largest", 1)), node.axis(x.rank, -1)
    return node.op("TopK", x, outputs=2, k=count, axis=axis, largest=largest)


@onnx_op("OneHot")
def one_hot(node: Node) -> Any:
    """The second value at the index, the first elsewhere."""
    index, values = node.input(0), node.input(2)
    depth = node.scalar(1)
    if isinstance(depth, float):
        if depth != int(depth if math.isfinite(depth) else 0):
            raise node.fault(Phrase("depth is {depth}", depth=depth))
        depth = int(depth)
    if isinstance(depth, int) and depth < 0 or values.shape != (Expr.of(2),):
        raise node.fault(
            Phrase(
                "depth is {depth}, its values have the shape [{values}]",
                depth=depth,
                values=", ".join(map(str, values.shape)),
            )
        )
    is_there = node.op("OneHot", node.cast(index, "i64"), depth=depth, axis=node.attr("axis", -1), dtype=DTYPES["bool"])
    off, on = (
        node.op("Slice", values, starts=[i], ends=[i + 1], axes=[0], part=word) for i, word in enumerate(("off", "on"))
    )
    return node.fn("where", is_there, on, off)
