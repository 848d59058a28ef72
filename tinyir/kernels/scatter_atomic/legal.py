"""What a scatter by atomics asks of a plan: one scatter, whose bits do not depend on the order of its updates, or a
plan that leaves the order open."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...ir.scatters import reordered, unmet_by_atomics
from ...kit.diag import Diag
from ..family import Problem


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1583 for a region whose updates atomics cannot fold; E1584 for one whose bits depend on their order."""
    if (scatter := reordered(problem.region, plan.atomics)) is not None:
        yield fault_of(plan, "E1584", "algo", op=scatter.op, dtype=scatter.dtype, field="atomics unordered")
    elif fault := unmet_by_atomics(problem.region, plan.atomics):
        yield fault_of(plan, "E1583", "algo", region=problem.region.name, fault=fault)
