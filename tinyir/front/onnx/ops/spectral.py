"""Fourier transforms."""

from __future__ import annotations

from typing import Any

from ....kit.phrase import Phrase
from ...program.fourier import LONGEST, fourier
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import plain


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
    count = x.shape[-1].constant
    if (
        not isinstance(length, int)
        or not 0 < length <= LONGEST
        or x.shape[axis].constant is None
        or count not in (1, 2)
    ):
        raise node.fault(
            Phrase(
                "it has {length} places of {shape} parts; known lengths up to {most} of 1 or 2 parts are supported",
                length=length,
                shape=x.shape[-1],
                most=LONGEST,
            )
        )
    last = x.rank - 1
    parts = [node.reshape(node.cut(x, last, p, p + 1), x.shape[:-1]) for p in range(count)]
    sides = fourier(node, parts, axis, length, is_inverse, is_one_sided, 1 / length if is_inverse else 1.0)
    joined = [node.op("Unsqueeze", s, axes=[-1], part="side") for s in sides]
    return node.op("Concat", *joined, axis=last, part="sides") if len(joined) == 2 else joined[0]
