"""What a gemv contraction asks of a plan: what is read in its accesses lies so that they can read it."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ..family import Problem
from ..parts.boxes import View, multiple_of, view_of


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1570 where the large operand cannot be read in the plan's accesses."""
    kernel, read = problem.kernel, problem.kernel.rhs
    view = view_of(problem.region, read.tensor, read.index, kernel)
    if not isinstance(view, View):
        yield fault_of(plan, "E1570", "vectorize", tensor=read.tensor, fault=view)
        return
    width = plan.width_of(view.dims[-1].axes[-1].name)
    for need in multiple_of(view.dims[-1].size, width):
        if need not in plan.assume:
            yield fault_of(plan, "E1570", "vectorize", tensor=read.tensor, fault=f"nothing assumes {need}")


__all__ = ["legal"]
