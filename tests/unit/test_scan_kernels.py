"""Scans as kernels: all templates, every direction, on random sizes in the simulation against playback."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tinyir.ir import gpu, plan, region
from tinyir.ir.runs import row_runs
from tinyir.kernels.problem import kernel_of
from tinyir.lower.plan import CROWDED, candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_plan
from .emitted import assert_as_played, lowered, region_text

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

ROWS = "for i0: R, i1: C"
CASES = {
    "sum": (ROWS, "scan sum (i1) : fp32 { X[i0, i1] }"),
    "reverse": (ROWS, "scan sum reverse (i1) : fp32 { X[i0, i1] }"),
    "exclusive": (ROWS, "scan sum exclusive (i1) : fp32 { X[i0, i1] }"),
    "reverse exclusive": (ROWS, "scan max reverse exclusive (i1) : fp32 { X[i0, i1] }"),
    "columns": (ROWS, "scan min (i0) : fp32 { X[i0, i1] }"),
    "columns reverse": (ROWS, "scan sum reverse exclusive (i0) : fp32 { X[i0, i1] }"),
}


VECTORS = {  # the width that is proven, tensors, body
    "sum": (
        4,
        "in X : fp32[R, 300]\nout Y : fp32[R, 300]",
        "for i0: R, i1: 300\n%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "exclusive, in fp16": (
        8,
        "in X : fp16[R, 1400]\nout Y : fp16[R, 1400]",
        "for i0: R, i1: 1400\n%x = cast(X[i0, i1]) : fp32\n%y = scan max exclusive (i1) : fp32 { %x }\nyield "
        "Y[i0, i1] = cast(%y) : fp16",
    ),
    "a scan of a scan": (
        4,
        "in X : fp32[R, 140]\nin g : fp32[140]\nout Y : fp32[R, 140]\nout Z : fp32[R, 140]",
        "for i0: R, i1: 140\n%s = scan sum (i1) : fp32 { mul(X[i0, i1], g[i1]) }\n%t = scan max (i1) : fp32 { "
        "neg(%s) }\nyield Y[i0, i1] = add(%s, X[i0, i1])\nyield Z[i0, i1] = %t",
    ),
    "odd rows": (
        4,
        "in X : fp32[R, 301]\nout Y : fp32[R, 301]",
        "for i0: R, i1: 301\n%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "odd rows, exclusive": (
        8,
        "in X : fp16[R, 333]\nin g : fp16[333]\nout Y : fp16[R, 333]",
        "for i0: R, i1: 333\n%x = cast(mul(X[i0, i1], broadcast_in_dim(g[i1], dims=[1]))) : fp32\n%y = scan sum "
        "exclusive (i1) : fp32 { %x }\nyield Y[i0, i1] = cast(%y) : fp16",
    ),
    "from the end": (
        1,
        "in X : fp32[R, 300]\nout Y : fp32[R, 300]",
        "for i0: R, i1: 300\n%y = scan sum reverse (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "down": (
        1,
        "in X : fp32[300, R]\nout Y : fp32[300, R]",
        "for i0: 300, i1: R\n%y = scan sum (i0) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_scan_in_vectors_gives_what_playback_gives(name: str) -> None:
    width, tensors, body = VECTORS[name]
    module = region.parse(region_text(tensors, body))
    (one,) = module.program.regions
    assert max((run.width for run in row_runs(one, kernel_of(one, "scan"))), default=1) == width
    found = {
        c.plan.threads: c.plan
        for c in candidates(module, one)
        if c.plan.algo == "scan_block" and bool(c.plan.vectorize) == (width > 1)
    }
    for threads in ((32,), (128,)):
        _, code = lowered(plan.Module(module, (found[threads],)))
        for rows in (1, 3):
            arrays = random_arrays(module.model, {"R": rows}, rows)
            assert_as_played(code, arrays, rows, rtol=2e-3, atol=2e-3, of=threads)


SHORT = {  # lanes of a row, tensors, body
    "whole lanes": (
        4,
        "in X : fp32[R, 16]\nout Y : fp32[R, 16]",
        "for i0: R, i1: 16\n%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "fewer vectors than lanes, exclusive": (
        4,
        "in X : fp16[R, 24]\nout Y : fp16[R, 24]",
        "for i0: R, i1: 24\n%x = cast(X[i0, i1]) : fp32\n%y = scan max exclusive (i1) : fp32 { %x }\nyield "
        "Y[i0, i1] = cast(%y) : fp16",
    ),
    "a scan of a scan, and of two row axes": (
        32,
        "in X : fp32[3, R, 128]\nout Y : fp32[3, R, 128]\nout Z : fp32[3, R, 128]",
        "for i0: 3, i1: R, i2: 128\n%s = scan sum (i2) : fp32 { X[i0, i1, i2] }\n%t = scan max (i2) : fp32 { neg(%s) }"
        "\nyield Y[i0, i1, i2] = %s\nyield Z[i0, i1, i2] = add(%t, X[i0, i1, i2])",
    ),
    "rows that begin anywhere": (
        32,
        "in X : fp16[R, 127]\nin g : fp16[127]\nout Y : fp16[R, 127]",
        "for i0: R, i1: 127\n%x = cast(mul(X[i0, i1], broadcast_in_dim(g[i1], dims=[1]))) : fp32\n%y = scan sum (i1) : "
        "fp32 { %x }\nyield Y[i0, i1] = cast(%y) : fp16",
    ),
    "rows of too few to be cut": (
        8,
        "in X : fp32[R, 7]\nout Y : fp32[R, 7]",
        "for i0: R, i1: 7\n%y = scan sum exclusive (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "integers of 64 bits": (
        4,
        "in X : i64[R, 8]\nout Y : i64[R, 8]",
        "for i0: R, i1: 8\n%y = scan sum (i1) : i64 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
}


@pytest.mark.parametrize("name", SHORT)
def test_lanes_share_short_rows(name: str) -> None:
    lanes, tensors, body = SHORT[name]
    module = region.parse(region_text(tensors, body))
    every = [c.plan for c in candidates(module, module.program.regions[0]) if len(c.plan.threads) == 2]
    found = [p for p in every if p.widest == max(p.widest for p in every)]
    assert {p.threads for p in found} == {(lanes, 128 // lanes), (lanes, 256 // lanes)}
    planned = plan.Module(module, (found[0],))
    assert [d.code for d in check_plan(planned) if d.is_error] == []
    assert plan.parse(plan.show(planned)) == planned
    made, code = lowered(planned)
    assert gpu.parse(gpu.show(made)) == made and f" exclusive y.acc width {lanes}" in gpu.show(made).replace(
        "s.acc", "y.acc"
    )
    for rows in (1, 3, 37):
        arrays = random_arrays(module.model, {"R": rows}, rows)
        assert_as_played(code, arrays, rows, rtol=2e-3, atol=2e-3)


def test_rows_of_another_length_than_the_lanes_take_are_refused() -> None:
    _, tensors, body = SHORT["whole lanes"]
    module = region.parse(region_text(tensors, body))
    plans = (c.plan for c in candidates(module, module.program.regions[0]))
    chosen = next(p for p in plans if len(p.threads) == 2 and p.widest == 4)
    for other in ({"tile": (16, 16)}, {"threads": (2, 64), "tile": (64, 8)}, {"vectorize": ()}):
        edited = plan.Module(module, (replace(chosen, **other),))
        assert {d.code for d in check_plan(edited)} == {"E1525"}


def every_way(text: str) -> list[plan.Module]:
    """A plan of each algo, and the block of one warp, that the analysis allows."""
    module = region.parse(text)
    found: dict[tuple[str, bool], plan.Plan] = {}
    for c in candidates(module, module.program.regions[0]):
        if c.rejected in ("", CROWDED):
            found.setdefault((c.plan.algo, c.plan.threads == (32,)), c.plan)
    return [plan.Module(module, (chosen,)) for chosen in found.values()]


def agree(text: str, arrays: list[dict[str, np.ndarray]]) -> int:
    """Compares every plan's kernel with playback; gives the number of plans."""
    ways = every_way(text)
    for module in ways:
        _, code = lowered(module)
        for given in arrays:
            assert_as_played(code, given, rtol=2e-3, atol=1e-3)
    return len(ways)


