"""Ops of onnxruntime's domain com.microsoft on quantised numbers, each of which means (q - zero) * scale. Products are
added in i32; all else is computed in fp32 of the numbers that are meant, and quantised again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.types import DTYPES
from ...program.terms import Term
from ..node import Node
from ..table import onnx_op
from .elementwise import plain
from .fused import MICROSOFT
from .quantized import centred, dequantize, dynamic, qlinear_conv, quantize, saturated
from .reduction import flattened
from .windows import average_pool, window

onnx_op("QuantizeLinear", domain=MICROSOFT)(quantize)
onnx_op("DequantizeLinear", domain=MICROSOFT)(dequantize)


def _scale(node: Node, position: int) -> Term:
    """A scale in fp32, one for all or one for each place of the last axis."""
    return node.cast(plain(node, position), DTYPES["fp32"])


def _meant(node: Node, position: int) -> Term:
    """The numbers that an input means, whose scale and zero come after it."""
    whole = centred(node, node.input(position), node.optional(position + 2))
    return node.fn("mul", node.cast(whole, DTYPES["fp32"]), _scale(node, position + 1), part="meant")


def _again(node: Node, x: Term, position: int, like: Term) -> Term:
    """Numbers as the scale at `position` and the zero after it quantise them, in the dtype of `like`."""
    ratio = node.fn("div", x, _scale(node, position), part="ratio")
    return saturated(node, ratio, node.optional(position + 1), like.dtype, like.form)


@onnx_op("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def binary(node: Node) -> Any:
    """The sum or the product of two, which broadcast."""
    fn = "add" if node.proto.op_type == "QLinearAdd" else "mul"
    return _again(node, node.fn(fn, _meant(node, 0), _meant(node, 3), part=fn), 6, node.input(0))


@onnx_op("QLinearWhere", domain=MICROSOFT)
def where(node: Node) -> Any:
    """The one where a condition holds, the other elsewhere."""
    found = node.fn("where", node.input(0), _meant(node, 1), _meant(node, 4), part="chosen")
    return _again(node, found, 7, node.input(1))


@onnx_op("QLinearConcat", domain=MICROSOFT)
def concat(node: Node) -> Any:
    """Several, one after the other along an axis."""
    first = node.input(2)
    terms = [_meant(node, n) for n in range(2, len(node.inputs), 3)]
    found = node.op("Concat", *terms, axis=node.axis(first.rank), part="joined") if len(terms) > 1 else terms[0]
    return _again(node, found, 0, first)


def _unary(meaning: Callable[[Node, Term], Term]) -> Callable[[Node], Any]:
    """An op of one input: its numbers, their scale and zero; then those of the result."""
    return lambda node: _again(node, meaning(node, _meant(node, 0)), 3, node.input(0))


def _softmax(node: Node, x: Term) -> Term:
    node.opset = node.attr("opset", 13)  # of the standard's op that it was
    flat, axis, back = flattened(node, x)
    return back(node.op("Softmax", flat, axis=axis, part="softmax"))


def _pooled(node: Node, x: Term, pool: Callable[[Term], Term]) -> Term:
    """A pool over an image, whose channels may be last."""
    if not node.attr("channels_last", 0):
        return pool(x)
    return _channels_last(node, pool(_channels_first(node, x)))


def _channels_first(node: Node, x: Term) -> Term:
    return node.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def _channels_last(node: Node, x: Term) -> Term:
    return node.transpose(x, [0, *range(2, x.rank), 1])


def _average_pool(node: Node, x: Term) -> Term:
    def pool(image: Term) -> Term:
        given, node.inputs = node.inputs, [image]
        further = _further(node, image)
        if any(further):
            rank, how = image.rank - 2, window(node)
            pads = how["pad"] or [0] * 2 * rank
            how["pad"] = [*pads[:rank], *(high + more for high, more in zip(pads[rank:], further))]
            kernel = node.attr("kernel_shape")
            found = node.op("Pool", image, mode="average", kernel=kernel, count_include_pad=True, **how)
        else:
            found = average_pool(node)
        node.inputs = given
        return found

    return _pooled(node, x, pool)


def _further(node: Node, image: Term) -> list[int]:
    """How much further to pad at the ends of an image so that partial windows are whole. Where onnxruntime counts
    padding it divides by the whole window, and so by what of a last window hangs over the padding, which the standard's
    op does not count. A window that would begin behind the image is none; of sizes that are not known the standard's op
    says whether there may be one."""
    is_explicit = node.attr("auto_pad", "NOTSET") in ("NOTSET", "")
    if not (node.attr("ceil_mode", 0) and node.attr("count_include_pad", 0) and is_explicit):
        return []
    rank, kernel = image.rank - 2, node.attr("kernel_shape")
    pads, strides = node.attr("pads") or [0] * 2 * rank, node.attr("strides") or [1] * rank
    found = []
    for size, k, stride, low, high in zip(image.shape[2:], kernel, strides, pads, pads[rank:]):
        if size.constant is None:
            if k - 1 - high < stride - 1:
                return []
            found.append(stride - 1)
        else:
            begin = -(-(size.constant + low + high - k) // stride) * stride
            found.append(stride - 1 if begin < size.constant + low else 0)
    return found


def _global_average_pool(node: Node, x: Term) -> Term:
    return _pooled(node, x, lambda image: node.op("Pool", image, mode="average", part="mean"))


_UNARY: dict[str, Callable[[Node, Term], Term]] = {
    "QLinearSigmoid": lambda node, x: node.fn("sigmoid", x, part="sigmoid"),
    "QLinearLeakyRelu": lambda node, x: node.fn("leaky_relu", x, alpha=node.attr("alpha", 0.01), part="leaky"),
    "QLinearSoftmax": _softmax,
    "QLinearAveragePool": _average_pool,
    "QLinearGlobalAveragePool": _global_average_pool,
}
for _name, _meaning in _UNARY.items():
    onnx_op(_name, domain=MICROSOFT)(_unary(_meaning))


@onnx_op("QLinearConv", domain=MICROSOFT)
def conv(node: Node) -> Any:
    """The standard's, of an image whose channels may be last."""
    if not node.attr("channels_last", 0):
        return qlinear_conv(node)
    node.inputs[0] = _channels_first(node, node.input(0))
    return _channels_last(node, qlinear_conv(node))


