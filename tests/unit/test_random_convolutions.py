"""Random convolutions: small ones in the simulation, the plans of larger ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir import plan
from tinyir.ir.region import Region
from tinyir.lower import lower_to
from tinyir.play.tiny import play
from tinyir.runtime.run import run

from .random_convolutions import Convolution, drawn
from .stages import needs_host_compiler

TENSOR_CORES = ("warp_specialized", "multistage", "haloed")
PLANNED = [seed for seed in range(200) if drawn(seed).is_tensor_work]


def planned(text: str) -> plan.Module:
    """The plans of a model."""
    module: Any = read(text)
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90")
    return module


def is_matrix(one: Region, case: Convolution) -> bool:
    """Whether a region lays windows out: it moves elements, and writes more of them than the image has."""
    written = math.prod(e.constant for e in one.outputs[0].type.shape)
    return not one.lets and one.inputs[0].name == "x" and written > case.image_elements


def check_drawn(seed: int) -> None:
    """The simulation of all kernels gives what the model says."""
    case = drawn(seed, is_small=True)
    module: Any = planned(case.model())
    for stage in ("gpu", "cu"):
        module = lower_to(stage, module, "sm90")
    from tinyir.ir import manifest

    arrays = case.arrays(seed)
    found, _ = run(manifest.show(module), arrays, device="sim")
    np.testing.assert_array_equal(found["y"], play(read(case.model()), arrays)["y"], err_msg=str(case))


@needs_host_compiler
@pytest.mark.parametrize("seed", [*range(6), 9, 17, 1085, 1666])  # of the last four, two in phases, two spread by steps
def test_convolutions_give_what_the_model_says(seed: int) -> None:
    check_drawn(seed)


@pytest.mark.slow
@needs_host_compiler
@pytest.mark.parametrize("seed", range(6, 106))
def test_more_convolutions_give_what_the_model_says(seed: int) -> None:
    check_drawn(seed)


@pytest.mark.parametrize("seed", PLANNED[:16])
def test_tensor_cores_multiply_without_a_matrix_of_windows(seed: int) -> None:
    case = drawn(seed)
    found = planned(case.model())
    assert any(p.algo in TENSOR_CORES for p in found.plans), case
    assert [r.name for r in found.program.program.regions if is_matrix(r, case)] == [], case


@pytest.mark.slow
@pytest.mark.parametrize("seed", PLANNED[16:])
def test_more_are_multiplied_without_a_matrix_of_windows(seed: int) -> None:
    test_tensor_cores_multiply_without_a_matrix_of_windows(seed)


def test_the_draws_are_of_all_kinds() -> None:
    """Groups, steps, spread windows, unlike pads, odd channels, transposed ones, both orders, each epilogue."""
    cases = [drawn(seed) for seed in range(200)]
    assert {len(c.sizes) for c in cases} == {1, 2, 3}
    assert {c.epilogue for c in cases} == {"", "bias", "bias relu", "bias residual relu", "residual"}
    for trait in (
        lambda c: c.is_transposed and max(c.steps) > 1,
        lambda c: c.is_last,
        lambda c: 1 < c.groups < c.channels,
        lambda c: 1 < c.groups == c.channels,
        lambda c: max(c.spread) > 1,
        lambda c: c.before != c.behind,
        lambda c: c.channels % 8,
        lambda c: c.dtype == "fp32",
    ):
        assert 8 <= sum(bool(trait(c)) for c in cases) <= 192
    assert len(PLANNED) > 40
