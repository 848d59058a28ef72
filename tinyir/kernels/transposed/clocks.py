"""What a transposed map costs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.neighbours import across_of, crossed_reads
from ...ir.plan import Plan
from ...ir.region import Region
from ..family import Clocks, Conditions, Problem
from ..parts.element_clocks import element_clocks
from .blocks import Sides, merged, sides_of


def transposed_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Of a map whose tiles pass through shared memory."""
    return element_clocks(plan, problem, at, tiles_of(plan, merged(problem.region), at.sizes))


def tiles_of(plan: Plan, region: Region, sizes: Mapping[str, int]) -> int:
    """The tiles of a map: along an axis that is shorter than their side one that is partly empty, which takes as long
    as a full one. Three channels of 64 are as many tiles as 64."""
    side = math.isqrt(plan.tile[0])
    sides = sides_of(plan, region) if plan.widest > 1 else Sides(side, side)
    across = across_of(region, crossed_reads(region)[0])
    cut = {region.iters[-1].name: sides.along, across.name: sides.across}
    extents = ((axis.size.evaluate(sizes), cut.get(axis.name, 1)) for axis in region.iters)
    return max(1, math.prod(-(-extent // each) for extent, each in extents))
