"""Networks down to CUDA, for both architectures: every text on the way is checked, and small ones run in the
simulation."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.models import resnet50
from tests.models.counts import WHOLE, regions_of
from tinyir.front.json import read
from tinyir.ir import manifest
from tinyir.ir.body import Literal, Read, Ref, Select, walk
from tinyir.ir.once import Once
from tinyir.ir.region import Region
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


def test_a_batch_of_resnet_is_few_launches_and_no_copies() -> None:
    """ResNet-50 of 32 images: at most 60 launches a run, of which none lays windows out as a matrix, and one at most
    copies an image into another order."""
    module = lower_to("plan", regions_of(read(resnet50(dtype="fp16", batch=32).text)), "sm90")
    program, once = module.program, Once(module.program)
    regions = [[r for r in map(program.program.region, one.regions) if r is not None] for one in module.plans]
    run = [own for own in regions if not all(map(once.holds, own))]
    moved = [own[0].name for own in run if not any(map(_is_computed, own))]
    assert len(run) <= 60
    assert len(moved) <= 1, moved


def _is_computed(region: Region) -> bool:
    """Whether a region does more than to move elements: a matrix of windows and an image in another order are moved."""
    values = [*(let.expr for let in region.lets), *(item.expr for item in region.yields)]
    return any(not isinstance(node, (Read, Select, Literal, Ref)) for value in values for node in walk(value))
