"""The haloed plans that are worth pricing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.plan import Async, Bind, Plan
from ...ir.traits import sizes_of
from ...kit.records import replace
from ...target.device import Device
from ..candidate import guarded
from ..family import Problem, Proposal
from ..parts.contraction_fields import cached
from ..resources import taken_by
from .declare import declare, tiles_of
from .fields import along, barrier_of, binds, is_of_groups, load_of, parts_of
from .halo import DEPTH, STEP, Halo, halo_of

# what is made and results of a tile, then of a warp's part of it
TILES = (
    (64, 128, 64, 32),
    (128, 128, 64, 64),
    (64, 256, 64, 64),
    (64, 64, 32, 32),
    (32, 128, 32, 32),
    (32, 64, 32, 16),
)
EXPANDED = (
    (64, 128, 32, 32),
    (64, 256, 32, 64),
    (64, 128, 64, 32),
    (32, 128, 32, 32),
    (32, 256, 32, 32),
    (16, 128, 16, 32),
)
PACKED = ((64, 32), (64, 64), (128, 32), (128, 64), (256, 64))  # results of a tile, then of a warp's part
PARTS = (16, 32, 64)  # what a warp makes of groups, and what one of them makes
MOST_THREADS = 512
STAGES = (3, 4)
WARP = 32


def space(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each tile with three or four taps in shared memory; of few channels with expanded windows; of groups packed."""
    halo = halo_of(problem.region, problem.kernel)
    if not isinstance(halo, Halo):
        return
    if not halo.no_ring:
        for tile, count in itertools.product(TILES, STAGES):
            yield _proposal(_plan(problem, card, halo, tile, count), problem)
    for tile in _packed(halo) if halo.groups else EXPANDED if halo.depth else ():
        plan = _plan(problem, card, halo, tile, 1)
        parts, ctas = parts_of(plan, halo), max(1, taken_by(plan, declare(plan, problem)).occupancy) * card.sms
        ctas = min(ctas, tiles_of(plan, halo, sizes_of(problem.model)))
        yield _proposal(replace(plan, persistent=max(1, ctas // parts) * parts), problem)


def _packed(halo: Halo) -> Iterator[tuple[int, int, int, int]]:
    """Tiles of groups: what those make that are side by side, by warps that have whole groups or parts of one."""
    made = halo.packed * halo.made_room
    for (results, across), part in itertools.product(PACKED, dict.fromkeys((*PARTS, halo.made_room))):
        threads = made // part * (results // across) * WARP
        if part % STEP == 0 and made % part == 0 and is_of_groups(part, halo) and threads <= MOST_THREADS:
            yield made, results, part, across


def _proposal(plan: Plan, problem: Problem) -> Proposal:
    return Proposal(guarded(plan, problem.region, problem.kernel))


def _plan(problem: Problem, card: Device, halo: Halo, sizes: tuple[int, int, int, int], stages: int) -> Plan:
    """That of a tile: with a ring, or with the whole sum where there is one stage."""
    region, kernel, (made, results, part, across) = problem.region, problem.kernel, sizes
    tile, warp_tile = ((made, results), (part, across)) if halo.side == 1 else ((results, made), (across, part))
    is_ring = stages > 1
    is_moved = is_ring or bool(halo.groups)
    is_async = is_moved and halo.beside > 1
    return Plan(
        (region.name,),
        card.arch.name,
        "contraction",
        "haloed",
        (*tile, DEPTH if is_ring else halo.depth),
        warp_tile=warp_tile,
        threads=(made // part * (results // across) * WARP,),
        stages=stages,
        bind=tuple(Bind(axes, place) for axes, place in binds(kernel)),
        cache=cached(kernel),
        load=tuple(load_of(halo, r.tensor, r == halo.image.read, is_async) for r in (kernel.lhs, kernel.rhs)),
        vectorize=along(halo) if is_moved else (),
        epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
        asynchrony=Async(stages - 1) if is_ring else None,
        barrier=barrier_of(halo) if is_moved else "cta",
    )
