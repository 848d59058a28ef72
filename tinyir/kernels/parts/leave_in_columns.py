"""How outputs leave whose neighbours in memory are neighbours along the columns of a tile, but whose rows are not those
of one matrix: images with the channels first, of which a tile's columns are the pixels of several.

    let down = floor(warpgroup.thread/16), across = 4*warpgroup.thread - 64*down
    let col = n0 + 64*j + across                          each thread takes four neighbours at a time
    let plane = floor(col/196), first = col - 196*plane   which image, and where in it
    for v in 0..8 unroll
      let line = down + 8*v, row = m0 + part + line
      r.ahead[v, e] over e: 4 = r[plane, row, floor((first + e)/14), ...] vector 4
    each r, n of acc[0, 64*j] size [64, 64]
      store sums[warpgroup.index][r, n] = acc[r, 64*j + n]
    barrier warpgroup
    for v in 0..8 unroll
      let line = down + 8*v, row = m0 + part + line
      sums.near[e] over e: 4 = sums[warpgroup.index][line, across + e] vector 4
      values ...
      store y[plane, row, floor((first + e)/14), ...] over e: 4 = y.out[e] vector 4
    barrier warpgroup

Pieces of the sum go through shared memory as they are, so that all that the values read along the columns comes in
vectors too. What they read of memory is on its way for the whole piece before any of it is waited for: where a tile
hangs over the end, a load and what takes it would be one branch, at each of which a thread would wait.
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
from ...kit.records import dataclass
from ...target.hopper import WARPGROUP, WARPGROUP_ROWS
from ..problem import Contraction
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
    fetched, ended = _ended(plan, region, kernel, fresh, one, slot)
    return *fetched, each, met, ended, met


def _ended(
    plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, one: Piece, slot: Expr | None
) -> tuple[list[Statement], Statement]:
    """What the threads of a warpgroup fetch for a piece, and its values and stores."""
    rows, columns = turned(plan, (WARPGROUP_ROWS, one.chunk))
    over_rows, over_columns = turned(plan, kernel.groups)
    beside = columns_beside(region, over_columns)
    width = math.gcd(beside.width, columns)
    v, line, across, row, col = (fresh.expr(w) for w in ("v", "line", "across", "row", "col"))
    e, thread = fresh.expr("e") if width > 1 else ZERO, Expr.of("warpgroup.thread")
    corners, each = turned(plan, one.origin), columns // width
    turns = Expr.of(rows * columns // (WARPGROUP * width))
    start = thread if WARPGROUP % each == 0 else thread + WARPGROUP * v
    first_line = fresh.expr("down") if WARPGROUP % each == 0 else line
    of_columns = [
        nodes.Let(str(first_line), start // each),
        nodes.Let(str(across), width * start - columns * first_line),
        nodes.Let(str(col), corners[1] + across),
    ]
    places, aligned = split(col + e, over_columns), {str(col)}
    if len(beside.inner) < len(over_columns):
        plane, first, length = fresh.expr("plane"), fresh.expr("first"), extent_of(beside.inner)
        of_columns += [nodes.Let(str(plane), col // length), nodes.Let(str(first), col - length * plane)]
        places = split(plane, over_columns[: -len(beside.inner)]) | split(first + e, beside.inner)
        aligned = {str(first)}
    of_rows = [nodes.Let(str(row), corners[0] + line)]
    if first_line != line:  # a thread has the same columns in each turn, so that they are found once
        of_rows = [nodes.Let(str(line), first_line + WARPGROUP // each * v), *of_rows]
    once, lets = (of_columns, of_rows) if first_line != line else ([], [*of_columns, *of_rows])
    point = {**split(row, over_rows), **places}
    if kernel.batch:
        point |= split(fresh.expr("batch"), kernel.batch)
    own = turned(plan, (line, across + e))  # in the accumulator's piece
    held: dict[Body, Body] = {}
    for side, vector, name in one.staged:
        held[substitute(vector, point)] = Read(name, (own[side] + one.corner[side],), vector.dtype, slot)
    total = Read(fresh(SUMS), (line, across + e), kernel.dtype, slot)
    near = {x for x in (total, *held.values()) if width > 1 and str(e) in x.index[-1].names()}
    known, turn = {kernel.value: total}, (v, turns)
    ends = Columns(region, fresh, width, over_columns, col + e, point, known, held, near, frozenset(aligned), turn)
    statements = tuple(ends.statements())
    hangs = turned(plan, one.hangs)
    bounds = below(row, extent_of(over_rows)) if hangs[0] else ()
    bounds += below(col + (width - 1), extent_of(over_columns)) if hangs[1] else ()

    def over_turns(inner: tuple[Statement, ...]) -> Statement:
        body = (*lets, *((nodes.If(bounds, inner),) if bounds else inner))
        return nodes.For(str(v), ZERO, turns, body, unroll=0)

    registers, loads = ends.fetched()
    return [*once, *registers, *([over_turns(loads)] if loads else [])], over_turns(statements)
