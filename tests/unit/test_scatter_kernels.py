"""Scatters as kernels: each element of the result looks for its writers, in order, whatever the places are."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.sim.host import COMPILERS

from .emitted import lowered, planned, played, region_text, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


@pytest.mark.parametrize("op", ["update", "sum", "prod", "max", "min"])
def test_a_scatter_of_rows_gives_what_playback_gives(op: str) -> None:
    """Places that repeat, count from the end, or are outside."""
    text = region_text(
        "in base : fp16[N, 5]\nin add : fp16[K, 5]\nin at : i64[K]\nout Y : fp16[N, 5]",
        f"for i0: N, i1: 5\n%y = scatter {op} i0 (k0: K) {{ add[k0, i1] at at[k0] }} onto base[i0, i1]\nyield "
        f"Y[i0, i1] = %y",
    )
    _, code = lowered(planned(text))
    rng = np.random.default_rng(3)
    for n, k in ((1, 1), (7, 19), (60, 3)):
        arrays = {"base": rng.standard_normal((n, 5)), "add": rng.standard_normal((k, 5))}
        given = {**{name: a.astype(np.float16) for name, a in arrays.items()}, "at": rng.integers(-n - 2, n + 2, k)}
        np.testing.assert_array_equal(simulated(code, given)["Y"], played(code, given)["Y"])


def test_values_stand_before_and_after_a_scatter() -> None:
    """Two axes of writers, an update that is computed, and an epilogue on the sum; each run gives the same bits."""
    text = region_text(
        "in X : fp32[3, 4]\nin at : i32[3, 4]\nin base : fp32[9]\nout Y : fp32[9]",
        "for i0: 9\n%y = scatter sum i0 (k0: 3, k1: 4) { exp2(X[k0, k1]) at sub(at[k0, k1], 1) } onto base[i0]\n"
        "yield Y[i0] = mul(%y, %y)",
    )
    _, code = lowered(planned(text))
    given = {
        "X": np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32),
        "at": np.array([[0, 9, 3, 3], [1, -20, 3, 12], [1, 1, 2, 2]], np.int32),
    }
    given["base"] = np.zeros(9, np.float32)
    first = simulated(code, given)["Y"]
    np.testing.assert_allclose(first, played(code, given)["Y"], rtol=1e-5)
    assert first.tobytes() == simulated(code, given, seed=9)["Y"].tobytes()
