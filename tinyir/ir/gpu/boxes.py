"""Stores that write boxes of neighbours: listed by boxes, a vector or a warp's row for one element.

    store Y[i0, 8*c + v]   for v in 0..8, c in 0..64   →   Y by boxes of [1, 8]:  store Y[i0, c]

A dim that makes up the whole of the last digit of one axis and is nowhere else, in no bound and no floor, writes each
place of a box once. Where boxes begin at multiples of their size, two are one or have nothing in common: which is the
case for the numbers that are listed, or the list is made of the elements themselves (`Uneven`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...kit.records import replace
from ..expr import Expr
from .points import Point, Ranged, without


class Uneven(Exception):
    """A box that does not begin at a multiple of its size."""


def boxed(writes: Sequence[Any], shape: Sequence[int]) -> tuple[tuple[int, ...], list[Any]]:
    """The sides of the largest boxes that all stores to a tensor of such a shape write, and the stores as they write
    the first element of each box."""
    chains = [[_chain(write, axis, size) for axis, size in enumerate(shape)] for write in writes]
    sides = tuple(
        max(set.intersection(*({side for side, _ in chain[axis]} for chain in chains)), default=1)
        for axis in range(len(shape))
    )
    gone = [
        {dim for axis, side in enumerate(sides) for at, dims in chain[axis] if at == side for dim in dims}
        for chain in chains
    ]
    return sides, [_without(write, dims) if dims else write for write, dims in zip(writes, gone)]


def _chain(write: Any, axis: int, size: int) -> list[tuple[int, tuple[str, ...]]]:
    """The sides of boxes along an axis that a store writes, with the dims that run over them: from none to all."""
    free, index = _free(write.point), write.index[axis]
    elsewhere = set().union(*(e.vocabulary for at, e in enumerate(write.index) if at != axis))
    side, found = 1, [(1, ())]
    while True:
        dim = next(
            (d for c, (d, *more) in _names(index) if c == side and not more and d in free.keys() - elsewhere), None
        )
        if dim is None or dim in (index - side * Expr.of(dim)).vocabulary or dim in found[-1][1]:
            return found
        side *= free[dim]
        if size % side or write.clip and write.clip[axis] % side:
            return found
        found.append((side, (*found[-1][1], dim)))


def _names(e: Expr) -> list[tuple[int, tuple[Any, ...]]]:
    return [(c, monomial) for c, monomial in e.terms if monomial and isinstance(monomial[0], str)]


def _free(point: Point) -> dict[str, int]:
    """The dims that nothing else speaks of, from 0 on, with how far they run."""
    spoken = [dim for held in point.holds for dim in held.dims]
    ranged = [held.says for held in point.holds if isinstance(held.says, Ranged) and len(held.dims) == 1]
    return {
        r.dim: r.last.constant
        for r in ranged
        if r.first.constant == 0 and r.last.constant and r.step == 1 and spoken.count(r.dim) == 1
    }


def _without(write: Any, dims: set[str]) -> Any:
    first = dict.fromkeys(dims, 0)
    return replace(write, point=without(write.point, dims), index=tuple(e.substitute(first) for e in write.index))
