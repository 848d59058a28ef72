"""The haloed plans that are worth pricing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.plan import Async, Bind, Plan
from ...target.device import Device
from ..candidate import guarded
from ..family import Problem, Proposal
from ..parts.contraction_fields import cached
from .fields import along, barrier_of, binds, load_of
from .halo import DEPTH, Halo, halo_of

# what is made and results of a tile, then of a warp's part of it
TILES = (
    (64, 128, 64, 32),
    (128, 128, 64, 64),
    (64, 256, 64, 64),
    (64, 64, 32, 32),
    (32, 128, 32, 32),
)
STAGES = (3, 4)
WARP = 32


def space(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each tile with three or four taps in shared memory."""
    region, kernel = problem.region, problem.kernel
    halo = halo_of(region, kernel)
    if not isinstance(halo, Halo):
        return
    for (made, results, part, across), stages in itertools.product(TILES, STAGES):
        tile, warp_tile = ((made, results), (part, across)) if halo.side == 1 else ((results, made), (across, part))
        plan = Plan(
            (region.name,),
            card.arch.name,
            "contraction",
            "haloed",
            (*tile, DEPTH),
            warp_tile=warp_tile,
            threads=(made // part * (results // across) * WARP,),
            stages=stages,
            bind=tuple(Bind(axes, place) for axes, place in binds(kernel)),
            cache=cached(kernel),
            load=tuple(load_of(r.tensor, r == halo.image.read, halo.beside > 1) for r in (kernel.lhs, kernel.rhs)),
            vectorize=along(halo),
            epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
            asynchrony=Async(stages - 1),
            barrier=barrier_of(halo),
        )
        yield Proposal(guarded(plan, region, kernel))


__all__ = ["space"]
