"""What a CTA of a row kernel takes: where its warps meet, and the elements of a row that a thread has at once."""

from __future__ import annotations

import math

from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..resources import allotted, threads_of

ADDRESSING = 24  # registers
WARP = 32


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes, be the row resident or not."""
    meets = threads_of(plan) > WARP and len(plan.threads) == 1
    shared = (Array("part", 4 * WARP),) if meets else ()
    return Needs(shared, registers=allotted(plan, each_of(plan) + ADDRESSING))


def team_of(plan: Plan) -> int:
    """Threads that share a row."""
    return plan.threads[0] * (math.prod(plan.cluster.shape) if plan.cluster else 1)


def each_of(plan: Plan) -> int:
    """Elements of a row that a thread has at once."""
    return plan.tile[1] // team_of(plan)


__all__ = ["declare", "each_of", "team_of"]
