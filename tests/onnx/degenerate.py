"""Each ONNX op in scope at sizes 0 and 1, at rank 0, with no updates, no turns and empty shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .opsets import Versioned, ints, line, scalar

OPSET = 22
NODES: list[Versioned] = []
INF, NAN = np.inf, np.nan


def add(
    op: str,
    *inputs: Any,
    known: Sequence[int] = (),
    outputs: int = 1,
    wanted: Any = None,
    opset: int = OPSET,
    **attrs: Any,
) -> None:
    """A node of the op."""
    found = wanted if wanted is None or isinstance(wanted, tuple) else (wanted,)
    NODES.append(
        Versioned(
            op,
            opset,
            tuple(None if a is None else np.asarray(a) for a in inputs),
            dict(attrs),
            tuple(known),
            outputs,
            found,
        )
    )


def none(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Zeros; mostly there are none."""
    return np.zeros(shape, dtype)


SHAPES = ((), (0,), (1,), (1, 1), (2, 0, 3), (0, 1))

# Elementwise, of every family, and casts.
for _shape in SHAPES:
    _x = np.full(_shape, 0.25, np.float32)
    for _op in (
        "Abs",
        "Acos",
        "Ceil",
        "Erf",
        "Exp",
        "Gelu",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Softplus",
        "Sqrt",
        "Tanh",
        "ThresholdedRelu",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Cos",
        "Cosh",
        "Floor",
        "Reciprocal",
        "Sin",
        "Sinh",
        "Tan",
    ):
        add(_op, _x)
    add("Acosh", _x + 1)
    add("Swish", _x, opset=24, wanted=_x / (1 + np.exp(-_x)))
    add("SwiGLU", _x, _x, opset=28, wanted=_x * _x / (1 + np.exp(-_x)))
    add("BitCast", _x, opset=26, to=TensorProto.INT32, wanted=_x.view(np.int32))
    for _op in ("IsNaN", "IsInf", "Identity", "Shrink", "Celu", "Elu", "HardSigmoid", "Softsign"):
        add(_op, _x)
    for _op in (
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
        "Equal",
        "PRelu",
        "Max",
        "Mean",
    ):
        add(_op, _x, _x)
        add(_op, _x, np.float32(0.5))
    add("Sum", _x)
    add("Min", _x)
    add("Where", _x > 0, _x, np.float32(1))
    add("Clip", _x, np.float32(0), np.float32(0.125))
    add("Mod", np.full(_shape, 7), np.int64(4))
    add("BitShift", np.full(_shape, 7, np.uint8), np.uint8(1), direction="LEFT")
    add("Not", _x > 0)
    for _op in ("And", "Or", "Xor"):
        add(_op, _x > 0, np.array(True))
    for _op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        add(_op, np.full(_shape, 6), np.int64(3))
    add("BitwiseNot", np.full(_shape, 6))
    add("Cast", _x, to=TensorProto.INT32)
    add("CastLike", _x, np.float16(0))
    add("Dropout", _x)
    add("Shape", _x, wanted=ints(*_shape))
    add("Size", _x, wanted=scalar(int(np.prod(_shape))))
    add("QuantizeLinear", _x, np.float32(0.5), np.int8(1))
    add("DequantizeLinear", np.full(_shape, 3, np.int8), np.float32(0.5), np.int8(1))

# Reductions: what a fold over nothing gives, over no axis, and of no axes.
_OVER_NOTHING = {
    "ReduceSum": 0,
    "ReduceProd": 1,
    "ReduceL1": 0,
    "ReduceL2": 0,
    "ReduceSumSquare": 0,
    "ReduceLogSum": -INF,
    "ReduceLogSumExp": -INF,
    "ReduceMax": -INF,
    "ReduceMin": INF,
    "ReduceMean": NAN,
}
for _op, _value in _OVER_NOTHING.items():
    add(_op, none(0, 3), ints(0), known=[1], keepdims=0, wanted=np.full(3, _value, np.float32))
    add(_op, none(2, 0, 3), ints(1), known=[1], wanted=np.full((2, 1, 3), _value, np.float32))
    add(_op, none(0, 3), ints(1), known=[1], keepdims=0, wanted=none(0))
    add(_op, np.float32([[2], [3]]), ints(1), known=[1])
    add(_op, np.float32(2))
    add(_op, np.float32([2]))
for _op in ("ArgMax", "ArgMin"):
    add(_op, line(2, 1), axis=1)
    add(_op, none(0, 3), axis=1, keepdims=0, wanted=none(0, dtype=np.int64))
for _shape in ((0,), (1,), (0, 3), (3, 0)):
    add("CumProd", line(*_shape), scalar(0), known=[1], opset=26, wanted=line(*_shape))
    for _op in ("CumSum",):
        add(_op, line(*_shape), scalar(0), known=[1])
        add(_op, line(*_shape), scalar(0), known=[1], exclusive=1, reverse=1)
