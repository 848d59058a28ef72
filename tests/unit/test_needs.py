"""What a family declares of a CTA is what its kernel takes: shared memory, mbarriers and memory between kernels as the
gpu text declares them, registers as the compiler allots them."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.bench.plans import SAMPLE, shapes
from tests.tidy.sources import ROOT
from tinyir import front
from tinyir.ir import gpu, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.memory import Mbarrier, Shared
from tinyir.ir.gpu.walk import statements
from tinyir.kernels import family_of
from tinyir.kernels.family import Needs
from tinyir.kernels.launch import launch, problem_of
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.lower.gpu.unused import without_unused
from tinyir.target.arch import aligned
from tinyir.tune.program import at_sizes

from .families import FAMILIES, family

QUICK_CASES = 4  # one case in this number
QUICK_SHAPES = 2  # of each architecture


def declared(module: region.Module, one: plan.Plan) -> Needs:
    """What the family of a plan declares."""
    regions = tuple(module.program.region(name) for name in one.regions)
    return family_of(one).declare(one, problem_of(family_of(one), one, regions, module))


def taken(kernel: nodes.Kernel) -> tuple[Counter[tuple[object, ...]], int, int]:
    """The arrays of a kernel's text, its mbarriers, and the bytes of both."""
    inside = list(statements(kernel.body))
    arrays = [s for s in inside if isinstance(s, Shared)]
    barriers = sum(s.ring for s in inside if isinstance(s, Mbarrier))
    shapes = Counter(
        (s.type.dtype, tuple(e.constant for e in s.type.shape), s.ring, s.swizzle, s.cluster, s.kind) for s in arrays
    )
    return shapes, barriers, sum(aligned(s.bytes) for s in arrays) + 8 * barriers


def counted(needs: Needs) -> tuple[Counter[tuple[object, ...]], int, int]:
    """The same of what is declared."""
    shapes = Counter((a.dtype, a.shape, a.slots, a.swizzle, a.cluster, a.kind) for a in needs.shared)
    return shapes, needs.mbarriers, needs.smem


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if i % QUICK_CASES == 0 else pytest.mark.slow) for i, n in enumerate(FAMILIES)],
)
def test_a_kernel_allocates_what_its_family_declares(name: str) -> None:
    module = gpu.parse(family(name).kernels)
    launches = [launch for launch in module.launches if not getattr(launch, "serves", "")]
    for one, launched in zip(module.plans.plans, launches, strict=True):
        if isinstance(launched, nodes.Kernel):  # of launches that are alike the first has the kernel
            assert taken(launched) == counted(declared(module.plans.program, one))


@functools.cache
def _bench_program(arch: str) -> region.Module:
    module = front.read(SAMPLE.read_text(encoding="utf-8"))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, arch)
    return module


def kept_at(arch: str, sizes: dict[str, int]) -> tuple[plan.Module, tuple[plan.Plan, ...]]:
    """A shape of the benches, planned, and every plan that a tuner may measure there."""
    chosen = to_plan.lower(at_sizes(_bench_program(arch), sizes), arch)
    found = to_plan.candidates(chosen.program, chosen.program.program.regions[0], arch)
    return chosen, tuple(c.plan for c in found if not c.rejected)


BENCH_SHAPES = [
    pytest.param(
        arch,
        sizes,
        marks=() if number < QUICK_SHAPES else pytest.mark.slow,
        id=f"{arch} {'x'.join(map(str, sizes.values()))}",
    )
    for arch in ("sm90", "sm80")
    for number, sizes in enumerate(shapes(40, 20))
]


@pytest.mark.parametrize(("arch", "sizes"), BENCH_SHAPES)
def test_every_plan_kept_at_a_bench_shape_allocates_what_its_family_declares(arch: str, sizes: dict[str, int]) -> None:
    chosen, plans = kept_at(arch, sizes)
    assert plans
    for one in plans:
        kernel, before = launch(replace(chosen, plans=(one,)), one)
        kernel = replace(kernel, body=without_unused(kernel.body)[0])
        assert taken(kernel) == counted(declared(chosen.program, one)), plan.show_plan(one)
        written = {t.name for k in before.kernels for t in _stored(k)}
        assert {t.name for t in before.workspaces} == written, plan.show_plan(one)


def _stored(kernel: nodes.Kernel) -> Iterator[nodes.Place]:
    """The places outside of shared memory that a kernel stores to."""
    inside = list(statements(kernel.body))
    shared = {s.name for s in inside if isinstance(s, Shared)}
    yield from (s.to for s in inside if isinstance(s, nodes.Store) and s.to.name not in shared)


def test_one_function_makes_the_statements_of_arrays() -> None:
    """`parts.arrays.shared` alone, of the arrays that are declared: a family cannot allocate what it does not count."""
    made = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "tinyir" / "kernels").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Shared"
    ]
    assert made == ["tinyir/kernels/parts/arrays.py"]
