"""The cost of a map whose neighbouring threads may read different rows."""

from __future__ import annotations

from ...ir.plan import Plan
from ..family import Clocks, Conditions, Problem
from ..parts.element_clocks import element_clocks


def flat_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what bounds it."""
    return element_clocks(plan, problem, at, is_flat=True)


__all__ = ["flat_clocks"]
