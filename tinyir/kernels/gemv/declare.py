"""What a CTA of a gemv takes: the sums that its threads leave in shared memory, and a step's operands in registers."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..parts.sum_arrays import sum_arrays
from ..problem import Contraction
from ..resources import ADDRESSING, allotted


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    kernel, (rows, columns, _) = problem.kernel, plan.tile
    held = plan.micro[0] * plan.micro[1] * max(1, kernel.dtype.bytes // 4)
    small = plan.micro[0] * kernel.lhs.dtype.bytes if stands_along_sum(plan, kernel) else 0  # its elements are held too
    wanted = held + plan.micro[2] * (plan.micro[1] * kernel.rhs.dtype.bytes + small) // 4 + ADDRESSING
    return Needs(
        (*sum_arrays(kernel.dtype, rows, columns, plan.parts), *part_of(plan, kernel)),
        int(plan.parts > 1),
        allotted(plan, wanted),
        accumulators=held,
    )


def part_of(plan: Plan, kernel: Contraction) -> tuple[Array, ...]:
    """Where threads that share columns and are not lanes of one warp leave their sums."""
    return () if stands_along_sum(plan, kernel) else (Array("part", kernel.dtype, (plan.threads[1], *plan.tile[:2])),)


def stands_along_sum(plan: Plan, kernel: Contraction) -> bool:
    """Whether neighbouring threads go along the sum."""
    return plan.place_of(f"{kernel.sum[-1].name}.i") == "thread.x"


__all__ = ["declare", "part_of", "stands_along_sum"]
