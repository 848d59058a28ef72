"""What the plan is told of a region: parallel, folded and tail axes, halo, the smallest buffer (seed 001 section 7.1).

Everything follows from the indices of reads: an axis that a fold runs along is folded; one along which two reads at
neighbouring points overlap has a halo; one whose extent a tile may not divide is a tail, unless no tile ever cuts it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from ..ir.alike import Alike
from ..ir.body import Body, Gather, Read, Reduce, Ref, Scan, Scatter, operands_of, walk
from ..ir.expr import ONE, Expr
from ..ir.present import axes_of_values, names_in
from ..ir.region import Analysis, Region
from ..kit.groups import lists_of
from ..kit.records import dataclass
from ..kit.work import count
from .tiles import RING, leaves_rest

GRAIN = 16  # an extent that this divides, whatever its symbols are, leaves no tail


@dataclass(frozen=True, slots=True)
class Window:
    """An index that mixes an axis of the region with axes of a fold: `stride*axis + taps`, reaching over `span`
    elements."""

    tensor: str
    dim: int
    axis: str
    stride: int
    span: Expr
    taps: tuple[str, ...]


def analyse(region: Region) -> Analysis:
    """The analysis of a region. It names axes alone, which all that are alike have in common."""
    return _analysed(Alike.of(region))


@functools.lru_cache(maxsize=4096)
def _analysed(alike: Alike) -> Analysis:
    (region,) = alike.regions
    count("regions analysed")
    iters = tuple(a.name for a in region.iters)
    folded = folded_axes(region)
    found = windows(region)
    tails = tail_axes(region, folded, found)
    has_fold = bool(folded)
    buffer, depth = buffer_of(region)
    return Analysis(
        parallel=tuple(n for n in iters if n not in folded),
        reduce=folded,
        tail=tails,
        halo=tuple((a, size) for a, size in _halos(region, found, iters)),
        buffer=buffer,
        depth=depth,
        barrier="cta" if has_fold else "none",
    )


def bodies(region: Region) -> Iterator[Body]:
    """Every expression of a region."""
    return (item.expr for item in (*region.lets, *region.yields))


def folded_axes(region: Region) -> tuple[str, ...]:
    """The axes that folds run along: the region's own in their order, then the folds' own."""
    found: dict[str, None] = {}
    for body in bodies(region):
        for node in walk(body):
            if isinstance(node, (Reduce, Scatter)):
                found.update(dict.fromkeys(a.name for a in node.axes))
            elif isinstance(node, Scan):
                found[node.axis] = None
    iters = [a.name for a in region.iters]
    return tuple(n for n in (*iters, *sorted(set(found) - set(iters), key=_natural)) if n in found)


def _natural(name: str) -> tuple[str, int]:
    digits = "".join(c for c in name if c.isdigit())
    return name.rstrip("0123456789"), int(digits or 0)


def fold_sizes(region: Region) -> dict[str, Expr]:
    """The size of every axis, the folds' own included."""
    sizes = {a.name: a.size for a in region.iters}
    for body in bodies(region):
        for node in walk(body):
            kind = node.__class__
            axes = node.axes if kind is Reduce or kind is Scatter else (node.axis,) if kind is Gather else ()
            sizes.update((a.name, a.size) for a in axes if a.size is not None)
    return sizes


def windows(region: Region) -> tuple[Window, ...]:
    """Every index with a window, each once."""
    sizes = fold_sizes(region)
    iters = {a.name for a in region.iters}
    found: dict[Window, None] = {}
    for body in bodies(region):
        for node in walk(body):
            if isinstance(node, Read):
                for dim, index in enumerate(node.index):
                    names = set(index.names())
                    taps = tuple(sorted(n for n in names if n in sizes and n not in iters))
                    if taps and names & iters:
                        for axis in sorted(names & iters, key=_natural):
                            found[
                                Window(
                                    node.tensor,
                                    dim,
                                    axis,
                                    abs(_coefficient(index, axis)),
                                    _span(index, taps, sizes),
                                    taps,
                                )
                            ] = None
    return tuple(found)


def _coefficient(index: Expr, axis: str) -> int:
    return next((c for c, m in index.terms if m == (axis,)), 1)


def _span(index: Expr, taps: Iterable[str], sizes: dict[str, Expr]) -> Expr:
    total = ONE
    for tap in taps:
        total = total + (sizes[tap] - 1) * abs(_coefficient(index, tap))
    return total


