"""Whether a value can be computed where it is read: legality with a witness, halo, and the smallest buffer between
(seed 001 section 7.1).

A dependence is an isl map from the points of a value to the points of its reader. The value is computed at a point of
some of the reader's axes when everything that this point needs is computed there. That is legal when no element is
needed at two such points: else one of them would have to wait for the other, or compute it again. Fewer axes are always
legal where more are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ..ir import poly
from ..ir.index import Entry
from ..ir.sets import read_map, read_set, with_names
from ..kit.records import dataclass, replace
from .counting import count
from .tiles import RING

HELD = 1 << 15  # elements beyond which one group of threads cannot hold them


@dataclass(frozen=True, slots=True)
class Witness:
    """An element that two points of the reader's `axes` need, at some symbol values."""

    axes: tuple[str, ...]
    element: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """`axes` are the reader's axes, outermost first, at whose points the value can be computed once; it `is_legal` when
    these are all of them, and else `witness` shows two points that differ along the first axis left out. `halo` is how
    many elements neighbours along an axis share (None: a number that depends on a symbol), for axes where they share
    some and not all. `buffer` is the smallest memory that carries the value: reg when each point has its own; smem_ring
    when points less than RING apart along an axis share it, or a group of threads does that walks the other axes, and
    what a point needs fits (`depth` is how many points along an axis the ring holds); else gmem."""

    source: str
    reader: str
    axes: tuple[str, ...]
    is_legal: bool
    witness: Witness | None
    halo: tuple[tuple[str, int | None], ...]
    buffer: str
    depth: int


class Need:
    """Which points of a reader need which elements, as an isl map from elements to points. Both have only their own
    axes: what a fold runs over is inside a point."""

    def __init__(self, relation: Any, rank: int, axes: tuple[str, ...]):
        """`relation` runs from instances to instances; the first `rank` axes of the source and those named of the
        reader are their own."""
        import islpy as isl

        inner, outer = relation.dim(isl.dim_type.in_), relation.dim(isl.dim_type.out)
        relation = relation.project_out(isl.dim_type.in_, rank, inner - rank).project_out(
            isl.dim_type.out, len(axes), outer - len(axes)
        )
        for side in (isl.dim_type.in_, isl.dim_type.out):
            relation = relation.reset_tuple_id(side) if relation.has_tuple_id(side) else relation
        self.relation = relation.coalesce()
        self.rank, self.axes = rank, axes

    @staticmethod
    def of_edge(module: poly.Module, edge: poly.Edge) -> Need:
        """The need behind an edge of a poly module, with the symbols in their ranges."""
        return _need(*_key(module, edge, module.index.entry_of()))

    def joined(self, other: Need) -> Need:
        """What either says, of the same source and reader."""
        return Need(self.relation.union(other.relation), self.rank, self.axes)

    def at(self, axes: tuple[str, ...]) -> Any:
        """The relation with only some of the reader's axes."""
        import islpy as isl

        found = self.relation
        for n in reversed(range(len(self.axes))):
            if self.axes[n] not in axes:
                found = found.project_out(isl.dim_type.out, n, 1)
        return found

    def deepest(self) -> tuple[str, ...]:
        """As many of the reader's axes as are legal, taken from the outermost."""
        found: tuple[str, ...] = ()
        for axis in self.axes:
            if self.at((*found, axis)).is_single_valued():
                found = (*found, axis)
        return found

    def witness(self, axes: tuple[str, ...]) -> Witness | None:
        """An element that two points of these axes need, the least for the least symbols; None when each is needed at
        one."""
        import islpy as isl

        relation = self.at(axes)
        order = isl.Map.lex_lt(relation.range().get_space())
        pairs = relation.range_product(relation)
        clash = pairs.intersect_range(order.wrap()).wrap().flatten()
        if clash.is_empty():
            return None
        names = [clash.get_dim_name(isl.dim_type.param, n) for n in range(clash.dim(isl.dim_type.param))]
        moved = clash.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, len(names))
        try:
            point = moved.lexmin().sample_point()
        except isl.Error:  # a symbol without a least value
            point = moved.sample_point()
        numbers = [int(str(point.get_coordinate_val(isl.dim_type.set, n))) for n in range(moved.dim(isl.dim_type.set))]
        sizes, rest = numbers[: len(names)], numbers[len(names) :]
        element, first, second = (
            rest[: self.rank],
            rest[self.rank : self.rank + len(axes)],
            rest[self.rank + len(axes) :],
        )
        return Witness(axes, tuple(element), tuple(first), tuple(second), tuple(zip(names, sizes)))

    def halo(self, axis: str) -> int | None:
        """How many elements two neighbours along an axis share, counted along the element axis that moves with it; 0
        when they share none, or all. None when a symbol decides."""
        import islpy as isl

        reads = self.relation.reverse()
        names = list(self.axes)
        there = [f"{n} + 1" if n == axis else n for n in names]
        step = isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(there)}] }}")
        beside = step.apply_range(reads)
        shared = reads.intersect(beside)
        found: int | None = 0
        for dim in range(self.rank):
            others = [d for d in range(self.rank) if d != dim]
            one, other, both = (_along(m, others) for m in (reads, beside, shared))
            common = one.domain().intersect(other.domain())
            if one.intersect_domain(common).is_equal(other.intersect_domain(common)):
                continue
            reach = both.sum(both.neg()).range()
            if reach.is_empty():
                continue
            most = reach.dim_max_val(0)
            if not most.is_int():
                return None
            found = max(found or 0, int(str(most)) + 1)
        return found

    def spans(self) -> tuple[int | None, ...]:
        """How far apart along each of the reader's axes two points may be that need one element; None when there is no
        limit."""
        return _extents(self.relation.reverse().apply_range(self.relation).deltas())

    def held(self, axes: tuple[str, ...]) -> int | None:
        """How many elements, as a box, a point of these axes needs at most; None when there is no limit."""
        there = self.at(axes)
        total = 1
        for extent in _extents(there.apply_range(there.reverse()).deltas()):
            if extent is None:
                return None
            total *= extent + 1
        return total

    def again(self, tile: Mapping[str, int], sizes: Mapping[str, int]) -> int:
        """How many elements more than once must be computed (or loaded) when tiles of the reader, of `tile` points
        along each axis named and one along the others, each compute all that they need."""
        import islpy as isl

        relation = self.relation
        for n in range(relation.dim(isl.dim_type.param)):
            relation = relation.fix_val(
                isl.dim_type.param, n, isl.Val(sizes[relation.get_dim_name(isl.dim_type.param, n)])
            )
        relation = relation.project_out(isl.dim_type.param, 0, relation.dim(isl.dim_type.param))
        cut = " and ".join(
            f"{tile.get(n, 1)}*t{n} <= {n} < {tile.get(n, 1)}*t{n} + {tile.get(n, 1)}" for n in self.axes
        )
        tiles = isl.Map(
            f"{{ [{', '.join(self.axes)}] -> [{', '.join(f't{n}' for n in self.axes)}] : {cut or 'true'} }}"
        )
        return count(relation.apply_range(tiles).wrap().flatten()) - count(relation.domain())


