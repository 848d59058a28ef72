"""What a CTA of a transposed map takes: a square tile of each tensor that is read across."""

from __future__ import annotations

import math

from ...ir.neighbours import crossed_reads
from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..parts.pitch import pitch_of
from ..resources import ADDRESSING, allotted


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    side = math.isqrt(plan.tile[0])
    shared = tuple(
        Array(f"{read.tensor}.tile", side * pitch_of(side, read.dtype.bytes) * read.dtype.bytes)
        for read in crossed_reads(problem.region)
    )
    return Needs(shared, registers=allotted(plan, ADDRESSING))


__all__ = ["declare"]
