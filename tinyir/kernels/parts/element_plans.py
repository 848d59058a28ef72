"""Plans that take the elements of a map in one line, some to each thread."""

from __future__ import annotations

from ...ir.plan import Plan, Vectorize
from ...ir.runs import map_runs
from ...target.device import Device
from ..candidate import element_binds, over_registers
from ..family import Problem, Proposal
from .guards import guarded_axes
from .kept import words_beside

THREADS = (128, 256)
EACH = (1, 2, 4)


def element_plans(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Each block size with one, two or four accesses a thread, a block's width apart so that a warp's accesses stay
    together; an access moves as many neighbours as are known to be side by side. A scalar takes one thread."""
    kernel, region, found = problem.kernel, problem.region, []
    bind = element_binds(kernel)
    for run in (*map_runs(region), None):
        vectorize = (Vectorize("*".join(a.name for a in run.axes), run.width),) if run else ()
        wide = run.width if run else 1
        held = wide * words_beside(region, {a.name for a in run.axes}, False) if run else 0
        stop = over_registers(held, card)
        for threads in THREADS if kernel.axes else (1,):
            for each in EACH if kernel.axes else (1,):
                tile = threads * each * wide
                guarded = guarded_axes(kernel.axes, tile)
                plan = Plan(
                    (region.name,),
                    card.arch.name,
                    "map",
                    "flat",
                    (tile,),
                    micro=(each * wide,),
                    threads=(threads,),
                    bind=bind,
                    vectorize=vectorize,
                    predicate=guarded,
                )
                found.append(Proposal(plan, stop))
    return tuple(found)
