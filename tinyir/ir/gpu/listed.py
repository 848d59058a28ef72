"""The elements that a store writes, listed: every point at which it runs is worked out as a column of numbers.

What isl proves of a map takes it microseconds or minutes, as the floors in it are; a list takes what there are points,
and is as sure. So it is made where isl has not answered within its steps, and the points are not too many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ...kit.work import count as count_work
from ..expr import Expr
from .points import Guarded, Point, Ranged

MOST_POINTS = 1 << 21  # of one store: some 20 ms for each thing that is worked out for them


MOST_BITS = 31  # of a number of the text: times a name, of 31 bits too, it is one of a column's 64


class TooMany(Exception):
    """More points than a list has room for, or greater numbers."""


def elements_of(
    point: Point, index: Iterable[Expr], shape: Sequence[int], clip: Sequence[int] = (), most: int | None = None
) -> Any:
    """The numbers, in a tensor of such a shape, of the elements at `index` over all points, as an array: as often as
    points are there. Elements outside of `clip` are left out. Raises TooMany for more than `most` points (default:
    MOST_POINTS), and for numbers of more than MOST_BITS."""
    import numpy as np

    fixed = _fixed(point)
    columns: dict[str, Any] = {}
    count = 1
    for held in point.holds:
        if isinstance(held.says, Ranged):
            columns, count = _with_dim(held.says, columns, count, fixed, MOST_POINTS if most is None else most)
        elif isinstance(held.says, Guarded):
            columns, count = _kept(_holds(held.says, columns, count), columns)
    at = [np.broadcast_to(np.asarray(_value(e, columns), np.int64), (count,)) for e in map(point.expr, index)]
    number = np.zeros(count, np.int64)
    inside = np.ones(count, bool)
    for axis, place in enumerate(at):
        number = number * shape[axis] + place
        if clip:
            inside &= (place >= 0) & (place < clip[axis])
    return number[inside] if clip else number


def judged(lists: Sequence[Any], wanted: Any | None, shape: Sequence[int]) -> tuple[str, tuple[int, ...]] | None:
    """What is wrong with the elements that several stores write: ("twice", store), ("both", store and store), or
    ("left", index of an element that is `wanted` and not written); None if nothing is. `wanted`: numbers, or None for
    all elements."""
    import numpy as np

    total = math.prod(shape)
    counts = []
    for store, numbers in enumerate(lists):
        counts.append(np.bincount(numbers[(numbers >= 0) & (numbers < total)], minlength=total))
        if counts[-1].max(initial=0) > 1:
            return "twice", (store,)
    for later, second in enumerate(counts):
        for earlier, first in enumerate(counts[:later]):
            if (first & second).any():
                return "both", (earlier, later)
    missing = sum(counts) == 0 if counts else np.ones(total, bool)
    if wanted is not None:
        asked = np.zeros(total, bool)
        asked[wanted] = True
        missing &= asked
    if not missing.any():
        return None
    return "left", tuple(int(n) for n in np.unravel_index(int(np.argmax(missing)), tuple(shape)))


def _fixed(point: Point) -> dict[str, int]:
    """Dims that a guard gives one value, whatever the others are."""
    found = {}
    for held in point.holds:
        if isinstance(held.says, Guarded) and not held.says.is_broken:
            for b in held.says.bounds:
                value = b.equals.constant if b.equals is not None else None
                if b.expr.name is not None and value is not None:
                    found[b.expr.name] = value
    return found


def _with_dim(
    ranged: Ranged, columns: dict[str, Any], count: int, fixed: dict[str, int], most: int
) -> tuple[dict[str, Any], int]:
    import numpy as np

    first, last = (np.asarray(_value(e, columns), np.int64) for e in (ranged.first, ranged.last))
    step = ranged.step
    value = fixed.get(ranged.dim)
    if value is not None:
        is_in = np.broadcast_to((first <= value) & (value < last) & ((value - first) % step == 0), (count,))
        columns, count = _kept(is_in, columns)
        return {**columns, ranged.dim: np.full(count, value, np.int64)}, count
    first, last = np.broadcast_to(first, (count,)), np.broadcast_to(last, (count,))
    turns = np.maximum(0, (last - first + step - 1) // step)
    total = int(turns.sum())
    if total > most:
        raise TooMany
    count_work("points listed", total)
    parents = np.repeat(np.arange(count), turns)
    turn = np.arange(total) - np.repeat(np.cumsum(turns) - turns, turns)
    columns = {name: column[parents] for name, column in columns.items()}
    return {**columns, ranged.dim: first[parents] + step * turn}, total


def _holds(guard: Guarded, columns: dict[str, Any], count: int) -> Any:
    import numpy as np

    found = np.ones(count, bool)
    for b in guard.bounds:
        value = _value(b.expr, columns)
        if b.equals is not None:
            found &= value == _value(b.equals, columns)
        if b.lower is not None:
            found &= _value(b.lower, columns) <= value
        if b.upper is not None:
            found &= value < _value(b.upper, columns)
    return ~found if guard.is_broken else found


def _value(e: Expr, columns: dict[str, Any]) -> Any:
    if e.bits > MOST_BITS:
        raise TooMany
    return e.evaluate(columns)


def _kept(is_kept: Any, columns: dict[str, Any]) -> tuple[dict[str, Any], int]:
    return {name: column[is_kept] for name, column in columns.items()}, int(is_kept.sum())


__all__ = ["TooMany", "elements_of", "judged"]
