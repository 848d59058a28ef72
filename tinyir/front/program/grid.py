"""Sampling of images at places that are computed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...ir.rules import product
from ...ir.types import DTYPES
from .ops import Ops
from .terms import Term, known

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75


def sampled(
    ops: Ops, x: Term, grid: Term, mode: str, padding: str, is_aligned: bool, by_tap: bool = False, inside: bool = False
) -> Term:
    """x of [N, C, *S], whose S are known, at the places of a grid [N, *O, n], from -1 to 1 along each axis, the last
    axis of x first: the outermost elements are there, or their outer borders where it is not `is_aligned`. A place that
    is outside is moved inside before its taps are found, or `by_tap` each tap is. The nearest element is that of the
    place, or of what was moved `inside`: a half that is mirrored may be nearest to another one."""
    count, places, axes = x.rank - 2, product(grid.shape[1:-1]), []
    for axis in range(count):
        size = x.shape[2 + axis].constant
        assert size
        part = ops.cut(grid, grid.rank - 1, count - 1 - axis, count - axis)
        axes.append(
            _Axis(
                ops,
                ops.cast(ops.reshape(part, [x.shape[0], 1, places]), DTYPES["fp32"]),
                size,
                mode,
                padding,
                is_aligned,
                by_tap,
                inside,
            )
        )
    flat = ops.reshape(x, [x.shape[0], x.shape[1], product(x.shape[2:])])
    total = None
    for taps in itertools.product(*(a.taps for a in axes)):
        index, weight = None, None
        for axis, (place, own) in zip(axes, taps):
            index = (
                place
                if index is None
                else ops.fn("add", ops.fn("mul", index, known(axis.size, "i64")), place, part="index")
            )
            weight = own if weight is None or own is None else ops.fn("mul", weight, own, part="weight")
        whole = ops.op("Expand", index, shape=[x.shape[0], x.shape[1], places], part="index")
        found = ops.op("GatherElements", flat, whole, axis=2, part="tap")
        term = found if weight is None else ops.fn("mul", ops.cast(found, DTYPES["fp32"]), weight, part="weighed")
        total = term if total is None else ops.fn("add", total, term, part="sum")
    return ops.reshape(ops.cast(total, x.dtype), [x.shape[0], x.shape[1], *grid.shape[1:-1]])


class _Axis:
    """One axis of the image: for each tap the places, of i64, and their weights (None: 1)."""

    def __init__(
        self, ops: Ops, at: Term, size: int, mode: str, padding: str, is_aligned: bool, by_tap: bool, inside: bool
    ):
        self.ops, self.size, self.padding = ops, size, padding
        self.low, self.high = (0.0, size - 1.0) if is_aligned else (-0.5, size - 0.5)
        where = ops.fn("add", at, 1.0)
        place = (
            ops.fn("mul", where, (size - 1) / 2) if is_aligned else ops.fn("sub", ops.fn("mul", where, size / 2), 0.5)
        )
        if mode == "nearest" and not inside:
            place = ops.fn("round", place)
        if padding != "zeros" and not by_tap:
            is_out = ops.fn("or", ops.fn("less", place, self.low), ops.fn("greater", place, self.high), part="outside")
            moved = ops.fn("clip", place, min=0.0, max=size - 1.0) if padding == "border" else self.reflected(place)
            place = ops.fn("where", is_out, moved, place)
        if mode == "nearest" and inside:
            place = ops.fn("round", place)
        if mode == "nearest":
            self.taps = [self.tap(place, None)]
            return
        base = ops.fn("floor", place)
        fraction = ops.fn("sub", place, base, part="fraction")
        reach: Sequence[int] = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        self.taps = [
            self.tap(ops.fn("add", base, float(t)) if t else base, self.weight(fraction, t, mode)) for t in reach
        ]

    def reflected(self, place: Term) -> Term:
        """Mirrored at the borders until it is between them."""
        ops, room = self.ops, self.high - self.low
        if not room:
            return ops.fn("mul", place, 0.0)
        turn = ops.fn("mod", ops.fn("sub", place, self.low), known(2 * room, "fp32"))
        return ops.fn("add", ops.fn("min", turn, ops.fn("sub", 2 * room, turn)), self.low, part="mirrored")

    def weight(self, fraction: Term, tap: int, mode: str) -> Term:
        """The weight of the element `tap` after the base."""
        ops = self.ops
        distance = ops.fn("abs", ops.fn("sub", fraction, float(tap)) if tap else fraction, part="distance")
        if mode == "linear":
            return ops.fn("sub", 1.0, distance)

        def polynomial(*coefficients: float) -> Term:
            found: Any = coefficients[0]
            for c in coefficients[1:]:
                found = ops.fn("add", ops.fn("mul", distance, found), c)
            return found

        a = CUBIC
        return polynomial(a + 2, -(a + 3), 0.0, 1.0) if tap in (0, 1) else polynomial(a, -5 * a, 8 * a, -4 * a)

    def tap(self, place: Term, weight: Term | None) -> tuple[Term, Term | None]:
        """The element's index, and its weight, 0 outside where zeros are put around."""
        ops, top = self.ops, self.size - 1.0
        if self.padding == "zeros":
            is_in = ops.fn("and", ops.fn("greater_equal", place, 0.0), ops.fn("less_equal", place, top), part="inside")
            weight = ops.fn("where", is_in, weight if weight is not None else known(1.0, "fp32"), known(0.0, "fp32"))
        elif self.padding == "reflection":
            place = ops.fn("floor", self.reflected(place))
        return ops.cast(ops.fn("clip", place, min=0.0, max=top), "i64"), weight
