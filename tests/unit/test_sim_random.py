"""Random graphs as emitted CUDA, run thread by thread on the CPU: the numbers of playback, or a refusal that names its kernel."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import gpu, manifest
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to
from tinyir.play import tiny as play_tiny
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

from .graphs import random_graph

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

EACH = 25
AT_MOST = 2  # refused of each 25: a region that no family covers
NOT_YET = {"E1520"}


def codes_of(seed: int) -> set[str]:
    """The codes that the graph is refused with; empty once its CUDA has run and given what playback gives."""
    module, arrays = random_graph(seed)
    wanted = play_tiny.play(module, arrays)
    try:
        for stage in STAGES[1:]:
            module = lower_to(stage, module, "sm90")
            faults = gpu.check(module) if stage == "gpu" else []
            assert not any(d.is_error for d in faults), f"graph {seed}: {faults}"
    except Refused as fault:
        return {d.code for d in fault.diags}
    found, _ = run(manifest.show(module), arrays, device="sim", seed=seed, limit=30)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=f"graph {seed}, {name}")
    return set()


def refusals_of(seeds: range) -> int:
    """How many graphs are refused, each with codes that may be."""
    refused = 0
    for seed in seeds:
        codes = codes_of(seed)
        assert codes <= NOT_YET, f"graph {seed}: {codes}"
        refused += bool(codes)
    return refused


@pytest.mark.parametrize("part", range(2))
def test_random_graphs_run_in_the_simulation(part: int) -> None:
    assert refusals_of(range(EACH * part, EACH * (part + 1))) <= AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2, 80))
def test_thousands_of_random_graphs_run_in_the_simulation(part: int) -> None:
    assert refusals_of(range(EACH * part, EACH * (part + 1))) <= AT_MOST
