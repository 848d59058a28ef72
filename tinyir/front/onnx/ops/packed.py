"""Products with weights of few bits, several of them in a byte: onnxruntime's MatMulNBits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..node import Node
from ..table import onnx_op
from .elementwise import plain
from .fused import MICROSOFT

BYTE = 8


def unpacked(node: Node, x: Term, bits: int, count: Any) -> Term:
    """The first `count` numbers of each row of bytes [N, ...], as u8 [N, count]: the first of a byte is in its low
    bits."""
    if bits == BYTE:
        return node.cut(x, 1, 0, count) if x.shape[1] != Expr.of(count) else x
    each = BYTE // bits
    wide = node.op("Unsqueeze", x, axes=[2], part="byte")
    place = node.op("Iota", shape=[each], axis=0, dtype="u8", part="place")
    shifts = node.fn("mul", place, node.known(np.uint8(bits), "u8"), part="by")
    apart = node.fn("shift_right", wide, shifts, part="apart")
    found = node.fn("and", apart, node.known(np.uint8((1 << bits) - 1), "u8"), part="number")
    flat = node.reshape(found, [x.shape[0], x.shape[1] * each])
    return flat if flat.shape[1] == Expr.of(count) else node.cut(flat, 1, 0, count)


def spread(node: Node, x: Term, block: int, count: int) -> Term:
    """A number of each block as one of each of its `count` places: [N, blocks] as [N, count]."""
    wide = node.op("Unsqueeze", x, axes=[2], part="block")
    each = node.op("Expand", wide, shape=[*x.shape, Expr.of(block)], part="block")
    flat = node.reshape(each, [x.shape[0], x.shape[1] * block])
    return flat if flat.shape[1] == Expr.of(count) else node.cut(flat, 1, 0, count)


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(node: Node) -> Any:
    """x W' + bias with W of shape [N, K], in blocks along K that have a scale each, and a zero point, or 2 ** (bits -
    1)."""
    x, packed, scale = plain(node, 0), node.input(1), plain(node, 2)
    bits, block, depth, columns = (
        node.attr(key, 4 if key == "bits" else 0) for key in ("bits", "block_size", "K", "N")
    )
    if bits not in (2, 4, 8):
        raise node.fault(Phrase("it has {bits} bits", bits=bits))
    if node.has(4):
        raise node.fault(Phrase("it has a group for each place of K"))
    if block <= 0 or block * bits % BYTE or depth <= 0 or columns <= 0:
        raise node.fault(
            Phrase("it has blocks of {block} for K = {depth}, N = {columns}", block=block, depth=depth, columns=columns)
        )
    blocks = -(-depth // block)
    if packed.dtype.name != "u8":
        raise node.fault(Phrase("its weights are {dtype}", dtype=packed.dtype))
    bytes_of_row = node.reshape(packed, [columns, blocks * block * bits // BYTE])
    number = node.cast(unpacked(node, bytes_of_row, bits, depth), "fp32")
    if node.has(3):
        zero = node.input(3)
        if zero.dtype.is_float:
            each = node.cast(node.reshape(zero, [columns, blocks]), "fp32")
        else:
            rows = node.reshape(zero, [columns, -(-blocks * bits // BYTE)])
            each = node.cast(unpacked(node, rows, bits, blocks), "fp32")
        centred = node.fn("sub", number, spread(node, each, block, depth), part="centred")
    else:
        centred = node.fn("sub", number, float(1 << bits - 1), part="centred")
    scales = spread(node, node.cast(node.reshape(scale, [columns, blocks]), "fp32"), block, depth)
    weight = node.cast(node.fn("mul", centred, scales, part="weight"), x.dtype)
    found = node.op("MatMul", x, node.transpose(weight, [1, 0]), gives=x.dtype)
    return node.fn("add", found, plain(node, 5), part="biased") if node.has(5) else found
