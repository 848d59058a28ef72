"""Random arrays by role: weights that keep a network's numbers in range, variances that are positive."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tinyir import front
from tinyir.lower import language_of, lower_to
from tinyir.play.roles import positive_inputs
from tinyir.play.tiny import play
from tinyir.runtime.arrays import random_arrays

DEEP = 12


def network() -> str:
    """Linear layers with a batch norm after each, whose variances are inputs."""
    graph, inputs, tensors, x = [], [{"tensor": "X"}], {"X": {"dtype": "fp32", "shape": [64, 64]}}, "X"
    for n in range(DEEP):
        for name, shape in ((f"W{n}", [64, 64]), (f"mean{n}", [64]), (f"spread{n}", [64]), (f"one{n}", [64])):
            inputs.append({"tensor": name, "role": "param"})
            tensors[name] = {"dtype": "fp32", "shape": shape}
        graph.append({"op": "MatMul", "inputs": [x, f"W{n}"], "outputs": [f"H{n}"]})
        norm = [f"H{n}", f"one{n}", f"mean{n}", f"mean{n}", f"spread{n}"]
        graph.append({"op": "BatchNorm", "inputs": norm, "outputs": [f"N{n}"]})
        x = f"N{n}"
    tensors[x] = {"dtype": "fp32", "shape": [64, 64]}
    sides = {"inputs": inputs, "outputs": [{"tensor": x}]}
    return json.dumps({"signature": sides, "tensors": tensors, "graph": graph})


@pytest.mark.parametrize("stage", ["tiny", "index", "region"])
def test_what_a_root_is_taken_of_is_found(stage: str) -> None:
    module = front.read(network())
    for later in ("index", "poly", "region")[: {"tiny": 0, "index": 1, "region": 3}[stage]]:
        module = lower_to(later, module, "sm90")
    assert isinstance(module, language_of(stage).Module)
    assert positive_inputs(module) == {f"spread{n}" for n in range(DEEP)}


def test_a_deep_network_gives_numbers_in_range() -> None:
    module = front.read(network())
    arrays = random_arrays(module.model, {}, 7, positive_inputs(module))
    assert all((arrays[f"spread{n}"] > 0).all() for n in range(DEEP))
    (found,) = play(module, arrays).values()
    assert np.isfinite(found).all() and 1e-3 < np.abs(found).max() < 1e4


def test_weights_are_scaled_and_data_are_not() -> None:
    text = network()
    drawn = random_arrays(front.read(text).model, {}, 7)
    assert np.std(drawn["W0"]) < 0.2 < 0.9 < np.std(drawn["X"])
