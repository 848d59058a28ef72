"""The kernel that writes updates in place."""

from __future__ import annotations

from ...ir.body import Scatter
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.scatters import columns_of, put_in_place
from ...ir.traits import extent_of
from ..family import Problem
from ..parts.point import Fresh, divides, names_in, numbered
from ..parts.updates import update_at_its_place


def in_place_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan."""
    region = problem.region
    scatter = put_in_place(region)
    fresh, (threads,) = Fresh(names_in(region)), plan.threads
    axes = columns_of(region, scatter)
    total = extent_of(axes)
    number = threads * Expr.of("cta.x") + "thread.x"
    lines = _put(region, scatter, fresh)
    if axes:
        body = numbered(axes, fresh, number, "e", lines, not divides(threads, total))
    else:
        body = (nodes.If((Bound(Expr.of("thread.x"), equals=ZERO),), lines),)
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(threads),), plan.threads, body)


def _put(region: Region, scatter: Scatter, fresh: Fresh) -> tuple[Statement, ...]:
    """All updates of a place along the axis of the scatter, in their order."""
    lines = update_at_its_place(region, scatter, fresh, nodes.Store)
    for axis in reversed(scatter.axes):
        lines = (nodes.For(axis.name, ZERO, axis.size, lines),)
    return lines
