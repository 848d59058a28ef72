"""Elements that stores write, listed: what a list says is what isl says, of kernels that hold and of planted faults."""

from __future__ import annotations

import itertools

import pytest

from tinyir.ir import gpu
from tinyir.ir.expr import Bound, Expr
from tinyir.ir.gpu import listed, writes
from tinyir.ir.gpu.points import Guarded, Point, Ranged, _Held
from tinyir.kit import work

from .checked import check_gpu
from .families import FAMILIES, family
from .test_gpu_faults import RULES, planted

BY_ISL, BY_LIST = ((0, 60_000),), ((1 << 18, 1), (None, 1))  # points of a list, steps of isl
TOLD = [rule for rule, (_, _, codes) in RULES.items() if "E1619" in codes]


def said(text: str) -> list[tuple[str, str, int]]:
    """Code, words before any element, and line of each diagnostic."""
    found = check_gpu(gpu.parse(text))
    return [(d.code, str(d.facts.get("fault", "")).split(":")[0], d.span.line if d.span else 0) for d in found]


@pytest.fixture
def no_isl(monkeypatch: pytest.MonkeyPatch) -> None:
    """isl has no steps at all, so that only a list can answer."""
    monkeypatch.setattr(writes, "LIMITS", BY_LIST)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_list_has_nothing_to_say_of_what_holds(name: str, no_isl: None) -> None:
    assert said(family(name).kernels) == []


@pytest.mark.parametrize("rule", TOLD)
def test_a_list_says_what_isl_says(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, text in itertools.islice(planted(rule), 3):
        with monkeypatch.context() as limited:
            limited.setattr(writes, "LIMITS", BY_ISL)
            by_isl = said(text)
            limited.setattr(writes, "LIMITS", BY_LIST)
            before = work.counts["points listed"]
            by_list = said(text)
            was_listed = work.counts["points listed"] > before
        assert by_list == by_isl or not was_listed


def test_a_map_with_a_border_is_listed() -> None:
    """Its guards leave floors in what is written, with which isl takes a minute."""
    module = gpu.parse(family("map with a border").kernels)
    before = dict(work.counts)
    assert check_gpu(module) == []
    assert 0 < work.counts["points listed"] - before.get("points listed", 0) < 200_000


def test_too_many_points_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "MOST_POINTS", 100)
    assert check_gpu(gpu.parse(family("map with a border").kernels)) == []


def test_a_long_loop_of_which_a_guard_leaves_nothing_ends() -> None:
    """It is gone through in no more pieces than a list has room for."""
    turns = Ranged("t", Expr.of(0), Expr.of(1 << 30), 1)
    never = Guarded((Bound(Expr.of("t"), upper=Expr.of(0)),), is_broken=False)
    held = tuple(_Held("", frozenset({"t"}), says) for says in (turns, never))
    point = Point(("t",), held, {"t": Expr.of("t")})
    assert 1 < len([*listed._pieces(point)]) <= listed.MOST_POINTS // listed.PIECE