for _op in ("Softmax", "LogSoftmax", "Hardmax"):
    add(_op, line(2, 1))
    add(_op, none(0, 3), wanted=none(0, 3))
    add(_op, none(3, 0), wanted=none(3, 0))
    add(_op, none(1))
add("TopK", line(2, 3), ints(0), known=[1], outputs=2, wanted=(none(2, 0), none(2, 0, dtype=np.int64)))
add("TopK", line(2, 1), ints(1), known=[1], outputs=2)
add("TopK", none(0, 3), ints(2), known=[1], outputs=2, wanted=(none(0, 2), none(0, 2, dtype=np.int64)))
add("LpNormalization", line(2, 1), axis=1)
add("LpNormalization", none(0, 3), axis=1, wanted=none(0, 3))

# Movement.
add("Reshape", none(0, 3), ints(3, 0), known=[1], allowzero=1)
add("Reshape", none(0, 3), ints(0, -1, 1), known=[1], wanted=none(0, 3, 1))
add("Reshape", np.float32(3), ints(1, 1), known=[1])
add("Reshape", line(1, 1), ints(), known=[1])
for _shape in SHAPES:
    _x = line(*_shape)
    add("Transpose", _x)
    add("Flatten", _x, axis=0)
    add("Unsqueeze", _x, ints(0), known=[1])
    add("Squeeze", _x)
    add(
        "Pad",
        _x,
        ints(*[1] * 2 * len(_shape)),
        np.float32(7),
        known=[1, 2],
        wanted=np.pad(_x, 1, constant_values=7) if _shape else _x,
    )
    add("Tile", _x, ints(*[2] * len(_shape)), known=[1])
    add("Tile", _x, ints(*[0] * len(_shape)), known=[1], wanted=np.tile(_x, [0] * len(_shape)))
    add("Concat", *([_x, _x] if _shape else [line(1)]), axis=0)
add("Flatten", none(3, 0), axis=1)
add("Expand", np.float32(3), ints(), known=[1])
add("Expand", np.float32(3), ints(0), known=[1])
add("Expand", line(1), ints(0), known=[1])
add("Expand", none(0, 1), ints(1, 3), known=[1])
add("Squeeze", line(1, 1), ints(0, 1), known=[1])
add("Concat", line(2, 3), none(0, 3), line(1, 3), axis=0)
add("Concat", none(0, 3), none(0, 3), axis=0)
add("Split", line(3, 2), ints(0, 3, 0), known=[1], outputs=3)
add("Split", none(0, 2), num_outputs=1)
add("Split", line(1, 2), outputs=1, num_outputs=1)
add("Slice", line(3, 2), ints(1), ints(1), known=[1, 2])
add("Slice", line(3, 2), ints(5), ints(9), known=[1, 2])
add("Slice", none(0, 2), ints(0), ints(5), known=[1, 2])
add("Slice", none(0, 2), ints(-1), ints(-5), ints(0), ints(-1), known=[1, 2, 3, 4])
add("Slice", line(1, 2), ints(0), ints(1), known=[1, 2])
add("Slice", line(3), ints(), ints(), known=[1, 2], wanted=line(3))
add("Trilu", none(0, 3))
add("Trilu", line(1, 1), scalar(1), known=[1])
add("Trilu", none(2, 0, 3), upper=0)
add("EyeLike", none(0, 3))
add("EyeLike", line(1, 1))
add("Range", scalar(3), scalar(3), scalar(1), known=[0, 1, 2])
add("Range", scalar(5), scalar(3), scalar(1), known=[0, 1, 2])
add("Range", scalar(3), scalar(4), scalar(5), known=[0, 1, 2])
for _shape in ((), (0,), (1,), (2, 0, 3)):
    add("ConstantOfShape", ints(*_shape), known=[0])
    add("ConstantOfShape", ints(*_shape), known=[0], value=numpy_helper.from_array(ints(5)))
add("Constant", value=numpy_helper.from_array(none(2, 0, 3)), wanted=none(2, 0, 3))
add("DepthToSpace", none(0, 4, 1, 1), blocksize=2)
add("DepthToSpace", line(1, 4, 1, 1), blocksize=2)
add("SpaceToDepth", none(0, 1, 2, 2), blocksize=2)
add("SpaceToDepth", line(1, 1, 2, 2), blocksize=2)
add("CenterCropPad", line(1, 3), ints(1, 1), known=[1])
add("CenterCropPad", none(0, 3), ints(2, 3), known=[1], wanted=none(2, 3))
add("ReverseSequence", line(1, 1), ints(1))
add("ReverseSequence", line(3, 1), ints(1))

