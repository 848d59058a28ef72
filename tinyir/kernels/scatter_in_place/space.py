"""Plans that write updates in place: few threads to a CTA, since updates are few."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.scatters import put_in_place
from ...target.device import Device
from ..candidate import element_binds
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes

THREADS = (128, 256)


def propose_in_place(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Where a region puts updates into a state alone."""
    if isinstance(put_in_place(problem.region), str):
        return ()
    axes, bind = problem.kernel.axes, element_binds(problem.kernel)
    return tuple(
        Proposal(
            Plan(
                (problem.region.name,),
                card.arch.name,
                "map",
                "scatter_in_place",
                (threads,),
                threads=(threads,),
                bind=bind,
                predicate=guarded_axes(axes, threads),
            )
        )
        for threads in THREADS
    )
