"""The flat template of a map: the output's elements in one line, some to each thread, a block's width apart.

    for u in 0..4 unroll
      let e = 1024*cta.x + 256*u + thread.x
      if e < M*N
        let i0 = floor(e/N)
        let i1 = e - N*floor(e/N)
        the values at this point, and the stores

A fold inside runs in the thread, element after element; so does a scatter, whose element looks for its writers. Neighbours that are known to lie
side by side are taken in vectors (`flat_vector`).
"""

from __future__ import annotations

from ...ir.body import Axis
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Statement
from ...ir.kernels import Map, extent_of
from ...ir.neighbours import in_vectors, widest_access
from ...ir.plan import Plan
from ...ir.region import Region
from ...kit.diag import refuse
from .flat_vector import vector_statements
from .point import Fresh, below, divides, names_in, split
from .statements import Statements


def flat_kernel(plan: Plan, region: Region, kernel: Map) -> Kernel:
    """The kernel of a plan of algo `flat`. Raises Refused (E1611) for what the template has no place for."""
    (threads,), each, (tile,) = plan.threads, plan.micro[0], plan.tile
    width = plan.width_of(region.iters[-1].name) if region.iters else 1
    if threads * each != tile or each % width:
        raise refuse("E1611", plan.name, plan.span_of("micro"), what=f"{each} elements for each of {threads} threads in a tile of {tile}", region=region.name)
    if width > 1 and widest_access(region) % width:
        raise refuse("E1611", plan.name, plan.span_of("vectorize"), what=f"{width} neighbours that are not known to lie side by side", region=region.name)
    fresh = Fresh(names_in(region))
    numbers, name = _numbered(kernel.axes, fresh, width)
    total = in_vectors(extent_of(kernel.axes), width)
    turn, turns = fresh.of("u"), each // width
    start = tile // width * Expr.of("cta.x") + "thread.x"
    inner = (*numbers, *(vector_statements(region, fresh, width) if width > 1 else Statements(region, fresh).at_point(region.yields)))
    guard = () if divides(tile // width, total) else below(Expr.of(name), total)
    guarded: tuple[Statement, ...] = (nodes.If(guard, inner),) if guard else inner
    if turns == 1:
        body: tuple[Statement, ...] = (nodes.Let(name, start), *guarded)
    else:
        body = (nodes.For(turn, ZERO, Expr.of(turns), (nodes.Let(name, start + threads * Expr.of(turn)), *guarded), unroll=0),)
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(tile // width),), plan.threads, body)


def _numbered(axes: tuple[Axis, ...], fresh: Fresh, width: int) -> tuple[tuple[Statement, ...], str]:
    """The axes at a vector's first element, and the name of the vector's number; one axis alone is its own number where `width` is 1."""
    if len(axes) == 1 and width == 1:
        return (), axes[0].name
    name = fresh.of("e")
    if not axes:
        return (), name
    places = split(Expr.of(name), (*axes[:-1], Axis(axes[-1].name, in_vectors(axes[-1].size, width))))
    places[axes[-1].name] = width * places[axes[-1].name]
    return tuple(nodes.Let(a.name, places[a.name]) for a in axes), name
