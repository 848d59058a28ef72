"""What a CTA of a haloed contraction takes: the image's tile with its edge, a ring of the other factor's, and what its
warps' accumulators leave through."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.plan.fields import Plan
from ...ir.traits import extent_of
from ...ir.types import DTYPES
from ...target.hopper import SWIZZLE_BYTES
from ..family import Array, Needs, Problem
from ..problem import Contraction
from ..resources import allotted, threads_of
from .halo import ALONG, DEPTH, STEP, Halo, halo_of

FRAGMENT_ROWS = 16
FRAGMENT_PAD = 4  # elements behind a row of them, so that the rows of a fragment are in different banks
PLACE_PAD = 8  # elements behind the channels of a place, so that neighbouring places are in different banks
ADDRESSING = 28  # registers
ADDRESSING_NARROW = 60  # of groups of few channels
ADDRESSING_EXPANDED = 12  # of expanded windows
STORE_GUARDS = 40  # of theirs, where tiles end behind a row of results
SHORT_ROW = 1024  # elements
WARP = 32


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes; of a region that the family does not compute nothing."""
    halo = halo_of(problem.region, problem.kernel)
    if not isinstance(halo, Halo):
        return Needs()
    sides = plan.warp_tile[halo.side], piece_of(plan, halo)
    held = halo.at_once * sides[0] * sides[1] // WARP
    beside = (halo.image.rows.tap.size.constant or 1) * sides[1] // 2 if halo.is_narrow else sides[1] // 2
    arrays = arrays_of(plan, problem.kernel, halo)
    registers = held + sides[0] // 2 + beside + _beside(plan, halo)
    return Needs(arrays, registers=allotted(plan, registers), accumulators=held)


def _beside(plan: Plan, halo: Halo) -> int:
    """Registers beside accumulators and the fragments of a step: addresses, and what of the image is loaded ahead. Of
    groups all steps are written out, so that a row comes whole; of expanded windows those of a tile."""
    if is_expanded(plan, halo):
        guards = STORE_GUARDS if halo.columns.name in plan.predicate else 0
        return ADDRESSING_EXPANDED + plan.tile[2] // STEP + guards
    if halo.is_narrow:
        return ADDRESSING_NARROW
    ahead = row_of(plan, halo) // WARP if halo.groups else 0
    return ADDRESSING + (ahead if row_of(plan, halo) <= SHORT_ROW else 3 * ahead // 2)


def row_of(plan: Plan, halo: Halo) -> int:
    """Elements of the fragments of a row of the image."""
    return plan.warp_tile[halo.side] * halo.room


def is_whole(plan: Plan) -> bool:
    """Whether the other factor is in shared memory along the whole sum: without a ring."""
    return plan.stages == 1


def is_expanded(plan: Plan, halo: Halo) -> bool:
    """Whether windows are expanded on the chip."""
    return is_whole(plan) and not halo.groups


def is_apart(plan: Plan, halo: Halo) -> bool:
    """Whether the image comes in by accesses along its columns, since its channels are not contiguous."""
    return halo.width == 1 and plan.widest > 1


def deep_of(plan: Plan, halo: Halo) -> int:
    """Channels of a place in shared memory."""
    return halo.channel.size.constant if is_expanded(plan, halo) else DEPTH


def piece_of(plan: Plan, halo: Halo) -> int:
    """What a warp makes at a time: of groups, of one, or of those that fill a fragment."""
    part = plan.warp_tile[1 - halo.side]
    return min(part, max(halo.made_room, FRAGMENT_ROWS)) if halo.groups else part


def rows_of(plan: Plan, halo: Halo) -> tuple[int, int]:
    """Rows of results of the tile, and of a warp's part of it."""
    return plan.tile[halo.side] // ALONG, plan.warp_tile[halo.side] // ALONG


def tiles_of(plan: Plan, halo: Halo, sizes: Mapping[str, int]) -> int:
    """How many tiles there are."""
    rows, _ = rows_of(plan, halo)
    down = extent_of(halo.images).evaluate(sizes) * halo.rows.size.ceildiv(rows).evaluate(sizes)
    across = halo.columns.size.ceildiv(ALONG) * halo.slots.ceildiv(plan.tile[1 - halo.side])
    return down * across.evaluate(sizes)


def arrays_of(plan: Plan, kernel: Contraction, halo: Halo) -> tuple[Array, ...]:
    """The places of the image, of the channels of a block, which are read by words where a fragment has several taps; a
    ring of the other factor's tiles, a tap's rows along the channels, or all of it in blocks of 64, and such windows;
    what the accumulators leave through."""
    places, made, dtype = halo.places(rows_of(plan, halo)[0]), plan.tile[1 - halo.side], halo.image.read.dtype
    other = (kernel.lhs, kernel.rhs)[1 - halo.side].dtype
    blocks = -(-plan.tile[2] // DEPTH) if is_whole(plan) else plan.stages
    taps = Array("taps", other, (made, DEPTH), blocks, SWIZZLE_BYTES)
    if halo.is_narrow:
        return Array("image", dtype, (places, DEPTH + PLACE_PAD)), taps, staged_array(plan, halo)
    if not is_expanded(plan, halo):
        return Array("image", dtype, (places, DEPTH), halo.blocks, SWIZZLE_BYTES), taps, staged_array(plan, halo)
    return (
        Array("image", dtype, (places, deep_of(plan, halo))),
        taps,
        Array("windows", dtype, (plan.tile[halo.side], DEPTH), blocks, SWIZZLE_BYTES),
        staged_array(plan, halo),
    )


def staged_array(plan: Plan, halo: Halo) -> Array:
    """What the accumulators of each warp leave through, 16 rows at once: of the results of a row, or of what is made
    there."""
    columns = ALONG if halo.side == 1 else piece_of(plan, halo)
    return Array("staged", DTYPES["fp32"], (FRAGMENT_ROWS, columns + FRAGMENT_PAD), threads_of(plan) // WARP)
