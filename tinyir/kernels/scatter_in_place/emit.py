"""The kernel that writes updates in place."""

from __future__ import annotations

from ...ir.body import Scatter
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.scatters import columns_of, put_in_place
from ...ir.traits import extent_of
from ...kit.diag import refuse
from ..family import Problem
from ..parts.point import Fresh, divides, names_in, numbered
from ..parts.statements import Statements


def in_place_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan. Raises Refused (E1611) for a region that does not update a state so."""
    region = problem.region
    scatter = put_in_place(region)
    if isinstance(scatter, str):
        raise refuse("E1611", plan.name, plan.span_of("algo"), what=scatter, region=region.name)
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
    (item,) = region.yields
    place = fresh.name(f"{scatter.axes[0].name}.at")
    statements = Statements(region, fresh)
    statements.point |= {**{a.name: Expr.of(a.name) for a in scatter.axes}, scatter.axis: Expr.of(place)}
    at, choosing = statements.body(scatter.at)
    update, computing = statements.body(scatter.update)
    extent = next(a.size for a in region.iters if a.name == scatter.axis)
    store = nodes.Store(Place(item.output, tuple(e.substitute(statements.point) for e in item.index)), update)
    lines: list[Statement] = [
        *choosing,
        nodes.Choose(place, at, extent),
        nodes.If((Bound(Expr.of(place), lower=ZERO),), (*computing, store)),
    ]
    for axis in reversed(scatter.axes):
        lines = [nodes.For(axis.name, ZERO, axis.size, tuple(lines))]
    return tuple(lines)


__all__ = ["in_place_kernel"]
