"""An emitted text run on arrays: playback, simulation, and what is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.kit.diag import Refused
from tinyir.lower import cu, lower_to
from tinyir.lower import plan as to_plan
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.runtime.cuda import find_fault
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.gpu"
TEXT = manifest.show(cu.lower(gpu.parse(SAMPLE.read_text(encoding="utf-8"))))


def synchronous() -> str:
    """The sample's kernel by its first synchronous plan."""
    module = region.parse(SAMPLE.with_suffix(".region").read_text(encoding="utf-8"))
    found = (c.plan for c in to_plan.candidates(module, module.program.regions[0]) if c.plan.algo == "synchronous")
    return manifest.show(cu.lower(lower_to("gpu", plan.Module(module, (next(found),)), "sm90")))


SYNCHRONOUS = synchronous()
needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def arrays_of(m: int, n: int, k: int, seed: int = 0) -> dict[str, np.ndarray]:
    return random_arrays(manifest.parse(TEXT).region.model, {"M": m, "N": n, "K": k}, seed)


def exact(arrays: dict[str, np.ndarray]) -> np.ndarray:
    a, b, bias = (arrays[name].astype(np.float64) for name in ("A", "B", "bias"))
    return np.maximum(a @ b + bias, 0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("sim", marks=needs_host_compiler)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (130, 200, 35), (7, 129, 16)])
def test_the_sample_is_right_with_tails(device: str, sizes: tuple[int, int, int]) -> None:
    arrays = arrays_of(*sizes)
    outputs, report = run(TEXT, arrays, device=device)
    assert list(outputs) == ["C2"] and outputs["C2"].dtype == np.float16 and report.device == device
    assert report.sizes == dict(zip("MNK", sizes))
    np.testing.assert_allclose(outputs["C2"].astype(np.float64), exact(arrays), rtol=1e-3, atol=1e-3)


def planted(good: str, bad: str) -> str:
    """The sample's synchronous kernel with the one place that matches `good` changed to `bad`."""
    text, count = re.subn(good, bad, SYNCHRONOUS)
    assert count == 1
    return text


@needs_host_compiler
def test_check_compares_with_playback_and_finds_a_wrong_kernel() -> None:
    arrays = arrays_of(20, 20, 80)
    _, report = run(SYNCHRONOUS, arrays, device="sim", check=True, seed=2)
    assert [d.tensor for d in report.differences] == ["C2"] and report.differences[0].wrong == 0
    with pytest.raises(Refused) as fault:
        run(planted(r"k \+= 32", "k += 64"), arrays, device="sim", check=True)
    assert [d.code for d in fault.value.diags] == ["E1731"]


@needs_host_compiler
@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        (r"i0 < M && i1 < N", "i1 < N", "E1722"),
        (r"i0 < M && k0 < K", "i0 < M + 1 && k0 < K", "E1722"),
        (r"element < \d+(?=[^}]*B\[)", "element < 2304", "E1723"),
        (r"    __syncthreads\(\);\n(?=[^\n]*\n?[^\n]*#pragma unroll 8)", "", "E1750"),
    ],
)
def test_faults_planted_in_the_emitted_text_are_caught(good: str, bad: str, code: str) -> None:
    with pytest.raises(Refused) as fault:
        run(planted(good, bad), arrays_of(20, 20, 20), device="sim", check=True)
    assert fault.value.diags[0].code == code


@needs_host_compiler
def test_empty_sizes_give_empty_or_neutral_outputs_without_a_launch() -> None:
    for device in ("cpu", "sim"):
        assert run(TEXT, arrays_of(0, 5, 3), device=device)[0]["C2"].shape == (0, 5)
        arrays = arrays_of(3, 5, 0)
        assert np.array_equal(run(TEXT, arrays, device=device)[0]["C2"], exact(arrays).astype(np.float16))


def test_faults_of_the_arrays_come_before_anything_runs() -> None:
    arrays = arrays_of(2, 3, 4)
    arrays["B"] = arrays["B"].astype(np.float32)
    del arrays["bias"]
    with pytest.raises(Refused) as fault:
        run(TEXT, arrays, device="cpu")
    assert {d.code for d in fault.value.diags} == {"E1701", "E1702"}


@pytest.mark.skipif(find_fault() is None, reason="there is a GPU")
def test_without_a_gpu_auto_says_that_it_played_and_cuda_refuses() -> None:
    arrays = arrays_of(2, 3, 4)
    _, report = run(TEXT, arrays, check=True)
    assert report.device == "cpu" and [d.code for d in report.notes] == ["R3701", "R3702"]
    assert report.notes[0].why().endswith("the text of its kernels was not run; --device=sim runs it")
    for options in ({"device": "cuda"}, {"bench": True}, {"device": "sim", "bench": True}):
        with pytest.raises(Refused) as fault:
            run(TEXT, arrays, **options)
        assert [d.code for d in fault.value.diags] == ["E1718"]


@needs_host_compiler
def test_a_launch_is_refused_where_its_assumption_does_not_hold() -> None:
    text = TEXT.replace("//     flops", "//     assume 0 <= K - 8\n//     flops")
    assert run(text, arrays_of(2, 3, 8), device="sim")[0]["C2"].shape == (2, 3)
    with pytest.raises(Refused) as fault:
        run(text, arrays_of(2, 3, 4), device="sim")
    assert {d.code for d in fault.value.diags} == {"E1719"} and any(
        "K = 4" in d.facts["reason"] for d in fault.value.diags
    )


def test_a_text_without_the_block_is_refused() -> None:
    with pytest.raises(Refused) as fault:
        run("__global__ void k() {}\n", {}, device="cpu")
    assert [d.code for d in fault.value.diags] == ["E1630"]


def planned_for(arch: str) -> tuple[str, int]:
    """The sample's text planned for sm80 or sm90, and the shared memory that its last plan promises in bytes."""
    planned_ = lower_to("plan", region.parse(SAMPLE.with_suffix(".region").read_text(encoding="utf-8")), arch)
    promised = re.findall(r"smem (\d+) B", plan.show(planned_))[-1]
    return manifest.show(cu.lower(lower_to("gpu", planned_, arch))), int(promised)


@pytest.mark.parametrize(("arch", "target"), [("sm80", "sm_80"), ("sm90", "sm_90a")])
@pytest.mark.parametrize("find", [find_nvcc, find_nvrtc], ids=["nvcc", "nvrtc"])
def test_the_sample_compiles_without_warnings_spills_or_stack(arch: str, target: str, find) -> None:
    compiler = find()
    if compiler is None:
        pytest.skip("this compiler is not installed")
    text, shared = planned_for(arch)
    cubin = cubin_of(text, target, compiler)
    usage = usage_of(cubin)
    assert {(use.stack, use.spill_stores, use.spill_loads) for use in usage.values()} == {(0, 0, 0)}
    asked = max(
        launch.smem
        for launch in manifest.parse(text).launches
        if not any("=" in str(b) for guard in launch.assumes for b in guard)
    )
    declared = max(use.shared for use in usage.values())
    assert asked == shared or shared <= declared <= shared + 1024  # aligned for the copies of the other kernel
    assert "warning" not in cubin.log.lower() and "serialized" not in cubin.log and "ignored" not in cubin.log
    with pytest.raises(Refused) as fault:
        cubin_of(text.replace("const float relu", "const float rely"), target, compiler)
    assert {d.code for d in fault.value.diags} == {"E1716"} and all(d.span for d in fault.value.diags)
