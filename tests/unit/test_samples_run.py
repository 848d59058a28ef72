"""The committed CUDA of every sample, run thread by thread on the CPU and compared with playback."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "samples").glob("*/*.cu"))
SMALL = {"N": 1, "H": 13, "W": 11, "M": 37, "S": 9, "V": 20, "R": 5, "C": 77, "B": 1, "K": 40, "D": 24}


def arrays_of(text: str, sizes: Mapping[str, int] = {}) -> dict[str, np.ndarray]:
    """Inputs of small sizes, or of these, small enough that no sum of products outgrows the tolerance of its fp16."""
    model = manifest.parse(text).region.model
    arrays = random_arrays(model, {name: sizes.get(name, SMALL[name]) for name in model.symbols()}, 1)
    return {name: np.abs(a * np.asarray(0.1, a.dtype)) if a.dtype.kind == "f" else a for name, a in arrays.items()}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.stem)
def test_a_sample_gives_what_playback_gives(sample: Path) -> None:
    text = sample.read_text(encoding="utf-8")
    _, report = run(text, arrays_of(text), device="sim", check=True, rtol=2e-3, limit=60)
    assert all(d.wrong == 0 for d in report.differences) and report.differences
