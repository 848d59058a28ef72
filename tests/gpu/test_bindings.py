"""Programs on a GPU through cuda-bindings, in a process that has no PyCUDA."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tinyir.runtime.cuda import find_fault

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]

SCRIPT = """
import json, sys
sys.modules["pycuda"] = None
import numpy as np
import tinyir
from tests.unit.test_api import LAYERS, arrays_of, expected
from tinyir.runtime.run import run
weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
with tinyir.compile(json.dumps(LAYERS), device="cuda", params=weights) as program:
    assert type(program._session._device.stream).__module__ == "tinyir.runtime.bindings"
    for rows in (7, 64, 7, 7):
        given = {"x": arrays_of(rows)["x"], **weights}
        np.testing.assert_allclose(program(given["x"])["p"], expected(given), rtol=1e-4, atol=1e-5)
draw = np.random.default_rng(0)
a, b, bias = (draw.standard_normal(s).astype(np.float16) for s in ((64, 72), (72, 128), (128,)))
wanted = np.maximum(a.astype(np.float64) @ b + bias, 0)
with tinyir.compile("samples/gemm_bias_relu/gemm_bias_relu.json", device="cuda") as program:
    np.testing.assert_allclose(program(a, b, bias)["C2"].astype(np.float64), wanted, rtol=1e-3, atol=1e-3)
    found, report = run(program.text, {"A": a, "B": b, "bias": bias}, device="cuda", bench=True, is_profiled=True)
    assert report.timing.median > 0 and report.launches
print("well")
"""


def test_programs_run_without_pycuda() -> None:
    pytest.importorskip("cuda.bindings.driver")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "well" and done.returncode == 0, done.stdout + done.stderr
