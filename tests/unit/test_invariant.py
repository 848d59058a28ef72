"""Batch-invariant programs: a row has the same bits whatever the size of its batch."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.ir import region
from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of, lower_to, lowering_of
from tinyir.lower.plan.judge import batches_of
from tinyir.sim.host import COMPILERS

from .test_api import LAYERS, arrays_of

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def product(dtype: str, layout: str, **sizes: int) -> dict[str, Any]:
    """x @ w, of which rows of x are side by side in memory where it is col_major."""
    return {
        "signature": {
            "inputs": [{"tensor": "x"}, {"tensor": "w", "role": "param"}],
            "outputs": [{"tensor": "y"}],
        },
        "tensors": {
            "x": {"dtype": dtype, "shape": ["M", 96], "layout": layout},
            "w": {"dtype": dtype, "shape": [96, 72]},
            "y": {"dtype": dtype, "shape": ["M", 72], "layout": layout},
        },
        "graph": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}],
        "shape_sets": {"usual": sizes},
    }


def region_of(model: dict[str, Any]) -> region.Module:
    from tinyir import front

    module: Any = front.read(json.dumps(model))
    for stage in STAGES[1 : STAGES.index("region") + 1]:
        module = lower_to(stage, module, "sm90")
    return module


def assumed(module: region.Module, **how: Any) -> set[str]:
    """The symbols of which some plan assumes something."""
    plans = lowering_of("plan").lower(module, **how).plans
    return {n for plan in plans for b in plan.assume for n in b.vocabulary}


@pytest.mark.parametrize("arch", ["sm80", "sm90"])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_no_plan_is_for_some_sizes_of_the_batch(arch: str, dtype: str) -> None:
    module = region_of(product(dtype, "col_major", M=64))
    assert batches_of(module.model) == {"M"}
    if (arch, dtype) == ("sm90", "fp16"):
        assert assumed(module, arch=arch) == {"M"}  # so there is something to leave out
    found = lowering_of("plan").lower(module, arch=arch, invariant=True)
    assert [b for plan in found.plans for b in plan.assume] == []
    assert language_of("plan").check(found) == []


def test_the_table_of_candidates_says_why() -> None:
    module = region_of(product("fp16", "col_major", M=64))
    assert "some sizes of the batch M" in lowering_of("plan").explain(module, is_whole=True, invariant=True)


def test_sizes_that_are_no_batch_may_be_assumed() -> None:
    model = product("fp16", "row_major", M=64, K=96)
    model["tensors"]["x"]["shape"] = ["M", "K"]
    model["tensors"]["w"]["shape"] = ["K", 72]
    module = region_of(model)
    assert batches_of(module.model) == {"M"} and assumed(module, invariant=True) == {"K"}


@needs_host_compiler
def test_a_row_has_the_same_bits_in_every_batch() -> None:
    draw = np.random.default_rng(0)
    x, w = draw.standard_normal((19, 96)).astype(np.float16), draw.standard_normal((96, 72)).astype(np.float16)
    with tinyir.compile(product("fp16", "col_major", M=16), device="sim", params={"w": w}, invariant=True) as program:
        whole = program(x)["y"]
        for rows in (1, 8, 16):
            assert np.array_equal(program(x[:rows])["y"], whole[:rows])
    arrays = arrays_of(19)
    weights = {n: a for n, a in arrays.items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS), device="sim", params=weights, invariant=True) as program:
        whole = program(arrays["x"])["p"]
        for rows in (1, 7):
            assert np.array_equal(program(arrays["x"][:rows])["p"], whole[:rows])
