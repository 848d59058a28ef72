"""Plans of a scatter by atomics: the base is written as a map of it would be, then a thread takes each update."""

from __future__ import annotations

from ...ir.plan.words import UNORDERED
from ...ir.scatters import base_of, is_ordered, scatter_of
from ...kit.phrase import Phrase
from ...kit.records import replace
from ...target.device import Device
from ..family import Problem, Proposal
from ..parts.element_plans import element_plans


def propose_scatter(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Where one scatter is all that the region does: the flat plans of its base. One whose bits would depend on the
    order is stopped, unless the card is asked for such."""
    region = problem.region
    scatter = scatter_of(region)
    if isinstance(scatter, str):
        return ()
    atomics = UNORDERED if is_ordered(scatter.op, scatter.dtype) else ""
    stop = Phrase("other bits at each run") if atomics and card.atomics != UNORDERED else ""
    of_base = element_plans(replace(problem, regions=(base_of(region, scatter),)), card)
    return tuple(Proposal(replace(p.plan, algo="scatter_atomic", atomics=atomics), stop) for p in of_base)
