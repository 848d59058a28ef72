"""What a CTA takes of a kernel whose threads share nothing: registers alone."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ..family import Needs, Problem
from ..resources import ADDRESSING, allotted


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    return Needs(registers=allotted(plan, ADDRESSING))


__all__ = ["declare"]
