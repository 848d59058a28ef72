"""The atomic template of a scatter: an earlier kernel writes the base, then a thread for each update finds its place
and folds it in there.

    kernel y.start of y for y : sm90 grid [...] block [256]      the base, as a map
      store Y[i0, i1] = base[i0, i1]

    kernel y : sm90 grid [...] block [256]
      let e = 256*cta.x + thread.x
      if e < N*K
        let k0 = floor(e/N)
        let i1 = e - N*floor(e/N)
        choose k0.at = at[k0] below M
        if 0 <= k0.at
          atomic sum Y[k0.at, i1] = add[k0, i1]

Neighbouring threads take neighbouring updates. The plan's tile is the map's; of the updates a thread takes one.
"""

from __future__ import annotations

from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel
from ...ir.plan import Plan
from ...ir.scatters import base_of, scatter_of, updates_of
from ...ir.traits import extent_of
from ...kit.records import replace
from ..family import Before, Problem
from ..parts.elements import element_kernel
from ..parts.point import Fresh, divides, names_in, numbered
from ..parts.updates import update_at_its_place


def scatter_atomic_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of the updates."""
    region = problem.region
    scatter, fresh, (threads,) = scatter_of(region), Fresh(names_in(region)), plan.threads
    axes = updates_of(region, scatter)
    total = extent_of(axes)
    body = numbered(
        axes,
        fresh,
        threads * Expr.of("cta.x") + "thread.x",
        "e",
        update_at_its_place(region, scatter, fresh, lambda place, update: nodes.Atomic(scatter.op, place, update)),
        not divides(threads, total),
    )
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(threads),), plan.threads, body)


def base_before(plan: Plan, problem: Problem) -> Before:
    """The kernel that writes the base at each run."""
    base = base_of(problem.region, scatter_of(problem.region))
    made = element_kernel(plan, replace(problem, regions=(base,)))
    return Before((replace(made, name=f"{plan.name}.start"),))