# Places that are values: none of them, one of them, none to update.
for _x in (line(3, 2), line(1, 2)):
    add("Gather", _x, none(0, dtype=np.int64))
    add("Gather", _x, scalar(0))
    add("Gather", _x, ints(-1))
    add("GatherElements", _x, none(0, 2, dtype=np.int64), wanted=none(0, 2))
    add("GatherND", _x, none(0, 1, dtype=np.int64), wanted=none(0, 2))
    add("GatherND", _x, np.int64([[0, 0]]))
    for _reduction in ("none", "add", "mul", "max", "min"):
        add("ScatterElements", _x, none(0, 2, dtype=np.int64), none(0, 2), reduction=_reduction, wanted=_x)
        add("Scatter", _x, none(0, 2, dtype=np.int64), none(0, 2), opset=10, wanted=_x)
        add("ScatterND", _x, none(0, 1, dtype=np.int64), none(0, 2), reduction=_reduction, wanted=_x)
        add("ScatterND", _x, none(0, 2, dtype=np.int64), none(0), reduction=_reduction, wanted=_x)
add("ScatterElements", none(0, 2), none(0, 2, dtype=np.int64), none(0, 2), wanted=none(0, 2))
add("Gather", none(0, 2), none(0, dtype=np.int64), wanted=none(0, 2))
add("Gather", none(3, 0), ints(1, 2), wanted=none(2, 0))
add("OneHot", none(0, dtype=np.int64), scalar(3), np.float32([0, 1]), known=[1], wanted=none(0, 3))
add("OneHot", scalar(1), scalar(3), np.float32([0, 1]), known=[1], wanted=np.float32([0, 1, 0]))
add("OneHot", ints(0), scalar(1), np.float32([0, 1]), known=[1])
add("NonZero", none(2, 0), known=[0], wanted=none(2, 0, dtype=np.int64))

# Sums of products over nothing, of nothing, of single numbers.
for _a, _b in (
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((2, 3), (3, 0)),
    ((1, 1), (1, 1)),
    ((0,), (0,)),
    ((0, 2, 3), (3, 2)),
    ((2, 0), (0,)),
    ((1, 2, 3), (4, 3, 1)),
):
    add("MatMul", line(*_a), line(*_b), wanted=np.matmul(line(*_a), line(*_b)))
add("Gemm", none(2, 0), none(0, 3), line(3), wanted=np.tile(line(3), (2, 1)))
add("Gemm", none(0, 2), line(2, 3), line(3), wanted=none(0, 3))
add("Gemm", line(1, 1), line(1, 1), np.float32(1))
add("Einsum", none(2, 0), none(0, 3), equation="ij,jk->ik", wanted=none(2, 3))
add("Einsum", line(1, 1), line(1, 1), equation="ij,jk->ik")
add("Einsum", line(1), equation="i->")
add("MatMulInteger", none(2, 0, dtype=np.uint8), none(0, 3, dtype=np.uint8), wanted=none(2, 3, dtype=np.int32))
add("MatMulInteger", np.uint8([[3]]), np.uint8([[4]]), np.uint8(1), np.uint8(2))
for _op, _w in (("Conv", line(4, 2, 1, 1)), ("ConvTranspose", line(2, 4, 1, 1))):
    add(_op, none(0, 2, 3, 3), _w, wanted=none(0, 4, 3, 3))
    add(_op, line(1, 2, 1, 1), _w)
    add(_op, line(1, 2, 1, 1), _w, line(4))
