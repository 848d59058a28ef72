"""Registers that a family declares are those that the compiler allots: an upper bound within SLACK, and no spills."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.bench import memory_ops, packed, windows
from tests.bench.plans import shapes
from tinyir.front import read
from tinyir.ir import gpu, manifest, plan
from tinyir.ir.gpu import nodes
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import Compiler, Usage, cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.target.arch import ARCHS

from .families import FAMILIES, family
from .test_needs import declared, kept_at
from .test_warp_specialized import product

SLACK = 16
EACH, MOST = 8, 255  # registers that hardware gives a thread at once, and at most
CARD = "h200"
SHAPES = shapes(40, 20)
QUICK = (  # a shape's first plan by each family of kernels
    ("sm80", SHAPES[0], "multistage"),
    ("sm80", SHAPES[0], "synchronous"),
    ("sm80", SHAPES[1], "gemv"),
    ("sm90", SHAPES[0], "warp_specialized"),
    ("sm90", SHAPES[2], "warp_specialized"),
)


@functools.cache
def compilers() -> tuple[Compiler, ...]:
    """The compilers that are installed, the quicker one first."""
    return tuple(c for c in (find_nvrtc(), find_nvcc()) if c is not None)


needs_cuda_compiler = pytest.mark.skipif(not compilers(), reason="no CUDA compiler is installed")


def usage(module: gpu.Module, name: str, compiler: Compiler) -> Usage:
    """What a compiler takes for one kernel of a text."""
    launches = tuple(k for k in module.launches if name in (k.name, getattr(k, "serves", "")))
    code = to_cu.lower(replace(module, launches=launches))
    entry = next(launch.entry for launch in code.launches if launch.name == name)
    target = ARCHS[module.plans.plans[0].arch].target
    return usage_of(cubin_of(manifest.show(code), target, compiler))[entry]


def faults_of(chosen: plan.Module, one: plan.Plan, compiler: Compiler) -> list[str]:
    """What a compiler does to a plan's kernel that the family does not declare."""
    module = to_gpu.lower(replace(chosen, plans=(one,)))
    found, wanted = usage(module, one.name, compiler), declared(chosen.program, one).registers
    is_within = wanted - SLACK <= min(-(-found.registers // EACH) * EACH, MOST) <= wanted
    if is_within and not found.spill_stores + found.spill_loads:
        return []
    return [f"{compiler.name}: {found} for {wanted}\n{plan.show_plan(one)}"]


def kept_of(text: str) -> tuple[plan.Module, tuple[plan.Plan, ...]]:
    """A model, planned, and the plans that are kept for the launch that takes longest."""
    module: Any = read(text)
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", CARD)
    return kept_of_longest(module)


def kept_of_longest(module: plan.Module) -> tuple[plan.Module, tuple[plan.Plan, ...]]:
    """The plans that are kept for the launch of a module that takes longest."""
    names = max(module.plans, key=lambda one: one.estimate.microseconds).regions
    first, *others = (module.program.program.region(name) for name in names)
    found = to_plan.candidates(module.program, first, "sm90", CARD, tuple(others))
    return module, tuple(c.plan for c in found if not c.rejected)


@needs_cuda_compiler
@pytest.mark.parametrize(("arch", "sizes", "algo"), QUICK)
def test_a_plan_takes_the_registers_that_it_declares(arch: str, sizes: dict[str, int], algo: str) -> None:
    chosen, plans = kept_at(arch, sizes)
    one = next(p for p in plans if p.algo == algo)
    assert [fault for compiler in compilers() for fault in faults_of(chosen, one, compiler)] == []


MOVING = (  # an op of the benches of memory-bound work, a shape, a dtype and a family
    ("transpose", (4096, 1024), "fp16", "transposed"),
    ("transpose", (4093, 4093), "fp32", "transposed"),
    ("softmax_backward", (32768, 1024), "fp16", "row_resident"),
    ("softmax", (8192, 8192), "fp32", "row_resident"),
    ("cross_entropy", (2048, 32768), "fp32", "row_resident"),
    ("quantise", (4093, 4093), "fp32", "row_streamed"),
    ("layernorm_backward", (2048, 32768), "fp16", "row_streamed"),
    ("column_sum", (32768, 1024), "fp32", "columns"),
    ("weights_backward", (8192, 8192), "fp16", "columns"),
)


@needs_cuda_compiler
@pytest.mark.parametrize(("op", "shape", "dtype", "algo"), MOVING)
def test_a_memory_bound_plan_takes_the_registers_that_it_declares(
    op: str, shape: tuple[int, int], dtype: str, algo: str
) -> None:
    """The family's plans with the most registers and the fewest, and that in the middle."""
    chosen, found = kept_of(memory_ops.model_of(memory_ops.Case(op, dtype, shape, False)))
    plans = sorted((p for p in found if p.algo == algo), key=lambda p: declared(chosen.program, p).registers)
    tried = {plans[0], plans[len(plans) // 2], plans[-1]}
    assert [fault for one in tried for fault in faults_of(chosen, one, compilers()[0])] == []


@needs_cuda_compiler
@pytest.mark.parametrize("op", ["softmax", "layernorm", "cross_entropy", "layernorm_backward"])
def test_a_row_of_a_cluster_takes_the_registers_that_it_declares(op: str) -> None:
    """The plans with the most registers and the fewest of each number of CTAs."""
    chosen, found = kept_of(memory_ops.model_of(memory_ops.Case(op, "fp32", (16, 131072), False)))
    ctas: dict[Any, list[plan.Plan]] = {}
    for one in sorted(found, key=lambda p: declared(chosen.program, p).registers):
        if one.algo == "row_resident" and one.cluster:
            ctas.setdefault(one.cluster.shape, []).append(one)
    tried = {one for plans in ctas.values() for one in (plans[0], plans[-1])}
    assert ctas
    assert [fault for one in tried for fault in faults_of(chosen, one, compilers()[0])] == []


@needs_cuda_compiler
def test_groups_with_channels_innermost_take_the_registers_that_they_declare() -> None:
    """The three cheapest plans of `direct`, and the one with the most registers."""
    module = windows.module_of(windows.Case(32, "grouped", 128, 56, 128, 3, 1, 32, windows.LAST))
    found = to_plan.candidates(module.program, module.program.program.regions[-1], "sm90", CARD)
    kept = sorted((c for c in found if not c.rejected and c.plan.algo == "direct"), key=lambda c: c.cost.microseconds)
    plans = [c.plan for c in kept]
    most = max(plans, key=lambda p: declared(module.program, p).registers)
    assert [fault for one in (*plans[:3], most) for fault in faults_of(module, one, compilers()[0])] == []


@needs_cuda_compiler
@pytest.mark.parametrize("case", [packed.Case(64, 4096, 4096, 8), packed.Case(8, 4096, 4096, 4, "awq")])
def test_a_product_of_few_rows_takes_the_registers_that_it_declares(case: packed.Case) -> None:
    """One plan of each piece of the sum, number of a warp's columns and of steps that are read at once."""
    chosen, found = kept_of(case.text)
    ours = [p for p in found if p.algo == "few_rows"]
    forms = {(p.tile[2] // p.threads[2], p.tile[1] // p.threads[1], p.stages): p for p in ours}
    assert {p.stages for p in forms.values()} == {1, 2}
    assert [fault for one in forms.values() for fault in faults_of(chosen, one, compilers()[0])] == []


@needs_cuda_compiler
def test_a_product_of_few_rows_that_would_spill_is_not_kept() -> None:
    """Of 64 rows, two steps of 16 weights of four bits, or one of 32, leave a warp of 64 columns too few registers."""
    module: Any = read(packed.model_of(64, 11008, 4096, 4, packed.BLOCK), "packed.json")
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", CARD)
    found = to_plan.candidates(module.program, module.program.program.regions[-1], "sm90", CARD)
    ours = [c for c in found if c.plan.algo == "few_rows"]
    refused = [c for c in ours if "registers a thread in arrays" in str(c.rejected)]
    assert {(c.plan.widest, c.plan.tile[1] // c.plan.threads[1]) for c in refused} == {(16, 64), (32, 64)}
    most = max((c.plan for c in ours if not c.rejected), key=lambda p: declared(module.program, p).registers)
    taken = usage(to_gpu.lower(replace(module, plans=(most,))), most.name, compilers()[0])
    assert (taken.spill_stores, taken.spill_loads) == (0, 0), plan.show_plan(most)


BIASED = "%biased = add(%gemm, broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1]))"
ENDS = {  # of a sum, with what is read beside each piece that leaves
    "a residual": {
        "extra": "in R : fp16[M, N]",
        "epilogue": "%added = add(%gemm, cast(R[i0, i1]) : fp32)",
        "value": "added",
    },
    "a bias and a residual": {
        "extra": "in bias : fp16[N]; in R : fp16[M, N]",
        "epilogue": f"{BIASED}; %added = add(%biased, cast(R[i0, i1]) : fp32)",
        "value": "added",
    },
    "a bias and tanh": {
        "extra": "in bias : fp16[N]",
        "epilogue": f"{BIASED}; %curved = tanh(%biased); %gated = mul(%biased, %curved)",
        "value": "gated",
    },
}


def walkers(end: str) -> Iterator[tuple[plan.Module, plan.Plan]]:
    """A product with such an end under plans whose CTAs walk over tiles, with one warpgroup that sums."""
    module = product("NN", **ENDS[end], sizes="M=1024, N=1024, K=1024")
    found = [c.plan for c in to_plan.candidates(module, module.program.regions[0], "sm90")]
    walking = [p for p in found if p.persistent and not p.regs and not p.layout and p.store]
    for tile in dict.fromkeys(p.tile for p in walking):
        one = next(p for p in walking if p.tile == tile)
        yield plan.Module(module, (one,)), one


@needs_cuda_compiler
@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_sum_spills_nothing(end: str) -> None:
    every = list(walkers(end))
    assert every
    for chosen, one in every:
        found = usage(to_gpu.lower(chosen), one.name, compilers()[0])
        assert (found.spill_stores, found.spill_loads) == (0, 0), plan.show_plan(one)


@pytest.mark.slow
@needs_cuda_compiler
@pytest.mark.parametrize("name", FAMILIES)
def test_a_case_takes_no_more_registers_than_its_family_declares(name: str) -> None:
    """Of each kernel whose warps hand none to one another (`regs` of the plan), and it spills nothing."""
    module = gpu.parse(family(name).kernels)
    launches = [launch for launch in module.launches if not getattr(launch, "serves", "")]
    for one, launched in zip(module.plans.plans, launches, strict=True):
        if isinstance(launched, nodes.Kernel) and not one.regs:
            found, wanted = usage(module, launched.name, compilers()[0]), declared(module.plans.program, one).registers
            assert (found.spill_stores, found.spill_loads) == (0, 0), plan.show_plan(one)
            assert found.registers <= wanted, plan.show_plan(one)


@pytest.mark.slow
@needs_cuda_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
@pytest.mark.parametrize("sizes", SHAPES, ids=lambda sizes: "x".join(map(str, sizes.values())))
def test_every_plan_kept_at_a_bench_shape_does(arch: str, sizes: dict[str, int]) -> None:
    chosen, plans = kept_at(arch, sizes)
    assert [fault for one in plans for fault in faults_of(chosen, one, compilers()[0])] == []


@pytest.mark.parametrize("name", FAMILIES)
def test_a_kernel_is_held_to_what_its_family_declares_or_to_nothing(name: str) -> None:
    """All but those whose warps hand registers to one another (`regs` of the plan)."""
    module = gpu.parse(family(name).kernels)
    launches = [launch for launch in module.launches if not getattr(launch, "serves", "")]
    for one, launched in zip(module.plans.plans, launches, strict=True):
        if isinstance(launched, nodes.Kernel):
            wanted = declared(module.plans.program, one).registers * (not one.regs)
            assert launched.regs in (0, wanted), plan.show_plan(one)
