"""Quantised numbers: integers, or narrow floats, that mean (q - zero) * scale. Arithmetic on them is exact in i32,
scaling is done in fp32."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....ir.types import DTYPES, DType
from ....kit.diag import refuse
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import converted, plain
from .windows import window

_RANGES = {"i4": (-8, 7), "u4": (0, 15), "i2": (-2, 1), "u2": (0, 3)}


def _axis(node: Node, x: Term, scale: Term) -> int:
    """The axis that the scale goes along; one scale for all goes along none."""
    return 0 if scale.rank == 0 or scale.rank == 1 and scale.shape[0].constant == 1 else node.axis(x.rank, 1)


def _along(node: Node, x: Term, parameter: Term, axis: int, block: int) -> Term:
    """A scale or a zero point as it broadcasts to x: one for all, one for each place along `axis`, or one for each
    block of it."""
    if parameter.rank == 0 or parameter.rank == 1 and parameter.shape[0].constant == 1:
        return node.reshape(parameter, []) if parameter.rank else parameter
    if block:
        wide = node.op("Unsqueeze", parameter, axes=[axis + 1], part="block")
        shape = [*parameter.shape[: axis + 1], Expr.of(block), *parameter.shape[axis + 1 :]]
        merged = node.reshape(
            node.op("Expand", wide, shape=shape, part="block"),
            [*parameter.shape[:axis], parameter.shape[axis] * block, *parameter.shape[axis + 1 :]],
        )
        found = merged if merged.shape[axis] == x.shape[axis] else node.cut(merged, axis, 0, x.shape[axis])
        found.form = parameter.form
        return found
    found = node.reshape(parameter, [parameter.shape[0] if a == axis else 1 for a in range(x.rank)])
    found.form = parameter.form
    return found


@onnx_op("QuantizeLinear")
def quantize(node: Node) -> Any:
    """round(x / scale) + zero, within the range of the result."""
    x, scale = plain(node, 0), plain(node, 1)
    axis, block = _axis(node, x, scale), node.attr("block_size", 0)
    zero = node.optional(2)
    dtype, form = (zero.dtype, zero.form) if zero is not None else node.element(node.attr("output_dtype", 0) or 2)
    f32 = DTYPES["fp32"]
    ratio = node.fn("div", node.cast(x, f32), node.cast(_along(node, x, scale, axis, block), f32), part="ratio")
    if dtype.is_float or form.startswith("fp"):
        if zero is not None:
            own = _along(node, x, zero, axis, block)
            ratio = node.fn("add", ratio, node.cast(_decoded(node, own), f32), part="shifted")
        return converted(node, ratio, dtype, form)
    return saturated(node, ratio, None if zero is None else _along(node, x, zero, axis, block), dtype, form)


def saturated(node: Node, ratio: Term, zero: Term | None, dtype: DType, form: str) -> Term:
    """round(ratio) + zero, within the range of the dtype."""
    found = node.fn("round", ratio)
    if zero is not None:
        found = node.fn("add", found, node.cast(zero, DTYPES["fp32"]), part="shifted")
    low, high = _RANGES.get(form, (dtype.lowest, dtype.highest))
    found = node.fn("cast", node.fn("clip", found, min=low, max=high, part="saturated"), to=dtype)
    found.form = form
    return found


@onnx_op("DequantizeLinear")
def dequantize(node: Node) -> Any:
    """(x - zero) * scale, in the dtype of the scale."""
    x, scale = node.input(0), plain(node, 1)
    axis, block = _axis(node, x, scale), node.attr("block_size", 0)
    gives = node.element(node.attr("output_dtype", 0))[0] if node.attr("output_dtype", 0) else scale.dtype
    number = centred(node, x, None if not node.has(2) else _along(node, x, node.input(2), axis, block))
    f32 = DTYPES["fp32"]
    return node.cast(
        node.fn("mul", node.cast(number, f32), node.cast(_along(node, x, scale, axis, block), f32), part="scaled"),
        gives,
    )


def centred(node: Node, x: Term, zero: Term | None) -> Term:
    """x - zero: integers in i32, narrow floats in fp32."""
    wide = DTYPES["fp32" if x.dtype.is_float or x.form.startswith("fp") else "i32"]
    number = node.cast(_decoded(node, x), wide)
    return number if zero is None else node.fn("sub", number, node.cast(_decoded(node, zero), wide), part="centred")


def dynamic(node: Node, x: Term) -> tuple[Term, Term]:
    """x as DynamicQuantizeLinear has it, in u8 from its least to its greatest number, 0 among them: q - zero in i32,
    and the scale in fp32."""
    low, high = (node.fn(op, node.op("Reduce", x, op=op, part=op), 0.0, part=op) for op in ("min", "max"))
    scale = node.fn("div", node.fn("sub", high, low), 255.0, part="scale")
    safe = node.fn("where", node.fn("equal", scale, 0.0), known(1.0, "fp32"), scale, part="scale")
    zero = node.fn(
        "clip",
        node.fn("round", node.fn("sub", 0.0, node.fn("div", low, safe)), part="zero"),
        min=0.0,
        max=255.0,
        part="zero",
    )
    number = node.fn(
        "clip", node.fn("add", node.fn("round", node.fn("div", x, safe)), zero), min=0.0, max=255.0, part="quantised"
    )
    return node.cast(node.fn("sub", number, zero, part="centred"), "i32"), scale


def _decoded(node: Node, x: Term) -> Term:
    return node.op("Decode", x, format=x.form) if x.form else x


def _zero(node: Node, position: int) -> Term | None:
    return node.optional(position)


@onnx_op("MatMulInteger")
def matmul_integer(node: Node) -> Any:
    """(a - zero) (b - zero) in i32."""
    return _product(node, 0, 1, 2, 3)


def _product(node: Node, a: int, b: int, a_zero: int, b_zero: int) -> Term:
    left, right = node.input(a), node.input(b)
    zero = _zero(node, a_zero)
    if zero is not None and zero.rank == 1 and zero.shape[0].constant != 1:
        zero = node.reshape(zero, [zero.shape[0], 1])
    return node.op(
        "MatMul",
        centred(node, left, zero),
        centred(node, right, _zero(node, b_zero)),
        acc_dtype=DTYPES["i32"],
        part="sums",
    )


@onnx_op("QLinearMatMul")
def qlinear_matmul(node: Node) -> Any:
    """The product of two quantised matrices, quantised again."""
    left, right = node.input(0), node.input(3)
    if left.dtype.is_float or right.dtype.is_float:
        raise refuse("E0124", node.name, op="QLinearMatMul", fault=Phrase("its operands are {dtype}", dtype=left.dtype))
    sums = _product(node, 0, 3, 2, 5)
    f32 = DTYPES["fp32"]
    scales = [node.cast(plain(node, i), f32) for i in (1, 4, 6)]
    if scales[0].rank == 1 and scales[0].shape[0].constant != 1:
        scales[0] = node.reshape(scales[0], [scales[0].shape[0], 1])
    return _requantised(node, sums, scales, node.input(7))


def _requantised(node: Node, sums: Term, scales: list[Term], zero: Term) -> Term:
    factor = node.fn("div", node.fn("mul", scales[0], scales[1], part="scale"), scales[2], part="factor")
    return saturated(
        node, node.fn("mul", node.cast(sums, DTYPES["fp32"]), factor, part="scaled"), zero, zero.dtype, zero.form
    )


@onnx_op("ConvInteger")
def conv_integer(node: Node) -> Any:
    """A convolution of quantised numbers in i32; what is put around x is its zero."""
    return _convolved(node, 0, 1, 2, 3, None)


@onnx_op("QLinearConv")
def qlinear_conv(node: Node) -> Any:
    """A convolution of quantised numbers, quantised again."""
    sums = _convolved(node, 0, 3, 2, 5, 8)
    scales = [node.cast(plain(node, i), DTYPES["fp32"]) for i in (1, 4, 6)]
    scales[1] = _channels(node, scales[1], sums.rank - 2)
    return _requantised(node, sums, scales, node.input(7))


def _channels(node: Node, x: Term, trailing: int) -> Term:
    return node.reshape(x, [x.shape[0], *[1] * trailing]) if x.rank == 1 and x.shape[0].constant != 1 else x


def _convolved(node: Node, x: int, w: int, x_zero: int, w_zero: int, bias: int | None) -> Term:
    image, weights, zero = node.input(x), node.input(w), _zero(node, w_zero)
    if zero is not None and zero.rank == 1 and zero.shape[0].constant != 1:
        zero = node.reshape(zero, [zero.shape[0], *[1] * (weights.rank - 1)])
    terms = [centred(node, image, _zero(node, x_zero)), centred(node, weights, zero)]
    if bias is not None and node.has(bias):
        terms.append(node.input(bias))
    return node.op("Conv", *terms, groups=node.attr("group", 1), acc_dtype=DTYPES["i32"], part="sums", **window(node))
