"""Plans of a map: the output's elements in one line, some to each thread."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.neighbours import crossed_reads
from ...ir.plan import Bind, Cache, Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import map_runs
from ...target.device import Device
from ..candidate import Proposal, over_registers, parts_of_axes
from ..check import guarded_axes
from ..parts.kept import words_beside
from ..problem import Map

THREADS = (128, 256)
EACH = (1, 2, 4)
SIDES = (32, 64)  # of a transposed tile


def propose_flat(kernel: Map, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Each block size with one, two or four accesses a thread, a block's width apart so that a warp's accesses stay
    together; an access moves as many neighbours as are known to lie side by side. A scalar takes one thread."""
    found = []
    bind = (
        (Bind(parts_of_axes(kernel.axes, "o"), "cta.x"), Bind(parts_of_axes(kernel.axes, "i"), "thread.x"))
        if kernel.axes
        else ()
    )
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
    return (*found, *_transposed(region, card, bind))


def _transposed(region: Region, card: Device, bind: tuple[Bind, ...]) -> Iterator[Proposal]:
    """Square tiles through shared memory, where a read lies along another axis than what is written."""
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    cache = tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)
    for side in SIDES if read else ():
        tile, threads = side * side, THREADS[-1]
        guarded = guarded_axes(region.iters, tile)
        yield Proposal(
            Plan(
                (region.name,),
                card.arch.name,
                "map",
                "transposed",
                (tile,),
                micro=(tile // threads,),
                threads=(threads,),
                bind=bind,
                cache=cache,
                predicate=guarded,
            )
        )
