"""Scatters by atomics: right for every op and dtype, the same bits at each run where the plan does not say otherwise,
and faults are named."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Mapping

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.scatters import is_ordered
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Diag, Refused
from tinyir.lower import plan as to_plan
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import TARGETS, complaints_of, lowered, meant_for, played, region_text, simulated

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

OPS = ("sum", "prod", "max", "min")
KINDS = ("i32", "u32", "i64", "u64", "fp32", "fp64")
ROWS = "in base : {0}[N, 5]\nin add : {0}[K, 5]\nin at : i64[K]\nout Y : {0}[N, 5]"
ROW = (
    "for i0: N, i1: 5\n%y = scatter {0} i0 (k0: K) {{ add[k0, i1] at at[k0] }} onto base[i0, i1]\nyield Y[i0, i1] = %y"
)


def rows(dtype: str, op: str) -> str:
    """The region text of a scatter of rows."""
    return region_text(ROWS.format(dtype), ROW.format(op))


def by_atomics(text: str, number: int = 0) -> plan.Module:
    """The region with a plan of algo `scatter_atomic`."""
    module = region.parse(text)
    found = [
        c.plan
        for c in to_plan.candidates(module, module.program.regions[0], atomics="unordered")
        if c.plan.algo == "scatter_atomic"
    ]
    made = plan.Module(module, (found[number],))
    assert check_plan(made) == [] and plan.parse(plan.show(made)) == made
    return made


def arrays_of(code: manifest.Module, sizes: Mapping[str, int], extent: int, seed: int = 3) -> dict[str, np.ndarray]:
    """Places that repeat, count from the end or are outside; among floats NaNs and both zeros."""
    made, draw = random_arrays(code.region.model, sizes, seed), np.random.default_rng(seed)
    made["at"] = draw.integers(-extent - 2, extent + 2, made["at"].shape).astype(made["at"].dtype)
    for array in (a for a in made.values() if a.dtype.kind == "f"):
        for wild in (np.nan, -np.nan, 0.0, -0.0):
            array[draw.random(array.shape) < 0.08] = wild
    return made


@needs_compiler
@pytest.mark.parametrize("dtype, op", [*itertools.product(KINDS, OPS)])
def test_atomics_give_what_playback_gives(dtype: str, op: str) -> None:
    module = by_atomics(rows(dtype, op))
    assert module.plans[0].atomics == ("unordered" if is_ordered(op, DTYPES[dtype]) else "")
    _, code = lowered(module)
    for n, k in ((1, 1), (7, 300), (60, 3), (5, 0)):
        given = arrays_of(code, {"N": n, "K": k}, n)
        wanted, found = played(code, given)["Y"], simulated(code, given)["Y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype.startswith("fp") and op in ("sum", "prod") else 0)
        if not is_ordered(op, DTYPES[dtype]):
            assert all(simulated(code, given, seed)["Y"].tobytes() == found.tobytes() for seed in (1, 2))


@needs_compiler
def test_atomics_give_the_bits_that_folds_in_order_give() -> None:
    """Of fp32 too: one NaN for all, and zeros that do not depend on who was first."""
    text = rows("fp32", "max")
    module = region.parse(text)
    flat = next(c.plan for c in to_plan.candidates(module, module.program.regions[0]) if c.plan.algo == "flat")
    (_, ordered), (_, free) = lowered(plan.Module(module, (flat,))), lowered(by_atomics(text))
    given = arrays_of(free, {"N": 9, "K": 200}, 9)
    assert simulated(ordered, given)["Y"].tobytes() == simulated(free, given)["Y"].tobytes()


SHAPES = {  # tensors, body, sizes, places
    "two axes of updates, both computed": (
        "in X : i32[3, 4]\nin at : i32[3, 4]\nin base : i32[N]\nout Y : i32[N]",
        "for i0: N\n%y = scatter sum i0 (k0: 3, k1: 4) { mul(X[k0, k1], 3) at sub(at[k0, k1], 1) } onto "
        "mul(base[i0], 2)\nyield Y[i0] = %y",
        {"N": 9},
        9,
    ),
    "along the last axis": (
        "in base : i64[3, N]\nin add : i64[3, K]\nin at : i64[K]\nout Y : i64[3, N]",
        "for i0: 3, i1: N\n%y = scatter min i1 (k0: K) { add[i0, k0] at at[k0] } onto base[i0, i1]\nyield Y[i0, "
        "i1] = %y",
        {"N": 8, "K": 50},
        8,
    ),
    "a result that is turned": (
        "in base : i32[N, 5]\nin add : i32[K, 5]\nin at : i64[K]\nout Y : i32[5, N]",
        "for i0: N, i1: 5\n%y = scatter sum i0 (k0: K) { add[k0, i1] at at[k0] } onto base[i0, i1]\nyield Y[i1, "
        "i0] = %y",
        {"N": 6, "K": 40},
        6,
    ),
    "a fold in an update, a border in the base": (
        "in base : i32[N]\nin add : i32[K, 3]\nin at : i64[K]\nout Y : i32[N + 2]",
        "for i0: N + 2\n%y = scatter max i0 (k0: K) { reduce sum (k1: 3) : i32 { add[k0, k1] } at at[k0] } onto "
        "(base[i0 - 1] where 1 <= i0 < N + 1 else 0)\nyield Y[i0] = %y",
        {"N": 6, "K": 40},
        8,
    ),
    "a base that is one number": (
        "in add : i32[K]\nin at : i64[K]\nout Y : i32[6]",
        "for i0: 6\n%y = scatter sum i0 (k0: K) { add[k0] at at[k0] } onto broadcast_in_dim(0 : i32, dims=[])\n"
        "yield Y[i0] = %y",
        {"K": 40},
        6,
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", SHAPES)
def test_updates_and_bases_of_any_form(name: str) -> None:
    tensors, body, sizes, extent = SHAPES[name]
    _, code = lowered(by_atomics(region_text(tensors, body)))
    given = arrays_of(code, sizes, extent)
    np.testing.assert_array_equal(simulated(code, given)["Y"], played(code, given)["Y"])


@pytest.mark.parametrize(
    "dtype, op, atomics, algo",
    [
        ("i32", "sum", "", "scatter_atomic"),
        ("fp32", "max", "", "scatter_atomic"),
        ("fp32", "sum", "", "flat"),
        ("fp32", "sum", "unordered", "scatter_atomic"),
        ("fp64", "min", "", "flat"),
        ("fp16", "sum", "unordered", "flat"),
        ("i8", "sum", "", "flat"),
        ("i32", "update", "", "flat"),
    ],
)
def test_many_updates_are_folded_by_atomics_where_bits_or_the_plan_allow_it(
    dtype: str, op: str, atomics: str, algo: str
) -> None:
    text = (
        rows(dtype, op)
        .replace("[N", "[50000")
        .replace(": N", ": 50000")
        .replace("[K", "[4096")
        .replace(": K", ": 4096")
    )
    (one,) = to_plan.lower(region.parse(text), atomics=atomics).plans
    assert (one.algo, one.atomics) == (algo, atomics if algo != "flat" else "")


def test_few_updates_of_few_elements_are_looked_for() -> None:
    (one,) = to_plan.lower(
        region.parse(
            rows("i32", "sum").replace("[N", "[9").replace(": N", ": 9").replace("[K", "[4").replace(": K", ": 4")
        )
    ).plans
    assert one.algo == "flat"


WRONG = {  # a region, what its plan says of atomics, and a part of what the checker says
    "no scatter": (
        "in X : i32[N, 5]\nout Y : i32[N, 5]",
        "for i0: N, i1: 5\nyield Y[i0, i1] = X[i0, i1]",
        "",
        "not of one scatter alone",
    ),
    "work after": (ROWS.format("i32"), ROW.format("sum").replace("= %y", "= neg(%y)"), "", "work after"),
    "the last one": (ROWS.format("i32"), ROW.format("update"), "", "have no last"),
    "halves": (ROWS.format("fp16"), ROW.format("max"), "", "which no atomic takes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_plan_for_another_region_is_refused(name: str) -> None:
    tensors, body, atomics, part = WRONG[name]
    text = plan.show(by_atomics(rows("i32", "sum")))
    made = plan.Module(region.parse(region_text(tensors, body)), plan.parse(text).plans)
    assert any(d.code == "E1583" and part in str(d.facts["fault"]) for d in check_plan(made))


def test_an_order_that_changes_bits_is_refused_by_name() -> None:
    text = plan.show(by_atomics(rows("i32", "sum")))
    made = plan.Module(region.parse(region_text(ROWS.format("fp32"), ROW.format("prod"))), plan.parse(text).plans)
    (said,) = check_plan(made)
    assert (said.code, said.kind) == ("E1584", "NonAssociativeTransform")
    assert {"op": "prod", "field": "atomics unordered"}.items() <= said.facts.items()


def test_atomics_in_another_algo_and_unknown_words_are_refused() -> None:
    text = plan.show(by_atomics(rows("fp32", "sum")))
    assert {d.code for d in check_plan(plan.parse(text.replace("scatter_atomic", "flat")))} == {"E1583"}
    assert {d.code for d in check_plan(plan.parse(text.replace("unordered", "ordered")))} == {"E1503"}


PLANTED = {  # in the gpu text of a sum of i32: what is replaced by what, and a part of what the checker says
    "no base": (r"(?s)kernel r\.start .*?\n\n", "", "at each run by a kernel before"),
    "the base behind": (r"(?s)(kernel r\.start .*?\n)\n(kernel r :.*)", r"\2\n\1", "at each run by a kernel before"),
    "the base once": (r"of r for r :", "of r for r once :", "at each run by a kernel before"),
    "a store beside": (r"(\n +)(atomic sum )", r"\1store Y[k0.at, i1] = 0\1\2", "touched beside"),
    "a read of what is folded into": (r"= add\[k0, i1\]", "= Y[k0.at, i1]", "touched beside"),
    "two ops": (r"(\n +)(atomic) sum (.*)", r"\1\2 sum \3\1\2 max \3", "more than one op"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_named(name: str) -> None:
    pattern, replacement, part = PLANTED[name]
    kernels, _ = lowered(by_atomics(rows("i32", "sum")))
    text, count = re.subn(pattern, replacement, gpu.show(kernels))
    assert count == 1
    assert any(d.code == "E1681" and part in str(d.facts["fault"]) for d in found_in(text))


def test_an_order_that_no_plan_leaves_open_is_named() -> None:
    kernels, _ = lowered(by_atomics(rows("fp32", "sum")))
    said = found_in(re.sub(r"  atomics +unordered\n", "", gpu.show(kernels)))
    assert {d.code for d in said} == {"E1584", "E1681"}
    said = found_in(
        re.sub(
            r"atomic sum",
            "atomic max",
            re.sub(r"  atomics +unordered\n", "", gpu.show(kernels)).replace("scatter sum", "scatter max"),
        )
    )
    assert said == []


def test_a_base_that_is_not_written_whole_is_named() -> None:
    kernels, _ = lowered(by_atomics(rows("i32", "sum"), number=-1))
    text = gpu.show(kernels).replace("if left < 5*N\n", "if left < 5*N - 1\n")
    assert text != gpu.show(kernels) and "E1619" in {d.code for d in found_in(text)}


def found_in(text: str) -> list[Diag]:
    """What the checker says."""
    try:
        return check_gpu(gpu.parse(text))
    except Refused as fault:
        return fault.diags


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPS)
def test_every_atomic_compiles_without_a_warning(op: str, target: str) -> None:
    for dtype in KINDS:
        _, code = lowered(meant_for(target, by_atomics(rows(dtype, op))))
        assert complaints_of(manifest.show(code), target) == []
