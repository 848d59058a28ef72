"""Small ONNX models of many kinds, and what is made of them: fields and bytes changed."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .mutations import STRANGE, mutated_bytes

INTEGERS = (0, 1, -1, 2, 3, 7, -7, 64, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))


def _model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    opset: int = 18,
    functions: tuple[Any, ...] = (),
    **constants: Any,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(
                n, TensorProto.FLOAT if not isinstance(s, tuple) else s[0], s if not isinstance(s, tuple) else s[1]
            )
            for n, s in inputs.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid("own", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9).SerializeToString()


@functools.cache
def models() -> tuple[bytes, ...]:
    """Convolution, recurrence, attention, indexing, control, functions, quantised and shape arithmetic; old opsets
    too."""
    node = helper.make_node
    f32 = np.float32
    branch = [
        helper.make_graph(
            [node(op, ["x"], ["r"])], op, [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)]
        )
        for op in ("Relu", "Neg")
    ]
    body = helper.make_graph(
        [node("Add", ["s", "s"], ["t"]), node("Identity", ["c"], ["d"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [2, 3]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 3]),
        ],
    )
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    external = onnx.load_model_from_string(
        _model([node("Mul", ["x", "w"], ["y"])], {"x": [2, 3]}, ["y"], w=np.ones((2, 3), f32))
    )
    onnx.external_data_helper.set_external_data(external.graph.initializer[0], "weights.bin", 0, 24)
    external.graph.initializer[0].ClearField("raw_data")
    return (
        _model(
            [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["y"])],
            {"x": ["N", 3, 8, 8]},
            ["y"],
            w=np.ones((4, 3, 3, 3), f32),
            b=np.ones(4, f32),
        ),
        _model(
            [
                node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], ceil_mode=1),
                node("GlobalAveragePool", ["p"], ["g"]),
                node("Flatten", ["g"], ["y"]),
            ],
            {"x": [1, 3, 9, 9]},
            ["y"],
        ),
        _model(
            [node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=4)],
            {"x": [5, 2, 3]},
            ["y", "h"],
            w=np.ones((1, 16, 3), f32),
            r=np.ones((1, 16, 4), f32),
        ),
        _model(
            [
                node("MatMul", ["q", "k"], ["s"]),
                node("Softmax", ["s"], ["p"], axis=-1),
                node("MatMul", ["p", "q"], ["y"]),
            ],
            {"q": [2, "L", 4], "k": [2, 4, "L"]},
            ["y"],
        ),
        _model(
            [
                node("Gather", ["x", "i"], ["g"], axis=1),
                node("Unsqueeze", ["g", "a"], ["u"]),
                node("Concat", ["u", "u"], ["y"], axis=0),
            ],
            {"x": ["B", 5]},
            ["y"],
            i=np.array([0, -1, 3]),
            a=np.array([0]),
        ),
        _model(
            [node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
            {"x": [2, 3], "c": (TensorProto.BOOL, [])},
            ["y"],
        ),
        _model([node("Loop", ["n", "", "x"], ["y"], body=body)], {"x": [2, 3]}, ["y"], n=np.array(3)),
        _model(
            [node("Twice", ["x"], ["t"], domain="own"), node("Twice", ["t"], ["y"], domain="own")],
            {"x": [3]},
            ["y"],
            functions=(twice,),
        ),
        _model(
            [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
            {"x": [4, 4]},
            ["y"],
            s=f32(0.5),
            z=np.uint8(3),
        ),
        _model(
            [
                node("Shape", ["x"], ["s"]),
                node("Slice", ["s", "a", "b"], ["h"]),
                node("Concat", ["h", "m"], ["t"], axis=0),
                node("Reshape", ["x", "t"], ["y"]),
            ],
            {"x": ["B", 4, 6]},
            ["y"],
            a=np.array([0]),
            b=np.array([1]),
            m=np.array([-1]),
        ),
        _model(
            [node("Resize", ["x", "", "s"], ["r"], mode="linear"), node("Pad", ["r", "p"], ["y"], mode="reflect")],
            {"x": [1, 2, 4, 4]},
            ["y"],
            s=np.array([1, 1, 2, 1.5], f32),
            p=np.array([0, 0, 1, 0, 0, 0, 1, 2]),
        ),
        _model(
            [node("ScatterND", ["x", "i", "u"], ["s"], reduction="add"), node("TopK", ["s", "k"], ["y", "t"])],
            {"x": [4, 5]},
            ["y"],
            i=np.array([[1], [3]]),
            u=np.ones((2, 5), f32),
            k=np.array([2]),
        ),
        _model(
            [
                node("LayerNormalization", ["x", "g", "b"], ["n"]),
                node("Einsum", ["n", "n"], ["y"], equation="ij,kj->ik"),
            ],
            {"x": ["B", 8]},
            ["y"],
            g=np.ones(8, f32),
            b=np.zeros(8, f32),
        ),
        _model(
            [node("Upsample", ["x", "s"], ["y"], mode="nearest")],
            {"x": [1, 1, 2, 2]},
            ["y"],
            opset=9,
            s=np.array([1, 1, 2, 3], f32),
        ),
        _model(
            [node("BatchNormalization", ["x", "a", "b", "c", "d"], ["y"])],
            {"x": [1, 2, 3, 3]},
            ["y"],
            opset=8,
            **{n: np.ones(2, f32) for n in "abcd"},
        ),
        external.SerializeToString(),
    )


def _messages(message: Any) -> Iterator[tuple[Any, Any, Any]]:
    """(message, field, value) of every set field, inner messages too."""
    for field, value in message.ListFields():
        yield message, field, value
        for inner in value if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)) else [value]:
            if hasattr(inner, "ListFields"):
                yield from _messages(inner)


def _changed(field: Any, value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool) or field.type == field.TYPE_ENUM:
        return draw.randrange(0, 24)
    if isinstance(value, int):
        found = draw.choice(INTEGERS)
        return (
            found if field.type in (field.TYPE_INT64, field.TYPE_UINT64) else max(min(found, (1 << 31) - 1), -(1 << 31))
        )
    if isinstance(value, float):
        return draw.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 0.3))
    if isinstance(value, bytes):
        return mutated_bytes(value, draw)
    return draw.choice(
        (
            value + draw.choice(STRANGE),
            "",
            draw.choice(("x", "y", "s", "Add", "Relu", "Reshape", "Expand", "own", "../w.bin", "axis")),
            value[::-1],
        )
    )


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """One to three fields of the model changed, repeated or taken out; at times its bytes."""
    if draw.random() < 0.25:
        return mutated_bytes(raw, draw)
    model = onnx.load_model_from_string(raw)
    for _ in range(draw.choice((1, 1, 2, 3))):
        message, field, value = draw.choice(list(_messages(model)))
        is_many = hasattr(value, "__iter__") and not isinstance(value, (str, bytes))
        try:
            if draw.random() < 0.2:
                message.ClearField(field.name)
            elif is_many and len(value):
                at = draw.randrange(len(value))
                if draw.random() < 0.3:
                    del value[at]
                elif draw.random() < 0.3:
                    value.append(value[at])
                elif not hasattr(value[at], "ListFields"):
                    value[at] = _changed(field, value[at], draw)
            elif not hasattr(value, "ListFields"):
                setattr(message, field.name, _changed(field, value, draw))
        except (TypeError, ValueError):  # the field does not take it: the model stays as it is
            pass
    return model.SerializeToString()
