"""How outputs leave whose neighbours in memory are neighbours along the columns of a tile, but whose rows are not those
of one matrix: images with the channels first, of which a tile's columns are the pixels of several.

    each r, n of acc[0, 64*j] size [64, 64]
      store sums[warpgroup.index][r, n] = acc[r, 64*j + n]
    barrier warpgroup
    for v in 0..8 unroll                                  each thread takes four neighbours at a time
      let start = warpgroup.thread + 128*v
      let line = floor(start/16), across = 4*start - 64*line
      let row = m0 + part + line, col = n0 + 64*j + across
      let plane = floor(col/196), first = col - 196*plane     which image, and where in it
      sums.near[e] over e: 4 = sums[warpgroup.index][line, across + e] vector 4
      residuals, values ...
      store y[plane, row, floor((first + e)/14), ...] over e: 4 = y.out[e] vector 4
    barrier warpgroup

Pieces of the sum go through shared memory as they are, so that all that the values read along the columns comes in
vectors too.
"""

from __future__ import annotations

import math

from ...ir.body import Body, Read, substitute
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ...target.hopper import WARPGROUP, WARPGROUP_ROWS
from ..problem import Contraction
from .beyond import beyond
from .columns import Columns
from .fresh import Fresh
from .leaving import columns_beside, turned
from .point import below, split
from .sum_arrays import SUMS


@dataclass(frozen=True, slots=True)
class Piece:
    """The 64 rows and `chunk` columns of the accumulator from `corner` on, which are those of the output from `origin`
    on. `staged` gives what the values read along one side alone, `hangs` along which side the tile may hang over the
    end."""

    corner: tuple[Expr, Expr]
    origin: tuple[Expr, Expr]
    chunk: int
    staged: tuple[tuple[int, Body, str], ...]
    hangs: tuple[bool, bool]


def piece(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, one: Piece) -> tuple[Statement, ...]:
    """A piece of the sum through shared memory to the outputs."""
    r, n = fresh.expr("r"), fresh.expr("n")
    tile, corner, chunk = fresh(SUMS), one.corner, one.chunk
    slot = Expr.of("warpgroup.index") if plan.consumers.count > 1 else None
    kept = nodes.Store(
        Place(tile, turned(plan, (r, n)), slot), Read(fresh("acc"), (r + corner[0], n + corner[1]), kernel.dtype)
    )
    is_whole = plan.tile[:2] == (WARPGROUP_ROWS * plan.sharers, chunk)
    part = ((), ()) if is_whole else (corner, (WARPGROUP_ROWS, chunk))
    each = nodes.Each((str(r), str(n)), fresh("acc"), (kept,), *part)
    met = nodes.Barrier("warpgroup")
    return each, met, _ended(plan, region, kernel, fresh, one, slot), met


def _ended(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, one: Piece, slot: Expr | None) -> Statement:
    """The values and stores of a piece by the threads of its warpgroup. Raises Refused (E1611) where no neighbours
    are contiguous."""
    rows, columns = turned(plan, (WARPGROUP_ROWS, one.chunk))
    over_rows, over_columns = turned(plan, kernel.groups)
    beside = columns_beside(region, over_columns)
    if beside is None:
        what = Phrase("outputs along columns whose neighbours are not contiguous in memory")
        raise beyond(plan, "store", what)
    width = math.gcd(beside.width, columns)
    v, start, line, across, row, col = (fresh.expr(w) for w in ("v", "start", "line", "across", "row", "col"))
    e = fresh.expr("e") if width > 1 else ZERO
    corners = turned(plan, one.origin)
    turns = rows * columns // (WARPGROUP * width)
    lets = [
        nodes.Let(str(start), Expr.of("warpgroup.thread") + WARPGROUP * v),
        nodes.Let(str(line), start // (columns // width)),
        nodes.Let(str(across), width * start - columns * line),
        nodes.Let(str(row), corners[0] + line),
        nodes.Let(str(col), corners[1] + across),
    ]
    places, aligned = split(col + e, over_columns), {str(col)}
    if len(beside.inner) < len(over_columns) and width > 1:
        plane, first, length = fresh.expr("plane"), fresh.expr("first"), extent_of(beside.inner)
        lets += [nodes.Let(str(plane), col // length), nodes.Let(str(first), col - length * plane)]
        places = split(plane, over_columns[: -len(beside.inner)]) | split(first + e, beside.inner)
        aligned = {str(first)}
    point = {**split(row, over_rows), **places}
    if kernel.batch:
        point |= split(fresh.expr("batch"), kernel.batch)
    own = turned(plan, (line, across + e))  # in the accumulator's piece
    held: dict[Body, Body] = {}
    for side, vector, name in one.staged:
        held[substitute(vector, point)] = Read(name, (own[side] + one.corner[side],), vector.dtype, slot)
    total = Read(fresh(SUMS), (line, across + e), kernel.dtype, slot)
    near = {x for x in (total, *held.values()) if width > 1 and str(e) in x.index[-1].names()}
    statements = tuple(
        Columns(
            region, fresh, width, over_columns, col + e, point, {kernel.value: total}, held, near, frozenset(aligned)
        ).statements()
    )
    hangs = turned(plan, one.hangs)
    bounds = below(row, extent_of(over_rows)) if hangs[0] else ()
    bounds += below(col + (width - 1), extent_of(over_columns)) if hangs[1] else ()
    body = (*lets, *((nodes.If(bounds, statements),) if bounds else statements))
    return nodes.For(str(v), ZERO, Expr.of(turns), body, unroll=0)
