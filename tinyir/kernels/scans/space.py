"""Plans of a scan: a CTA walks along one row with all its threads and carries the prefix on, or each thread walks along
a row of its own."""

from __future__ import annotations

from ...ir.body import Axis
from ...ir.plan import Bind, Plan, Vectorize
from ...ir.runs import row_runs
from ...target.device import Device
from ..candidate import parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from .fields import lanes_bind
from .vector import lanes_of, run_of_lanes

OF_BLOCK = (32, 128, 256, 512, 1024)
OF_LANES = (128, 256)  # threads of a CTA that has several rows
OF_THREADS = (128, 256, 64, 32)


def propose_block(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Each block size, in vectors where neighbours are known to be side by side; of rows that are known to be short,
    the lanes that have a vector each beside those of other rows."""
    kernel, region = problem.kernel, problem.region
    widths = tuple(dict.fromkeys((*(run.width for run in row_runs(region, kernel)), 1)))
    shared = (run_of_lanes(region, kernel, width) for width in widths if kernel.rows)
    return (
        *(
            _proposal(problem, card, "scan_block", (1, threads * width), (threads,), kernel.row, width)
            for width in widths
            for threads in OF_BLOCK
        ),
        *(
            _proposal(
                problem,
                card,
                "scan_block",
                (threads // lanes, lanes * run.width),
                (lanes, threads // lanes),
                (),
                run.width,
            )
            for run in shared
            if run is not None and (lanes := lanes_of(run))
            for threads in OF_LANES
        ),
    )


def propose_thread(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Each block size, where there are rows; in vectors where a row is known to be made of them."""
    kernel, region = problem.kernel, problem.region
    whole = [run.width for run in row_runs(region, kernel) if run.is_whole]
    return tuple(
        _proposal(problem, card, "scan_thread", (threads, width), (threads,), kernel.rows, width)
        for width in dict.fromkeys((*whole, 1))
        for threads in OF_THREADS
        if kernel.rows
    )


def _proposal(
    problem: Problem,
    card: Device,
    algo: str,
    tile: tuple[int, int],
    threads: tuple[int, ...],
    inside: tuple[Axis, ...],
    width: int = 1,
) -> Proposal:
    """A plan whose threads count along the axes `inside`, which alone are guarded; without any, along rows and the
    row."""
    kernel = problem.kernel
    binds = [Bind(parts_of_axes(kernel.rows, "o"), "cta.x")] if kernel.rows else []
    if inside:
        binds.append(Bind(parts_of_axes(inside, "i"), "thread.x"))
        guarded = guarded_axes(inside, tile[1] if inside == kernel.row else threads[0])
    else:
        binds += lanes_bind(kernel)
        guarded = (*guarded_axes(kernel.rows, tile[0]), *guarded_axes(kernel.row, tile[1]))
    return Proposal(
        Plan(
            (problem.region.name,),
            card.arch.name,
            "scan",
            algo,
            tile,
            threads=threads,
            bind=tuple(binds),
            vectorize=(Vectorize(kernel.row[0].name, width),) if width > 1 else (),
            predicate=guarded,
        )
    )
