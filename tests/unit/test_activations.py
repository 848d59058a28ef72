"""Activations by the units for exponentials and reciprocals: their errors for every fp16 number, and where they are
used."""

from __future__ import annotations

import json
import math
import re
import shutil

import ml_dtypes
import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.sim.host import COMPILERS

from .emitted import simulated
from .test_packed_weights import lowered

BITS = np.arange(1 << 16, dtype=np.uint16)
EVERY = BITS.view(np.float16)
EVERY = EVERY[np.isfinite(EVERY)]
EVERY_BF16 = BITS.view(ml_dtypes.bfloat16)
EVERY_BF16 = EVERY_BF16[np.isfinite(EVERY_BF16.astype(np.float32))]
SMALLEST = 2.0**-115  # of a bf16; the unit for exponentials gives zeros of what is a little smaller


def of(fn: str, dtype: str = "fp16", count: int = EVERY.size, **attrs: object) -> str:
    """One activation of a vector."""
    return json.dumps(
        {
            "name": fn,
            "signature": {"inputs": [{"tensor": "X"}], "outputs": [{"tensor": "Y"}]},
            "tensors": {n: {"dtype": dtype, "shape": [count]} for n in "XY"},
            "graph": [{"op": "Elementwise", "fn": fn, "inputs": ["X"], "outputs": ["Y"], "attrs": attrs}],
        }
    )


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """In fp64, the negative side without cancellation."""
    x = x.astype(np.float64)
    with np.errstate(over="ignore"):
        if name == "gelu":
            return x / 2 * np.frompyfunc(math.erfc, 1, 1)(-x * math.sqrt(0.5)).astype(np.float64)
        if name == "gelu by tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            return x / (1 + np.exp(-2 * inner))
        return x / (1 + np.exp(-x))


FNS = {  # what it is called, its attributes, and its greatest error in ulps of fp16, of which rounding has a half
    "gelu": ("gelu", {}, 0.67),
    "gelu by tanh": ("gelu", {"approximate": "tanh"}, 0.51),
    "silu": ("silu", {}, 0.51),
}


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", FNS)
def test_every_half_is_within_an_ulp(name: str) -> None:
    fn, attrs, most = FNS[name]
    given = simulated(lowered(of(fn, **attrs)), {"X": EVERY})["Y"].astype(np.float64)
    wanted = exact(name, EVERY)
    ulp = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(wanted), 2.0**-14))), -14) - 10)
    error = np.abs(given - wanted) / ulp
    worst = int(np.argmax(error))
    assert error[worst] <= most, f"{error[worst]:.4f} ulp at {EVERY[worst]}: {given[worst]} for {wanted[worst]}"


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_every_gelu_of_a_bf16_is_within_an_ulp() -> None:
    given = simulated(lowered(of("gelu", "bf16", EVERY_BF16.size)), {"X": EVERY_BF16})["Y"].astype(np.float64)
    wanted = exact("gelu", EVERY_BF16)
    size = np.maximum(np.abs(wanted), SMALLEST)
    ulp = np.exp2(np.floor(np.log2(size)) - 7)
    error = np.abs(given - wanted) / ulp
    worst = int(np.argmax(error))
    assert error[worst] <= 0.64, f"{error[worst]:.4f} ulp at {EVERY_BF16[worst]}: {given[worst]} for {wanted[worst]}"


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", FNS)
def test_fp32_is_within_the_error_of_a_sum_near_two(name: str) -> None:
    fn, attrs, _ = FNS[name]
    x = np.concatenate([np.linspace(-12, 12, 6001), np.geomspace(1e-30, 1e3, 999)]).astype(np.float32)
    given = simulated(lowered(of(fn, "fp32", x.size, **attrs)), {"X": x})["Y"].astype(np.float64)
    np.testing.assert_allclose(given, exact(name, x), rtol=6e-7, atol=4e-7)


def test_special_numbers_are_those_of_the_text() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 65504, -65504], np.float16)
    for fn, attrs, dtype in [(*f[:2], dtype) for f in FNS.values() for dtype in ("fp16", "bf16")]:
        given_x = x.astype({"fp16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype])
        given = simulated(lowered(of(fn, dtype, x.size, **attrs)), {"X": given_x})["Y"].astype(np.float32)
        assert np.isnan(given[0]) and given[1] == np.inf and np.isnan(given[2])
        np.testing.assert_array_equal(given[3:6], given_x[3:6].astype(np.float32))
        assert given[6] == 0


ENDS = {  # the type of what leaves, whether a residual is added before, and the function that computes the GELU
    "fp16": ("fp16", False, "gelu_for_fp16"),
    "bf16": ("bf16", False, "gelu_for_bf16"),
    "fp32": ("fp32", False, "gelu_of"),
    "fp16 behind a residual": ("fp16", True, "gelu_of"),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_gelu_of_a_product_is_as_near_as_its_uses_ask(case: str) -> None:
    dtype, is_added, wanted = ENDS[case]
    graph = [
        {"op": "GEMM", "name": "p", "inputs": ["A", "B"], "outputs": ["P"], "attrs": {"acc_dtype": "fp32"}},
        {"op": "Elementwise", "fn": "gelu", "inputs": ["P"], "outputs": ["G" if is_added else "C"]},
        {"op": "Elementwise", "fn": "add", "inputs": ["G", "R"], "outputs": ["C"]},
    ]
    tensors = {n: {"dtype": "fp16", "shape": [128, 128]} for n in "AB"} | {"C": {"dtype": dtype, "shape": [128, 128]}}
    tensors |= {"R": {"dtype": "fp32", "shape": [128, 128]}} if is_added else {}
    model = {
        "name": "ends",
        "signature": {"inputs": [{"tensor": n} for n in tensors if n != "C"], "outputs": [{"tensor": "C"}]},
        "tensors": tensors,
        "graph": graph if is_added else graph[:2],
    }
    text = manifest.show(lowered(json.dumps(model)))
    assert set(re.findall(r"= (gelu_\w+)\(", text)) == {wanted}


def test_a_sum_that_is_no_activation_is_as_it_was() -> None:
    for fn, word in (("erf", "erff("), ("tanh", "tanhf(")):
        assert word in manifest.show(lowered(of(fn, "fp32", 64)))
    assert "gelu_of(" in manifest.show(lowered(of("gelu", "fp32", 64)))
    assert "logistic_of_exp2(" in manifest.show(lowered(of("silu", "fp16", 64)))
