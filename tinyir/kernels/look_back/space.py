"""Plans of a scan whose CTAs take tiles of the rows in turn and look back at those before."""

from __future__ import annotations

from ...ir.accumulate import wide
from ...ir.plan import Bind, Plan, Vectorize
from ...ir.runs import row_runs
from ...ir.traits import scans_of
from ...target.device import Device
from ...target.words import WORDS_OF
from ..candidate import parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes

THREADS = (128, 256)
HELD = (8, 16, 32)  # elements of a tile that a thread keeps in registers


def propose_look_back(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Each tile where the folds fit in words, in vectors where neighbours are known to be side by side."""
    kernel, region = problem.kernel, problem.region
    if any(wide(s.dtype).bytes not in WORDS_OF for s in scans_of(region)):
        return ()
    bind = (
        Bind(parts_of_axes((*kernel.rows, *kernel.row), "o"), "cta.x"),
        Bind(parts_of_axes(kernel.row, "i"), "thread.x"),
    )
    return tuple(
        Proposal(
            Plan(
                (region.name,),
                card.arch.name,
                "scan",
                "scan_look_back",
                (1, threads * held),
                threads=(threads,),
                bind=bind,
                vectorize=(Vectorize(kernel.row[0].name, width),) if width > 1 else (),
                predicate=guarded_axes(kernel.row, threads * held),
            )
        )
        for width in dict.fromkeys((*(run.width for run in row_runs(region, kernel)), 1))
        for threads in THREADS
        for held in HELD
        if held >= width
    )
