"""Folds write their results in the order of what moves them, so that nothing is moved afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models import bert
from tests.models.counts import regions_of
from tinyir.front.json import read
from tinyir.ir.body import Read, Reduce, walk
from tinyir.ir.scope import has_floor

from .stages import Stages, graph

Op = tuple[str, list[Any], str, dict[str, Any]]


@pytest.mark.parametrize(
    "shape, ops, index",
    [
        ([6, 32], [("Reshape", ["m"], "y", {"shape": [6, 32]})], "i0, 8*i1 + i2"),
        (
            [4, 8, 6],
            [("Transpose", ["m"], "y", {"perm": [1, 2, 0]})],
            "i0, i1, i2",
        ),  # the axes are named as they are written
        ([6, 2, 2, 8], [("Reshape", ["m"], "y", {"shape": [6, 2, 2, 8]})], "i0, floor(i1/2), i1 - 2*floor(i1/2), i2"),
        (
            [32, 6],
            [("Reshape", ["m"], "s", {"shape": [6, 32]}), ("Transpose", ["s"], "y", {"perm": [1, 0]})],
            "8*i1 + i2, i0",
        ),
    ],
)
def test_a_product_is_written_where_it_is_moved(shape: list[int], ops: list[Op], index: str) -> None:
    stages = Stages(
        graph(
            {"x": ("fp32", [6, 4, 16]), "w": ("fp32", [16, 8])},
            {"y": ("fp32", shape)},
            ("MatMul", ["x", "w"], "m", {}),
            *ops,
        )
    )
    (one,) = stages.region.program.regions
    assert ", ".join(map(str, one.yields[0].index)) == index
    numbers = np.random.default_rng(0)
    arrays = {
        "x": numbers.integers(-4, 5, (6, 4, 16)).astype(np.float32),
        "w": numbers.integers(-4, 5, (16, 8)).astype(np.float32),
    }
    wanted = arrays["x"] @ arrays["w"]
    for op, _, _, attrs in ops:
        wanted = wanted.reshape(attrs["shape"]) if op == "Reshape" else wanted.transpose(attrs["perm"])
    stages.assert_gives(arrays, {"y": wanted})


def test_what_is_not_only_moved_is_read_again() -> None:
    """A part of it is not all of it, so that the cut is a kernel of its own."""
    text = graph(
        {"x": ("fp32", [6, 16]), "w": ("fp32", [16, 8])},
        {"y": ("fp32", [6, 4])},
        ("MatMul", ["x", "w"], "m", {}),
        ("Slice", ["m"], "y", {"starts": [2], "ends": [6], "axes": [1]}),
    )
    stages = Stages(text)
    assert len(stages.region.program.regions) == 2
    arrays = {"x": np.eye(6, 16, dtype=np.float32), "w": np.arange(128, dtype=np.float32).reshape(16, 8)}
    stages.assert_gives(arrays, {"y": arrays["w"][:6, 2:6]})


def test_the_projection_after_attention_reads_rows() -> None:
    """Attention writes its heads side by side, so that no operand of a contraction is found by a division."""
    program = regions_of(read(bert(layers=1).text)).program
    assert "joined" in {t.name.rsplit(".", 1)[-1] for r in program.regions for t in r.outputs}
    folds = [n for r in program.regions for v in r.lets for n in walk(v.expr) if isinstance(n, Reduce)]
    assert not any(has_floor(e) for f in folds for n in walk(f) if isinstance(n, Read) for e in n.index)


def test_what_follows_a_movement_is_done_where_it_is_written() -> None:
    """A grouped convolution with its norm, activation and residual: the groups are an axis of it, and none of what
    follows."""
    vector, image = ("fp32", [8]), ("fp32", [2, 8, 5, 5])
    text = graph(
        {"x": image, "w": ("fp32", [8, 2, 3, 3]), "g": vector, "b": vector, "m": vector, "v": vector},
        {"y": image},
        ("Conv", ["x", "w"], "c", {"stride": [1], "pad": [1], "groups": 4}),
        ("BatchNorm", ["c", "g", "b", "m", "v"], "n", {}),
        ("Elementwise", ["n", "x"], "a", {"fn": "add"}),
        ("Elementwise", ["a"], "y", {"fn": "relu"}),
    )
    stages = Stages(text)
    (one,) = stages.region.program.regions
    assert len(one.lets) == 2 and ", ".join(map(str, one.yields[0].index)) == "i0, 2*i1 + i2, i3, i4"
    numbers = np.random.default_rng(0)
    arrays = {
        t.name: numbers.uniform(0.5, 1.5, [d.constant for d in t.type.shape]).astype(np.float32)
        for t in stages.region.model.inputs
    }
    played = dict(stages.outputs(arrays))
    np.testing.assert_allclose(played["region"]["y"], played["tiny"]["y"], rtol=1e-5)


def test_a_group_norm_is_one_kernel() -> None:
    image = ("fp32", [2, 12, 4, 4])
    stages = Stages(
        graph(
            {"x": image, "g": ("fp32", [12]), "b": ("fp32", [12])},
            {"y": image},
            ("GroupNorm", ["x", "g", "b"], "y", {"groups": 3}),
        )
    )
    assert len(stages.region.program.regions) == 1
    numbers = np.random.default_rng(0)
    arrays = {
        t.name: numbers.standard_normal([d.constant for d in t.type.shape]).astype(np.float32)
        for t in stages.region.model.inputs
    }
    played = dict(stages.outputs(arrays))
    np.testing.assert_allclose(played["region"]["y"], played["tiny"]["y"], rtol=1e-4, atol=1e-5)
