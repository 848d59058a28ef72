"""Playback of tiny text: every op by its NumPy function of the op table, on views where movement allows.

Floats of 16 and 8 bits compute in fp32 and are rounded after each op, sums of them accumulate in fp32. A product that is only summed
is never formed (play.contraction); one that must be rounded first is formed in blocks.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np

from ..ir.expr import Expr, Floor
from ..ir.ops import OPS, REDUCERS
from ..ir.rules import broadcast_dims
from ..ir.tiny import Module, Value
from ..ir.types import DType
from ..kit.diag import refuse
from . import indirect
from .arrays import adopt, bind_symbols, check_arrays, compute_dtype, convert, numpy_dtype, sizes_of
from .contraction import sum_of_products

BLOCK = 1 << 24  # elements of a product that is formed piece by piece


def play(module: Module, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """The outputs by name, for input arrays by name. `symbols` gives sizes that no input's shape settles. The module must be checked.
    Raises Refused (E1701 to E1711)."""
    check_arrays(module.model, arrays, symbols)
    sizes = bind_symbols(module.model, arrays, symbols)
    return _Player(module, sizes).run({t.name: adopt(arrays[t.name], t.type.dtype) for t in module.model.inputs})


class _Player:
    """One run. An array is dropped after its last use."""

    def __init__(self, module: Module, symbols: Mapping[str, int]):
        self.module = module
        self.symbols = symbols
        self.types = module.type_of()
        self.values = module.value_of()
        self.found: dict[str, np.ndarray] = {}
        self.users: dict[str, list[str]] = {}
        for value in module.values:
            for operand in value.operands:
                self.users.setdefault(operand, []).append(value.name)
        for result in module.results:
            self.users.setdefault(result.value, []).append("")

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.found.update(inputs)
        left = {name: len(users) for name, users in self.users.items()}
        with np.errstate(all="ignore"):
            for value in self.module.values:
                if value.name in left and not self.is_folded(value):
                    self.found[value.name] = self.value(value)
                self.release(value, left)
        return {r.output: np.array(self.found[r.value], order="C") for r in self.module.results}

    def release(self, value: Value, left: dict[str, int]) -> None:
        if self.is_folded(value):
            return
        for operand in value.operands:
            inner = self.values.get(operand)
            left[operand] -= 1
            if left[operand] == 0:
                self.found.pop(operand, None)
                if inner is not None and self.is_folded(inner):
                    for factor in inner.operands:
                        left[factor] -= 1
                        if left[factor] == 0:
                            self.found.pop(factor, None)

    def is_folded(self, value: Value) -> bool:
        """Whether `value` is a product whose only users are sums, which take its factors instead."""
        if value.op != "MUL" or value.name not in self.users:
            return False
        return all(user and self.values[user].op == "REDUCE" and self.values[user].attr("op") == "SUM" for user in self.users[value.name])

    def dtype_of(self, name: str) -> DType:
        return self.types[name].dtype

    def shape_of(self, value: Value) -> tuple[int, ...]:
        shape = sizes_of(value.type.shape, self.symbols)
        if any(size < 0 for size in shape):
            raise refuse("E1708", value.name, value=value.name, shape=value.type, sizes=list(shape))
        return shape

    def value(self, value: Value) -> np.ndarray:
        row = OPS[value.op]
        if row.is_elementwise:
            return self.elementwise(value, [self.found[o] for o in value.operands])
        return _PLAYED[value.op](self, value, self.shape_of(value), *(self.found.get(o) for o in value.operands))

    def elementwise(self, value: Value, operands: list[np.ndarray]) -> np.ndarray:
        """One op on arrays of one shape. Where no operand varies along an axis, one element is computed and seen as all."""
        shape = operands[0].shape
        taken = tuple(slice(0, 1) if size > 1 and all(o.strides[axis] == 0 for o in operands) else slice(None) for axis, size in enumerate(shape))
        operands = [o[taken] for o in operands]
        dtype = value.type.dtype
        if value.op == "CAST":
            return np.broadcast_to(convert(operands[0], dtype), shape)
        if value.op == "BITCAST":
            return np.broadcast_to(np.array(operands[0], order="C").view(numpy_dtype(dtype)), shape)
        inner = dtype if value.op == "MUL" else None
        wide = [self.widened(o, inner or self.dtype_of(name)) for o, name in zip(operands, value.operands)]
        return np.broadcast_to(convert(np.asarray(OPS[value.op].numpy(np, *wide)), dtype), shape)

    @staticmethod
    def widened(array: np.ndarray, dtype: DType) -> np.ndarray:
        return array.astype(compute_dtype(dtype), copy=False)

    # --- reductions

    def reduce(self, value: Value, shape: tuple[int, ...], source: np.ndarray | None) -> np.ndarray:
        op, axes, dtype = value.attr("op"), value.attr("axes"), value.attr("dtype")
        inner = self.values.get(value.operands[0])
        if source is None:
            return self.reduce_product(value, inner, shape)
        axes = tuple(a % source.ndim for a in axes)
        if REDUCERS[op].fold is None:
            return _extreme_index(op, source, axes, shape, dtype)
        return convert(_reduced(op, convert(source, dtype).astype(compute_dtype(dtype), copy=False), axes, dtype), dtype)

    def reduce_product(self, value: Value, product: Value, shape: tuple[int, ...]) -> np.ndarray:
        dtype, middle = value.attr("dtype"), product.type.dtype
        x, y = (self.found[o] for o in product.operands)
        axes = tuple(a % x.ndim for a in value.attr("axes"))
        if middle == dtype and compute_dtype(dtype) == numpy_dtype(dtype):
            return sum_of_products(x, y, axes, numpy_dtype(dtype))
        total = np.zeros(shape, compute_dtype(dtype))
        for piece in _blocks(x.shape):
            kept = tuple(s for axis, s in enumerate(piece) if axis not in axes)
            part = convert(self.elementwise(product, [x[piece], y[piece]]), dtype).astype(total.dtype, copy=False)
            total[kept] += _reduced("SUM", part, axes, dtype)
        return convert(total, dtype)

    # --- movement

    def reshape(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        return source.reshape(shape)

    def permute(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        return source.transpose(value.attr("perm"))

    def expand(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        dims = broadcast_dims(self.types[value.operands[0]], value.type, dict(value.attrs))
        aligned = [1] * len(shape)
        for size, d in zip(source.shape, dims):
            aligned[d] = size
        return np.broadcast_to(source.reshape(aligned), shape)

    def pad(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        found = np.full(shape, self.fill(value), source.dtype)
        to, of = [], []
        for (low, _), size, whole in zip(value.attr("pad"), source.shape, shape):
            start = low.evaluate(self.symbols)
            to.append(slice(max(0, start), max(0, min(whole, start + size))))
            of.append(slice(max(0, -start), max(0, min(size, whole - start))))
        found[tuple(to)] = source[tuple(of)]
        return found

    def fill(self, value: Value) -> np.ndarray:
        """The value outside, as an array of no axes."""
        stated = value.attr("value")
        return _exact(0 if stated is None else stated, value.type.dtype)

    def shrink(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        steps = value.attr("step") or (1,) * source.ndim
        taken = []
        for axis, (low, high, step) in enumerate(zip(value.attr("lo"), value.attr("hi"), steps)):
            start, stop = low.evaluate(self.symbols), high.evaluate(self.symbols)
            if not 0 <= start <= stop <= source.shape[axis]:
                raise refuse("E1709", value.name, value=value.name, axis=axis, low=start, high=stop, size=source.shape[axis])
            taken.append(slice(start, stop, step))
        return source[tuple(taken)]

    def flip(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        return np.flip(source, value.attr("axes"))

    def view(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        points = self.points(shape)
        maps = [np.asarray(_evaluate(e, points)) for e in value.attr("index_map")]
        for axis, index in enumerate(maps):
            if index.size and 0 not in shape and not (0 <= index.min() and index.max() < source.shape[axis]):
                raise refuse("E1709", value.name, value=value.name, axis=axis, low=int(index.min()), high=int(index.max()) + 1, size=source.shape[axis])
        if not maps or 0 in shape:
            return np.broadcast_to(source.reshape(-1)[:1] if 0 not in shape else np.zeros(1, source.dtype), shape)
        return np.broadcast_to(source[tuple(maps)], shape)

    def valid(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        points = self.points(shape)
        is_inside = np.ones((1,) * len(shape), bool)
        for bound in value.attr("guard"):
            e = _evaluate(bound.expr, points)
            for limit, holds in ((bound.equals, np.equal), (bound.lower, np.greater_equal), (bound.upper, np.less)):
                if limit is not None:
                    is_inside = is_inside & holds(e, _evaluate(limit, points))
        return np.where(is_inside, source, self.fill(value))

    def points(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """Symbols, and the axes i0, i1, ... as arrays that broadcast against each other."""
        rank = len(shape)
        axes = {f"i{axis}": np.arange(size).reshape([size if a == axis else 1 for a in range(rank)]) for axis, size in enumerate(shape)}
        return {**self.symbols, **axes}

    # --- leaves

    def const(self, value: Value, shape: tuple[int, ...]) -> np.ndarray:
        stated = value.attr("value")
        if isinstance(stated, Expr):
            stated = stated.evaluate(self.symbols)
        if isinstance(stated, tuple):
            return _exact(stated, value.type.dtype).reshape(shape)
        return np.broadcast_to(_exact(stated, value.type.dtype), shape)

    def iota(self, value: Value, shape: tuple[int, ...]) -> np.ndarray:
        axis = value.attr("axis") % len(shape)
        line = convert(np.arange(shape[axis]), value.type.dtype).reshape([size if a == axis else 1 for a, size in enumerate(shape)])
        return np.broadcast_to(line, shape)

    # --- beyond the affine core

    def gather(self, value: Value, shape: tuple[int, ...], source: np.ndarray, index: np.ndarray) -> np.ndarray:
        return indirect.gather(source, index, value.attr("axis"))

    def scatter(self, value: Value, shape: tuple[int, ...], source: np.ndarray, index: np.ndarray, update: np.ndarray) -> np.ndarray:
        dtype = value.type.dtype
        found = indirect.scatter(self.widened(source, dtype), index, self.widened(update, dtype), value.attr("axis"), value.attr("op"))
        return convert(found, dtype)

    def scan(self, value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
        dtype = value.attr("dtype")
        wide = convert(source, dtype).astype(compute_dtype(dtype), copy=False)
        neutral = _neutral(value.attr("op"), dtype)
        found = indirect.scan(wide, value.attr("op"), value.attr("axis"), neutral, bool(value.attr("reverse")), bool(value.attr("exclusive")))
        return convert(found, dtype)

    def random(self, value: Value, shape: tuple[int, ...]) -> np.ndarray:
        return convert(indirect.random(value.attr("seed"), value.attr("offset") or 0, shape, value.type.dtype), value.type.dtype)


_PLAYED: dict[str, Callable[..., np.ndarray]] = {name: getattr(_Player, name.lower()) for name, op in OPS.items() if not op.is_elementwise}


def _exact(number: Any, dtype: DType) -> np.ndarray:
    """A literal, which is a value of its dtype already, as an array."""
    return convert(np.array(number, np.float64 if dtype.is_float else None), dtype) if dtype.is_float else np.array(number, numpy_dtype(dtype))


def _neutral(op: str, dtype: DType) -> Any:
    neutral = REDUCERS[op].neutral
    return {"lowest": dtype.lowest, "highest": dtype.highest}.get(neutral, neutral) if isinstance(neutral, str) else neutral


def _reduced(op: str, source: np.ndarray, axes: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The fold of `source`, which has the dtype to compute in; the neutral element where nothing is folded."""
    neutral = source.dtype.type(_neutral(op, dtype))
    if op == "SUM":
        if source.dtype.kind == "b":
            return source.any(axes)
        return source.sum(axes, dtype=source.dtype)
    if op == "PROD":
        return source.prod(axes, dtype=source.dtype)
    return (np.maximum if op == "MAX" else np.minimum).reduce(source, axes, initial=neutral)


