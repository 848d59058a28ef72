"""Plans for the sizes that calls have: made when the first such call comes, and no more than are wanted."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tinyir import api
from tinyir.dynamo.plans import Planned, Plans
from tinyir.kit.diag import refuse
from tinyir.runtime.sets import FAR, is_far

from .test_shape_sets import MODEL


@functools.cache
def lowered(rows: int) -> tuple[str, Any]:
    model = {k: v for k, v in MODEL.items() if k != "shape_sets"}
    return api.lowered(json.dumps(model), "cpu", sets={"called": {"M": rows}})


class Made:
    """Plans of the model that were made so far, and what was loaded."""

    def __init__(self, traced: int, most: int = 4, refused: frozenset[str] = frozenset()):
        self.asked: list[int] = []
        self.loaded: list[str] = []
        self.refused = refused
        text, module = lowered(traced)
        self.plans = Plans(Planned({"M": traced}, text, module, "first"), most, self.make, self.load, self.allows)

    def make(self, sizes: Mapping[str, int]) -> tuple[str, Any]:
        self.asked.append(sizes["M"])
        return lowered(sizes["M"])

    def load(self, text: str, _: Any) -> str:
        self.loaded.append(text)
        return f"code {len(self.loaded)}"

    def allows(self, module: Any, sizes: Mapping[str, int]) -> None:
        if module.region.model.shape_sets[0].name in self.refused:
            raise refuse("E1719", region="r", reason="a test")

    def of(self, rows: int) -> Planned:
        return self.plans.of({"M": rows})


def test_far_is_a_ratio_of_one_of_the_sizes() -> None:
    known = {"B": 8, "L": 128}
    for b, n in np.exp2(np.random.default_rng(0).uniform(0, 12, (200, 2))).astype(int).tolist():
        ratios = max(b, 8) / min(b, 8), max(n, 128) / min(n, 128)
        assert is_far(known, {"B": b, "L": n}) == (max(ratios) > FAR)
    assert not is_far({"L": 0}, {"L": 1}) and not is_far({}, {"L": 9})


def test_a_size_that_is_far_gets_plans_of_its_own_once() -> None:
    made = Made(traced=64)
    assert made.of(64).code == made.of(100).code == made.of(16).code == "first"
    assert made.asked == []
    one = made.of(1)
    assert one.sizes == {"M": 1} and one.text != made.plans.every[0].text
    assert made.of(1) is one and made.of(2) is one
    assert made.of(4000).sizes == {"M": 4000}
    assert made.asked == [1, 4000] and len(made.loaded) == 2


def test_plans_that_come_out_alike_are_loaded_once() -> None:
    made = Made(traced=4096)
    made.plans._make = lambda sizes: lowered(4096)
    assert made.of(1).code == "first" and made.loaded == []


def test_no_more_sizes_are_planned_for_than_are_wanted() -> None:
    made = Made(traced=64, most=2)
    for rows in (1, 4000, 100000, 3):
        made.of(rows)
    assert made.asked == [1] and made.of(4000).sizes == {"M": 64}


def test_each_of_many_sizes_runs_plans_for_sizes_near_it() -> None:
    made = Made(traced=64, most=99)
    for rows in np.exp2(np.random.default_rng(3).uniform(0, 14, 200)).astype(int).tolist():
        found = made.of(rows)
        assert not is_far(found.sizes, {"M": rows})
    assert len(made.asked) < 10


def test_a_program_without_known_sizes_has_one_plan() -> None:
    made = Made(traced=64)
    made.plans.every[0].sizes = {}
    made.of(1)
    assert made.asked == []


def test_plans_whose_launches_do_not_take_the_sizes_are_passed_over() -> None:
    made = Made(traced=64)
    made.of(1)
    first, second = made.plans.every
    calls: list[Any] = []

    def allows(module: Any, sizes: Mapping[str, int]) -> None:
        calls.append(module)
        if module is second.module:
            raise refuse("E1719", region="r", reason="a test")

    made.plans._allows = allows
    assert made.of(1) is first and calls == [second.module, first.module]


@pytest.mark.parametrize("rows", [1, 5000])
def test_the_fault_is_told_where_no_plans_take_the_sizes(rows: int) -> None:
    from tinyir.kit.diag import Refused

    made = Made(traced=64, refused=frozenset({"called"}))
    with pytest.raises(Refused) as fault:
        made.of(rows)
    assert {d.code for d in fault.value.diags} == {"E1719"}
