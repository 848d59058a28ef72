"""Random movement programs for the tests of index and poly, and what NumPy says of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tinyir.ir.expr import Bound, Expr
from tinyir.ir.model import Model, Tensor
from tinyir.ir.tiny import Module, Result, Value
from tinyir.ir.types import DTYPES, TensorType

FP32 = DTYPES["fp32"]


def dims(shape: Any) -> tuple[Expr, ...]:
    """A shape of integers as Exprs."""
    return tuple(map(Expr.of, shape))


def factorings(size: int) -> st.SearchStrategy[list[int]]:
    """Shapes with `size` elements, up to 5 dims, ones among them."""
    if size == 0:
        return st.permutations([0, 2, 1]).map(list)

    @st.composite
    def draw_shape(draw: st.DrawFn) -> list[int]:
        left, shape = size, []
        while left > 1 and len(shape) < 4:
            divisors = [d for d in range(1, left + 1) if left % d == 0]
            shape.append(draw(st.sampled_from(divisors)))
            left //= shape[-1]
        shape.append(left)
        return draw(st.permutations(shape)) if draw(st.booleans()) else shape

    return draw_shape()


@st.composite
def movements(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, tuple[tuple[str, Any], ...], tuple[int, ...]]:
    """One movement that applies to `shape`: (op, attrs, result shape)."""
    rank = len(shape)
    ops = ["RESHAPE", "EXPAND", "VALID"] + (["PERMUTE", "PAD", "SHRINK", "FLIP", "VIEW"] if rank else [])
    op = draw(st.sampled_from(ops))
    if op == "RESHAPE":
        return op, (), tuple(draw(factorings(math.prod(shape))))
    if op == "PERMUTE":
        perm = tuple(draw(st.permutations(range(rank))))
        return op, (("perm", perm),), tuple(shape[p] for p in perm)
    if op == "FLIP":
        return op, (("axes", tuple(draw(st.lists(st.integers(0, rank - 1), unique=True)))),), shape
    if op == "PAD":
        low = [draw(st.integers(-min(1, s), 2)) for s in shape]
        high = [draw(st.integers(-min(1, s + min(0, lo)), 2)) for s, lo in zip(shape, low)]
        pad = tuple((Expr.of(a), Expr.of(b)) for a, b in zip(low, high))
        return (
            op,
            (("pad", pad), ("value", float(draw(st.sampled_from([0, 0, 7]))))),
            tuple(a + s + b for a, s, b in zip(low, shape, high)),
        )
    if op == "SHRINK":
        low = [draw(st.integers(0, s)) for s in shape]
        high = [draw(st.integers(lo, s)) for s, lo in zip(shape, low)]
        step = tuple(draw(st.integers(1, 3)) for _ in shape)
        result = tuple(-(-(hi - lo) // by) for hi, lo, by in zip(high, low, step))
        return op, (("lo", dims(low)), ("hi", dims(high)), ("step", step)), result
    if op == "EXPAND":
        wide = tuple(draw(st.integers(1, 3)) if s == 1 else s for s in shape)
        if rank < 5 and draw(st.booleans()):
            at = draw(st.integers(0, rank))
            stands = tuple(d for d in range(rank + 1) if d != at)
            return op, (("broadcast_dimensions", stands),), (*wide[:at], draw(st.integers(1, 3)), *wide[at:])
        return op, (), wide
    if op == "VIEW":  # every element of the longest axis twice, by a floor
        at = draw(st.integers(0, rank - 1))
        index = [Expr.of(f"i{n}") for n in range(rank)]
        index[at] = index[at] // 2
        return op, (("index_map", tuple(index)),), tuple(s * 2 if n == at else s for n, s in enumerate(shape))
    axis = draw(st.integers(0, rank - 1)) if rank else None
    bound = Bound(
        Expr.of(0) if axis is None else Expr.of(f"i{axis}"),
        Expr.of(draw(st.integers(0, 2))),
        Expr.of(draw(st.integers(1, 4))),
    )
    return op, (("guard", (bound,)), ("value", float(draw(st.sampled_from([0, 7]))))), shape


@st.composite
def chains(draw: st.DrawFn, most: int = 8) -> Module:
    """x, movements of it, and a result; shapes are integers, at most 400 elements."""
    shape = tuple(draw(st.lists(st.integers(0, 4).map(lambda n: n or draw(st.integers(0, 5))), max_size=3)))
    source = Tensor("x", TensorType(FP32, dims(shape)))
    values: list[Value] = []
    last = "x"
    for n in range(draw(st.integers(1, most))):
        op, attrs, result = draw(movements(shape))
        if math.prod(result) > 400 or len(result) > 6:
            continue
        values.append(Value(f"v{n}", op, (last,), attrs, TensorType(FP32, dims(result))))
        shape, last = result, f"v{n}"
    values.append(Value("y", "NEG", (last,), (), TensorType(FP32, dims(shape))))
    return Module(
        Model("m", (source,), (Tensor("y", TensorType(FP32, dims(shape))),)), tuple(values), (Result("y", "y"),)
    )


def move(value: Value, x: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    """What NumPy makes of one movement; `sizes` are the symbols'."""
    shape = tuple(d.evaluate(sizes) for d in value.type.shape)
    points = [dict(sizes, **{f"i{n}": int(i) for n, i in enumerate(at)}) for at in np.ndindex(*shape)]
    if value.op == "RESHAPE":
        return x.reshape(shape)
    if value.op == "PERMUTE":
        return x.transpose(value.attr("perm"))
    if value.op == "FLIP":
        return np.flip(x, value.attr("axes"))
    if value.op == "EXPAND":
        stands = value.attr("broadcast_dimensions")
        if stands is None:
            return np.broadcast_to(x, shape)
        return np.broadcast_to(
            x.reshape([x.shape[stands.index(d)] if d in stands else 1 for d in range(len(shape))]), shape
        )
    if value.op == "SHRINK":
        cuts = zip(value.attr("lo"), value.attr("hi"), value.attr("step") or (1,) * x.ndim)
        return x[tuple(slice(lo.evaluate(sizes), hi.evaluate(sizes), by) for lo, hi, by in cuts)]
    if value.op == "PAD":
        pads = [(lo.evaluate(sizes), hi.evaluate(sizes)) for lo, hi in value.attr("pad")]
        cut = x[tuple(slice(max(0, -lo), s + min(0, hi)) for s, (lo, hi) in zip(x.shape, pads))]
        return np.pad(cut, [(max(0, lo), max(0, hi)) for lo, hi in pads], constant_values=value.attr("value") or 0)
    if value.op == "VIEW":
        index = [[e.evaluate(p) for p in points] for e in value.attr("index_map")]
        return np.array([x[at] for at in zip(*index)], dtype=x.dtype).reshape(shape)
    holds = np.array([all(b.holds(p) for b in value.attr("guard")) for p in points], dtype=bool).reshape(shape)
    return np.where(holds, x, np.float32(value.attr("value") or 0))


