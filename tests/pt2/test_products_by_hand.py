"""Products of torch in archives written by hand, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .by_hand import FLOAT, LONG, archive, model, node
from .test_by_hand import played

ENDS = np.array([2, 2, 5, 6])  # of four groups, of which one has nothing; two of eight belong to none


def played_on(tmp_path: Path, nodes: list[Any], wanted: np.ndarray, **given: np.ndarray) -> np.ndarray:
    kinds = {n: (LONG if a.dtype == np.int64 else FLOAT, [*a.shape]) for n, a in given.items()}
    net = model(kinds, nodes, {"y": (FLOAT, [*wanted.shape])})
    (found,) = played(archive(net, {}), tmp_path, *given.values())
    return found


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("form", ["rows", "columns", "sums"])
def test_groups_have_matrices_of_their_own(tmp_path: Path, form: str) -> None:
    x = normal(8, 5) if form == "rows" else normal(4, 3, 5) if form == "columns" else normal(3, 8)
    w = normal(4, 5, 6) if form == "rows" else normal(5, 8) if form == "columns" else normal(8, 6)
    wanted = np.zeros({"rows": (8, 6), "columns": (3, 8), "sums": (4, 3, 6)}[form], "f4")
    for group, (first, last) in enumerate(zip([0, *ENDS[:-1]], ENDS)):
        if form == "rows":
            wanted[first:last] = x[first:last] @ w[group]
        elif form == "columns":
            wanted[:, first:last] = x[group] @ w[:, first:last]
        else:
            wanted[group] = x[:, first:last] @ w[first:last]
    nodes = [node("_grouped_mm.default", ["y"], self="x", mat2="w", offs="ends")]
    found = played_on(tmp_path, nodes, wanted, x=x, w=w, ends=ENDS)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    if form == "rows":
        own = [node("torch.ops.transformers.grouped_mm_fallback.default", ["y"], input="x", weight="w", offs="ends")]
        assert np.array_equal(played_on(tmp_path, own, wanted, x=x, w=w, ends=ENDS), found)


def test_a_batch_of_matrices_without_groups(tmp_path: Path) -> None:
    x, w = normal(4, 3, 5), normal(4, 5, 6)
    nodes = [node("_grouped_mm.default", ["y"], self="x", mat2="w")]
    np.testing.assert_allclose(played_on(tmp_path, nodes, x @ w, x=x, w=w), x @ w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "names"), [("addbmm", ("batch1", "batch2")), ("addr", ("vec1", "vec2"))])
def test_a_product_that_is_added(tmp_path: Path, op: str, names: tuple[str, str]) -> None:
    a, b = (normal(3, 4, 5), normal(3, 5, 6)) if op == "addbmm" else (normal(4), normal(6))
    bias = normal(4, 6)
    wanted = 0.5 * bias + 2 * ((a @ b).sum(0) if op == "addbmm" else np.outer(a, b))
    nodes = [node(f"{op}.default", ["y"], self="c", **dict(zip(names, "ab")), beta=0.5, alpha=2.0)]
    np.testing.assert_allclose(played_on(tmp_path, nodes, wanted, c=bias, a=a, b=b), wanted, rtol=1e-5, atol=1e-5)
