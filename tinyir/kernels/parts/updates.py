"""An update of a scatter where the place that it has is inside of the extent.

choose k0.at = at[k0] below N
if 0 <= k0.at
  atomic sum y[k0.at] = updates[k0]             or a store, as the family has it
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.body import Body, Scatter
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.region import Region
from .point import Fresh
from .statements import Statements


def update_at_its_place(
    region: Region, scatter: Scatter, fresh: Fresh, put: Callable[[Place, Body], Statement]
) -> tuple[Statement, ...]:
    """The statements at one point of the scatter's axes; `put` says what becomes of the element and its update."""
    (item,) = region.yields
    place = fresh.name(f"{scatter.axes[0].name}.at")
    statements = Statements(region, fresh)
    statements.point |= {**{a.name: Expr.of(a.name) for a in scatter.axes}, scatter.axis: Expr.of(place)}
    at, choosing = statements.body(scatter.at)
    update, computing = statements.body(scatter.update)
    extent = next(a.size for a in region.iters if a.name == scatter.axis)
    done = put(Place(item.output, tuple(e.substitute(statements.point) for e in item.index)), update)
    return (
        *choosing,
        nodes.Choose(place, at, extent),
        nodes.If((Bound(Expr.of(place), lower=ZERO),), (*computing, done)),
    )
