"""The structures of exported models, small: what torch's exporter writes for blocks of well-known architectures, node
by node, from onnx.helper.

    python tests/models/exported.py DIR [NAME ...]      writes NAME.onnx, in fp16, and NAME.npz, its inputs

    graph = EXPORTED["swin"]("fp16")                    a Graph: graph.model(), graph.arrays()

Each keeps what is hard in the whole model: views that are reshapes around transposes, halves put together again,
windows, groups, heads that share keys, states that go from step to step; the sizes are a few elements a side.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_TYPES = {"fp16": np.float16, "fp32": np.float32}
FAR = (1 << 63) - 1


class Graph:
    """A model in the making; each method adds nodes and returns the name of their result."""

    def __init__(self, name: str, dtype: str):
        self.name, self.dtype, self.draw = name, _TYPES[dtype], np.random.default_rng(7)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.outputs: list[str] = []

    def input(self, name: str, *shape: int, below: int = 0) -> str:
        """An input: numbers, or ids that are less than `below`."""
        self.inputs[name] = (
            self.draw.integers(0, below, shape) if below else self.draw.standard_normal(shape).astype(self.dtype)
        )
        return name

    def const(self, value: Any, dtype: Any = None) -> str:
        """A constant, in the dtype of the model unless another is given."""
        name = f"const{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def ints(self, *values: int) -> str:
        """A list of integers."""
        return self.const(values, np.int64)

    def weight(self, *shape: int, near: float = 0.0) -> str:
        """Random weights, such that a product with them keeps its size; around `near` they are scales."""
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 25
        return self.const(self.draw.standard_normal(shape) / np.sqrt(fan) + near)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """A node."""
        names = [f"{kind.lower()}_{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attrs))
        return names[0] if outputs == 1 else names

    def gives(self, *names: str) -> Graph:
        """The same graph with its outputs."""
        self.outputs = list(names)
        return self

    def model(self) -> onnx.ModelProto:
        """The model, of opset 20."""
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.inputs.items()
        ]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            self.nodes,
            self.name,
            values,
            [helper.make_tensor_value_info(o, kind, None) for o in self.outputs],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs by name."""
        return dict(self.inputs)

    # --- what exporters write for a layer

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.ints(*shape), allowzero=1)

    def turn(self, x: str, *perm: int) -> str:
        return self.op("Transpose", x, perm=list(perm))

    def cut(self, x: str, axis: int, start: int, end: int) -> str:
        return self.op("Slice", x, self.ints(start), self.ints(end), self.ints(axis), self.ints(1))

    def unbind(self, x: str, axis: int, count: int) -> list[str]:
        return [self.op("Squeeze", self.cut(x, axis, i, i + 1), self.ints(axis)) for i in range(count)]

    def scaled(self, x: str, factor: float) -> str:
        return self.op("Mul", x, self.const(factor))

    def linear(self, x: str, width: int, out: int, has_bias: bool = True) -> str:
        found = self.op("MatMul", x, self.weight(width, out))
        return self.op("Add", found, self.weight(out)) if has_bias else found

    def layer_norm(self, x: str, width: int) -> str:
        return self.op("LayerNormalization", x, self.weight(width, near=1), self.weight(width), axis=-1, epsilon=1e-5)

    def rms_norm(self, x: str, width: int) -> str:
        wide = self.op("Cast", x, to=TensorProto.FLOAT)
        square = self.op("ReduceMean", self.op("Pow", wide, self.const(2.0, np.float32)), self.ints(-1), keepdims=1)
        root = self.op("Reciprocal", self.op("Sqrt", self.op("Add", square, self.const(1e-6, np.float32))))
        narrow = self.op("Cast", self.op("Mul", wide, root), to=helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)))
        return self.op("Mul", self.weight(width, near=1), narrow)

    def group_norm(self, x: str, groups: int, shape: Sequence[int]) -> str:
        flat = self.op("Reshape", x, self.ints(0, groups, -1))
        flat = self.op(
            "InstanceNormalization", flat, self.const(np.ones(groups)), self.const(np.zeros(groups)), epsilon=1e-5
        )
        back = self.op("Reshape", flat, self.ints(*shape))
        return self.op("Add", self.op("Mul", back, self.weight(shape[1], 1, 1, near=1)), self.weight(shape[1], 1, 1))

    def silu(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def conv(
        self,
        x: str,
        inner: int,
        outer: int,
        *kernel: int,
        stride: int = 1,
        pad: int = 0,
        group: int = 1,
        dilation: int = 1,
        has_bias: bool = True,
    ) -> str:
        rank = len(kernel)
        weights = [self.weight(outer, inner // group, *kernel)] + ([self.weight(outer)] if has_bias else [])
        return self.op(
            "Conv",
            x,
            *weights,
            kernel_shape=list(kernel),
            strides=[stride] * rank,
            pads=[pad] * 2 * rank,
            group=group,
            dilations=[dilation] * rank,
        )

    def heads(self, x: str, batch: int, length: int, count: int, depth: int) -> str:
        """[B, L, H*D] as [B, H, L, D]."""
        return self.turn(self.reshape(x, batch, length, -1, depth), 0, 2, 1, 3)

    def attention(
        self,
        q: str,
        k: str,
        v: str,
        batch: int,
        count: int,
        keys: int,
        depth: int,
        mask: str = "",
        scale: float | None = None,
        is_nan_safe: bool = False,
    ) -> str:
        """scaled_dot_product_attention: the keys turned as a batch of matrices, the root of the scale on either
        side."""
        turned = self.op(
            "Reshape",
            self.turn(self.op("Reshape", k, self.ints(-1, keys, depth)), 0, 2, 1),
            self.ints(batch, count, depth, keys),
        )
        root = (depth**-0.5 if scale is None else scale) ** 0.5
        if root != 1:
            q, turned = self.scaled(q, root), self.scaled(turned, root)
        scores = self.op("MatMul", q, turned)
        scores = self.op("Add", scores, mask) if mask else scores
        weights = self.op("Softmax", scores, axis=-1)
        if is_nan_safe:
            weights = self.op("Where", self.op("IsNaN", weights), self.const(0.0), weights)
        return self.op("MatMul", weights, v)

    def joined(self, x: str, batch: int, length: int) -> str:
        """[B, H, L, D] as [B, L, H*D]."""
        return self.reshape(self.turn(x, 0, 2, 1, 3), batch, length, -1)

    def causal(self, length: int, batch: int = 1) -> str:
        """0 where a query sees a key, a number far below elsewhere."""
        seen = self.op(
            "And", self.const(True, bool), self.const(np.tril(np.ones((batch, 1, length, length), bool)), bool)
        )
        return self.op("Where", seen, self.const(0.0), self.const(-65504.0))

    def rotated(self, x: str, cos: str, sin: str, depth: int) -> str:
        """Rotary positions: the halves exchanged, one of them negated."""
        first, second = self.cut(x, 3, 0, depth // 2), self.cut(x, 3, depth // 2, FAR)
        turned = self.op("Concat", self.op("Neg", second), first, axis=-1)
        return self.op("Add", self.op("Mul", x, cos), self.op("Mul", turned, sin))

    def angles(self, length: int, depth: int) -> tuple[str, str]:
        """The cosines and sines of rotary positions, computed in the graph."""
        half = np.arange(length)[:, None] / 100.0 ** (np.arange(0, depth, 2) / depth)
        whole = self.op("Concat", self.const(half[None], np.float32), self.const(half[None], np.float32), axis=-1)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        cos, sin = (
            self.op("Unsqueeze", self.op("Cast", self.op(f, whole), to=kind), self.ints(1)) for f in ("Cos", "Sin")
        )
        return cos, sin

    def repeated(self, x: str, batch: int, kv: int, each: int, length: int, depth: int) -> str:
        """[B, K, L, D] with each head `each` times, [B, K*each, L, D]."""
        wide = self.op("Expand", self.op("Unsqueeze", x, self.ints(2)), self.ints(batch, kv, each, length, depth))
        return self.reshape(wide, batch, kv * each, length, depth)


def unet(dtype: str) -> Graph:
    """GroupNorm as InstanceNormalization of groups, SiLU, convolutions, attention over an image, nearest upsampling, a
    skip."""
    g = Graph("unet", dtype)
    x = g.conv(g.input("x", 2, 4, 8, 8), 4, 16, 3, 3, pad=1)

    def block(x: str, inner: int, outer: int, size: int) -> str:
        y = g.conv(g.silu(g.group_norm(x, 4, (2, inner, size, size))), inner, outer, 3, 3, pad=1)
        y = g.conv(g.silu(g.group_norm(y, 4, (2, outer, size, size))), outer, outer, 3, 3, pad=1)
        return g.op("Add", y, x if inner == outer else g.conv(x, inner, outer, 1, 1))

    a = block(x, 16, 16, 8)
    y = g.conv(g.silu(g.conv(a, 16, 16, 3, 3, stride=2, pad=1)), 16, 32, 1, 1)
    parts = g.turn(g.reshape(g.conv(g.group_norm(y, 4, (2, 32, 4, 4)), 32, 96, 1, 1), 2, 3, 4, 8, 16), 0, 1, 2, 4, 3)
    q, k, v = g.unbind(parts, 1, 3)
    seen = g.reshape(g.turn(g.attention(q, k, v, 2, 4, 16, 8), 0, 1, 3, 2), 2, 32, 4, 4)
    y = g.op("Add", y, g.conv(seen, 32, 32, 1, 1))
    up = g.op(
        "Resize",
        y,
        "",
        g.const([1, 1, 2, 2], np.float32),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    y = g.op("Concat", g.conv(up, 32, 16, 3, 3, pad=1), a, axis=1)
    return g.gives(g.conv(block(y, 32, 16, 8), 16, 4, 3, 3, pad=1))


def swin(dtype: str) -> Graph:
    """Two blocks of windows, the second one's shifted by a roll, with a bias of relative positions and a mask; then
    patches merged."""
    g, side, window, width, heads = Graph("swin", dtype), 8, 4, 12, 3
    count, area, depth = (side // window) ** 2, window * window, width // heads
    x = g.layer_norm(g.turn(g.conv(g.input("x", 1, 3, 16, 16), 3, width, 2, 2, stride=2), 0, 2, 3, 1), width)

    def roll(x: str, shift: int) -> str:
        for axis in (1, 2):
            x = g.op("Concat", g.cut(x, axis, shift, side), g.cut(x, axis, 0, shift), axis=axis)
        return x

    for is_shifted in (False, True):
        y = g.layer_norm(x, width)
        y = roll(y, window // 2) if is_shifted else y
        y = g.op("Pad", y, g.ints(0, 0, 0, 0, 0, 0, 0, 0))
        y = g.turn(g.reshape(y, 1, side // window, window, side // window, window, width), 0, 1, 3, 2, 4, 5)
        y = g.linear(g.op("Reshape", y, g.ints(count, area, width)), width, 3 * width)
        q, k, v = g.unbind(g.turn(g.reshape(y, count, area, 3, heads, -1), 2, 0, 3, 1, 4), 0, 3)
        scores = g.op("MatMul", g.scaled(q, depth**-0.5), g.turn(k, 0, 1, 3, 2))
        scores = g.op("Add", scores, g.weight(1, heads, area, area))
        if is_shifted:
            mask = np.where(g.draw.random((count, area, area)) < 0.2, -100.0, 0.0)
            scores = g.op(
                "Add", g.reshape(scores, -1, count, heads, area, area), g.op("Unsqueeze", g.const(mask), g.ints(0, 2))
            )
            scores = g.reshape(scores, -1, heads, area, area)
        y = g.reshape(g.turn(g.op("MatMul", g.op("Softmax", scores, axis=-1), v), 0, 2, 1, 3), count, area, width)
        y = g.op("Reshape", g.linear(y, width, width), g.ints(1, side // window, side // window, window, window, width))
        y = g.reshape(g.turn(y, 0, 1, 3, 2, 4, 5), -1, side, side, width)
        y = roll(y, side - window // 2) if is_shifted else y
        x = g.reshape(g.op("Add", x, y), 1, -1, width)
        y = g.linear(g.op("Gelu", g.linear(g.layer_norm(x, width), width, 2 * width)), 2 * width, width)
        x = g.reshape(g.op("Add", x, y), 1, side, side, width)
    x = g.turn(g.reshape(x, 1, side // 2, 2, side // 2, 2, width), 0, 1, 3, 4, 2, 5)
    x = g.layer_norm(g.op("Reshape", x, g.ints(1, side // 2, side // 2, 4 * width)), 4 * width)
    return g.gives(g.linear(x, 4 * width, 2 * width, False))


def decode(dtype: str) -> Graph:
    """One step of a decoder: a new key and value behind those of the cache, heads that share them, one query."""
    g, batch, past, heads, kv, depth = Graph("decode", dtype), 2, 7, 4, 2, 8
    width, total = heads * depth, past + 1
    x, keys, values = (
        g.input("x", batch, 1, width),
        g.input("k", batch, kv, past, depth),
        g.input("v", batch, kv, past, depth),
    )
    q = g.turn(g.reshape(g.linear(x, width, width, False), -1, 1, heads, depth), 0, 2, 1, 3)
    both = g.turn(g.reshape(g.linear(x, width, 2 * kv * depth, False), -1, 1, 2, kv, depth), 2, 0, 3, 1, 4)
    new = g.unbind(both, 0, 2)
    k, v = (g.op("Concat", old, n, axis=2) for old, n in zip((keys, values), new))
    k, v = (g.repeated(s, batch, kv, heads // kv, total, depth) for s in (k, v))
    y = g.reshape(g.turn(g.attention(q, k, v, batch, heads, total, depth), 0, 2, 1, 3), -1, 1, width)
    return g.gives(g.linear(y, width, width, False))


def t5_encoder(dtype: str) -> Graph:
    """RMS norms, buckets of relative positions gathered as a bias, attention without a scale, and the clamp against
    overflow of halves."""
    g, length, width, heads, depth = Graph("t5_encoder", dtype), 8, 16, 2, 8
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype))
    x = g.op("Gather", g.weight(20, width), g.input("ids", 1, length, below=20), axis=0)
    far = g.const(np.arange(length)[None] - np.arange(length)[:, None], np.int64)
    later = g.op(
        "Mul", g.op("Cast", g.op("Greater", far, g.const(0, np.int64)), to=TensorProto.INT64), g.const(4, np.int64)
    )
    near = g.op("Abs", far)
    log = g.op("Log", g.op("Div", g.op("Cast", near, to=TensorProto.FLOAT), g.const(2.0, np.float32)))
    log = g.op(
        "Cast", g.op("Mul", g.op("Div", log, g.const(2.77, np.float32)), g.const(2.0, np.float32)), to=TensorProto.INT64
    )
    log = g.op("Min", g.op("Add", log, g.const(2, np.int64)), g.const(np.full((length, length), 3), np.int64))
    bucket = g.op("Add", later, g.op("Where", g.op("Less", near, g.const(2, np.int64)), near, log))
    bias = g.op("Unsqueeze", g.turn(g.op("Gather", g.weight(8, heads), bucket, axis=0), 2, 0, 1), g.ints(0))
    mask = g.op("Where", g.const(np.arange(length)[None, None, None] < length - 1, bool), bias, g.const(-65504.0))

    def clamped(x: str) -> str:
        bad = g.op("Cast", g.op("IsInf", g.op("Cast", x, to=TensorProto.FLOAT)), to=TensorProto.INT64)
        any_bad = g.op("Cast", g.op("ReduceMax", bad, keepdims=0), to=TensorProto.BOOL)
        top = g.op("Where", any_bad, g.const(64504.0, np.float32), g.const(65504.0, np.float32))
        low, high = (g.op("Cast", t, to=kind) for t in (g.op("Neg", top), top))
        return g.op("Min", g.op("Max", x, low), high)

    y = g.rms_norm(x, width)
    q, k, v = (g.heads(g.linear(y, width, width, False), 1, length, heads, depth) for _ in range(3))
    x = clamped(
        g.op(
            "Add",
            x,
            g.linear(
                g.joined(g.attention(q, k, v, 1, heads, length, depth, mask, scale=1.0), 1, length), width, width, False
            ),
        )
    )
    y = g.op("Relu", g.linear(g.rms_norm(x, width), width, 2 * width, False))
    return g.gives(g.rms_norm(clamped(g.op("Add", x, g.linear(y, 2 * width, width, False))), width))


def xlnet(dtype: str) -> Graph:
    """Time first, products by Einsum, scores of relative positions shifted by reshapes, a gather of the columns beside
    a product."""
    g, length, width, heads, depth = Graph("xlnet", dtype), 6, 12, 2, 6
    x = g.op("Gather", g.weight(20, width), g.turn(g.input("ids", 1, length, below=20), 1, 0), axis=0)
    angle = g.const(np.arange(length, -length, -1.0)[:, None] / 10.0 ** (np.arange(0, width, 2) / width), np.float32)
    place = g.op("Unsqueeze", g.op("Concat", g.op("Sin", angle), g.op("Cos", angle), axis=-1), g.ints(1))
    place = g.op("Cast", g.op("Expand", place, g.ints(1, 1, 1)), to=helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype)))
    q, k, v, r = (g.op("Einsum", t, g.weight(width, heads, depth), equation="ibh,hnd->ibnd") for t in (x, x, x, place))
    content = g.op("Einsum", g.op("Add", q, g.weight(heads, depth)), k, equation="ibnd,jbnd->bnij")
    shifted = g.op("Einsum", g.op("Add", q, g.weight(heads, depth)), r, equation="ibnd,jbnd->bnij")
    shifted = g.cut(g.reshape(shifted, 1, heads, 2 * length, length), 2, 1, FAR)
    shifted = g.op(
        "Gather", g.reshape(shifted, 1, heads, length, 2 * length - 1), g.const(np.arange(length), np.int64), axis=3
    )
    weights = g.op("Softmax", g.scaled(g.op("Add", content, shifted), depth**-0.5), axis=3)
    seen = g.op("Einsum", weights, v, equation="bnij,jbnd->ibnd")
    x = g.layer_norm(
        g.op("Add", g.op("Einsum", seen, g.weight(width, heads, depth), equation="ibnd,hnd->ibh"), x), width
    )
    y = g.linear(g.op("Gelu", g.linear(x, width, 2 * width)), 2 * width, width)
    return g.gives(g.layer_norm(g.op("Add", y, x), width))


def segformer(dtype: str) -> Graph:
    """Attention whose keys are of a smaller image, made by a convolution of the tokens; a feed-forward with a
    convolution of each channel."""
    g, side, ratio, width = Graph("segformer", dtype), 8, 4, 16
    length, keys = side * side, (side // ratio) ** 2
    x = g.reshape(g.conv(g.input("x", 1, 3, 32, 32), 3, width, 7, 7, stride=4, pad=3, has_bias=False), 1, width, length)
    x = g.layer_norm(g.turn(x, 0, 2, 1), width)
    y = g.layer_norm(x, width)
    q = g.heads(g.linear(y, width, width), 1, length, 1, width)
    small = g.conv(
        g.reshape(g.turn(y, 0, 2, 1), 1, width, side, side), width, width, ratio, ratio, stride=ratio, has_bias=False
    )
    small = g.layer_norm(g.turn(g.reshape(small, 1, width, -1), 0, 2, 1), width)
    k, v = (g.heads(g.linear(small, width, width), 1, keys, 1, width) for _ in range(2))
    x = g.op("Add", g.linear(g.joined(g.attention(q, k, v, 1, 1, keys, width), 1, length), width, width), x)
    y = g.linear(g.layer_norm(x, width), width, 4 * width)
    y = g.conv(
        g.reshape(g.turn(y, 0, 2, 1), 1, 4 * width, side, side),
        4 * width,
        4 * width,
        3,
        3,
        pad=1,
        group=4 * width,
        has_bias=False,
    )
    y = g.op("Gelu", g.turn(g.reshape(y, 1, 4 * width, length), 0, 2, 1))
    return g.gives(g.op("Add", g.linear(y, 4 * width, width), x))


def shufflenet(dtype: str) -> Graph:
    """Channels shuffled between groups by a reshape around a transpose, then split."""
    g, width, half = Graph("shufflenet", dtype), 8, 4
    x = g.op("Relu", g.conv(g.input("x", 1, 3, 16, 16), 3, width, 3, 3, stride=2, pad=1, has_bias=False))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])

    def shuffled(parts: Sequence[str], size: int, width: int) -> str:
        y = g.turn(g.reshape(g.op("Concat", *parts, axis=1), 1, 2, width // 2, size, size), 0, 2, 1, 3, 4)
        return g.reshape(y, 1, width, size, size)

    def branch(x: str, inner: int, outer: int, stride: int) -> str:
        y = g.op("Relu", g.conv(x, inner, outer, 1, 1, has_bias=False))
        y = g.conv(y, outer, outer, 3, 3, stride=stride, pad=1, group=outer, has_bias=False)
        return g.op("Relu", g.conv(y, outer, outer, 1, 1, has_bias=False))

    short = g.conv(x, width, width, 3, 3, stride=2, pad=1, group=width, has_bias=False)
    y = shuffled(
        [g.op("Relu", g.conv(short, width, width, 1, 1, has_bias=False)), branch(x, width, width, 2)], 2, 2 * width
    )
    for _ in range(2):
        left, right = g.op("Split", y, axis=1, num_outputs=2, outputs=2)
        y = shuffled([left, branch(right, width, width, 1)], 2, 2 * width)
    pooled = g.op("ReduceMean", y, g.ints(2, 3), keepdims=0)
    return g.gives(g.op("Gemm", pooled, g.weight(half, 2 * width), g.weight(half), transB=1))


def ghostnet(dtype: str) -> Graph:
    """Ghost modules: half of the channels computed, half made of these by a convolution of each; squeeze and
    excitation."""
    g, width = Graph("ghostnet", dtype), 8
    x = g.op("Relu", g.conv(g.input("x", 1, 3, 12, 12), 3, width, 3, 3, stride=2, pad=1, has_bias=False))

    def ghost(x: str, inner: int, outer: int, is_active: bool) -> str:
        a = g.conv(x, inner, outer // 2, 1, 1, has_bias=False)
        a = g.op("Relu", a) if is_active else a
        b = g.conv(a, outer // 2, outer // 2, 3, 3, pad=1, group=outer // 2, has_bias=False)
        return g.op("Concat", a, g.op("Relu", b) if is_active else b, axis=1)

    x = g.op("Add", ghost(ghost(x, width, width, True), width, width, False), x)
    y = g.conv(
        ghost(x, width, 3 * width, True), 3 * width, 3 * width, 3, 3, stride=2, pad=1, group=3 * width, has_bias=False
    )
    gate = g.op("ReduceMean", y, g.ints(2, 3), keepdims=1)
    gate = g.op(
        "HardSigmoid", g.conv(g.op("Relu", g.conv(gate, 3 * width, 4, 1, 1)), 4, 3 * width, 1, 1), alpha=1 / 6, beta=0.5
    )
    y = ghost(g.op("Mul", y, gate), 3 * width, 2 * width, False)
    short = g.conv(x, width, width, 3, 3, stride=2, pad=1, group=width, has_bias=False)
    return g.gives(g.op("Add", y, g.conv(short, width, 2 * width, 1, 1, has_bias=False)))


def lstm(dtype: str) -> Graph:
    """Both directions; the gates of the weights put in ONNX's order by slices and concats; initial states."""
    g, steps, batch, width, hidden = Graph("lstm", dtype), 3, 2, 6, 4
    x = g.turn(g.input("x", batch, steps, width), 1, 0, 2)
    kept = []
    for rows, columns in ((4 * hidden, width), (4 * hidden, hidden)):
        sides = []
        for _ in range(2):
            whole = g.weight(rows, columns)
            i, f, c, o = (
                g.op("Slice", whole, g.ints(n * hidden), g.ints((n + 1) * hidden), g.ints(0)) for n in range(4)
            )
            sides.append(g.op("Unsqueeze", g.op("Concat", i, o, f, c, axis=0), g.ints(0)))
        kept.append(g.op("Concat", *sides, axis=0))
    h, c = (g.input(word, 2, batch, hidden) for word in ("h", "c"))
    y, last, cell = g.op(
        "LSTM", x, *kept, g.weight(2, 8 * hidden), "", h, c, outputs=3, hidden_size=hidden, direction="bidirectional"
    )
    x = g.op("Reshape", g.turn(y, 0, 2, 1, 3), g.ints(0, 0, -1))
    return g.gives(g.linear(g.turn(x, 1, 0, 2), 2 * hidden, 5), last, cell)


def convnext(dtype: str) -> Graph:
    """A wide convolution of each channel, LayerNorm with channels last, an inverted bottleneck, a scale of each
    channel."""
    g, width = Graph("convnext", dtype), 8
    x = g.turn(g.conv(g.input("x", 1, 3, 16, 16), 3, width, 4, 4, stride=4), 0, 2, 3, 1)
    x = g.turn(g.layer_norm(x, width), 0, 3, 1, 2)
    for _ in range(2):
        y = g.turn(g.conv(x, width, width, 7, 7, pad=3, group=width), 0, 2, 3, 1)
        y = g.linear(g.op("Gelu", g.linear(g.layer_norm(y, width), width, 4 * width)), 4 * width, width)
        x = g.op("Add", g.op("Mul", g.turn(y, 0, 3, 1, 2), g.weight(1, width, 1, 1)), x)
    pooled = g.op("ReduceMean", x, g.ints(-2, -1), keepdims=1)
    return g.gives(g.op("Gemm", g.reshape(pooled, 1, width), g.weight(5, width), g.weight(5), transB=1))


def densenet(dtype: str) -> Graph:
    """Each layer reads all before it, put together again and again; a transition that halves the image."""
    g, width, grown = Graph("densenet", dtype), 8, 4
    x = g.op("Relu", g.conv(g.input("x", 1, 3, 16, 16), 3, width, 3, 3, stride=2, pad=1))

    def norm(x: str, width: int) -> str:
        return g.op(
            "BatchNormalization",
            x,
            g.weight(width, near=1),
            g.weight(width),
            g.weight(width),
            g.const(g.draw.random(width) + 0.5),
        )

    parts, total = [x], width
    for _ in range(2):
        whole = g.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        y = g.conv(g.op("Relu", norm(whole, total)), total, 2 * grown, 1, 1)
        parts.append(g.conv(g.op("Relu", y), 2 * grown, grown, 3, 3, pad=1, has_bias=False))
        total += grown
    y = g.conv(g.op("Relu", norm(g.op("Concat", *parts, axis=1), total)), total, total // 2, 1, 1, has_bias=False)
    return g.gives(g.op("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]))


def mobilenet(dtype: str) -> Graph:
    """Inverted residuals with HardSwish."""
    g, width = Graph("mobilenet", dtype), 8
    x = g.op("HardSwish", g.conv(g.input("x", 1, 3, 16, 16), 3, width, 3, 3, stride=2, pad=1))
    y = g.op("HardSwish", g.conv(x, width, 3 * width, 1, 1))
    y = g.op("HardSwish", g.conv(y, 3 * width, 3 * width, 5, 5, pad=2, group=3 * width))
    x = g.op("Add", g.conv(y, 3 * width, width, 1, 1), x)
    pooled = g.op("ReduceMean", x, g.ints(2, 3), keepdims=1)
    return g.gives(
        g.op(
            "Gemm",
            g.reshape(g.op("HardSwish", g.conv(pooled, width, 16, 1, 1)), 1, 16),
            g.weight(5, 16),
            g.weight(5),
            transB=1,
        )
    )


def efficientnet(dtype: str) -> Graph:
    """Squeeze and excitation with SiLU."""
    g, width = Graph("efficientnet", dtype), 8
    x = g.silu(g.conv(g.input("x", 2, 3, 16, 16), 3, width, 3, 3, stride=2, pad=1))
    y = g.silu(g.conv(g.silu(g.conv(x, width, 4 * width, 1, 1)), 4 * width, 4 * width, 3, 3, pad=1, group=4 * width))
    gate = g.silu(g.conv(g.op("ReduceMean", y, g.ints(2, 3), keepdims=1), 4 * width, 2, 1, 1))
    y = g.op("Mul", y, g.op("Sigmoid", g.conv(gate, 2, 4 * width, 1, 1)))
    return g.gives(g.op("Add", g.conv(y, 4 * width, width, 1, 1), x))


def gemma2(dtype: str) -> Graph:
    """Norms around every part, rotary positions, grouped heads, a window of keys, a gate with GELU by tanh."""
    return _decoder(Graph("gemma2", dtype), length=8, heads=4, kv=2, depth=4, has_bias=False, is_gemma=True)


def qwen2(dtype: str) -> Graph:
    """A bias on queries, keys and values, rotary positions, grouped heads, a gate with SiLU."""
    return _decoder(Graph("qwen2", dtype), length=8, heads=4, kv=1, depth=4, has_bias=True, is_gemma=False)


def _decoder(g: Graph, length: int, heads: int, kv: int, depth: int, has_bias: bool, is_gemma: bool) -> Graph:
    batch, width, each = 2, heads * depth, heads // kv
    x = g.op("Gather", g.weight(20, width), g.input("ids", batch, length, below=20), axis=0)
    x = g.scaled(x, width**0.5) if is_gemma else x
    mask = g.causal(length)
    if is_gemma:
        far = np.arange(length)[:, None] - np.arange(length)[None]
        mask = g.op("Where", g.const((far < 3)[None, None], bool), mask, g.const(-65504.0))
    cos, sin = g.angles(length, depth)
    y = g.rms_norm(x, width)
    q = g.rotated(g.heads(g.linear(y, width, width, has_bias), batch, length, heads, depth), cos, sin, depth)
    k = g.rotated(g.heads(g.linear(y, width, kv * depth, has_bias), batch, length, kv, depth), cos, sin, depth)
    v = g.heads(g.linear(y, width, kv * depth, has_bias), batch, length, kv, depth)
    k, v = (g.repeated(s, batch, kv, each, length, depth) for s in (k, v))
    y = g.linear(
        g.joined(g.attention(q, k, v, batch, heads, length, depth, mask, is_nan_safe=True), batch, length),
        width,
        width,
        False,
    )
    x = g.op("Add", x, g.rms_norm(y, width) if is_gemma else y)
    y = g.rms_norm(x, width)
    gate, linear = g.linear(y, width, 2 * width, False), g.linear(y, width, 2 * width, False)
    y = g.linear(
        g.op("Mul", g.op("Gelu", gate, approximate="tanh") if is_gemma else g.silu(gate), linear),
        2 * width,
        width,
        False,
    )
    return g.gives(g.op("Add", x, g.rms_norm(y, width) if is_gemma else y))


def mamba(dtype: str) -> Graph:
    """A convolution over the past, then the scan of a state space step by step."""
    g, length, width, inner, state = Graph("mamba", dtype), 4, 8, 12, 3
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype))

    def wide(x: str) -> str:
        return g.op("Cast", x, to=TensorProto.FLOAT)

    x = g.op("Gather", g.weight(20, width), g.input("ids", 1, length, below=20), axis=0)
    both = g.turn(g.linear(g.rms_norm(x, width), width, 2 * inner, False), 0, 2, 1)
    y, gate = g.op("Split", both, axis=1, num_outputs=2, outputs=2)
    y = g.silu(g.cut(g.conv(y, inner, inner, 4, pad=3, group=inner), 2, 0, length))
    step, b, c = g.op(
        "Split", g.linear(g.turn(y, 0, 2, 1), inner, 2 + 2 * state, False), g.ints(2, state, state), axis=2, outputs=3
    )
    step = g.op("Add", g.op("MatMul", g.weight(inner, 2), g.turn(step, 0, 2, 1)), g.weight(inner, 1))
    step = g.op("Where", g.op("Greater", step, g.const(20.0)), step, g.op("Softplus", step))
    rate = g.op("Neg", g.op("Exp", wide(g.weight(inner, state))))
    step = wide(g.op("Unsqueeze", step, g.ints(3)))
    decay = g.op("Exp", g.op("Mul", g.op("Unsqueeze", rate, g.ints(0, 2)), step))
    fed = g.op("Mul", g.op("Mul", step, wide(g.op("Unsqueeze", b, g.ints(1)))), wide(g.op("Unsqueeze", y, g.ints(3))))
    h, rows = wide(g.const(np.zeros((1, inner, state)))), []
    for at in range(length):
        place = g.const(at, np.int64)
        h = g.op("Add", g.op("Mul", g.op("Gather", decay, place, axis=2), h), g.op("Gather", fed, place, axis=2))
        column = g.op("Unsqueeze", g.op("Gather", c, place, axis=1), g.ints(-1))
        rows.append(
            g.op(
                "Unsqueeze",
                g.op("Gather", g.op("MatMul", g.op("Cast", h, to=kind), column), g.const(0, np.int64), axis=2),
                g.ints(-1),
            )
        )
    seen = g.op("Add", g.op("Concat", *rows, axis=-1), g.op("Mul", y, g.weight(1, inner, 1)))
    seen = g.op("Mul", seen, g.silu(gate))
    return g.gives(g.op("Add", x, g.linear(g.turn(seen, 0, 2, 1), inner, width, False)))


def moe(dtype: str) -> Graph:
    """The two best of some experts for each token, their weights scattered, all experts by Einsum."""
    g, tokens, width, experts, inner = Graph("moe", dtype), 6, 8, 4, 12
    x = g.input("x", tokens, width)
    gate = g.op("Gemm", x, g.weight(experts, width), g.weight(experts), transB=1)
    best, place = g.op(
        "TopK", g.op("Softmax", g.op("Cast", gate, to=TensorProto.FLOAT), axis=-1), g.ints(2), axis=-1, outputs=2
    )
    best = g.op("Div", best, g.op("ReduceSum", best, g.ints(-1), keepdims=1))
    spread = g.op("ScatterElements", g.const(np.zeros((tokens, experts)), np.float32), place, best, axis=-1)
    hidden = g.op("Relu", g.op("Einsum", x, g.weight(experts, width, inner), equation="td,edh->teh"))
    spread = g.op("Cast", spread, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype)))
    return g.gives(g.op("Einsum", hidden, g.weight(experts, inner, width), spread, equation="teh,ehd,te->td"))


def hifigan(dtype: str) -> Graph:
    """Upsampling by transposed convolutions, and residual sums of dilated ones."""
    g, width = Graph("hifigan", dtype), 8
    x = g.conv(g.input("x", 1, 5, 6), 5, width, 7, pad=3)
    x = g.op(
        "ConvTranspose",
        x,
        g.weight(width, width // 2, 4),
        g.weight(width // 2),
        kernel_shape=[4],
        strides=[2],
        pads=[1, 1],
    )
    total = ""
    for kernel, dilation in ((3, 1), (3, 3)):
        y = g.conv(
            g.op("LeakyRelu", x, alpha=0.1),
            width // 2,
            width // 2,
            kernel,
            pad=dilation * (kernel - 1) // 2,
            dilation=dilation,
        )
        y = g.op("Add", x, y)
        total = g.op("Add", total, y) if total else y
    x = g.op("LeakyRelu", g.op("Div", total, g.const(2.0)))
    return g.gives(g.op("Tanh", g.conv(x, width // 2, 1, 7, pad=3)))


def unet3d(dtype: str) -> Graph:
    """Convolutions in three dimensions, a norm of each image, a skip."""
    g, width = Graph("unet3d", dtype), 4
    a = g.conv(g.input("x", 1, 1, 4, 6, 8), 1, width, 3, 3, 3, pad=1)
    a = g.op("LeakyRelu", g.op("InstanceNormalization", a, g.weight(width, near=1), g.weight(width)), alpha=0.01)
    y = g.op("Relu", g.conv(a, width, 2 * width, 3, 3, 3, stride=2, pad=1))
    y = g.op(
        "ConvTranspose",
        y,
        g.weight(2 * width, width, 2, 2, 2),
        g.weight(width),
        kernel_shape=[2, 2, 2],
        strides=[2, 2, 2],
    )
    return g.gives(g.op("Softmax", g.conv(g.op("Concat", a, y, axis=1), 2 * width, 2, 3, 3, 3, pad=1), axis=1))


def dpt(dtype: str) -> Graph:
    """A large stride, a transposed convolution, a dilated one, bilinear resizing to another ratio."""
    g = Graph("dpt", dtype)
    x = g.op("Relu", g.conv(g.input("x", 1, 3, 18, 22), 3, 8, 7, 7, stride=4, pad=3))
    x = g.op(
        "ConvTranspose", x, g.weight(8, 4, 4, 4), g.weight(4), kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    x = g.op("HardSwish", g.conv(g.op("Gelu", x), 4, 4, 3, 3, pad=2, dilation=2))
    x = g.op(
        "Resize", x, "", "", g.ints(1, 4, 12, 15), mode="linear", coordinate_transformation_mode="pytorch_half_pixel"
    )
    return g.gives(g.op("Sigmoid", g.conv(x, 4, 1, 1, 1)))


def _encoder(
    g: Graph, x: str, batch: int, length: int, width: int, heads: int, gelu: Callable[[str], str], mask: str = ""
) -> str:
    """A layer of a transformer that normalises first."""
    y, depth = g.layer_norm(x, width), width // heads
    q, k, v = (g.heads(g.linear(y, width, width), batch, length, heads, depth) for _ in range(3))
    x = g.op(
        "Add",
        x,
        g.linear(g.joined(g.attention(q, k, v, batch, heads, length, depth, mask), batch, length), width, width),
    )
    return g.op("Add", x, g.linear(gelu(g.linear(g.layer_norm(x, width), width, 2 * width)), 2 * width, width))


def whisper(dtype: str) -> Graph:
    """Sound through two convolutions, a table of positions, an encoder layer, a clip."""
    g, width, length = Graph("whisper", dtype), 16, 6
    x = g.op("Gelu", g.conv(g.input("x", 1, 5, 12), 5, width, 3, pad=1))
    x = g.op("Gelu", g.conv(x, width, width, 3, stride=2, pad=1))
    places = g.op("Gather", g.weight(length, width), g.const(np.arange(length), np.int64), axis=0)
    x = _encoder(g, g.op("Add", g.turn(x, 0, 2, 1), places), 1, length, width, 2, lambda y: g.op("Gelu", y))
    return g.gives(g.layer_norm(g.op("Clip", x, g.const(-64504.0), g.const(64504.0)), width))


def clip(dtype: str) -> Graph:
    """Patches behind a token of their own, a table of positions, an encoder layer with GELU by a sigmoid."""
    g, width, side = Graph("clip", dtype), 16, 3
    length, batch = side * side + 1, 2
    x = g.conv(g.input("x", batch, 3, 12, 12), 3, width, 4, 4, stride=4, has_bias=False)
    x = g.turn(g.reshape(x, batch, width, -1), 0, 2, 1)
    token = g.op("Expand", g.weight(1, 1, width), g.ints(batch, 1, width))
    x = g.op(
        "Add",
        g.op("Concat", token, x, axis=1),
        g.op("Gather", g.weight(length, width), g.const(np.arange(length)[None], np.int64), axis=0),
    )
    x = _encoder(
        g,
        g.layer_norm(x, width),
        batch,
        length,
        width,
        2,
        lambda y: g.op("Mul", y, g.op("Sigmoid", g.scaled(y, 1.702))),
    )
    return g.gives(g.layer_norm(g.op("Gather", x, g.const(0, np.int64), axis=1), width))


def distilbert(dtype: str) -> Graph:
    """Embeddings, a layer that normalises last, a mask of ids, scores that may be NaN."""
    g, batch, length, width, heads = Graph("distilbert", dtype), 2, 8, 16, 2
    depth = width // heads
    ids = g.input("ids", batch, length, below=20)
    x = g.op(
        "Add",
        g.op("Gather", g.weight(20, width), ids, axis=0),
        g.op("Gather", g.weight(length, width), g.const(np.arange(length)[None], np.int64), axis=0),
    )
    x = g.layer_norm(x, width)
    seen = g.op("Unsqueeze", g.op("Greater", ids, g.const(2, np.int64)), g.ints(1, 2))
    mask = g.op("Where", seen, g.const(0.0), g.const(-65504.0))
    q, k, v = (g.heads(g.linear(x, width, width), batch, length, heads, depth) for _ in range(3))
    y = g.joined(g.attention(q, k, v, batch, heads, length, depth, mask, is_nan_safe=True), batch, length)
    x = g.layer_norm(g.op("Add", g.linear(y, width, width), x), width)
    return g.gives(
        g.layer_norm(g.op("Add", g.linear(g.op("Gelu", g.linear(x, width, 2 * width)), 2 * width, width), x), width)
    )


EXPORTED: dict[str, Callable[[str], Graph]] = {
    f.__name__: f
    for f in (
        unet,
        swin,
        decode,
        t5_encoder,
        xlnet,
        segformer,
        shufflenet,
        ghostnet,
        lstm,
        convnext,
        densenet,
        mobilenet,
        efficientnet,
        gemma2,
        qwen2,
        mamba,
        moe,
        hifigan,
        unet3d,
        dpt,
        whisper,
        clip,
        distilbert,
    )
}


def main(argv: Sequence[str]) -> int:
    """Write the models that are named, or all of them."""
    folder, *names = argv
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or EXPORTED:
        graph = EXPORTED[name]("fp16")
        onnx.save(graph.model(), Path(folder) / f"{name}.onnx")
        np.savez(Path(folder) / f"{name}.npz", **graph.arrays())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
