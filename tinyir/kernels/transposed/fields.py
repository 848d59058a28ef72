"""The fields of a transposed plan: `tile [side * side]`, which passes through shared memory; in blocks any power of
two."""

from __future__ import annotations

import math

from ...ir.neighbours import crossed_reads
from ...ir.plan import Cache, Vectorize
from ..accepts import Fields, only, where
from ..check.case import Case
from ..parts.element_fields import in_a_line
from .blocks import block_of, merged

LANES, WARPS = 32, 8


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, region = case.plan, case.problem.region
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    block = block_of(merged(region))
    whole = (Vectorize(region.iters[-1].name, block),) if block else ()
    found = {
        **in_a_line(case),
        "vectorize": only((), *((whole,) if whole else ())),
        "cache": only(tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)),
    }
    if whole and plan.vectorize == whole:
        area = block * block
        return {
            **found,
            "tile": where(
                f"[{area} * n], n = 2 ** m, {plan.threads} * k = n",
                lambda tile: len(tile) == 1 and _is_shared(tile[0], area, plan.threads),
            ),
            "threads": where("[x]", lambda threads: len(threads) == 1),
        }
    side = math.isqrt(plan.tile[0])
    return {
        **found,
        "tile": where(f"[side * side], side = {LANES} * n", lambda tile: (side * side,) == tile and side % LANES == 0),
        "threads": only((LANES * WARPS,)),
    }


def _is_shared(tile: int, area: int, threads: tuple[int, ...]) -> bool:
    """Whether a tile is a power of two, of blocks of such an area, and each thread has as many of its blocks."""
    return tile & (tile - 1) == 0 and tile % area == 0 and tile // area % math.prod(threads) == 0
