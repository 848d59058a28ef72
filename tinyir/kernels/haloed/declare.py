"""What a CTA of a haloed contraction takes: the image's tile with its edge, a ring of the other factor's, and what its
warps' accumulators leave through."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ...ir.types import DTYPES
from ...target.hopper import SWIZZLE_BYTES
from ..family import Array, Needs, Problem
from ..problem import Contraction
from ..resources import allotted, threads_of
from .halo import ALONG, DEPTH, Halo, halo_of

FRAGMENT_ROWS = 16
FRAGMENT_PAD = 4  # elements behind a row of them, so that the rows of a fragment are in different banks
ADDRESSING = 60  # registers
WARP = 32


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes; of a region that the family does not compute nothing."""
    halo = halo_of(problem.region, problem.kernel)
    if not isinstance(halo, Halo):
        return Needs()
    held = plan.warp_tile[0] * plan.warp_tile[1] // WARP
    arrays = image_array(plan, halo), matrix_array(plan, problem.kernel, halo), staged_array(plan, halo)
    return Needs(arrays, registers=allotted(plan, held + sum(plan.warp_tile) // 2 + ADDRESSING), accumulators=held)


def rows_of(plan: Plan, halo: Halo) -> tuple[int, int]:
    """Rows of results of the tile, and of a warp's part of it."""
    return plan.tile[halo.side] // ALONG, plan.warp_tile[halo.side] // ALONG


def image_array(plan: Plan, halo: Halo) -> Array:
    """The places of the image, all channels, 64 of them a row."""
    places = halo.places(rows_of(plan, halo)[0])
    return Array("image", halo.image.read.dtype, (places, DEPTH), halo.blocks, SWIZZLE_BYTES)


def matrix_array(plan: Plan, kernel: Contraction, halo: Halo) -> Array:
    """The ring of the other factor's tiles: a tap's rows, along the channels."""
    dtype = (kernel.lhs, kernel.rhs)[1 - halo.side].dtype
    return Array("taps", dtype, (plan.tile[1 - halo.side], DEPTH), plan.stages, SWIZZLE_BYTES)


def staged_array(plan: Plan, halo: Halo) -> Array:
    """What the accumulators of each warp leave through, 16 rows at once: of the results of a row, or of what is made
    there."""
    columns = ALONG if halo.side == 1 else plan.warp_tile[1]
    return Array("staged", DTYPES["fp32"], (FRAGMENT_ROWS, columns + FRAGMENT_PAD), threads_of(plan) // WARP)


__all__ = ["FRAGMENT_ROWS", "WARP", "declare", "image_array", "matrix_array", "rows_of", "staged_array"]
