"""Random networks of convolutions give in the simulation what playback of the model gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir import manifest
from tinyir.lower import lower_to
from tinyir.play.tiny import play
from tinyir.runtime.run import run

from .random_convnets import drawn
from .stages import needs_host_compiler

MOST = {"fp16": 2e-3, "fp32": 1e-5}  # of an output's largest number


def check(seed: int) -> None:
    """One network."""
    model = drawn(seed, is_small=True)
    module: Any = read(model.text)
    for stage in ("index", "poly", "region", "plan", "gpu", "cu"):
        module = lower_to(stage, module, "sm90")
    arrays = model.arrays(seed)
    found, _ = run(manifest.show(module), arrays, device="sim")
    for name, wanted in play(read(model.text), arrays).items():
        most = MOST[str(model.graph["tensors"]["x"]["dtype"])] * np.abs(wanted).max()
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=most, err_msg=f"network {seed}")


@needs_host_compiler
@pytest.mark.parametrize("seed", range(4))
def test_networks_give_what_the_model_says(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@needs_host_compiler
@pytest.mark.parametrize("seed", range(4, 104))
def test_more_networks_give_what_the_model_says(seed: int) -> None:
    check(seed)


def test_the_draws_are_of_all_kinds() -> None:
    """Each op, both dtypes, and what leaves early."""
    models = [drawn(seed).graph for seed in range(60)]
    ops = {op["op"] for one in models for op in one["graph"]}
    assert ops >= {"Conv", "Pool", "BatchNorm", "GroupNorm", "LayerNorm", "Concat", "Transpose", "Elementwise"}
    assert {one["tensors"]["x"]["dtype"] for one in models} == {"fp16", "fp32"}
    assert any(len(one["signature"]["outputs"]) > 1 for one in models)
