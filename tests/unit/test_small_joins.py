"""Launches of a few microseconds: what may be one kernel is one, and computes the same. What is between a fold and a
gather, casts, and the arithmetic of indices is nobody's kernel of its own."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir.pipeline import STAGES
from tinyir.lower import lower_to
from tinyir.sim.host import COMPILERS

from .emitted import assert_as_played

Tensors = dict[str, tuple[str, tuple[int, ...]]]
Lines = list[tuple[str, list, list[str], dict]]
CASES: dict[str, tuple[Tensors, Lines, str]] = {  # tensors, the result last; ops; family of the kernel
    "casts and arithmetic of an index": (
        {"I": ("i32", (3, 8)), "E": ("fp16", (40, 64)), "Y": ("fp32", (3, 8, 64))},
        [
            ("Cast", ["I"], ["j"], {"to": "i64"}),
            ("add", ["j", 2], ["k"], {}),
            ("min", ["k", 39], ["m"], {}),
            ("Gather", ["E", "m"], ["r"], {"axis": 0}),
            ("Cast", ["r"], ["Y"], {"to": "fp32"}),
        ],
        "map",
    ),
    "a gather before a norm": (
        {"I": ("i32", (3, 8)), "E": ("fp32", (40, 64)), "P": ("fp32", (8, 64)), "Y": ("fp32", (3, 8, 64))},
        [
            ("Gather", ["E", "I"], ["r"], {"axis": 0}),
            ("add", ["r", "P"], ["s"], {}),
            ("Softmax", ["s"], ["Y"], {"axis": 2}),
        ],
        "row",
    ),
    "what a fold finds, cast behind it": (
        {"X": ("fp16", (3, 40, 64)), "Y": ("fp32", (3, 64))},
        [
            ("Cast", ["X"], ["x"], {"to": "fp32"}),
            ("Reduce", ["x"], ["s"], {"op": "mean", "axes": [1]}),
            ("tanh", ["s"], ["Y"], {}),
        ],
        "map",
    ),
    "a gather at what a fold finds": (
        {"X": ("fp32", (9, 64)), "S": ("fp32", (16,)), "Y": ("fp32", (9, 64))},
        [
            ("Reduce", ["X"], ["m"], {"op": "max", "axes": [1]}),
            ("abs", ["m"], ["a"], {}),
            ("Cast", ["a"], ["i"], {"to": "i64"}),
            ("min", ["i", 15], ["c"], {}),
            ("Gather", ["S", "c"], ["s"], {"axis": 0}),
            ("Reshape", ["s"], ["t"], {"shape": [9, 1]}),
            ("mul", ["X", "t"], ["Y"], {}),
        ],
        "row",
    ),
}


def model_of(tensors: Tensors, lines: Lines) -> str:
    """The model in front-end JSON."""
    *inputs, result = tensors
    graph = []
    for op, given, made, attrs in lines:
        named = {"op": op} if op[0].isupper() else {"op": "Elementwise", "fn": op}
        graph.append({**named, "inputs": given, "outputs": made, "attrs": attrs})
    signature = {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": result}]}
    stated = {n: {"dtype": d, "shape": list(s)} for n, (d, s) in tensors.items()}
    return json.dumps({"name": "small", "signature": signature, "tensors": stated, "graph": graph})


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", CASES)
def test_what_may_join_joins(name: str) -> None:
    tensors, lines, family = CASES[name]
    module = read(model_of(tensors, lines), "small.json")
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
        if stage == "plan":
            assert [one.family for one in module.plans] == [family]
    draw = np.random.default_rng(5)
    arrays = {
        n: (draw.integers(0, 30, s) if d == "i32" else draw.standard_normal(s)).astype(
            {"i32": np.int32, "fp16": np.float16}.get(d, np.float32)
        )
        for n, (d, s) in list(tensors.items())[:-1]
    }
    assert_as_played(module, arrays, 5, rtol=2e-3, atol=2e-3)
