"""What one op of tiny gives on NumPy arrays: the convention that playback and constant folding share.

Floats of 16 and 8 bits compute in fp32 and are rounded after each op; sums of them accumulate in fp32. Movement gives
views where it can. Narrow floats (bf16, fp8) are those of the ml_dtypes package, which is imported only when one is
met. This is the one module of `ir` that needs NumPy: import it where it is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..kit.diag import refuse
from .accumulate import neutral_of
from .expr import Expr, Floor
from .ops import OPS, REDUCERS
from .types import DType

FROM_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


@functools.cache
def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype that holds `dtype`. Raises Refused (E1707) when it needs ml_dtypes and that is not installed."""
    if dtype.numpy not in FROM_ML_DTYPES:
        return np.dtype(dtype.numpy)
    try:
        import ml_dtypes
    except ImportError:
        raise refuse("E1707", dtype.name, dtype=dtype.name, package="ml_dtypes") from None
    return np.dtype(getattr(ml_dtypes, dtype.numpy))


def compute_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype that arithmetic on `dtype` is done in: fp32 for floats of 16 and 8 bits, else its own."""
    return np.dtype(np.float32) if dtype.is_float and dtype.bits < 32 else numpy_dtype(dtype)


def convert(array: np.ndarray, dtype: DType) -> np.ndarray:
    """`array` as `dtype`: floats round to nearest even, integers wrap; a float becomes an integer by dropping its
    fraction, saturates at the range of the integer, and NaN becomes 0 (NumPy leaves these two cases open, and a GPU
    makes 0 of NaN where no side has 64 bits)."""
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    with np.errstate(all="ignore"):
        if array.dtype.kind not in "fV" or not dtype.is_integer:
            return array.astype(target)
        wide = array.astype(np.float64)
        limits = np.iinfo(target)
        top = float(limits.max)  # 2**63 and 2**64 for 64 bits, which are out of range themselves
        whole = np.where((wide > limits.min) & (wide < top), np.trunc(wide), 0.0).astype(target)
        whole = np.where(wide >= top, target.type(limits.max), whole)
        return np.where(wide <= limits.min, target.type(limits.min), whole)


def widened(array: np.ndarray) -> np.ndarray:
    """`array` in the dtype that arithmetic on it is done in."""
    is_narrow = array.dtype.kind == "V" or array.dtype.kind == "f" and array.dtype.itemsize < 4
    return array.astype(np.float32) if is_narrow else array


def sizes_of(shape: Iterable[Expr], symbols: Mapping[str, int]) -> tuple[int, ...]:
    """A shape in integers."""
    return tuple(d.evaluate(symbols) for d in shape)


def evaluate(value: Any, operands: Sequence[np.ndarray], symbols: Mapping[str, int]) -> np.ndarray:
    """The array that an `ir.tiny.Value` gives: any op but those whose places or elements come from elsewhere (GATHER,
    SCATTER, SCAN, RANDOM). Raises Refused (E1708 a negative size, E1709 a read outside)."""
    if OPS[value.op].is_elementwise:
        return elementwise(value.op, operands, value.type.dtype)
    return _EVALUATED[value.op](value, shape_of(value, symbols), symbols, *operands)


def shape_of(value: Any, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """The value's shape in integers. Raises Refused (E1708)."""
    shape = sizes_of(value.type.shape, symbols)
    if any(size < 0 for size in shape):
        raise refuse("E1708", value.name, value=value.name, shape=value.type, sizes=list(shape))
    return shape


def elementwise(op: str, operands: Sequence[np.ndarray], dtype: DType) -> np.ndarray:
    """One op on arrays of one shape. Where no operand varies along an axis, one element is computed and seen as all."""
    shape = operands[0].shape
    taken = tuple(
        slice(0, 1) if size > 1 and all(o.strides[axis] == 0 for o in operands) else slice(None)
        for axis, size in enumerate(shape)
    )
    operands = [o[taken] for o in operands]
    with np.errstate(all="ignore"):
        if op == "CAST":
            return np.broadcast_to(convert(operands[0], dtype), shape)
        if op == "BITCAST":
            return np.broadcast_to(np.array(operands[0], order="C").view(numpy_dtype(dtype)), shape)
        wide = [o.astype(compute_dtype(dtype), copy=False) if op == "MUL" else widened(o) for o in operands]
        return np.broadcast_to(convert(np.asarray(OPS[op].numpy(np, *wide)), dtype), shape)


# --- reductions


