"""Points of a domain that are tried before isl is asked: where its facts begin and end."""

from __future__ import annotations

import itertools

import pytest

from tinyir.ir.expr import Bound, Expr
from tinyir.ir.scope import Scope
from tinyir.kit import work

SIZES = {"i0": 7, "i1": 40}
AXES = tuple((axis, Expr.of(size)) for axis, size in SIZES.items())


def scope_of(*bounds: Bound) -> Scope:
    return Scope(AXES, ()).with_given(bounds)


def is_met(point: dict[str, int], bounds: tuple[Bound, ...]) -> bool:
    return all(
        (b.lower is None or b.lower.evaluate(point) <= b.expr.evaluate(point))
        and (b.upper is None or b.expr.evaluate(point) < b.upper.evaluate(point))
        for b in bounds
    )


@pytest.mark.parametrize("scale", [1, 3, -1, -2])
@pytest.mark.parametrize("low", [-90, -3, 0, 5, 31, 90])
@pytest.mark.parametrize("width", [1, 2, 9])
def test_a_piece_has_points_where_its_guards_leave_some(scale: int, low: int, width: int) -> None:
    moved = scale * Expr.of("i1")
    bounds = (Bound(moved, Expr.of(low), Expr.of(low + width)), Bound(Expr.of("i0"), Expr.of(5), None))
    points = [dict(zip(SIZES, point)) for point in itertools.product(*map(range, SIZES.values()))]
    met = [point for point in points if is_met(point, bounds)]
    scope = scope_of(*bounds)
    assert scope.is_empty() == (not met)
    for other in (Bound(Expr.of("i1"), Expr.of(11), None), Bound(Expr.of("i1") + "i0", None, Expr.of(21))):
        assert scope.proves_bound(other) == all(is_met(point, (other,)) for point in met)


def test_isl_is_not_asked_of_the_parts_of_a_concatenation() -> None:
    """Which channels are of which part: 58 parts of 4 channels each."""
    before = work.counts.get("isl sets", 0)
    channels = Expr.of("c")
    whole = Scope((("n", Expr.of("N")), ("c", Expr.of(232)), ("h", Expr.of(7))), (("N", 1, 1 << 20),))
    for first in range(0, 232, 4):
        part = whole.with_given((Bound(channels, Expr.of(first), Expr.of(first + 4)),))
        assert not part.is_empty() and not part.proves(channels - first - 1) and part.proves(channels - first)
    assert work.counts.get("isl sets", 0) == before
