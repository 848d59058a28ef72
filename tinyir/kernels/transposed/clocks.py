"""What a transposed map costs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.neighbours import across_of, crossed_reads
from ...ir.plan import Plan
from ...ir.region import Region
from ..family import Clocks, Conditions, Problem
from ..parts.boxes import LINE_BYTES
from ..parts.element_clocks import element_clocks
from .blocks import Sides, block_of, merged, sides_of

LANES = 32
READ_LOSS = 0.06  # of the bandwidth, each time as many lines for a load of a warp as hold it whole,
WRITE_LOSS = 0.04  # and for a store of columns from registers: of 2^24 numbers of 16 and 32 bits on an H200
SECTOR_BYTES = 32  # that memory moves at least


def transposed_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Of a map whose tiles pass through shared memory, or whose blocks through registers alone."""
    region = merged(problem.region)
    found = element_clocks(plan, problem, at, tiles_of(plan, region, at.sizes))
    loss = _loss(plan, region, at.sizes) if plan.vectorize else 1.0
    return Clocks({**found.parts, "memory": loss * found.parts["memory"]})


def _loss(plan: Plan, region: Region, sizes: Mapping[str, int]) -> float:
    """Of blocks: what accesses of a warp that touch more lines than they fill take longer."""
    (read, *_), sides = crossed_reads(region), sides_of(plan, region)
    side, deep, narrow = block_of(region), plan.widest, min(t.type.dtype.bytes for t in region.outputs)
    beside = min(LANES, sides.across // side)  # lanes that read of one row
    below = min(LANES // beside, sides.along // deep)
    row = across_of(region, read).size.evaluate(sizes) * read.dtype.bytes
    piece = beside * side * read.dtype.bytes
    lines = LANES / beside * max(piece, min(LINE_BYTES, deep * row)) / LINE_BYTES
    loss = 1 + READ_LOSS * _times(lines, LANES * side * read.dtype.bytes)
    if plan.cache:
        return loss
    written = below * deep * narrow  # of a column
    loss += WRITE_LOSS * _times(beside * max(1.0, written / LINE_BYTES), LANES * deep * narrow)
    return loss * (1 + max(1.0, SECTOR_BYTES / written)) / 2


def _times(lines: float, moved: int) -> float:
    """How often the lines for what an access moves double, from as few as hold it."""
    return math.log2(max(1.0, lines / max(1.0, moved / LINE_BYTES)))


def tiles_of(plan: Plan, region: Region, sizes: Mapping[str, int]) -> int:
    """The tiles of a map: along an axis that is shorter than their side one that is partly empty, which takes as long
    as a full one. Three channels of 64 are as many tiles as 64."""
    side = math.isqrt(plan.tile[0])
    sides = sides_of(plan, region) if plan.widest > 1 else Sides(side, side)
    across = across_of(region, crossed_reads(region)[0])
    cut = {region.iters[-1].name: sides.along, across.name: sides.across}
    extents = ((axis.size.evaluate(sizes), cut.get(axis.name, 1)) for axis in region.iters)
    return max(1, math.prod(-(-extent // each) for extent, each in extents))
