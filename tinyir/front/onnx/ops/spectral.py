"""Fourier transforms: products with the matrices of cosines and sines, which are computed from indices, so that no
table is carried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....ir.expr import Expr
from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import plain

MAX_LENGTH = 1 << 14


@onnx_op("DFT")
def dft(node: Node) -> Any:
    """Along an axis, of `dft_length` places: a shorter signal is followed by zeros, a longer one is cut."""
    x = plain(node, 0)
    axis = node.scalar(2, "", node.attr("axis", 1 if node.opset < 20 else -2))
    if not isinstance(axis, int) or not -x.rank <= axis < x.rank or axis % x.rank == x.rank - 1:
        raise node.fault(Phrase("its axis is {axis}", axis=axis))
    axis %= x.rank
    is_inverse, is_one_sided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    size = x.shape[axis].constant
    usual = None if size is None else 2 * (size - 1) if is_inverse and is_one_sided else size
    return transform(node, x, axis, node.scalar(1, "", usual), is_inverse, is_one_sided)


@onnx_op("STFT")
def stft(node: Node) -> Any:
    """The transforms of frames of the signal [B, L, 1 or 2], each weighed by the window: [B, frames, frequencies,
    2]."""
    x, step = plain(node, 0), node.scalar(1)
    if node.has(2) and node.input(2).rank != 1:
        raise node.fault(Phrase("its window has {rank} axes", rank=node.input(2).rank))
    length = node.scalar(3, "", node.input(2).shape[0].constant if node.has(2) else None)
    if x.rank != 3 or not isinstance(step, int) or not isinstance(length, int) or step < 1 or length < 1:
        raise node.fault(
            Phrase(
                "its signal has {rank} axes, its frames are {length} long and {step} apart",
                rank=x.rank,
                length=length,
                step=step,
            )
        )
    frames = (x.shape[1] - length) // step + 1
    starts, within = (
        node.op("Iota", shape=[frames, 1], part="frame"),
        node.op("Iota", shape=[1, length], axis=1, part="within"),
    )
    places = node.fn("add", node.fn("mul", starts, known(step, "i64")) if step > 1 else starts, within, part="place")
    framed = node.op("Gather", x, places, axis=1, part="frames")
    if node.has(2):
        framed = node.fn("mul", framed, node.reshape(plain(node, 2), [length, 1]), part="weighed")
    return transform(node, framed, 2, length, False, bool(node.attr("onesided", 1)))


def transform(node: Node, x: Term, axis: int, length: Any, is_inverse: bool, is_one_sided: bool) -> Term:
    """The transform along `axis` of x, whose last axis holds the real part, or the real and the imaginary one."""
    if (
        not isinstance(length, int)
        or not 0 < length <= MAX_LENGTH
        or x.shape[axis].constant is None
        or x.shape[-1].constant not in (1, 2)
    ):
        raise node.fault(
            Phrase(
                "it has {length} places of {shape} parts; known lengths up to {most} of 1 or 2 parts are supported",
                length=length,
                shape=x.shape[-1],
                most=MAX_LENGTH,
            )
        )
    used = length // 2 + 1 if is_inverse and is_one_sided else length
    have = x.shape[axis].constant
    if have > used:
        x = node.cut(x, axis, 0, used)
    used = min(have, used)
    last = x.rank - 1
    order = [a for a in range(last) if a != axis] + [axis, last]
    turned = node.transpose(x, order)
    parts = [node.reshape(node.cut(turned, last, p, p + 1), turned.shape[:-1]) for p in range(x.shape[-1].constant)]
    outputs = length // 2 + 1 if is_one_sided and not is_inverse else length
    wide = DTYPES["fp64"]  # waves cancel: what is left of them must not be the rounding of what was
    cosine, sine = _waves(node, used, outputs, length, wide)

    def product(part: Term, wave: Term) -> Term:
        return node.op("MatMul", node.cast(part, wide), wave, part="product")

    real, imaginary = product(parts[0], cosine), product(parts[0], sine)
    if is_inverse and is_one_sided:  # each place but the first, and the middle one, counts for two
        weights = [1.0 if k == 0 or 2 * k == length else 2.0 for k in range(used)]
        line = known(weights, wide)
        parts = [node.fn("mul", node.cast(p, wide), line) for p in parts]
        real = product(parts[0], cosine)
        if len(parts) == 2:
            real = node.fn("sub", real, product(parts[1], sine))
        sides = [node.fn("mul", real, 1 / length)]
    else:
        imaginary = imaginary if is_inverse else node.fn("neg", imaginary)
        if len(parts) == 2:
            crossed = product(parts[1], sine)
            real = node.fn("sub" if is_inverse else "add", real, crossed)
            imaginary = node.fn("add", imaginary, product(parts[1], cosine))
        sides = [node.fn("mul", s, 1 / length) if is_inverse else s for s in (real, imaginary)]
    joined = [node.op("Unsqueeze", node.cast(s, x.dtype), axes=[-1], part="side") for s in sides]
    whole = node.op("Concat", *joined, axis=last, part="sides") if len(joined) == 2 else joined[0]
    return node.transpose(whole, [order.index(a) for a in range(x.rank)])


def _waves(node: Node, rows: int, columns: int, length: int, wide: Any) -> Sequence[Term]:
    """cos and sin of 2 pi i k / length, [rows, columns]; the product is reduced first, so that the angle is exact."""
    i, k = (node.op("Iota", shape=[Expr.of(rows), Expr.of(columns)], axis=a) for a in (0, 1))
    turn = node.fn("mod", node.fn("mul", i, k), known(length, "i64"), part="turn")
    angle = node.fn("mul", node.cast(turn, wide), known(2 * math.pi / length, wide), part="angle")
    return node.fn("cos", angle), node.fn("sin", angle)
