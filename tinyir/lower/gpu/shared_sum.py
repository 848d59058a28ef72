"""The end of a sum in shared memory: the consumers leave their accumulators there, and all threads finish the tile together. Where the CTAs of
a cluster have cut the sum among them, each leaves its part, and all read one another's.

    each r, n of acc[0, 64*j] size [64, 64]         in the consumers
      store sums[cluster.rank][r, 64*j + n] = acc[r, 64*j + n]
    barrier cluster                                 all threads of all CTAs
    for v in 0..4 unroll                            at row `cluster.rank` of every `parts` rows, where it is inside
      parts[0, 4*v + e] over e: 4 = sums[0][r, n + e] vector 4 ...
    barrier cluster                                 nobody leaves while others read
    for v in 0..4 unroll
      for e in 0..4 unroll
        %gemm = add(add(parts[0, 4*v + e], parts[1, 4*v + e]), ...) ...
      store C[row, col + e] over e: 4 = C.out[e] vector 4

What a value reads along one side of the tile alone is in shared memory by then (`epilogue.brought`).
The parts are added in the order of the CTAs, so the result is the same at every run. No memory outside the chip is touched. An accumulator
whose rows are the output's columns (`swap_ab`) is left transposed: the rows of `sums` are the output's.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from ...ir.body import Binary, Body, Read, substitute
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.accesses import is_assumed_multiple
from ...ir.gpu.nodes import Place, Statement
from ...ir.kernels import Contraction, extent_of
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.resources import SUM_PAD, WARPGROUP_ROWS
from ...ir.types import TensorType
from .columns import Columns
from .epilogue import Staged, turned
from .fresh import Fresh
from .point import below, split

SUMS, PARTS = "sums", "parts"
WIDTHS = (4, 2)  # neighbours that a thread may end together: four words of shared memory are one access
COLUMNS = 64  # of the accumulator that are written at once, at most


def share(plan: Plan, fresh: Fresh) -> tuple[Statement, ...]:
    """Which steps of the sum are this CTA's, where those of a cluster share them."""
    if plan.parts == 1:
        return ()
    count, rank = fresh.expr("steps"), Expr.of("cluster.rank")
    return nodes.Let(fresh("first"), count * rank // plan.parts), nodes.Let(fresh("last"), (count * rank + count) // plan.parts)


def steps(plan: Plan, fresh: Fresh) -> tuple[Expr, Expr]:
    """The first step of the sum that is this CTA's, and the one behind its last."""
    return (fresh.expr("first"), fresh.expr("last")) if plan.parts > 1 else (ZERO, fresh.expr("steps"))


def declared(plan: Plan, kernel: Contraction, fresh: Fresh) -> Statement:
    """The tile of every CTA, its rows apart by a few words more than they are long."""
    rows, columns = turned(plan, plan.tile)
    return nodes.Shared(fresh(SUMS), TensorType(kernel.dtype, (Expr.of(rows), Expr.of(columns + SUM_PAD))), cluster=plan.parts if plan.parts > 1 else 0)


def kept(plan: Plan, kernel: Contraction, fresh: Fresh) -> tuple[Statement, ...]:
    """A consumer's accumulator into its CTA's tile."""
    count = plan.consumers.count
    r, n = fresh.expr("r"), fresh.expr("n")
    rows, columns = plan.tile[0] // count, math.gcd(COLUMNS, plan.tile[1])
    down = WARPGROUP_ROWS * fresh.expr("i") if rows > WARPGROUP_ROWS else ZERO
    across = columns * fresh.expr("j") if plan.tile[1] > columns else ZERO
    above = fresh.expr("part") if count > 1 else ZERO
    to = Place(fresh(SUMS), turned(plan, (r + down + above, n + across)), Expr.of("cluster.rank") if plan.parts > 1 else None)
    store = nodes.Store(to, Read(fresh("acc"), (r + down, n + across), kernel.dtype))
    body: tuple[Statement, ...] = (nodes.Each((str(r), str(n)), fresh("acc"), (store,), (down, across), (WARPGROUP_ROWS, columns)),)
    for word, turns in (("j", plan.tile[1] // columns), ("i", rows // WARPGROUP_ROWS)):
        body = (nodes.For(fresh(word), ZERO, Expr.of(turns), body, unroll=0),) if turns > 1 else body
    return body


@dataclass(frozen=True, slots=True)
class Turns:
    """How threads share the elements of a tile of `rows` x `columns` with the `parts` CTAs of a cluster: every `parts`-th row is one CTA's, or
    where there are fewer rows so many of the columns; neighbours along a row are neighbouring threads', `width` of them each."""

    rows: int
    columns: int
    threads: int
    parts: int
    fresh: Fresh
    width: int = 1

    @property
    def share(self) -> tuple[int, int]:
        """Rows and columns of one CTA."""
        return (self.rows // self.parts, self.columns) if self.rows % self.parts == 0 else (self.rows, self.columns // self.parts)

    @property
    def count(self) -> int:
        """Turns of a thread."""
        return -(-self.share[0] * self.share[1] // (self.threads * self.width))

    def over(self, inside: tuple[Bound, ...], *body: Statement) -> Statement:
        """`body` at each turn of a thread, where the guard holds of `r` and `n`, its row and its first column in the tile."""
        e, turn, v, r, n = (self.fresh.expr(word) for word in ("start", "own", "v", "r", "n"))
        rank = Expr.of("cluster.rank") if self.parts > 1 else ZERO
        rows, columns = self.share
        row, column = (rank + self.parts * turn, ZERO) if rows < self.rows else (turn, columns * rank)
        body = (nodes.If(inside, body),) if inside else body
        body = (nodes.Let(str(r), row), nodes.Let(str(n), column + e - columns * turn), *body)
        body = (nodes.If((Bound(turn, upper=Expr.of(rows)),), body),) if rows * columns % (self.threads * self.width) else body
        lets = nodes.Let(str(e), self.width * (Expr.of("thread.index") + self.threads * v)), nodes.Let(str(turn), e // columns)
        return nodes.For(str(v), ZERO, Expr.of(self.count), (*lets, *body), unroll=0)


def finished(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, threads: int, staged: tuple[Staged, ...]) -> tuple[Statement, ...]:
    """What all threads do behind the sum: add the parts, compute the region's values, of which some are `staged` in shared memory, store."""
    r, n, row, col, v = (fresh.expr(word) for word in ("r", "n", "row", "col", "v"))
    (rows, columns), corners = turned(plan, plan.tile), turned(plan, (fresh.expr("m0"), fresh.expr("n0")))
    over_rows, over_columns = turned(plan, kernel.groups)
    turns = Turns(rows, columns, threads, plan.parts, fresh)
    turns = replace(turns, width=_width(plan, region, turns.share[1], extent_of(over_columns)))
    e, number = (fresh.expr("e"), turns.width * v) if turns.width > 1 else (ZERO, v)
    place = nodes.Let(str(row), corners[0] + r), nodes.Let(str(col), corners[1] + n)
    bounds = (*below(row, extent_of(over_rows)), *below(col + turns.width - 1, extent_of(over_columns)))
    point = {**split(row, over_rows), **split(col + e, over_columns), **split(fresh.expr("batch"), kernel.batch)}
    places = turned(plan, (r, n + e))
    held = {substitute(s.vector.body, point): s.at(places[s.vector.side]) for s in staged}
    beside = {x for x in (*held.values(), Read(fresh(SUMS), (r, n + e), kernel.dtype)) if str(e) in x.index[-1].names()} if turns.width > 1 else set()

    def stored(total: Body) -> tuple[Statement, ...]:
        statements = tuple(Columns(region, fresh, turns.width, over_columns, col + e, point, {kernel.value: total}, held, beside).statements())
        return (*place, nodes.If(bounds, statements)) if bounds else (*place, *statements)

    if plan.parts == 1:
        return nodes.Barrier("cta"), turns.over((), *stored(Read(fresh(SUMS), (r, n + e), kernel.dtype)))
    of = [Read(fresh(PARTS), (Expr.of(cta), number + e), kernel.dtype) for cta in range(plan.parts)]
    over = ((str(e), Expr.of(turns.width)),) if turns.width > 1 else ()
    read = [nodes.Assign(Place(x.tensor, x.index), Read(fresh(SUMS), (r, n + e), kernel.dtype, x.index[0]), over, turns.width) for x in of]
    total = functools.reduce(lambda sum_, part: Binary("add", sum_, part, kernel.dtype), of)
    return (
        nodes.Reg(fresh(PARTS), TensorType(kernel.dtype, (Expr.of(plan.parts), Expr.of(turns.count * turns.width)))),
        nodes.Barrier("cluster"),
        turns.over(below(corners[0] + r, extent_of(over_rows)), *read),
        nodes.Barrier("cluster"),
        turns.over((), *stored(total)),
    )


def _width(plan: Plan, region: Region, columns: int, extent: Expr) -> int:
    """Columns that a thread takes at once: as many as every access of a row of the output can have, by what the plan assumes."""
    widest = max(t.type.dtype.bytes for t in (*region.inputs, *region.outputs))
    return next((w for w in WIDTHS if columns % w == 0 and w * widest <= ACCESS_BYTES and is_assumed_multiple(plan.assume, extent, w)), 1)


__all__ = ["SUMS", "Turns", "declared", "finished", "kept", "share", "steps"]
