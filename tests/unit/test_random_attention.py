"""A hundred attentions drawn at random, each planned for sm80 or for sm90, in the simulation against playback of the
model."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.play import tiny as play_tiny

from .emitted import lowered, simulated
from .random_attention import drawn, is_near, model_and_arrays
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
    with np.errstate(all="ignore"):
        wanted = play_tiny.play(model, arrays)
    assert is_near(simulated(lowered(planned)[1], arrays, number), wanted, how.dtype) == "", how
