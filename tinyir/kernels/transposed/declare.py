"""What a CTA of a transposed map takes: a tile of each tensor that is read across, and a thread's blocks of it."""

from __future__ import annotations

import math

from ...ir.body import Read
from ...ir.neighbours import crossed_reads
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ..family import Array, Needs, Problem
from ..parts.pitch import pitch_of
from ..resources import ADDRESSING, allotted
from .blocks import registers_of, sides_of


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    reads = crossed_reads(problem.region)
    shared = tuple(tile_of(plan, problem.region, read) for read in reads)
    return Needs(shared, registers=allotted(plan, registers_of(plan, reads) + ADDRESSING))


def tile_of(plan: Plan, region: Region, read: Read) -> Array:
    """The tile of a tensor that is read across: square, with rows padded by a word; in blocks a row for each row of
    blocks, padded by a vector."""
    if plan.vectorize:
        sides, block = sides_of(plan, region), plan.widest
        return Array("tile", read.dtype, (sides.across // block, block * (sides.along + 1)))
    side = math.isqrt(plan.tile[0])
    return Array("tile", read.dtype, (side, pitch_of(side, read.dtype.bytes)))


__all__ = ["declare", "tile_of"]
