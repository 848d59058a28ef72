"""Random (shape, layout, dtype, epilogue) contractions in the simulation, sm80's and sm90's plans, each equal to
playback to the bit."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.sim.host import COMPILERS

from .emitted import played, simulated
from .tuples import EPILOGUES, LAYOUTS, tuples

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
FEW, MANY, AT_ONCE, MOST = 6, 500, 25, 90


def check(start: int, count: int, seed: int) -> None:
    """Tuples start, start + 1, ... of a seed."""
    for number, one in enumerate(list(tuples(start + count, MOST, seed))[start:], start):
        code = manifest.parse(one.text())
        arrays = one.arrays(number)
        wanted = played(code, arrays)
        for name, got in simulated(code, arrays, number).items():
            assert np.array_equal(got.astype(np.float64), wanted[name].astype(np.float64), equal_nan=True), (one, name)


def test_the_tuples_are_of_every_kind() -> None:
    every = list(tuples(MANY, MOST, 1))
    assert {t.layout for t in every} == set(LAYOUTS) and {t.epilogue for t in every} == set(EPILOGUES)
    assert len({t.sizes for t in every}) > 400 and {t.arch for t in every} == {"sm80", "sm90"}


def test_a_few_tuples_are_exact() -> None:
    check(0, FEW, 2)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, MANY, AT_ONCE))
def test_five_hundred_tuples_are_exact(start: int) -> None:
    check(start, AT_ONCE, 1)
