"""What rows in registers ask of a plan: that the row fits its tile, and the tile the registers."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...ir.traits import extent_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.arch import ARCHS
from ..family import Problem
from ..parts.guards import most_of
from .declare import each_of


def legal_resident(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1513 for more elements than a thread has registers, E1518 for a row that may be longer than its tile."""
    given, most = each_of(plan), ARCHS[plan.arch].registers_per_thread
    if given > most:
        yield fault_of(plan, "E1513", "tile", field=Phrase("elements of a row"), given=given, most=most)
    length = extent_of(problem.kernel.row)
    longest = most_of(length, problem.model)
    if longest is None or longest > plan.tile[1]:
        yield fault_of(plan, "E1518", "tile", length=length, tile=plan.tile[1])
