"""Ops of onnxruntime on quantised numbers, against onnxruntime: its kernels multiply by the quotient of two scales, so
that a number may be one step away where ours is next to the middle of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from .test_beyond import MICROSOFT, draw, node_model  # noqa: E402


def drawn(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Integers of the whole range of a dtype."""
    limits = np.iinfo(dtype)
    return np.random.default_rng([seed, *shape]).integers(limits.min, limits.max + 1, shape).astype(dtype)


def scaled(name: str, scale: Any, zero: Any, dtype: str) -> dict[str, np.ndarray]:
    """The scale and the zero of a tensor as they are stored."""
    return {f"{name}_scale": np.array(scale, np.float32), f"{name}_zero": np.array(zero, dtype)}


def check(
    op: str,
    inputs: dict[str, np.ndarray],
    weights: dict[str, np.ndarray],
    order: str,
    gives: str,
    steps: int = 1,
    **attrs: Any,
) -> np.ndarray:
    """What a node gives, at most `steps` from onnxruntime's, and few are apart; floats within their rounding."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(gives))
    names = tuple("" if n == "-" else n for n in order.split())
    model = node_model(op, MICROSOFT, inputs, weights, order=names, element=element, **attrs).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    (wanted,) = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, inputs)
    (found,) = play(front.read(to_json(model)), inputs).values()
    assert found.shape == wanted.shape and found.dtype == wanted.dtype == np.dtype(gives)
    if gives == "float32":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        return found
    apart = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
    assert apart.max() <= steps and np.mean(apart > 0) < 0.04
    assert len(np.unique(found)) > 1
    return found


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("has_zero", [True, False])
def test_two_that_broadcast(op: str, dtype: str, has_zero: bool) -> None:
    middle = 100 if dtype == "uint8" else -20
    weights = {**scaled("a", 0.02, middle, dtype), **scaled("b", 0.05, 7, dtype), **scaled("c", 0.07, 90, dtype)}
    order = "a a_scale a_zero b b_scale b_zero c_scale c_zero"
    if not has_zero:
        weights, order = {k: w for k, w in weights.items() if k != "c_zero"}, order.removesuffix(" c_zero")
    check(op, {"a": drawn(dtype, 2, 3, 16), "b": drawn(dtype, 3, 16)}, weights, order, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "scale", "attrs"),
    [
        ("QLinearSigmoid", 1 / 256, {}),
        ("QLinearLeakyRelu", 0.03, {"alpha": 0.2}),
        ("QLinearSoftmax", 1 / 256, {"opset": 13, "axis": 1}),
        ("QLinearSoftmax", 1 / 256, {"opset": 11, "axis": 1}),
        ("QLinearGlobalAveragePool", 0.0213, {"channels_last": 0}),
        ("QLinearGlobalAveragePool", 0.0213, {"channels_last": 1}),
        ("QLinearAveragePool", 0.0213, {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1]}),
        ("QLinearAveragePool", 0.0213, {"kernel_shape": [2, 2], "channels_last": 1}),
    ],
)
def test_one_of_an_image(op: str, scale: float, attrs: dict[str, Any], dtype: str) -> None:
    middle = 120 if dtype == "uint8" else 3
    weights = {**scaled("x", 0.0317, middle, dtype), **scaled("y", scale, 0 if scale == 1 / 256 else middle, dtype)}
    if scale == 1 / 256 and dtype == "int8":
        weights["y_zero"] = np.array(-128, dtype)
    x = drawn(dtype, 2, 5, 6, 7)
    if op == "QLinearSoftmax":
        x = (x // 8).astype(dtype)
    check(op, {"x": x}, weights, "x x_scale x_zero y_scale y_zero", dtype, **attrs)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "strides", "pads"),
    [
        ([3, 3], [3, 2], [0, 2, 2, 1]),  # the last windows hang over the padding
        ([2, 2], [3, 3], [0, 1, 1, 1]),  # one would begin behind the image
        ([3, 2], [2, 2], [0, 0, 0, 0]),
    ],
)
def test_padding_is_counted_with_what_hangs_over_it(
    kernel: list[int], strides: list[int], pads: list[int], last: int
) -> None:
    for height, width in ((5, 6), (6, 7), (7, 5)):
        x = drawn("uint8", 2, height, width, 3) if last else drawn("uint8", 2, 3, height, width)
        weights = {**scaled("x", 1.0, 0, "uint8"), **scaled("y", 1.0, 0, "uint8")}
        how = {"kernel_shape": kernel, "strides": strides, "pads": pads, "channels_last": last}
        order = "x x_scale x_zero y_scale y_zero"
        check("QLinearAveragePool", {"x": x}, weights, order, "uint8", ceil_mode=1, count_include_pad=1, **how)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_several_are_joined_or_chosen_from(dtype: str) -> None:
    weights = {**scaled("a", 0.02, 3, dtype), **scaled("b", 0.05, 7, dtype), **scaled("c", 0.04, 9, dtype)}
    given = {"a": drawn(dtype, 2, 3, 4), "b": drawn(dtype, 2, 5, 4)}
    check("QLinearConcat", given, weights, "c_scale c_zero a a_scale a_zero b b_scale b_zero", dtype, axis=1)
    chosen = {"k": drawn("uint8", 2, 3, 4) > 99, "a": given["a"], "b": given["b"][:, :3]}
    check("QLinearWhere", chosen, weights, "k a a_scale a_zero b b_scale b_zero c_scale c_zero", dtype)


@pytest.mark.parametrize("flags", [(0, 0), (1, 1)])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("is_float", [False, True])
def test_products_with_a_bias(flags: tuple[int, int], each: bool, is_float: bool) -> None:
    a, b = drawn("uint8", 5, 16), drawn("int8", 16, 6) // 2
    a, b = (m.T.copy() if turned else m for m, turned in zip((a, b), flags))
    one = np.full(6, 0.01) * np.arange(1, 7) if each else 0.01
    weights = {
        **scaled("a", 0.02, 130, "uint8"),
        "b": b,
        **scaled("b", one, np.zeros(6) if each else 3, "int8"),
        "c": drawn("int16", 6).astype(np.int32),
        **({} if is_float else scaled("y", 0.7, 128, "uint8")),
    }
    order = "a a_scale a_zero b b_scale b_zero c" + ("" if is_float else " y_scale y_zero")
    gives = "float32" if is_float else "uint8"
    check("QGemm", {"a": a}, weights, order, gives, transA=flags[0], transB=flags[1], alpha=0.5)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_products_that_give_floats(dtype: str) -> None:
    b = (drawn(dtype, 16, 6) // 2).astype(dtype)
    weights = {"b": b, **scaled("b", np.arange(1, 7) / 100, np.full(6, 3), dtype), "bias": draw(6)}
    more = {**weights, **scaled("a", 0.02, 130, "uint8")}
    order = "a b a_scale b_scale a_zero b_zero bias"
    check("MatMulIntegerToFloat", {"a": drawn("uint8", 2, 5, 16)}, more, order, "float32")
    check("DynamicQuantizeMatMul", {"a": draw(5, 16)}, weights, "a b b_scale b_zero bias", "float32")


@pytest.mark.parametrize("channels_last", [0, 1])
def test_convolutions_and_words_of_the_standard_in_this_domain(channels_last: int) -> None:
    x = drawn("uint8", 1, 3, 6, 6)
    weights = {
        **scaled("x", 0.02, 128, "uint8"),
        "w": drawn("int8", 4, 3, 3, 3) // 2,
        **scaled("w", np.arange(1, 5) / 100, np.zeros(4), "int8"),
        **scaled("y", 0.3, 120, "uint8"),
        "b": drawn("int16", 4).astype(np.int32),
    }
    x = x.transpose(0, 2, 3, 1).copy() if channels_last else x
    order = "x x_scale x_zero w w_scale w_zero y_scale y_zero b"
    check("QLinearConv", {"x": x}, weights, order, "uint8", channels_last=channels_last, pads=[1, 1, 1, 1])
    one = scaled("x", 0.02, 128, "uint8")
    check("DequantizeLinear", {"x": x}, one, "x x_scale x_zero", "float32")
    check("QuantizeLinear", {"r": draw(4, 8)}, one, "r x_scale x_zero", "uint8")
