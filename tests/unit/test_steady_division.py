"""Divisions by a number that divides a whole row: its reciprocal is found once, and what it gives is what a division
gives."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from tinyir.ir import manifest, plan, region
from tinyir.lower import plan as to_plan
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .emitted import lowered, region_text
from .test_sim_numbers import SPECIAL, applied

ROW = (
    "for i0: 64, i1: 256\n%m = reduce max (i1) : fp32 { X[i0, i1] }\n%s = add(%m, 1.0)\n"
    "yield Y[i0, i1] = fdiv(X[i0, i1], broadcast_in_dim({0}, dims={1}))"
)
TENSORS = "in X : fp32[64, 256]\nin S : fp32[64]\nin D : fp32[64, 256]\nout Y : fp32[64, 256]"


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_a_quotient_is_that_of_a_division() -> None:
    """Every special number by every special one, and numbers of all sizes; of tiny dividends an ulp off at most."""
    draws = np.random.default_rng(6).integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
    pairs = np.stack(np.meshgrid(SPECIAL, np.r_[SPECIAL, draws[:30]]), axis=-1).reshape(-1, 2)
    pairs = np.concatenate([pairs, pairs[:, ::-1], draws.reshape(-1, 2)]).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = (pairs[:, 0].astype(np.float64) / pairs[:, 1].astype(np.float64)).astype(np.float32)
    is_tiny = np.abs(pairs[:, 0]) < 2.0**-100
    for chosen, ulps in ((~is_tiny, 0), (is_tiny, 1)):
        x, exact = np.ascontiguousarray(pairs[chosen]).reshape(-1), wanted[chosen]
        trial = applied("quotient_of(X[2 * i], X[2 * i + 1])", "float", "float", x, exact, ulps)
        found = trial.on(SimDevice())["Y"]
        same = found.view(np.int32).astype(np.int64) - exact.view(np.int32)
        np.testing.assert_array_equal((np.abs(same) <= ulps) | np.isnan(found) & np.isnan(exact), True)


@pytest.mark.parametrize(
    "divisor, dims, is_once",
    [("%m", "[0]", True), ("%s", "[0]", True), ("S[i0]", "[0]", False), ("D[i0, i1]", "[0, 1]", False)],
)
def test_what_divides_a_row_has_one_reciprocal(divisor: str, dims: str, is_once: bool) -> None:
    body = ROW.replace("{0}", divisor).replace("{1}", dims)
    text = manifest.show(lowered(to_plan.lower(region.parse(region_text(TENSORS, body))))[1])
    kernel = text[text.index("__global__") :]
    assert ("quotient_of(" in kernel) == is_once
    assert bool(re.search(r"\w+\[.*\] / |\w+ / [SD]\[", kernel)) != is_once


def test_what_is_beside_whole_vectors_is_divided_alike() -> None:
    tensors, body = TENSORS.replace("64, 256]", "64, N]"), ROW.replace("i1: 256", "i1: N")
    body = body.replace("{0}", "%m").replace("{1}", "[0]")
    module = region.parse(region_text(tensors, body))
    given = (c.plan for c in to_plan.candidates(module, module.program.regions[0]) if c.plan.vectorize)
    chosen = next(p for p in given if p.algo.startswith("row"))
    text = manifest.show(lowered(plan.Module(module, (chosen,)))[1])
    assert text.count("quotient_of(X") == 2 and not re.search(r"/ m\b", text)
