"""Random numbers as kernels: the very numbers of playback, in every dtype, whatever the shape and the seed."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from tinyir.ir import gpu, manifest
from tinyir.sim.host import COMPILERS

from .checked import check_gpu
from .emitted import TARGETS, complaints_of, lowered, planned, played, region_text, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


@pytest.mark.parametrize("dtype", ["fp32", "fp64", "fp16", "i32", "u8", "i64", "bool"])
@pytest.mark.parametrize("columns", [64, 7])
def test_numbers_are_those_of_playback(dtype: str, columns: int) -> None:
    """Blocks of a stream begin within a row and at its ends; a seed of 64 bits, an offset beyond 32."""
    text = region_text(
        f"in X : fp32[R]\nout Y : {dtype}[R, {columns}]",
        f"for i0: R, i1: {columns}\n%u = random({columns}*i0 + i1) {{seed=-7000000000, offset=5000000000}} : "
        f"{dtype}\nyield Y[i0, i1] = %u",
    )
    _, code = lowered(planned(text))
    given = {"X": np.zeros(5, np.float32)}
    found, wanted = simulated(code, given)["Y"], played(code, given)["Y"]
    assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()
    assert len(np.unique(found)) > 1


def dropout(index: str, dtype: str = "fp32", columns: int = 64) -> str:
    """The region text of what keeps half of its input."""
    return region_text(
        f"in X : {dtype}[R, {columns}]\nout Y : {dtype}[R, {columns}]",
        f"for i0: R, i1: {columns}\n%u = random({index}) {{seed=7, offset=3}} : fp32\nyield Y[i0, i1] = "
        f"where(cmplt(%u, 0.5), X[i0, i1], neg(X[i0, i1]))",
    )


@pytest.mark.parametrize(
    "index, is_block",
    [("64*i0 + i1", True), ("64*i0 + i1 + 8", True), ("64*i0 + i1 + 2", False), ("64*i0 + 2*i1", False)],
)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "fp64"])
def test_blocks_are_computed_once_where_neighbours_begin_them(index: str, is_block: bool, dtype: str) -> None:
    """A pair begins half a block also 2 behind its begin."""
    kernels, code = lowered(planned(dropout(index, dtype)))
    width = 16 // {"fp32": 4, "fp16": 2, "fp64": 8}[dtype]
    made = re.search(r"= random\([^\n]* vector (\d+)\n", gpu.show(kernels))
    assert bool(made) == (is_block or width == 2 and index.endswith("+ 2")) and (not made or int(made[1]) == width)
    given = {
        "X": np.random.default_rng(1)
        .standard_normal((5, 64))
        .astype({"fp32": np.float32, "fp16": np.float16, "fp64": np.float64}[dtype])
    }
    assert simulated(code, given)["Y"].tobytes() == played(code, given)["Y"].tobytes()


@pytest.mark.parametrize(
    "planted, code",
    [
        (("i1 + v)", "i1 + v + 1)"), "E1672"),
        (("i1 + v)", "i1 + 2*v)"), "E1672"),
        (("i1 + v)", "i1)"), "E1672"),
        (("over v: 4 = random", "over v: 2 = random"), "E1602"),  # a vector of 4 over 2 numbers
    ],
)
def test_numbers_that_are_no_block_are_named(planted: tuple[str, str], code: str) -> None:
    kernels, _ = lowered(planned(dropout("64*i0 + i1")))
    text = re.sub(r"[^\n]* = random[^\n]*", lambda m: m[0].replace(*planted), gpu.show(kernels).split("\nkernel ")[1])
    whole = gpu.show(kernels).split("\nkernel ")[0] + "\nkernel " + text
    assert whole != gpu.show(kernels) and code in {d.code for d in check_gpu(gpu.parse(whole))}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["fp32", "fp64", "fp16", "u8", "bool"])
def test_blocks_compile_without_a_warning(dtype: str, target: str) -> None:
    text = region_text(
        f"in X : fp32[R]\nout Y : {dtype}[R, 64]",
        f"for i0: R, i1: 64\n%u = random(64*i0 + i1) {{seed=7, offset=3}} : {dtype}\nyield Y[i0, i1] = %u",
    )
    _, code = lowered(planned(text))
    assert complaints_of(manifest.show(code), target) == []
