"""Softmax and the normalisations."""

from __future__ import annotations

from typing import Any

from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import operands, plain
from .reduction import flattened


@onnx_op("Softmax", "LogSoftmax")
def softmax(node: Node) -> Any:
    """Along an axis; in opset 12 and earlier over all axes from `axis` on."""
    x, axis, back = flattened(node, plain(node, 0))
    return back(node.op(node.proto.op_type, x, axis=axis))


@onnx_op("BatchNormalization")
def batch_norm(node: Node) -> Any:
    """Inference by stored statistics; in training by those of the batch, which join the stored ones. Opset 13 and
    earlier train where they name further outputs."""
    x, scale, bias, average, square = operands(node)[:5]
    eps = node.attr("epsilon", 1e-5)
    is_training = bool(node.attr("training_mode", 0))
    if any(node.wants(i) for i in range(1, 5)):
        if node.opset >= 14 and not is_training:
            raise node.fault(Phrase("it gives statistics and does not train"))
        is_training = True
    if not node.attr("spatial", 1):  # opset 8 and earlier: statistics of each element of an image, not of each channel
        if is_training:
            raise node.fault(Phrase("it trains, and spatial is 0"))
        wide = node.fn("rsqrt", node.fn("add", square, eps))
        return node.fn("add", node.fn("mul", node.fn("mul", node.fn("sub", x, average), wide), scale), bias)
    if not is_training:
        return node.op("BatchNorm", x, scale, bias, average, square, eps=eps)
    axes = [a for a in range(x.rank) if a != 1]
    own, spread = (node.op("Reduce", x, op=op, axes=axes) for op in ("mean", "var"))
    found = node.op("BatchNorm", x, scale, bias, own, spread, eps=eps)
    momentum = node.attr("momentum", 0.9)

    def joined(old: Term, new: Term, part: str) -> Term:
        new = node.cast(new, old.dtype)
        return node.fn("add", node.fn("mul", old, momentum), node.fn("mul", new, 1 - momentum), part=part)

    statistics = (
        [joined(average, own, "mean"), joined(square, spread, "var")]
        if any(node.wants(i) for i in (1, 2))
        else [None, None]
    )
    return found, *statistics, own, spread


@onnx_op("LayerNormalization")
def layer_norm(node: Node) -> Any:
    """Over the axes from `axis` on; with the mean and the reciprocal deviation where they are asked for."""
    terms = [plain(node, i) for i in range(3 if node.has(2) else 2)]
    outputs = 3 if node.wants(2) else 2 if node.wants(1) else 1
    return node.op("LayerNorm", *terms, axis=node.attr("axis", -1), eps=node.attr("epsilon", 1e-5), outputs=outputs)


@onnx_op("RMSNormalization")
def rms_norm(node: Node) -> Any:
    """By the root of the mean square over the axes from `axis` on."""
    return node.op("RMSNorm", *operands(node), axis=node.attr("axis", -1), eps=node.attr("epsilon", 1e-5))


@onnx_op("GroupNormalization")
def group_norm(node: Node) -> Any:
    """Over groups of channels; up to opset 20 scale and bias are one a group, later one a channel."""
    x, scale, bias = operands(node)
    groups = node.attr("num_groups")
    if node.opset < 21:
        each = x.shape[1] // groups
        scale, bias = (
            node.reshape(node.op("Expand", node.reshape(t, [groups, 1]), shape=[groups, each]), [x.shape[1]])
            for t in (scale, bias)
        )
    return node.op("GroupNorm", x, scale, bias, groups=groups, eps=node.attr("epsilon", 1e-5))


@onnx_op("InstanceNormalization")
def instance_norm(node: Node) -> Any:
    """Over each channel of each image."""
    return node.op("InstanceNorm", *operands(node), eps=node.attr("epsilon", 1e-5))


@onnx_op("LpNormalization")
def lp_norm(node: Node) -> Any:
    """By the 1- or 2-norm along an axis."""
    return node.op("LpNorm", plain(node, 0), axis=node.attr("axis", -1), p=int(node.attr("p", 2)))


@onnx_op("LRN")
def local_response(node: Node) -> Any:
    """x / (bias + alpha * mean of squares over `size` channels around) ** beta."""
    x, size = plain(node, 0), node.attr("size")
    wide = DTYPES["fp32"] if x.dtype.bits < 32 else x.dtype
    image = node.reshape(node.cast(x, wide), [x.shape[0], 1, x.shape[1], -1])
    before, after = (size - 1) // 2, size // 2
    average = node.op(
        "Pool",
        node.fn("square", image),
        mode="average",
        kernel=[size, 1],
        pad=[before, 0, after, 0],
        count_include_pad=True,
    )
    base = node.fn("add", node.fn("mul", average, node.attr("alpha", 1e-4)), node.attr("bias", 1.0))
    scale = node.fn("pow", base, known(node.attr("beta", 0.75), wide))
    return node.cast(node.reshape(node.fn("div", image, scale), x.shape), x.dtype)


@onnx_op("MeanVarianceNormalization")
def mean_variance(node: Node) -> Any:
    """(x - mean) / (deviation + 1e-9) over axes."""
    x, axes = plain(node, 0), list(node.attr("axes", (0, 2, 3)))
    average = node.op("Reduce", x, op="mean", axes=axes, keepdims=True, gives=x.dtype)
    spread = node.op("Reduce", x, op="std", axes=axes, keepdims=True, gives=x.dtype)
    return node.fn("div", node.fn("sub", x, average), node.fn("add", spread, 1e-9))
