"""Where in the operands a step of the sum is fetched from."""

from __future__ import annotations

from ...ir.body import Axis
from ...ir.expr import ONE, ZERO, Expr
from ...ir.plan import Plan
from ...kit.records import dataclass
from ..parts.boxes import View
from ..parts.fresh import Fresh
from ..parts.pairs import doubled
from ..parts.point import split
from ..parts.windows import tap_offset
from ..problem import Contraction


@dataclass(frozen=True, slots=True)
class Step:
    """Where a step of the sum is: its first element along the sum or, of windows, its first channel and its tap, with
    the axes that count taps. `lets` name them first."""

    element: Expr
    tap: Expr = ZERO
    taps: tuple[Axis, ...] = ()
    lets: tuple[tuple[Expr, Expr], ...] = ()


def step_at(views: tuple[View, ...], plan: Plan, kernel: Contraction, fresh: Fresh, k: Expr) -> Step:
    """Where step `k` is."""
    if not any(v.windows for v in views):
        return Step(plan.tile[2] * k)
    *taps, channels = kernel.sum
    blocks = channels.size.ceildiv(plan.tile[2])
    if not taps:
        return Step(plan.tile[2] * k)
    if blocks == ONE:
        return Step(ZERO, k, tuple(taps))
    tap = fresh.expr("tap")
    return Step(plan.tile[2] * (k - blocks * tap), tap, tuple(taps), ((tap, k // blocks),))


def corner(view: View, plan: Plan, kernel: Contraction, fresh: Fresh, at: Step) -> tuple[Expr, ...]:
    """Where a tile starts along each dim of its tensor."""
    found, batch, axis = [], split(fresh.expr("batch"), kernel.batch) if kernel.batch else {}, 0
    for dim in view.dims:
        if dim.role == "batch":
            found.append(dim.place(batch))
        elif dim.role == "tap":
            place = tap_offset(view, axis, at.tap, at.taps).substitute(batch) if view.windows else at.tap
            found.append(place)
            axis += 1
        else:
            side = ("left", "right", "sum").index(dim.role)
            first = (fresh.expr("m0"), fresh.expr("n0"), view.ahead.substitute(batch) + at.element)[side]
            found.append(doubled(kernel, side) * first)
    return tuple(found)
