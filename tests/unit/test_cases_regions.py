"""Reports about other compilers, restated for programs of regions: fusion, reductions, NaN and neutral elements,
fan-out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import region
from tinyir.ir.accumulate import neutral_of
from tinyir.ir.body import Reduce, walk
from tinyir.lower import lower_to
from tinyir.play.region import play, play_region

from .effort import counted
from .stages import Stages, graph
from .test_cases_scale import diamonds

# --- A2: the least of integers started from -1, the unsigned greatest (onnx-mlir 1270)


@pytest.mark.parametrize("kind, start", [("min", 2**31 - 1), ("max", -(2**31))])
def test_integers_fold_from_the_end_of_their_range(kind: str, start: int) -> None:
    stages = Stages(
        graph(
            {"x": ("i32", [4, 33])},
            {"y": ("i32", [4])},
            ("Reduce", ["x"], "y", {"op": kind, "axes": [1], "keepdims": False}),
        )
    )
    rows = np.add.outer(np.arange(4), np.arange(33)).astype(np.int32)
    rows[3] = start
    (fold,) = [n for r in stages.region.program.regions for v in r.lets for n in walk(v.expr) if isinstance(n, Reduce)]
    assert neutral_of(fold.op, fold.dtype).value == start and fold.init is None
    wanted = [0, 1, 2, start] if kind == "min" else [32, 33, 34, start]
    stages.assert_gives({"x": rows}, {"y": np.array(wanted, np.int32)})


# --- A5: making an intermediate an output changed the other output (hidet 380)

X57 = np.array([[(-1) ** (i + j) * (7 * i + j) for j in range(7)] for i in range(5)], np.int32)


@pytest.mark.parametrize("outputs", [["B"], ["A", "B"], ["A", "B", "A2"]])
def test_an_intermediate_that_is_an_output_too(outputs: list[str]) -> None:
    shapes = {"A": ("i32", [5, 7]), "B": ("i32", [35]), "A2": ("i32", [5, 7])}
    ops: list[tuple[str, list[Any], str, dict[str, Any]]] = [
        ("Elementwise", ["x"], "A", {"fn": "abs"}),
        ("Reshape", ["A"], "B", {"shape": [35]}),
    ]
    if "A2" in outputs:
        ops.append(("Elementwise", ["x"], "A2", {"fn": "abs"}))
    stages = Stages(graph({"x": ("i32", [5, 7])}, {name: shapes[name] for name in outputs}, *ops))
    stages.assert_gives({"x": X57}, {name: np.arange(35, dtype=np.int32).reshape(shapes[name][1]) for name in outputs})
    written = [y.output for r in stages.region.program.regions for y in r.yields]
    assert sorted(written) == sorted(outputs)  # each once, and nothing beside them


# --- A6: the sum of a mean of fp16, or its count, did not fit fp16 (pytorch 12115)


@pytest.mark.parametrize("shape, value, wanted", [([2048], 64, 64), ([65520], 1, 1), ([4, 65504], 0.5, [0.5] * 4)])
def test_a_mean_of_halves_is_summed_in_single(shape: list[int], value: float, wanted: Any) -> None:
    axis = len(shape) - 1
    stages = Stages(
        graph(
            {"x": ("fp16", shape)},
            {"y": ("fp16", shape[:-1])},
            ("Reduce", ["x"], "y", {"op": "mean", "axes": [axis], "keepdims": False}),
        )
    )
    folds = [n for r in stages.region.program.regions for v in r.lets for n in walk(v.expr) if isinstance(n, Reduce)]
    assert [f.dtype.name for f in folds] == ["fp32"]
    assert len(stages.region.program.regions) == 1
    stages.assert_gives({"x": np.full(shape, value, np.float16)}, {"y": np.array(wanted, np.float16)})


# --- A7: MAX, MIN, RELU and CLIP lost a NaN that is the first operand (tvm 19579)


def test_nan_goes_through_what_is_fused() -> None:
    nan = float("nan")
    ops = [
        ("Elementwise", ["a", "b"], "ab", {"fn": "max"}),
        ("Elementwise", ["a", "b"], "low", {"fn": "min"}),
        ("Elementwise", ["b", "a"], "ba", {"fn": "max"}),
        ("Elementwise", ["a"], "r", {"fn": "relu"}),
        ("Clip", ["b"], "c", {"min": 0, "max": 1}),
    ]
    stages = Stages(
        graph({n: ("fp32", [4]) for n in "ab"}, {n: ("fp32", [4]) for n in ("ab", "low", "ba", "r", "c")}, *ops)
    )
    a, b = np.array([nan, 1, nan, 0], np.float32), np.array([1, nan, nan, 0], np.float32)
    both = np.array([nan, nan, nan, 0], np.float32)
    stages.assert_gives(
        {"a": a, "b": b},
        {
            "ab": both,
            "low": both,
            "ba": both,
            "r": np.array([nan, 1, nan, 0], np.float32),
            "c": np.array([1, nan, nan, 0], np.float32),
        },
    )
    assert len(stages.region.program.regions) == 1


@pytest.mark.parametrize("kind", ["max", "min"])
def test_a_fold_keeps_nan_wherever_it_stands(kind: str) -> None:
    stages = Stages(
        graph(
            {"x": ("fp32", [5, 5])},
            {"y": ("fp32", [5])},
            ("Reduce", ["x"], "y", {"op": kind, "axes": [1], "keepdims": False}),
        )
    )
    x = np.where(np.eye(5, dtype=bool), np.nan, 1).astype(np.float32)
    stages.assert_gives({"x": x}, {"y": np.full(5, np.nan, np.float32)})


# --- A9: products with an empty inner dimension (onnxruntime 21483)


@pytest.mark.parametrize("m, k, n", [(2, 0, 3), (0, 4, 3), (2, 4, 0)])
def test_an_empty_product_is_written(m: int, k: int, n: int) -> None:
    stages = Stages(
        graph({"a": ("fp32", [m, k]), "b": ("fp32", [k, n])}, {"y": ("fp32", [m, n])}, ("MatMul", ["a", "b"], "y", {}))
    )
    arrays = {"a": np.ones((m, k), np.float32), "b": np.ones((k, n), np.float32)}
    stages.assert_gives(arrays, {"y": np.full((m, n), k, np.float32)})
    (one,) = stages.region.program.regions
    written = {"y": np.full((m, n), np.nan, np.float32)}
    play_region(one, {}, arrays, written)
    np.testing.assert_array_equal(written["y"], np.full((m, n), k, np.float32))


def test_a_sum_over_nothing_and_a_broadcast_onto_nothing() -> None:
    ops = [
        ("Reduce", ["x"], "s", {"op": "sum", "axes": [1], "keepdims": False}),
        ("Elementwise", ["one", "none"], "z", {"fn": "add"}),
    ]
    stages = Stages(
        graph(
            {"x": ("fp32", [2, 0]), "one": ("fp32", [1]), "none": ("fp32", [0])},
            {"s": ("fp32", [2]), "z": ("fp32", [0])},
            *ops,
        )
    )
    arrays = {"x": np.zeros((2, 0), np.float32), "one": np.ones(1, np.float32), "none": np.zeros(0, np.float32)}
    stages.assert_gives(arrays, {"s": np.zeros(2, np.float32), "z": np.zeros(0, np.float32)})


# --- A20: p(i+1) = 0.5*p(i) + 0.5*p(i) doubled the work at each step (tinygrad 2259)


def program_of(count: int) -> region.Module:
    """The program of this number of diamonds."""
    module = read(diamonds(count))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


def calls(count: int) -> dict[str, int]:
    """How many functions each stage calls for this number of diamonds."""
    found = {}
    module: Any = diamonds(count)
    for stage in ("front", "index", "poly", "region", "plan", "gpu", "cu"):
        found[stage], module = counted(read, module) if stage == "front" else counted(lower_to, stage, module, "sm90")
    return found


def test_a_chain_of_diamonds_takes_work_for_its_length() -> None:
    """The report allows ten times the time for ten times the diamonds. On an idle machine they took 9.7 times as long
    up to region text."""
    calls(20), calls(200)  # what is kept between calls is there now
    small, large = calls(20), calls(200)
    assert sum(large.values()) < 10 * sum(small.values())
    assert all(large[stage] < 10.2 * small[stage] for stage in small), {
        stage: large[stage] / small[stage] for stage in small
    }


def test_a_chain_of_diamonds_gives_what_it_was_given() -> None:
    x = np.random.default_rng(0).standard_normal(16).astype(np.float32)
    for count in (10, 40, 200):
        module = program_of(count)
        np.testing.assert_array_equal(play(module, {"p0": x})[f"p{count}"], x)
        assert len(module.program.regions) == -(
            -count // 64
        )  # both sides of a diamond compute the same, so that it is two values; a kernel computes 128


@pytest.mark.parametrize("count", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_thousands_of_diamonds_are_regions(count: int) -> None:
    """Nothing recurses along the graph, which is deeper than Python's stack."""
    assert 2 * count > sys.getrecursionlimit()
    module = read(diamonds(count))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert [d for d in region.check(module) if d.is_error] == []
    assert region.parse(region.show(module)) == module
