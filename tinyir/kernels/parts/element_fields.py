"""What the families of maps take alike in the fields of a plan: elements in one line, those of a CTA one `tile`, of a
thread `micro`."""

from __future__ import annotations

import math
from typing import Any

from ...ir.plan import Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import WIDTHS, map_run
from ..accepts import Accepts, Fields, bound, only, where
from ..candidate import parts_of_axes


def in_a_line(case: Any) -> Fields:
    """CTAs and threads along the elements' numbers."""
    axes = case.kernel.axes
    return {
        "micro": where("[tile / threads]", lambda micro: len(micro) == 1),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "bind": bound((parts_of_axes(axes, "o"), "cta.x"), (parts_of_axes(axes, "i"), "thread.x")),
    }


def in_vectors(plan: Plan, region: Region) -> Accepts:
    """Neighbours that are side by side in all tensors of a region, as many as a thread's elements are a multiple of."""
    each = math.prod(plan.micro)
    runs = (
        run
        for count in range(1, len(region.iters) + 1)
        for width in WIDTHS
        if each % width == 0 and (run := map_run(region, count, width)) is not None
    )
    return only((), *((Vectorize("*".join(a.name for a in run.axes), run.width),) for run in runs))
