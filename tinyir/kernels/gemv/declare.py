"""What a CTA of a gemv takes: the sums that its threads leave in shared memory, and a step's operands in registers."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ...kit.numbers import Number, least, most
from ..family import Array, Needs, Problem
from ..parts.sum_arrays import sum_arrays
from ..problem import Contraction
from ..resources import ADDRESSING, allotted

FEW_SUMS, MANY_SUMS = 4, 8  # of a thread
FEWEST, MANY = -6, 12  # registers less than usual, and more


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    kernel, (rows, columns, _) = problem.kernel, plan.tile
    held = plan.micro[0] * plan.micro[1] * max(1, kernel.dtype.bytes // 4)
    wanted = held + _step_registers(plan, kernel) + _end_registers(plan, kernel, held) + ADDRESSING
    return Needs(
        (*sum_arrays(kernel.dtype, rows, columns, plan.parts), *part_of(plan, kernel)),
        int(plan.parts > 1),
        allotted(plan, wanted),
        accumulators=held,
    )


def _step_registers(plan: Plan, kernel: Contraction) -> Number:
    """What a thread fetches in a step: elements of the large operand, packed and, where they are halves and neighbours
    are along the columns, widened while others arrive; of the small one too where it is fetched like that."""
    rows, columns, depth = plan.micro
    if stands_along_sum(plan, kernel):
        return depth * (columns * kernel.rhs.dtype.bytes + rows * kernel.lhs.dtype.bytes) // 4
    large = depth * columns * kernel.rhs.dtype.bytes // 4
    return large * 3 // 2 if kernel.rhs.dtype.bytes < 4 else large


def _end_registers(plan: Plan, kernel: Contraction, held: Number) -> Number:
    """What the end of the sums takes beside them, each of which has an address there."""
    several = least(most(3 * (held - FEW_SUMS), FEWEST), MANY)
    return several if stands_along_sum(plan, kernel) else several + most(3 * (held - MANY_SUMS), 0) // 2


def part_of(plan: Plan, kernel: Contraction) -> tuple[Array, ...]:
    """Where threads that share columns and are not lanes of one warp leave their sums."""
    return () if stands_along_sum(plan, kernel) else (Array("part", kernel.dtype, (plan.threads[1], *plan.tile[:2])),)


def stands_along_sum(plan: Plan, kernel: Contraction) -> bool:
    """Whether neighbouring threads go along the sum."""
    return plan.place_of(f"{kernel.sum[-1].name}.i") == "thread.x"
