"""Body expressions on NumPy: one function a form, from an expression and a Frame to a Grid of the expression's dtype.

Arithmetic on 16- and 8-bit floats is done in fp32 and rounded after each op; a fold accumulates in the compute dtype of
its accumulator and rounds once at its end. A fold is played in pieces where its points would not fit in memory.
"""

from __future__ import annotations

import numpy as np

from ..ir.accumulate import neutral_of
from ..ir.body import (
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Transpose,
    Unary,
    operands_of,
)
from ..ir.evaluate import compute_dtype, convert
from ..ir.ops import OPS, REDUCERS
from .arrays import numpy_dtype
from .grid import Frame, Grid, union
from .indirect import random_at, scan
from .product import contract, factors_of

MOST_POINTS = 1 << 25  # elements that one fold lays out at a time


def evaluate(body: Body, frame: Frame, is_guarded: bool = False) -> Grid:
    """The expression at every point of its axes within the frame's ranges. `is_guarded` is True where a Select masks
    what is read out of bounds. Raises Refused (E1403) for an unguarded read out of bounds."""
    return _PLAY[type(body)](body, frame, is_guarded)


def _read(body: Read, frame: Frame, is_guarded: bool) -> Grid:
    return frame.pick(body.tensor, frame.tensors[body.tensor], body.index, is_guarded)


def _ref(body: Ref, frame: Frame, is_guarded: bool) -> Grid:
    if body.index is None:
        return frame.value(body.name)
    value = frame.values[body.name]
    starts = [frame.block[a][0] for a in value.axes]
    return frame.pick(f"%{body.name}", value.array, [e - s for e, s in zip(body.index, starts)], is_guarded)


def _literal(body: Literal, frame: Frame, is_guarded: bool) -> Grid:
    return Grid(np.array(body.value).astype(numpy_dtype(body.dtype)))


def _index(body: Index, frame: Frame, is_guarded: bool) -> Grid:
    places = frame.integers(body.expr)
    return Grid(convert(places.array, body.dtype), places.axes)


def _elementwise(body: Unary | Binary | Ternary, frame: Frame, is_guarded: bool) -> Grid:
    grids = [evaluate(o, frame, is_guarded) for o in operands_of(body)]
    axes = union(grids, frame.order)
    exact = unrounded(body, [g.along(axes) for g in grids])
    found = convert(exact, body.dtype)
    return Grid(found if frame.moves is None else frame.moves.op(body, exact, found), axes)


def applied(body: Unary | Binary | Ternary, operands: list[np.ndarray]) -> np.ndarray:
    """What an op gives for arrays in the dtypes of its operands."""
    return convert(unrounded(body, operands), body.dtype)


def unrounded(body: Unary | Binary | Ternary, operands: list[np.ndarray]) -> np.ndarray:
    """The same before it is rounded to the dtype of the op."""
    dtypes = [o.dtype for o in operands_of(body)]
    if body.op == "cast":
        return operands[0]
    if body.op == "bitcast":
        return np.array(operands[0], numpy_dtype(dtypes[0]), order="C").view(numpy_dtype(body.dtype))
    works_in = compute_dtype(body.dtype if body.op == "mul" else dtypes[-1])
    taken = [o if d.kind == "b" else o.astype(works_in, copy=False) for o, d in zip(operands, dtypes)]
    with np.errstate(all="ignore"):
        return np.asarray(OPS[body.op.upper()].numpy(np, *taken))


def _select(body: Select, frame: Frame, is_guarded: bool) -> Grid:
    holds = frame.mask(body.guard)
    if not holds.array.any():
        return evaluate(body.other, frame, is_guarded)
    is_everywhere = bool(holds.array.all())
    then = evaluate(body.then, frame, is_guarded or not is_everywhere)
    if is_everywhere:
        return then
    other = evaluate(body.other, frame, True)
    axes = union((holds, then, other), frame.order)
    return Grid(np.where(holds.along(axes), then.along(axes), other.along(axes)), axes)


def _broadcast(body: BroadcastInDim, frame: Frame, is_guarded: bool) -> Grid:
    return evaluate(body.x, frame, is_guarded)


def _transpose(body: Transpose, frame: Frame, is_guarded: bool) -> Grid:
    inner = evaluate(body.x, frame, is_guarded)
    own = tuple(sorted(inner.axes, key=frame.order.__getitem__))
    return Grid(inner.along(own).transpose(body.perm), own)


def _random(body: Random, frame: Frame, is_guarded: bool) -> Grid:
    places = frame.integers(body.index)
    return Grid(convert(random_at(body.seed, body.offset, places.array, body.dtype), body.dtype), places.axes)


# --- folds


def _reduce(body: Reduce, frame: Frame, is_guarded: bool) -> Grid:
    spans = {a.name: (0, a.size.evaluate(frame.symbols)) for a in body.axes if a.size is not None}
    inside = frame.within(spans)
    names = tuple(a.name for a in body.axes)
    if body.op == "sum" and body.dtype.is_float and len(factors_of(body)) > 1 and 0 not in inside.extent(names):
        found = contract(body, inside, lambda b, f: evaluate(b, f, is_guarded))
    else:
        found = _fold(body, inside, names, is_guarded)
    return _folded(body, found, inside, is_guarded)


def _folded(body: Reduce | Scan | Scatter, found: Grid, frame: Frame, is_guarded: bool) -> Grid:
    """A fold's value, rounded."""
    if frame.moves is None:
        return Grid(convert(found.array, body.dtype), found.axes)
    moved = frame.moves.fold(body, found, frame, lambda b, f: evaluate(b, f, is_guarded))
    return Grid(frame.moves.rounded(body.dtype, moved.array, convert(moved.array, body.dtype)), moved.axes)


