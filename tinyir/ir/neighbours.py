"""What is beside what: reads whose neighbours run along another axis than what is written, and what is known of
places and of expressions."""

from __future__ import annotations

from .body import Axis, Body, BroadcastInDim, Gather, Literal, Read, Reduce, Ref, Scan, Scatter, Select, Transpose, walk
from .expr import Expr
from .region import Region
from .traits import bodies_of

ACCESS_BYTES = 16  # the most that a thread moves in one access


def crossed_reads(region: Region) -> tuple[Read, ...]:
    """The reads of a map whose neighbours run along another axis than those of everything it writes: both axes cut in
    tiles, a tile is read along the one and written along the other. Empty where there are none, or where a tile would
    not do."""
    bodies = tuple(bodies_of(region))
    if len(region.iters) < 2 or any(
        isinstance(n, (Reduce, Scan, Scatter, Gather, Transpose)) or isinstance(n, Ref) and n.index is not None
        for b in bodies
        for n in walk(b)
    ):
        return ()
    fast = region.iters[-1].name
    if any(not y.index or fast not in y.index[-1].names() for y in region.yields):
        return ()
    found = dict.fromkeys(
        n for b in bodies for n in walk(b) if isinstance(n, Read) and across_of(region, n) is not None
    )
    guarded = {
        n
        for b in bodies
        for s in walk(b)
        if isinstance(s, (Select, BroadcastInDim))
        for n in walk(s)
        if isinstance(n, Read)
    }
    across = {across_of(region, n) for n in found}
    return tuple(found) if len(across) == 1 and not guarded & found.keys() else ()


def across_of(region: Region, read: Read) -> Axis | None:
    """The axis along which a read's neighbours are, where that is not the region's last one, which must vary slower in
    it."""
    axes = {a.name: a for a in region.iters}
    names = [n for n in read.index[-1].names() if n in axes] if read.index else []
    is_slow = any(region.iters[-1].name in e.names() for e in read.index[:-1])
    if len(names) != 1 or names[0] == region.iters[-1].name or not is_slow:
        return None
    return axes[names[0]] if names[0] not in (read.index[-1] - names[0]).names() else None


def is_multiple(expr: Expr, count: int) -> bool:
    """Whether every value of the expression is a multiple of `count`, read off its coefficients."""
    return all(coefficient % count == 0 for coefficient, _ in expr.terms)


def is_movement(body: Body) -> bool:
    """Whether an expression computes nothing: a read, at a place that may be chosen, or what replaces it where there is
    none."""
    if isinstance(body, Gather):
        return is_movement(body.body)
    return (
        isinstance(body, Read)
        or isinstance(body, Select)
        and is_movement(body.then)
        and isinstance(body.other, Literal)
    )


__all__ = ["ACCESS_BYTES", "across_of", "crossed_reads", "is_movement", "is_multiple"]
