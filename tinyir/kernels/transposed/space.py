"""Plans of a map that is transposed: square tiles through shared memory, in blocks of whole accesses where neighbours
are known to begin on them."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.neighbours import crossed_reads
from ...ir.plan import Cache, Plan, Vectorize
from ...target.device import Device
from ..candidate import element_binds
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from .blocks import block_of, merged

THREADS = 256
SIDES = (32, 64)  # of a tile
AREAS = (64 * 64, 64 * 128, 128 * 128)  # of a tile in blocks


def propose_transposed(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Square tiles where a read runs along another axis than what is written; no plan where none does."""
    region, bind = problem.region, element_binds(problem.kernel)
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    cache = tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)
    side = block_of(merged(region))
    ways = [(area, min(THREADS, area // (side * side)), side) for area in AREAS if side]
    ways += [(side * side, THREADS, 0) for side in SIDES]
    for tile, threads, width in ways if read else ():
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
                vectorize=(Vectorize(region.iters[-1].name, width),) if width else (),
                cache=cache,
                predicate=guarded,
            )
        )
