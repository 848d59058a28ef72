"""What the points of a region need of one another: each use of a tensor or a value, as an isl map, and what follows for
computing it where it is read (seed 001 section 7.1).

    %blur = reduce sum (k0: 3) : fp32 { X[i0, i1 + k0] }      X -> %blur: { [e0, e1] -> [i0, i1] : e0 = i0 and ... }

A reader is a value, or a write. What it reads under a guard it needs there alone; what a fold or a scan runs over is
inside of its point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..ir.body import (
    Body,
    Gather,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Transpose,
    operands_of,
    rebuild,
    substitute,
)
from ..ir.expr import ONE, ZERO, Bound, Expr
from ..ir.model import Model
from ..ir.present import axes_of_values, names_in, present_axes
from ..ir.region import Region
from ..ir.sets import as_affine, bound_text, domain_text, is_representable, read_map, read_set, symbol_params
from ..kit.records import dataclass
from .compute_at import ComputeAt, Need, compute_at
from .counting import count

TILE = 16  # points along an axis with a halo, of the tiles whose halo is counted in bytes
Axes = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Use:
    """One element that a reader needs at a point: its index over the reader's axes and those `inside` of the point,
    where the guard holds."""

    index: tuple[Expr, ...]
    inside: Axes
    guard: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """All uses of a source by one reader. `source` is a tensor, or `%name`; `axes` are the reader's, in the order of
    `for`, `extents` the source's sizes."""

    source: str
    reader: str
    axes: Axes
    extents: tuple[Expr, ...]
    bytes_each: int
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Halo:
    """What a tile shares with its neighbours at given sizes: by axis of the reader the elements that two neighbouring
    points share along it, some and not all, and the bytes that a tile of `tile` points reads and tiles before it read
    too."""

    per_axis: tuple[tuple[str, int], ...]
    tile: tuple[tuple[str, int], ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of an edge; None of both where it is not affine."""

    edge: Edge
    at: ComputeAt | None
    halo: Halo | None


def edges_of(region: Region) -> Iterator[Edge]:
    """The edges of a region: sources in the order in which they are read first, by each reader."""
    axes_of = axes_of_values(region)
    iters = tuple(a.name for a in region.iters)
    sizes = {a.name: a.size for a in region.iters}
    shapes = {t.name: t.type.shape for t in region.inputs}
    shapes |= {f"%{n}": tuple(sizes[a] for a in axes) for n, axes in axes_of.items()}
    readers = [(f"%{let.name}", axes_of[let.name], let.expr, ()) for let in region.lets]
    for item in region.yields:
        present = present_axes(item.expr, iters, axes_of) | names_in(item.index)
        readers.append((item.output, tuple(n for n in iters if n in present), item.expr, item.guard))
    for reader, axes, body, guard in readers:
        found: dict[str, tuple[int, dict[Use, None]]] = {}
        for source, size, use in _Uses(axes_of, sizes).of(body, (), guard):
            found.setdefault(source, (size, {}))[1].setdefault(use)
        for source, (size, uses) in found.items():
            yield Edge(source, reader, tuple((n, sizes[n]) for n in axes), shapes[source], size, tuple(uses))


class _Uses:
    """Finds every read in an expression of a region: (source, bytes of an element, use)."""

    def __init__(self, axes_of: Mapping[str, tuple[str, ...]], sizes: Mapping[str, Expr]):
        self.axes_of, self.sizes, self.numbers = axes_of, sizes, itertools.count()

    def of(self, body: Body, inside: Axes, guard: tuple[Bound, ...]) -> Iterator[tuple[str, int, Use]]:
        """Those of an expression inside of axes of its own, and of a guard."""
        if isinstance(body, Read):
            yield body.tensor, body.dtype.bytes, Use(body.index, inside, guard)
        elif isinstance(body, Ref):
            index = tuple(map(Expr.of, self.axes_of[body.name])) if body.index is None else body.index
            yield f"%{body.name}", body.dtype.bytes, Use(index, inside, guard)
        else:
            for part, axes, bounds in _PARTS.get(type(body), _Uses.plain)(self, body):
                yield from self.of(part, (*inside, *axes), (*guard, *bounds))

    def plain(self, body: Body) -> Iterator[Part]:
        """Operands at the point of the whole."""
        for part in operands_of(body):
            yield part, (), ()

    def select(self, body: Select) -> Iterator[Part]:
        """What is read where the guard holds is read there alone."""
        yield body.then, (), body.guard
        yield body.other, (), ()

    def reduce(self, body: Reduce) -> Iterator[Part]:
        """The fold's axes; those of the region have its sizes."""
        yield self._over(body.body, [(a.name, self.sizes[a.name] if a.size is None else a.size) for a in body.axes])

    def scan(self, body: Scan) -> Iterator[Part]:
        """All points up to this one."""
        here, there = Expr.of(body.axis), Expr.of(f"{body.axis}_{next(self.numbers)}")
        ahead = there - here if body.reverse else here - there
        moved = substitute(_indexed(body.body, self.axes_of), {body.axis: there})
        limit = Bound(ahead, ONE if body.exclusive else ZERO)
        yield moved, ((str(there), self.sizes[body.axis]),), (limit,)

    def gather(self, body: Gather) -> Iterator[Part]:
        """Any point of the axis that is chosen along."""
        yield body.at, (), ()
        yield self._over(body.body, [(body.axis.name, body.axis.size)])

    def scatter(self, body: Scatter) -> Iterator[Part]:
        """Every update, and its place."""
        own = [(a.name, a.size) for a in body.axes]
        yield body.base, (), ()
        yield self._over(body.at, own)
        yield self._over(body.update, own)

    def transpose(self, body: Transpose) -> Iterator[Part]:
        """The operand with its axes exchanged."""
        axes = [n for n in self.sizes if n in present_axes(body.x, tuple(self.sizes), self.axes_of)]
        turned = {axes[old]: Expr.of(axes[new]) for new, old in enumerate(body.perm)}
        yield substitute(_indexed(body.x, self.axes_of), turned), (), ()

    def _over(self, part: Body, axes: Sequence[tuple[str, Expr]]) -> Part:
        """A part over axes of its own under names that nothing else has, whatever they are called around it."""
        named = {name: f"{name}_{next(self.numbers)}" for name, _ in axes}
        moved = substitute(_indexed(part, self.axes_of), {n: Expr.of(w) for n, w in named.items()})
        return moved, tuple((named[n], size) for n, size in axes), ()


Part = tuple[Body, Axes, tuple[Bound, ...]]  # of an expression, with axes and bounds of its own
_PARTS: dict[type, Callable[[_Uses, Any], Iterator[Part]]] = {
    Select: _Uses.select,
    Reduce: _Uses.reduce,
    Scan: _Uses.scan,
    Gather: _Uses.gather,
    Scatter: _Uses.scatter,
    Transpose: _Uses.transpose,
}


def _indexed(body: Body, axes_of: Mapping[str, tuple[str, ...]]) -> Body:
    """The expression with an index on every value, so that it can be moved to another point."""
    if isinstance(body, Ref) and body.index is None:
        return Ref(body.name, body.dtype, tuple(map(Expr.of, axes_of[body.name])))
    return rebuild(body, lambda part: _indexed(part, axes_of))


def need_of(edge: Edge, model: Model) -> Need | None:
    """Which points of the reader need which elements, for all sizes within their ranges; None where it is not
    affine."""
    ranges = {r.symbol: (r.low, r.high) for r in map(model.range_of, model.symbols())}
    whole: Need | None = None
    for use in edge.uses:
        found = _relation(edge, use, ranges)
        if found is None:
            return None
        one = Need(found, len(edge.extents), tuple(n for n, _ in edge.axes))
        whole = one if whole is None else whole.joined(one)
    return whole


def _relation(edge: Edge, use: Use, ranges: Mapping[str, tuple[int, int]]) -> Any:
    domain = (*edge.axes, *use.inside)
    axes = dict(domain)
    limits = [e for b in use.guard for e in (b.expr, b.lower, b.upper, b.equals) if e is not None]
    if not all(is_representable(e, axes) for e in (*use.index, *limits)):
        return None
    symbols = sorted(names_in((*axes.values(), *edge.extents, *use.index, *limits)) - axes.keys())
    params = symbol_params(symbols)
    held = domain_text(domain, params) + [bound_text(b, params) for b in use.guard]
    held += [f"e{n} = {as_affine(e, params)}" for n, e in enumerate(use.index)]
    held += [f"0 <= e{n} < {as_affine(size, params)}" for n, size in enumerate(edge.extents)]
    held += [f"{ranges[s][0]} <= {as_affine(Expr.of(s), params)} <= {ranges[s][1]}" for s in symbols if s in ranges]
    elements, points = ", ".join(f"e{n}" for n in range(len(edge.extents))), ", ".join(n for n, _ in domain)
    words = {str(as_affine(Expr.of(s), params)) for s in symbols} | set(params.values())
    return read_map(f"{{ [{elements}] -> [{points}] : {' and '.join(held) or 'true'} }}", tuple(sorted(words)))


def verdict_of(edge: Edge, model: Model, sizes: Mapping[str, int]) -> Verdict:
    """What is to be known of an edge: for all sizes where it can be computed, at `sizes` the bytes of its halo."""
    need = need_of(edge, model)
    if need is None:
        return Verdict(edge, None, None)
    at = compute_at(need, edge.source, edge.reader)
    return Verdict(edge, at, halo_of(edge, need, sizes))


def halo_of(edge: Edge, need: Need, sizes: Mapping[str, int]) -> Halo:
    """The halo of an edge at these sizes. Its bytes are those of the tile in the middle: TILE points, or what there
    are, along each axis with a halo, and one point along the others."""
    numbers = Need(_at_sizes(need.relation, edge, sizes), need.rank, need.axes)
    once = numbers.deepest()
    per_axis = tuple((n, 0 if n in once else numbers.halo(n) or 0) for n in need.axes)
    extents = {n: size.evaluate(sizes) for n, size in edge.axes}
    tile = tuple((n, min(TILE, extents[n])) for n, shared in per_axis if shared)
    if not tile:
        return Halo(per_axis, tile, 0)
    middle = {n: size // 2 for n, size in extents.items()}
    here, before = (
        numbers.relation.intersect_range(_points(edge, dict(tile), middle, is_before)) for is_before in (False, True)
    )
    return Halo(per_axis, tile, count(here.domain().intersect(before.domain())) * edge.bytes_each)


def _at_sizes(relation: Any, edge: Edge, sizes: Mapping[str, int]) -> Any:
    """The relation at these sizes, without parameters. Whatever is a parameter is a symbol, or a term of symbols."""
    import islpy as isl

    params: dict[Expr, str] = {}
    used = [*dict(edge.axes).values(), *edge.extents]
    for use in edge.uses:
        used += [*use.index, *dict(use.inside).values()]
        used += [e for b in use.guard for e in (b.expr, b.lower, b.upper, b.equals) if e is not None]
    symbols = sorted(names_in(used) & sizes.keys())
    params |= symbol_params(symbols)
    for e in used:
        as_affine(e, params)
    values = {s: sizes[s] for s in symbols} | {word: e.evaluate(sizes) for e, word in params.items()}
    for n in range(relation.dim(isl.dim_type.param)):
        relation = relation.fix_val(
            isl.dim_type.param, n, isl.Val(values[relation.get_dim_name(isl.dim_type.param, n)])
        )
    return relation.project_out(isl.dim_type.param, 0, relation.dim(isl.dim_type.param))


def _points(edge: Edge, tile: Mapping[str, int], middle: Mapping[str, int], is_before: bool) -> Any:
    """The points of the middle tile, or of all tiles before it in the order of their axes."""
    names = [n for n, _ in edge.axes]
    still = [f"{n} = {middle[n]}" for n in names if n not in tile]
    number = {n: middle[n] // size for n, size in tile.items()}
    within = {n: f"{size * number[n]} <= {n} < {size * number[n] + size}" for n, size in tile.items()}
    if not is_before:
        ways = [list(within.values())]
    else:
        first = list(tile)
        ways = [[*(within[m] for m in first[:at]), f"{n} < {tile[n] * number[n]}"] for at, n in enumerate(first)]
    texts = (f"[{', '.join(names)}] : {' and '.join((*still, *way)) or 'true'}" for way in ways)
    return read_set(f"{{ {'; '.join(texts)} }}", ())
