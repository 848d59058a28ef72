"""A region that no family covers becomes parts that are covered, and means what it meant: in playback, and as kernels
in the simulation."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import region
from tinyir.kernels.alternatives.part_region import part_region
from tinyir.kernels.alternatives.parts import Names, Surroundings, with_parts
from tinyir.kernels.problem import why_none
from tinyir.lower import plan as to_plan
from tinyir.play.region import play
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_plan
from .emitted import lowered, region_text, simulated

SIZES = {"N": 5, "C": 37}
ROWS = "for i0: N, i1: C\n"
CASES = {
    "rows, then all of them": (
        2,
        "in X : fp32[N, C]\nout z : fp32[]",
        ROWS + "%m = reduce max (i1) : fp32 { X[i0, i1] }\n%z = reduce sum (i0) : fp32 { %m }\nyield z[] = %z",
    ),
    "a scan, then all of it": (
        2,
        "in X : fp32[C]\nout z : fp32[]",
        "for i0: C\n%s = scan sum (i0) : fp32 { X[i0] }\n%z = reduce max (i0) : fp32 { %s }\nyield z[] = %z",
    ),
    "scans of two directions": (
        2,
        "in X : fp32[C]\nout Y : fp32[C]",
        "for i0: C\n%a = scan sum (i0) : fp32 { X[i0] }\n%b = scan sum reverse (i0) : fp32 { X[i0] }\nyield "
        "Y[i0] = add(%a, %b)",
    ),
    "columns, then rows of what is left": (
        2,
        "in X : fp32[N, C]\nout Y : fp32[N, C]\nout z : fp32[]",
        ROWS + "%s = reduce sum (i0) : fp32 { X[i0, i1] }\n%y = sub(X[i0, i1], broadcast_in_dim(%s, dims=[1]))\n%z = "
        "reduce max (i0, i1) : fp32 { %y }\n"
        "yield Y[i0, i1] = add(%y, broadcast_in_dim(%z, dims=[]))\nyield z[] = mul(%z, 2.0)",
    ),
    "a fold of a fold": (
        2,
        "in X : fp32[N, C]\nout z : fp32[]",
        "for i0: N\n%z = reduce sum (i0) : fp32 { neg(reduce max (k0: C) : fp32 { X[i0, k0] }) }\nyield z[] = %z",
    ),
    "a fold inside a value along its row": (
        1,
        "in X : fp32[N, C]\nout Y : fp32[N, C]",
        ROWS + "yield Y[i0, i1] = sub(X[i0, i1], broadcast_in_dim(reduce max (i1) : fp32 { X[i0, i1] }, dims=[0]))",
    ),
    "one fold over old and new axes": (
        1,
        "in X : fp32[N, C]\nout Y : fp32[N]",
        "for i0: N\n%z = reduce min (k0: C, i0) : fp32 { X[i0, k0] }\nyield Y[i0] = mul(broadcast_in_dim(%z, "
        "dims=[]), index(i0) : fp32)",
    ),
    "a value at another point, folded": (
        2,
        "in X : fp32[C]\nout Y : fp32[C]",
        "for i0: C\n%x = exp2(X[i0])\n%m = reduce max (i0) : fp32 { X[i0] }\nyield Y[i0] = sub(%x[C - i0 - 1], "
        "broadcast_in_dim(%m, dims=[]))",
    ),
    "a picked entry of a row's log-softmax, summed": (
        2,
        "in X : fp32[N, C]\nin at : i64[N]\nout z : fp32[]",
        "for i0: N\n%p = gather (k0: C = at[i0]) { sub(X[i0, k0], log2(reduce sum (k1: C) : fp32 { exp2(X[i0, "
        "k1]) })) }\n%z = reduce sum (i0) : fp32 { neg(%p) }\nyield z[] = %z",
    ),
}


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", CASES)
def test_parts_are_covered_and_mean_what_the_whole_meant(name: str) -> None:
    count, tensors, body = CASES[name]
    whole = region.parse(region_text(tensors, body))
    assert why_none(whole.program.regions[0])
    (one,) = whole.program.regions
    parts = with_parts(whole, {one.name: part_region(one, Surroundings(Names.of(whole), lambda _: 0.0, {}))})
    planned = to_plan.lower(parts)
    assert [d for d in check_plan(planned) if d.is_error] == [] and region.parse(region.show(parts)) == parts
    assert len(parts.program.regions) == count and not any(map(why_none, parts.program.regions))
    arrays = random_arrays(whole.model, SIZES, 3)
    wanted, again, run = play(whole, arrays), play(parts, arrays), simulated(lowered(planned)[1], arrays, seed=1)
    for output, array in wanted.items():
        np.testing.assert_allclose(again[output], array, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(run[output], array, rtol=1e-4, atol=1e-4)


def test_it_is_said_which_regions_are_several_kernels() -> None:
    _, tensors, body = CASES["rows, then all of them"]
    (said,) = to_plan.verdicts(region.parse(region_text(tensors, body)))
    assert (said.code, dict(said.facts)) == ("R3468", {"region": "r", "parts": "m, r"})


def test_a_fold_at_a_gathered_place_is_no_row_kernel() -> None:
    """Each row's maximum is folded by the thread that picks there, however long the row is."""
    text = region_text(
        "in X : fp32[N, C]\nin at : i64[N]\nout Y : fp32[N]",
        "for i0: N\n%y = gather (k0: C = at[i0]) { sub(X[i0, k0], reduce max (k1: C) : fp32 { X[i0, k1] }) }\n"
        "yield Y[i0] = %y",
    )
    assert to_plan.lower(region.parse(text)).plans[0].algo == "flat"
