"""Floats that are stored as bytes side by side: four to a word, with what each gives alone."""

from __future__ import annotations

import shutil

import pytest

from tinyir.ir import manifest, plan, region
from tinyir.lower.plan import candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS
from tinyir.target import packed

from .emitted import assert_as_played, lowered, region_text

BODIES = {
    "a map": "for i0: R, i1: 64\nyield Y[i0, i1] = cast(X[i0, i1]) : DTYPE",
    "rows with a scale": "for i0: R, i1: 64\n%m = reduce max (i1) : fp32 { abs(X[i0, i1]) }\n"
    "%q = fdiv(X[i0, i1], broadcast_in_dim(mul(%m, 0.0078125), dims=[0]))\n"
    "%n = round(%q)\nyield Y[i0, i1] = cast(%n) : DTYPE\nyield S[i0] = %m",
}


def module_of(name: str, dtype: str, source: str = "fp32") -> region.Module:
    """Rows of 64 numbers."""
    tensors = f"in X : {source}[R, 64]\nout Y : {dtype}[R, 64]" + "\nout S : fp32[R]" * ("scale" in name)
    return region.parse(region_text(tensors, BODIES[name].replace("DTYPE", dtype)))


def text_of(module: region.Module, arch: str = "sm90") -> tuple[plan.Plan, str]:
    """A plan in the widest vectors, and its CUDA."""
    found = [c.plan for c in candidates(module, module.program.regions[0], arch) if not c.rejected]
    chosen = max(found, key=lambda p: p.widest)
    return chosen, manifest.show(lowered(plan.Module(module, (chosen,)))[1])


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("dtype", [*packed.INTEGERS, *packed.FLOATS])
@pytest.mark.parametrize("name", BODIES)
def test_neighbours_that_become_bytes_are_rounded_four_at_a_time(name: str, dtype: str) -> None:
    module = module_of(name, dtype)
    chosen, text = text_of(module)
    kernel = text[text.index("__global__") :]
    assert f"{dtype}s_of(" in kernel and f" {dtype}_of" not in kernel
    _, code = lowered(plan.Module(module, (chosen,)))
    arrays = random_arrays(module.model, {"R": 3}, 4)
    assert_as_played(code, arrays, 4, rtol=0, atol=0, of=chosen)


def test_what_has_no_unit_or_is_no_float_goes_one_by_one() -> None:
    for arch, source, dtype in (("sm80", "fp32", "fp8e4m3"), ("sm90", "i32", "i8"), ("sm90", "fp64", "i8")):
        _, text = text_of(module_of("a map", dtype, source), arch)
        assert f"{dtype}s_of(" not in text
