"""Plans of a scan: a CTA walks along one row with all its threads and carries the prefix on, each thread walks along a
row of its own, or CTAs take tiles of the rows in turn and look back at those before them."""

from __future__ import annotations

from ...ir.accumulate import wide
from ...ir.plan import Bind, Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import row_runs
from ...ir.traits import scans_of
from ...target.device import Device
from ...target.words import WORDS_OF
from ..candidate import Proposal
from ..check import guarded_axes
from ..problem import Prefix

OF_BLOCK = (32, 128, 256, 512, 1024)
OF_THREADS = (32, 64, 128, 256)
OF_TILE = (128, 256)
HELD = (8, 16, 32)  # elements of a tile that a thread keeps in registers


def propose_scan(kernel: Prefix, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Each block size all ways; a thread a row only where there are rows; tiles only where their folds fit in words; in
    vectors where neighbours are known to lie side by side."""
    widths = dict.fromkeys((*(run.width for run in row_runs(region, kernel)), 1))
    blocks = tuple(
        _plan(kernel, region, card, "scan_block", (1, threads * width), threads, width)
        for width in widths
        for threads in OF_BLOCK
    )
    threads = (
        tuple(_plan(kernel, region, card, "scan_thread", (threads, 1), threads) for threads in OF_THREADS)
        if kernel.rows
        else ()
    )
    if any(wide(s.dtype).bytes not in WORDS_OF for s in scans_of(region)):
        return (*blocks, *threads)
    tiles = tuple(
        _plan(kernel, region, card, "scan_look_back", (1, threads * held), threads, width)
        for width in widths
        for threads in OF_TILE
        for held in HELD
        if held >= width
    )
    return (*blocks, *threads, *tiles)


def _plan(
    kernel: Prefix, region: Region, card: Device, algo: str, tile: tuple[int, int], threads: int, width: int = 1
) -> Proposal:
    along, inside = (kernel.rows, kernel.rows) if algo == "scan_thread" else (kernel.rows, kernel.row)
    along = (*along, *kernel.row) if algo == "scan_look_back" else along
    binds = [Bind(tuple(f"{a.name}.o" for a in along), "cta.x")] if along else []
    binds.append(Bind(tuple(f"{a.name}.i" for a in inside), "thread.x"))
    guarded = guarded_axes(kernel.rows, threads) if algo == "scan_thread" else guarded_axes(kernel.row, tile[1])
    vectorize = (Vectorize(kernel.row[0].name, width),) if width > 1 else ()
    return Proposal(
        Plan(
            (region.name,),
            card.arch.name,
            "scan",
            algo,
            tile,
            threads=(threads,),
            bind=tuple(binds),
            vectorize=vectorize,
            predicate=guarded,
        )
    )
