"""The kernel of a map (`kernels.parts.elements`)."""

from __future__ import annotations

from ...ir.gpu.nodes import Kernel
from ...ir.plan import Plan
from ..family import Problem
from ..parts.elements import element_kernel


def flat_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `flat`. Raises Refused (E1611) for what the template has no place for."""
    return element_kernel(plan, problem.region, problem.kernel)


__all__ = ["flat_kernel"]
