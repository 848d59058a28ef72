"""What a CTA of a scan takes: where the warps of a block meet."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..resources import ADDRESSING, allotted, threads_of

WARP, WIDEST = 32, 8  # lanes; bytes of the widest number


def declare_block(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes that has a row."""
    threads = threads_of(plan)
    shared = (Array("part", threads // WARP * WIDEST),) if threads > WARP else ()
    return Needs(shared, registers=allotted(plan, ADDRESSING))


def declare_thread(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes whose threads have a row each."""
    return Needs(registers=allotted(plan, ADDRESSING))


__all__ = ["declare_block", "declare_thread"]