def _extreme_index(op: str, source: np.ndarray, axes: tuple[int, ...], shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The first index of the greatest or least element (NaN counts as such), over several axes counted in row-major order; 0 where
    there is none."""
    kept = [a for a in range(source.ndim) if a not in axes]
    rows = source.transpose(kept + list(axes)).reshape(*(source.shape[a] for a in kept), -1)
    if rows.size == 0:
        return np.zeros(shape, numpy_dtype(dtype))
    wide = rows.astype(np.float32) if rows.dtype.kind == "V" else rows
    return convert((np.argmax if op == "ARGMAX" else np.argmin)(wide, -1), dtype)


def _blocks(shape: tuple[int, ...]) -> Any:
    """Tuples of slices that cover `shape` once, each of about BLOCK elements at most."""
    import itertools

    room = BLOCK
    steps = []
    for size in reversed(shape):
        step = max(1, min(size, room))
        steps.append(step)
        room //= step
    spans = [[slice(i, min(i + step, size)) for i in range(0, size, step)] for size, step in zip(shape, reversed(steps))]
    return itertools.product(*spans)


def _evaluate(expr: Expr, points: Mapping[str, Any]) -> Any:
    total: Any = 0
    for coefficient, monomial in expr.terms:
        term: Any = coefficient
        for atom in monomial:
            term = term * (_evaluate(atom.num, points) // _evaluate(atom.den, points) if isinstance(atom, Floor) else points[atom])
        total = total + term
    return total