def fold(op: str, source: np.ndarray, axes: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The fold of `source`, which has the dtype to compute in; the neutral element where nothing is folded."""
    if op == "SUM":
        return source.any(axes) if source.dtype.kind == "b" else source.sum(axes, dtype=source.dtype)
    if op == "PROD":
        return source.prod(axes, dtype=source.dtype)
    return (np.maximum if op == "MAX" else np.minimum).reduce(
        source, axes, initial=source.dtype.type(neutral_of(op, dtype).value)
    )


def _reduce(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    op, dtype = value.attr("op"), value.attr("dtype")
    axes = tuple(a % source.ndim for a in value.attr("axes"))
    if REDUCERS[op].fold is None:
        return _extreme_index(op, source, axes, shape, dtype)
    return convert(fold(op, convert(source, dtype).astype(compute_dtype(dtype), copy=False), axes, dtype), dtype)


def _extreme_index(
    op: str, source: np.ndarray, axes: tuple[int, ...], shape: tuple[int, ...], dtype: DType
) -> np.ndarray:
    """The first index of the greatest or least element (NaN counts as such), over several axes counted in row-major
    order; 0 where there is none."""
    if source.size == 0:
        return np.zeros(shape, numpy_dtype(dtype))
    kept = [a for a in range(source.ndim) if a not in axes]
    rows = source.transpose(kept + list(axes)).reshape(*(source.shape[a] for a in kept), -1)
    wide = rows.astype(np.float32) if rows.dtype.kind == "V" else rows
    return convert((np.argmax if op == "ARGMAX" else np.argmin)(wide, -1), dtype)


# --- movement


def _reshape(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    return source.reshape(shape)


def _permute(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    return source.transpose(value.attr("perm"))


def _expand(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    stated = value.attr("broadcast_dimensions")
    aligned = [1] * len(shape)
    for size, d in zip(source.shape, stated if stated is not None else range(len(shape) - source.ndim, len(shape))):
        aligned[d] = size
    return np.broadcast_to(source.reshape(aligned), shape)


def _pad(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    found = np.full(shape, _outside(value), source.dtype)
    to, of = [], []
    for (low, _), size, whole in zip(value.attr("pad"), source.shape, shape):
        start = low.evaluate(symbols)
        to.append(slice(max(0, start), max(0, min(whole, start + size))))
        of.append(slice(max(0, -start), max(0, min(size, whole - start))))
    found[tuple(to)] = source[tuple(of)]
    return found


def _outside(value: Any) -> np.ndarray:
    """The value outside of what is read, as an array of no axes."""
    return literal(value.fill, value.type.dtype)


def _shrink(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    steps = value.attr("step") or (1,) * source.ndim
    taken = []
    for axis, (low, high, step) in enumerate(zip(value.attr("lo"), value.attr("hi"), steps)):
        start, stop = low.evaluate(symbols), high.evaluate(symbols)
        if not 0 <= start <= stop <= source.shape[axis]:
            raise refuse(
                "E1709", value.name, value=value.name, axis=axis, low=start, high=stop, size=source.shape[axis]
            )
        taken.append(slice(start, stop, step))
    return source[tuple(taken)]


def _flip(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    return np.flip(source, value.attr("axes"))


def _view(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    points = _points(shape, symbols)
    maps = [np.asarray(_at(e, points)) for e in value.attr("index_map")]
    for axis, index in enumerate(maps):
        if index.size and 0 not in shape and not (0 <= index.min() and index.max() < source.shape[axis]):
            raise refuse(
                "E1709",
                value.name,
                value=value.name,
                axis=axis,
                low=int(index.min()),
                high=int(index.max()) + 1,
                size=source.shape[axis],
            )
    if not maps or 0 in shape:
        return np.broadcast_to(source.reshape(-1)[:1] if 0 not in shape else np.zeros(1, source.dtype), shape)
    return np.broadcast_to(source[tuple(maps)], shape)


def _valid(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int], source: np.ndarray) -> np.ndarray:
    points = _points(shape, symbols)
    is_inside = np.ones((1,) * len(shape), bool)
    for bound in value.attr("guard"):
        e = _at(bound.expr, points)
        for limit, holds in ((bound.equals, np.equal), (bound.lower, np.greater_equal), (bound.upper, np.less)):
            if limit is not None:
                is_inside = is_inside & holds(e, _at(limit, points))
    return np.where(is_inside, source, _outside(value))


def _points(shape: tuple[int, ...], symbols: Mapping[str, int]) -> dict[str, Any]:
    """Symbols, and the axes i0, i1, ... as arrays that broadcast against each other."""
    rank = len(shape)
    axes = {
        f"i{axis}": np.arange(size).reshape([size if a == axis else 1 for a in range(rank)])
        for axis, size in enumerate(shape)
    }
    return {**symbols, **axes}


def _at(expr: Expr, points: Mapping[str, Any]) -> Any:
    total: Any = 0
    for coefficient, monomial in expr.terms:
        term: Any = coefficient
        for atom in monomial:
            term = term * (_at(atom.num, points) // _at(atom.den, points) if isinstance(atom, Floor) else points[atom])
        total = total + term
    return total


# --- leaves


def literal(number: Any, dtype: DType) -> np.ndarray:
    """A number or nested tuples of numbers, which are values of `dtype` already, as an array."""
    return convert(np.array(number, np.float64), dtype) if dtype.is_float else np.array(number, numpy_dtype(dtype))


def _const(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int]) -> np.ndarray:
    stated = value.attr("value")
    if isinstance(stated, Expr):
        stated = stated.evaluate(symbols)
    if isinstance(stated, tuple):
        return literal(stated, value.type.dtype).reshape(shape)
    return np.broadcast_to(literal(stated, value.type.dtype), shape)


def _iota(value: Any, shape: tuple[int, ...], symbols: Mapping[str, int]) -> np.ndarray:
    axis = value.attr("axis") % len(shape)
    line = convert(np.arange(shape[axis]), value.type.dtype).reshape(
        [size if a == axis else 1 for a, size in enumerate(shape)]
    )
    return np.broadcast_to(line, shape)


_EVALUATED: dict[str, Callable[..., np.ndarray]] = {
    "REDUCE": _reduce,
    "RESHAPE": _reshape,
    "PERMUTE": _permute,
    "EXPAND": _expand,
    "PAD": _pad,
    "SHRINK": _shrink,
    "FLIP": _flip,
    "VIEW": _view,
    "VALID": _valid,
    "CONST": _const,
    "IOTA": _iota,
}
