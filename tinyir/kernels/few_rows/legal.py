"""What a product of few rows asks of a plan: that the region is one."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..family import Problem
from .match import patches_of


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1611 for a region that is none."""
    if not patches_of(problem.region, problem.kernel):
        what = Phrase("a region that does not multiply few rows by a factor along the sum")
        yield fault_of(plan, "E1611", "algo", what=what, region=problem.region.name)