add("Conv", line(1, 1, 1, 1), line(1, 1, 3, 3), pads=[1, 1, 1, 1])
add("ConvTranspose", line(1, 1, 1, 1), line(1, 1, 3, 3), strides=[2, 2])
add("ConvInteger", np.uint8([[[[3]]]]), np.uint8([[[[4]]]]), np.uint8(1))
for _op in ("MaxPool", "AveragePool", "LpPool"):
    add(_op, none(0, 2, 3, 3), kernel_shape=[2, 2], wanted=none(0, 2, 2, 2))
    add(_op, line(1, 2, 1, 1), kernel_shape=[1, 1])
    add(_op, line(1, 2, 1, 1), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
for _op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
    add(_op, line(1, 2, 1, 1), wanted=np.abs(line(1, 2, 1, 1)) if _op == "GlobalLpPool" else line(1, 2, 1, 1))
    add(_op, none(0, 2, 3, 3), wanted=none(0, 2, 1, 1))

# Normalisations.
_C = (line(2), line(2), line(2), np.abs(line(2)) + 1)
add("BatchNormalization", none(0, 2, 3), *_C, wanted=none(0, 2, 3))
add("BatchNormalization", line(1, 2, 1), *_C)
add("BatchNormalization", line(3, 2), *_C)
add("InstanceNormalization", none(0, 2, 3), *_C[:2], wanted=none(0, 2, 3))
add("InstanceNormalization", line(1, 2, 1), *_C[:2])
add("GroupNormalization", line(1, 2, 1), *_C[:2], num_groups=2)
add("GroupNormalization", none(0, 2, 1), *_C[:2], num_groups=1, wanted=none(0, 2, 1))
add("LayerNormalization", none(0, 2), *_C[:2], wanted=none(0, 2))
add("LayerNormalization", line(2, 1), line(1), line(1))
add("RMSNormalization", line(2, 1), line(1), opset=23)
add("RMSNormalization", none(0, 2), line(2), opset=23, wanted=none(0, 2))
add("LRN", line(1, 1, 1, 1), size=1)
add("LRN", none(0, 2, 3, 3), size=3, wanted=none(0, 2, 3, 3))
add("MeanVarianceNormalization", line(1, 1, 1, 1), wanted=none(1, 1, 1, 1))

# Images.
for _mode in ("nearest", "linear", "cubic"):
    add("Resize", none(0, 1, 2, 2), None, np.float32([1, 1, 2, 2]), known=[2], mode=_mode, wanted=none(0, 1, 4, 4))
    add("Resize", line(1, 1, 1, 1), None, None, ints(1, 1, 3, 2), known=[3], mode=_mode)
    add("Resize", line(1, 1, 3, 2), None, None, ints(1, 1, 1, 1), known=[3], mode=_mode)
add("GridSample", line(1, 1, 1, 1), none(1, 1, 1, 2))
add("GridSample", none(0, 1, 2, 2), none(0, 3, 3, 2), wanted=none(0, 1, 3, 3))
add("Col2Im", line(1, 1, 1), ints(1, 1), ints(1, 1), known=[1, 2])

# Attention and recurrence.
add("Attention", none(0, 2, 3, 4), none(0, 2, 5, 4), none(0, 2, 5, 4), opset=23, wanted=none(0, 2, 3, 4))
add("Attention", none(1, 2, 0, 4), line(1, 2, 5, 4), line(1, 2, 5, 4), opset=23, wanted=none(1, 2, 0, 4))
add("Attention", line(1, 1, 1, 1), line(1, 1, 1, 1), line(1, 1, 1, 1), opset=23)
for _op, _gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    _w, _r = line(1, _gates * 2, 3, scale=0.125), line(1, _gates * 2, 2, scale=0.125)
    _h = (np.zeros((1, 1, 2), np.float32),)
    add(_op, line(1, 1, 3), _w, _r, hidden_size=2, outputs=2)
    add(_op, none(1, 0, 3), _w, _r, hidden_size=2, outputs=2, wanted=(none(1, 1, 0, 2), none(1, 0, 2)))
    add(_op, none(0, 1, 3), _w, _r, hidden_size=2, outputs=2, wanted=(none(0, 1, 1, 2), *_h))
    add(_op, line(1, 1, 1), line(1, _gates, 1), line(1, _gates, 1), hidden_size=1)

add("TensorScatter", line(1, 2, 3), none(1, 0, 3), ints(0), opset=24, wanted=line(1, 2, 3))
add("TensorScatter", line(1, 1, 3), line(1, 1, 3) + 1, ints(0), opset=24, wanted=line(1, 1, 3) + 1)

# Turns: none, and one.
_value, _type = helper.make_tensor_value_info, TensorProto.FLOAT
_body = helper.make_graph(
    [
        helper.make_node("Add", ["s", "s"], ["n"]),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Mul", ["n", "n"], ["r"]),
    ],
    "body",
    [_value("i", TensorProto.INT64, []), _value("c", TensorProto.BOOL, []), _value("s", _type, [2])],
    [_value("d", TensorProto.BOOL, []), _value("n", _type, [2]), _value("r", _type, [2])],
)
add("Loop", scalar(0), None, line(2), known=[0], body=_body, outputs=2, wanted=(line(2), none(0, 2)))
add("Loop", scalar(5), scalar(False, bool), line(2), known=[0, 1], body=_body, outputs=2, wanted=(line(2), none(0, 2)))
add(
    "Loop",
    scalar(1),
    scalar(True, bool),
    line(2),
    known=[0, 1],
    body=_body,
    outputs=2,
    wanted=(line(2) * 2, (line(2) * 2)[None] ** 2),
)
_step = helper.make_graph(
    [helper.make_node("Add", ["s", "x"], ["n"]), helper.make_node("Identity", ["n"], ["r"])],
    "body",
    [_value("s", _type, [2]), _value("x", _type, [2])],
    [_value("n", _type, [2]), _value("r", _type, [2])],
)
add("Scan", line(2), none(0, 2), body=_step, num_scan_inputs=1, outputs=2, wanted=(line(2), none(0, 2)))
add("Scan", line(2), line(1, 2), body=_step, num_scan_inputs=1, outputs=2)
