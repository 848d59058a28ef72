"""Folds across rows by CTAs whose threads share columns: what they compute in the simulation, their text, and where
they are chosen."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tinyir.ir import plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels.columns.declare import rounds_of
from tinyir.kernels.columns.match import folds_of_columns
from tinyir.lower import plan as to_plan
from tinyir.lower.plan import candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_plan
from .emitted import assert_as_played, lowered, region_text

CASES = {  # widths of accesses, tensors, body
    "fp16, whole vectors": (
        {8, 1},
        "in X : fp16[R, 72]\nout Y : fp32[72]",
        "for i0: 72\n%y = reduce sum (k0: R) : fp32 { cast(X[k0, i0]) : fp32 }\nyield Y[i0] = %y",
    ),
    "any length": (
        {4, 1},
        "in X : fp32[R, N]\nout Y : fp32[N]",
        "for i0: N\n%y = reduce max (k0: R) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
    ),
    "few columns, many rows": (
        {4, 1},
        "in X : fp32[700, 8]\nout Y : fp32[8]",
        "for i0: 8\n%y = reduce sum (k0: 700) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
    ),
    "a batch, two folds and what follows them": (
        {8, 1},
        "in X : fp32[3, R, 40]\nin b : fp32[40]\nout Y : fp32[3, 40]\nout Z : fp16[3, 40]",
        "for i0: 3, i1: 40\n%s = reduce sum (k0: R) : fp32 { X[i0, k0, i1] }\n"
        "%q = reduce sum (k1: R) : fp32 { mul(X[i0, k1, i1], X[i0, k1, i1]) }\n"
        "%v = sub(%q, mul(%s, %s))\nyield Y[i0, i1] = add(%v, broadcast_in_dim(b[i1], dims=[1]))\n"
        "yield Z[i0, i1] = cast(%s) : fp16",
    ),
    "two axes folded as one": (
        {8, 1},
        "in X : fp16[5, R, 24]\nin w : fp32[R]\nout Y : fp16[24]",
        "for i0: 24\n%y = reduce sum (k0: 5, k1: R) : fp32 { mul(cast(X[k0, k1, i0]) : fp32, w[k1]) "
        "}\nyield Y[i0] = cast(%y) : fp16",
    ),
    "a flat tensor's rows, which begin between accesses": (
        {8, 1},
        "in X : fp16[72*R + 3]\nin b : fp32[72]\nout Y : fp32[72]",
        "for i0: 72\n%y = reduce sum (k0: R) : fp32 { cast(X[i0 + 72*k0 + 3]) : fp32 }\nyield Y[i0] = add(%y, b[i0])",
    ),
    "some of a matrix' columns": (
        {4, 1},
        "in X : fp32[R, 96]\nin Z : fp32[R, 92]\nout Y : fp32[75]",
        "for i0: 75\n%y = reduce sum (k0: R) : fp32 { mul(X[k0, i0 + 6], Z[k0, i0 + 2]) }\nyield Y[i0] = %y",
    ),
    "rows that begin at other places": (
        {4, 1},
        "in X : fp32[R, 96]\nin Z : fp32[R, 92]\nout Y : fp32[72]",
        "for i0: 72\n%y = reduce sum (k0: R) : fp32 { mul(X[k0, i0 + 6], Z[k0, i0 + 1]) }\nyield Y[i0] = %y",
    ),
    "rows of an odd length": (
        {8, 1},
        "in X : fp16[R, 75]\nin m : fp32[R]\nout Y : fp32[75]\nout Z : fp16[75]",
        "for i0: 75\n%y = reduce sum (k0: R) : fp32 { mul(cast(X[k0, i0]) : fp32, m[k0]) }\n"
        "%z = reduce max (k0: R) : fp32 { cast(X[k0, i0]) : fp32 }\nyield Y[i0] = %y\nyield Z[i0] = cast(%z) : fp16",
    ),
    "chunks of a batch of rows of an odd length": (
        {8, 1},
        "in X : fp16[3, R, 83]\nout Y : fp32[3, 2, 83]",
        "for i0: 3, c0: 2, i1: 83\n"
        "%y = reduce sum (k0: 160) : fp32 { cast(X[i0, 160*c0 + k0, i1]) : fp32 where 160*c0 + k0 < R else 0.0 }\n"
        "yield Y[i0, c0, i1] = %y",
    ),
    "products of integers": (
        {4, 1},
        "in X : i32[R, 12]\nout Y : i32[12]",
        "for i0: 12\n%y = reduce prod (k0: R) : i32 { X[k0, i0] }\nyield Y[i0] = %y",
    ),
}
NONE = {
    "a fold of rows": "for i0: N\n%y = reduce sum (k0: R) : fp32 { X[i0, k0] }\nyield Y[i0] = %y",
    "a place": "for i0: N\n%y = reduce argmax (k0: R) : i64 { X[k0, i0] }\nyield Y[i0] = cast(%y) : fp32",
}
SIZES = ({"R": 1, "N": 1}, {"R": 37, "N": 33}, {"R": 300, "N": 100})


def plans_of(module: region.Module) -> list[plan.Plan]:
    """Those of the family."""
    return [c.plan for c in candidates(module, module.program.regions[0]) if c.plan.algo == "columns"]


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", CASES)
def test_columns_compute_what_playback_computes(name: str) -> None:
    widths, tensors, body = CASES[name]
    module = region.parse(region_text(tensors, body))
    found = plans_of(module)
    assert {p.widest for p in found} == widths
    forms = {(p.widest, p.threads[0], len(rounds_of(p))): p for p in found}
    for seed, chosen in enumerate(forms.values()):
        planned = plan.Module(module, (chosen,))
        assert [d.code for d in check_plan(planned) if d.is_error] == []
        _, code = lowered(planned)
        for sizes in SIZES:
            arrays = random_arrays(module.model, sizes, seed)
            assert_as_played(code, arrays, seed, rtol=2e-3, atol=2e-3, of=chosen)


@pytest.mark.parametrize("name", NONE)
def test_other_folds_are_none_of_columns(name: str) -> None:
    tensors = "in X : fp32[N, R]\nout Y : fp32[N]" if "rows" in name else "in X : fp32[R, N]\nout Y : fp32[N]"
    module = region.parse(region_text(tensors, NONE[name]))
    assert folds_of_columns(module.program.regions[0]) == ()
    assert plans_of(module) == []


def test_lines_are_whole_and_each_number_is_read_once() -> None:
    _, tensors, body = CASES["fp16, whole vectors"]
    module = region.parse(region_text(tensors, body))
    chosen = next(p for p in plans_of(module) if p.widest == 8)
    kernel = lowered(plan.Module(module, (chosen,)))[0].kernels[0]
    reads = [s for s in statements(kernel.body) if isinstance(s, nodes.Assign) and s.vector == 8]
    loops = [s for s in statements(kernel.body) if isinstance(s, nodes.For) and reads[0] in s.body]
    assert len(reads) == 1 and str(loops[0].low) == "thread.y" and loops[0].step.constant == chosen.threads[1]


@pytest.mark.parametrize(
    ("rows", "columns", "steps"),
    [
        (8192, 8192, {1, 2}),
        (32768, 1024, {2}),
        (1 << 20, 16, {2}),
        (512, 4096, {1}),
        (4093, 4093, {2}),
        (1 << 18, 127, {2}),
    ],
)
def test_columns_of_large_matrices_are_folded_at_full_width(rows: int, columns: int, steps: set[int]) -> None:
    text = region_text(
        f"in X : fp32[{rows}, {columns}]\nout Y : fp32[{columns}]",
        f"for i0: {columns}\n%y = reduce sum (k0: {rows}) : fp32 {{ X[k0, i0] }}\nyield Y[i0] = %y",
    )
    plans = to_plan.lower(region.parse(text), "sm90", "h200").plans
    assert len(plans) in steps and plans[0].algo == "columns" and plans[0].widest == 4


@pytest.mark.parametrize(("rows", "columns"), [(16, 1 << 17), (4096, 1024), (1 << 17, 1024)])
def test_sums_with_a_number_of_each_row_are_columns_too(rows: int, columns: int) -> None:
    """The gradients of a norm's weights: what varies along the fold alone says nothing of its neighbours."""
    tensors = "in X : fp16[{0}, {1}]\nin G : fp16[{0}, {1}]\nin m : fp32[{0}, 1]\nout Y : fp32[{1}]\nout Z : fp32[{1}]"
    body = (
        "for i0: {1}, i1: {0}\n%g = cast(G[i1, i0]) : fp32\n%n = sub(cast(X[i1, i0]) : fp32, "
        "broadcast_in_dim(m[i1, 0], dims=[1]))\n%y = reduce sum (i1) : fp32 {{ mul(%g, %n) }}\n"
        "%z = reduce sum (i1) : fp32 {{ %g }}\nyield Y[i0] = %y\nyield Z[i0] = %z"
    )
    text = region_text(tensors.format(rows, columns), body.format(rows, columns))
    plans = to_plan.lower(region.parse(text), "sm90", "h200").plans
    assert {p.algo for p in plans} == {"columns"} and plans[0].widest == 8


def test_plans_of_other_tiles_are_refused() -> None:
    _, tensors, body = CASES["fp16, whole vectors"]
    module = region.parse(region_text(tensors, body))
    chosen = next(p for p in plans_of(module) if p.widest == 8)
    for other in ({"tile": (chosen.tile[0] * 2,)}, {"threads": (256,)}, {"vectorize": ()}):
        edited = plan.Module(module, (replace(chosen, **other),))
        assert {d.code for d in check_plan(edited) if d.is_error}
