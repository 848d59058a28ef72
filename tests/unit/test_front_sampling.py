"""Resize and random numbers of the front ends."""

from __future__ import annotations

import numpy as np
import pytest

from .test_front_families import refused
from .test_front_ops import close, floats, run

equal = np.testing.assert_array_equal


def test_nearest() -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    equal(run("Resize", {"x": x}, scales=[1, 1, 2, 3]), x.repeat(2, 2).repeat(3, 3))
    line = np.arange(5, dtype=np.float32)
    equal(run("Resize", {"x": line}, sizes=[3], coordinates="asymmetric", rounding="floor"), [0, 1, 3])
    equal(run("Resize", {"x": line}, sizes=[3], coordinates="align_corners"), [0, 2, 4])
    equal(run("Resize", {"x": line}, sizes=[7], coordinates="asymmetric", rounding="ceil"), [0, 1, 2, 3, 3, 4, 4])
    equal(
        run("Resize", {"x": line}, scales=[0.6], coordinates="half_pixel"),
        np.round((np.arange(3) + 0.5) / 0.6 - 0.5 - 1e-9),
    )


def test_linear() -> None:
    line = np.array([1, 2, 4], np.float32)
    close(run("Resize", {"x": line}, sizes=[6], mode="linear"), [1, 1.25, 1.75, 2.5, 3.5, 4])
    close(run("Resize", {"x": line}, sizes=[5], mode="linear", coordinates="align_corners"), [1, 1.5, 2, 3, 4])
    x = floats(2, 3, 4, dtype=np.float16)
    rows = np.stack(
        [
            np.interp(np.clip((np.arange(7) + 0.5) * 4 / 7 - 0.5, 0, 3), np.arange(4), r)
            for r in x.reshape(6, 4).astype(np.float64)
        ]
    ).reshape(2, 3, 7)
    given = run("Resize", {"x": x}, sizes=[7], axes=[2], mode="linear")
    assert given.dtype == np.float16
    close(given, rows, 2e-3)


def test_cubic_keeps_lines_straight_inside() -> None:
    x = np.arange(8, dtype=np.float32)
    given = run("Resize", {"x": x}, sizes=[16], mode="cubic", cubic_coeff=-0.5)
    close(given[4:-4], (np.arange(16) + 0.5)[4:-4] / 2 - 0.5)
    assert refused("Resize", {"x": x}) == "E0104"
    assert refused("Resize", {"x": x}, sizes=[3, 3]) == "E1101"


def test_random_numbers() -> None:
    u = run("Random", {}, shape=[5000], seed=1, low=-1, high=3)
    assert -1 <= u.min() and u.max() < 3 and abs(u.mean() - 1) < 0.06
    n = run("RandomNormal", {}, shape=[5000], seed=1, mean=2, scale=0.5)
    assert abs(n.mean() - 2) < 0.03 and abs(n.std() - 0.5) < 0.02
    x = np.ones(5000, np.float32)
    equal(run("Dropout", {"x": x}), x)
    d = run("Dropout", {"x": x}, training=True, ratio=0.25, seed=9)
    assert sorted(set(d.tolist())) == pytest.approx([0, 4 / 3]) and abs((d == 0).mean() - 0.25) < 0.03
