"""fp32 by three products of TF32 on wgmma: the role that splits the right operand, and the sums that are made again.

    role splitter warpgroups 1..2 regs 40           a third tile beside those that the copy engine fills
      for tile in ...
        for k in 0..steps
          wait full[c.slot] phase c.phase for %load.a, %load.b
          split bl[c.slot] <- b[c.slot]
          fence async_proxy
          barrier warpgroup
          arrive ready[c.slot]
          advance c

An infinity or a NaN among the factors, and a sum that overflows, leave an accumulator that is not finite: low parts of
an infinity are NaN. The thread that holds such an element sums it again, from memory, in fp32.

    each r, n of acc
      if row < M and col < N
        resum acc[r, n] over k0: K = mul(A[row, k0], B[k0, col])
"""

from __future__ import annotations

from ...ir.body import Binary
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...target.hopper import WARPGROUP_ROWS
from ..parts.arrays import shared
from ..parts.epilogue import bounds_of
from ..parts.fresh import Fresh
from ..parts.leaving import turned
from ..parts.point import Values, split
from ..problem import Contraction
from .declare import low_array


def splitter_steps(plan: Plan, fresh: Fresh) -> Statement:
    """What the splitter does for one tile of the output."""
    slot = fresh.expr("c", "slot")
    step = (
        nodes.Wait(Place(fresh("full"), slot=slot), fresh.expr("c", "phase"), ("load.a", "load.b")),
        nodes.Split(Place(fresh("bl"), slot=slot), Place(fresh("b"), slot=slot)),
        nodes.Fence("async_proxy"),
        nodes.Barrier("warpgroup"),
        nodes.Arrive(Place(fresh("ready"), slot=slot)),
        nodes.Advance(fresh("c")),
    )
    return nodes.For(fresh("k"), ZERO, fresh.expr("steps"), step)


def declared(plan: Plan, kernel: Contraction, fresh: Fresh) -> tuple[Statement, ...]:
    """The tile of low parts, like the operand's, and the barriers that say it is whole."""
    return shared(fresh("bl"), low_array(plan, kernel)), nodes.Mbarrier(fresh("ready"), 1, plan.stages)


def resummed(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh) -> Statement:
    """Every element of the accumulator that is not finite, once more in fp32."""
    count, columns = plan.consumers.count, plan.tile[1]
    rows = plan.tile[0] // count
    r, n, row, col = (fresh.expr(word) for word in ("r", "n", *turned(plan, ("row", "col"))))
    down = WARPGROUP_ROWS * fresh.expr("i") if rows > WARPGROUP_ROWS else ZERO
    terms = {a.name: fresh.expr(f"again.{a.name}") for a in kernel.sum}
    point = {**split(row, kernel.left), **split(col, kernel.right), **split(fresh.expr("batch"), kernel.batch), **terms}
    left, right = (Values(region, point).at(factor) for factor in kernel.factors)
    acc = Place(fresh("acc"), (r + down, n))
    again = nodes.Resum(
        acc, tuple((str(terms[a.name]), a.size) for a in kernel.sum), Binary("mul", left, right, kernel.dtype)
    )
    inside = (*bounds_of(row, plan, kernel, 0), *bounds_of(col, plan, kernel, 1))
    lets = (
        nodes.Let(str(row), fresh.expr("m0") + (fresh.expr("part") if count > 1 else 0) + down + r),
        nodes.Let(str(col), fresh.expr("n0") + n),
    )
    each = nodes.Each(
        (str(r), str(n)),
        fresh("acc"),
        (*lets, nodes.If(inside, (again,)) if inside else again),
        (down, ZERO),
        (WARPGROUP_ROWS, columns),
    )
    return (
        nodes.For(fresh("i"), ZERO, Expr.of(rows // WARPGROUP_ROWS), (each,), unroll=0)
        if rows > WARPGROUP_ROWS
        else each
    )
