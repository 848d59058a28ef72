"""What a CTA of a transposed map takes: a tile of each tensor that is read across, and a thread's blocks of it."""

from __future__ import annotations

import math

from ...ir.body import Read
from ...ir.neighbours import crossed_reads
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ..family import Array, Needs, Problem
from ..parts.arrays import pitch_of
from ..resources import allotted
from .blocks import block_of, merged, registers_of, sides_of, skew_of

ADDRESSING = 16  # registers beside elements,
OF_BLOCKS = 32  # or beside blocks,
SKEWED = 16  # more where blocks begin between accesses, so that elements may be moved one by one
AT_ONCE = 16  # elements that a thread has on their way


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    region = merged(problem.region)
    reads = crossed_reads(region)
    shared = tuple(tile_of(plan, region, read) for read in reads) if plan.cache else ()
    if plan.vectorize:
        wanted = registers_of(plan, region) + OF_BLOCKS + SKEWED * bool(skew_of(region, block_of(region)))
    else:
        wanted = min(AT_ONCE, plan.tile[0] // math.prod(plan.threads)) + ADDRESSING
    return Needs(shared, registers=allotted(plan, wanted))


def tile_of(plan: Plan, region: Region, read: Read) -> Array:
    """The tile of a tensor that is read across: square, with rows padded by a word; in blocks a row for each row of
    blocks, padded by a vector."""
    if plan.vectorize:
        sides, block = sides_of(plan, region), plan.widest
        return Array("tile", read.dtype, (sides.across // block, block * (sides.along + 1)))
    side = math.isqrt(plan.tile[0])
    return Array("tile", read.dtype, (side, pitch_of(side, read.dtype.bytes)))
