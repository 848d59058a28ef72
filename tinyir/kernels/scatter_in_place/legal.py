"""What writing updates in place asks of a region."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...ir.scatters import put_in_place
from ...kit.diag import Diag
from ..family import Problem


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1583 for a region that does not update a state so."""
    if isinstance(fault := put_in_place(problem.region), str):
        yield fault_of(plan, "E1583", "algo", region=problem.region.name, fault=fault)
