"""A hundred attentions drawn at random, each planned for sm80 or for sm90, on tensor cores, in the simulation against
playback of the model."""

from __future__ import annotations

import pytest

from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan

from .emitted import lowered, simulated
from .random_attention import (
    TENSOR_CORES,
    attention_of,
    bounds_of,
    drawn,
    is_near,
    model_and_arrays,
    wanted_of,
    with_draws,
    with_warps,
)
from .stages import needs_host_compiler

COUNT = 100


@needs_host_compiler
@pytest.mark.parametrize("number", range(COUNT))
def test_a_random_attention_equals_playback(number: int) -> None:
    how, arch = drawn(number), ("sm80", "sm90")[number % 2]
    model, arrays = model_and_arrays(how, number)
    module = model
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, arch)
    planned = to_plan.lower(module, arch)
    if attention_of(planned).algo not in TENSOR_CORES:  # a few scores cost less by threads alone
        planned = with_warps(planned, number)
    planned = with_draws(planned, number) if number % 4 == 3 else planned
    assert attention_of(planned).algo in TENSOR_CORES, how
    wanted = wanted_of(how, arrays)
    bounds = bounds_of(how, arrays, wanted)
    assert is_near(simulated(lowered(planned)[1], arrays, number), wanted, bounds) == "", how


SPLIT = 1115  # a few rows of many columns, which are walked in chunks


def test_another_plan_is_one_of_the_program_that_was_split() -> None:
    """Chunks of columns are regions of their own, which plans of the whole do not fit."""
    module = model_and_arrays(drawn(SPLIT, 600), SPLIT)[0]
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    planned = to_plan.lower(module, "sm90")
    assert len(planned.plans) > 1
    changed = with_warps(planned, 0)
    assert attention_of(changed).algo == "streaming_mma"
    lowered(changed)
