"""Attention written out in tiny's ops, in as many ways as there are to spell it: for the tests of the rule that finds
it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyir.front.builder import Builder, Literal, Ref
from tinyir.front.ops.movement import concat
from tinyir.ir import tiny
from tinyir.ir.expr import ZERO, Bound, Expr
from tinyir.ir.model import Model, Range, Shapes, Tensor
from tinyir.ir.types import DTYPES, TensorType

FP32 = DTYPES["fp32"]
INF = math.inf


@dataclass(frozen=True)
class Spelling:
    """How one attention is written. `scores` are works on a score, one after the other; `softmax`, `weights` and
    `outputs` name functions below; `layout` is how q, k, v and y are stored: h, s, t, d and e are the axes."""

    scores: Sequence[str] = ("scale",)
    softmax: str = "usual"
    weights: Sequence[str] = ()
    outputs: Sequence[str] = ()
    layout: Sequence[str] = ("hsd", "htd", "hte", "hse")
    dtype: str = "fp32"
    sizes: tuple[int, int, int, int, int] = (2, 21, 37, 16, 16)  # h, s, t, d, e
    names: Sequence[str] = ("q", "k", "v", "y")
    repeat: int = 1  # query heads of one key head
    is_turned: bool = False  # keys are scaled after they are transposed, as torch's exporter does it
    past: int = 0  # columns of a cache before the keys and values
    symbols: str = ""  # axes whose length is a symbol of the axis's name, planned for that of `sizes`


class Writer:
    """One model in the making."""

    def __init__(self, how: Spelling):
        self.b, self.how = Builder(), how
        self.size = {a: Expr.of(a) if a in how.symbols else n for a, n in zip("hstde", how.sizes)}
        self.outputs: list[tuple[str, Ref]] = []
        self.b.open(None, "a")

    def input(self, name: str, dtype: str, *shape: int) -> Ref:
        """An input of the model."""
        return self.b.input(Tensor(name, TensorType(DTYPES[dtype], tuple(map(Expr.of, shape)))))

    def number(self, value: float) -> Literal:
        """A number beside a tensor."""
        return Literal(value)

    def module(self) -> tiny.Module:
        """The model."""
        how, b = self.how, self.b
        q = self.input(how.names[0], how.dtype, *(self.size[a] for a in how.layout[0]))
        k, v = (self._kept(name, axes) for name, axes in zip(how.names[1:3], how.layout[1:]))
        keys = how.layout[1]
        if how.is_turned:
            keys = "hdt"
            k = b.apply("MUL", b.permute(k, [how.layout[1].index(a) for a in keys]), self.number(0.5))
        s = b.contract(q, how.layout[0], k, keys, "hst", FP32)
        for work in how.scores:
            s = getattr(self, f"score_{work}")(s)
        weights, over = getattr(self, f"softmax_{how.softmax}")(s)
        for work in how.weights:
            weights = getattr(self, f"weight_{work}")(weights)
        y = b.contract(b.cast(weights, DTYPES[how.dtype]), "hst", v, how.layout[2], "hse", FP32)
        if over is not None:
            y = b.apply("FDIV", y, over)
        y = b.permute(y, ["hse".index(a) for a in how.layout[3]])
        self.outputs.insert(0, (how.names[3], b.cast(y, DTYPES[how.dtype])))
        count = len(self.outputs)
        b.close([r for _, r in self.outputs], [n for n, _ in self.outputs], [None] * count, [None] * count)
        given = tuple(Tensor(r.name, r.type) for r in b.inputs)
        outputs = tuple(Tensor(name, ref.type) for name, ref in self.outputs)
        planned = tuple((a, n) for a, n in zip("hstde", how.sizes) if a in how.symbols)
        sets = (Shapes("first", planned),) if planned else ()
        ranges = tuple(Range(a, 1, 1 << 20) for a, _ in planned)
        return b.finish(Model("naive", given, outputs, ranges, sets), self.outputs)

    def _kept(self, name: str, axes: str) -> Ref:
        """The keys or values: after a cache's, each head repeated as exporters do."""
        how, b = self.how, self.b
        size = {**self.size, "h": self.size["h"] // how.repeat}
        found = self.input(name, how.dtype, *((size[a] - how.past if a == "t" else size[a]) for a in axes))
        if how.past:
            cache = self.input(f"{name}.past", how.dtype, *(how.past if a == "t" else size[a] for a in axes))
            found = concat(b, [cache, found], axes.index("t"))
        if how.repeat == 1:
            return found
        shape = list(found.shape)
        found = b.reshape(found, [shape[0], 1, *shape[1:]])
        found = b.expand(found, [shape[0], Expr.of(how.repeat), *shape[1:]])
        return b.reshape(found, [Expr.of(self.size["h"]), *shape[1:]])

    # --- work on a score

    def score_scale(self, s: Ref) -> Ref:
        return self.b.apply("MUL", s, self.number(0.25))

    def score_round(self, s: Ref) -> Ref:
        return self.b.cast(self.b.cast(s, DTYPES["fp16"]), FP32)

    def score_bias(self, s: Ref) -> Ref:
        return self.b.apply("ADD", s, self.input("bias", "fp32", self.size["s"], self.size["t"]))

    def score_mask(self, s: Ref) -> Ref:
        return self.b.apply("WHERE", self.input("mask", "bool", self.size["s"], self.size["t"]), s, self.number(-INF))

    def score_causal(self, s: Ref) -> Ref:
        return self.b.valid(s, [Bound(Expr.of("i1") - "i2" + 5, lower=ZERO)], -INF)

    def score_window(self, s: Ref) -> Ref:
        return self.b.valid(s, [Bound(Expr.of("i1") - "i2", lower=ZERO, upper=Expr.of(7))], -INF)

    def score_softcap(self, s: Ref) -> Ref:
        return self.b.apply("MUL", self.b.apply("TANH", self.b.apply("MUL", s, self.number(0.1))), self.number(10.0))

    def score_alibi(self, s: Ref) -> Ref:
        slope = self.input("slope", "fp32", self.size["h"], 1, 1)
        return self.b.apply("ADD", s, self.b.apply("MUL", self.b.iota(FP32, s.shape, 2), slope))

    def score_unknown(self, s: Ref) -> Ref:
        return self.b.apply("ADD", self.b.apply("SIN", s), self.b.apply("ERF", self.b.apply("ABS", s)))

    def score_half(self, s: Ref) -> Ref:
        """All that follows is in halves."""
        return self.b.cast(s, DTYPES["fp16"])

    def score_second(self, s: Ref) -> Ref:
        """A second product, of other factors."""
        other = [
            self.input(name, "fp32", self.size["h"], self.size[axis], 8) for name, axis in (("q2", "s"), ("k2", "t"))
        ]
        return self.b.apply("ADD", s, self.b.contract(other[0], "hsd", other[1], "htd", "hst", FP32))

    def score_table(self, s: Ref) -> Ref:
        """A bias by relative position, from a table."""
        height, length = self.size["s"], self.size["t"]
        table = self.input("table", "fp32", self.size["h"], 16)
        near = self.input("near", "i64", height, length)
        picked = self.b.emit("GATHER", table, self.b.reshape(near, [height * length]), axis=1)
        return self.b.apply("ADD", s, self.b.reshape(picked, [self.size["h"], height, length]))

    # --- softmax: what the second product takes, and what is left to divide its sum by

    def softmax_usual(self, s: Ref) -> tuple[Ref, Ref | None]:
        return self.b.apply("FDIV", *self._sum(self._exp(self._less(s)))), None

    def softmax_exp2(self, s: Ref) -> tuple[Ref, Ref | None]:
        return self.b.apply("FDIV", *self._sum(self.b.apply("EXP2", self._less(s)))), None

    def softmax_power(self, s: Ref) -> tuple[Ref, Ref | None]:
        e = self.b.apply("POW", self.number(2.5), self._less(s))
        return self.b.apply("FDIV", *self._sum(e)), None

    def softmax_no_maximum(self, s: Ref) -> tuple[Ref, Ref | None]:
        return self.b.apply("FDIV", *self._sum(self._exp(s))), None

    def softmax_scaled_inside(self, s: Ref) -> tuple[Ref, Ref | None]:
        """c * x - c * max(x), each multiplied by itself."""
        b, log2e = self.b, self.number(math.log2(math.e))
        top = b.reduce(s, "MAX", [2], keep=True)
        e = b.apply("EXP2", b.apply("SUB", b.apply("MUL", s, log2e), b.apply("MUL", top, log2e)))
        return b.apply("FDIV", *self._sum(e)), None

    def softmax_negated(self, s: Ref) -> tuple[Ref, Ref | None]:
        """-max(x) + x, and a product by 1 / sum."""
        b = self.b
        top = b.apply("NEG", b.reduce(s, "MAX", [2], keep=True))
        e, total = self._sum(self._exp(b.apply("ADD", top, s)))
        return b.apply("MUL", b.apply("RECIP", total), e), None

    def softmax_after(self, s: Ref) -> tuple[Ref, Ref | None]:
        """The division after the second product."""
        return self._sum(self._exp(self._less(s)))

    def softmax_not_over_sum(self, s: Ref) -> tuple[Ref, Ref | None]:
        return self._exp(self._less(s)), None

    def softmax_guarded(self, s: Ref) -> tuple[Ref, Ref | None]:
        """0 in a row of -inf."""
        b = self.b
        top = b.reduce(s, "MAX", [2], keep=True)
        base = b.apply("WHERE", b.apply("CMPEQ", top, self.number(-INF)), self.number(0.0), top)
        e, total = self._sum(self._exp(b.apply("SUB", s, base)))
        total = b.apply("WHERE", b.apply("CMPEQ", total, self.number(0.0)), self.number(1.0), total)
        return b.apply("FDIV", e, total), None

    def softmax_safe(self, s: Ref) -> tuple[Ref, Ref | None]:
        """0 where all of a row is -inf, as a fold of its own says."""
        b = self.b
        seen = b.cast(b.apply("CMPNE", s, self.number(-INF)), FP32)
        found = b.reduce(seen, "MAX", [2], keep=True)
        usual, _ = self.softmax_usual(s)
        return b.apply("WHERE", b.apply("CMPEQ", found, self.number(0.0)), self.number(0.0), usual), None

    def softmax_zeroed(self, s: Ref) -> tuple[Ref, Ref | None]:
        """Weights that are set to 0 before they are summed."""
        b = self.b
        seen = self.input("seen", "bool", self.size["s"], self.size["t"])
        return b.apply("FDIV", *self._sum(b.apply("WHERE", seen, self._exp(self._less(s)), self.number(0.0)))), None

    def softmax_logged(self, s: Ref) -> tuple[Ref, Ref | None]:
        """With the logarithm of the sum of exponentials as an output."""
        b = self.b
        top = b.reduce(s, "MAX", [2], keep=True)
        e, total = self._sum(self._exp(b.apply("SUB", s, top)))
        lse = b.apply("ADD", top, b.apply("MUL", b.apply("LOG2", total), self.number(math.log(2))))
        self.outputs.append(("lse", b.reshape(lse, s.shape[:2])))
        return b.apply("FDIV", e, total), None

    def _less(self, s: Ref) -> Ref:
        return self.b.apply("SUB", s, self.b.reduce(s, "MAX", [2], keep=True))

    def _exp(self, x: Ref) -> Ref:
        return self.b.apply("EXP2", self.b.apply("MUL", x, self.number(math.log2(math.e))))

    def _sum(self, e: Ref) -> tuple[Ref, Ref]:
        return e, self.b.reduce(e, "SUM", [2], keep=True)

    # --- work on a weight

    def weight_nan(self, p: Ref) -> Ref:
        """0 for NaN, as torch's exporter writes it."""
        return self.b.apply("WHERE", self.b.apply("CMPNE", p, p), self.number(0.0), p)

    def weight_dropout(self, p: Ref) -> Ref:
        b = self.b
        drawn = b.emit("RANDOM", type=TensorType(FP32, p.shape), seed=7)
        kept = b.apply("MUL", p, self.number(1.25))
        return b.apply("WHERE", b.apply("CMPLT", drawn, self.number(0.8)), kept, self.number(0.0))

    def weight_gain(self, p: Ref) -> Ref:
        return self.b.apply("MUL", p, self.input("gain", "fp32", self.size["t"]))

    def weight_squared(self, p: Ref) -> Ref:
        return self.b.apply("MUL", p, p)


def naive(how: Spelling) -> tiny.Module:
    """The model of a spelling."""
    return Writer(how).module()


def arrays_of(
    module: tiny.Module, seed: int = 0, change: Callable[[str, np.ndarray], None] | None = None
) -> dict[str, np.ndarray]:
    """Numbers for the inputs."""
    draw, found = np.random.default_rng(seed), {}
    for tensor in module.model.inputs:
        shape = [n.constant for n in tensor.type.shape]
        kind = tensor.type.dtype
        if kind.kind == "b":
            found[tensor.name] = draw.random(shape) < 0.7
        elif kind.is_float:
            found[tensor.name] = draw.standard_normal(shape).astype(kind.numpy)
        else:
            found[tensor.name] = draw.integers(0, 16, shape)
        if change is not None:
            change(tensor.name, found[tensor.name])
    return found
