"""The kernels that copy operands before a contraction's kernel as its `layout` asks: padded, or turned along the
sum."""

from __future__ import annotations

from ...ir.plan import Plan
from ..family import Before, Problem
from .padding import padding_kernel, workspaces_of
from .turning import turned_workspaces, turning_kernels


def copies_before(plan: Plan, problem: Problem) -> Before:
    """The kernels, those of constants made once, and the memory of the copies."""
    if not plan.layout:
        return Before()
    region, kernel, model = problem.region, problem.kernel, problem.model
    made = (padding_kernel(plan, region, kernel, model, is_once) for is_once in (True, False))
    kernels = (*(k for k in made if k is not None), *turning_kernels(plan, region, kernel, model))
    return Before(kernels, (*workspaces_of(plan, region, kernel), *turned_workspaces(plan, region, kernel)))
