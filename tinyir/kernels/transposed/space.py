"""Plans of a map that is transposed: square tiles through shared memory, in blocks of whole accesses where neighbours
are known to begin on them, or a block of each thread without shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.neighbours import crossed_reads
from ...ir.plan import Cache, Plan
from ...target.device import Device
from ..candidate import element_binds
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from .blocks import block_of, merged, ways_of

THREADS = 256
SIDES = (32, 64)  # of a tile
AREAS = (64 * 64, 64 * 128, 128 * 128)  # of a tile in blocks
OF_HANDED = 128  # threads that have a block each, in registers alone


def propose_transposed(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Square tiles where a read runs along another axis than what is written; no plan where none does."""
    region, bind = problem.region, element_binds(problem.kernel)
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    cache = tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)
    whole = merged(region)
    side = block_of(whole)
    tiled = [(area, min(THREADS, area // (side * side)), way, cache) for area in AREAS for way in ways_of(whole, True)]
    handed = [(OF_HANDED * side * way[0].width, OF_HANDED, way, ()) for way in ways_of(whole, False)]
    ways = [*tiled, *handed, *((side * side, THREADS, (), cache) for side in SIDES)]
    for tile, threads, vectorize, kept in ways if read else ():
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
                vectorize=vectorize,
                cache=kept,
                predicate=guarded,
            )
        )
