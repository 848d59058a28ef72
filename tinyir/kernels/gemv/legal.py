"""What a gemv contraction asks of a plan: what it reads in vectors is contiguous and aligned."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..family import Problem
from ..parts.boxes import View, multiple_of, unread, view_of


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1611 for a sum of more than products, E1570 where the large operand cannot be read in the plan's accesses."""
    kernel, read = problem.kernel, problem.kernel.rhs
    if fault := unread(problem.region, kernel):
        yield fault_of(plan, "E1611", "algo", what=fault, region=problem.region.name)
    view = view_of(problem.region, read.tensor, read.index, kernel)
    if not isinstance(view, View):
        yield fault_of(plan, "E1570", "vectorize", tensor=read.tensor, fault=view)
        return
    width = plan.width_of(view.dims[-1].axes[-1].name)
    for need in multiple_of(view.dims[-1].size, width):
        if need not in plan.assume:
            yield fault_of(
                plan, "E1570", "vectorize", tensor=read.tensor, fault=Phrase("nothing assumes {need}", need=need)
            )
