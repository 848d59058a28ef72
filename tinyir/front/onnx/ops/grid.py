"""Sampling at places that are computed: GridSample, and the scatterings of windows, Col2Im and MaxUnpool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....ir.rules import product
from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import plain

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_CUBIC = -0.75


@onnx_op("GridSample")
def grid_sample(node: Node) -> Any:
    """x of [N, C, *S] at the places of a grid [N, *O, n], from -1 to 1 along each axis, the last axis of x first."""
    x, grid = plain(node, 0), plain(node, 1)
    mode = _MODES.get(node.attr("mode", "linear"), node.attr("mode", "linear"))
    padding, is_aligned = node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0))
    count = x.rank - 2
    if (
        mode not in ("nearest", "linear", "cubic")
        or padding not in ("zeros", "border", "reflection")
        or grid.rank != x.rank
        or grid.shape[-1] != Expr.of(count)
    ):
        raise node.fault(
            Phrase(
                "mode {mode}, padding_mode {padding}, a grid of {rank} axes for an image of {count}",
                mode=mode,
                padding=padding,
                rank=grid.rank,
                count=count,
            )
        )
    places = product(grid.shape[1:-1])
    axes = []
    for axis in range(count):
        size = x.shape[2 + axis].constant
        if not size:
            raise node.fault(Phrase("axis {axis} has the size {shape}", axis=2 + axis, shape=x.shape[2 + axis]))
        part = node.cut(grid, grid.rank - 1, count - 1 - axis, count - axis)
        axes.append(
            _Axis(
                node,
                node.cast(node.reshape(part, [x.shape[0], 1, places]), DTYPES["fp32"]),
                size,
                mode,
                padding,
                is_aligned,
            )
        )
    flat = node.reshape(x, [x.shape[0], x.shape[1], product(x.shape[2:])])
    total = None
    for taps in itertools.product(*(a.taps for a in axes)):
        index, weight = None, None
        for axis, (place, own) in zip(axes, taps):
            index = (
                place
                if index is None
                else node.fn("add", node.fn("mul", index, known(axis.size, "i64")), place, part="index")
            )
            weight = own if weight is None or own is None else node.fn("mul", weight, own, part="weight")
        whole = node.op("Expand", index, shape=[x.shape[0], x.shape[1], places], part="index")
        found = node.op("GatherElements", flat, whole, axis=2, part="tap")
        term = found if weight is None else node.fn("mul", node.cast(found, DTYPES["fp32"]), weight, part="weighed")
        total = term if total is None else node.fn("add", total, term, part="sum")
    return node.reshape(node.cast(total, x.dtype), [x.shape[0], x.shape[1], *grid.shape[1:-1]])


class _Axis:
    """One axis of the image: for each tap the places, of i64, and their weights (None: 1)."""

    def __init__(self, node: Node, at: Term, size: int, mode: str, padding: str, is_aligned: bool):
        self.node, self.size, self.padding = node, size, padding
        self.low, self.high = (0.0, size - 1.0) if is_aligned else (-0.5, size - 0.5)
        where = node.fn("add", at, 1.0)
        place = (
            node.fn("mul", where, (size - 1) / 2)
            if is_aligned
            else node.fn("sub", node.fn("mul", where, size / 2), 0.5)
        )
        if mode == "nearest":
            place = node.fn("round", place)
        if padding != "zeros":
            is_out = node.fn(
                "or", node.fn("less", place, self.low), node.fn("greater", place, self.high), part="outside"
            )
            inside = node.fn("clip", place, min=0.0, max=size - 1.0) if padding == "border" else self.reflected(place)
            place = node.fn("where", is_out, inside, place)
        if mode == "nearest":
            self.taps = [self.tap(place, None)]
            return
        base = node.fn("floor", place)
        fraction = node.fn("sub", place, base, part="fraction")
        reach: Sequence[int] = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        self.taps = [
            self.tap(node.fn("add", base, float(t)) if t else base, self.weight(fraction, t, mode)) for t in reach
        ]

    def reflected(self, place: Term) -> Term:
        """Mirrored at the borders until it is between them."""
        node, room = self.node, self.high - self.low
        if not room:
            return node.fn("mul", place, 0.0)
        turn = node.fn("mod", node.fn("sub", place, self.low), known(2 * room, "fp32"))
        return node.fn("add", node.fn("min", turn, node.fn("sub", 2 * room, turn)), self.low, part="mirrored")

    def weight(self, fraction: Term, tap: int, mode: str) -> Term:
        """The weight of the element `tap` after the base."""
        node = self.node
        distance = node.fn("abs", node.fn("sub", fraction, float(tap)) if tap else fraction, part="distance")
        if mode == "linear":
            return node.fn("sub", 1.0, distance)

        def polynomial(*coefficients: float) -> Term:
            found: Any = coefficients[0]
            for c in coefficients[1:]:
                found = node.fn("add", node.fn("mul", distance, found), c)
            return found

        a = _CUBIC
        return polynomial(a + 2, -(a + 3), 0.0, 1.0) if tap in (0, 1) else polynomial(a, -5 * a, 8 * a, -4 * a)

    def tap(self, place: Term, weight: Term | None) -> tuple[Term, Term | None]:
        """The element's index, and its weight, 0 outside where zeros are put around."""
        node, top = self.node, self.size - 1.0
        if self.padding == "zeros":
            is_in = node.fn(
                "and", node.fn("greater_equal", place, 0.0), node.fn("less_equal", place, top), part="inside"
            )
            weight = node.fn("where", is_in, weight if weight is not None else known(1.0, "fp32"), known(0.0, "fp32"))
        elif self.padding == "reflection":
            place = node.fn("floor", self.reflected(place))
        return node.cast(node.fn("clip", place, min=0.0, max=top), "i64"), weight


