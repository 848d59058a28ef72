"""A plan of one family over a region of another, with fields that the family takes: it is refused, or made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tinyir.ir import plan
from tinyir.ir.plan.table import TABLE
from tinyir.ir.region import Region
from tinyir.kernels import FAMILIES
from tinyir.kernels.check import check
from tinyir.kernels.check.accepted import fields_of
from tinyir.kernels.check.case import Case
from tinyir.kernels.family import Family
from tinyir.kernels.launch import launch, problem_of
from tinyir.kernels.parts.guards import guarded_axes
from tinyir.kernels.problem import Contraction
from tinyir.kit.diag import Refused
from tinyir.kit.records import replace

ALONE = [f for f in FAMILIES if f.match is None and f.cases()]
OWN = {"cache": (), "load": (), "store": (), "layout": (), "assume": (), "cluster": None}  # what names tensors or sizes


def first_of(family: Family) -> plan.Module:
    return next(m for text in family.cases().values() for m in [plan.parse(text)] if len(m.plans[-1].regions) == 1)


FIRST = {family.algo: first_of(family) for family in ALONE}


def others(family: Family) -> Iterator[tuple[plan.Module, Region]]:
    for algo, module in FIRST.items():
        if algo != family.algo:
            yield from ((module, region) for region in module.program.program.regions)


def moved(family: Family, module: plan.Module, region: Region) -> plan.Plan:
    """The family's plan over a region, each field that takes one of a few values with the first of them."""
    found = replace(FIRST[family.algo].plans[-1], regions=(region.name,), **OWN)
    problem = problem_of(family, found, (region,), module.program)
    if isinstance(problem.kernel, Contraction):
        epilogue = tuple(let.name for let in region.lets if let.name not in problem.kernel.values)
        found = replace(found, epilogue=epilogue)
    if family.beyond(problem):
        return found
    for field in TABLE:
        guarded = [n for group, size in zip(problem.kernel.groups, found.tile) for n in guarded_axes(group, size)]
        found = replace(found, predicate=tuple(guarded))
        taken = fields_of(Case(found, family, problem)).get(field.word)
        if taken is not None and taken.values and not taken.is_met(field.of(found)):
            found = replace(found, **{field.name: taken.values[0]})
    return found


@pytest.mark.parametrize("family", ALONE, ids=lambda f: f.algo)
def test_a_region_of_another_family_is_refused_or_made(family: Family) -> None:
    for module, region in others(family):
        try:
            one = moved(family, module, region)
        except Refused:
            continue
        text = replace(module, plans=(one,))
        found = check(text)
        problem = problem_of(family, one, (region,), module.program)
        assert not family.beyond(problem) or [d.code for d in found] == ["E1611"]
        if not found:
            launch(text, one)
