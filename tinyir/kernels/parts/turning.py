"""Copies of operands whose rows run along the sum, where wgmma takes them so alone and the tensor's run across it. Each
row begins on a line, zeros behind it.

    kernel gemm.turn.b of gemm for gemm             a tile of 64 x 64 passes through shared memory
      for u in 0..8 unroll                          a warp reads along the operand's own axis
        for h in 0..2 unroll
          let own = 64*tile.own + 32*h + lane, term = 64*tile.sum + 8*u + warp.index
          if own < N
            store t[32*h + lane, 8*u + warp.index] = B[term, own] where term < K else 0.0
      barrier cta
      for v in 0..4 unroll                          and writes along the sum, four bytes a lane
        let row = 16*v + floor(thread.index/16), col = 4*(thread.index mod 16)
        if 64*tile.own + row < N and 64*tile.sum + col < 128*floor((K + 127)/128)
          x[e] over e: 4 = t[row, col + e] vector 4
          store gemm.B.turned[64*tile.own + row, 64*tile.sum + col + e] over e: 4 = x[e] vector 4

A row of the tile is padded by a word, so that the lanes of a column meet different banks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.body import Axis, Read
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.model import Model
from ...ir.plan import Plan
from ...ir.region import Region, Tensor
from ...ir.traits import extent_of
from ..family import Array
from ..problem import Contraction
from .arrays import pitch_of, shared
from .boxes import Dim, View, turned, view_of
from .fold import type_of
from .fresh import Fresh
from .point import below, divides, guarded, split
from .tiles import countable

SIDE, LANES, WARPS = 64, 32, 8
WORD_BYTES = 4


def turned_operands(plan: Plan, region: Region, kernel: Contraction) -> Iterator[tuple[str, Read, View, View]]:
    """Of each operand that the plan wants turned: its letter, the read, the tensor's view and the copy's."""
    for letter, read in zip("ab", (kernel.lhs, kernel.rhs)):
        view = view_of(region, read.tensor, read.index, kernel)
        if plan.is_turned(read.tensor) and isinstance(view, View):
            yield letter, read, view, turned(view, region)


def turned_workspaces(plan: Plan, region: Region, kernel: Contraction) -> tuple[Tensor, ...]:
    """The memory of the copies."""
    return tuple(copy.tensor for _, _, _, copy in turned_operands(plan, region, kernel))


def turning_kernels(plan: Plan, region: Region, kernel: Contraction, model: Model) -> tuple[Kernel, ...]:
    """A kernel for each copy, made once or at each run."""
    return tuple(_kernel(plan, region, kernel, model, *one) for one in turned_operands(plan, region, kernel))


def _kernel(
    plan: Plan, region: Region, kernel: Contraction, model: Model, letter: str, read: Read, view: View, copy: View
) -> Kernel:
    fresh = Fresh(model, region)
    *batch, own, term = copy.dims
    numbers = [Axis(fresh(f"batch.{n}"), d.size) for n, d in enumerate(batch)]
    numbers += [Axis(fresh("tile.own"), own.size.ceildiv(SIDE)), Axis(fresh("tile.sum"), copy.row.ceildiv(SIDE))]
    tile = shared(fresh("t"), Array("t", read.dtype, (SIDE, pitch_of(SIDE, read.dtype.bytes))))
    width = max(1, WORD_BYTES // read.dtype.bytes)
    held = nodes.Reg(fresh("x"), type_of(read.dtype, width))
    places = split(Expr.of("cta.x"), numbers)
    at = [Expr.of(n.name) for n in numbers]
    count = math.prod((n.size for n in numbers), start=Expr.of(1))
    body: tuple[Statement, ...] = (
        *countable(kernel, model, count),
        tile,
        held,
        *(nodes.Let(name, e) for name, e in reversed(list(places.items()))),
        _filled(read, own, term, batch, at, tile, fresh),
        nodes.Barrier("cta"),
        _written(copy, own, at, tile, held, width, fresh),
    )
    return Kernel(
        f"{plan.name}.turn.{letter}",
        plan.regions,
        plan.arch,
        (count,),
        (LANES * WARPS,),
        body,
        is_once=plan.is_kept(read.tensor),
    )


def _filled(
    read: Read, own: Dim, term: Dim, batch: list[Dim], at: list[Expr], tile: nodes.Shared, fresh: Fresh
) -> Statement:
    """The tile from the tensor, neighbouring lanes along the operand's own axis."""
    column, down = LANES * fresh.expr("h") + "lane", WARPS * fresh.expr("u") + "warp.index"
    row, k = fresh.expr("own"), fresh.expr("term")
    point = {**split(row, own.axes), **split(k, term.axes)}
    for dim, e in zip(batch, at):
        point |= split(e, dim.axes)
    source = Read(read.tensor, tuple(e.substitute(point) for e in read.index), read.dtype)
    inside = () if divides(SIDE, extent_of(term.axes)) else below(k, term.size)
    store: Statement = nodes.Store(Place(tile.name, (column, down)), guarded(inside, source))
    if not divides(SIDE, own.size):
        store = nodes.If(below(row, own.size), (store,))
    lets = nodes.Let(str(row), SIDE * at[-2] + column), nodes.Let(str(k), SIDE * at[-1] + down)
    across = nodes.For(fresh("h"), ZERO, Expr.of(SIDE // LANES), (*lets, store), unroll=0)
    return nodes.For(fresh("u"), ZERO, Expr.of(SIDE // WARPS), (across,), unroll=0)


def _written(
    copy: View, own: Dim, at: list[Expr], tile: nodes.Shared, held: nodes.Reg, width: int, fresh: Fresh
) -> Statement:
    """The tile to the copy, neighbouring lanes along the sum."""
    groups = SIDE // width
    rows = LANES * WARPS // groups  # that the threads write at once
    row, col, e, number = (fresh.expr(word) for word in ("row", "col", "e", "number"))
    over = ((str(e), Expr.of(width)),)
    load = nodes.Assign(Place(held.name, (e,)), Read(tile.name, (row, col + e), held.type.dtype), over, width)
    to = Place(copy.tensor.name, (*at[:-2], SIDE * at[-2] + row, SIDE * at[-1] + col + e))
    store = nodes.Store(to, Read(held.name, (e,), held.type.dtype), over, width)
    inside = () if divides(SIDE, own.size) else below(SIDE * at[-2] + row, own.size)
    inside += () if divides(SIDE, copy.row) else below(SIDE * at[-1] + col, copy.row)
    moved = (nodes.If(inside, (load, store)),) if inside else (load, store)
    thread = Expr.of("thread.index")
    lets = (
        nodes.Let(str(row), rows * fresh.expr("v") + thread // groups),
        nodes.Let(str(col), width * (thread - groups * (thread // groups))),
    )
    return nodes.For(fresh("v"), ZERO, Expr.of(SIDE // rows), (*lets, *moved), unroll=0)
