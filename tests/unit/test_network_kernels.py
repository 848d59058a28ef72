"""Networks down to CUDA, for both architectures: every text on the way is checked, and small ones run in the
simulation."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.models.counts import WHOLE, regions_of
from tinyir.front.json import read
from tinyir.ir import manifest
from tinyir.lower import language_of, lower_to
from tinyir.play.tiny import play
from tinyir.sim.host import COMPILERS

from .emitted import simulated
from .test_models import SMALL

ARCHS = ("sm80", "sm90")
DTYPES = {"fp32": 1e-4, "fp16": 2e-2}  # and how far an output may be from playback's, of its greatest number
QUICK = {("resnet", "fp16", "sm90"), ("resnet", "fp32", "sm80"), ("bert", "fp32", "sm90"), ("vit", "fp16", "sm80")}
ALL = [
    pytest.param(n, d, a, marks=() if (n, d, a) in QUICK else pytest.mark.slow)
    for n in SMALL
    for d in DTYPES
    for a in ARCHS
]


def emitted(text: str, arch: str) -> manifest.Module:
    """The CUDA of a model, all texts after region checked."""
    module = regions_of(read(text))
    for stage in ("plan", "gpu", "cu"):
        module = lower_to(stage, module, arch)
        assert [(d.code, dict(d.facts)) for d in language_of(stage).check(module) if d.is_error] == []
    return module


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize(("name", "dtype", "arch"), ALL)
def test_a_small_network_runs(name: str, dtype: str, arch: str) -> None:
    model = SMALL[name](dtype=dtype)
    arrays = model.arrays()
    found = simulated(emitted(model.text, arch), arrays)
    for output, wanted in play(read(model.text), arrays).items():
        np.testing.assert_allclose(
            found[output].astype(np.float64),
            wanted.astype(np.float64),
            rtol=0,
            atol=DTYPES[dtype] * float(np.abs(wanted).max()),
        )


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_network_has_its_kernels(name: str, dtype: str, arch: str) -> None:
    assert emitted(WHOLE[name](dtype=dtype).text, arch).launches
