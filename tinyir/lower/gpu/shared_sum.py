"""The end of a sum in shared memory: the consumers leave their accumulators there, and all threads finish the tile together. Where the CTAs of
a cluster have cut the sum among them, each leaves its part, and all read one another's.

    each r, n of acc[0, 64*j] size [64, 64]         in the consumers
      store sums[cluster.rank][r, 64*j + n] = acc[r, 64*j + n]
    barrier cluster                                 all threads of all CTAs
    for v in 0..8 unroll                            at row `cluster.rank` of every `parts` rows, where it is inside
      whole[v] = add(add(sums[0][r, n], sums[1][r, n]), ...)
    barrier cluster                                 nobody leaves while others read
    for v in 0..8 unroll
      %gemm = whole[v] ...                          the region's values and stores

What a value reads along one side of the tile alone is in shared memory by then (`epilogue.fetched`).
The parts are added in the order of the CTAs, so the result is the same at every run. No memory outside the chip is touched. An accumulator
whose rows are the output's columns (`swap_ab`) is left transposed: the rows of `sums` are the output's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.body import Binary, Body, Read, Ref, substitute
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.kernels import Contraction, extent_of
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.resources import SUM_PAD, WARPGROUP_ROWS
from ...ir.types import TensorType
from .epilogue import Staged, from_shared, turned
from .fresh import Fresh
from .point import Values, below, element_store, split

SUMS = "sums"
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
    where there are fewer rows so many of the columns; neighbours along a row are neighbouring threads'."""

    rows: int
    columns: int
    threads: int
    parts: int
    fresh: Fresh

    @property
    def share(self) -> tuple[int, int]:
        """Rows and columns of one CTA."""
        return (self.rows // self.parts, self.columns) if self.rows % self.parts == 0 else (self.rows, self.columns // self.parts)

    @property
    def count(self) -> int:
        """Elements of a thread."""
        return -(-self.share[0] * self.share[1] // self.threads)

    def over(self, inside: tuple[Bound, ...], *body: Statement) -> Statement:
        """`body` at each element of a thread, where the guard holds of `r` and `n`, its row and column in the tile."""
        e, turn, v, r, n = (self.fresh.expr(word) for word in ("e", "own", "v", "r", "n"))
        rank = Expr.of("cluster.rank") if self.parts > 1 else ZERO
        rows, columns = self.share
        row, column = (rank + self.parts * turn, ZERO) if rows < self.rows else (turn, columns * rank)
        body = (nodes.If(inside, body),) if inside else body
        body = (nodes.Let(str(r), row), nodes.Let(str(n), column + e - columns * turn), *body)
        body = (nodes.If((Bound(turn, upper=Expr.of(rows)),), body),) if rows * columns % self.threads else body
        lets = nodes.Let(str(e), Expr.of("thread.index") + self.threads * v), nodes.Let(str(turn), e // columns)
        return nodes.For(str(v), ZERO, Expr.of(self.count), (*lets, *body), unroll=0)


def finished(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, threads: int, staged: tuple[Staged, ...]) -> tuple[Statement, ...]:
    """What all threads do behind the sum: add the parts, compute the region's values, of which some are `staged` in shared memory, store."""
    r, n, row, col, v = (fresh.expr(word) for word in ("r", "n", "row", "col", "v"))
    (rows, columns), corners = turned(plan, plan.tile), turned(plan, (fresh.expr("m0"), fresh.expr("n0")))
    over_rows, over_columns = turned(plan, kernel.groups)
    turns = Turns(rows, columns, threads, plan.parts, fresh)
    place = nodes.Let(str(row), corners[0] + r), nodes.Let(str(col), corners[1] + n)
    bounds = (*below(row, extent_of(over_rows)), *below(col, extent_of(over_columns)))
    point = {**split(row, over_rows), **split(col, over_columns), **split(fresh.expr("batch"), kernel.batch)}
    values = Values(region, point, {kernel.value: Ref(kernel.value, kernel.dtype)})
    places = turned(plan, (r, n))
    held = {substitute(s.vector.body, point): s.at(places[s.vector.side]) for s in staged}

    def near(body: Body) -> Body:
        return from_shared(body, held)

    def stored(total: Body) -> tuple[Statement, ...]:
        statements = [nodes.Value(kernel.value, total), *values.name_values(near)]
        statements += [element_store(item, near(values.at(item.expr)), point, region.iters) for item in region.yields]
        return (*place, nodes.If(bounds, tuple(statements))) if bounds else (*place, *statements)

    if plan.parts == 1:
        return nodes.Barrier("cta"), turns.over((), *stored(Read(fresh(SUMS), (r, n), kernel.dtype)))
    added = nodes.Assign(Place(fresh("whole"), (v,)), _sum(fresh, (r, n), kernel, plan.parts))
    return (
        nodes.Reg(fresh("whole"), TensorType(kernel.dtype, (Expr.of(turns.count),))),
        nodes.Barrier("cluster"),
        turns.over(below(corners[0] + r, extent_of(over_rows)), added),
        nodes.Barrier("cluster"),
        turns.over((), *stored(Read(fresh("whole"), (v,), kernel.dtype))),
    )


def _sum(fresh: Fresh, index: tuple[Expr, Expr], kernel: Contraction, parts: int) -> Body:
    total: Body = Read(fresh(SUMS), index, kernel.dtype, ZERO)
    for cta in range(1, parts):
        total = Binary("add", total, Read(fresh(SUMS), index, kernel.dtype, Expr.of(cta)), kernel.dtype)
    return total


__all__ = ["SUMS", "Turns", "declared", "finished", "kept", "share", "steps"]
