"""Plans of a row kernel: a CTA folds one row at a time, from registers when the row always fits, else reading it again each pass."""

from __future__ import annotations

from ...analysis.device import Device
from ...ir.kernels import Row, extent_of
from ...ir.model import Model
from ...ir.plan import Bind, Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import Run, row_runs
from ...ir.verify_plan import guarded_axes, most_of
from .candidate import Proposal

THREADS = (32, 64, 128, 256, 512)
HELD = 16  # elements of a row that a thread keeps in registers


def propose_row(kernel: Row, model: Model, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Each block size, the row resident where its longest length fits `HELD` elements a thread; in vectors where neighbours are known to lie side
    by side."""
    longest, found = most_of(extent_of(kernel.row), model), []
    for run in (*row_runs(region, kernel), None):
        width = run.width if run else 1
        for threads in THREADS:
            if longest is not None and longest <= HELD * threads and width <= HELD:
                per_thread = max(1, -(-longest // (threads * width))) * width
                found.append(Proposal(_row(kernel, region, card.arch.name, "row_resident", threads, per_thread * threads, run)))
            found.append(Proposal(_row(kernel, region, card.arch.name, "row_streamed", threads, threads * width, run)))
    return tuple(found)


def _row(kernel: Row, region: Region, arch: str, algo: str, threads: int, length: int, run: Run | None) -> Plan:
    guarded = guarded_axes(kernel.row, length)
    binds = [Bind(tuple(f"{a.name}.o" for a in kernel.rows), "cta.x")] if kernel.rows else []
    return Plan(
        regions=(region.name,),
        arch=arch,
        family="row",
        algo=algo,
        tile=(1, length),
        threads=(threads,),
        bind=(*binds, Bind(tuple(f"{a.name}.i" for a in kernel.row), "thread.x")),
        vectorize=(Vectorize("*".join(a.name for a in run.axes), run.width),) if run else (),
        predicate=guarded,
    )
