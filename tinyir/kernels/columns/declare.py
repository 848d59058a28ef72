"""What a CTA that folds columns takes: what each of its threads has folded, and registers."""

from __future__ import annotations

from ...ir.accumulate import wide
from ...ir.plan.fields import Plan
from ..family import Array, Needs, Problem
from ..parts.kept import words_beside
from ..resources import ADDRESSING, allotted
from .match import folds_of_columns

IN_A_ROUND = 16  # threads of a column whose numbers one thread folds


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    region = problem.region
    held = plan.widest * words_beside(region, {region.iters[-1].name}, False)
    return Needs(parts_of(plan, problem), registers=allotted(plan, held + ADDRESSING))


def parts_of(plan: Plan, problem: Problem) -> tuple[Array, ...]:
    """Where the threads of a column meet, an array for each fold: of what each thread has, then for each round but the
    last of what that leaves."""
    folds = folds_of_columns(problem.region)
    left, rows = plan.threads[1], [plan.threads[1]]
    for number in rounds_of(plan)[:-1]:
        left //= number
        rows.append(left)
    return tuple(Array("part", wide(let.expr.dtype), (count, plan.tile[0])) for count in rows for let in folds)


def rounds_of(plan: Plan) -> tuple[int, ...]:
    """How many numbers of a column one thread folds, round by round."""
    left, columns = plan.threads[1], plan.tile[0]
    groups = max(1, plan.threads[0] * plan.threads[1] // columns)
    found: list[int] = []
    while left > IN_A_ROUND and 1 < groups < left:
        found.append(left // groups)
        left, groups = groups, max(1, groups // IN_A_ROUND)
    return (*found, left)


__all__ = ["declare", "parts_of", "rounds_of"]
