"""What a CTA of a multistage contraction takes: a ring of tiles of each operand, and what its warps' accumulators leave
through."""

from __future__ import annotations

import math

from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..resources import allotted, threads_of

FRAGMENT_ROWS = 16  # of an accumulator of mma.sync that a warp's epilogue takes at once
FRAGMENT_PAD = 4  # elements behind a row of them, so that the rows of a fragment lie in different banks
ADDRESSING = 68  # registers: the copies keep an address each
WARP = 32


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes; two sets of fragments of 16 along the sum are in registers."""
    kernel, (rows, columns, depth) = problem.kernel, plan.tile
    words, wide = max(1, kernel.dtype.bytes // 4), 2 if kernel.lhs.dtype.bytes == 4 else 1
    held = math.prod(plan.warp_tile) // WARP * words
    shared = (
        Array("a", rows * depth * kernel.lhs.dtype.bytes, plan.stages),
        Array("b", columns * depth * kernel.rhs.dtype.bytes, plan.stages),
        Array(
            "staged", FRAGMENT_ROWS * (plan.warp_tile[1] + FRAGMENT_PAD) * kernel.dtype.bytes, threads_of(plan) // WARP
        ),
    )
    registers = allotted(plan, held + wide * sum(plan.warp_tile) // 2 + ADDRESSING)
    return Needs(shared, registers=registers, accumulators=held)


__all__ = ["FRAGMENT_PAD", "FRAGMENT_ROWS", "declare"]
