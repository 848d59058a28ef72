"""No field of a plan goes unnoticed: changed to any other value that a person might write, it changes the kernel, which
still gives the same numbers, or it is refused by a diagnostic of the plan."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tinyir.ir import gpu, plan
from tinyir.ir.plan.table import BY_WORD, TABLE
from tinyir.kit.diag import Diag, Refused
from tinyir.lower import gpu as to_gpu

from .checked import check_gpu, check_plan
from .families import FAMILIES, family
from .plan_fields import WORDS_TRIED, other_values

QUICK = (
    "hopper",
    "hopper cluster",
    "hopper few tiles",
    "hopper cut held",
    "hopper words thrice",
    "ampere",
    "synchronous",
    "attention",
    "scan of a warp",
    "scan by look back at flags",
    "scatter by compare and swap",
    "softmax of lanes",
    "softmax of a cluster",
    "map in vectors",
    "map turned",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One plan of a case of a family, with the module that it is in."""

    module: plan.Module
    one: plan.Plan

    def with_value(self, word: str, value: Any) -> plan.Module:
        """The module with another value of a field."""
        changed = replace(self.one, **{BY_WORD[word].name: value})
        return replace(self.module, plans=tuple(changed if p is self.one else p for p in self.module.plans))

    def others(self, word: str) -> Iterator[Any]:
        """Other values of a field."""
        regions = tuple(self.module.program.program.region(name) for name in self.one.regions)
        yield from other_values(self.one, regions, word)


@functools.cache
def case_of(name: str) -> Case:
    """The first plan of a case."""
    module = gpu.parse(family(name).kernels).plans
    return Case(module, module.plans[0])


def kernels_of(module: plan.Module) -> str:
    """The kernels of a module as text, without its plans."""
    made = to_gpu.lower(module)
    return gpu.show(made)[len(plan.show(made.plans)) :]


def outcomes(case: Case, word: str) -> Iterator[tuple[Any, list[Diag], plan.Module]]:
    """Each other value of a field, the diagnostics that it gets, and the module that has it."""
    for value in case.others(word):
        module = case.with_value(word, value)
        yield value, check_plan(module), module


def test_every_field_is_tried() -> None:
    assert {f.word for f in TABLE} - {"algo", "estimate"} == set(WORDS_TRIED)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FAMILIES])
def test_another_value_is_refused_or_changes_the_kernel(name: str) -> None:
    case, silent = case_of(name), []
    before = kernels_of(case.module)
    assert check_plan(case.module) == []
    for word in WORDS_TRIED:
        for value, faults, module in outcomes(case, word):
            told = BY_WORD[word].text(value)
            if faults:
                assert all(d.code.startswith("E15") for d in faults), (word, told, faults)
                continue
            try:
                after = kernels_of(module)
            except Refused as late:
                silent.append(f"{word} {told}: refused late, {[(d.code, d.facts) for d in late.diags]}")
                continue
            if after == before:
                silent.append(f"{word} {told}: changes nothing")
            elif diags := check_gpu(to_gpu.lower(module)):
                silent.append(f"{word} {told}: {[(d.code, d.facts) for d in diags]}")
    assert silent == []
