"""Candidates as columns: a row of a sheet is a plan like any other, and takes, costs and ranks what the sheet says of
it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tinyir import kernels
from tinyir.analysis.work import work_of
from tinyir.ir import plan
from tinyir.ir.traits import sizes_of
from tinyir.kernels import families_for, resources
from tinyir.kernels.cost import cost_of, costs_of
from tinyir.kernels.family import Family, Problem
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.kernels.sheet import Sheet
from tinyir.kernels.warp_specialized.declare import allocated, smem_by_stages
from tinyir.kernels.warp_specialized.space import propose_warp_specialized
from tinyir.kit import numbers
from tinyir.kit.numbers import at_row
from tinyir.lower.plan import card_of
from tinyir.lower.plan.judge import Judged, judged_of
from tinyir.target.device import Device

CASES = {
    f"{family.algo} {name}": text
    for family in kernels.FAMILIES
    if family.problem is Contraction
    for name, text in family.cases().items()
}
FEW = 11  # one row of a sheet in this number is looked at
CARDS = [card_of("sm90", None), card_of("sm80", None), card_of("sm90", None, fp32="tf32")]


def problems(text: str) -> Iterator[Problem]:
    """Each contraction of a plan text."""
    module = plan.parse(text).program
    for one in module.program.regions:
        for kernel in kernels_of(one, sizes_of(module.model))[:1]:
            if isinstance(kernel, Contraction):
                yield Problem((one,), kernel, module.model)


def sheets(problem: Problem, card: Device) -> Iterator[tuple[Family, Sheet]]:
    """What is proposed for it in columns."""
    for family in families_for(problem.kernel):
        yield from ((family, found) for found in family.space(problem, card) if isinstance(found, Sheet))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("warp_specialized")])
def test_memory_by_stages_is_what_each_number_of_them_takes(name: str) -> None:
    for problem in problems(CASES[name]):
        given = problem.region, problem.kernel
        for sheet in propose_warp_specialized(problem, CARDS[0]):
            taken = smem_by_stages(sheet.plan, *given)
            for count in (1, 2, 5, sheet.plan.stages, sheet.plan.stages + 1):
                whole = allocated(replace(sheet.plan, stages=count), *given).smem
                assert (taken(count) == whole).all()


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_what_its_plan_is(name: str) -> None:
    for problem in problems(CASES[name]):
        sizes, work = sizes_of(problem.model), work_of(problem.region, sizes_of(problem.model))
        for card in CARDS:
            for family, sheet in sheets(problem, card):
                needs = family.declare(sheet.plan, problem)
                taken = resources.taken_by(sheet.plan, needs)
                costs = costs_of(family, sheet.plan, problem, work, sizes, card, taken)
                for row in range(0, sheet.count, FEW):
                    one = sheet.row(row)
                    own = family.declare(one, problem)
                    for field in ("smem", "mbarriers", "registers", "accumulators", "leaving"):
                        assert at_row(getattr(needs, field), row) == getattr(own, field), (field, plan.show_plan(one))
                    alone = resources.taken_by(one, own)
                    assert at_row(taken.occupancy, row) == alone.occupancy
                    if alone.occupancy:
                        found = cost_of(family, one, problem, work, sizes, card)
                        assert costs.row(row) == found and at_row(costs.microseconds, row) == found.microseconds


@pytest.mark.parametrize("name", list(CASES)[::5])
def test_candidates_are_judged_as_one_by_one(name: str) -> None:
    """The same candidates, ranked alike, whether a family proposes them as columns or as plans."""
    for problem in problems(CASES[name]):
        sizes, work = sizes_of(problem.model), work_of(problem.region, sizes_of(problem.model))
        for card in CARDS[:2]:
            families = families_for(problem.kernel)
            whole = Judged([judged_of(family, problem, work, sizes, card) for family in families])
            single = Judged([judged_of(_one_by_one(family), problem, work, sizes, card) for family in families])
            assert list(whole) == list(single)
            assert whole.kept() == single.kept() and whole.rejected() == single.rejected()
            assert whole.least_us == single.least_us
            assert [whole.assumed(at) for at in whole.kept()] == [single.assumed(at) for at in single.kept()]


def _one_by_one(family: Family) -> Family:
    """The family with a proposal for each row of its sheets."""

    def space(problem: Problem, card: Device) -> list:
        from tinyir.kernels.family import Proposal

        found = list(family.space(problem, card))
        rows = [
            (s.places[r], Proposal(s.row(r), s.stops.get(r, "")))
            for s in found
            if isinstance(s, Sheet)
            for r in range(s.count)
        ]
        return [p for _, p in sorted(rows, key=lambda row: row[0])] + [p for p in found if isinstance(p, Proposal)]

    return replace(family, space=space)


def test_a_place_is_taken_once() -> None:
    for text in list(CASES.values())[::3]:
        for problem in problems(text):
            for card in CARDS:
                places: dict[str, list[int]] = {}
                for family, sheet in sheets(problem, card):
                    assert len(sheet.places) == sheet.count
                    places.setdefault(family.algo, []).extend(sheet.places)
                assert all(len(set(found)) == len(found) for found in places.values())


def test_arithmetic_is_the_same_of_a_number_and_of_a_column() -> None:
    left, right = [0, 1, 7, 48, 2**40], [3, 1, 14, 36, 5]
    columns = np.array(left), np.array(right)
    for function in (numbers.least, numbers.most, numbers.gcd, lambda a, b: numbers.pick(a > b, a, b)):
        alone = [function(a, b) for a, b in zip(left, right)]
        assert function(*columns).tolist() == alone and all(type(x) is int for x in alone)
    times = np.random.default_rng(1).random(1000) * 100
    assert numbers.power(times, 6.5).tolist() == [x**6.5 for x in times.tolist()]
    assert numbers.entry([5, 6, 7], np.array([2, 0])).tolist() == [7, 5] and numbers.entry([5, 6, 7], 1) == 6
    assert numbers.at_row(columns[0], 2) == 7 and numbers.at_row(9, 2) == 9
    assert numbers.uniform(columns[0] >= 0) is True and numbers.uniform(False) is False
    with pytest.raises(ValueError):
        numbers.uniform(columns[0] > 1)
