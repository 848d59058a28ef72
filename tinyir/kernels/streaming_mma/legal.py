"""What the form for warps asks of a plan beside what any plan must hold: registers for scores and sums."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.arch import ARCHS
from ..attention.score import blocks_split
from ..family import Problem
from .declare import ADDRESSING, declared_by, held_by


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1581 for a tile whose scores and sums a thread cannot hold."""
    if stop := crowded(plan, problem):
        yield fault_of(plan, "E1581", "tile", field="tile", given=list(plan.tile), algo=plan.algo, wanted=stop)


def crowded(plan: Plan, problem: Problem) -> str:
    """Why a plan is not one to take, in words; empty where it is: a tile is in two blocks of rows, or a thread cannot
    hold a warp's scores and sums."""
    if split := blocks_split(problem.kernel, plan.tile[0]):
        return split
    most = ARCHS[plan.arch].registers_per_thread
    held = max(held_by(plan, problem.kernel) + ADDRESSING, declared_by(plan, problem.kernel))
    if held <= most:
        return ""
    return Phrase(
        "{held} registers a thread, {most} at most: fewer rows of a warp, or fewer columns", held=held, most=most
    )
