"""A plan with what it speaks of, as the verifier of plan text looks at it."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.region import Region
from ...kit.records import dataclass
from ..family import Family, Needs, Problem
from ..problem import Kernel


@dataclass(frozen=True, slots=True)
class Case:
    """One plan with its family and the problem that it is a plan of."""

    plan: Plan
    family: Family
    problem: Problem

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of the plan."""
        return self.problem.regions

    @property
    def kernel(self) -> Kernel:
        """They as the kind of kernel that the family computes."""
        return self.problem.kernel

    def needs(self) -> Needs:
        """What a CTA takes."""
        return self.family.declare(self.plan, self.problem)
