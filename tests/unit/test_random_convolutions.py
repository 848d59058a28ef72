"""Random convolutions: small ones in the simulation, the plans of larger ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir import plan
from tinyir.lower import lower_to
from tinyir.play.tiny import play
from tinyir.runtime.run import run

from .random_convolutions import Convolution, drawn, misses
from .stages import needs_host_compiler

PLANNED = [seed for seed in range(200) if drawn(seed).is_tensor_work]


def planned(text: str) -> plan.Module:
    """The plans of a model."""
    module: Any = read(text)
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90")
    return module


def check_drawn(seed: int) -> None:
    """The simulation of all kernels gives what the model says."""
    check(drawn(seed, is_small=True), seed)


def check(case: Convolution, seed: int) -> None:
    """The same of one, with numbers of the seed."""
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


# sizes, window, steps, before, behind: half a step is cut from the first results, or none, or a part of one
PHASES = [
    ((5, 4), (4, 4), (2, 2), (1, 1), (1, 1)),
    ((5, 4), (4, 2), (2, 2), (1, 0), (1, 0)),
    ((9,), (16,), (8,), (4,), (4,)),
    ((4, 5), (8, 3), (4, 1), (6, 1), (2, 1)),
    ((3, 2, 4), (4, 4, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    ((5, 4), (4, 4), (2, 2), (1, 1), (2, 1)),
    ((6,), (6,), (3,), (1,), (2,)),
    ((3, 4), (3, 3), (3, 2), (1, 1), (2, 0)),  # the last three: one axis by phases, one spread by steps
    ((5, 4), (5, 2), (3, 2), (3, 0), (2, 0)),
    ((4, 5), (2, 3), (2, 2), (1, 2), (1, 0)),
]


@needs_host_compiler
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("shape", PHASES, ids=str)
def test_phases_give_what_the_model_says(shape: tuple, is_last: bool) -> None:
    sizes, window, steps, before, behind = shape
    case = Convolution(
        "fp16", 2, 16, 8, 1, sizes, window, steps, (1,) * len(sizes), before, behind, True, is_last, "bias relu"
    )
    check(case, 3)


def test_what_half_a_step_is_cut_from_is_one_kernel() -> None:
    """The common 4 x 4 by 2 with a padding of 1: windows by the copy engine, and no kernel behind to move what is
    made."""
    case = Convolution("fp16", 8, 64, 64, 1, (16, 16), (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), True, True, "bias relu")
    weights, one = planned(case.model()).plans
    assert weights.algo == "flat" and one.algo == "warp_specialized"
    assert [item.by for item in one.load] == ["windows", "tma"]


@pytest.mark.slow
@needs_host_compiler
@pytest.mark.parametrize("seed", range(6, 106))
def test_more_convolutions_give_what_the_model_says(seed: int) -> None:
    check_drawn(seed)


# of the last four one axis is in phases, whose weights are a matrix that has not a dim for each, one spread by steps
@pytest.mark.parametrize("seed", [*PLANNED[:16], 2687, 5472, 6662, 11891])
def test_tensor_cores_multiply_without_a_matrix_of_windows(seed: int) -> None:
    case = drawn(seed)
    assert misses(planned(case.model()), case) == "", case


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
        lambda c: c.is_transposed and c.window == (4,) * len(c.sizes),
        lambda c: c.groups > 1 and c.channels in (4 * c.groups, 8 * c.groups),
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
