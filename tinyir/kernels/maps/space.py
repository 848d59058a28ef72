"""Plans of a map: the output's elements in one line, some to each thread."""

from __future__ import annotations

from ...target.device import Device
from ..family import Problem, Proposal
from ..parts.element_plans import element_plans


def propose_flat(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """The plans of `element_plans`."""
    return element_plans(problem.kernel, problem.region, card)


__all__ = ["propose_flat"]
