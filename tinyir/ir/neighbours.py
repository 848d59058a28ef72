"""Which elements of a map or of a row lie side by side in every tensor, so that a thread may move several in one access.

Along a map's last axis, or along the row, every write, and every read that varies along it, must step by one element of the tensor's last axis, from a place
that the numbers prove to be a multiple of the width; a value that is the same for all of them is no hindrance.
"""

from __future__ import annotations

from .body import Axis, Body, BroadcastInDim, Gather, Literal, Read, Reduce, Ref, Scan, Scatter, Select, Transpose, walk
from .expr import Expr
from .kernels import Prefix, Row, axes_of, bodies_of
from .model import is_exchanged
from .present import guard_names, names_in
from .region import Region

ACCESS_BYTES = 16
WIDTHS = (16, 8, 4, 2)  # elements


def widest_access(region: Region) -> int:
    """How many neighbours along the last axis of a map move at once, 16 bytes of the narrowest tensor at most; 1 where nothing is proven."""
    if not region.iters or any(isinstance(n, (Reduce, Scan, Scatter)) for b in bodies_of(region) for n in walk(b)):
        return 1
    axis = region.iters[-1]
    return _widest(region, {axis.name}, axis.size) if all(axis.name in names_in(y.index) for y in region.yields) else 1


def widest_row_access(region: Region, kernel: Row) -> int:
    """How many neighbours along the row of a row kernel move at once."""
    if len(kernel.row) != 1:
        return 1
    folded = {a.name for b in bodies_of(region) for n in walk(b) if isinstance(n, Reduce) for a in n.axes}
    return _widest(region, {kernel.row[0].name, *folded}, kernel.row[0].size)


def widest_scan_access(region: Region, kernel: Prefix) -> int:
    """How many neighbours along the row of a scan move at once; a scan from the end takes one at a time."""
    return 1 if kernel.reverse else _widest(region, {kernel.row[0].name}, kernel.row[0].size)


def _widest(region: Region, along: set[str], size: Expr) -> int:
    """The width along axes of one size that are the same axis under several names."""
    nodes = [n for b in bodies_of(region) for n in walk(b)]
    is_moved = any(isinstance(n, Transpose) or isinstance(n, Ref) and n.index is not None for n in nodes)
    is_chosen = any(along & _all_axes(region, n.at) for n in nodes if isinstance(n, Gather))
    if is_moved or is_chosen or any(along & guard_names(y.guard) for y in region.yields):
        return 1
    steps, sizes = [size], []
    for name, index in dict.fromkeys([*((y.output, y.index) for y in region.yields), *((n.tensor, n.index) for n in nodes if isinstance(n, Read))]):
        varying = [position for position, e in enumerate(index) if along & set(e.names())]
        if not varying:
            continue
        tensor, names = region.tensor(name), along & set(index[-1].names())
        if varying != [len(index) - 1] or len(names) != 1 or is_exchanged(tensor) or along & set((index[-1] - min(names)).names()):
            return 1
        steps += [index[-1] - min(names), tensor.type.shape[-1]]
        sizes.append(tensor.type.dtype.bytes)
    return next((w for w in WIDTHS if sizes and w * min(sizes) <= ACCESS_BYTES and all(is_multiple(e, w) for e in steps)), 1)


def in_vectors(elements: Expr, width: int) -> Expr:
    """How many vectors the elements are, of which there is a multiple of `width`."""
    return Expr(tuple((c // width, m) for c, m in elements.terms))


def crossed_reads(region: Region) -> tuple[Read, ...]:
    """The reads of a map whose neighbours lie along another axis than those of everything it writes: both axes cut in tiles, a tile is read along the
    one and written along the other. Empty where there are none, or where a tile would not do."""
    bodies = tuple(bodies_of(region))
    if len(region.iters) < 2 or any(isinstance(n, (Reduce, Scan, Scatter, Gather, Transpose)) or isinstance(n, Ref) and n.index is not None for b in bodies for n in walk(b)):
        return ()
    fast = region.iters[-1].name
    if any(not y.index or fast not in y.index[-1].names() or is_exchanged(region.tensor(y.output)) for y in region.yields):
        return ()
    found = dict.fromkeys(n for b in bodies for n in walk(b) if isinstance(n, Read) and across_of(region, n) is not None)
    guarded = {n for b in bodies for s in walk(b) if isinstance(s, (Select, BroadcastInDim)) for n in walk(s) if isinstance(n, Read)}
    across = {across_of(region, n) for n in found}
    return tuple(found) if len(across) == 1 and not guarded & found.keys() else ()


def across_of(region: Region, read: Read) -> Axis | None:
    """The axis along which a read's neighbours lie, where that is not the region's last one, which must vary slower in it."""
    axes = {a.name: a for a in region.iters}
    names = [n for n in read.index[-1].names() if n in axes] if read.index else []
    is_slow = any(region.iters[-1].name in e.names() for e in read.index[:-1])
    if len(names) != 1 or names[0] == region.iters[-1].name or not is_slow or is_exchanged(region.tensor(read.tensor)):
        return None
    return axes[names[0]] if names[0] not in (read.index[-1] - names[0]).names() else None


def is_multiple(expr: Expr, count: int) -> bool:
    """Whether every value of the expression is a multiple of `count`, read off its coefficients."""
    return all(coefficient % count == 0 for coefficient, _ in expr.terms)


def is_movement(body: Body) -> bool:
    """Whether an expression computes nothing: a read, at a place that may be chosen, or what stands where there is none."""
    if isinstance(body, Gather):
        return is_movement(body.body)
    return isinstance(body, Read) or isinstance(body, Select) and is_movement(body.then) and isinstance(body.other, Literal)


def _all_axes(region: Region, body: Body) -> set[str]:
    """The names in an expression and in the values that it needs."""
    found = set(axes_of(body))
    for node in walk(body):
        if isinstance(node, Ref):
            found |= _all_axes(region, region.let(node.name).expr)
    return found


__all__ = ["across_of", "crossed_reads", "in_vectors", "is_movement", "is_multiple", "widest_access", "widest_row_access", "widest_scan_access"]
