"""A front-end JSON model in the making: a method a layer, each giving the name of its result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = list[int | str]


@dataclass(frozen=True)
class Draw:
    """How an input's numbers are drawn: normal around `mean` with deviation `spread`, or integers below `below`, or
    bool when `below` is 2."""

    mean: float = 0.0
    spread: float = 1.0
    below: int = 0


@dataclass(frozen=True)
class RandomModel:
    """A front-end JSON model, and how the numbers of each of its inputs are drawn."""

    name: str
    graph: dict[str, Any]
    draws: Mapping[str, Draw]

    @property
    def text(self) -> str:
        """The front-end JSON text."""
        return json.dumps(self.graph, indent=1)

    @property
    def weights(self) -> tuple[str, ...]:
        """The inputs with role param."""
        return tuple(e["tensor"] for e in self.graph["signature"]["inputs"] if e.get("role") == "param")

    def arrays(self, seed: int = 0, **sizes: int) -> dict[str, np.ndarray]:
        """An array for every input, the same for the same seed; `sizes` are those of the symbols."""
        numbers = np.random.default_rng(seed)
        return {name: self._array(name, draw, numbers, sizes) for name, draw in self.draws.items()}

    def _array(self, name: str, draw: Draw, numbers: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        tensor = self.graph["tensors"][name]
        shape = [sizes[d] if isinstance(d, str) else d for d in tensor["shape"]]
        if draw.below:
            return numbers.integers(0, draw.below, shape).astype(
                {"i64": np.int64, "i32": np.int32, "bool": np.bool_}[tensor["dtype"]]
            )
        found = numbers.standard_normal(shape, np.float32) * np.float32(draw.spread) + np.float32(draw.mean)
        return found.astype({"fp32": np.float32, "fp16": np.float16}[tensor["dtype"]])


class Network:
    """Tensors are named by the op that gives them. Shapes are tracked and stated, so that reading the JSON checks
    them."""

    def __init__(self, name: str, dtype: str = "fp32"):
        self.name, self.dtype = name, dtype
        self.tensors: dict[str, dict[str, Any]] = {}
        self.inputs: list[dict[str, str]] = []
        self.ops: list[dict[str, Any]] = []
        self.draws: dict[str, Draw] = {}

    def shape(self, tensor: str) -> Shape:
        """A tensor's shape."""
        return list(self.tensors[tensor]["shape"])

    def input(self, name: str, shape: Shape, dtype: str = "", draw: Draw = Draw()) -> str:
        """An input with role data."""
        return self._input(name, shape, dtype, draw, {"role": "data"})

    def param(self, name: str, shape: Shape, spread: float = 0.1, mean: float = 0.0) -> str:
        """A weight."""
        return self._input(name, shape, "", Draw(mean, spread), {"role": "param", "storage": "const_pool"})

    def _input(self, name: str, shape: Shape, dtype: str, draw: Draw, attrs: dict[str, str]) -> str:
        self.tensors[name] = {"dtype": dtype or self.dtype, "shape": shape}
        self.inputs.append({"tensor": name, **attrs})
        self.draws[name] = draw
        return name

    def op(self, op: str, name: str, inputs: list[Any], shape: Shape, dtype: str = "", /, **attrs: Any) -> str:
        """An op and its one result, called as the op is."""
        self.tensors[name] = {"dtype": dtype or self.dtype, "shape": shape}
        self.ops.append(
            {"op": op, "name": name, "inputs": inputs, "outputs": [name], **({"attrs": attrs} if attrs else {})}
        )
        return name

    def model(self, *outputs: str) -> RandomModel:
        """The model that gives these tensors."""
        signature = {"inputs": self.inputs, "outputs": [{"tensor": o} for o in outputs]}
        return RandomModel(
            self.name,
            {"name": self.name, "signature": signature, "tensors": self.tensors, "graph": self.ops},
            self.draws,
        )

    # --- layers

    def elementwise(self, fn: str, name: str, *inputs: Any, **attrs: Any) -> str:
        """`fn` of tensors of one shape, or of numbers; the first is a tensor."""
        return self.op("Elementwise", name, list(inputs), self.shape(inputs[0]), fn=fn, **attrs)

    def conv(
        self,
        x: str,
        name: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        has_bias: bool = False,
        groups: int = 1,
    ) -> str:
        """A kernel of one length along each axis of x [N, C, ...]."""
        n, c, *space = self.shape(x)
        taps, side = [kernel] * len(space), c // groups
        weight = self.param(f"{name}.weight", [channels, side, *taps], math.sqrt(2 / (side * math.prod(taps))))
        inputs = [x, weight, *([self.param(f"{name}.bias", [channels])] if has_bias else [])]
        how = {"groups": groups} if groups > 1 else {}
        return self.op(
            "Conv", name, inputs, [n, channels, *_slid(space, kernel, stride, pad)], stride=[stride], pad=[pad], **how
        )

    def pool(self, x: str, name: str, mode: str, kernel: int, stride: int, pad: int = 0) -> str:
        """The greatest number of each window of x [N, C, ...], or their mean."""
        n, c, *space = self.shape(x)
        how = {"mode": mode, "kernel": [kernel], "stride": [stride], "pad": [pad]}
        return self.op("Pool", name, [x], [n, c, *_slid(space, kernel, stride, pad)], **how)

    def means(self, x: str, name: str) -> str:
        """Of each channel: x [N, C, ...] -> [N, C]."""
        n, c, *space = self.shape(x)
        found = self.op("Pool", name, [x], [n, c, *(1 for _ in space)], mode="average")
        return self.op("Flatten", f"{name}.flat", [found], [n, c])

    def normed(
        self,
        x: str,
        name: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        fn: str = "relu",
    ) -> str:
        """A convolution, its batch norm, and `fn` of that where one is given."""
        y = self.batch_norm(self.conv(x, f"{name}.conv", channels, kernel, stride, pad, groups=groups), f"{name}.bn")
        return self.elementwise(fn, f"{name}.{fn}", y) if fn else y

    def batch_norm(self, x: str, name: str) -> str:
        """Over the channels of x [N, C, ...]."""
        c = self.shape(x)[1]
        rest = [
            self.param(f"{name}.{part}", [c], 0.1, mean)
            for part, mean in (("scale", 1.0), ("shift", 0.0), ("mean", 0.0), ("variance", 1.0))
        ]
        return self.op("BatchNorm", name, [x, *rest], self.shape(x))

    def group_norm(self, x: str, name: str, groups: int) -> str:
        """Over each group of channels of x [N, C, ...]."""
        c = self.shape(x)[1]
        scale, shift = self.param(f"{name}.scale", [c], 0.1, 1.0), self.param(f"{name}.shift", [c])
        return self.op("GroupNorm", name, [x, scale, shift], self.shape(x), groups=groups)

    def turned(self, x: str, name: str, is_last: bool) -> str:
        """x [N, C, H, W] with its channels last, or back."""
        perm = [0, 2, 3, 1] if is_last else [0, 3, 1, 2]
        return self.op("Transpose", name, [x], [self.shape(x)[n] for n in perm], perm=perm)

    def joined(self, parts: list[str], name: str) -> str:
        """The channels of all parts [N, C, ...]; the part where it is the only one."""
        if len(parts) == 1:
            return parts[0]
        n, _, *space = self.shape(parts[0])
        return self.op("Concat", name, list(parts), [n, sum(self.shape(p)[1] for p in parts), *space], axis=1)

    def layer_norm(self, x: str, name: str) -> str:
        """Over the last axis."""
        size = self.shape(x)[-1]
        scale, shift = self.param(f"{name}.scale", [size], 0.1, 1.0), self.param(f"{name}.shift", [size])
        return self.op("LayerNorm", name, [x, scale, shift], self.shape(x))

    def linear(self, x: str, name: str, size: int) -> str:
        """x [..., K] @ weight [K, size] + bias."""
        *rows, k = self.shape(x)
        inputs = [x, self.param(f"{name}.weight", [k, size], 1 / math.sqrt(k)), self.param(f"{name}.bias", [size])]
        return self.op("GEMM", name, inputs, [*rows, size])

    def heads(self, x: str, name: str, count: int) -> str:
        """[B, S, count*D] -> [B, count, S, D]."""
        b, s, size = self.shape(x)
        split = self.op(
            "Reshape", f"{name}.split", [x], [b, s, count, size // count], shape=[b, s, count, size // count]
        )
        return self.op("Transpose", name, [split], [b, count, s, size // count], perm=[0, 2, 1, 3])

    def attention(self, q: str, k: str, v: str, name: str, heads: int, mask: str = "", is_causal: bool = False) -> str:
        """Multi-head attention of [B, S, H] projections, heads joined again."""
        b, s, size = self.shape(q)
        q, k, v = (self.heads(x, f"{name}.{part}", heads) for x, part in ((q, "q"), (k, "k"), (v, "v")))
        inputs = [q, k, v, mask] if mask else [q, k, v]
        attrs = {"causal": True} if is_causal else {}
        found = self.op("Attention", f"{name}.attention", inputs, [b, heads, s, size // heads], **attrs)
        turned = self.op("Transpose", f"{name}.back", [found], [b, s, heads, size // heads], perm=[0, 2, 1, 3])
        return self.op("Reshape", f"{name}.joined", [turned], [b, s, size], shape=[b, s, size])

    def split(self, x: str, names: list[str], axis: int = -1) -> list[str]:
        """x cut into equal parts along an axis."""
        shape = self.shape(x)
        shape[axis] //= len(names)
        for name in names:
            self.tensors[name] = {"dtype": self.dtype, "shape": shape}
        how = {"axis": axis, "parts": len(names)}
        self.ops.append({"op": "Split", "name": f"{x}.split", "inputs": [x], "outputs": names, "attrs": how})
        return names

    def embedding(self, table: str, ids: str, name: str) -> str:
        """Rows of `table` [V, H] at ids [...]."""
        return self.op("Embedding", name, [table, ids], [*self.shape(ids), self.shape(table)[-1]])


def _slid(space: Shape, kernel: int, stride: int, pad: int) -> Shape:
    """How many windows there are along each axis."""
    return [(size + 2 * pad - kernel) // stride + 1 for size in space]
