"""The fields of a transposed plan: `tile [side * side]`, which passes through shared memory."""

from __future__ import annotations

import math

from ...ir.neighbours import crossed_reads
from ...ir.plan import Cache
from ..accepts import Fields, only, where
from ..check.case import Case
from ..parts.element_fields import in_a_line

LANES, WARPS = 32, 8


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    region, side = case.problem.region, math.isqrt(case.plan.tile[0])
    read = tuple(dict.fromkeys(r.tensor for r in crossed_reads(region)))
    return {
        **in_a_line(case),
        "tile": where(f"[side * side], side = {LANES} * n", lambda tile: (side * side,) == tile and side % LANES == 0),
        "threads": only((LANES * WARPS,)),
        "cache": only(tuple(Cache(tensor, "smem", f"{region.iters[-1].name}.o") for tensor in read)),
    }


__all__ = ["fields"]
