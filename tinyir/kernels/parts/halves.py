"""A map that is one thing up to a place along an axis, and another from there on: what a concatenation is.

%both = where(cmplt(index(i1), 4096), A where i1 < 4096 else 0.0, B where 0 <= i1 - 4096 else 0.0)

before the place: %both = A          from it on: %both = B
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Binary, Body, BroadcastInDim, Index, Literal, Select, Ternary, rebuild, walk
from ...ir.expr import Bound, Expr
from ...ir.region import Region
from ...ir.traits import bodies_of
from ...kit.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Halves:
    """The region where `number` is less than `place`, and where it is not."""

    number: Expr
    place: int
    before: Region
    behind: Region


def halves_of(region: Region, along: str) -> Halves | None:
    """The first place at which a map becomes another along an axis; None where it is the same all along."""
    for condition in _conditions(region):
        index, literal = condition.left, condition.right
        if along in index.expr.names():
            number, place = index.expr, int(literal.value)
            return Halves(
                number, place, *(_side(region, condition, number, place, is_before) for is_before in (True, False))
            )
    return None


def _conditions(region: Region) -> Iterator[Binary]:
    for body in bodies_of(region):
        for node in walk(body):
            found = _condition(node)
            if found is not None:
                yield found


def _condition(node: Body) -> Binary | None:
    """The comparison of an integer with a number on which a choice rests."""
    if not isinstance(node, Ternary) or node.op != "where":
        return None
    condition = node.first.x if isinstance(node.first, BroadcastInDim) else node.first
    is_place = isinstance(condition, Binary) and condition.op == "cmplt" and isinstance(condition.left, Index)
    return condition if is_place and isinstance(condition.right, Literal) else None


def _side(region: Region, condition: Binary, number: Expr, place: int, is_before: bool) -> Region:
    """The region on one side of the place: the choice is made, and guards that say the same are gone."""

    def put(body: Body) -> Body:
        if _condition(body) == condition:
            return put(body.second if is_before else body.third)
        if isinstance(body, Select):
            left = tuple(rest for b in body.guard if (rest := _rest(b, number, place, is_before)) is not None)
            return put(body.then) if not left else rebuild(replace(body, guard=left), put)
        return rebuild(body, put)

    return replace(
        region,
        lets=tuple(replace(let, expr=put(let.expr)) for let in region.lets),
        yields=tuple(replace(y, expr=put(y.expr)) for y in region.yields),
    )


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


__all__ = ["Halves", "halves_of"]
