"""What a CTA takes of a kernel whose threads share nothing: registers alone."""

from __future__ import annotations

from ...ir.body import Reduce
from ...ir.plan.fields import Plan
from ...ir.traits import nodes_of
from ..family import Needs, Problem
from ..resources import REGISTER_STEP, allotted

ONE = 24  # registers of a thread for an element: addresses, guards, what is read and made
FEW = 8  # elements that take a step more; others, and a fold, take another


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes; of a plan that does not say how many elements a thread has, many."""
    each = plan.micro[0] if plan.micro else FEW + 1
    folds = any(isinstance(n, Reduce) for n in nodes_of(problem.region))
    return Needs(registers=allotted(plan, ONE + REGISTER_STEP * (folds + (each > 1) + (each > FEW))))
