"""What a CTA of a transposed map takes: a square tile of each tensor that is read across."""

from __future__ import annotations

import math

from ...ir.body import Read
from ...ir.neighbours import crossed_reads
from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..parts.pitch import pitch_of
from ..resources import ADDRESSING, allotted


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    shared = tuple(tile_of(plan, read) for read in crossed_reads(problem.region))
    return Needs(shared, registers=allotted(plan, ADDRESSING))


def tile_of(plan: Plan, read: Read) -> Array:
    """The tile of a tensor that is read across."""
    side = math.isqrt(plan.tile[0])
    return Array("tile", read.dtype, (side, pitch_of(side, read.dtype.bytes)))


__all__ = ["declare", "tile_of"]
