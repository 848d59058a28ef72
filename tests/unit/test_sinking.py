"""A gather of a few elements of what is computed element by element computes only these."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import tiny
from tinyir.play.tiny import play
from tinyir.sim.host import COMPILERS

from .emitted import simulated
from .test_packed_weights import lowered


def picked(rows: int, columns: int, each: int, axis: int = 1, is_partial: bool = False) -> str:
    """The log softmax at `each` places of each row, negated; a part of the rows alone."""
    shape = [rows, each] if axis == 1 else [each, columns]
    shape[1 - axis] -= is_partial
    tensors = {"X": ("fp16", [rows, columns]), "at": ("i64", shape), "Y": ("fp16", shape)}
    graph = [
        {"op": "LogSoftmax", "inputs": ["X"], "outputs": ["log"], "attrs": {"axis": axis}},
        {"op": "GatherElements", "inputs": ["log", "at"], "outputs": ["few"], "attrs": {"axis": axis}},
        {"op": "Elementwise", "fn": "neg", "inputs": ["few"], "outputs": ["Y"]},
    ]
    return json.dumps(
        {
            "name": "picked",
            "signature": {"inputs": [{"tensor": "X"}, {"tensor": "at"}], "outputs": [{"tensor": "Y"}]},
            "tensors": {n: {"dtype": d, "shape": s} for n, (d, s) in tensors.items()},
            "graph": graph,
        }
    )


def arrays(text: str, columns: int) -> dict[str, np.ndarray]:
    """Numbers, and places of which some count from the end and some are outside."""
    tensors = json.loads(text)["tensors"]
    draws = np.random.default_rng(columns)
    return {
        "X": draws.standard_normal(tensors["X"]["shape"]).astype(np.float16),
        "at": draws.integers(-columns - 3, columns + 3, tensors["at"]["shape"]),
    }


def log_softmax_at(x: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    wide = x.astype(np.float64)
    log = wide - wide.max(axis, keepdims=True)
    log -= np.log(np.exp(log).sum(axis, keepdims=True))
    size = x.shape[axis]
    counted = np.where(at < 0, at + size, at)
    is_inside = (counted >= 0) & (counted < size)
    log = log[: at.shape[0]] if axis == 1 else log[:, : at.shape[1]]
    return -np.where(is_inside, np.take_along_axis(log, np.where(is_inside, counted, 0), axis), 0)


CASES = {"one of each row": (6, 40, 1), "two of each row": (6, 40, 2), "of each column": (40, 6, 1, 0)}
APART = {"many of each row": (6, 40, 20), "of some rows": (6, 40, 1, 1, True)}


@pytest.mark.parametrize("name", [*CASES, *APART])
def test_playback_is_numpy(name: str) -> None:
    size = (CASES | APART)[name]
    text, axis = picked(*size), size[3] if len(size) > 3 else 1
    given = arrays(text, size[1 - (1 - axis)])
    found = play(read(text), given)["Y"]
    np.testing.assert_allclose(
        found.astype(np.float64), log_softmax_at(given["X"], given["at"], axis), rtol=2e-3, atol=4e-3
    )


@pytest.mark.parametrize("name", [*CASES, *APART])
def test_what_is_computed_is_gathered_only_where_many_are_picked(name: str) -> None:
    text = tiny.show(read(picked(*(CASES | APART)[name])))
    assert ("RESHAPE(%log)" in text) == (name in APART)


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_one_kernel_reads_each_row_once() -> None:
    text = picked(6, 200, 1)
    module = lowered(text)
    assert len(module.launches) == 1
    given = arrays(text, 200)
    found = simulated(module, given)["Y"]
    np.testing.assert_allclose(
        found.astype(np.float64), log_softmax_at(given["X"], given["at"], 1), rtol=2e-3, atol=4e-3
    )