def _extents(apart: Any) -> tuple[int | None, ...]:
    """The greatest number along each dim of a set of differences, which is alike in both directions."""
    import islpy as isl

    found: list[int | None] = []
    for n in range(apart.dim(isl.dim_type.set)):
        most = None if apart.is_empty() else apart.dim_max_val(n)
        found.append(0 if most is None else int(str(most)) if most.is_int() else None)
    return tuple(found)


def _along(reads: Any, others: list[int]) -> Any:
    """The map onto one axis of the elements."""
    import islpy as isl

    for d in reversed(others):
        reads = reads.project_out(isl.dim_type.out, d, 1)
    return reads


def compute_at(need: Need, source: str, reader: str) -> ComputeAt:
    """What is to be known of computing `source` where `reader` needs it."""
    axes = need.deepest()
    is_legal = len(axes) == len(need.axes)
    left = next((a for a in need.axes if a not in axes), None)
    witness = None if left is None else need.witness(tuple(a for a in need.axes if a in axes or a == left))
    halo = tuple((a, n) for a, n in ((a, need.halo(a)) for a in need.axes if a not in axes) if n != 0)
    near = {a: span for a, span in zip(need.axes, need.spans()) if span is not None and span < RING}
    held = 1 if is_legal else need.held(tuple(near))
    if is_legal:
        buffer, depth = "reg", 1
    elif held is not None and held <= HELD:
        buffer, depth = "smem_ring", max(near.values(), default=0) + 1
    else:
        buffer, depth = "gmem", 1
    return ComputeAt(source, reader, axes, is_legal, witness, halo, buffer, depth)


def edges_of(module: poly.Module) -> Iterator[ComputeAt]:
    """The verdict on every true dependence of a poly module. Edges that differ in names only are one question to
    isl."""
    entries = module.index.entry_of()
    for edge in module.edges:
        if edge.kind == "true":
            yield replace(_verdict(*_key(module, edge, entries)), source=edge.source, reader=edge.target)


Ranges = tuple[tuple[str, int, int], ...]


def _key(
    module: poly.Module, edge: poly.Edge, entries: Mapping[str, Entry]
) -> tuple[str, Ranges, int, tuple[str, ...]]:
    """The edge's relation without the names of its ends, the ranges of the parameters, the source's rank, the reader's
    own axes."""
    ranges = {s: (low, high) for s, low, high in module.index.ranges()}
    params = tuple((p.name, *ranges.get(p.means.name or "", (0, -1))) for p in module.params)
    axes = tuple(a.name for a in entries[edge.target].own_axes)
    return with_names(edge.relation, "source", "reader"), params, len(entries[edge.source].own_axes), axes


def _need(relation: str, params: Ranges, rank: int, axes: tuple[str, ...]) -> Need:
    known = " and ".join(f"{low} <= {name} <= {high}" for name, low, high in params if low <= high) or "true"
    words = tuple(name for name, _, _ in params)
    return Need(read_map(relation, words).intersect_params(read_set(f"{{ : {known} }}", words).params()), rank, axes)


@functools.lru_cache(maxsize=1 << 12)
def _verdict(relation: str, params: Ranges, rank: int, axes: tuple[str, ...]) -> ComputeAt:
    return compute_at(_need(relation, params, rank, axes), "", "")
