"""The road through a real GPU: `pytest -m gpu` on a machine with an NVIDIA GPU, PyCUDA and nvcc or NVRTC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyir
from tinyir.ir import gpu, manifest
from tinyir.kit.diag import Refused
from tinyir.lower import cu
from tinyir.runtime import bench
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.cuda import CudaDevice, find_fault
from tinyir.runtime.device import Scalar
from tinyir.runtime.program import Program
from tinyir.runtime.run import run

ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "tests" / "unit" / "kernels" / "gemm.cu"
CHAIN = "graph<N=1> main(x: f32[N, 64]) -> (y: f32[N, 64]) {{ return cumsum(cumsum(x * {}, axis=1), axis=0) }}"

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]


@pytest.fixture
def device():
    found = CudaDevice()
    yield found
    found.release()


def launch_gemm(device: CudaDevice, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(m)
    inputs = [draw.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n), (n,))]
    code = device.load(GEMM.read_text(encoding="utf-8"), {"gemm": 0})
    buffers = [device.allocate(name, a.size, 2) for name, a in zip("ABb", inputs)] + [device.allocate("C", m * n, 2)]
    for buffer, array in zip(buffers, inputs):
        device.upload(buffer, array)
    device.launch(
        code, "gemm", (-(-n // 128), -(-m // 128)), (16, 16), 0, [*buffers, *(Scalar(s, 4) for s in (m, n, k))]
    )
    out = np.empty((m, n), np.float16)
    device.download(buffers[3], out)
    a, b, bias = (x.astype(np.float64) for x in inputs)
    return out, np.maximum(a @ b + bias, 0)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (128, 128, 16), (300, 17, 129)])
def test_gemm_with_tails(device: CudaDevice, sizes: tuple[int, int, int]) -> None:
    out, wanted = launch_gemm(device, *sizes)
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=1e-3, atol=1e-3)


def test_memory_is_nan_until_written_and_empty_buffers_are_legal(device: CudaDevice) -> None:
    room = np.zeros(5, np.float32)
    device.download(device.allocate("x", 5, 4), room)
    assert np.isnan(room).all()
    empty = device.allocate("none", 0, 4)
    device.upload(empty, np.zeros(0, np.float32))
    device.download(empty, np.zeros(0, np.float32))


def test_scalars_of_both_widths_reach_the_kernel(device: CudaDevice) -> None:
    text = 'extern "C" __global__ void k(long long* y, int a, long long b, int c) { y[0] = a; y[1] = b; y[2] = c; }'
    code = device.load(text, {"k": 0})
    y = device.allocate("y", 3, 8)
    device.launch(code, "k", (1,), (1,), 0, [y, Scalar(-3, 4), Scalar(1 << 40, 8), Scalar(7, 4)])
    got = np.zeros(3, np.int64)
    device.download(y, got)
    assert got.tolist() == [-3, 1 << 40, 7]


def test_a_compiler_error_names_the_line(device: CudaDevice) -> None:
    with pytest.raises(Refused) as fault:
        device.load('extern "C" __global__ void k(float* y) {\n  y[0] = nothing;\n}\n', {"k": 0})
    assert fault.value.diags[0].code == "E1716" and fault.value.diags[0].span.line == 2


def test_an_illegal_address_is_reported_not_raised_through() -> None:
    """In a process of its own, since the context is lost."""
    script = """
from tinyir.kit.diag import Refused
from tinyir.runtime.cuda import CudaDevice
device = CudaDevice()
code = device.load('extern "C" __global__ void k(float* y) { y[threadIdx.x + (1ll << 40)] = 1; }', {"k": 0})
try:
    device.launch(code, "k", (1,), (32,), 0, [device.allocate("y", 1, 4)])
except Refused as fault:
    print(fault.diags[0].code, fault.diags[0].at)
device.release()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == "E1730 k\n", done.stderr


@pytest.mark.parametrize("sizes", [(1, 1, 1), (77, 300, 45), (1024, 1024, 1024)])
def test_the_sample_runs_checks_and_is_timed(sizes: tuple[int, int, int]) -> None:
    module = gpu.parse((ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.gpu").read_text(encoding="utf-8"))
    text = manifest.show(cu.lower(module))
    model = manifest.parse(text).region.model
    outputs, report = run(text, random_arrays(model, dict(zip("MNK", sizes)), 1), check=True, bench=True)
    assert report.device == "cuda" and report.notes == () and outputs["C2"].shape == sizes[:2]
    assert report.differences[0].wrong == 0
    assert report.timing.tflops > 0 and report.timing.gbs > 0


def test_empty_grids_are_not_launched() -> None:
    module = gpu.parse((ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.gpu").read_text(encoding="utf-8"))
    text = manifest.show(cu.lower(module))
    model = manifest.parse(text).region.model
    outputs, _ = run(text, random_arrays(model, {"M": 0, "N": 5, "K": 3}, 1), device="cuda")
    assert outputs["C2"].shape == (0, 5)


def test_timings_are_ordered_and_a_graph_replays_what_was_queued(device: CudaDevice) -> None:
    text = 'extern "C" __global__ void k(int* y) { atomicAdd(y, 1); }'
    code = device.load(text, {"k": 0})
    y = device.allocate("y", 1, 4)
    device.upload(y, np.zeros(1, np.int32))

    def enqueue() -> None:
        for _ in range(3):
            device.enqueue(code, "k", (1,), (1,), 0, [y])

    timing = bench.measure(device, 3, enqueue, 6, 12)
    assert 0 < timing.p10 <= timing.median <= timing.p90 < 1e-3
    assert timing.way.endswith("CUDA graph")
    count = np.zeros(1, np.int32)
    device.download(y, count)
    assert count[0] >= 3 * timing.runs and count[0] % 3 == 0


def test_programs_of_one_device_keep_their_kernels_and_graphs(device: CudaDevice) -> None:
    """Kernels of both have the same names; the graph of the first is replayed when the second is there, and gone."""
    x = np.random.default_rng(0).integers(-3, 4, (40, 64)).astype(np.float32)
    programs = {}
    for scale in (2, 3):
        text = tinyir.compile(CHAIN.format(scale), device="cpu").text
        programs[scale] = Program(device, text, manifest.parse(text), {"N": 40})
        programs[scale].upload({"x": x})
        for _ in range(3):
            programs[scale].run()
    for scale in (2, 3, 2):
        programs[scale].run()
        np.testing.assert_array_equal(programs[scale].outputs()["y"], (scale * x).cumsum(1).cumsum(0))
    programs.pop(3).release()
    programs[2].run()
    np.testing.assert_array_equal(programs[2].outputs()["y"], (2 * x).cumsum(1).cumsum(0))
