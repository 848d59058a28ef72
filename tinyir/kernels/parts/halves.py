"""A map that is one thing up to a place along an axis, and another from there on: what a concatenation is.

%both = where(cmplt(index(i1), 4096), A where i1 < 4096 else 0.0, B where 0 <= i1 - 4096 else 0.0)

before the place: %both = A          from it on: %both = B

Where a map has several such places, it is parted at the middle one: n pieces take log n choices, one inside the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Binary, Body, BroadcastInDim, Ref, Select, Ternary, counted, rebuild, walk
from ...ir.expr import Bound, Expr
from ...ir.present import AxesOf, axes_of_values, present_axes
from ...ir.region import Region
from ...ir.traits import bodies_of
from ...kit.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Halves:
    """The region where the axis is less than `place`, and where it is not."""

    place: int
    before: Region
    behind: Region


def halves_of(region: Region, along: str, width: int) -> Halves | None:
    """Both sides of a place at which a map becomes another along an axis. None where there is none that has `width`
    elements that are alike before it and after it."""
    places = sorted({place for condition in _conditions(region) if (place := _place(condition, along)) is not None})
    size = next(a.size.constant for a in region.iters if a.name == along)
    last = size if size is not None else max(places, default=0) + width
    wide = [
        place
        for before, place, after in zip((0, *places), places, (*places[1:], last))
        if place - before >= width and after - place >= width
    ]
    if not wide:
        return None
    place = wide[len(wide) // 2]
    return Halves(place, *(_side(region, along, place, is_before) for is_before in (True, False)))


def _conditions(region: Region) -> Iterator[Binary]:
    for body in bodies_of(region):
        for node in walk(body):
            found = _condition(node)
            if found is not None:
                yield found


def _condition(node: Body) -> Binary | None:
    """The comparison on which a choice rests."""
    if not isinstance(node, Ternary) or node.op != "where":
        return None
    condition = node.first.x if isinstance(node.first, BroadcastInDim) else node.first
    return condition if isinstance(condition, Binary) and condition.op == "cmplt" else None


def _place(condition: Binary, along: str) -> int | None:
    """The number from which on an axis makes the comparison false; None where that is not one number."""
    left, right = counted(condition.left), counted(condition.right)
    apart = (left - Expr.of(along)).constant if left is not None else None
    return right.constant - apart if right is not None and None not in (apart, right.constant) else None


def _side(region: Region, along: str, place: int, is_before: bool) -> Region:
    """The region on one side of the place: the choices that are known there are made, and guards that say the same are
    gone. A choice that is another value now is that value wherever it is used."""
    same: dict[str, Body] = {}
    iters, before, after = tuple(a.name for a in region.iters), axes_of_values(region), dict[str, tuple[str, ...]]()

    def free(body: Body, axes_of: AxesOf) -> list[str]:
        present = present_axes(body, iters, axes_of)
        return [name for name in iters if name in present]

    def put(body: Body) -> Body:
        if isinstance(body, BroadcastInDim):  # its operand may vary along fewer axes now
            x = put(body.x)
            kept = free(x, after)
            dims = tuple(d for name, d in zip(free(body.x, before), body.dims) if name in kept)
            return replace(body, x=x, dims=dims)
        if isinstance(body, Ref) and body.index is None:
            return same.get(body.name, body)
        condition = _condition(body)
        other = _place(condition, along) if condition is not None else None
        if other is not None and (place <= other if is_before else place >= other):
            return put(body.second if is_before else body.third)
        if isinstance(body, Select):
            left = tuple(rest for b in body.guard if (rest := _rest(b, Expr.of(along), place, is_before)) is not None)
            return put(body.then) if not left else rebuild(replace(body, guard=left), put)
        return rebuild(body, put)

    lets = []
    for let in region.lets:
        lets.append(replace(let, expr=put(let.expr)))
        after[let.name] = tuple(free(lets[-1].expr, after))
        if isinstance(lets[-1].expr, Ref) and lets[-1].expr.index is None:
            same[let.name] = lets[-1].expr
    return replace(region, lets=tuple(lets), yields=tuple(replace(y, expr=put(y.expr)) for y in region.yields))


def _rest(bound: Bound, number: Expr, place: int, is_before: bool) -> Bound | None:
    """What a guard says beside that a point is on one side of the place; None where that is all."""
    apart = (bound.expr - number).constant
    if bound.equals is not None or apart is None:
        return bound
    lower, upper = (side.constant if side is not None else None for side in (bound.lower, bound.upper))
    if is_before and upper is not None and place + apart <= upper:
        bound = replace(bound, upper=None)
    if not is_before and lower is not None and place + apart >= lower:
        bound = replace(bound, lower=None)
    return None if bound.lower is None and bound.upper is None else bound
