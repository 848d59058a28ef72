"""Sums of products through matrix products: no array over all axes of the product is ever made.

Axes of the fold whose index is tied to another axis (the taps of a convolution, `2*i2 + k1 - 1`) are looped over, so
that each step is a plain matrix product of views; the rest is one batched `matmul`: common axes outside, the axes of
one side, those summed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ..ir.body import Binary, Body, Read, Reduce, Ref, Select, walk
from ..ir.evaluate import compute_dtype
from ..ir.expr import Expr
from ..ir.present import guard_names
from .arrays import numpy_dtype
from .grid import Frame, Grid, union

MOST_ALONE = 1 << 18  # products of numbers in a product of matrices that OpenBLAS makes in the thread that asks
MOST_APART = 1 << 24  # in one that takes less in parts of these than shared out among threads
MOST_TAPS = 4096  # steps beyond which tied axes are laid out instead of looped over
FEW_POINTS = 1 << 20  # of a part of a region with its folds, at most, where they are laid out all the same: one step


def factors_of(body: Reduce) -> tuple[Body, ...]:
    """The factors of the product that a fold sums: a single one when it is not a product, or when the product is
    rounded before it is added. Only the outermost product may widen."""
    if compute_dtype(body.dtype) != numpy_dtype(body.dtype):
        return (body.body,)

    def split(node: Body, is_outermost: bool) -> list[Body]:
        if (
            isinstance(node, Binary)
            and node.op == "mul"
            and (is_outermost or node.dtype == node.left.dtype)
            and node.dtype == body.dtype
        ):
            return [*split(node.left, False), *split(node.right, False)]
        return [node]

    return tuple(split(body.body, True))


def contract(body: Reduce, frame: Frame, evaluate: Callable[[Body, Frame], Grid]) -> Grid:
    """The fold's value over its free axes, in the compute dtype of its accumulator. `frame` has the ranges of the
    fold's axes."""
    factors = factors_of(body)
    names = tuple(a.name for a in body.axes)
    taps = tuple(n for n in names if any(_ties(n, f) for f in factors))
    is_small = frame.is_part and math.prod(frame.extent(frame.spans)) <= FEW_POINTS
    if is_small or math.prod(frame.extent(taps)) > MOST_TAPS:
        taps = ()
    works_in = compute_dtype(body.dtype)
    total = Grid(np.zeros((), works_in))  # from which every sum starts: that of -0.0 is 0.0
    for point in itertools.product(*(range(*frame.spans[t]) for t in taps)):
        here = frame.within({t: (p, p + 1) for t, p in zip(taps, point)})
        grids = [_drop(evaluate(f, here), taps) for f in factors]
        rest = tuple(n for n in names if n not in taps)
        part = _product([Grid(g.array.astype(works_in, copy=False), g.axes) for g in grids], rest, here)
        axes = union((total, part), frame.order)
        with np.errstate(all="ignore"):
            total = Grid(total.along(axes) + part.along(axes), axes)
    return total


def _ties(axis: str, factor: Body) -> bool:
    """True when an index or guard of the factor holds the axis together with another name that may be an axis."""
    for node in walk(factor):
        exprs: list[Expr] = []
        if isinstance(node, (Read, Ref)) and node.index is not None:
            exprs += node.index
        if any(axis in (n := set(e.names())) and (len(n) > 1 or e.name is None) for e in exprs):
            return True
        if isinstance(node, Select) and axis in guard_names(node.guard):
            return True
    return False


def _drop(grid: Grid, taps: tuple[str, ...]) -> Grid:
    """Without the dims of looped axes, which have one point."""
    dims = tuple(d for d, a in enumerate(grid.axes) if a in taps)
    return Grid(grid.array.squeeze(dims), tuple(a for a in grid.axes if a not in taps)) if dims else grid


def _product(grids: list[Grid], names: tuple[str, ...], frame: Frame) -> Grid:
    """The sum over `names` of the product of the grids."""
    scale = 1
    while len(grids) > 2:
        grids = _merge_smallest(grids, frame)
    left, right = grids
    summed = tuple(n for n in names if n in left.axes or n in right.axes)
    for axis in names:
        scale *= 1 if axis in summed else frame.extent((axis,))[0]
    with np.errstate(all="ignore"):
        found = _matmul(left, right, summed, frame)
        return found if scale == 1 else Grid(found.array * np.asarray(scale, found.array.dtype), found.axes)


def _merge_smallest(grids: list[Grid], frame: Frame) -> list[Grid]:
    pairs = itertools.combinations(range(len(grids)), 2)
    i, j = min(pairs, key=lambda p: math.prod(frame.extent(union((grids[p[0]], grids[p[1]]), frame.order))))
    axes = union((grids[i], grids[j]), frame.order)
    with np.errstate(all="ignore"):
        merged = Grid(grids[i].along(axes) * grids[j].along(axes), axes)
    return [merged, *(g for at, g in enumerate(grids) if at not in (i, j))]


def _repeated(grid: Grid, axes: tuple[str, ...], frame: Frame) -> Grid:
    """The grid along `axes` too. A factor that does not vary along a summed axis is multiplied at each of its points
    all the same: an infinity times a zero among them is NaN."""
    if all(a in grid.axes for a in axes):
        return grid
    wide = (*grid.axes, *(a for a in axes if a not in grid.axes))
    return Grid(np.broadcast_to(grid.along(wide), frame.extent(wide)), wide)


def _matmul(left: Grid, right: Grid, summed: tuple[str, ...], frame: Frame) -> Grid:
    left, right = (_repeated(g, summed, frame) for g in (left, right))
    common = tuple(a for a in left.axes if a in right.axes and a not in summed)
    rows = tuple(a for a in left.axes if a not in common + summed)
    columns = tuple(a for a in right.axes if a not in common + summed)
    if not summed:
        axes = union((left, right), frame.order)
        return Grid(left.along(axes) * right.along(axes), axes)
    size = frame.extent
    batch, k = math.prod(size(common)), math.prod(size(summed))
    a = left.along(common + rows + summed).reshape(batch, math.prod(size(rows)), k)
    b = right.along(common + summed + columns).reshape(batch, k, math.prod(size(columns)))
    found = (multiplied if frame.is_part else np.matmul)(a, b).reshape((*size(common), *size(rows), *size(columns)))
    axes = common + rows + columns
    order = tuple(sorted(axes, key=frame.order.__getitem__))
    return Grid(Grid(found, axes).along(order), order)


def multiplied(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products of matrices: a small one in parts, since a BLAS that shares it out among threads waits for them longer
    than it multiplies."""
    rows, depth, columns = *left.shape[-2:], right.shape[-1]
    if not MOST_ALONE < rows * depth * columns <= MOST_APART:
        return np.matmul(left, right)
    if rows > columns:
        return multiplied(right.swapaxes(-1, -2), left.swapaxes(-1, -2)).swapaxes(-1, -2)
    size = max(1, MOST_ALONE // (rows * depth))
    parts = [np.matmul(left, right[..., at : at + size]) for at in range(0, columns, size)]
    return np.concatenate(parts, axis=-1)
