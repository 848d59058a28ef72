"""Sums of products without the product: MUL then REDUCE SUM as one batched matrix product.

The operands of the MUL are views of one shape; NumPy's strides say along which axes each really varies, so that GEMM,
convolution windows and attention are all found by one rule, as `analysis` finds them from index maps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..ir.evaluate import compute_dtype, convert, elementwise, fold, numpy_dtype
from ..ir.types import DType

BLOCK = 1 << 24  # elements of a product that is formed piece by piece


def fold_product(x: np.ndarray, y: np.ndarray, axes: tuple[int, ...], middle: DType, dtype: DType) -> np.ndarray:
    """The sum over `axes` in `dtype` of the product of two views of one shape, which is rounded to `middle`: formed in
    blocks where it rounds."""
    if middle == dtype and compute_dtype(dtype) == numpy_dtype(dtype):
        return sum_of_products(x, y, axes, numpy_dtype(dtype))
    total = np.zeros([size for axis, size in enumerate(x.shape) if axis not in axes], compute_dtype(dtype))
    for piece in _blocks(x.shape):
        kept = tuple(s for axis, s in enumerate(piece) if axis not in axes)
        part = convert(elementwise("MUL", [x[piece], y[piece]], middle), dtype).astype(total.dtype, copy=False)
        total[kept] += fold("SUM", part, axes, dtype)
    return convert(total, dtype)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Tuples of slices that cover `shape` once, each of about BLOCK elements at most."""
    room = BLOCK
    steps = []
    for size in reversed(shape):
        step = max(1, min(size, room))
        steps.append(step)
        room //= step
    spans = [
        [slice(i, min(i + step, size)) for i in range(0, size, step)] for size, step in zip(shape, reversed(steps))
    ]
    return itertools.product(*spans)


def sum_of_products(x: np.ndarray, y: np.ndarray, axes: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """`(x * y).sum(axes)` in `dtype`, for views of one shape. Only what varies is ever copied, and the product never
    is."""
    shape = x.shape
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    if 0 in shape:
        return np.zeros(kept, dtype)
    repeated = 1
    roles: dict[str, list[int]] = {"batch": [], "left": [], "right": [], "sum": [], "none": []}
    for axis, size in enumerate(shape):
        in_x, in_y = (o.strides[axis] != 0 and size > 1 for o in (x, y))
        if axis in axes:
            if in_x or in_y:
                roles["sum"].append(axis)
            else:
                repeated *= size
        else:
            roles["batch" if in_x and in_y else "left" if in_x else "right" if in_y else "none"].append(axis)
    batch, left, right, summed = (roles[r] for r in ("batch", "left", "right", "sum"))
    count = {role: math.prod(shape[a] for a in group) for role, group in roles.items()}
    a = _arranged(x, batch + left + summed, dtype).reshape(count["batch"], count["left"], count["sum"])
    b = _arranged(y, batch + right + summed, dtype).reshape(count["batch"], count["right"], count["sum"])
    with np.errstate(all="ignore"):
        if dtype.kind == "f" and count["left"] * count["right"] > 1:
            product = np.matmul(a, b.transpose(0, 2, 1))
        else:
            product = np.einsum("bmk,bnk->bmn", a, b)
        if repeated > 1:
            product = product * dtype.type(repeated)
    order = batch + left + right
    found = product.reshape([shape[a] for a in order])
    places = sorted(range(len(order)), key=lambda i: order[i])
    found = found.transpose(places)
    lacking = [1 if axis in roles["none"] else shape[axis] for axis in range(len(shape)) if axis not in axes]
    return np.broadcast_to(found.reshape(lacking), kept)


def _arranged(array: np.ndarray, order: list[int], dtype: np.dtype) -> np.ndarray:
    """The axes of `order`, one element of every other axis, contiguous and in `dtype`."""
    taken = array[tuple(slice(None) if axis in order else 0 for axis in range(array.ndim))]
    rank = {axis: i for i, axis in enumerate(sorted(order))}
    return np.ascontiguousarray(taken.transpose([rank[a] for a in order]), dtype)
