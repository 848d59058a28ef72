"""The same networks for a peer: front-end JSON as an ONNX graph, op by op, for onnxruntime to run.

Only what the networks of this package use. Attention is spelled out: scores, mask, softmax, weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .network import RandomModel

OPSET = 20
_TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16, "i64": TensorProto.INT64, "bool": TensorProto.BOOL}
_FUNCTIONS = {"relu": "Relu", "add": "Add", "tanh": "Tanh"}


class _Graph:
    """Nodes and constants in the making; `given` are the JSON op's inputs, `names` its outputs."""

    def __init__(self, model: RandomModel):
        self.tensors = model.graph["tensors"]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, kind: str, given: list[str], name: str = "", **attrs: Any) -> str:
        name = name or f"node{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, given, [name], **attrs))
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def shape(self, tensor: str) -> list[int]:
        return self.tensors[tensor]["shape"]

    def ints(self, values: list[int]) -> str:
        return self.constant(values, np.int64)

    def op(self, op: dict[str, Any]) -> None:
        _OPS[op["op"]](self, op["inputs"], op["outputs"], op.get("attrs", {}))


Given, Names, Attrs = list[str], list[str], dict[str, Any]


def _elementwise(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    if attrs["fn"] == "gelu":
        g.node("Gelu", given, names[0], approximate=attrs.get("approximate", "none"))
    else:
        g.node(_FUNCTIONS[attrs["fn"]], given, names[0])


def _gemm(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    weight = g.node("Transpose", [given[1]], perm=[1, 0]) if attrs.get("transB") else given[1]
    if len(given) == 2:
        g.node("MatMul", [given[0], weight], names[0])
    else:
        g.node("Add", [g.node("MatMul", [given[0], weight]), given[2]], names[0])


def _conv(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    g.node("Conv", given, names[0], strides=attrs["stride"] * 2, pads=attrs["pad"] * 4)


def _pool(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    if "kernel" not in attrs:
        g.node("GlobalAveragePool", given, names[0])
    else:
        assert attrs["mode"] == "max"
        g.node(
            "MaxPool",
            given,
            names[0],
            kernel_shape=attrs["kernel"] * 2,
            strides=attrs["stride"] * 2,
            pads=attrs["pad"] * 4,
        )


def _attention(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    q, k, v = given[:3]
    (*_, rows, depth), columns = g.shape(q), g.shape(k)[2]
    scores = g.node("MatMul", [q, g.node("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = g.node("Mul", [scores, g.constant(1 / math.sqrt(depth), np.float32)])
    if len(given) == 4:
        scores = g.node("Where", [given[3], scores, g.constant(-np.inf, np.float32)])
    if attrs.get("causal"):
        scores = g.node(
            "Where",
            [g.constant(np.tril(np.ones((rows, columns), bool)), bool), scores, g.constant(-np.inf, np.float32)],
        )
    g.node("MatMul", [g.node("Softmax", [scores], axis=-1), v], names[0])


def _slice(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    g.node("Slice", [*given, *(g.ints(attrs[a]) for a in ("starts", "ends", "axes"))], names[0])


def _split(g: _Graph, given: Given, names: Names, attrs: Attrs) -> None:
    g.nodes.append(helper.make_node("Split", given, names, axis=attrs["axis"], num_outputs=attrs["parts"]))


_OPS: Mapping[str, Callable[[_Graph, Given, Names, Attrs], Any]] = {
    "Elementwise": _elementwise,
    "GEMM": _gemm,
    "Conv": _conv,
    "Pool": _pool,
    "Attention": _attention,
    "Slice": _slice,
    "Split": _split,
    "BatchNorm": lambda g, given, names, attrs: g.node("BatchNormalization", given, names[0], epsilon=1e-5),
    "LayerNorm": lambda g, given, names, attrs: g.node("LayerNormalization", given, names[0], axis=-1, epsilon=1e-5),
    "Embedding": lambda g, given, names, attrs: g.node("Gather", given, names[0], axis=0),
    "Flatten": lambda g, given, names, attrs: g.node("Flatten", given, names[0]),
    "Concat": lambda g, given, names, attrs: g.node("Concat", given, names[0], axis=attrs["axis"]),
    "Transpose": lambda g, given, names, attrs: g.node("Transpose", given, names[0], perm=attrs["perm"]),
    "Reshape": lambda g, given, names, attrs: g.node("Reshape", [*given, g.ints(attrs["shape"])], names[0]),
    "Expand": lambda g, given, names, attrs: g.node("Expand", [*given, g.ints(attrs["shape"])], names[0]),
}


def onnx_of(model: RandomModel) -> onnx.ModelProto:
    """The model as an ONNX model whose inputs are the signature's, weights too. Its sizes must be integers, its floats
    fp32."""
    graph = _Graph(model)
    for op in model.graph["graph"]:
        graph.op(op)
    sides = [
        [
            helper.make_tensor_value_info(
                e["tensor"], _TYPES[graph.tensors[e["tensor"]]["dtype"]], graph.shape(e["tensor"])
            )
            for e in model.graph["signature"][side]
        ]
        for side in ("inputs", "outputs")
    ]
    made = helper.make_graph(graph.nodes, model.name, *sides, graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