def _halos(region: Region, found: tuple[Window, ...], iters: tuple[str, ...]) -> Iterator[tuple[str, Expr]]:
    """How many elements the reads of neighbouring points share along each axis, where they share any."""
    reach = lists_of((window.axis, window.span - window.stride) for window in found)
    for axis, low, high, stride in _offsets(region):
        reach.setdefault(axis, []).append(high - low + 1 - stride)
    for axis in iters:
        sizes = [e for e in reach.get(axis, ()) if e.constant is None or e.constant > 0]
        if sizes:
            constants = [e for e in sizes if e.constant is not None]
            yield (
                axis,
                max(constants, key=lambda e: e.constant)
                if len(constants) == len(sizes)
                else next(e for e in sizes if e.constant is None),
            )


def _offsets(region: Region) -> Iterator[tuple[str, Expr, Expr, int]]:
    """(axis, least offset, greatest offset, stride) of tensors and values that are read at several shifts along one
    axis."""
    shifts: dict[tuple[str, int, str, int], list[Expr]] = {}
    for body in bodies(region):
        for node in walk(body):
            if isinstance(node, (Read, Ref)) and node.index is not None:
                name = node.tensor if isinstance(node, Read) else f"%{node.name}"
                for dim, index in enumerate(node.index):
                    named = [(c, m) for c, m in index.terms if m]
                    if len(named) == 1 and len(named[0][1]) == 1 and isinstance(named[0][1][0], str):
                        shifts.setdefault((name, dim, named[0][1][0], abs(named[0][0])), []).append(
                            Expr.of(index.offset)
                        )
    for (_, _, axis, stride), offsets in shifts.items():
        low, high = min(o.constant for o in offsets), max(o.constant for o in offsets)
        if high > low:
            yield axis, Expr.of(low), Expr.of(high), stride


def buffer_of(region: Region) -> tuple[str, int]:
    """The smallest memory that carries the region's values, and its depth: registers; a ring for values read at
    neighbouring points, as deep as they are apart, and for tiles that another region hands over (one is filled while
    the other is read); memory where there is no limit."""
    depth = 2 if any(t.attr("materialize") == "deferred" for t in region.inputs) else 0
    axes_of = axes_of_values(region)
    shifts: dict[tuple[str, str], set[int]] = {}
    for body in bodies(region):
        for node in walk(body):
            if isinstance(node, Ref):
                for axis, index in zip(axes_of[node.name], node.index or map(Expr.of, axes_of[node.name])):
                    moved = index - axis
                    if moved.constant is None:
                        return "gmem", 1
                    shifts.setdefault((node.name, axis), set()).add(moved.constant)
    spread = max((max(s) - min(s) for s in shifts.values()), default=0)
    if spread >= RING:
        return "gmem", 1
    return ("smem_ring", max(depth, spread + 1)) if depth or spread else ("reg", 1)


def tail_axes(region: Region, folded: tuple[str, ...], found: tuple[Window, ...]) -> tuple[str, ...]:
    """The axes that tiles cut and whose extent may leave a rest. Taps of a window are never cut; nor are a
    contraction's batch axes and the rows of a row-wise region, which are taken one at a time."""
    iters = [a.name for a in region.iters]
    sizes = fold_sizes(region)
    taps = {t for w in found for t in w.taps}
    cut = [n for n in (*iters, *(f for f in folded if f not in iters)) if n not in taps]
    roles = contraction_axes(region)
    if roles is not None:
        cut = [n for n in cut if n not in roles]
    elif folded:
        cut = [n for n in cut if n in folded]
    return tuple(n for n in cut if leaves_rest(sizes[n], GRAIN))


def contraction_axes(region: Region) -> frozenset[str] | None:
    """The batch axes of the region's contraction (both factors vary along them, or neither); None when no fold of it
    sums a product of which each factor varies along an axis of its own."""
    axes_of = axes_of_values(region)
    iters = {a.name for a in region.iters}
    for body in bodies(region):
        for node in walk(body):
            if (
                isinstance(node, Reduce)
                and node.op == "sum"
                and getattr(node.body, "op", "") == "mul"
                and all(a.size is not None for a in node.axes)
            ):
                left, right = (_names(o, axes_of) & iters for o in operands_of(node.body))
                if left - right and right - left:
                    return frozenset(iters - (left ^ right))
    return None


def _names(body: Body, axes_of: dict[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    for node in walk(body):
        if isinstance(node, Read):
            found |= names_in(node.index)
        elif isinstance(node, Ref):
            found |= set(axes_of[node.name]) if node.index is None else names_in(node.index)
    return found
