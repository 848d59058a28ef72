"""A map that does one thing in the first half of its rows and another in the second, both at once: a thread has an
element of each half, and what both read is read once.

before: region y    for i0: M, i1: 1024
                    yield Y[i0, i1] = where(i1 < 512, sub(mul(X[i0, i1], C[i0, i1]), mul(X[i0, i1 + 512], S[i0, i1])),
                                                      add(mul(X[i0, i1], C[i0, i1 - 512]), ...))
after:  region y    for i0: M, i1: 512
                    yield Y[i0, i1] = sub(mul(X[i0, i1], C[i0, i1]), mul(X[i0, i1 + 512], S[i0, i1]))
                    yield Y[i0, i1 + 512] = add(mul(X[i0, i1 + 512], C[i0, i1]), mul(X[i0, i1], S[i0, i1]))

No choice is left, which neighbouring threads would make apart, and of the loads half. Halves that are less than what
memory moves at least would leave in pieces: there a thread has both values, and writes one.

after:  region y    for i0: M, h0: 2, i1: 8
                    %low = sub(...), %high = add(...)
                    yield Y[i0, 8*h0 + i1] = %low where h0 < 1 else %high
"""

from __future__ import annotations

from ...analysis.regions import analyse
from ...ir.body import Axis, Body, Gather, Random, Read, Reduce, Ref, Select, Ternary, Transpose, substitute, walk
from ...ir.expr import Bound, Expr
from ...ir.intervals import Interval
from ...ir.meet import met
from ...ir.neighbours import ACCESS_BYTES
from ...ir.present import axes_of_values
from ...ir.region import Let, Region, Yield
from ...ir.traits import bodies_of
from ...kit.records import replace
from ..problem import Map, kernels_of
from .choices import decided
from .inline import Tangled, written_out
from .parts import Surroundings, free_name, numbered_name

SECTOR_BYTES = 32  # that memory moves at least
UNLIKE = (Gather, Random, Reduce, Transpose)  # what is not one value of the point alone, which another point could have


def halve_maps(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The region with both halves of its rows at each point, or itself."""
    made = _halved(region)
    if made is None or around.time_of(made) > around.time_of(region):
        return (region,)
    return (made,)


def _halved(region: Region) -> Region | None:
    """The region with both halves at each point; None where its rows have no halves that are told apart and share what
    they read."""
    if not region.iters or region.must_fuse or not isinstance(next(iter(kernels_of(region)), None), Map):
        return None
    nodes = [n for body in bodies_of(region) for n in walk(body)]
    axis, size = region.iters[-1], region.iters[-1].size.constant or 1
    narrow = min((t.type.dtype.bytes for t in (*region.inputs, *region.outputs)), default=1)
    if size % (2 * (ACCESS_BYTES // narrow)) or any(isinstance(n, UNLIKE) for n in nodes):
        return None
    if any(y.guard or not any(axis.name in e.names() for e in y.index) for y in region.yields):
        return None
    if not any(isinstance(n, Select) and any(axis.name in b.expr.names() for b in n.guard) for n in nodes):
        return None
    width = size // 2
    ranges = {axis.name: Interval(0, width - 1)}
    values: list[tuple[int, Yield, Body]] = []
    try:
        for half in (0, 1):
            for item in region.yields:
                moved = substitute(written_out(region, item.expr), {axis.name: Expr.of(axis.name) + half * width})
                values.append((half, item, decided(moved, ranges)))
    except Tangled:
        return None
    if any(isinstance(n, (Select, Ternary)) for _, _, value in values for n in walk(value)):
        return None
    reads = [{n for h, _, value in values if h == half for n in walk(value) if isinstance(n, Read)} for half in (0, 1)]
    if not reads[0] & reads[1]:
        return None
    least = min(t.type.dtype.bytes for t in region.outputs)
    made = (_of_values if width * least >= SECTOR_BYTES else _one_at_a_time)(region, axis, width, values)
    return replace(made, analysis=analyse(made))


def _of_values(
    region: Region, axis: Axis, width: int, values: list[tuple[int, Yield, Body]], more: tuple[Axis, ...] = ()
) -> Region:
    """The region of these values of each half, which do not vary along `more` axes."""
    iters = (*region.iters[:-1], *more, Axis(axis.name, Expr.of(width)))
    order, lets, yields = tuple(a.name for a in iters), [], []
    for half, item, value in values:
        whole = replace(region, iters=iters, lets=tuple(lets))
        name = free_name(f"{item.output}.{('low', 'high')[half]}", {let.name for let in lets})
        lets.append(Let(name, met(value, order, axes_of_values(whole)), item.origin))
        place = {axis.name: Expr.of(axis.name) + half * width}
        index = tuple(e.substitute(place) for e in item.index)
        yields.append(replace(item, index=index, expr=Ref(name, value.dtype)))
    return replace(region, iters=iters, lets=tuple(lets), yields=tuple(yields))


def _one_at_a_time(region: Region, axis: Axis, width: int, values: list[tuple[int, Yield, Body]]) -> Region:
    """The region of both halves with an axis for which of them a point writes."""
    half = numbered_name("h", {a.name for a in region.iters})
    is_low = (Bound(Expr.of(half), upper=Expr.of(1)),)
    both = _of_values(region, axis, width, values, (Axis(half, Expr.of(2)),))
    order, axes = tuple(a.name for a in both.iters), axes_of_values(both)
    place = {axis.name: Expr.of(axis.name) + Expr.of(half) * width}
    yields = []
    for item, low, high in zip(region.yields, both.yields, both.yields[len(region.yields) :]):
        chosen = met(Select(is_low, low.expr, high.expr, low.expr.dtype), order, axes)
        yields.append(replace(item, index=tuple(e.substitute(place) for e in item.index), expr=chosen))
    return replace(both, yields=tuple(yields))
