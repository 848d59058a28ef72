"""Plans of a scan: a CTA walks along one row with all its threads and carries the prefix on, or each thread walks along a row of its own."""

from __future__ import annotations

from ...analysis.device import Device
from ...ir.kernels import Prefix
from ...ir.plan import Bind, Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import row_runs
from ...ir.verify_plan import guarded_axes
from .candidate import Proposal

OF_BLOCK = (32, 128, 256, 512, 1024)
OF_THREADS = (32, 64, 128, 256)


def propose_scan(kernel: Prefix, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Each block size both ways; a thread a row only where there are rows; in vectors where neighbours are known to lie side by side."""
    widths = dict.fromkeys((*(run.width for run in row_runs(region, kernel)), 1))
    blocks = tuple(_plan(kernel, region, card, "scan_block", (1, threads * width), threads, width) for width in widths for threads in OF_BLOCK)
    threads = tuple(_plan(kernel, region, card, "scan_thread", (threads, 1), threads) for threads in OF_THREADS) if kernel.rows else ()
    return (*blocks, *threads)


def _plan(kernel: Prefix, region: Region, card: Device, algo: str, tile: tuple[int, int], threads: int, width: int = 1) -> Proposal:
    is_block = algo == "scan_block"
    binds = [Bind(tuple(f"{a.name}.o" for a in kernel.rows), "cta.x")] if kernel.rows else []
    binds.append(Bind(tuple(f"{a.name}.i" for a in (kernel.row if is_block else kernel.rows)), "thread.x"))
    guarded = guarded_axes(kernel.row, tile[1]) if is_block else guarded_axes(kernel.rows, threads)
    vectorize = (Vectorize(kernel.row[0].name, width),) if width > 1 else ()
    return Proposal(Plan((region.name,), card.arch.name, "scan", algo, tile, threads=(threads,), bind=tuple(binds), vectorize=vectorize, predicate=guarded))
