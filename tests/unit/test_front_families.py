"""Movement, reduction and normalisation of the front ends against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.kit.diag import Refused

from .test_front_ops import close, floats, run

X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
equal = np.testing.assert_array_equal


def refused(*args: Any, **attrs: Any) -> str:
    with pytest.raises(Refused) as caught:
        run(*args, **attrs)
    assert all(d.why() and d.why("ja") for d in caught.value.diags)
    return caught.value.diags[0].code


# --- movement


def test_reshape_family() -> None:
    equal(run("Reshape", {"x": X}, shape=[0, -1]), X.reshape(2, 12))
    equal(run("Reshape", {"x": X}, shape=[-1]), X.reshape(-1))
    equal(run("Reshape", {"x": X}, symbolic=True, shape=["d4", -1]), X.reshape(4, 6))
    equal(run("Flatten", {"x": X}, axis=2), X.reshape(6, 4))
    equal(run("Flatten", {"x": X}, axis=3), X.reshape(24, 1))
    equal(run("Transpose", {"x": X}), X.T)
    equal(run("Transpose", {"x": X}, perm=[1, 2, 0]), X.transpose(1, 2, 0))
    equal(run("Squeeze", {"x": X[:1, :, :1]}), X[0, :, 0])
    equal(run("Squeeze", {"x": X[:1, :, :1]}, axes=[-1]), X[:1, :, 0])
    equal(run("Unsqueeze", {"x": X}, axes=[0, -1]), X[None, ..., None])
    equal(run("Expand", {"x": X[:, :1]}, shape=[3, 1]), np.broadcast_to(X[:, :1], (2, 3, 4)))
    equal(run("Expand", {"x": X[:, :1]}, shape=[5, -1, 3, 4]), np.broadcast_to(X[:, :1], (5, 2, 3, 4)))
    equal(run("Tile", {"x": X}, repeats=[2, 1, 3]), np.tile(X, (2, 1, 3)))
    equal(run("Tile", {"x": X}, repeats=[2, 1, 0, 1]), np.tile(X, (2, 1, 0, 1)))
    assert refused("Reshape", {"x": X}, shape=[5, -1]) == "E1003"
    assert refused("Reshape", {"x": X}, shape=[-1, -1]) == "E1013"
    assert refused("Transpose", {"x": X}, perm=[0, 0, 1]) == "E1004"
    assert refused("Squeeze", {"x": X}, axes=[0]) == "E1014"
    assert refused("Unsqueeze", {"x": X}, axes=[0, 0]) == "E1007"
    assert refused("Tile", {"x": X}, repeats=[2]) == "E1101"
    assert refused("Expand", {"x": X}, shape=[5, 4]) == "E1008"


def test_flip_and_roll() -> None:
    equal(run("Flip", {"x": X}), X[::-1, ::-1, ::-1])
    equal(run("Flip", {"x": X}, axes=[-1]), X[..., ::-1])
    equal(run("Roll", {"x": X}, shifts=[1, -6], axes=[0, 2]), np.roll(X, (1, -6), (0, 2)))
    equal(run("Roll", {"x": X}, shifts=[1], axes=[2], symbolic=True), np.roll(X, 1, 2))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (9, 0, -1),
        (7, 0, -1),
        (9, 2, -1),
        (9, 0, -3),
        (9, -(2**40), -1),
        (2, 7, 2),
        (-3, 2**40, 1),
        (5, 3, 1),
        (20, 30, 1),
        (-20, 4, 3),
        (3, 9, -1),
        (-1, -11, -4),
        (0, 0, 1),
    ],
)
def test_slices_are_pythons(start: int, end: int, step: int) -> None:
    x = np.arange(10, dtype=np.float32)
    equal(run("Slice", {"x": x}, starts=[start], ends=[end], steps=[step]), x[start:end:step])


def test_slices_of_several_axes_and_of_symbolic_ones() -> None:
    equal(run("Slice", {"x": X}, starts=[1, 3], ends=[2, 0], axes=[1, -1], steps=[1, -1]), X[:, 1:2, 3:0:-1])
    equal(run("Slice", {"x": X}, starts=[1, -2], ends=[2**31, 2**31], axes=[1, 2], symbolic=True), X[:, 1:, -2:])
    assert refused("Slice", {"x": X}, starts=[1], ends=[2], steps=[0]) == "E1104"
    assert refused("Slice", {"x": X}, starts=[1], ends=[2], axes=[3]) == "E1006"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 9), st.integers(0, 9), st.integers(1, 4), st.sampled_from(["constant", "reflect", "edge", "wrap"])
)
def test_pads_are_numpys(low: int, high: int, size: int, mode: str) -> None:
    x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    equal(run("Pad", {"x": x}, pads=[low, high], axes=[1], mode=mode), np.pad(x, ((0, 0), (low, high)), mode=mode))


def test_pads_of_both_signs() -> None:
    equal(
        run("Pad", {"x": X}, pads=[0, 1, -1, 0, -2, 2], value=9),
        np.pad(X, ((0, 0), (1, 0), (0, 2)), constant_values=9)[:, :2, 1:],
    )
    x = floats(3)
    equal(run("Pad", {"x": x}, pads=[1, 1], value="-inf"), np.pad(x, 1, constant_values=-np.inf))


def test_concat_and_split_keep_every_bit() -> None:
    a, b, c = (np.array([[v, -0.0]], np.float32) for v in (math.nan, -math.inf, 1.0))
    found = run("Concat", {"a": a, "b": b, "c": c}, axis=0)
    equal(found.view(np.int32), np.concatenate([a, b, c]).view(np.int32))
    equal(run("Concat", {"x": X, "y": X[:, :, :0], "z": X[:, :, 1:]}, axis=-1), np.concatenate([X, X[:, :, 1:]], -1))
    assert refused("Concat", {"x": X, "y": X[:1]}, axis=1) == "E1016"
    for found, wanted in zip(run("Split", {"x": X}, outputs=3, axis=2, sizes=[1, 0, 3]), np.split(X, [1, 1], 2)):
        equal(found, wanted)
    assert [o.shape[2] for o in run("Split", {"x": X}, outputs=3, axis=2, parts=3)] == [2, 2, 0]
    assert refused("Split", {"x": X}, outputs=2, axis=2, sizes=[1, 2]) == "E1017"


def test_triangles_and_indices() -> None:
    for upper in (True, False):
        for k in (-5, -1, 0, 2, 9):
            equal(run("Trilu", {"x": X}, upper=upper, k=k), (np.triu if upper else np.tril)(X, k))
    equal(run("Elementwise", {"x": X}, fn="identity", symbolic=True), X)


# --- reductions

REDUCED = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "var": np.var,
    "std": np.std,
    "l1": lambda x, a: np.abs(x).sum(a),
    "l2": lambda x, a: np.sqrt((x * x).sum(a)),
    "sum_square": lambda x, a: (x * x).sum(a),
    "log_sum": lambda x, a: np.log(x.sum(a)),
    "log_sum_exp": lambda x, a: np.log(np.exp(x).sum(a)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
@pytest.mark.parametrize("op", REDUCED)
def test_reductions(op: str, axes: Any, dtype: Any) -> None:
    x = floats(3, 4, 5, dtype=dtype) + (dtype(3) if op == "log_sum" else dtype(0))
    wanted = REDUCED[op](x.astype(np.float64), tuple(axes) if axes else None)
    close(run("Reduce", {"x": x}, op=op, axes=axes), wanted, 2e-5)
    kept = run("Reduce", {"x": x}, op=op, axes=axes, keepdims=True)
    assert kept.shape == np.sum(x, tuple(axes) if axes else None, keepdims=True).shape


def test_reductions_at_the_edges() -> None:
    half = np.full((4, 65504), 0.5, np.float16)
    equal(run("Reduce", {"x": half}, op="mean", axes=[1], out=("fp16", (4,))), np.full(4, 0.5))
    equal(run("Reduce", {"x": np.full(2048, 64, np.float16)}, op="sum"), np.float32(131072))
    equal(run("Reduce", {"x": np.full(3, -np.inf, np.float32)}, op="log_sum_exp"), np.float32(-np.inf))
    equal(run("Reduce", {"x": np.array([1e4, 1e4], np.float32)}, op="log_sum_exp"), np.float32(1e4 + math.log(2)))
    close(run("Reduce", {"x": np.array([1e4, 1e4 + 2], np.float32)}, op="var"), 1)
    x = np.array([[1, 3, 3], [5, 5, 2]], np.int32)
    equal(run("Reduce", {"x": x}, op="argmax", axes=[1]), [1, 0])
    equal(run("Reduce", {"x": x}, op="argmax", axes=[1], select_last_index=True), [2, 1])
    equal(run("Reduce", {"x": x}, op="argmin", axes=[0], keepdims=True), [[0, 0, 1]])
    equal(run("Reduce", {"x": x > 2}, op="any", axes=[1]), [True, True])
    equal(run("Reduce", {"x": x > 2}, op="all", axes=[1]), [False, False])
    close(run("Reduce", {"x": x}, op="mean", axes=[1]), x.mean(1))
    assert refused("Reduce", {"x": x}, op="any") == "E1002"
    assert refused("Reduce", {"x": x}, op="median") == "E0103"
    mean = run("Reduce", {"x": floats(3, 4)}, op="mean", symbolic=True)
    assert mean.shape == ()


def test_running_folds() -> None:
    equal(run("CumSum", {"x": X}, axis=1), np.cumsum(X, 1))
    equal(run("CumSum", {"x": X}, axis=-1, reverse=True), np.cumsum(X[..., ::-1], -1)[..., ::-1])
    equal(run("CumSum", {"x": X}, axis=0, exclusive=True), np.cumsum(X, 0) - X)
    equal(run("CumProd", {"x": X[0, :, :2] + 1}, axis=0), np.cumprod(X[0, :, :2] + 1, 0))
    equal(run("CumMax", {"x": -X}, axis=2), np.maximum.accumulate(-X, 2))


# --- normalisations


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int, dtype: Any) -> None:
    x = floats(3, 4, 5, dtype=dtype) * dtype(5)
    wanted = _softmax(x.astype(np.float64), axis)
    given = run("Softmax", {"x": x}, axis=axis)
    assert given.dtype == dtype
    close(given, wanted, 1e-3 if dtype is np.float16 else 1e-6)
    close(run("LogSoftmax", {"x": x}, axis=axis), np.log(wanted), 5e-3 if dtype is np.float16 else 1e-5)


def test_softmax_at_the_edges() -> None:
    assert np.isnan(run("Softmax", {"x": np.full((1, 3), -np.inf, np.float32)})).all()
    close(run("Softmax", {"x": np.array([1e4, 1e4, -np.inf], np.float32)}), [0.5, 0.5, 0])


def _normed(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_normalisations(dtype: Any) -> None:
    tolerance = 4e-3 if dtype is np.float16 else 1e-5
    x, c = floats(2, 6, 3, 4, dtype=dtype), floats(6, dtype=dtype)
    wide, k = x.astype(np.float64), c.astype(np.float64)[:, None, None]
    s, t = floats(3, 4, dtype=dtype), floats(3, 4, dtype=dtype)
    y, mean, rstd = run("LayerNorm", {"x": x, "s": s, "t": t}, outputs=3, axis=2, eps=1e-3)
    assert y.dtype == dtype and mean.dtype == np.float32
    close(y, _normed(wide, (2, 3), 1e-3) * s.astype(np.float64) + t.astype(np.float64), tolerance)
    close(mean, wide.mean((2, 3), keepdims=True), tolerance)
    close(rstd, 1 / np.sqrt(wide.var((2, 3), keepdims=True) + 1e-3), tolerance)
    close(
        run("RMSNorm", {"x": x, "s": s[0]}),
        wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * s[0].astype(np.float64),
        tolerance,
    )
    grouped = _normed(wide.reshape(2, 3, 2, 3, 4), (2, 3, 4), 1e-5).reshape(wide.shape)
    close(run("GroupNorm", {"x": x, "s": c, "t": c}, groups=3), grouped * k + k, tolerance)
    close(run("InstanceNorm", {"x": x, "s": c, "t": c}), _normed(wide, (2, 3), 1e-5) * k + k, tolerance)
    arrays = {"x": x, "s": c, "t": c, "m": c, "v": np.abs(c)}
    close(run("BatchNorm", arrays), (wide - k) / np.sqrt(np.abs(k) + 1e-5) * k + k, tolerance * 4)
    close(run("LpNorm", {"x": x}, axis=1), wide / np.sqrt((wide**2).sum(1, keepdims=True)), tolerance)
    assert refused("GroupNorm", {"x": x}, groups=4) == "E1018"
    assert refused("BatchNorm", {**arrays, "m": c[:5]}) == "E1304"
    assert refused("LayerNorm", {"x": x, "s": c}) == "E1001"
