"""Batches in any layout: apart in memory, in one operand alone, between the sides of a tile; all on tensor cores."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tinyir.ir import plan, region
from tinyir.kernels.problem import kernel_of
from tinyir.sim.host import COMPILERS

from .checked import check_plan
from .emitted import region_text
from .test_multistage import is_right
from .test_multistage import proposed as by_warps
from .test_warp_specialized import proposed as by_warpgroups

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
SIZES = {"H": 3, "S": 40, "T": 48, "K": 24}
# the operands and the output with their reads; the axes of batch, left and right
CASES = {
    "strided": ("S, H, K", "i1, i0, k0", "T, H, K", "i2, i0, k0", "S, H, T", "i1, i0, i2", "i0", "i1", "i2"),
    "strided out": ("H, S, K", "i0, i1, k0", "H, T, K", "i0, i2, k0", "S, H, T", "i1, i0, i2", "i0", "i1", "i2"),
    "of the left alone": ("H, S, K", "i0, i1, k0", "K, T", "k0, i2", "H, S, T", "i0, i1, i2", "", "i0 i1", "i2"),
    "of the left alone, strided": (
        "S, H, K",
        "i1, i0, k0",
        "T, K",
        "i2, k0",
        "S, H, T",
        "i1, i0, i2",
        "i0",
        "i1",
        "i2",
    ),
    "of the right alone": ("S, K", "i1, k0", "H, K, T", "i0, k0, i2", "H, S, T", "i0, i1, i2", "i0", "i1", "i2"),
    "of the right alone, along the sum": (
        "K, S",
        "k0, i1",
        "H, T, K",
        "i0, i2, k0",
        "H, S, T",
        "i0, i1, i2",
        "",
        "i1",
        "i0 i2",
    ),
}


def module_of(case: str) -> region.Module:
    a, at_a, b, at_b, c, at_c, *_ = CASES[case]
    text = region_text(
        f"in  A : fp16[{a}]\nin  B : fp16[{b}]\nout C : fp16[{c}]",
        f"for i0: H, i1: S, i2: T\n%gemm = reduce sum (k0: K) : fp32 {{ mul(A[{at_a}], B[{at_b}]) : fp32 }}\n"
        f"yield C[{at_c}] = cast(%gemm) : fp16",
    )
    sizes = ", ".join(f"{name}={size}" for name, size in SIZES.items())
    return region.parse(text.replace("\nprogram r", f"shapes default {{{sizes}}}\n\nprogram r", 1))


@pytest.mark.parametrize("case", CASES)
def test_axes_that_lie_apart_are_of_batch(case: str) -> None:
    kernel = kernel_of(module_of(case).program.regions[0], "contraction")
    assert [" ".join(a.name for a in group) for group in (kernel.batch, kernel.left, kernel.right)] == list(
        CASES[case][-3:]
    )


@needs_host_compiler
@pytest.mark.parametrize("case", CASES)
def test_batches_are_right_on_both_units(case: str) -> None:
    module = module_of(case)
    hopper = next(p for p in by_warpgroups(module) if p.tile[:2] == (64, 64))
    ampere = next(p for p in by_warps(module, "sm90") if p.tile[:2] == (64, 64))
    for one in (replace(hopper, persistent=2), ampere):
        planned = plan.Module(module, (one,))
        assert check_plan(planned) == [] and is_right(planned, SIZES)
