"""What regions say of elements that a kernel has stored: only these are played, where values are independent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.body import Read, Reduce, Scatter, walk
from ...ir.evaluate import numpy_dtype
from ...ir.gpu.dry.threads import Unknown
from ...ir.region import Region
from ..region import free_axes, play_region

MOST_POINTS = 1 << 20  # of a region, and
MOST_TERMS = 1 << 25  # of those that it folds
FEW_ELEMENTS = 1 << 14  # that are asked for as a whole; of others some boxes are
SIDES = (2, 2, 8, 64)  # of these, along the last axes
BOXES = 4
Box = tuple[tuple[int, int], ...]  # along each axis of a tensor


def boxes_of(shape: Sequence[int], stored: Sequence[tuple[int, ...]]) -> list[Box]:
    """Parts of a tensor to ask for; `stored` has an element of each store, in their order."""
    if math.prod(shape) <= FEW_ELEMENTS:
        return [tuple((0, size) for size in shape)]
    sides = [1] * max(0, len(shape) - len(SIDES)) + list(SIDES[len(SIDES) - len(shape) :])
    chosen = dict.fromkeys(stored[(len(stored) - 1) * n // (BOXES - 1)] for n in range(BOXES))
    return [
        tuple((start, min(start + side, size)) for start, side, size in zip(element, sides, shape))
        for element in chosen
    ]


class Reference:
    """What the outputs of regions should hold, of which only what is asked for is played; with `moves` as roundings may
    move it."""

    def __init__(
        self,
        regions: tuple[Region, ...],
        sizes: Mapping[str, int],
        arrays: Mapping[str, np.ndarray],
        moves: Any = None,
    ):
        self._regions, self._sizes, self._arrays, self._moves = regions, sizes, arrays, moves
        self._found: dict[str, np.ndarray] = {}

    def wanted(self, name: str, box: Box) -> np.ndarray:
        """What a tensor should hold in a box. Raises Unknown where that would take too long."""
        asked = _asked(self._regions, self._sizes, name, box)
        for region in self._regions:
            if any(t.name in asked for t in region.outputs):
                part = _part_of(region, self._sizes, asked)
                _must_be_few(region, self._sizes, part)
                outputs = {t.name: self._made(t) for t in region.outputs}
                given = {t.name: self._found.get(t.name, self._arrays.get(t.name)) for t in region.inputs}
                play_region(region, self._sizes, given, outputs, part=part, moves=self._moves)
        return self._found[name][tuple(slice(*span) for span in box)]

    def _made(self, tensor: Any) -> np.ndarray:
        if tensor.name not in self._found:
            shape = [d.evaluate(self._sizes) for d in tensor.type.shape]
            self._found[tensor.name] = np.zeros(shape, numpy_dtype(tensor.type.dtype))
        return self._found[tensor.name]


def _asked(regions: tuple[Region, ...], sizes: Mapping[str, int], name: str, box: Box) -> dict[str, Box]:
    """The part of each tensor that is needed."""
    asked = {name: box}
    made = {t.name: t for region in regions for t in region.outputs}
    for region in reversed(regions):
        if not any(t.name in asked for t in region.outputs):
            continue
        part = _part_of(region, sizes, asked)
        for item in (*region.lets, *region.yields):
            for node in walk(item.expr):
                if isinstance(node, Read) and node.tensor in made:
                    shape = [d.evaluate(sizes) for d in made[node.tensor].type.shape]
                    own = tuple(part.get(e.name or "", (0, size)) for e, size in zip(node.index, shape))
                    before = asked.get(node.tensor, own)
                    asked[node.tensor] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(own, before))
    return asked


def _part_of(region: Region, sizes: Mapping[str, int], asked: Mapping[str, Box]) -> dict[str, tuple[int, int]]:
    """The points of a region's axes that give its outputs in these boxes."""
    part: dict[str, tuple[int, int]] = {}
    free = free_axes(region)
    for item in region.yields:
        named = {e.name: span for e, span in zip(item.index, asked.get(item.output, ())) if e.name in free}
        for axis in region.iters if item.output in asked else ():
            size = axis.size.evaluate(sizes)  # pyright: ignore - axes of `for` have sizes
            named_span = named.get(axis.name, (0, size))
            span = min(named_span[0], size), min(named_span[1], size)  # what is behind it others write
            before = part.get(axis.name, span)
            part[axis.name] = min(span[0], before[0]), max(span[1], before[1])
    return part


def _must_be_few(region: Region, sizes: Mapping[str, int], part: Mapping[str, tuple[int, int]]) -> None:
    outer = [stop - start for start, stop in part.values()]
    inner = [[a.size.evaluate(sizes) for a in n.axes if a.size is not None] for n in _folds(region)]
    points, terms = math.prod(outer), max(map(math.prod, inner), default=1)
    if points * terms > MOST_TERMS or points > MOST_POINTS or min((*outer, *itertools.chain(*inner)), default=0) < 0:
        raise Unknown


def _folds(region: Region) -> Iterator[Any]:
    return (n for item in (*region.lets, *region.yields) for n in walk(item.expr) if isinstance(n, (Reduce, Scatter)))
