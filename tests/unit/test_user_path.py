"""A network written by hand from docs/reference/json.md alone: convolutions, attention, a classifier."""

from __future__ import annotations

import numpy as np

from tinyir.play.roles import positive_inputs
from tinyir.runtime.arrays import random_arrays

from ..commands import ROOT
from .stages import Stages


def test_a_network_that_follows_the_reference_is_right_at_every_stage() -> None:
    stages = Stages((ROOT / "tests" / "models" / "conv_attention.json").read_text(encoding="utf-8"))
    arrays = random_arrays(stages.tiny.model, {"N": 2}, 1, positive_inputs(stages.tiny))
    found = dict(stages.outputs(arrays))
    for outputs in found.values():
        assert outputs["classes"].shape == (2, 10)
        np.testing.assert_allclose(outputs["classes"].sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(outputs["classes"], found["tiny"]["classes"], rtol=1e-3, atol=1e-5)
    assert sum(launch in stages.cuda() for launch in ("conv1", "conv2", "att", "classify")) == 4
