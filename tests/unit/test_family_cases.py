"""The cases of the families: each family has some, and each is a plan that can be obeyed, in canonical text, of symbols
whose sizes it says."""

from __future__ import annotations

from collections import Counter

import pytest

from tinyir.ir import plan
from tinyir.kernels import FAMILIES, family_of

from .checked import check_plan
from .families import CASES


@pytest.mark.parametrize("algo", [family.algo for family in FAMILIES])
def test_every_family_has_cases_of_its_own(algo: str) -> None:
    (family,) = (f for f in FAMILIES if f.algo == algo)
    assert family.cases()
    assert {family_of(plan.parse(text).plans[-1]).algo for text in family.cases().values()} == {algo}


def test_a_case_has_a_name_of_its_own() -> None:
    named = Counter(name for family in FAMILIES for name in family.cases())
    assert [name for name, count in named.items() if count > 1] == []


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_a_plan_that_can_be_obeyed(name: str) -> None:
    module = plan.parse(CASES[name])
    assert plan.show(module) == CASES[name]
    assert [d for d in check_plan(module) if d.is_error] == []
    symbols = {s for t in module.program.model.inputs for e in t.type.shape for s in e.names()}
    assert all(dict(s.sizes).keys() == symbols for s in module.program.model.shape_sets)
    assert bool(symbols) <= bool(module.program.model.shape_sets)
