"""Outputs against the expected ones."""

from __future__ import annotations

import numpy as np
import pytest

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
