"""The fields of a plan that writes updates in place: `tile [T]`, the threads of a CTA, as many threads, and all axes in
one line."""

from __future__ import annotations

from ..accepts import Fields, bound, only
from ..candidate import parts_of_axes
from ..check.case import Case


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    axes = case.kernel.axes
    bind = bound((parts_of_axes(axes, "o"), "cta.x"), (parts_of_axes(axes, "i"), "thread.x"))
    return {"threads": only(case.plan.tile), "bind": bind}
