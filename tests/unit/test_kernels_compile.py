"""Emitted CUDA compiles for both architectures: no warning, no stack, no spill, within the registers that the plan
expects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import manifest, region
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to
from tinyir.lower.cu.names import LIBRARY, Names
from tinyir.runtime.compile import cubin_of, find_compiler

from .emitted import TARGETS, complaints_of, lowered, planned, region_text, simulated
from .test_kernels_run import NORM, SOFTMAX, matmul

ROOT = Path(__file__).resolve().parents[2]


def has_compiler() -> bool:
    """Whether nvcc or NVRTC is here."""
    try:
        return bool(find_compiler().name)
    except Refused:
        return False


pytestmark = pytest.mark.skipif(not has_compiler(), reason="neither nvcc nor NVRTC")
TEXTS = {
    "matmul": matmul("i0, k0", "k0, i1", "fp16", "fp32", "fp16"),
    "matmul_nt": matmul("i0, k0", "i1, k0", "fp32", "fp32"),
    "softmax": region_text("in X : fp32[R, C]\nout Y : fp32[R, C]", SOFTMAX),
    "norm": region_text(
        "in X : fp16[R, 1000]\nin g : fp16[1000]\nout Y : fp16[R, 1000]\nout S : fp32[R]", NORM.replace("C", "1000")
    ),
    "scan": region_text(
        "in X : fp32[R, C]\nout Y : fp32[R, C]",
        "for i0: R, i1: C\n%y = scan sum exclusive (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "scan down": region_text(
        "in X : i64[R, C]\nout Y : i64[R, C]",
        "for i0: R, i1: C\n%y = scan max reverse (i0) : i64 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "scatter": region_text(
        "in X : fp16[N]\nin at : i64[N]\nin Z : fp16[M]\nout Y : fp16[M]",
        "for i0: M\n%y = scatter sum i0 (k0: N) { X[k0] at at[k0] } onto Z[i0]\nyield Y[i0] = %y",
    ),
    "vectors": region_text(
        "in X : fp16[M, 24]\nin b : fp16[24]\nout Y : fp16[M, 24]\nout Z : fp16[M, 24]",
        "for i0: M, i1: 24\nyield Y[i0, i1] = add(X[i0, i1], broadcast_in_dim(b[i1], dims=[1]))\nyield Z[i0, i1] "
        "= X[i0, i1]",
    ),
    "rows that the data choose": region_text(
        "in X : i8[V, 32]\nin at : i64[M]\nout Y : i8[M, 32]",
        "for i0: M, i1: 32\n%y = gather (k0: V = at[i0]) { X[k0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "transpose": region_text("in X : bf16[N, M]\nout Y : bf16[M, N]", "for i0: M, i1: N\nyield Y[i0, i1] = X[i1, i0]"),
    "columns": region_text(
        "in X : fp16[R, C]\nout Y : fp32[C]",
        "for i0: C\n%y = reduce sum (k0: R) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
    ),
    "sine": region_text(
        "in X : fp32[N]\nin Z : fp64[N]\nout Y : fp32[N]\nout W : fp64[N]",
        "for i0: N\nyield Y[i0] = sin(X[i0])\nyield W[i0] = sin(Z[i0])",
    ),
    "map": region_text(
        "in X : u8[N]\nin Z : u8[N]\nout Y : u8[N]", "for i0: N\nyield Y[i0] = mod(abs(X[i0]), shr(Z[i0], X[i0]))"
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TEXTS)
def test_template_compiles_clean(name: str, target: str) -> None:
    assert complaints_of(manifest.show(lowered(planned(TEXTS[name]))[1]), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_largest_micro_tile_does_not_spill(target: str) -> None:
    module = planned(TEXTS["matmul"], tile=(128, 128, 16), micro=(8, 8), threads=(16, 16))
    assert complaints_of(manifest.show(lowered(module)[1]), target) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sample", sorted((ROOT / "samples").glob("*/*.cu")), ids=lambda f: f.stem)
def test_sample_compiles_clean(sample: Path, target: str) -> None:
    """Planned for the architecture it is compiled for: the committed text is sm90's."""
    if target == "sm_90a":
        assert complaints_of(sample.read_text(encoding="utf-8"), target, find_compiler()) == []
        return
    module = lower_to("plan", region.parse(sample.with_suffix(".region").read_text(encoding="utf-8")), "sm80")
    assert complaints_of(manifest.show(lower_to("cu", lower_to("gpu", module, "sm80"), "sm80")), target) == []


def test_no_text_includes_a_header() -> None:
    for text in TEXTS.values():
        assert "#include" not in manifest.show(lowered(planned(text))[1])


@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_takes_a_name_of_the_library(target: str) -> None:
    """A kernel for each name that C and CUDA have: none is used unchanged, and nvcc and NVRTC find no clash."""
    names = Names(LIBRARY)
    spelled = {word: names.of("kernel", word) for word in sorted(LIBRARY)}
    assert all(word != spelling for word, spelling in spelled.items())
    text = "\n".join(
        f'extern "C" __global__ void {s}(const float *__restrict__ X, float *__restrict__ Y, int C) {{ Y[0] = X[C]; }}'
        for s in spelled.values()
    )
    assert cubin_of(text, target).image


@pytest.mark.parametrize("name", ["norm", "index", "read", "remainderf", "time"])
def test_region_named_like_a_function(name: str) -> None:
    """The kernel keeps its name in the manifest; its symbol has a mark behind it, for the compilers and for the
    simulation."""
    text = region_text("in X : fp32[N]\nout Y : fp32[N]", "for i0: N\nyield Y[i0] = neg(X[i0])").replace(
        "region r\n", f"region {name}\n"
    )
    _, code = lowered(planned(text))
    assert [launch.entry for launch in code.launches] == [f"{name}_"]
    assert (
        complaints_of(manifest.show(code), TARGETS[0], find_compiler()) == []
    )  # nvcc, where there is one, since it brings the library's names
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(simulated(code, {"X": x})["Y"], -x)
