"""Sampling at places that are computed, GridSample, and the scatterings of windows, Col2Im and MaxUnpool."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....ir.rules import product
from ....kit.phrase import Phrase
from ...program.grid import MODES, PADDINGS, sampled
from ...program.terms import known
from ..node import Node
from ..table import onnx_op
from .elementwise import plain

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@onnx_op("GridSample")
def grid_sample(node: Node) -> Any:
    """x of [N, C, *S] at the places of a grid [N, *O, n], from -1 to 1 along each axis, the last axis of x first."""
    x, grid = plain(node, 0), plain(node, 1)
    mode = _MODES.get(node.attr("mode", "linear"), node.attr("mode", "linear"))
    padding, is_aligned = node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0))
    count = x.rank - 2
    if mode not in MODES or padding not in PADDINGS or grid.rank != x.rank or grid.shape[-1] != Expr.of(count):
        raise node.fault(
            Phrase(
                "mode {mode}, padding_mode {padding}, a grid of {rank} axes for an image of {count}",
                mode=mode,
                padding=padding,
                rank=grid.rank,
                count=count,
            )
        )
    for axis in range(2, x.rank):
        if not x.shape[axis].constant:
            raise node.fault(Phrase("axis {axis} has the size {shape}", axis=axis, shape=x.shape[axis]))
    return sampled(node, x, grid, mode, padding, is_aligned)


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
