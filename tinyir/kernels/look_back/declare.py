"""What a CTA of a scan by look back takes: where its warps meet, and the elements that a thread holds."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..resources import ADDRESSING, allotted, threads_of

WARP, WIDEST = 32, 8  # lanes; bytes of the widest number


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    threads, held = threads_of(plan), held_of(plan)
    shared = (Array("part", threads // WARP * WIDEST * (held // plan.widest)),) if threads > WARP else ()
    return Needs(shared, registers=allotted(plan, 5 * held // 4 + ADDRESSING))


def held_of(plan: Plan) -> int:
    """Elements of its tile that a thread keeps in registers."""
    return plan.tile[1] // threads_of(plan)


__all__ = ["declare", "held_of"]