@onnx_op("Col2Im")
def col2im(node: Node) -> Any:
    """Columns [N, C * block, L] added where their blocks are in the image: a transposed convolution whose window picks
    one place for each row."""
    x = plain(node, 0)
    image, block = node.ints(1), node.ints(2)
    rank = len(image)
    if x.rank != 3 or len(block) != rank or any(isinstance(n, Expr) or n < 1 for n in (*image, *block)):
        raise node.fault(Phrase("its image or block has sizes that are not known"))
    stride, dilation, pads = (
        list(node.attr(key, ())) or [default] * n
        for key, default, n in (("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank))
    )
    if (
        len(stride) != rank
        or len(dilation) != rank
        or len(pads) != 2 * rank
        or min(*stride, *dilation, *pads, 1) < 0
        or 0 in stride
    ):
        raise node.fault(
            Phrase(
                "strides {stride}, dilations {dilation}, pads {pads} for {rank} axes",
                stride=stride,
                dilation=dilation,
                pads=pads,
                rank=rank,
            )
        )
    steps = [
        (image[a] + pads[a] + pads[rank + a] - dilation[a] * (block[a] - 1) - 1) // stride[a] + 1 for a in range(rank)
    ]
    taps = int(np.prod(block))
    channels = x.shape[1] // taps
    if channels.constant is None or taps > 4096:
        raise node.fault(Phrase("it has {shape} rows of blocks of {taps}", shape=x.shape[1], taps=taps))
    window = node.reshape(known(np.eye(taps), x.dtype), [1, taps, 1, *block])
    weights = node.reshape(node.op("Expand", window, shape=[channels, taps, 1, *block]), [channels * taps, 1, *block])
    more = [
        image[a] + pads[a] + pads[rank + a] - (stride[a] * (steps[a] - 1) + dilation[a] * (block[a] - 1) + 1)
        for a in range(rank)
    ]
    attrs = {"stride": stride, "dilation": dilation, "pad": pads, "output_padding": more}
    grid = node.reshape(x, [x.shape[0], x.shape[1], *steps])
    return node.op("ConvTranspose", grid, weights, groups=channels.constant, gives=x.dtype, **attrs)


@onnx_op("MaxUnpool")
def max_unpool(node: Node) -> Any:
    """Each maximum back at its place, zeros elsewhere; the places count in the image that the pooling came from."""
    x, index = plain(node, 0), node.input(1)
    kernel = node.attr("kernel_shape")
    rank = len(kernel)
    stride, pads = (
        list(node.attr(key, ())) or [default] * n for key, default, n in (("strides", 1, rank), ("pads", 0, 2 * rank))
    )
    if x.rank != rank + 2 or len(stride) != rank or len(pads) != 2 * rank:
        raise node.fault(
            Phrase(
                "strides {stride}, pads {pads}, a kernel of {rank} axes for an image of {rank2}",
                stride=stride,
                pads=pads,
                rank=rank,
                rank2=x.rank - 2,
            )
        )
    shape = [
        *x.shape[:2],
        *((x.shape[2 + a] - 1) * stride[a] - pads[a] - pads[rank + a] + kernel[a] for a in range(rank)),
    ]
    count = product(shape)
    zeros = node.op("Expand", known(0, x.dtype), shape=[count], part="zeros")
    found = node.op("Scatter", zeros, node.reshape(index, [-1]), node.reshape(x, [-1]))
    found = node.reshape(found, shape)
    wanted = node.ints(2)
    if wanted is None:
        return found
    if len(wanted) != x.rank:
        raise node.fault(Phrase("output_shape has {count} sizes", count=len(wanted)))
    return node.op("Pad", found, pads=[0] * x.rank + [Expr.of(w) - s for w, s in zip(wanted, shape)])
