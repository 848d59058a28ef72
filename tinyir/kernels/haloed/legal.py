"""What a haloed contraction asks of a plan: windows of one image."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ..family import Problem
from .halo import Halo, halo_of


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1611 for any other product."""
    halo = halo_of(problem.region, problem.kernel)
    if not isinstance(halo, Halo):
        yield fault_of(plan, "E1611", "algo", what=halo, region=problem.region.name)