@pytest.mark.parametrize("name", CASES)
def test_a_scan_gives_what_playback_gives(name: str) -> None:
    head, scan = CASES[name]
    text = region_text("in X : fp32[R, C]\nout Y : fp32[R, C]", f"{head}\n%y = {scan}\nyield Y[i0, i1] = %y")
    rng = np.random.default_rng(len(name))
    sizes = [(1, 1), *((int(r), int(c)) for r, c in zip(rng.integers(2, 6, 2), rng.integers(30, 700, 2)))]
    assert agree(text, [{"X": rng.standard_normal(size).astype(np.float32)} for size in sizes]) == 5


def test_what_comes_before_and_after_a_scan_is_in_its_kernel() -> None:
    """Values before the scan, a scan of a scan, an epilogue and two outputs; fp16 is added in fp32."""
    text = region_text(
        "in X : fp16[3, C]\nout Y : fp16[3, C]\nout Z : fp16[3, C]",
        "for i0: 3, i1: C\n%x = mul(X[i0, i1], 0.5)\n%s = scan sum (i1) : fp16 { %x }\n%t = scan max exclusive "
        "(i1) : fp16 { neg(%s) }\n"
        "yield Y[i0, i1] = add(%s, %x)\nyield Z[i0, i1] = max(%t, -3.0)",
    )
    rng = np.random.default_rng(7)
    assert agree(text, [{"X": (rng.standard_normal((3, c)) * 0.25).astype(np.float16)} for c in (1, 129, 300)]) == 5


@pytest.mark.parametrize("dtype", ["i8", "i64", "fp64", "u16"])
def test_every_dtype_is_scanned_in_one_row(dtype: str) -> None:
    text = region_text(
        f"in X : {dtype}[C]\nout Y : {dtype}[C]",
        f"for i0: C\n%y = scan sum (i0) : {dtype} {{ X[i0] }}\nyield Y[i0] = %y",
    )
    kind = {"i8": np.int8, "i64": np.int64, "fp64": np.float64, "u16": np.uint16}[dtype]
    assert agree(text, [{"X": np.random.default_rng(c).integers(0, 9, c).astype(kind)} for c in (5, 1100)]) == 3
