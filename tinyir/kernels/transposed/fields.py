"""The fields of a transposed plan: `tile [side * side]`, which passes through shared memory; in blocks any power of
two, which may be handed from registers too."""

from __future__ import annotations

import math

from ...ir.neighbours import crossed_reads
from ...ir.plan import Cache
from ..accepts import Fields, only, where
from ..check.case import Case
from ..parts.element_fields import in_a_line
from .blocks import block_of, is_shared, merged, ways_of

LANES, WARPS = 32, 8


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, region = case.plan, merged(case.problem.region)
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    tiled = tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)
    ways = ways_of(region, bool(plan.cache))
    found = {**in_a_line(case), "vectorize": only(() if plan.cache else ways[0] if ways else (), *ways)}
    if plan.vectorize in ways:
        area = plan.widest * block_of(region)
        return {
            **found,
            "cache": only(tiled, ()),
            "tile": where(
                f"[{area} * n], n = 2 ** m, {plan.threads} * k = n", lambda tile: is_shared(tile, area, plan.threads)
            ),
            "threads": where("[x]", lambda threads: len(threads) == 1),
        }
    side = math.isqrt(plan.tile[0])
    return {
        **found,
        "cache": only(tiled),
        "tile": where(f"[side * side], side = {LANES} * n", lambda tile: (side * side,) == tile and side % LANES == 0),
        "threads": only((LANES * WARPS,)),
    }
