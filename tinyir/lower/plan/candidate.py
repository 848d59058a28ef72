"""A plan on its way to being chosen."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.cost import Cost
from ...ir.plan import Plan


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that a family thought of, and why not even its cost is worth asking (`stop`, usually empty)."""

    plan: Plan
    stop: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its cost (None when not one CTA fits) and the reason for which it was rejected, empty when it was not."""

    plan: Plan
    cost: Cost | None
    rejected: str = ""