def _fold(body: Reduce, frame: Frame, names: tuple[str, ...], is_guarded: bool) -> Grid:
    """The fold's value over its free axes, in the compute dtype of its accumulator: what is rounded is the whole."""
    start, stop = frame.spans[names[0]]
    points = int(np.prod([float(n) for n in frame.extent(set(names) | _axes_read(body.body, frame))]))
    if body.op not in ("argmax", "argmin") and points > MOST_POINTS and stop - start > 1:
        middle = (start + stop) // 2
        halves = [
            _fold(body, frame.within({names[0]: half}), names, is_guarded) for half in ((start, middle), (middle, stop))
        ]
        fold = OPS[REDUCERS[body.op.upper()].fold]
        axes = union(halves, frame.order)
        with np.errstate(all="ignore"):
            return Grid(np.asarray(fold.numpy(np, *(h.along(axes) for h in halves))), axes)
    inner = evaluate(body.body, frame, is_guarded)
    kept = tuple(a for a in inner.axes if a not in names)
    array = np.broadcast_to(inner.along(kept + names), tuple(frame.extent(kept + names)))
    dims = tuple(range(len(kept), array.ndim))
    if body.op in ("argmax", "argmin"):
        flat = array.reshape(*array.shape[: len(kept)], -1)
        if flat.shape[-1] == 0:
            return Grid(np.zeros(flat.shape[:-1], numpy_dtype(body.dtype)), kept)
        return Grid(getattr(np, body.op)(flat, axis=-1).astype(numpy_dtype(body.dtype)), kept)
    works_in = compute_dtype(body.dtype)
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[body.op]
    with np.errstate(all="ignore"):
        found = ufunc.reduce(
            array.astype(works_in, copy=False), axis=dims, initial=neutral_of(body.op, body.dtype).value
        )
    return Grid(np.asarray(found), kept)


def _axes_read(body: Body, frame: Frame) -> set[str]:
    from ..ir.present import present_axes

    axes_of = {name: g.axes for name, g in frame.values.items()}
    return {a for a in present_axes(body, tuple(frame.block), axes_of) if a in frame.spans}


def _scan(body: Scan, frame: Frame, is_guarded: bool) -> Grid:
    inner = evaluate(body.body, frame, is_guarded)
    axes = union((inner, Grid(np.empty(()), (body.axis,))), frame.order) if body.axis not in inner.axes else inner.axes
    at = axes.index(body.axis)
    array = np.broadcast_to(inner.along(axes), frame.extent(axes)).astype(compute_dtype(body.dtype))
    start = neutral_of(body.op, body.dtype).value
    with np.errstate(all="ignore"):
        found = scan(array, body.op.upper(), at, start, body.reverse, body.exclusive)
    return _folded(body, Grid(found, axes), frame, is_guarded)


# --- places chosen at run time


def _gather(body: Gather, frame: Frame, is_guarded: bool) -> Grid:
    at = evaluate(body.at, frame, is_guarded)
    inside, holds = frame.choosing(body.axis.name, body.axis.size.evaluate(frame.symbols), at)
    if not holds.array.any():
        return Grid(np.zeros(at.array.shape, numpy_dtype(body.dtype)), at.axes)
    found = evaluate(body.body, inside, is_guarded)
    axes = union((found, at), frame.order)
    return Grid(np.where(holds.along(axes), found.along(axes), np.zeros((), found.array.dtype)), axes)


def _scatter(body: Scatter, frame: Frame, is_guarded: bool) -> Grid:
    names = tuple(a.name for a in body.axes)
    inside = frame.within({a.name: (0, a.size.evaluate(frame.symbols)) for a in body.axes if a.size is not None})
    base, update, at = (
        evaluate(b, f, is_guarded) for b, f in ((body.base, frame), (body.update, inside), (body.at, inside))
    )
    start, stop = frame.spans[body.axis]
    axes = union(
        (base, Grid(update.array, tuple(a for a in update.axes if a not in names)), Grid(np.empty(()), (body.axis,))),
        frame.order,
    )
    result = np.broadcast_to(base.along(axes), frame.extent(axes)).astype(compute_dtype(body.dtype))
    others = tuple(a for a in axes if a != body.axis)
    space = (*others, *names)
    place = np.broadcast_to(at.along(space).astype(np.int64), inside.extent(space))
    place = np.where(place < 0, place + (stop - start), place).reshape(-1)
    points = np.broadcast_to(update.along(space).astype(result.dtype), inside.extent(space)).reshape(-1)
    is_inside = (place >= 0) & (place < stop - start)
    where = dict(zip(space, (g.reshape(-1) for g in np.indices(inside.extent(space), sparse=False))))
    index = tuple((place if a == body.axis else where[a])[is_inside] for a in axes)
    if body.op == "update":
        result[index] = points[is_inside]
    else:
        with np.errstate(all="ignore"):
            {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[body.op].at(
                result, index, points[is_inside]
            )
    return _folded(body, Grid(result, axes), inside, is_guarded)


_PLAY = {
    Read: _read,
    Ref: _ref,
    Literal: _literal,
    Index: _index,
    Unary: _elementwise,
    Binary: _elementwise,
    Ternary: _elementwise,
    Select: _select,
    Reduce: _reduce,
    BroadcastInDim: _broadcast,
    Transpose: _transpose,
    Scan: _scan,
    Gather: _gather,
    Random: _random,
    Scatter: _scatter,
}
