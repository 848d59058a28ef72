"""The template of maps that read along one axis and write along another: a square tile passes through shared memory.

    for u in 0..4 unroll                                  a warp reads a row of the tile
      let i0 = 32*t0 + lane, i1 = 32*t1 + 8*u + warp.index
      if i0 < M and i1 < N
        store X.tile[8*u + warp.index, lane] = X[i1, i0]
    barrier cta
    for u in 0..4 unroll                                  and writes a column of it as a row
      let i0 = 32*t0 + 8*u + warp.index, i1 = 32*t1 + lane
      if i0 < M and i1 < N
        store Y[i0, i1] = X.tile[lane, 8*u + warp.index]

A row of the tile is padded by a word, so that the lanes of a column meet different banks. Where neighbours are known
to begin on whole accesses both ways, blocks of them are turned in registers (`turned`).
"""

from __future__ import annotations

import math

from ...ir.body import Axis, Body, Read, rebuild
from ...ir.expr import ONE, ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.neighbours import across_of, crossed_elements, crossed_reads
from ...ir.plan import Plan
from ...kit.records import replace
from ..family import Problem
from ..parts.arrays import shared
from ..parts.point import Fresh, below, divides, names_in, split
from ..parts.statements import Statements
from .blocks import merged
from .declare import tile_of
from .turned import turned_kernel

LANES, WARPS = 32, 8


def transposed_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `transposed`."""
    region = merged(problem.region)
    if plan.vectorize:
        return turned_kernel(plan, region)
    side, reads = math.isqrt(plan.tile[0]), crossed_reads(region)
    fresh, across, along = Fresh(names_in(region)), across_of(region, reads[0]), region.iters[-1]
    tiles = {read: fresh.name(f"{read.tensor}.tile") for read in reads}
    cut = {a.name: Axis(fresh.name(f"{a.name}.o"), a.size.ceildiv(side)) for a in (across, along)}
    numbers = tuple(cut.get(a.name, a) for a in region.iters)
    grid = ONE
    for axis in numbers:
        grid = grid * axis.size
    turn, half = fresh.name("u"), fresh.name("h")
    down, lanes = WARPS * Expr.of(turn) + "warp.index", LANES * Expr.of(half) + "lane"

    def walked(column: Axis, row: Axis, inner: list[Statement]) -> Statement:
        """All points of the tile, neighbouring lanes along the axis `column`."""
        places = ((row, down), (column, lanes))
        lets = tuple(nodes.Let(a.name, side * Expr.of(cut[a.name].name) + at) for a, at in places)
        guard = tuple(b for a, _ in places if not divides(side, a.size) for b in below(Expr.of(a.name), a.size))
        body = (*lets, *((nodes.If(guard, tuple(inner)),) if guard else inner))
        return nodes.For(
            turn,
            ZERO,
            Expr.of(side // WARPS),
            (nodes.For(half, ZERO, Expr.of(side // LANES), body, unroll=0),),
            unroll=0,
        )

    elements = crossed_elements(region)
    filled = [nodes.Store(Place(name, (down, lanes)), elements[read]) for read, name in tiles.items()]
    held = {elements[read]: Read(name, (lanes, down), read.dtype) for read, name in tiles.items()}
    written = _with_tiles(Statements(region, fresh).at_point(region.yields), held)
    arrays = tuple(shared(name, tile_of(plan, region, read)) for read, name in tiles.items())
    where = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), numbers).items())[::-1]
    body = (*arrays, *where, walked(across, along, filled), nodes.Barrier("cta"), walked(along, across, written))
    return Kernel(plan.name, plan.regions, plan.arch, (grid,), plan.threads, body)


def _with_tiles(lines: list[Statement], held: dict[Body, Read]) -> list[Statement]:
    """The statements with reads of tensors as reads of tiles."""

    def put(body: Body) -> Body:
        return held[body] if body in held else rebuild(body, put)

    return [
        replace(s, body=tuple(_with_tiles(list(s.body), held)))
        if isinstance(s, nodes.If)
        else replace(s, value=put(s.value))
        for s in lines
    ]
