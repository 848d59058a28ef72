"""The end of a sum that the CTAs of a cluster have cut among them: each leaves its part in shared memory, and all finish the tile together.

    each r, n of acc[0, 64*j] size [64, 64]         in the consumers
      store sums[cluster.rank][r, 64*j + n] = acc[r, 64*j + n]
    barrier cluster                                 all threads of all CTAs
    for v in 0..8 unroll                            at row `cluster.rank` of every `parts` rows
      whole[v] = add(add(sums[0][r, n], sums[1][r, n]), ...)
    barrier cluster                                 nobody leaves while others read
    for v in 0..8 unroll
      %gemm = whole[v] ...                          the region's values and stores

The parts are added in the order of the CTAs, so the result is the same at every run. No memory outside the chip is touched.
"""

from __future__ import annotations

import math

from ...ir.body import Binary, Body, Read, Ref
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.kernels import Contraction, extent_of
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.resources import SUM_PAD, WARPGROUP_ROWS
from ...ir.types import TensorType
from .fresh import Fresh
from .point import Values, below, element_store, split

SUMS = "sums"
COLUMNS = 64  # of the accumulator that are written at once, at most


def declared(plan: Plan, kernel: Contraction, fresh: Fresh) -> Statement:
    """The tile of every CTA, its rows apart by a few words more than they are long."""
    shape = Expr.of(plan.tile[0]), Expr.of(plan.tile[1] + SUM_PAD)
    return nodes.Shared(fresh(SUMS), TensorType(kernel.dtype, shape), cluster=plan.parts)


def kept(plan: Plan, kernel: Contraction, fresh: Fresh) -> tuple[Statement, ...]:
    """A consumer's accumulator into its CTA's tile."""
    count = plan.consumers.count
    r, n = fresh.expr("r"), fresh.expr("n")
    rows = plan.tile[0] // count
    down = WARPGROUP_ROWS * fresh.expr("i") if rows > WARPGROUP_ROWS else ZERO
    columns = math.gcd(COLUMNS, plan.tile[1])
    across = columns * fresh.expr("j")
    above = fresh.expr("part") if count > 1 else ZERO
    to = Place(fresh(SUMS), (r + down + above, n + across), Expr.of("cluster.rank"))
    store = nodes.Store(to, Read(fresh("acc"), (r + down, n + across), kernel.dtype))
    body: tuple[Statement, ...] = (nodes.Each((str(r), str(n)), fresh("acc"), (store,), (down, across), (WARPGROUP_ROWS, columns)),)
    body = (nodes.For(fresh("j"), ZERO, Expr.of(plan.tile[1] // columns), body, unroll=0),)
    return (nodes.For(fresh("i"), ZERO, Expr.of(rows // WARPGROUP_ROWS), body, unroll=0),) if rows > WARPGROUP_ROWS else body


def finished(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, threads: int) -> tuple[Statement, ...]:
    """What all threads do behind the roles: add the parts, compute the region's values, store."""
    columns, parts = plan.tile[1], plan.parts
    rows = plan.tile[0] // parts
    e, turn, r, n, row, col = (fresh.expr(word) for word in ("e", "own", "r", "n", "row", "col"))
    bounds = (*below(row, extent_of(kernel.left)), *below(col, extent_of(kernel.right)))
    point = {**split(row, kernel.left), **split(col, kernel.right), **split(fresh.expr("batch"), kernel.batch)}
    turns, v = -(-rows * columns // threads), fresh.expr("v")
    values = Values(region, point, {kernel.value: Ref(kernel.value, kernel.dtype)})
    statements: list[Statement] = [nodes.Value(kernel.value, Read(fresh("whole"), (v,), kernel.dtype))]
    statements += values.name_values()
    statements += [element_store(item, values.at(item.expr), point, region.iters) for item in region.yields]
    place = nodes.Let(str(r), Expr.of("cluster.rank") + parts * turn), nodes.Let(str(n), e - columns * turn)
    corner = nodes.Let(str(row), fresh.expr("m0") + r), nodes.Let(str(col), fresh.expr("n0") + n)
    added = nodes.Assign(Place(fresh("whole"), (v,)), _sum(fresh, (r, n), kernel, parts))

    def over(*body: Statement) -> Statement:
        inner = (nodes.If((Bound(turn, upper=Expr.of(rows)),), body),) if rows * columns % threads else body
        lets = nodes.Let(str(e), Expr.of("thread.index") + threads * v), nodes.Let(str(turn), e // columns)
        return nodes.For(str(v), ZERO, Expr.of(turns), (*lets, *inner), unroll=0)

    return (
        nodes.Reg(fresh("whole"), TensorType(kernel.dtype, (Expr.of(turns),))),
        nodes.Barrier("cluster"),
        over(*place, added),
        nodes.Barrier("cluster"),
        over(*place, *corner, *((nodes.If(bounds, tuple(statements)),) if bounds else statements)),
    )


def _sum(fresh: Fresh, index: tuple[Expr, Expr], kernel: Contraction, parts: int) -> Body:
    total: Body = Read(fresh(SUMS), index, kernel.dtype, ZERO)
    for cta in range(1, parts):
        total = Binary("add", total, Read(fresh(SUMS), index, kernel.dtype, Expr.of(cta)), kernel.dtype)
    return total


__all__ = ["SUMS", "declared", "finished", "kept"]
