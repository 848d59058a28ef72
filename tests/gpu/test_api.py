"""`tinyir.compile` on a GPU: arrays of the host, and arrays that are there already."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tinyir
from tests.unit.test_api import LAYERS, arrays_of, expected
from tinyir.runtime.cuda import find_fault
from tinyir.runtime.external import external_of

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]


def test_several_kernels_with_weights_and_an_arena() -> None:
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS, indent=1), device="cuda", params=weights) as program:
        for rows in (7, 64, 7):
            given = {"x": arrays_of(rows)["x"], **weights}
            np.testing.assert_allclose(program(given["x"])["p"], expected(given), rtol=1e-4, atol=1e-5)


def test_arrays_on_the_gpu_are_not_copied() -> None:
    draw = np.random.default_rng(0)
    host = [draw.standard_normal(shape).astype(np.float16) for shape in ((64, 72), (72, 128), (128,))]
    wanted = np.maximum(host[0].astype(np.float64) @ host[1] + host[2], 0)
    with tinyir.compile(SAMPLE, device="cuda") as program:
        from pycuda import gpuarray

        there = [gpuarray.to_gpu(a) for a in host]
        result = program(*there)["C2"]
        np.testing.assert_allclose(result.numpy().astype(np.float64), wanted, rtol=1e-3, atol=1e-3)
        mixed = program(there[0], host[1], there[2])["C2"]
        assert mixed.numpy().tobytes() == result.numpy().tobytes()
        seen = external_of("C2", result)
        assert seen.shape == (64, 128) and result.__dlpack_device__() == (2, 0)


def test_torch_shares_the_memory() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    with tinyir.compile(SAMPLE, device="cuda") as program:
        a, b, bias = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((64, 72), (72, 128), (128,)))
        result = torch.from_dlpack(program(a, b, bias)["C2"])
        torch.testing.assert_close(result, torch.relu(a @ b + bias), rtol=2e-3, atol=2e-3)
