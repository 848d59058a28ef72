"""Random programs of what real models are made of, through the maker and the checker of each stage together: none is
refused, and the emitted kernels give playback's numbers in the simulation. Many programs are one compiled text, since a
compiler's start costs more than a small kernel."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of, lower_to
from tinyir.play import tiny as play_tiny
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

from .graphs import random_graphs

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

EACH = 20
QUICK, ALL = 300, 5000
SINGLE, HALF = (
    1e-4,
    4e-3,
)  # how far a value may be from playback's: HALF is four times the distance of two numbers of fp16


def agree(seeds: Sequence[int]) -> None:
    """The programs of these seeds hold at each stage and give what playback gives. Sums are in another order there, and
    TANH and EXP2 another library's: a value that is between two of fp16 may be rounded to the other one."""
    module, arrays = random_graphs(seeds)
    wanted, given = play_tiny.play(module, arrays), module
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
        assert [(d.code, d.at, dict(d.facts)) for d in language_of(stage).check(module) if d.is_error] == [], stage
    found, _ = run(manifest.show(module), arrays, device="sim", seed=seeds[0], limit=60)
    halves = {value.name.split(".")[0] for value in given.values if value.type.dtype.name == "fp16"}
    for name, array in wanted.items():
        tolerance = HALF if name.split(".")[1] in halves else SINGLE
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("first", range(0, QUICK, EACH))
def test_no_program_is_refused_and_all_values_are_right(first: int) -> None:
    agree(range(first, first + EACH))


def test_what_was_found_once_stays_right() -> None:
    """Vectors of a map under two guards and at places chosen in their loop; work of two ranks that a fold shares;
    a fold that reads nothing; a fold of few, copied beside another reader of its product; two scans in one block."""
    agree((344, 427, 480, 668, 2387, 2695))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, ALL, EACH))
def test_no_program_of_thousands_is_refused(first: int) -> None:
    agree(range(first, first + EACH))
