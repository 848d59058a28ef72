"""Plans of a scatter by atomics: the base is written as a map of it would be, then a thread takes each update."""

from __future__ import annotations

from dataclasses import replace

from ...ir.plan.words import UNORDERED
from ...ir.region import Region
from ...ir.scatters import base_of, is_ordered, scatter_of
from ...target.device import Device
from ..candidate import Proposal
from ..maps.space import propose_flat
from ..problem import Map


def propose_scatter(kernel: Map, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Where one scatter is all that the region does: the flat plans of its base. One whose bits would depend on the
    order is stopped, unless the card is asked for such."""
    scatter = scatter_of(region)
    if isinstance(scatter, str):
        return ()
    atomics = UNORDERED if is_ordered(scatter.op, scatter.dtype) else ""
    stop = "other bits at each run" if atomics and card.atomics != UNORDERED else ""
    flat = (p.plan for p in propose_flat(kernel, base_of(region, scatter), card) if p.plan.algo == "flat")
    return tuple(Proposal(replace(plan, algo="scatter_atomic", atomics=atomics), stop) for plan in flat)
