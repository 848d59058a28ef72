"""Affine windows of a tensor whose channels are innermost, as the copy engine walks over them (im2col mode).

    windows [P, Q] from [-1, -1] step [2, 2]        of x : fp16[N, H, W, C]

One window for each point of `counts`: its corner is at `low + step*p` along each axis between the outermost and the
channels. A map of windows is seen as dims [N*P*Q, offset, offset, C]: which window, how far inside it, which channel.
What is outside of the tensor is zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .expr import ONE, ZERO, Bound, Expr
from .read import expr_of, integer_of

MOST_STEP = 8  # elementStrides (CUDA driver API, cuTensorMapEncodeIm2col)
MOST_WINDOWS, MOST_CHANNELS = 1024, 256  # of a box (the same)
CORNER_BITS = {1: 16, 2: 8, 3: 5}  # signed, of a corner, by the number of axes of a window
OFFSET_BITS = {1: 16, 2: 8, 3: 5}  # without a sign (PTX ISA, cp.async.bulk.tensor, im2colOffsets)


@dataclass(frozen=True, slots=True)
class Windows:
    """How many windows there are along each of their axes, where the first one begins, and how far apart they are;
    outermost axis first."""

    counts: tuple[Expr, ...]
    low: tuple[int, ...]
    steps: tuple[int, ...]

    def __str__(self) -> str:
        counts, low, steps = (f"[{', '.join(map(str, found))}]" for found in (self.counts, self.low, self.steps))
        return f"windows {counts} from {low} step {steps}"

    @property
    def count(self) -> Expr:
        """Windows of one image."""
        return math.prod(self.counts, start=ONE)

    def dims(self, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """What a map of the windows of a tensor of this shape is seen as."""
        return (shape[0] * self.count, *shape[1:])

    def highs(self, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """How far the corner of the last window is from the tensor's last element, along each axis."""
        return tuple(
            low + step * (count - 1) - (size - 1)
            for low, step, count, size in zip(self.low, self.steps, self.counts, shape[1:-1])
        )

    def needs(self, shape: tuple[Expr, ...]) -> tuple[Bound, ...]:
        """What must hold of the symbols for the engine to hold the corners, and for the tensor to have elements where
        padding alone has windows: a tensor without elements has no map. A bound that no symbol can change is left out
        where it holds."""
        most = 1 << CORNER_BITS[len(self.counts)] - 1
        bounds = [Bound(high, Expr.of(-most), Expr.of(most)) for high in self.highs(shape)]
        for size, count in zip(shape[1:-1], self.counts):
            if size.name and (count.substitute({size.name: ZERO}).constant or 0) > 0:
                bounds.append(Bound(size, lower=ONE))
        return tuple(dict.fromkeys(b for b in bounds if b.expr.constant is None or not b.holds({})))

    def faults(self, shape: tuple[Expr, ...], box: tuple[Expr, ...]) -> Iterator[str]:
        """What the engine does not take, in words: of a tensor of this shape, in boxes of these sides."""
        axes = len(self.counts)
        if axes not in CORNER_BITS or len(shape) != axes + 2 or not len(self.low) == len(self.steps) == axes:
            yield Phrase(
                "has {count} axes, {axes} of them of windows, which are one to three between the first and the last",
                count=len(shape),
                axes=axes,
            )
            return
        if any(count.constant is not None and count.constant < 1 for count in self.counts):
            yield Phrase("has no windows along an axis")
            return
        most = 1 << CORNER_BITS[axes] - 1
        if any(not -most <= low < most for low in self.low):
            yield Phrase("has windows that begin outside of {low}..{high}", low=-most, high=most)
        if any(not -most <= high.constant < most for high in self.highs(shape) if high.constant is not None):
            yield Phrase(
                "has windows that end outside of {low}..{high}, counted from its last element", low=-most, high=most
            )
        if any(not 1 <= step <= MOST_STEP for step in self.steps):
            yield Phrase("has windows that are not 1 to {most} apart", most=MOST_STEP)
        if any(side != ONE for side in box[1:-1]):
            yield Phrase("has windows in boxes of several offsets")
        sides = box[0].constant or 0, box[-1].constant or 0
        if not 1 <= sides[0] <= MOST_WINDOWS or not 1 <= sides[1] <= MOST_CHANNELS:
            yield Phrase(
                "has windows in boxes of more than {windows} windows or {channels} channels",
                windows=MOST_WINDOWS,
                channels=MOST_CHANNELS,
            )


def windows_of(tree: Any) -> Windows | None:
    """What the grammar's `view` read, where that is one of windows; else None."""
    if tree is None or tree.data != "windows":
        return None
    counts, low, steps = tree.children
    return Windows(_all(expr_of, counts), _all(integer_of, low), _all(integer_of, steps))


def _all(read: Any, tree: Any) -> tuple[Any, ...]:
    items: Iterable[Any] = tree.children
    return tuple(read(item) for item in items if item is not None)
