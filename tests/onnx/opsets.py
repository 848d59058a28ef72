"""What changed between the versions of ONNX ops, by the schemas of the onnx package, and a node for each version on
both sides of a change.

`changes()` reads the rows: an op and the version from which on it has other attributes (their presence, kind or
default) or other inputs. `NODES` has nodes of each version that a row separates; `wanted` is what the standard gives
there, or a node of another version that gives the same, where neither onnxruntime nor onnx's own evaluator runs that
version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from tinyir.front.onnx import ops as _ops  # noqa: F401  (fills the table)
from tinyir.front.onnx.table import FOLDS, ONNX_OPS

# Attributes that say nothing about values: where memory may be used again, random seeds.
_SILENT = {"consumed_inputs", "seed"}


@dataclass(frozen=True)
class Versioned:
    """A node of one opset: its inputs, of which those at `known` are initialisers (None: absent), and what it gives."""

    op: str
    opset: int
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    known: tuple[int, ...] = ()
    outputs: int = 1
    wanted: tuple[Any, ...] | Versioned | None = None

    @property
    def version(self) -> tuple[str, int]:
        """The op and the version of its schema."""
        return self.op, defs.get_schema(self.op, self.opset, "").since_version

    @property
    def name(self) -> str:
        """A name for the test."""
        return f"{self.op}-{self.opset}" + "".join(
            f"-{k}" for k in sorted(self.attrs) if k not in ("axes", "kernel_shape")
        )

    def model(self) -> onnx.ModelProto:
        """The node alone in a model; outputs have no shape."""
        names = [f"x{i}" if a is not None else "" for i, a in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, **self.attrs)
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for i, (n, a) in enumerate(zip(names, self.inputs))
            if n and i not in self.known
        ]
        weights = [numpy_helper.from_array(self.inputs[i], names[i]) for i in self.known if names[i]]
        graph = helper.make_graph(
            [node],
            "g",
            values,
            [helper.make_tensor_value_info(n, t, None) for n, t in zip(outputs, self.types())],
            weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def types(self) -> list[int]:
        """The element types of the outputs: those of what is written down, else those that the schema infers."""
        if isinstance(self.wanted, Versioned):
            return self.wanted.types()
        if self.wanted is not None:
            return [helper.np_dtype_to_tensor_dtype(np.asarray(w).dtype) for w in self.wanted]
        names = [f"x{i}" if a is not None else "" for i, a in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, [f"y{i}" for i in range(self.outputs)], **self.attrs)
        values = {
            n: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, self.inputs)
            if n
        }
        weights = {names[i]: numpy_helper.from_array(self.inputs[i], names[i]) for i in self.known if names[i]}
        schema = defs.get_schema(self.op, self.opset, "")
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, values, weights, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8
        )
        first = next(iter(values.values()), None)
        return [(found[n] if n in found else first).tensor_type.elem_type for n in node.output]

    def feeds(self) -> dict[str, np.ndarray]:
        """The inputs that are none of the model's own."""
        return {f"x{i}": a for i, a in enumerate(self.inputs) if a is not None and i not in self.known}


def changes() -> set[tuple[str, int, int]]:
    """Each change as op, the version before and the version from which it holds, for the ops that are translated."""
    history = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and (("", schema.name) in ONNX_OPS or schema.name in FOLDS):
            history[schema.name].append(schema)
    found = set()
    for op, schemas in history.items():
        schemas.sort(key=lambda s: s.since_version)
        for old, new in zip(schemas, schemas[1:]):
            if not new.deprecated and _face(old) != _face(new):
                found.add((op, old.since_version, new.since_version))
    return found


def _face(schema: Any) -> Any:
    """What a version of an op says of its attributes and inputs."""
    attrs = {a.name: (a.type, _default(a), a.required) for a in schema.attributes.values() if a.name not in _SILENT}
    return attrs, len(schema.inputs), len(schema.outputs), schema.min_input


def _default(attribute: Any) -> Any:
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None


# --- the nodes


