"""Random numbers as kernels: the very numbers of playback, in every dtype, whatever the shape and the seed."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.sim.host import COMPILERS

from .emitted import lowered, planned, played, region_text, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


@pytest.mark.parametrize("dtype", ["fp32", "fp64", "fp16", "i32", "u8", "i64", "bool"])
@pytest.mark.parametrize("columns", [64, 7])
def test_numbers_are_those_of_playback(dtype: str, columns: int) -> None:
    """Blocks of a stream begin within a row and at its ends; a seed of 64 bits, an offset beyond 32."""
    text = region_text(
        f"in X : fp32[R]\nout Y : {dtype}[R, {columns}]",
        f"for i0: R, i1: {columns}\n%u = random({columns}*i0 + i1) {{seed=-7000000000, offset=5000000000}} : {dtype}\nyield Y[i0, i1] = %u",
    )
    _, code = lowered(planned(text))
    given = {"X": np.zeros(5, np.float32)}
    found, wanted = simulated(code, given)["Y"], played(code, given)["Y"]
    assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()
    assert len(np.unique(found)) > 1
