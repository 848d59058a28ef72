"""The simplex method on integers says what trying all points says, and what isl says."""

from __future__ import annotations

import itertools
import random

import islpy
import pytest

from tinyir.ir import simplex
from tinyir.ir.simplex import Simplex, has_integers
from tinyir.kit import work

Row = tuple[dict[int, int], int]


def system(seed: int, unknowns: int, rows: int) -> list[Row]:
    draw = random.Random(seed)
    numbers = [-64, -32, -3, -2, -1, 1, 2, 3, 32, 64]
    return [
        (
            {v: draw.choice(numbers) for v in draw.sample(range(unknowns), draw.randint(1, min(3, unknowns)))},
            draw.randint(-80, 40),
        )
        for _ in range(rows)
    ]


def solved(rows: list[Row], seed: int = 0) -> bool | None:
    """By the simplex method, which is asked now and then while rows still come."""
    draw, found = random.Random(seed), Simplex()
    for terms, constant in rows:
        found.add(dict(terms), constant)
        if draw.random() < 0.3:
            found.solve()
    return has_integers(found)


def by_isl(rows: list[Row], unknowns: int) -> bool:
    held = [" + ".join([*(f"{c}v{v}" for v, c in terms.items()), str(constant)]) + " >= 0" for terms, constant in rows]
    return not islpy.Set(f"{{ [{', '.join(f'v{n}' for n in range(unknowns))}] : {' and '.join(held)} }}").is_empty()


@pytest.mark.parametrize("block", range(8))
def test_random_systems_beside_isl(block: int) -> None:
    draw = random.Random(block)
    known = 0
    for seed in range(60):
        unknowns = draw.randint(1, 7)
        rows = system(100 * block + seed, unknowns, draw.randint(1, 14))
        found = solved(rows, seed)
        known += found is not None
        assert found in (None, by_isl(rows, unknowns)), rows
    assert known >= 57  # the limits are for odd systems


def test_small_systems_point_by_point() -> None:
    for seed in range(200):
        box = [({v: 1}, 3) for v in range(3)] + [({v: -1}, 3) for v in range(3)]
        rows = box + system(seed, 3, 4)
        wanted = any(
            all(sum(c * at[v] for v, c in terms.items()) + constant >= 0 for terms, constant in rows)
            for at in itertools.product(range(-3, 4), repeat=3)
        )
        assert solved(rows) in (None, wanted)


def test_integers_are_not_rationals() -> None:
    assert solved([({0: 2}, -1), ({0: -2}, 1)]) is False  # 2x = 1
    assert solved([({0: 3, 1: 3}, -1), ({0: -3, 1: -3}, 2)]) is False  # 1 <= 3(x + y) <= 2
    assert solved([({0: 3, 1: 5}, -7), ({0: -3, 1: -5}, 7)]) is True  # 3x + 5y = 7


def test_a_limit_is_said_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = system(3, 7, 14)
    assert solved(rows) is not None
    monkeypatch.setattr(simplex, "MOST_PIVOTS", 1)
    fresh = Simplex()
    for terms, constant in rows:
        fresh.add(dict(terms), constant)
    assert has_integers(fresh) is None


def test_pivots_are_counted() -> None:
    before = work.counts["pivots"]
    solved([({0: 1, 1: 1}, -3), ({0: -1}, 1), ({1: -1}, 1)])
    assert work.counts["pivots"] > before
