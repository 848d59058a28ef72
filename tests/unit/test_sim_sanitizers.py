"""Emitted kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in a process that has their runtimes
loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
RUNTIMES = ("libasan.so", "libubsan.so")
SETTINGS = "detect_leaks=0:handle_segv=0:allow_user_segv_handler=1:detect_stack_use_after_return=0"

SCRIPT = """
import numpy as np
from tests.unit import simulated, test_sim_gemm
from tinyir.ir import manifest
from tinyir.play.arrays import bind_symbols
from tinyir.play.region import play
from tinyir.runtime.check import compare
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.program import Program
from tinyir.sim.launch import SimDevice

def hand_written():
    arrays, how, wanted = test_sim_gemm.arguments(264, 72, 200)
    found = simulated.simulate(test_sim_gemm.CODE, *arrays, grid=(2,), seed=3, mode="asan", **how)
    assert np.array_equal(found["C"].astype(np.float64), wanted)

def emitted():
    with open("samples/gemm_bias_relu/gemm_bias_relu.cu", encoding="utf-8") as file:
        text = file.read()
    module = manifest.parse(text)
    sizes = {"M": 70, "N": 88, "K": 40}
    arrays = random_arrays(module.region.model, sizes, 0)
    device = SimDevice(2, mode="asan")
    program = Program(device, text, module, sizes)
    program.upload(arrays)
    program.run()
    exact = arrays["A"].astype(np.float64) @ arrays["B"] + arrays["bias"]
    np.testing.assert_allclose(program.outputs()["C2"], np.maximum(exact, 0), rtol=1e-3, atol=1e-3)
    device.release()

def of_family(name):
    from tests.unit.families import family
    one = family(name)
    module = manifest.parse(one.text)
    for arrays in one.inputs:
        device = SimDevice(2, mode="asan")
        program = Program(device, one.text, module, bind_symbols(module.region.model, arrays))
        program.upload({n: np.ascontiguousarray(a) for n, a in arrays.items()})
        program.run()
        assert all(d.wrong == 0 for d in compare(program.outputs(), play(module.region, arrays), max(one.tolerance, 1e-6), max(one.tolerance, 1e-6)))
        device.release()

def planted(body):
    code = 'extern "C" __global__ void k(const float *A, float *B) { ' + body + ' }'
    simulated.simulate(code, {"A": np.full(64, 3e9, np.float32)}, {"B": np.empty(64, np.float32)}, block=(64,), mode="asan")
"""  # noqa: E501

FAULTS = {
    "volatile float *p; { volatile float q[4]; q[0] = A[0]; p = q; } B[threadIdx.x] = p[0];": "stack-use-after-scope",
    "B[threadIdx.x] = (float)(int)A[threadIdx.x];": "outside the range of representable values",
    "B[threadIdx.x] = (float)(1 << (32 + threadIdx.x));": "shift exponent",
    "__shared__ float s[64]; s[threadIdx.x + 1] = A[0]; B[threadIdx.x] = s[threadIdx.x];": "out of bounds",
}


def run(call: str) -> subprocess.CompletedProcess:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not on PATH")
    paths = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in RUNTIMES
    ]
    if not all(map(os.path.isabs, paths)):
        pytest.skip("g++ has no sanitizer runtimes")
    environment = {**os.environ, "LD_PRELOAD": " ".join(paths), "ASAN_OPTIONS": SETTINGS, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + call],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.parametrize("call", ["hand_written()", "emitted()"])
def test_kernels_are_clean(call: str) -> None:
    done = run(call)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_clean(name: str) -> None:
    done = run(f"of_family({name!r})")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("body", FAULTS)
def test_planted_faults_are_found(body: str) -> None:
    done = run(f"planted({body!r})")
    assert done.returncode and FAULTS[body] in done.stderr, done.stderr[-2000:]
