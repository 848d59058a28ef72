"""What a CTA of the synchronous template takes: tiles of both operands, a micro tile of accumulators a thread."""

from __future__ import annotations

import math

from ...ir.body import Read
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan
from ...ir.traits import nearest
from ...kit.numbers import Number, gcd, most, pick
from ..family import Array, Needs, Problem
from ..problem import Contraction
from ..resources import ADDRESSING, allotted
from .tiles import tile_dtype


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes. The registers are enough for ptxas to spill none of 149 tiles; the more of the sum is unrolled,
    the more it takes."""
    kernel, depth = problem.kernel, plan.tile[2]
    shared = tile_array(plan, kernel, 0), tile_array(plan, kernel, 1)
    held = math.prod(plan.micro[:2]) * max(1, kernel.dtype.bytes // 4)
    wide = 8 if kernel.lhs.dtype.bytes >= 4 else 0
    unrolled = pick(depth > 8, most(held - 16, 0) // 2 + 4, most(held - 16, 0) // 4)
    wanted = held + sum(plan.micro) + unrolled + wide + ADDRESSING
    return Needs(shared, registers=allotted(plan, wanted), accumulators=held)


def tile_array(plan: Plan, kernel: Contraction, side: int) -> Array:
    """The tiles of an operand."""
    shape = (plan.tile[2], plan.tile[side] + pad_of(plan, kernel, side))
    return Array("ab"[side], tile_dtype(kernel, side), shape, plan.stages)


def pad_of(plan: Plan, kernel: Contraction, side: int) -> Number:
    """Elements of padding of a row of an operand's tile: one access where the operand is contiguous along the sum."""
    return width_of(plan, kernel, side) if lies_along_sum(kernel, (kernel.lhs, kernel.rhs)[side]) else 0


def lies_along_sum(kernel: Contraction, read: Read) -> bool:
    """Whether neighbours along the sum are neighbours in memory."""
    return kernel.sum[-1].name in nearest(read.index)


def width_of(plan: Plan, kernel: Contraction, side: int) -> Number:
    """Elements of an operand that a thread takes from shared memory at once, 16 bytes at most."""
    return (
        gcd(plan.micro[side], max(1, ACCESS_BYTES // tile_dtype(kernel, side).bytes)) if len(plan.micro) > side else 1
    )