@st.composite
def symbolic_movements(
    draw: st.DrawFn, shape: tuple[Expr, ...]
) -> tuple[str, tuple[tuple[str, Any], ...], tuple[Expr, ...]]:
    """One movement that applies to a shape with symbols, whatever their sizes."""
    one, rank = Expr.of(1), len(shape)
    at = draw(st.integers(0, rank - 1))
    size = shape[at]
    op = draw(st.sampled_from(["merge", "split", "one", "PERMUTE", "FLIP", "PAD", "SHRINK", "EXPAND"]))
    if op == "merge" and at + 1 < rank:
        return "RESHAPE", (), (*shape[:at], size * shape[at + 1], *shape[at + 2 :])
    if op == "split" and len(size.terms) == 1 and rank < 5:
        ((count, monomial),) = size.terms
        factors = [Expr.of(f) for f in (2, 3) if count % f == 0] + [Expr.of(a) for a in monomial if isinstance(a, str)]
        if factors:
            inner = draw(st.sampled_from(factors))
            pair = [size // inner, inner] if draw(st.booleans()) else [inner, size // inner]
            return "RESHAPE", (), (*shape[:at], *pair, *shape[at + 1 :])
    if op == "PERMUTE":
        perm = tuple(draw(st.permutations(range(rank))))
        return op, (("perm", perm),), tuple(shape[p] for p in perm)
    if op == "PAD":
        low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        pad = tuple((Expr.of(low if n == at else 0), Expr.of(high if n == at else 0)) for n in range(rank))
        return op, (("pad", pad),), tuple(s + low + high if n == at else s for n, s in enumerate(shape))
    if op == "SHRINK":
        step = tuple(2 if n == at else 1 for n in range(rank))
        return (
            op,
            (("lo", dims([0] * rank)), ("hi", shape), ("step", step)),
            tuple(s.ceildiv(by) for s, by in zip(shape, step)),
        )
    if op == "EXPAND" and rank < 5:
        stands = tuple(d for d in range(rank + 1) if d != at)
        return op, (("broadcast_dimensions", stands),), (*shape[:at], Expr.of("P"), *shape[at:])
    if op == "one":
        return (
            "RESHAPE",
            (),
            (*shape[:at], one, *shape[at:]) if rank < 5 else tuple(s for s in shape if s != one) or (one,),
        )
    return "FLIP", (("axes", (at,)),), shape


@st.composite
def symbolic_chains(draw: st.DrawFn, most: int = 8) -> Module:
    """x of shape over M, N and P, movements of it, and a result."""
    atoms = [Expr.of("M"), Expr.of("N"), Expr.of("M") * 2, Expr.of("N") * 6, Expr.of("M") * "N", Expr.of(4), Expr.of(1)]
    shape = tuple(draw(st.lists(st.sampled_from(atoms), min_size=1, max_size=3)))
    inputs = (
        Tensor("x", TensorType(FP32, shape)),
        Tensor("w", TensorType(FP32, (Expr.of("M"), Expr.of("N"), Expr.of("P")))),
    )
    values: list[Value] = []
    last = "x"
    for n in range(draw(st.integers(1, most))):
        op, attrs, shape = draw(symbolic_movements(shape))
        values.append(Value(f"v{n}", op, (last,), attrs, TensorType(FP32, shape)))
        last = f"v{n}"
    values.append(Value("y", "NEG", (last,), (), TensorType(FP32, shape)))
    return Module(Model("m", inputs, (Tensor("y", TensorType(FP32, shape)),)), tuple(values), (Result("y", "y"),))
