"""Outputs against the expected ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tinyir import front
from tinyir.lower import lower_to
from tinyir.play.region import play
from tinyir.play.roundings import spread_of
from tinyir.runtime.check import compare


def test_floats_may_differ_within_tolerance_and_the_worst_element_is_named() -> None:
    expected = np.array([[1.0, 100.0], [0.0, -2.0]], np.float32)
    (near,) = compare({"y": expected + np.float32(1e-4)}, {"y": expected})
    assert near.wrong == 0 and near.diag() is None and 0 < near.largest < 2e-4
    given = expected.copy()
    given[1, 1] = -2.5
    (far,) = compare({"y": given}, {"y": expected})
    assert (far.wrong, far.total, far.index, far.given, far.expected) == (1, 4, (1, 1), -2.5, -2.0)
    assert far.diag().code == "E1731"


def test_nan_and_infinity_must_be_where_they_are_due() -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert compare({"y": expected.copy()}, {"y": expected})[0].wrong == 0
    for given in (
        [0.0, np.inf, -np.inf, 1.0],
        [np.nan, np.inf, -np.inf, np.nan],
        [np.nan, -np.inf, -np.inf, 1.0],
        [np.nan, 5.0, -np.inf, 1.0],
    ):
        assert compare({"y": np.array(given)}, {"y": expected})[0].wrong == 1


def test_integers_and_bools_must_be_equal_and_empty_outputs_are() -> None:
    assert compare({"i": np.array([1, 2])}, {"i": np.array([1, 3])})[0].wrong == 1
    assert compare({"b": np.array([True, False])}, {"b": np.array([True, False])})[0].wrong == 0
    assert compare({"e": np.zeros((0, 3))}, {"e": np.zeros((0, 3))})[0].total == 0


def test_neighbours_in_a_narrow_dtype_are_no_fault() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    expected = np.array([0.486328125, 3.0]).astype(ml_dtypes.bfloat16)
    given = np.array([0.484375, 3.0]).astype(ml_dtypes.bfloat16)
    assert compare({"y": given}, {"y": expected})[0].wrong == 0
    assert compare({"y": given.astype(np.float32)}, {"y": expected.astype(np.float32)})[0].wrong == 1


TWO_PRODUCTS = {  # the first is rounded to 16 bits, and the second takes differences of neighbours
    "signature": {"inputs": [{"tensor": n} for n in ("A", "B", "C")], "outputs": [{"tensor": "Y"}]},
    "tensors": {
        "A": {"dtype": "fp16", "shape": [64, 512]},
        "B": {"dtype": "fp16", "shape": [512, 96]},
        "C": {"dtype": "fp16", "shape": [96, 48]},
        "H": {"dtype": "fp16", "shape": [64, 96]},
        "Y": {"dtype": "fp16", "shape": [64, 48]},
    },
    "graph": [
        {"op": "MatMul", "inputs": ["A", "B"], "outputs": ["H"]},
        {"op": "MatMul", "inputs": ["H", "C"], "outputs": ["Y"]},
    ],
}


def test_roundings_on_the_way_are_part_of_the_tolerance() -> None:
    """The same sums in another order are right, and one that lacks a term is not."""
    module: Any = front.read(json.dumps(TWO_PRODUCTS))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    draw = np.random.default_rng(5)
    given = {n: draw.standard_normal(TWO_PRODUCTS["tensors"][n]["shape"]).astype(np.float16) for n in "ABC"}
    a, b, c = (given[n].astype(np.float32) for n in "ABC")

    def other(of: slice) -> np.ndarray:
        parts = sum(a[:, k : k + 8] @ b[k : k + 8] for k in range(504, -8, -8))
        return (parts.astype(np.float16).astype(np.float32)[:, of] @ c[of]).astype(np.float16)

    expected, asked = play(module, given), []

    def spread() -> dict[str, np.ndarray]:
        asked.append(1)
        return spread_of(module, given)

    right, wrong = {"Y": other(slice(None))}, {"Y": other(slice(1, None))}
    assert compare(right, expected, 1e-4, 1e-4)[0].wrong > 0
    (found,) = compare(right, expected, 1e-4, 1e-4, spread)
    assert (found.wrong, len(asked)) == (0, 1) and found.rounded > 0 and "by what roundings on the way do" in str(found)
    (found,) = compare(wrong, expected, 1e-4, 1e-4, spread)
    assert found.wrong > found.total / 2
    assert (
        compare(expected, expected, 0, 0, spread)[0].wrong == 0 and len(asked) == 2
    )  # not asked where nothing is wrong


def test_infinities_are_compared_without_warnings() -> None:
    found, wanted = np.array([np.inf, np.inf, np.nan, 1e308, 1.0]), np.array([np.inf, -np.inf, np.nan, -1e308, 1.0])
    with np.errstate(all="raise"):
        assert compare({"y": found}, {"y": wanted})[0].wrong == 2
