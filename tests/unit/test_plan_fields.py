"""No field of a plan goes unnoticed: changed to any other value that a person might write, it changes the kernel, which
still gives the same numbers, or it is refused by a diagnostic of the plan."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, plan
from tinyir.ir.expr import Bound, Expr
from tinyir.ir.plan import Async, Bind, Cluster, Consumers, Load, Order, Regs, Store
from tinyir.ir.plan.table import BY_WORD, TABLE
from tinyir.kernels import FAMILIES as FAMILIES_OF_KERNELS
from tinyir.kernels import family_of
from tinyir.kernels.accepts import only
from tinyir.kernels.check.accepted import fields_of
from tinyir.kernels.check.case import Case as CheckedCase
from tinyir.kernels.launch import problem_of
from tinyir.kit.diag import Diag, Refused
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu

from ..japanese import english_of
from .checked import check_gpu, check_plan
from .emitted import played, simulated
from .families import FAMILIES, family
from .plan_fields import WORDS_TRIED, other_values
from .test_multistage import needs_host_compiler

QUICK = (
    "hopper",
    "hopper cluster",
    "hopper few tiles",
    "hopper cut held",
    "hopper words",
    "hopper words thrice",
    "ampere",
    "synchronous",
    "attention",
    "flash",
    "warps",
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
        return self.with_plan(replace(self.one, **{BY_WORD[word].name: value}))

    def with_plan(self, changed: plan.Plan) -> plan.Module:
        """The module with another plan in the place of this one."""
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
                assert english_of(faults) == []
                assert all(d.code.startswith("E15") for d in faults), (word, told, faults)
                continue
            try:
                after = kernels_of(module)
                to_cu.lower(to_gpu.lower(module))
            except Refused as late:
                silent.append(f"{word} {told}: refused late, {[(d.code, d.facts) for d in late.diags]}")
                continue
            if after == before:
                silent.append(f"{word} {told}: changes nothing")
            elif diags := check_gpu(to_gpu.lower(module)):
                silent.append(f"{word} {told}: {[(d.code, d.facts) for d in diags]}")
    assert silent == []


def changed_together(case: Case, rng: random.Random) -> plan.Plan:
    """The plan with other values of a few fields, and then in fields that do not take theirs one that they take."""
    one = case.one
    for word in rng.sample(WORDS_TRIED, rng.randint(1, 3)):
        one = replace(one, **{BY_WORD[word].name: rng.choice([*case.others(word), getattr(one, BY_WORD[word].name)])})
    for _ in range(4):
        told = [d for d in check_plan(case.with_plan(one)) if d.is_error]
        if not told or {d.code for d in told} != {"E1525"}:
            break
        for word, accepts in fields_of(_case_of(case.with_plan(one), one)).items():
            if accepts.values and not accepts.is_met(getattr(one, BY_WORD[word].name)):
                one = replace(one, **{BY_WORD[word].name: rng.choice(accepts.values)})
    return one


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FAMILIES])
def test_fields_that_change_together_are_refused_or_become_a_kernel(name: str) -> None:
    """What the plan checker takes emission holds: it checks nothing again."""
    case, rng, late = case_of(name), random.Random(1), []
    for _ in range(100):
        module = case.with_plan(changed_together(case, rng))
        if not any(d.is_error for d in check_plan(module)):
            try:
                to_cu.lower(to_gpu.lower(module))
            except Refused as fault:
                late.append((plan.show_plan(module.plans[0]), [(d.code, d.facts) for d in fault.diags]))
    assert late == []


def is_same(module: plan.Module, name: str) -> bool:
    """Whether the simulated kernels of a module give what playback gives, of the inputs of its case."""
    code, given = to_cu.lower(to_gpu.lower(module)), family(name)
    for arrays in given.inputs:
        there, here = simulated(code, arrays), played(code, arrays)
        close = (np.allclose(there[n], here[n], given.tolerance, given.tolerance, equal_nan=True) for n in here)
        if not all(close):
            return False
    return True


def _obeyed(name: str, words: tuple[str, ...]) -> Iterator[tuple[str, plan.Module]]:
    """Each other value of the fields that is taken, with its text."""
    case = case_of(name)
    for word in words:
        for value, faults, module in outcomes(case, word):
            if not faults:
                yield f"{word} {BY_WORD[word].text(value)}", module


@needs_host_compiler
@pytest.mark.parametrize(
    "name, words",
    [
        ("hopper", ("load", "async")),
        ("hopper few tiles", ("load",)),
        ("ampere", ("async", "order")),
        ("synchronous", ("stages", "bind")),
        pytest.param("hopper transposed", ("load",), marks=pytest.mark.slow),
        pytest.param("hopper bytes in turn", ("load", "promote", "partials"), marks=pytest.mark.slow),
        *(pytest.param(name, WORDS_TRIED, marks=pytest.mark.slow) for name in FAMILIES),
    ],
)
def test_another_value_gives_the_same_numbers(name: str, words: tuple[str, ...]) -> None:
    wrong = [told for told, module in _obeyed(name, words) if not is_same(module, name)]
    assert wrong == []


@dataclass(frozen=True, slots=True)
class Governed:
    """What a field decides: the case, other values of fields that go together, and lines of its kernels with the plan
    as it is and with the others. A field of which a family takes one value has no others: any is refused."""

    name: str
    line: str
    other: dict[str, Any]
    becomes: str = ""


K, N = Expr.of("K"), Expr.of("N")
WHOLE_ROWS = (Bound(8 * (K // 8), equals=K), Bound(8 * (N // 8), equals=N), Bound(K, lower=Expr.of(1)))
GOVERNED: dict[str, Governed] = {
    "tile": Governed(
        "hopper", "shared b : fp16[64, 128] ring 4", {"tile": (64, 64, 64)}, "shared b : fp16[64, 64] ring 4"
    ),
    "warp_tile": Governed(
        "ampere",
        "reg acc : fp32[64, 64] mma",
        {"warp_tile": (64, 32), "threads": (256,)},
        "reg acc : fp32[64, 32] mma",
    ),
    "micro": Governed(
        "synchronous", "reg acc : fp32[4, 4]", {"micro": (8, 4), "threads": (16, 8)}, "reg acc : fp32[8, 4]"
    ),
    "threads": Governed("synchronous", "block [16, 16]", {"micro": (8, 8), "threads": (8, 8)}, "block [8, 8]"),
    "stages": Governed(
        "hopper", "mbarrier full ring 4", {"stages": 3, "asynchrony": Async(3, "epilogue")}, "mbarrier full ring 3"
    ),
    "math": Governed("hopper words", "round tf32", {}),
    "promote": Governed("hopper bytes in turn", "reg partial : fp32", {"promote": 0, "partials": 1}, "reg acc : fp32"),
    "partials": Governed("hopper bytes in turn", "reg other : fp32", {"partials": 1}, "reg partial : fp32"),
    "atomics": Governed("scatter by compare and swap", "atomic max Y", {}),
    "consumers": Governed(
        "hopper cluster",
        "role consumer warpgroups 1..3",
        {"consumers": Consumers(1, "cooperative"), "regs": None},
        "role consumer warpgroups 1..2",
    ),
    "cluster": Governed("hopper cluster", "multicast [0, 1]", {"cluster": Cluster((2, 1))}, "cluster [2]"),
    "regs": Governed("hopper cluster", "warpgroups 1..3 regs 232", {"regs": Regs(40, 216)}, "warpgroups 1..3 regs 216"),
    "bind": Governed(
        "synchronous",
        "let m0 = 64*cta.y",
        {
            "bind": (
                Bind(("i0.o",), "cta.x"),
                Bind(("i1.o",), "cta.y"),
                Bind(("i0.i",), "thread.y"),
                Bind(("i1.i",), "thread.x"),
            )
        },
        "let m0 = 64*cta.x",
    ),
    "persistent": Governed("hopper bytes in turn", "grid [2] block", {"persistent": 3}, "grid [3] block"),
    "order": Governed("ampere", "group 8", {"order": Order("group", 4)}, "group 4"),
    "split_k": Governed(
        "hopper cut",
        "for k in cluster.rank..steps step 2",
        {"split_k": None, "assume": WHOLE_ROWS},
        "for k in 0..steps",
    ),
    "swap_ab": Governed("hopper cut", "tensor_map a.map = B", {}),
    "cache": Governed("ampere", "shared a : fp16[128, 32]", {}),
    "load": Governed(
        "hopper",
        "shared b : fp16[64, 128] ring 4 swizzle 128",
        {"load": (Load("A", "tma", 128), Load("B", "tma", 32))},
        "shared b : fp16[64, 128] ring 4 swizzle 32",
    ),
    "store": Governed("hopper", "tma_store C.out.map", {"store": (Store("C", "rows"),)}, "store_rows C"),
    "vectorize": Governed("map in vectors", "vector 4", {"vectorize": ()}, "store Y"),
    "assume": Governed(
        "map in vectors",
        "kernel r",
        {"assume": (Bound(Expr.of("N"), upper=Expr.of(999)),)},
        "assume N < 999",
    ),
    "predicate": Governed("ampere", "where i0 < M and k0 < K else 0.0", {}),
    "epilogue": Governed("ampere", "%biased", {}),
    "async": Governed(
        "ampere", "wait_group cp_async pending 2", {"asynchrony": Async(1)}, "wait_group cp_async pending 0"
    ),
    "barrier": Governed("ampere", "commit %load.a, %load.b", {}),
    "layout": Governed("hopper padded", "kernel r.pad of r for r", {}),
    "edge": Governed("attention fp32", "shared p.tile", {}),
}


@pytest.mark.parametrize("word", WORDS_TRIED)
def test_a_field_governs_a_statement(word: str) -> None:
    governed = GOVERNED[word]
    case = case_of(governed.name)
    assert governed.line in kernels_of(case.module)
    if governed.other:
        changed = replace(case.one, **governed.other)
        module = replace(case.module, plans=tuple(changed if p is case.one else p for p in case.module.plans))
        assert check_plan(module) == []
        after = kernels_of(module)
        assert governed.becomes in after and (word == "assume" or governed.line not in after)


def test_the_reference_says_which_algos_obey_a_field() -> None:
    reference = (Path(__file__).resolve().parents[2] / "docs" / "languages.md").read_text(encoding="utf-8")
    for field in TABLE:
        algos = [one.algo for one in FAMILIES_OF_KERNELS if field.word == "tile" or one.obeys(field.word)]
        told = "all" if len(algos) == len(FAMILIES_OF_KERNELS) else ", ".join(algos) or "none"
        assert field.word == "algo" or f"| `{field.word}` | {field.meaning} | {told} |\n" in reference


def test_values_that_count_up_are_told_as_a_range() -> None:
    ahead = only(None, *(Async(number, overlap) for overlap in ("", "epilogue") for number in (2, 3, 4)))
    assert ahead.told(BY_WORD["async"]) == "- | prefetch 2..4 | prefetch 2..4 overlap epilogue"
    assert only(0, 1, 4, 5, 6, 7).told(BY_WORD["stages"]) == "0 | 1 | 4..7"
    assert only((64, 8), (64, 16)).told(BY_WORD["tile"]) == "[64, 8] | [64, 16]"


def test_the_grammar_has_a_rule_for_each_field() -> None:
    rules = (Path(__file__).resolve().parents[2] / "grammars" / "plan.lark").read_text(encoding="utf-8")
    assert re.findall(r'^(\w+)_field: "(\w+)"', rules, re.M) == [(f.word, f.word) for f in TABLE]


def test_a_family_takes_something_in_each_field_that_it_says_it_has() -> None:
    for name in QUICK:
        family_ = family_of(case_of(name).one)
        case = case_of(name)
        accepts = fields_of(_case_of(case.module, case.one))
        assert set(accepts) == {"tile", *family_.needs, *family_.fields}


def _case_of(module: plan.Module, one: plan.Plan) -> CheckedCase:
    regions = tuple(module.program.program.region(n) for n in one.regions)
    found = family_of(one)
    return CheckedCase(one, found, problem_of(found, one, regions, module.program))
