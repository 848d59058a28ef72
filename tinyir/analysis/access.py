"""Accesses composed and simplified: what IndexBook does with a chain of movements (seed 001 sections 4.3 and 4.4)."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import Bound, Expr
from ..ir.index import Access, Fill, Piece, Read
from ..ir.scope import Scope, has_floor


def identity(source: str, axes: Iterable[str]) -> Access:
    """The access that reads `source` at the same point: `source[i0, i1]`."""
    return Access((Piece((), Read(source, tuple(Expr.of(a) for a in axes))),))


def whole(source: str, index: Iterable[Expr]) -> Access:
    """The access of one read without a guard."""
    return Access((Piece((), Read(source, tuple(index))),))


def padded(source: str, index: Iterable[Expr], guard: tuple[Bound, ...], value: float | int | bool) -> Access:
    """`source[index] where guard else value`."""
    read = Piece((), Read(source, tuple(index)))
    return Access((Piece(guard, read.target), Piece((), Fill(value)))) if guard else Access((read,))


def compose(step: Access, inner: Access, scope: Scope) -> Access:
    """`step` with the value that it reads replaced by that value's own access `inner`, simplified in `scope` (the
    step's domain)."""
    pieces: list[Piece] = []
    for piece in step.pieces:
        if isinstance(piece.target, Fill):
            pieces.append(piece)
            continue
        point = {f"i{at}": e for at, e in enumerate(piece.target.index)}
        for within in inner.pieces:
            guard = piece.guard + tuple(b.substitute(point) for b in within.guard)
            target = within.target
            pieces.append(
                Piece(
                    guard,
                    target
                    if isinstance(target, Fill)
                    else Read(target.source, tuple(e.substitute(point) for e in target.index)),
                )
            )
    return simplify(Access(tuple(pieces)), scope)


def simplify(access: Access, scope: Scope) -> Access:
    """The same access with no guard, piece or floor in it that the domain already implies."""
    first = access.pieces[0]
    if not first.guard and not (isinstance(first.target, Read) and any(map(has_floor, first.target.index))):
        return Access((first,))
    pieces: list[Piece] = []
    for piece in access.pieces:
        guard = _lean(piece.guard, scope)
        if guard is None:
            continue
        inside = scope.with_given(guard)
        if guard and inside.is_empty():
            continue
        target = piece.target
        if isinstance(target, Read):
            target = Read(target.source, tuple(inside.simplify(e) for e in target.index))
        pieces.append(Piece(guard, target))
        if not guard:
            break
    return Access(tuple(_merge(pieces, scope)))


def _lean(guard: tuple[Bound, ...], scope: Scope) -> tuple[Bound, ...] | None:
    """The guard without the sides that the domain and its other sides imply; None when it can never hold."""
    sides = [side for bound in guard for side in _sides(bound, scope)]
    kept: list[Bound] = []
    for at, side in enumerate(sides):
        if side in kept:
            continue
        if scope.with_given((*kept, *sides[at + 1 :])).proves_bound(side):
            continue
        if scope.proves_bound(_never(side)) if side.equals is None else False:
            return None
        kept.append(side)
    return _joined(kept)


def _sides(bound: Bound, scope: Scope) -> tuple[Bound, ...]:
    """The guard's lower and upper side apart, with floors simplified."""
    expr = scope.simplify(bound.expr)
    if bound.equals is not None:
        return (Bound(expr, equals=scope.simplify(bound.equals)),)
    low = () if bound.lower is None else (Bound(expr, lower=scope.simplify(bound.lower)),)
    high = () if bound.upper is None else (Bound(expr, upper=scope.simplify(bound.upper)),)
    return low + high


def _never(side: Bound) -> Bound:
    return Bound(side.expr, upper=side.lower) if side.lower is not None else Bound(side.expr, lower=side.upper)


def _joined(sides: list[Bound]) -> tuple[Bound, ...]:
    """A lower and an upper side of the same expression as one guard, in the order of first mention."""
    joined: list[Bound] = []
    for side in sides:
        for at, other in enumerate(joined):
            if other.expr == side.expr and side.equals is None and other.equals is None:
                if (other.lower is None) != (side.lower is None):
                    joined[at] = Bound(side.expr, other.lower or side.lower, other.upper or side.upper)
                    break
        else:
            joined.append(side)
    return tuple(joined)


def _merge(pieces: list[Piece], scope: Scope) -> list[Piece]:
    """Without a piece whose successor, which holds wherever it does, gives the same."""
    merged: list[Piece] = []
    for piece in reversed(pieces):
        after = merged[-1] if merged else None
        if (
            after is not None
            and after.target == piece.target
            and all(scope.with_given(piece.guard).proves_bound(b) for b in after.guard)
        ):
            continue
        merged.append(piece)
    return merged[::-1]
