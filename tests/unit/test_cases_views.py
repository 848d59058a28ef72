"""Reports about other compilers, restated: views that lost their mask, slices one off, sizes kept from the first run,
floors toward zero."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.ir.read import read_expr

from ..commands import run_line
from .stages import Stages, graph, needs_host_compiler

# --- A1: a padded axis split and merged again lost its mask and kept only a shifted offset (tinygrad 2844)


def test_a_padded_axis_split_and_merged() -> None:
    text = graph(
        {"x": ("i32", [2, 5, 5])},
        {"y": ("i32", [4, 5, 5])},
        ("Pad", ["x"], "p", {"pads": [2, 0, 0, 0, 0, 0]}),
        ("Reshape", ["p"], "s", {"shape": [2, 2, 5, 5]}),
        ("Reshape", ["s"], "y", {"shape": [4, 5, 5]}),
    )
    x = np.arange(50, dtype=np.int32).reshape(2, 5, 5)
    wanted = np.concatenate([np.zeros((2, 5, 5), np.int32), x])
    assert (
        wanted[:2].sum() == 0 and list(wanted[2, 0, :3]) == [0, 1, 2] and wanted[3, 4, 4] == 49 and wanted.sum() == 1225
    )
    Stages(text).assert_gives({"x": x}, {"y": wanted})


def test_a_padded_last_axis_split_and_merged() -> None:
    text = graph(
        {"x": ("i32", [1, 2, 2])},
        {"y": ("i32", [1, 2, 6])},
        ("Pad", ["x"], "p", {"pads": [0, 0, 2, 0, 0, 2]}),
        ("Reshape", ["p"], "s", {"shape": [1, 2, 3, 2]}),
        ("Reshape", ["s"], "y", {"shape": [1, 2, 6]}),
    )
    Stages(text).assert_gives(
        {"x": np.arange(1, 5, dtype=np.int32).reshape(1, 2, 2)},
        {"y": np.array([[[0, 0, 1, 2, 0, 0], [0, 0, 3, 4, 0, 0]]], np.int32)},
    )


LONG = graph(
    {"x": ("i32", [5, 4, 2])},
    {"y": ("i32", [7, 6, 5, 1])},
    ("Transpose", ["x"], "a", {"perm": [1, 2, 0]}),
    ("Pad", ["a"], "b", {"pads": [0, 2, 0, 0, 2, 0]}),
    ("Reshape", ["b"], "c", {"shape": [4, 6, 5, 1]}),
    ("Pad", ["c"], "d", {"pads": [1, 0, 0, 0, 2, 0, 0, 0]}),
    ("Reshape", ["d"], "e", {"shape": [7, 3, 2, 5, 1]}),
    ("Reshape", ["e"], "y", {"shape": [7, 6, 5, 1]}),
)


@pytest.mark.parametrize("is_simulated", [False, pytest.param(True, marks=[needs_host_compiler, pytest.mark.slow])])
def test_a_long_chain_of_pads_and_reshapes(is_simulated: bool) -> None:
    x = np.arange(1, 41, dtype=np.int32).reshape(5, 4, 2)
    wanted = np.pad(x.transpose(1, 2, 0), [(0, 0), (2, 2), (0, 0)]).reshape(4, 6, 5, 1)
    wanted = np.pad(wanted, [(1, 2), (0, 0), (0, 0), (0, 0)])
    assert wanted.sum() == 820 and list(wanted[1, 2, :, 0]) == [1, 9, 17, 25, 33] and not wanted[[0, 5, 6]].any()
    Stages(LONG).assert_gives({"x": x}, {"y": wanted}, is_simulated)


# --- A3: a slice with a negative step was one off, or aborted (iree 24584)

VECTOR = [
    (10, (9, 0, -1), [9, 8, 7, 6, 5, 4, 3, 2, 1]),
    (10, (7, 0, -1), [7, 6, 5, 4, 3, 2, 1]),
    (10, (9, 2, -1), [9, 8, 7, 6, 5, 4, 3]),
    (10, (9, 0, -3), [9, 6, 3]),
    (10, (9, -(2**63) + 1, -1), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    (20, (19, 0, -3), [19, 16, 13, 10, 7, 4, 1]),
]


@pytest.mark.parametrize("size, cut, wanted", VECTOR, ids=str)
def test_a_slice_backwards(size: int, cut: tuple[int, int, int], wanted: list[int]) -> None:
    start, end, step = cut
    text = graph(
        {"x": ("fp32", [size])},
        {"y": ("fp32", [len(wanted)])},
        ("Slice", ["x"], "y", {"starts": [start], "ends": [end], "axes": [0], "steps": [step]}),
    )
    Stages(text).assert_gives({"x": np.arange(size, dtype=np.float32)}, {"y": np.array(wanted, np.float32)})


@pytest.mark.parametrize(
    "axis, cut, wanted",
    [(0, (2, 0, -1), [[8, 9, 10, 11], [4, 5, 6, 7]]), (1, (3, 0, -1), [[3, 2, 1], [7, 6, 5], [11, 10, 9]])],
)
def test_rows_and_columns_backwards(axis: int, cut: tuple[int, int, int], wanted: list[list[int]]) -> None:
    start, end, step = cut
    array = np.array(wanted, np.float32)
    text = graph(
        {"x": ("fp32", [3, 4])},
        {"y": ("fp32", list(array.shape))},
        ("Slice", ["x"], "y", {"starts": [start], "ends": [end], "axes": [axis], "steps": [step]}),
    )
    Stages(text).assert_gives({"x": np.arange(12, dtype=np.float32).reshape(3, 4)}, {"y": array})


@pytest.mark.parametrize("step", [-1, -2, -3, -7])
@pytest.mark.parametrize("start", [-11, -3, 0, 4, 9, 30])
def test_slices_backwards_are_numpys(start: int, step: int) -> None:
    for end in (-30, -5, 0, 3, 9):
        wanted = (
            np.arange(10, dtype=np.float32)[start:end:step]
            if end >= -10
            else np.arange(10, dtype=np.float32)[start::step]
        )
        text = graph(
            {"x": ("fp32", [10])},
            {"y": ("fp32", [len(wanted)])},
            ("Slice", ["x"], "y", {"starts": [start], "ends": [end], "axes": [0], "steps": [step]}),
        )
        Stages(text).assert_gives({"x": np.arange(10, dtype=np.float32)}, {"y": wanted})


# --- A4: compiled once for a symbolic size, the strides and output size of the first run were kept (tinygrad 11852)


@pytest.mark.parametrize("is_simulated", [False, pytest.param(True, marks=needs_host_compiler)])
def test_one_program_for_every_size(is_simulated: bool) -> None:
    text = graph(
        {"a": ("i32", [3, 1]), "like": ("i32", ["n"])},
        {"y": ("i32", ["3*n"])},
        ("Expand", ["a"], "e", {"shape": [3, "n"]}),
        ("Elementwise", ["e", 1], "s", {"fn": "add"}),
        ("Transpose", ["s"], "t", {"perm": [1, 0]}),
        ("Reshape", ["t"], "r", {"shape": ["3*n"]}),
        ("Elementwise", ["like", 0], "z", {"fn": "mul"}),
        ("Reduce", ["z"], "zero", {"op": "sum", "axes": [0]}),
        ("Elementwise", ["r", "zero"], "y", {"fn": "add"}),
        symbols={"n": [1, 10]},
        shape_sets={"default": {"n": 4}},
    )
    stages = Stages(text)
    for n in (1, 2, 3, 4, 2):
        stages.assert_gives(
            {"a": np.array([[1], [2], [3]], np.int32), "like": np.arange(n, dtype=np.int32)},
            {"y": np.array([2, 3, 4] * n, np.int32)},
            is_simulated,
        )


# --- A8: floors in index maps were rounded toward zero (triton 619)

FLOORED = """tinyir 1.0 tiny

