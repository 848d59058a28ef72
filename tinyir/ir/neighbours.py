"""What is beside what: reads whose neighbours run along another axis than what is written, and what is known of
places and of expressions."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from .body import Axis, Body, BroadcastInDim, Gather, Literal, Read, Reduce, Ref, Scan, Scatter, Select, Transpose, walk
from .expr import Expr, Floor
from .region import Region
from .traits import bodies_of, nearest

ACCESS_BYTES = 16  # the most that a thread moves in one access


def crossed_reads(region: Region) -> tuple[Read, ...]:
    """The reads of a map whose neighbours run along another axis than those of everything it writes: both axes cut in
    tiles, a tile is read along the one and written along the other. Empty where there are none, or where a tile would
    not do."""
    return tuple(crossed_elements(region))


@functools.lru_cache(maxsize=4096)
def crossed_elements(region: Region) -> Mapping[Read, Body]:
    """The same reads, each with what a tile holds of it: the read, or the number in its place where a guard around it
    does not hold."""
    bodies = tuple(bodies_of(region))
    if len(region.iters) < 2 or any(
        isinstance(n, (Reduce, Scan, Scatter, Gather, Transpose)) or isinstance(n, Ref) and n.index is not None
        for b in bodies
        for n in walk(b)
    ):
        return {}
    fast = region.iters[-1].name
    if any(not y.index or fast not in y.index[-1].names() for y in region.yields):
        return {}
    around = [n for b in bodies for n in walk(b) if isinstance(n, (Select, BroadcastInDim))]
    guarded = {n.then: n for n in around if _is_element(n)}
    others = {r for n in around if not _is_element(n) for r in walk(n) if isinstance(r, Read)}
    found = dict.fromkeys(
        n for b in bodies for n in walk(b) if isinstance(n, Read) and across_of(region, n) is not None
    )
    across = {across_of(region, n) for n in found}
    if len(across) != 1 or others & found.keys():
        return {}
    return {n: guarded.get(n, n) for n in found}


def _is_element(body: Body) -> bool:
    """Whether it is a read under a guard, with a number in its place elsewhere."""
    return isinstance(body, Select) and isinstance(body.then, Read) and isinstance(body.other, Literal)


def across_of(region: Region, read: Read) -> Axis | None:
    """The axis along which a read's neighbours are, where that is not the region's last one, which must vary slower in
    it."""
    axes = {a.name: a for a in region.iters}
    names = [n for n in nearest(read.index[-1:]) if n in axes]
    is_slow = any(region.iters[-1].name in e.names() for e in read.index)
    if len(names) != 1 or names[0] == region.iters[-1].name or not is_slow:
        return None
    return axes[names[0]] if _is_beside(read.index[-1], names[0]) else None


def _is_beside(place: Expr, axis: str) -> bool:
    """Whether neighbours along an axis are at neighbouring places, or some at the same: `i0 - 1`, `floor(i0/2)`; in
    rows of a number of places the same, `i0 - 7*floor(i0/7)`."""
    inner = next((m[0] for c, m in place.terms if c == 1 and len(m) == 1 and isinstance(m[0], Floor)), None)
    if inner is not None and inner.den.constant is not None:
        return _is_beside(inner.num, axis) and axis not in (place - Expr(((1, (inner,)),))).names()
    rest = place - axis
    return axis not in rest.names() or any(rest == -n * (Expr.of(axis) // n) for n in _divisors(rest))


def _divisors(place: Expr) -> list[int]:
    """What is divided by there, as numbers."""
    atoms = [m[0] for _, m in place.terms if len(m) == 1 and isinstance(m[0], Floor)]
    return [a.den.constant for a in atoms if a.den.constant is not None]


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
