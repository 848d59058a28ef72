"""Plans of a map that is transposed: square tiles through shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.neighbours import crossed_reads
from ...ir.plan import Cache, Plan
from ...target.device import Device
from ..candidate import element_binds
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes

THREADS = 256
SIDES = (32, 64)  # of a tile


def propose_transposed(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Square tiles where a read runs along another axis than what is written; no plan where none does."""
    region, bind = problem.region, element_binds(problem.kernel)
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    cache = tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)
    for side in SIDES if read else ():
        tile, threads = side * side, THREADS
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


__all__ = ["propose_transposed"]
