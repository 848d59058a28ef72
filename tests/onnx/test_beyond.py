"""Ops beyond the standard, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir.pipeline import STAGES  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

MICROSOFT, LEARNING = "com.microsoft", "ai.onnx.ml"


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def node_model(
    op: str,
    domain: str,
    inputs: dict[str, Any],
    weights: dict[str, np.ndarray] | None = None,
    outputs: tuple[str, ...] = ("y",),
    order: tuple[str, ...] = (),
    element: int = TensorProto.FLOAT,
    **attrs: Any,
) -> Any:
    """One node; `order` names its operands, inputs and weights, where an absent one is empty; its outputs are of that
    element type."""
    weights = weights or {}
    names = order or (*inputs, *weights)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    gives = [helper.make_tensor_value_info(o, element, None) for o in outputs if o]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, domain=domain, **attrs)],
        "g",
        values,
        gives,
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)], ir_version=8
    )


def check(model: Any, inputs: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    wanted = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, inputs
    )
    found = play(front.read(to_json(model.SerializeToString())), inputs)
    for given, want in zip(found.values(), wanted, strict=True):
        assert given.shape == want.shape and given.dtype == want.dtype
        np.testing.assert_allclose(given, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(("offset", "scale"), [([1.0], [0.5]), ([1.0, -2.0, 0.25], [0.5, 2.0, 3.0])])
def test_scaler(dtype: str, offset: list[float], scale: list[float]) -> None:
    x = (draw(4, 3) * 8).astype(dtype)
    check(node_model("Scaler", LEARNING, {"x": x}, offset=offset, scale=scale), {"x": x})


@pytest.mark.parametrize("op", ["FastGelu", "Gelu", "QuickGelu"])
def test_gelu(op: str) -> None:
    check(node_model(op, MICROSOFT, {"x": draw(2, 3, 8)}), {"x": draw(2, 3, 8)})


@pytest.mark.parametrize("op", ["FastGelu", "BiasGelu"])
def test_gelu_with_a_bias(op: str) -> None:
    inputs = {"x": draw(2, 3, 8), "bias": draw(8)}
    check(node_model(op, MICROSOFT, inputs), inputs)


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_skip_normalization(op: str, has_bias: bool) -> None:
    inputs = {"x": draw(2, 3, 8), "skip": draw(2, 3, 8, seed=1)}
    weights = {"gamma": draw(8), "beta": draw(8, seed=2), "bias": draw(8, seed=3)}
    order = [
        "x",
        "skip",
        "gamma",
        *(["beta"] if op == "SkipLayerNormalization" else []),
        *(["bias"] if has_bias else []),
    ]
    kept = {n: a for n, a in weights.items() if n in order}
    for outputs in (("y",), ("y", "", "", "sum")):
        check(node_model(op, MICROSOFT, inputs, kept, outputs, tuple(order), epsilon=1e-5), inputs)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"transA": 1},
        {"transB": 1, "alpha": 0.25},
        {"transA": 1, "transB": 1},
        {"transBatchA": 1},
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
    ],
    ids=str,
)
def test_fused_matmul(flags: dict[str, Any]) -> None:
    shapes = []
    for word, inner in (("A", (3, 4)), ("B", (4, 5))):
        rows, columns = inner[::-1] if flags.get(f"trans{word}") else inner
        shapes.append((rows, 2, columns) if flags.get(f"transBatch{word}") else (2, rows, columns))
    inputs = {"a": draw(*shapes[0]), "b": draw(*shapes[1])}
    check(node_model("FusedMatMul", MICROSOFT, inputs, **flags), inputs)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dynamic_quantized_lstm(direction: str, has_state: bool, dtype: str) -> None:
    steps, batch, size, hidden, sides = 3, 1, 5, 4, 2 if direction == "bidirectional" else 1
    generator = np.random.default_rng(3)
    # Pairs of products of u8 and i8 of full range saturate in onnxruntime on processors without VNNI; of 7 bits they do
    # not.
    low, high, zero = (-63, 64, 0) if dtype == "int8" else (0, 256, 128)
    weights = {
        "W": generator.integers(low, high, (sides, size, 4 * hidden)).astype(dtype),
        "R": generator.integers(low, high, (sides, hidden, 4 * hidden)).astype(dtype),
        "B": draw(sides, 8 * hidden),
        "Ws": np.full(sides, 1 / 128, np.float32),
        "Wz": np.full(sides, zero, dtype),
        "Rs": np.full(sides, 1 / 100, np.float32),
        "Rz": np.full(sides, zero, dtype),
    }
    inputs = {"x": draw(steps, batch, size)}
    if has_state:
        inputs |= {"h": draw(sides, batch, hidden), "c": draw(sides, batch, hidden, seed=5)}
    order = ("x", "W", "R", "B", "", "h" if has_state else "", "c" if has_state else "", "", "Ws", "Wz", "Rs", "Rz")
    check(
        node_model(
            "DynamicQuantizeLSTM",
            MICROSOFT,
            inputs,
            weights,
            ("y", "yh", "yc"),
            order,
            hidden_size=hidden,
            direction=direction,
        ),
        inputs,
        1e-4,
    )


def test_what_they_cannot_do_is_said() -> None:
    x = draw(2, 4)
    with pytest.raises(Refused) as caught:
        to_json(node_model("Scaler", LEARNING, {"x": x}, offset=[1.0, 2.0], scale=[1.0, 2.0]).SerializeToString())
    assert [d.code for d in caught.value.diags] == ["E0124"]


@pytest.mark.parametrize("dtype", (np.float32, np.float16))
@pytest.mark.parametrize(
    ("bits", "block", "depth", "zero", "bias"),
    [
        (4, 32, 64, "none", False),
        (4, 16, 40, "packed", True),
        (8, 32, 96, "packed", False),
        (4, 32, 96, "packed", False),
    ],
)
def test_products_with_weights_of_few_bits(
    dtype: type, bits: int, block: int, depth: int, zero: str, bias: bool
) -> None:
    columns, blocks = 24, -(-depth // block)
    draws = np.random.default_rng([bits, block, depth])
    weights = {
        "B": draws.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8),
        "scales": draws.uniform(0.01, 0.1, columns * blocks).astype(dtype),
    }
    order = ["A", "B", "scales"]
    if zero == "packed":
        weights["zeros"] = draws.integers(0, 256, columns * -(-blocks * bits // 8)).astype(np.uint8)
    if bias:
        weights["bias"] = draws.standard_normal(columns).astype(dtype)
    order += ["zeros" if zero == "packed" else "", "", "bias"] if bias else ["zeros"] if zero == "packed" else []
    x = {"A": draws.standard_normal((3, depth)).astype(dtype)}
    model = node_model(
        "MatMulNBits", MICROSOFT, x, weights, order=tuple(order), bits=bits, block_size=block, K=depth, N=columns
    )
    if dtype == np.float16:
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    check(model, x, 1e-4 if dtype == np.float32 else 2e-2)


@pytest.mark.parametrize(("rows", "algo"), [(1, "one_row"), (4, "few_rows")])
@pytest.mark.parametrize("zero", ["none", "packed"])
def test_few_rows_with_weights_of_few_bits_are_one_kernel(rows: int, algo: str, zero: str) -> None:
    """Nothing is unpacked to memory."""
    columns, depth, blocks = 4096, 4096, 4096 // 32
    weights = {"B": np.zeros((columns, blocks, 16), np.uint8), "scales": np.ones(columns * blocks, np.float16)}
    if zero == "packed":
        weights["zeros"] = np.zeros(columns * blocks // 2, np.uint8)
    order = ("A", "B", "scales", *(["zeros"] if zero == "packed" else []))
    x = {"A": np.zeros((rows, depth), np.float16), **weights}
    model = node_model("MatMulNBits", MICROSOFT, x, order=order, bits=4, block_size=32, K=depth, N=columns)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    module = front.read(to_json(model.SerializeToString()))
    for stage in STAGES[1 : STAGES.index("plan") + 1]:
        module = lower_to(stage, module, "sm90", "h200")
    assert [plan.algo for plan in module.plans] == [algo]


def test_products_with_a_group_for_each_place_are_refused() -> None:
    x = {"A": draw(2, 32)}
    weights = {"B": np.zeros((8, 1, 16), np.uint8), "scales": np.ones(8, np.float32), "at": np.zeros(32, np.int32)}
    model = node_model(
        "MatMulNBits", MICROSOFT, x, weights, order=("A", "B", "scales", "", "at"), bits=4, block_size=32, K=32, N=8
    )
    with pytest.raises(Refused, match="E0124"):
        to_json(model.SerializeToString())


def test_the_checker_reads_the_file_s_own_bytes_unless_nodes_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Exp", ["h"], ["y"])]
    seen: list[type] = []
    check = onnx.checker.check_model

    def watched(model: Any) -> None:
        seen.append(type(model))
        check(model)

    monkeypatch.setattr(onnx.checker, "check_model", watched)
    for order in (nodes, nodes[::-1]):
        model = helper.make_model(helper.make_graph(order, "g", values[:1], values[1:]), ir_version=8)
        to_json(model.SerializeToString(), "g.onnx")
    assert seen == [bytes, onnx.ModelProto]
