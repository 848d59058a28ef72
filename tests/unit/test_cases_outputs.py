"""An input that is itself an output is copied, whatever language says so, at every stage."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tinyir import front
from tinyir.ir import tiny

from .stages import Stages, needs_host_compiler

X, S = np.array([-1, 0, 2], np.float32), np.array([10, 20, 30], np.float32)
TENSOR = {"dtype": "fp32", "shape": ["M"]}
LANGUAGES = {
    "json": json.dumps(
        {
            "signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "x"}, {"tensor": "y"}]},
            "tensors": {"x": TENSOR, "y": TENSOR},
            "graph": [{"op": "Elementwise", "name": "y", "fn": "relu", "inputs": ["x"], "outputs": ["y"]}],
        }
    ),
    "json without a node": json.dumps(
        {
            "signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "x"}]},
            "tensors": {"x": TENSOR},
            "graph": [],
        }
    ),
    "nodeid": json.dumps(
        {
            "uops": [
                {"id": "a", "uop": "INPUT", "arg": {"tensor_id": "x", **TENSOR}},
                {"id": "y", "uop": "RELU", "src": ["a"]},
            ],
            "outputs": {"x": "a", "again": "a", "y": "y"},
        }
    ),
    "nodeid without a node": json.dumps(
        {"uops": [{"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", **TENSOR}}], "outputs": ["x"]}
    ),
    "coreir": '%0 = Input() {name="x"} : f32[M]\n%1 = Relu(%0) : f32[M]\noutputs: x=%0, y=%1\n',
    "dsl": "graph<M=4> main(x: f32[M]) -> (x: f32[M], again: f32[M], y: f32[M]) {\n    y = relu(x)\n    return x, x, y\n"  # noqa: E501
    "}\n",
}
STATES = """tinyir 1.0 tiny

model m
  in  x : fp32[M] {role=state, mutability=mutable}
  in  s : fp32[M] {role=state, mutability=mutable}
  out x : fp32[M]
  out s : fp32[M]
  out old : fp32[M]

outputs: x=s, s=x, old=s
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_input_that_is_an_output_is_copied_in_every_language(language: str) -> None:
    module = front.read(LANGUAGES[language])
    numbers = {"x": X, "again": X, "y": np.maximum(X, 0)}
    Stages(tiny.show(module)).assert_gives({"x": X}, {t.name: numbers[t.name] for t in module.model.outputs})


@needs_host_compiler
@pytest.mark.parametrize(
    ("text", "arrays", "wanted"),
    [
        (LANGUAGES["json"], {"x": X}, {"x": X, "y": np.maximum(X, 0)}),
        (LANGUAGES["json without a node"], {"x": X}, {"x": X}),
        (STATES, {"x": X, "s": S}, {"x": S, "s": X, "old": S}),
    ],
)
def test_the_kernels_copy_it_too(text: str, arrays: dict, wanted: dict) -> None:
    Stages(text).assert_gives(arrays, wanted, True)
