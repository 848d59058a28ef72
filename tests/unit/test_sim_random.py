"""Random graphs as emitted CUDA, run thread by thread on the CPU: the numbers of playback. None is refused."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.ir.pipeline import STAGES
from tinyir.lower import lower_to
from tinyir.play import tiny as play_tiny
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

from .checked import check_gpu
from .graphs import random_graph

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

EACH = 25


def agrees(seed: int) -> None:
    """The graph's CUDA is right in the gpu checker, runs, and gives what playback gives."""
    module, arrays = random_graph(seed)
    wanted = play_tiny.play(module, arrays)
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
        faults = check_gpu(module) if stage == "gpu" else []
        assert not any(d.is_error for d in faults), f"graph {seed}: {faults}"
    found, _ = run(manifest.show(module), arrays, device="sim", seed=seed, limit=30)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=f"graph {seed}, {name}")


@pytest.mark.parametrize("part", range(2))
def test_random_graphs_run_in_the_simulation(part: int) -> None:
    for seed in range(EACH * part, EACH * (part + 1)):
        agrees(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2, 80))
def test_thousands_of_random_graphs_run_in_the_simulation(part: int) -> None:
    for seed in range(EACH * part, EACH * (part + 1)):
        agrees(seed)
