"""Warp-specialised kernels on a real GPU: every layout, tile and epilogue of the unit tests, and random sizes of one
text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.test_any_shape import CASES as ANY_SHAPE
from tests.unit.test_warp_specialized import BIAS, CASES, product, proposed, with_tile
from tinyir.ir import manifest, plan
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.cuda import CudaDevice, find_fault
from tinyir.runtime.run import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]


@pytest.fixture(autouse=True)
def hopper() -> None:
    device = CudaDevice()
    capability = device.capability
    device.release()
    if capability != (9, 0):
        pytest.skip("this GPU is not of sm_90")


def text_of(module: plan.Module) -> str:
    return manifest.show(to_cu.lower(to_gpu.lower(module)))


def whole_numbers(module: plan.Module, names: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """Inputs whose products and sums are exact."""
    draw = np.random.default_rng(seed)
    shapes = {
        t.name: ([d.evaluate(names) for d in t.type.shape], DTYPES[t.type.dtype.name])
        for t in module.program.model.inputs
    }
    return {
        name: convert(draw.integers(-3, 4, shape).astype(np.float32), dtype) for name, (shape, dtype) in shapes.items()
    }


@pytest.mark.parametrize(("layout", "tile", "cluster", "kind", "sizes"), CASES, ids=lambda v: str(v)[:18])
def test_each_kind_is_exact(layout: str, tile: tuple, cluster: tuple, kind: dict, sizes: tuple) -> None:
    if kind.get("dtype") == "bf16":
        pytest.importorskip("ml_dtypes")
    names = dict(zip("MNK", sizes))
    module = with_tile(product(layout, sizes=", ".join(f"{k}={v}" for k, v in names.items()), **kind), *tile, cluster)
    _, report = run(text_of(module), whole_numbers(module, names, 3), device="cuda", check=True, rtol=0, atol=0)
    assert {d.wrong for d in report.differences} == {0}


@pytest.mark.parametrize("number", range(len(ANY_SHAPE)))
def test_padded_operands_and_cut_sums_are_exact(number: int) -> None:
    planned, sizes = ANY_SHAPE[number]
    module = planned(sizes)
    _, report = run(
        text_of(module),
        whole_numbers(module, dict(zip("MNK", sizes)), number),
        device="cuda",
        check=True,
        rtol=0,
        atol=0,
    )
    assert {d.wrong for d in report.differences} == {0}


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_one_text_runs_at_any_size(layout: str) -> None:
    """Sizes that the copy engine takes run the first kernel, the others its alternative."""
    module = to_plan.lower(product(layout, **BIAS))
    assert [p.algo for p in module.plans] == ["warp_specialized", "warp_specialized", "synchronous"]
    text, draw = text_of(module), np.random.default_rng(5)
    for number in range(12):
        step = 8 if number % 3 else 1
        names = {name: step * int(draw.integers(1, 700 // step)) for name in "MNK"}
        _, report = run(text, whole_numbers(module, names, number), device="cuda", check=True, rtol=0, atol=0)
        assert {d.wrong for d in report.differences} == {0}, names


def test_the_best_plan_is_exact_over_many_waves() -> None:
    names = {"M": 2100, "N": 2304, "K": 640}
    module = product("NN", sizes=", ".join(f"{k}={v}" for k, v in names.items()), **BIAS)
    for one in {(p.tile, p.cluster): p for p in proposed(module)}.values():
        planned = plan.Module(module, (one,))
        _, report = run(text_of(planned), whole_numbers(planned, names, 1), device="cuda", check=True, rtol=0, atol=0)
        assert {d.wrong for d in report.differences} == {0}, one.tile
