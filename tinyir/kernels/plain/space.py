"""The plans of the family: one, which fits every card."""

from __future__ import annotations

from ...ir.plan import Plan
from ...target.device import Device
from ..family import Problem, Proposal

THREADS = 256


def propose_plain(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """One plan: a thread for each result of a CTA."""
    return (Proposal(Plan((problem.region.name,), card.arch.name, "plain", "plain", (THREADS,), threads=(THREADS,))),)