def line(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> np.ndarray:
    """Small numbers of both signs, exact in every dtype, with ties for what counts them."""
    count = int(np.prod(shape))
    return ((((np.arange(count) * 7) % 11 - 5) * scale).reshape(shape)).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.array(value, dtype)


NODES: list[Versioned] = []


def add(
    op: str,
    opsets: Sequence[int] | int,
    *inputs: Any,
    known: Sequence[int] = (),
    outputs: int = 1,
    wanted: Any = None,
    **attrs: Any,
) -> None:
    """A node in each of the opsets."""
    inputs = tuple(None if a is None else np.asarray(a) for a in inputs)
    for opset in (opsets,) if isinstance(opsets, int) else opsets:
        found = wanted if wanted is None or isinstance(wanted, (tuple, Versioned)) else (wanted,)
        NODES.append(Versioned(op, opset, tuple(inputs), dict(attrs), tuple(known), outputs, found))


X23, X234, B3 = line(2, 3), line(2, 3, 4), line(3, scale=0.5)
IMAGE = line(1, 2, 5, 5)

_BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
}
for _op, _f in _BINARY.items():
    _x, _y = np.abs(X234) + 1, np.abs(B3) + 1
    add(_op, 6, _x, _y, broadcast=1, axis=1, wanted=_f(_x, _y[:, None]).astype(np.float32))
    add(_op, 6, _x, np.abs(line(4)) + 1, broadcast=1, wanted=_f(_x, np.abs(line(4)) + 1).astype(np.float32))
    add(_op, 6, _x, _x, wanted=_f(_x, _x).astype(np.float32))
    add(_op, (7, 13), _x, np.abs(line(3, 1)) + 1)
for _op, _f in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
    add(_op, 1, X234 > 0, B3 > 0, broadcast=1, axis=1, wanted=_f(X234 > 0, (B3 > 0)[:, None]))
    add(_op, 7, X234 > 0, line(3, 1) > 0)
for _op, _f in {"Less": np.less, "Greater": np.greater, "Equal": np.equal}.items():
    _dtype = np.int32 if _op == "Equal" else np.float32
    add(_op, 1, X234.astype(_dtype), line(3, dtype=_dtype), broadcast=1, axis=1, wanted=_f(X234, line(3)[:, None]))
    add(_op, 7, X234.astype(_dtype), line(3, 1, dtype=_dtype))

for _op in ("ArgMax", "ArgMin"):
    add(_op, (11, 12, 13), np.float32([[1, 3, 3], [2, 0, 0]]), axis=1)
    add(_op, (12, 13), np.float32([[1, 3, 3], [2, 0, 0]]), axis=1, select_last_index=1)

_Q, _K, _V = line(1, 2, 3, 4, scale=0.25), line(1, 2, 5, 4, scale=0.25), line(1, 2, 5, 3)
add("Attention", (23, 24, 25), _Q, _K, _V, is_causal=1)
add("Attention", (24, 25), _Q, _K, _V, None, None, None, ints(4))
add("Attention", 25, _Q, _K, _V, left_window_size=1)

