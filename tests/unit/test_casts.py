"""A float becomes an integer in the same way in playback and in the emitted kernel: towards 0, to the end of the range,
NaN to 0."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.sim.host import COMPILERS

from .emitted import lowered, planned, played, region_text, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

VALUES = [
    0.0,
    -0.0,
    1.9,
    -1.9,
    127.5,
    128.0,
    -128.9,
    -129.0,
    255.9,
    256.0,
    65535.5,
    65536.0,
    2.0**31,
    -(2.0**31),
    2.0**32,
    2.0**63,
    2.0**64,
    -1e30,
    1e30,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("target", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
@pytest.mark.parametrize("source", ["fp16", "fp32", "fp64"])
def test_casts_saturate(source: str, target: str) -> None:
    text = region_text(
        f"in x : {source}[N]\nout y : {target}[N]", f"for i0: N\n  %y = cast(x[i0]) : {target}\nyield y[i0] = %y"
    )
    _, code = lowered(planned(text))
    assert f"{target}_of(" in code.source
    with np.errstate(over="ignore"):
        x = np.array(VALUES, {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[source])
    found, wanted = simulated(code, {"x": x})["y"], played(code, {"x": x})["y"]
    assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()
    limits = np.iinfo(found.dtype)
    assert found[-3:].tolist() == [limits.max, limits.min, 0]
