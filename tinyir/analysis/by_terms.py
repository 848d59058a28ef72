"""Accesses that are right term by term, which isl need not be asked about.

    PAD of 32 columns by 192 and 32   ->   192 <= i1 < 224: x[i0, i1 - 192]; 0

What an op reads says of each coordinate of its operand which sum it is: an access whose index has these sums is right
where its guard is that they are inside the operand. What a value reads through movements is right where it is the
access of the last of them, right by itself, at the point that the value reads there. Floors are left to isl, but for
those whose axes get other names alone, so that no answer rests on how floors of sums are put in order.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ir.expr import ONE, ZERO, Bound, Expr, Monomial
from ..ir.index import Access, Axis, Fill, Piece, Read
from ..ir.intervals import Interval, interval_of
from ..ir.scope import floors_in, halves_of, has_floor
from ..ir.types import TensorType, show_number
from ..kit.records import replace
from .meaning import Meaning

Plain = tuple[frozenset[Expr], str, tuple[Expr, ...]]  # sums none of which is below 0, and what is read or given there


def is_read(access: Access, operand: str, shape: TensorType, meaning: Meaning, axes: Sequence[Axis]) -> bool:
    """Whether an access is the `meaning` of an operand of this shape at the points of the axes; False too where that
    is left to isl."""
    read = access.pieces[0].target
    if not isinstance(read, Read) or read.source != operand or len(read.index) != shape.rank:
        return False
    if any(map(has_floor, access.exprs())):
        return False
    point = {f"o{n}": e for n, e in enumerate(read.index)}
    start = {a.name: ZERO for a in axes if a.size == ONE}
    one = {o: ZERO for o, size in zip(point, shape.shape) if size == ONE}
    solved = set()
    for bound in meaning.constraints:
        if bound.equals is None:
            return False
        rest = bound.expr - bound.equals
        asked = _coordinates(rest, point)
        if len(asked) > 1:  # places in memory: those along axes of one step are 0
            rest = rest.substitute(one)
            asked = _coordinates(rest, point)
        if len(asked) > 1 or any(abs(c) != 1 or len(m) > 1 for c, m in asked) or has_floor(rest):
            return False
        if rest.substitute(point).substitute(start).terms:
            return False
        solved |= {m[0] for _, m in asked}
    if any(o not in solved and (o not in one or point[o].substitute(start).terms) for o in point):
        return False  # a coordinate that no sum gives
    inside = tuple(Bound(e, ZERO, size) for e, size in zip(read.index, shape.shape))
    fill = () if meaning.fill is None else (Piece((), Fill(meaning.fill)),)
    return _are_same(access.pieces, (Piece(inside, read), *fill), axes)


def is_through(access: Access, read: Access, below: Access, axes: Sequence[Axis]) -> bool:
    """Whether an access at the points of the axes is `below`, of the movement that is read, at the points that `read`
    gives of it; False too where that is left to isl."""
    (first, *rest), (inner, *more) = read.pieces, below.pieces
    if not isinstance(first.target, Read) or (first.guard or rest) and (inner.guard or more):
        return False
    point = {f"i{n}": e for n, e in enumerate(first.target.index)}
    divided = {
        n for e in below.exprs() for floor in floors_in(e) for part in (floor.num, floor.den) for n in part.names()
    }
    renamed = [e.name for n, e in point.items() if n in divided]
    if None in renamed or len({*renamed}) < len(renamed) or any(map(has_floor, read.exprs())):
        return False
    moved = [
        Piece(
            (*first.guard, *(b.substitute(point) for b in piece.guard)),
            replace(piece.target, index=tuple(e.substitute(point) for e in piece.target.index))
            if isinstance(piece.target, Read)
            else piece.target,
        )
        for piece in below.pieces
    ]
    return _are_same(access.pieces, (*moved, *rest), axes)


def _are_same(given: Sequence[Piece], meant: Sequence[Piece], axes: Sequence[Axis]) -> bool:
    """Whether pieces have the same guards and targets, but for what always holds."""
    return list(_plain(given, axes)) == list(_plain(meant, axes))


def _plain(pieces: Iterable[Piece], axes: Sequence[Axis]) -> Iterator[Plain]:
    """Pieces as far as some point is left for them, with 0 for axes of one step outside of floors."""
    start = {a.name: ZERO for a in axes if a.size == ONE}

    def plain(sum_: Expr) -> Expr:
        return sum_ if has_floor(sum_) else sum_.substitute(start)

    sizes = {a.name: a.size for a in axes}
    ranges = {a.name: Interval(0, a.size.constant - 1) for a in axes if a.size.constant is not None}
    for piece in pieces:
        sums = {plain(e) for bound in piece.guard for e in halves_of(bound)}
        asked = frozenset(e for e in sums if not _is_natural(e, sizes, ranges))
        if isinstance(piece.target, Read):
            yield asked, piece.target.source, tuple(map(plain, piece.target.index))
        else:
            yield asked, show_number(piece.target.value), ()
        if not asked:
            return


def _is_natural(sum_: Expr, sizes: Mapping[str, Expr], ranges: Mapping[str, Interval]) -> bool:
    """Whether a sum is 0 or more at all points: by the numbers of the axes, or as an axis and what is left of its size
    are."""
    low = interval_of(sum_, ranges).low
    if low is not None:
        return low >= 0
    return sum_.name in sizes or any(sum_ == size - 1 - axis for axis, size in sizes.items())


def _coordinates(sum_: Expr, point: Container[Any]) -> list[tuple[int, Monomial]]:
    """The terms that coordinates of the operand are in."""
    return [(c, m) for c, m in sum_.terms if any(atom in point for atom in m)]
