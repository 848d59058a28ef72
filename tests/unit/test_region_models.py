"""Whole networks as programs of regions: few kernels, made in time, and playback equal to that of tiny text."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.models.counts import WHOLE, difference, kernels_of, launches_of, per_layer, regions_of
from tinyir.front.json import read
from tinyir.ir import region
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play as play_tiny

from .test_models import SMALL


@pytest.mark.parametrize("batch", [2, "B"])
@pytest.mark.parametrize("name", SMALL)
def test_a_small_network_means_the_same(name: str, batch: int | str) -> None:
    model = SMALL[name](batch=batch)
    module, arrays = read(model.text), model.arrays(B=3)
    program = regions_of(module)
    assert region.check(program) == [] and region.parse(region.show(program)) == program
    found = play_region(program, arrays)
    for output, wanted in play_tiny(module, arrays).items():
        np.testing.assert_allclose(found[output], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_resnet50_in_time_and_in_few_kernels() -> None:
    """A convolution with its norm, activation and residual is a kernel. From JSON to text in 4 s; it takes 0.6."""
    text = WHOLE["resnet50"]().text
    start = time.process_time()
    module = regions_of(read(text))
    region.show(module)
    assert time.process_time() - start < 4
    assert kernels_of(module) <= 60


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_a_layer_is_seven_kernels(name: str) -> None:
    """The projections together, attention, its output, two products of the MLP, two norms; biases, activations and
    residuals ride along. Each is one launch; in fp32, where tensor cores are slower, the card is filled by cutting
    sums, which takes launches more."""
    assert per_layer(name) == per_layer(name, launches_of, "fp16") == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_network_means_the_same(name: str) -> None:
    assert difference(WHOLE[name]()) < 1e-5
