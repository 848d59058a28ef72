"""ONNX models that other compilers got wrong or refused, each with its right answer, in tiny text and as regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tinyir import front  # noqa: E402
from tinyir.ir.pipeline import language_of  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play import book, region  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from .test_front_onnx import model, node, text  # noqa: E402

FAR = (1 << 63) - 1
PLAYERS = {"index": book.play, "region": region.play}


def run(m: Any, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    """What tiny text gives; the book and the regions give the same, and every text on the way holds."""
    module = front.read(text(m))
    found = play(module, arrays)
    for stage in ("tiny", "index", "poly", "region"):
        module = module if stage == "tiny" else lower_to(stage, module, "sm90")
        assert [f"{d.code} {d.at}" for d in language_of(stage).check(module) if d.is_error] == []
        if stage in PLAYERS:
            again = PLAYERS[stage](module, arrays)
            for name, array in found.items():
                assert again[name].shape == array.shape and again[name].dtype == array.dtype
                np.testing.assert_array_equal(again[name], array)
    return found


def test_constant_of_no_shape() -> None:
    assert run(model([node("ConstantOfShape", ["s"], ["z"])], {}, ["z"], {"s": np.zeros(0, np.int64)}))["z"].shape == ()
    five = node("ConstantOfShape", ["s"], ["c"], value=numpy_helper.from_array(np.int64([5])))
    m = model(
        [five, node("Add", ["x", "c"], ["z"])],
        {"x": (TensorProto.INT64, [3])},
        ["z"],
        {"s": np.zeros(0, np.int64)},
        gives=TensorProto.INT64,
    )
    np.testing.assert_array_equal(run(m, x=np.arange(3))["z"], [5, 6, 7])


@pytest.mark.parametrize(("shape", "wanted"), [((2, 0, 3), (2, 0, 3)), ((0, 2, 3), (0, 4, 3))])
def test_empty_constants_beside_an_input(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    m = model(
        [node("Concat", ["x", "c"], ["z"], axis=1)], {"x": list(shape)}, ["z"], {"c": np.zeros(shape, np.float32)}
    )
    assert run(m, x=np.zeros(shape, np.float32))["z"].shape == wanted


def test_empty_constants_alone_and_in_a_product() -> None:
    half = node("ConstantOfShape", ["s"], ["z"], value=numpy_helper.from_array(np.float16([0])))
    found = run(model([half], {}, ["z"], {"s": np.int64([2, 0, 3])}, gives=TensorProto.FLOAT16))["z"]
    assert found.shape == (2, 0, 3) and found.dtype == np.float16
    m = model([node("MatMul", ["x", "c"], ["z"])], {"x": [2, 0]}, ["z"], {"c": np.zeros((0, 3), np.float32)})
    np.testing.assert_array_equal(run(m, x=np.zeros((2, 0), np.float32))["z"], np.zeros((2, 3)))


@pytest.mark.parametrize(("trips", "condition"), [(0, None), (5, False)])
def test_a_loop_that_does_not_turn(trips: int, condition: bool | None) -> None:
    value, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    body = helper.make_graph(
        [node("Add", ["a", "a"], ["b"]), node("Mul", ["a", "x"], ["s"]), node("Identity", ["c"], ["d"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("a", kind, [2])],
        [value("d", TensorProto.BOOL, []), value("b", kind, [2]), value("s", kind, [2])],
    )
    weights = {"n": np.int64(trips), "go": np.array(bool(condition))}
    m = model(
        [node("Loop", ["n", "go" if condition is not None else "", "a0"], ["last", "rows"], body=body)],
        {"a0": [2], "x": [2]},
        ["last", "rows"],
        weights,
    )
    found = run(m, a0=np.float32([1, 2]), x=np.float32([3, 4]))
    np.testing.assert_array_equal(found["last"], [1, 2])
    assert found["rows"].shape == (0, 2)


def test_resize_of_opset_10_in_mode_linear() -> None:
    def resized(x: np.ndarray, *scales: float) -> np.ndarray:
        m = model(
            [node("Resize", ["x", "s"], ["y"], mode="linear")],
            {"x": list(x.shape)},
            ["y"],
            {"s": np.float32(scales)},
            opset=10,
        )
        return run(m, x=x)["y"]

    up = resized(np.float32([[[[1, 2], [3, 4]]]]), 1, 1, 2, 2)
    np.testing.assert_array_equal(up[0, 0], [[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]])
    np.testing.assert_allclose(
        resized(np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6), 1, 1, 1, 0.7)[0, 0, 0],
        np.arange(4) / 0.7,
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("start", "end", "step", "sizes"),
    [
        (2, 5, 1, (5, 7)),
        (-3, FAR, 1, (3, 4)),
        (-1, FAR, 1, (1, 4)),
        (1, FAR, 2, (1, 4, 5)),
        (FAR, -FAR, -2, (0, 1, 4, 5)),
    ],
)
def test_slices_of_a_symbolic_axis(start: int, end: int, step: int, sizes: tuple[int, ...]) -> None:
    weights = {"s": np.int64([start]), "e": np.int64([end]), "a": np.int64([0]), "t": np.int64([step])}
    m = model([node("Slice", ["x", "s", "e", "a", "t"], ["y"])], {"x": ["n", "m"]}, ["y"], weights)
    for n in sizes:
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(run(m, x=x)["y"], x[start:end:step] if step > 0 else x[::step])


def test_a_bert_s_positions_and_a_resize_with_a_symbolic_batch() -> None:
    """The whole is in test_front_onnx_sizes; here they are taken to regions."""
    table = np.arange(512 * 4, dtype=np.float32).reshape(1, 512, 4)
    nodes = [
        node("Shape", ["x"], ["shape"], start=1, end=2),
        node("Slice", ["table", "zero", "shape", "one"], ["p"]),
        node("Add", ["x", "p"], ["y"]),
    ]
    positions = model(nodes, {"x": [1, "L", 4]}, ["y"], {"table": table, "zero": np.int64([0]), "one": np.int64([1])})
    for length in (1, 7, 512):
        np.testing.assert_array_equal(run(positions, x=np.ones((1, length, 4), np.float32))["y"], 1 + table[:, :length])
    nodes = [
        node("Shape", ["x"], ["shape"], end=2),
        node("Concat", ["shape", "to"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    resize = model(nodes, {"x": ["B", 3, 14, 14]}, ["y"], {"to": np.int64([28, 28])})
    for batch in (1, 3):
        found = run(resize, x=np.ones((batch, 3, 14, 14), np.float32))["y"]
        np.testing.assert_allclose(found, np.ones((batch, 3, 28, 28)), rtol=1e-6)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_scatter_of_no_updates_gives_its_base(reduction: str, rank: int) -> None:
    d = np.arange(1.0, 1 + 4**rank, dtype=np.float32).reshape([4] * rank)
    nothing = (0, *d.shape[1:])
    m = model(
        [node("ScatterND", ["d", "i", "u"], ["y"], reduction=reduction)],
        {"d": list(d.shape), "i": (TensorProto.INT64, ["n", 1]), "u": ["n", *d.shape[1:]]},
        ["y"],
        opset=18,
    )
    np.testing.assert_array_equal(run(m, d=d, i=np.zeros((0, 1), np.int64), u=np.zeros(nothing, np.float32))["y"], d)
    each = model(
        [node("ScatterElements", ["d", "i", "u"], ["e"], reduction=reduction), node("Abs", ["e"], ["y"])],
        {"d": list(d.shape), "i": (TensorProto.INT64, list(nothing)), "u": list(nothing)},
        ["y"],
        opset=18,
    )
    np.testing.assert_array_equal(
        run(each, d=d, i=np.zeros(nothing, np.int64), u=np.zeros(nothing, np.float32))["y"], d
    )