_around = np.pad(IMAGE, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=np.nan)
_means = np.stack(
    [np.nanmean(_around[:, :, i : i + 3, j : j + 3], (2, 3)) for i in (0, 2, 4) for j in (0, 2, 4)], 2
).reshape(1, 2, 3, 3)
add("AveragePool", 1, IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], wanted=_means)
add("AveragePool", (7, 10, 11, 19, 22), IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
add("AveragePool", (7, 10, 19), IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
add("AveragePool", (10, 11, 19, 22), IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
add("AveragePool", (19, 22), IMAGE, kernel_shape=[2, 2], dilations=[2, 2])
add("MaxPool", (1, 8, 10, 11, 12, 22), IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
add("MaxPool", (8, 10, 12), IMAGE, kernel_shape=[2, 2], outputs=2)
add("MaxPool", (10, 12), IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
add("MaxPool", (10, 12), IMAGE, kernel_shape=[2, 2], dilations=[2, 2])
_root = np.sqrt(sum(IMAGE[:, :, i : i + 4, j : j + 4] ** 2 for i in (0, 1) for j in (0, 1)))
add("LpPool", 1, IMAGE, kernel_shape=[2, 2], p=2.0, wanted=_root)
add("LpPool", (2, 11), IMAGE, kernel_shape=[2, 2])
add("LpPool", (18, 22), IMAGE, kernel_shape=[2, 2], dilations=[2, 2])
add("LpPool", 18, IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
_norm = np.sqrt((IMAGE**2).sum((2, 3), keepdims=True))
add("GlobalLpPool", 1, IMAGE, p=2.0, wanted=_norm)
add("GlobalLpPool", 2, IMAGE, wanted=_norm)

_C2 = [line(2), line(2, scale=0.5), line(2, scale=0.25), np.abs(line(2)) + 1]
_norm2 = (IMAGE - _C2[2][:, None, None]) / np.sqrt(_C2[3] + 1e-5)[:, None, None] * _C2[0][:, None, None] + _C2[1][
    :, None, None
]
add("BatchNormalization", 1, IMAGE, *_C2, consumed_inputs=[0, 0, 0, 1, 1], is_test=1, wanted=_norm2.astype(np.float32))
add("BatchNormalization", 6, IMAGE, *_C2, is_test=1, wanted=_norm2.astype(np.float32))
add("BatchNormalization", (7, 9, 14, 15), IMAGE, *_C2)
_each = [line(2, 5, 5), line(2, 5, 5, scale=0.5), line(2, 5, 5, scale=0.25), np.abs(line(2, 5, 5)) + 1]
add(
    "BatchNormalization",
    7,
    IMAGE,
    *_each,
    spatial=0,
    wanted=((IMAGE - _each[2]) / np.sqrt(_each[3] + 1e-5) * _each[0] + _each[1]).astype(np.float32),
)
add("BatchNormalization", (14, 15), IMAGE, *_C2, training_mode=1, outputs=3)

_FINE = np.float32([1.0, 500.0, -1e9, 0.01, 463.0, 1000.0])
add("Cast", 1, X23, to="INT32", wanted=X23.astype(np.int32))
add("Cast", (6, 9, 13), X23, to=TensorProto.INT32)
add("Cast", (19, 23), _FINE, to=TensorProto.FLOAT8E4M3FN)
add("Cast", (19, 23), _FINE, to=TensorProto.FLOAT8E4M3FN, saturate=0)
add("Cast", 24, np.abs(_FINE), to=TensorProto.FLOAT8E8M0)
add("Cast", 24, np.abs(_FINE), to=TensorProto.FLOAT8E8M0, round_mode="down")
add("CastLike", 15, X23, ints(1))
add(
    "CastLike", (19, 23), _FINE, np.zeros(1, np.float32).astype(helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E5M2))
)
add(
    "CastLike",
    (19, 24),
    _FINE,
    np.zeros(1, np.float32).astype(helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E5M2)),
    saturate=0,
)

add("Clip", 1, X23, min=-1.0, max=2.0, wanted=X23.clip(-1, 2))
add("Clip", 6, X23, min=-1.0)
add("Clip", (11, 12, 13), X23, np.float32(-1), np.float32(2))
add("Clip", (11, 13), X23, None, np.float32(2), known=[2])
add("Concat", 1, X234, X234, wanted=np.concatenate([X234, X234], 1))
add("Concat", (4, 11), X234, X234, axis=2)
add("Constant", (1, 9), value=numpy_helper.from_array(X23), wanted=X23)
add("Constant", 11, value=numpy_helper.from_array(X23), wanted=X23)
add("Constant", 12, value_floats=[1.0, 2.5], wanted=np.float32([1, 2.5]))
add("Constant", 12, value_ints=[1, 2], wanted=ints(1, 2))
add("Constant", 12, value_int=3, wanted=scalar(3))
add("DFT", 17, line(1, 4, 1))
add("DFT", 17, line(1, 3, 4, 1), axis=2, inverse=1)
add("DFT", 20, line(1, 4, 1))
add("DFT", 20, line(1, 3, 4, 1), None, scalar(2), known=[2], onesided=1)
add("DepthToSpace", (1, 11, 13), line(1, 8, 2, 3), blocksize=2)
add("DepthToSpace", (11, 13), line(1, 8, 2, 3), blocksize=2, mode="CRD")
add("SpaceToDepth", (1, 13), line(1, 2, 4, 6), blocksize=2)
add("SpaceToDepth", 28, line(1, 2, 4, 6), blocksize=2, mode="CRD")

_q = line(2, 3, dtype=np.int8)
add("DequantizeLinear", (10, 13), _q, np.float32(0.5), np.int8(1))
add("DequantizeLinear", (13, 19), _q, np.float32([0.5, 0.25, 2]), np.int8([1, 0, -1]))
add("DequantizeLinear", 13, _q, np.float32([0.5, 0.25]), np.int8([1, 0]), axis=0)
add(
    "DequantizeLinear",
    21,
    line(2, 4, dtype=np.int8),
    np.float32([[0.5, 0.25], [2, 1]]),
    np.int8([[1, 0], [0, -1]]),
    axis=1,
    block_size=2,
)
add("DequantizeLinear", 23, _q, np.float32(0.5), np.int8(1), output_dtype=TensorProto.FLOAT16)
_real = line(2, 3, scale=0.75)
add("QuantizeLinear", (10, 13), _real, np.float32(0.5), np.int8(1))
add("QuantizeLinear", 13, _real, np.float32([0.5, 0.25, 2]), np.uint8([1, 0, 9]))
add(
    "QuantizeLinear",
    19,
    _FINE,
    np.float32(2),
    np.zeros((), np.float32).astype(helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E4M3FN)),
    saturate=0,
)
add("QuantizeLinear", 19, _real, np.float32(0.5), np.int8(1))
add("QuantizeLinear", 21, _real, np.float32(0.5), output_dtype=TensorProto.INT16)
add(
    "QuantizeLinear",
    21,
    line(2, 4, scale=0.75),
    np.float32([[0.5, 0.25], [2, 1]]),
    np.int8([[1, 0], [0, -1]]),
    axis=1,
    block_size=2,
)
add("QuantizeLinear", 23, _real, np.float32(0.5), np.int8(1), precision=TensorProto.FLOAT)

add("Dropout", 1, X23, is_test=1, wanted=X23)
add("Dropout", 6, X23, is_test=1, wanted=X23)
add("Dropout", (7, 10), X23, ratio=0.3)
add("Dropout", 10, X23, outputs=2, wanted=(X23, np.ones(X23.shape, bool)))
add("Dropout", 7, X23, outputs=2, wanted=(X23, np.ones(X23.shape, np.float32)))
add("Dropout", (12, 13, 22), X23, np.float32(0.3), np.array(False), known=[1, 2])

_gru = [line(2, 1, 3, scale=0.125), line(1, 12, 3, scale=0.125), line(1, 12, 4, scale=0.125), line(1, 24, scale=0.125)]
_lstm = [line(2, 1, 3, scale=0.125), line(1, 16, 3, scale=0.125), line(1, 16, 4, scale=0.125), line(1, 32, scale=0.125)]
_rnn = [line(2, 1, 3, scale=0.125), line(1, 4, 3, scale=0.125), line(1, 4, 4, scale=0.125), line(1, 8, scale=0.125)]
for _op, _arrays in (("GRU", _gru), ("LSTM", _lstm), ("RNN", _rnn)):
    add(_op, (7, 14, 22), *_arrays, hidden_size=4, outputs=2)
    add(_op, (14, 22), _arrays[0].transpose(1, 0, 2), *_arrays[1:], hidden_size=4, layout=1, outputs=2)
add("GRU", 7, *_gru, hidden_size=4, linear_before_reset=1)
for _op, _old, _arrays in (("GRU", (1, 3), _gru), ("LSTM", (1,), _lstm), ("RNN", (1,), _rnn)):
    _new = Versioned(_op, 7, tuple(_arrays), {"hidden_size": 4}, outputs=2)
    add(_op, _old, *_arrays, hidden_size=4, output_sequence=1, outputs=2, wanted=_new)
add(
    "GRU",
    3,
    *_gru,
    hidden_size=4,
    linear_before_reset=1,
    wanted=Versioned("GRU", 7, tuple(_gru), {"hidden_size": 4, "linear_before_reset": 1}),
)

add("GatherND", (11, 12), X234, np.int64([[0, 1], [1, 2]]))
add("GatherND", 12, X234, np.int64([[1], [2]]), batch_dims=1)
_a, _b, _c = line(2, 3), line(3, 4), line(4)
add("Gemm", 1, _a, _b, _c, broadcast=1, wanted=_a @ _b + _c)
add("Gemm", 6, _a, _b, _c, broadcast=1, alpha=0.5, beta=2.0, wanted=_a @ _b / 2 + _c * 2)
add("Gemm", (7, 9, 11, 13), _a, _b, _c, alpha=0.5, beta=2.0)
add("Gemm", (11, 13), _a, _b)
_grid = line(1, 2, 2, 2, scale=0.25)
add("GridSample", 16, line(1, 1, 3, 4), _grid, mode="bilinear")
add("GridSample", 16, line(1, 1, 3, 4), _grid)
add("GridSample", (20, 22), line(1, 1, 3, 4), _grid, mode="linear")
add("GridSample", (20, 22), line(1, 1, 3, 4), _grid)
add(
    "GroupNormalization",
    18,
    line(2, 4, 3),
    line(2),
    line(2, scale=0.5),
    num_groups=2,
    wanted=Versioned(
        "GroupNormalization", 21, (line(2, 4, 3), line(2).repeat(2), line(2, scale=0.5).repeat(2)), {"num_groups": 2}
    ),
)
add("GroupNormalization", 21, line(2, 4, 3), line(4), line(4, scale=0.5), num_groups=2)
for _op in ("Softmax", "LogSoftmax", "Hardmax"):
    add(_op, (1, 11, 13), line(2, 3, 4, scale=0.25))
    add(_op, (1, 11, 13), line(2, 3, 4, scale=0.25), axis=0)
    add(_op, (1, 11, 13), line(2, 3, 4, scale=0.25), axis=2)
add("LpNormalization", (1, 22), X234, axis=1, p=1)

add("Pad", 1, X23, paddings=[0, 1, 1, 0], value=2.0, wanted=np.pad(X23, [(0, 1), (1, 0)], constant_values=2))
add("Pad", 2, X23, pads=[0, 1, 1, 0], value=2.0)
add("Pad", 2, X23, pads=[0, 1, 1, -1], mode="edge")
add("Pad", (11, 13), X23, ints(0, 1, 1, 0), np.float32(2), known=[1, 2])
add("Pad", 18, X23, ints(1, 0), np.float32(2), ints(1), known=[1, 2, 3])
add("Pad", 19, X23, ints(0, 2, 0, 2), known=[1], mode="wrap")
add("Range", 11, scalar(1.0, np.float32), scalar(4.0, np.float32), scalar(0.5, np.float32), known=[0, 1, 2])
add(
    "Range",
    27,
    scalar(1.0, np.float16),
    scalar(4.0, np.float16),
    scalar(0.5, np.float16),
    known=[0, 1, 2],
    wanted=np.arange(1, 4, 0.5).astype(np.float16),
)
for _op in (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
):
    _x, _last = np.abs(X234) + 1, 11 if _op == "ReduceSum" else 13
    _new = _last + 2 if _op == "ReduceSum" else 18
    add(_op, (1, _last), _x, axes=[1], keepdims=0)
    add(_op, (1, _last), _x)
    add(_op, _new, _x, ints(1), known=[1], keepdims=0)
    add(_op, _new, _x)
    add(_op, _new, _x, ints(), known=[1])
add("ReduceSum", 13, X234, ints(), known=[1], noop_with_empty_axes=1)
add("ReduceMax", 18, X234, ints(), known=[1], noop_with_empty_axes=1)
add("Reshape", 1, X23, shape=[3, -1], wanted=X23.reshape(3, 2))
add("Reshape", (5, 13, 14), X23, ints(0, -1, 1), known=[1])
add("Reshape", 14, np.zeros((0, 3), np.float32), ints(3, 0), known=[1], allowzero=1)

_scales, _down = np.float32([1, 1, 2, 2]), np.float32([1, 1, 0.6, 0.6])
for _mode in ("nearest", "linear"):
    add(
        "Upsample",
        1,
        line(1, 1, 2, 3),
        mode=_mode if _mode == "nearest" else "bilinear",
        height_scale=2.0,
        width_scale=2.0,
        wanted=Versioned("Upsample", 7, (line(1, 1, 2, 3),), {"mode": _mode, "scales": [1.0, 1.0, 2.0, 2.0]}),
    )
    add("Upsample", 7, line(1, 1, 2, 3), mode=_mode, scales=[1.0, 1.0, 2.0, 2.0])
    add("Upsample", 9, line(1, 1, 2, 3), _scales, known=[1], mode=_mode)
    add("Resize", 10, line(1, 1, 2, 3), _scales, known=[1], mode=_mode)
    add("Resize", 10, line(1, 1, 4, 5), _down, known=[1], mode=_mode)
    add("Resize", (11, 13), line(1, 1, 2, 3), np.zeros(0, np.float32), _scales, known=[1, 2], mode=_mode)
    add("Resize", (18, 19), line(1, 1, 4, 5), None, _down, known=[2], mode=_mode)
add(
    "Resize",
    (11, 13, 19),
    line(1, 1, 2, 3),
    np.zeros(0, np.float32),
    np.zeros(0, np.float32),
    ints(1, 1, 4, 5),
    known=[1, 2, 3],
    mode="cubic",
)
add("Resize", (18, 19), line(1, 1, 4, 5), None, None, ints(2, 2), known=[3], axes=[2, 3], mode="linear", antialias=1)
add(
    "Resize",
    (18, 19),
    line(1, 1, 4, 6),
    None,
    None,
    ints(8, 6),
    known=[3],
    axes=[2, 3],
    mode="nearest",
    keep_aspect_ratio_policy="not_larger",
)

for _op, _index, _update in (
    ("ScatterElements", np.int64([[0, 1, 0]]), np.float32([[9, 8, 7]])),
    ("ScatterND", np.int64([[1], [1]]), line(2, 3)),
):
    add(_op, (11, 13, 16, 18), X23, _index if _op == "ScatterElements" else np.int64([[1], [0]]), _update)
    add(_op, (16, 18), X23, _index, _update, reduction="add")
    add(_op, (16, 18), X23, _index, _update, reduction="mul")
    add(_op, 18, X23, _index, _update, reduction="max")
add("Scatter", 9, X23, np.int64([[0, 1, 0]]), np.float32([[9, 8, 7]]), axis=1)
add("Selu", 1, X23, wanted=np.where(X23 > 0, 1.0507 * X23, 1.0507 * 1.6732 * (np.exp(X23) - 1)).astype(np.float32))
add("Selu", (6, 22), X23)
add("Shape", (1, 13), X234, wanted=ints(2, 3, 4))
add("Shape", 15, X234, start=-2, end=2, wanted=ints(3))
add("Slice", 1, X234, starts=[0, -2], ends=[1, 1000], axes=[0, 2], wanted=X234[0:1, :, -2:1000])
add("Slice", (10, 11, 13), X234, ints(0, -1), ints(1, -1000), ints(0, 2), ints(1, -2), known=[1, 2, 3, 4])
add("Slice", (10, 13), X234, ints(1), ints(1000), known=[1, 2])
add("Split", 1, line(4, 3), outputs=2, wanted=(line(4, 3)[:2], line(4, 3)[2:]))
add("Split", 1, line(4, 3), ints(1, 3), known=[1], outputs=2, wanted=(line(4, 3)[:1], line(4, 3)[1:]))
add("Split", (2, 11), line(4, 3), split=[1, 3], outputs=2)
add("Split", 13, line(4, 3), ints(1, 3), known=[1], outputs=2)
add("Split", 18, line(5, 3), num_outputs=2, outputs=2)
add("Squeeze", (1, 11), line(1, 3, 1), axes=[0])
add("Squeeze", (1, 11, 13), line(1, 3, 1))
add("Squeeze", 13, line(1, 3, 1), ints(-1), known=[1])
add("Unsqueeze", (1, 11), X23, axes=[0, 2])
add("Unsqueeze", 13, X23, ints(0, -1), known=[1])
add("Tile", 1, X23, scalar(3, np.float32), scalar(1, np.float32), known=[1, 2], wanted=np.tile(X23, (1, 3)))
add("Tile", 6, X23, ints(2, 3), known=[1])
add("TopK", 1, line(2, 5) + np.arange(5, dtype=np.float32) / 16, k=2, outputs=2)
add("TopK", 10, line(2, 5) + np.arange(5, dtype=np.float32) / 16, ints(2), known=[1], outputs=2)
add("TopK", 11, line(2, 5) + np.arange(5, dtype=np.float32) / 16, ints(2), known=[1], outputs=2, largest=0, axis=0)
_twice = helper.make_graph(
    [
        helper.make_node("Add", ["s", "s"], ["n"]),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Identity", ["n"], ["r"]),
    ],
    "body",
    [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, [3]),
    ],
    [
        helper.make_tensor_value_info("d", TensorProto.BOOL, []),
        helper.make_tensor_value_info("n", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("r", TensorProto.FLOAT, [3]),
    ],
)
_rows = (line(3) * 8, np.stack([line(3) * 2, line(3) * 4, line(3) * 8]))
add("Loop", (8, 11, 13, 16), scalar(3), scalar(True, bool), line(3), known=[0, 1], body=_twice, outputs=2, wanted=_rows)
_turn = helper.make_graph(
    [helper.make_node("Add", ["s", "x"], ["n"]), helper.make_node("Identity", ["n"], ["r"])],
    "body",
    [
        helper.make_tensor_value_info("s", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
    ],
    [
        helper.make_tensor_value_info("n", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("r", TensorProto.FLOAT, [3]),
    ],
)
add("Scan", 8, None, line(2, 3), line(2, 4, 3), body=_turn, num_scan_inputs=1, outputs=2)
add("Scan", 8, None, line(2, 3), line(2, 4, 3), body=_turn, num_scan_inputs=1, directions=[1], outputs=2)
add("Scan", (9, 11), line(3), line(4, 3), body=_turn, num_scan_inputs=1, outputs=2)
add(
    "Scan",
    (9, 11),
    line(3),
    line(3, 4),
    body=_turn,
    num_scan_inputs=1,
    scan_input_axes=[1],
    scan_output_directions=[1],
    outputs=2,
)
# What changed without another face: how a slope is spread, whether what is divided into fewer or more than two sides
# broadcasts.
add("PRelu", 6, X234, B3, wanted=np.where(X234 < 0, X234 * B3[:, None], X234))
add("PRelu", (7, 9, 16), X234, line(3, 1, scale=0.5))
for _op in ("Max", "Min", "Sum", "Mean"):
    add(
        _op,
        6,
        X23,
        X23 * 2,
        wanted={"Max": np.maximum(X23, X23 * 2), "Min": np.minimum(X23, X23 * 2), "Sum": X23 * 3, "Mean": X23 * 1.5}[
            _op
        ].astype(np.float32),
    )
    add(_op, (8, 13), X23, B3)
