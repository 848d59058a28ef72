"""The cost of a map whose tiles pass through shared memory."""

from __future__ import annotations

from ...ir.plan import Plan
from ..family import Clocks, Conditions, Problem
from ..parts.element_clocks import element_clocks


def transposed_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what bounds it."""
    return element_clocks(plan, problem, at, is_flat=False)


__all__ = ["transposed_clocks"]
