"""Unfold and Fold against NumPy loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .test_front_ops import close, run


def unfolded(x: np.ndarray, kernel: list[int], stride: list[int], dilation: list[int]) -> np.ndarray:
    rank = len(kernel)
    sizes = x.shape[-rank:]
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(sizes, kernel, stride, dilation)]
    found = np.zeros((*x.shape[:-rank], *kernel, *out), x.dtype)
    for k in np.ndindex(*kernel):
        taken = tuple(slice(i * d, i * d + (o - 1) * s + 1, s) for i, o, s, d in zip(k, out, stride, dilation))
        found[(..., *k, *(slice(None),) * rank)] = x[(..., *taken)]
    return found


def folded(x: np.ndarray, size: list[int], stride: list[int], dilation: list[int]) -> np.ndarray:
    rank = len(size)
    kernel, out = x.shape[-2 * rank : -rank], x.shape[-rank:]
    found = np.zeros((*x.shape[: -2 * rank], *size), np.float64)
    for k in np.ndindex(*kernel):
        taken = tuple(slice(i * d, i * d + (o - 1) * s + 1, s) for i, o, s, d in zip(k, out, stride, dilation))
        found[(..., *taken)] += x[(..., *k, *(slice(None),) * rank)]
    return found


axis = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 4))


@settings(max_examples=60, deadline=None)
@given(st.lists(axis, min_size=1, max_size=2), st.integers(0, 2))
def test_windows_there_and_back(axes: list[tuple[int, int, int, int]], lead: int) -> None:
    kernel, stride, dilation = ([a[i] for a in axes] for i in range(3))
    sizes = [(k - 1) * d + 1 + more for k, s, d, more in axes]
    x = np.random.default_rng(1).integers(-4, 5, (*(2, 3)[:lead], *sizes)).astype(np.float32)
    seen = run("Unfold", {"x": x}, kernel=kernel, stride=stride, dilation=dilation)
    np.testing.assert_array_equal(seen, unfolded(x, kernel, stride, dilation))
    back = run("Fold", {"x": seen}, size=sizes, stride=stride, dilation=dilation)
    close(back, folded(seen, sizes, stride, dilation))


@pytest.mark.parametrize(("code", "op", "shape", "attrs"), [
    ("E1304", "Fold", (2, 5), {"size": [5]}),
    ("E1012", "Fold", (2,), {"size": [5]}),
    ("E1012", "Unfold", (2,), {"kernel": [1, 1]}),
    ("E1019", "Unfold", (2,), {"kernel": [4]}),
    ("E1101", "Unfold", (4, 4), {"kernel": [2, 2], "stride": [1, 1, 1]}),
])  # fmt: skip
def test_what_does_not_fit_is_refused(code: str, op: str, shape: tuple[int, ...], attrs: dict) -> None:
    from tinyir.kit.diag import Refused

    with pytest.raises(Refused) as caught:
        run(op, {"x": np.zeros(shape, np.float32)}, out=("fp32", (1,)), **attrs)
    assert [d.code for d in caught.value.diags] == [code]
