"""What a CTA of a multistage contraction takes: a ring of tiles of each operand, and what its warps' accumulators leave
through."""

from __future__ import annotations

import math

from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan
from ...kit.numbers import least
from ...target.hopper import SWIZZLE_BYTES
from ..family import Array, Needs, Problem
from ..parts.boxes import is_along_sum
from ..problem import Contraction
from ..resources import allotted, threads_of

FRAGMENT_ROWS = 16  # of an accumulator of mma.sync that a warp's epilogue takes at once
FRAGMENT_PAD = 4  # elements behind a row of them, so that the rows of a fragment are in different banks
ADDRESSING = 38  # registers, and those of the places
OF_A_PLACE, PLACES = 2, 8  # of each place from which a thread copies 16 bytes of a step: more are reckoned from those
BY_THREADS, SPLIT = 16, 32  # more where threads copy operands, whose addresses they keep, and where words are split
WARP = 32
STEP = 16  # along the sum, of one set of fragments
FRAGMENTS = {
    "": 2,
    "tf32": 2,
    "tf32x3": 1,
}  # sets of them, by `math`: one in use, one on its way where a product is over soon


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes; two sets of fragments of 16 along the sum are in registers."""
    kernel = problem.kernel
    words, wide = max(1, kernel.dtype.bytes // 4), 2 if kernel.lhs.dtype.bytes == 4 else 1
    held = math.prod(plan.warp_tile) // WARP * words
    copied = (plan.tile[0] + plan.tile[1]) * plan.tile[2] * kernel.lhs.dtype.bytes // ACCESS_BYTES // threads_of(plan)
    beside = wide * sum(plan.warp_tile) // 2 + ADDRESSING + (SPLIT if wide > 1 else 0)
    beside += OF_A_PLACE * least(PLACES, copied)
    beside += (
        BY_THREADS - held // BY_THREADS
        if any(plan.load_of(read.tensor).by == "ld" for read in (kernel.lhs, kernel.rhs))
        else 0
    )
    shared = tile_array(plan, kernel, 0), tile_array(plan, kernel, 1), staged_array(plan, kernel)
    return Needs(shared, registers=allotted(plan, held + beside), accumulators=held)


def tile_array(plan: Plan, kernel: Contraction, side: int) -> Array:
    """The ring of an operand's tiles, in swizzled rows along the sum or across it."""
    read, size, depth = (kernel.lhs, kernel.rhs)[side], plan.tile[side], plan.tile[2]
    shape = (size, depth) if is_along_sum(kernel, side) else (depth, size)
    return Array("ab"[side], read.dtype, shape, plan.stages, least(SWIZZLE_BYTES, shape[1] * read.dtype.bytes))


def staged_array(plan: Plan, kernel: Contraction) -> Array:
    """What the accumulators of each warp leave through, some rows at once."""
    return Array("staged", kernel.dtype, (FRAGMENT_ROWS, plan.warp_tile[1] + FRAGMENT_PAD), threads_of(plan) // WARP)
