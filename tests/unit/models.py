"""Pieces of well-known models as tiny graphs, written as front ends write them: what the tests count regions of."""

from __future__ import annotations

from typing import Any

from tinyir.ir.expr import Expr
from tinyir.ir.model import Model, Origin, Shapes, Tensor
from tinyir.ir.ops import OPS
from tinyir.ir.rules import infer
from tinyir.ir.tiny import Module, Result, Value
from tinyir.ir.types import DTYPES, DType, TensorType

FP32 = DTYPES["fp32"]
Shape = list[Any]


class Net:
    """A tiny module in the making; a method an op of a model. Values are named `op.part`, the last one `op`."""

    def __init__(self, name: str, dtype: DType = FP32, **sizes: int):
        self.name, self.dtype, self.sizes = name, dtype, sizes
        self.inputs: list[Tensor] = []
        self.values: list[Value] = []
        self.types: dict[str, TensorType] = {}
        self.op = Origin(name, "model")
        self.count: dict[str, int] = {}

    def input(self, name: str, *shape: Any) -> str:
        self.types[name] = TensorType(self.dtype, tuple(map(Expr.of, shape)))
        self.inputs.append(Tensor(name, self.types[name]))
        return name

    def begin(self, kind: str) -> None:
        """A new op of the model, which the next values come from."""
        self.count[kind] = self.count.get(kind, 0) + 1
        self.op = Origin(f"{kind}{self.count[kind]}", kind)

    def put(
        self,
        op: str,
        *operands: str,
        shape: Shape | None = None,
        name: str = "",
        dtype: DType | None = None,
        **attrs: Any,
    ) -> str:
        stated = None if shape is None else TensorType(self.dtype, tuple(map(Expr.of, shape)))
        if "by" in attrs:
            attrs = {"op": attrs.pop("by"), "dtype": dtype, **attrs}
        found = infer(OPS[op], [self.types[o] for o in operands], attrs, stated)
        name = name or f"{self.op.name}.{len(self.values)}"
        self.types[name] = found
        self.values.append(
            Value(name, op, operands, tuple((k, attrs[k]) for k in OPS[op].attrs or {} if k in attrs), found, self.op)
        )
        return name

    def shape(self, name: str) -> Shape:
        return list(self.types[name].shape)

    def last(self, name: str) -> str:
        """The value under the op's own name."""
        old = self.values.pop()
        assert old.name == name
        self.types[self.op.name] = self.types.pop(name)
        self.values.append(Value(self.op.name, old.op, old.operands, old.attrs, old.type, old.origin))
        return self.op.name

    def like(self, x: str, wide: str, axis: int | None = None) -> str:
        """`x` broadcast to the shape of `wide`: a vector along `axis`, or right-aligned."""
        shape = self.shape(wide)
        if axis is not None:
            x = self.put("RESHAPE", x, shape=[shape[a] if a == axis else 1 for a in range(len(shape))])
        return self.put("EXPAND", x, shape=shape)

    def number(self, value: float, wide: str) -> str:
        """A constant of the shape of `wide`."""
        return self.put("EXPAND", self.put("CONST", shape=[], value=value), shape=self.shape(wide))

    def matmul(self, x: str, w: str, kind: str = "matmul") -> str:
        """x [..., M, K] @ w [..., K, N]; w has the batch axes of x, or none."""
        self.begin(kind)
        (*batch, m, k), n = self.shape(x), self.shape(w)[-1]
        left = self.put("EXPAND", self.put("RESHAPE", x, shape=[*batch, m, 1, k]), shape=[*batch, m, n, k])
        rank = len(self.shape(w))
        turned = self.put("PERMUTE", w, perm=(*range(rank - 2), rank - 1, rank - 2))
        lead = self.shape(w)[:-2] or [1] * len(batch)
        right = self.put("EXPAND", self.put("RESHAPE", turned, shape=[*lead, 1, n, k]), shape=[*batch, m, n, k])
        product = self.put("MUL", left, right)
        return self.last(self.put("REDUCE", product, by="SUM", axes=(len(batch) + 2,), dtype=FP32))

    def linear(self, x: str, inner: int, outer: int, kind: str = "linear") -> str:
        found = self.matmul(x, self.input(f"w{len(self.inputs)}", inner, outer), kind)
        return self.add(found, self.like(self.input(f"b{len(self.inputs)}", outer), found))

    def add(self, x: str, y: str) -> str:
        self.begin("add")
        return self.last(self.put("ADD", x, y))

    def relu(self, x: str) -> str:
        self.begin("relu")
        return self.last(self.put("RELU", x))

    def gelu(self, x: str) -> str:
        self.begin("gelu")
        scaled = self.put("MUL", x, self.number(0.70710678, x))
        one = self.put("ADD", self.put("ERF", scaled), self.number(1.0, x))
        return self.last(self.put("MUL", self.put("MUL", x, self.number(0.5, x)), one))

    def softmax(self, x: str) -> str:
        self.begin("softmax")
        axis, shape = len(self.shape(x)) - 1, self.shape(x)
        keep = [*shape[:-1], 1]
        top = self.put("RESHAPE", self.put("REDUCE", x, by="MAX", axes=(axis,), dtype=FP32), shape=keep)
        shifted = self.put("SUB", x, self.put("EXPAND", top, shape=shape))
        e = self.put("EXP2", self.put("MUL", shifted, self.number(1.442695, x)))
        total = self.put("RESHAPE", self.put("REDUCE", e, by="SUM", axes=(axis,), dtype=FP32), shape=keep)
        return self.last(self.put("FDIV", e, self.put("EXPAND", total, shape=shape)))

    def layernorm(self, x: str) -> str:
        self.begin("layernorm")
        shape = self.shape(x)
        axis, count = len(shape) - 1, float(self.sizes.get("hidden", 0) or shape[-1].constant)
        keep = [*shape[:-1], 1]

        def mean(v: str) -> str:
            kept = self.put("RESHAPE", self.put("REDUCE", v, by="SUM", axes=(axis,), dtype=FP32), shape=keep)
            return self.put("FDIV", kept, self.number(count, kept))

        d = self.put("SUB", x, self.put("EXPAND", mean(x), shape=shape))
        var = mean(self.put("MUL", d, d))
        rstd = self.put("RSQRT", self.put("ADD", var, self.number(1e-5, var)))
        norm = self.put("MUL", d, self.put("EXPAND", rstd, shape=shape))
        scaled = self.put("MUL", norm, self.like(self.input(f"g{len(self.inputs)}", shape[-1]), norm))
        return self.last(self.put("ADD", scaled, self.like(self.input(f"b{len(self.inputs)}", shape[-1]), scaled)))

    def rmsnorm(self, x: str) -> str:
        self.begin("rmsnorm")
        shape = self.shape(x)
        total = self.put("REDUCE", self.put("MUL", x, x), by="SUM", axes=(len(shape) - 1,), dtype=FP32)
        mean = self.put("FDIV", total, self.number(float(shape[-1].constant), total))
        root = self.put("RSQRT", self.put("ADD", mean, self.number(1e-5, mean)))
        wide = self.put("EXPAND", self.put("RESHAPE", root, shape=[*shape[:-1], 1]), shape=shape)
        return self.last(
            self.put("MUL", self.put("MUL", x, wide), self.like(self.input(f"g{len(self.inputs)}", shape[-1]), x))
        )

    def heads(self, x: str, count: int) -> str:
        """[B, S, count*d] -> [B, count, S, d]"""
        b, s, h = self.shape(x)
        split = self.put("RESHAPE", x, shape=[b, s, count, h // count])
        return self.put("PERMUTE", split, perm=(0, 2, 1, 3))

    def attention(self, x: str, hidden: int, heads: int, is_causal: bool = False) -> str:
        q, k, v = (self.heads(self.linear(x, hidden, hidden, part), heads) for part in ("q", "k", "v"))
        scores = self.matmul(q, self.put("PERMUTE", k, perm=(0, 1, 3, 2)), "scores")
        self.begin("scale")
        scores = self.last(self.put("MUL", scores, self.number((hidden // heads) ** -0.5, scores)))
        if is_causal:
            from tinyir.ir.expr import Bound

            scores = self.put(
                "VALID", scores, guard=(Bound(Expr.of("i2") - Expr.of("i3"), Expr.of(0)),), value=float("-inf")
            )
        found = self.matmul(self.softmax(scores), v, "context")
        joined = self.put("RESHAPE", self.put("PERMUTE", found, perm=(0, 2, 1, 3)), shape=self.shape(x))
        return self.linear(joined, hidden, hidden, "out")

    def conv(self, x: str, outer: int, size: int, stride: int = 1) -> str:
        """x [N, C, H, W], padded to keep its size before the stride; H and W are integers."""
        self.begin("conv")
        n, c, h, w = self.shape(x)
        weight = self.input(f"w{len(self.inputs)}", outer, c, size, size)
        pad = (size - 1) // 2
        padded = (
            self.put(
                "PAD",
                x,
                pad=((Expr.of(0),) * 2, (Expr.of(0),) * 2, (Expr.of(pad),) * 2, (Expr.of(pad),) * 2),
                value=0.0,
            )
            if pad
            else x
        )
        rows, columns = ((e + 2 * pad - size) // stride + 1 for e in (h, w))
        index = (Expr.of("i0"), Expr.of("i4"), Expr.of("i2") * stride + "i5", Expr.of("i3") * stride + "i6")
        windows = self.put("VIEW", padded, shape=[n, outer, rows, columns, c, size, size], index_map=index)
        wide = self.put(
            "EXPAND", self.put("RESHAPE", weight, shape=[1, outer, 1, 1, c, size, size]), shape=self.shape(windows)
        )
        return self.last(self.put("REDUCE", self.put("MUL", windows, wide), by="SUM", axes=(4, 5, 6), dtype=FP32))

    def batchnorm(self, x: str) -> str:
        self.begin("bn")
        channels = self.shape(x)[1]
        scaled = self.put("MUL", x, self.like(self.input(f"s{len(self.inputs)}", channels), x, 1))
        return self.last(self.put("ADD", scaled, self.like(self.input(f"t{len(self.inputs)}", channels), scaled, 1)))

    def module(self, **outputs: str) -> Module:
        """The module with these outputs."""
        tensors = tuple(Tensor(n, self.types[v]) for n, v in outputs.items())
        symbols = dict.fromkeys(n for t in self.inputs for d in t.type.shape for n in d.names())
        shapes = (Shapes("default", tuple((s, self.sizes.get(s, 8)) for s in symbols)),) if symbols else ()
        return Module(
            Model(self.name, tuple(self.inputs), tensors, (), shapes),
            tuple(self.values),
            tuple(Result(n, v) for n, v in outputs.items()),
        )


def bert_layer(net: Net, x: str, hidden: int, heads: int) -> str:
    """Post-norm encoder layer."""
    x = net.layernorm(net.add(net.attention(x, hidden, heads), x))
    inner = net.gelu(net.linear(x, hidden, 4 * hidden, "up"))
    return net.layernorm(net.add(net.linear(inner, 4 * hidden, hidden, "down"), x))


def gpt_layer(net: Net, x: str, hidden: int, heads: int) -> str:
    """Pre-norm decoder layer with causal attention."""
    x = net.add(net.attention(net.layernorm(x), hidden, heads, True), x)
    inner = net.gelu(net.linear(net.layernorm(x), hidden, 4 * hidden, "up"))
    return net.add(net.linear(inner, 4 * hidden, hidden, "down"), x)


def bottleneck(net: Net, x: str, inner: int, stride: int = 1) -> str:
    """A ResNet-50 block, with a projected shortcut where the shape changes."""
    y = net.relu(net.batchnorm(net.conv(x, inner, 1)))
    y = net.relu(net.batchnorm(net.conv(y, inner, 3, stride)))
    y = net.batchnorm(net.conv(y, 4 * inner, 1))
    same = net.shape(x)[1:] == net.shape(y)[1:]
    return net.relu(net.add(y, x if same else net.batchnorm(net.conv(x, 4 * inner, 1, stride))))
