"""The elements that a store writes, listed: every point at which it runs is worked out as a column of numbers.

What isl proves of a map takes it microseconds or minutes, as the floors in it are; a list takes what there are points,
and is as sure. So it is made where isl has not answered within its steps, and the points are not too many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...kit.records import replace
from ...kit.work import count as count_work
from ..expr import Expr, Floor
from .boxes import Uneven
from .points import Guarded, Point, Ranged

MOST_POINTS = 1 << 23  # of one store: some 80 ms for each thing that is worked out for them
MOST_BITS = 31  # of a number of the text: times a name, of 31 bits too, it is one of a column's 64
PIECE = 1 << 16  # points that are worked out at a time: columns of them stay in a processor's cache


class TooMany(Exception):
    """More points than a list has room for, or greater numbers."""


def elements_of(
    point: Point,
    index: Iterable[Expr],
    shape: Sequence[int],
    clip: Sequence[int] = (),
    most: int | None = None,
    sides: Sequence[int] = (),
) -> Any:
    """The numbers, in a tensor of such a shape, of the elements at `index` over all points, as an array: as often as
    points are there. Elements outside of `clip` are left out. `sides`: `index` is the first element of a box, and shape
    and clip are in boxes. Raises TooMany for more than `most` points (default: MOST_POINTS) and for numbers of more
    than MOST_BITS, Uneven for a box that does not begin at a multiple of its sides."""
    import numpy as np

    left, found = MOST_POINTS if most is None else most, []
    for piece in _pieces(point):
        numbers, count = _elements_of(piece, tuple(index), shape, clip, left, sides)
        found.append(numbers)
        left -= count
    return found[0] if len(found) == 1 else np.concatenate(found)


def _pieces(point: Point) -> Iterator[Point]:
    """The points in pieces that fit a processor's cache: its longest dim in parts."""
    fixed = _fixed(point)
    spans = {
        at: max(0, -(-(held.says.last.constant - held.says.first.constant) // held.says.step))
        for at, held in enumerate(point.holds)
        if isinstance(held.says, Ranged)
        and held.says.dim not in fixed
        and None not in (held.says.first.constant, held.says.last.constant)
    }
    longest = max(spans, key=spans.__getitem__, default=0)
    # No more than as many points have as a list has room for: a guard may leave none of most pieces.
    pieces = min(spans.get(longest, 1), -(-math.prod(spans.values()) // PIECE), MOST_POINTS // PIECE)
    if pieces <= 1:
        yield point
        return
    held = point.holds[longest]
    first, last, step = held.says.first.constant, held.says.last.constant, held.says.step
    width = -(-spans[longest] // pieces) * step
    for low in range(first, last, width):
        says = replace(held.says, first=Expr.of(low), last=Expr.of(min(last, low + width)))
        holds = (*point.holds[:longest], replace(held, says=says), *point.holds[longest + 1 :])
        yield replace(point, holds=holds)


def _elements_of(
    point: Point, index: Iterable[Expr], shape: Sequence[int], clip: Sequence[int], most: int, sides: Sequence[int]
) -> tuple[Any, int]:
    """The numbers, and how many points they took. A dim that no other bound speaks of is an axis of its own, so that
    what does not depend on it is worked out once for all of its turns."""
    import numpy as np

    fixed = _fixed(point)
    bound = {dim for held in point.holds for dim in held.dims if len(held.dims) > 1 or not _is_range(held.says)}
    free: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    count = 1
    for held in point.holds:
        if not isinstance(held.says, Ranged):
            columns, count = _kept(_holds(held.says, columns, count), columns) if held.says else (columns, count)
        elif held.says.dim in bound or held.says.dim in fixed:
            columns, count = _with_dim(held.says, columns, count, fixed, most)
        else:
            free[held.says.dim] = np.arange(*(_value(e, {}) for e in (held.says.first, held.says.last)), held.says.step)
    sizes = count, *map(len, free.values())
    if math.prod(sizes) > most:
        raise TooMany
    count_work("points listed", math.prod(sizes) if free else 0)
    columns = {name: column.reshape(-1, *(1,) * len(free)) for name, column in columns.items()}
    for axis, (name, column) in enumerate(free.items(), 1):
        columns[name] = column.reshape((1,) * axis + (-1,) + (1,) * (len(free) - axis))
    known: dict[Floor, Any] = {}
    number: Any = 0
    inside: Any = True
    for axis, e in enumerate(map(point.expr, index)):
        place = np.asarray(_values(e, columns, known), np.int64)
        if sides and sides[axis] > 1:
            if (place % sides[axis]).any():
                raise Uneven
            place = place // sides[axis]
        number = number * shape[axis] + place
        if clip:
            inside = inside & (place >= 0) & (place < clip[axis])
    whole = np.broadcast_to(np.asarray(number, np.int64), sizes).reshape(-1)
    return whole[np.broadcast_to(inside, sizes).reshape(-1)] if clip else whole, math.prod(sizes)


def _is_range(says: Ranged | Guarded | None) -> bool:
    """Whether it says of a dim from where to where it runs, in numbers."""
    return isinstance(says, Ranged) and None not in (says.first.constant, says.last.constant)


def _values(e: Expr, columns: Mapping[str, Any], known: dict[Floor, Any]) -> Any:
    """What an expression means for columns of numbers, each floor worked out once: `known` has those that are.
    Raises TooMany for numbers that a column may not hold."""
    if e.bits > MOST_BITS:
        raise TooMany
    total: Any = 0
    for coefficient, monomial in e.terms:
        term: Any = coefficient
        for atom in monomial:
            if isinstance(atom, Floor) and atom not in known:
                known[atom] = _values(atom.num, columns, known) // _values(atom.den, columns, known)
            value = known[atom] if isinstance(atom, Floor) else columns[atom]
            term = term * value
        total = total + term
    return total


def _value(e: Expr, columns: Mapping[str, Any]) -> Any:
    return _values(e, columns, {})


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


def _kept(is_kept: Any, columns: dict[str, Any]) -> tuple[dict[str, Any], int]:
    return {name: column[is_kept] for name, column in columns.items()}, int(is_kept.sum())
