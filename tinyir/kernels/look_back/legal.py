"""What a scan by look back asks of a plan: that a thread's elements fit its registers."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.arch import ARCHS
from ..family import Problem
from .declare import held_of


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1513 for more elements than a thread has registers."""
    given, most = held_of(plan), ARCHS[plan.arch].registers_per_thread
    if given > most:
        yield fault_of(plan, "E1513", "tile", field=Phrase("elements of a tile"), given=given, most=most)