@onnx_op("QGemm", domain=MICROSOFT)
def gemm(node: Node) -> Any:
    """alpha * A' B' and a bias in i32, quantised again where the result has a scale. Scale and zero of B may be one for
    each column."""
    left, right = (
        centred(node, node.input(n), None if word == "B" else node.optional(n + 2)) for n, word in ((0, "A"), (3, "B"))
    )
    if node.attr("transA", 0):
        left = node.transpose(left, [1, 0])
    if node.attr("transB", 0):
        right = node.transpose(right, [1, 0])
    if node.has(5):
        right = node.fn("sub", right, node.cast(node.input(5), DTYPES["i32"]), part="centred")
    sums = node.op("MatMul", left, right, acc_dtype=DTYPES["i32"], part="sums")
    if node.has(6):
        sums = node.fn("add", sums, node.input(6), part="sums")
    found = _scaled(node, sums, _scale(node, 1), _scale(node, 4), node.attr("alpha", 1.0))
    return _again(node, found, 7, node.input(8) if node.has(8) else node.input(0)) if node.has(7) else found


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_to_float(node: Node) -> Any:
    """A product of quantised matrices in fp32, and a bias."""
    left, right = (centred(node, node.input(n), node.optional(n + 4)) for n in (0, 1))
    return _to_float(node, left, right, _scale(node, 2), _scale(node, 3), 6)


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_matmul(node: Node) -> Any:
    """A product of A, quantised by its own range, with a quantised matrix, and a bias."""
    left, scale = dynamic(node, plain(node, 0))
    return _to_float(node, left, centred(node, node.input(1), node.optional(3)), scale, _scale(node, 2), 4)


def _to_float(node: Node, left: Term, right: Term, scale: Term, other: Term, bias: int) -> Term:
    sums = node.op("MatMul", left, right, acc_dtype=DTYPES["i32"], part="sums")
    found = _scaled(node, sums, scale, other, 1.0)
    return node.fn("add", found, plain(node, bias), part="biased") if node.has(bias) else found


def _scaled(node: Node, sums: Term, scale: Term, other: Term, alpha: float) -> Term:
    factor = node.fn("mul", scale, other, part="scale")
    if alpha != 1.0:
        factor = node.fn("mul", factor, alpha, part="scale")
    return node.fn("mul", node.cast(sums, DTYPES["fp32"]), factor, part="scaled")