model m
  in  x : i32[5]
  out y : i32[8]

  %y = VIEW(x) {index_map=[floor((i0 - 3)/2) + 2]} : i32[8]

outputs: %y
"""


@pytest.mark.parametrize("is_simulated", [False, pytest.param(True, marks=needs_host_compiler)])
def test_floors_in_maps_round_down(is_simulated: bool) -> None:
    Stages(FLOORED).assert_gives(
        {"x": np.array([0, 10, 20, 30, 40], np.int32)},
        {"y": np.array([0, 10, 10, 20, 20, 30, 30, 40], np.int32)},
        is_simulated,
    )


def test_ceiling_of_a_negative_quotient() -> None:
    assert read_expr("ceil(-36/5)").constant == -7
    assert (
        read_expr("ceil((a - 36)/5)").evaluate({"a": 0}) == -7
        and read_expr("floor((a - 36)/5)").evaluate({"a": 0}) == -8
    )


@pytest.mark.parametrize(
    "fn, wanted",
    [("div", [-3, -3, 3, 3]), ("floordiv", [-4, -4, 3, 3]), ("mod", [1, -1, 1, -1]), ("rem", [-1, 1, 1, -1])],
)
def test_integer_divisions(fn: str, wanted: list[int]) -> None:
    """Division truncates as ONNX's does, floordiv rounds down; mod takes the divisor's sign, rem the dividend's."""
    text = graph(
        {"a": ("i32", [4]), "b": ("i32", [4])}, {"y": ("i32", [4])}, ("Elementwise", ["a", "b"], "y", {"fn": fn})
    )
    Stages(text).assert_gives(
        {"a": np.array([-7, 7, 7, -7], np.int32), "b": np.array([2, -2, 2, -2], np.int32)},
        {"y": np.array(wanted, np.int32)},
    )


def test_a_copy_that_is_read_across_no_more_with_its_axes_merged_is_planned() -> None:
    """Channels and rows of images as steps of a recurrent network, written for a product alone."""
    text = b"""tinyir 1.0 region

model t
  in  x : fp32[2, 2, 10, 16]
  out y : fp32[10, 32, 2]

program t

region r
  in  x : fp32[2, 2, 10, 16]
  out y : fp32[10, 32, 2]
  for i0: 10, i1: 32, i2: 2
  yield y[i0, i1, i2] = x[i2, i1 - 2*floor(i1/2), i0, floor(i1/2)]
"""
    done = run_line("tiny-plan", text)
    assert done.code == 0, done.err
