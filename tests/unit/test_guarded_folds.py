"""Folds and gathers inside a guard: their statements come before it, and must read no more than it lets
through."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.sim.host import COMPILERS

from .emitted import lowered, planned, played, region_text, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

SUM = "reduce sum (k0: 4) : fp32 { X[i0 - 2, k0] }"
CASES = {
    "fold": f"yield Y[i0] = (neg({SUM})) where 2 <= i0 < 7 else 1.0",
    "the other side": "yield Y[i0] = X[i0, 0] where i0 < 2 else (neg(reduce max (k0: 4) : fp32 { X[i0 - 2, k0] where 2 <= i0 < 7 "  # noqa: E501
    "else 0.0 }))",
    "fold in a fold": "yield Y[i0] = reduce sum (k1: 3) : fp32 { (neg(reduce sum (k0: 4) : fp32 { X[i0 + k1 - 2, k0] })) where 0 "  # noqa: E501
    "<= i0 + k1 - 2 < 5 else 2.0 }",
    "gather": "yield Y[i0] = (neg(gather (k0: 5 = at[i0 - 2]) { X[k0, 1] })) where 2 <= i0 < 7 else 1.0",
    "fold at a gathered place": "yield Y[i0] = (gather (k0: 5 = at[i0 - 2]) { neg(reduce sum (k1: 4) : fp32 { X[k0, k1] }) }) where 2 <= i0 "  # noqa: E501
    "< 7 else 1.0",
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_read_outside_the_guard(name: str) -> None:
    text = region_text(
        "in X : fp32[5, 4]\nin at : i32[5]\nout Y : fp32[9]"
        if "gather" in name
        else "in X : fp32[5, 4]\nout Y : fp32[9]",
        f"for i0: 9\n{CASES[name]}",
    )
    _, code = lowered(planned(text))
    arrays = {"X": np.arange(20, dtype=np.float32).reshape(5, 4) + 1, "at": np.array([4, 0, 2, -1, 7], np.int32)}
    arrays = {t.name: arrays[t.name] for t in code.region.model.inputs}
    assert np.array_equal(simulated(code, arrays)["Y"], played(code, arrays)["Y"])
