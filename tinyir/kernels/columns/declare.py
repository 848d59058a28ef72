"""What a CTA that folds columns takes: what each of its threads has folded, and registers."""

from __future__ import annotations

from ...ir.accumulate import wide
from ...ir.expr import ZERO
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...ir.runs import column_run
from ..family import Array, Needs, Problem
from ..parts.kept import bytes_beside, words_beside
from ..resources import ADDRESSING, allotted
from .match import folds_of_columns

IN_A_ROUND = 16  # threads of a column whose numbers one thread folds


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes: sums, and neighbours as they come; held to a number also what these become, two accesses of
    them."""
    region, along = problem.region, {problem.region.iters[-1].name}
    if is_held(plan, region):
        held = plan.widest * words_beside(region, along, False)
    else:
        sums = sum(max(1, wide(let.expr.dtype).bytes // 4) for let in folds_of_columns(region))
        held = plan.widest * sums + -(-plan.widest * bytes_beside(region, along) // 4)
    return Needs(parts_of(plan, problem), registers=allotted(plan, held + ADDRESSING))


def is_held(plan: Plan, region: Region) -> bool:
    """Whether the compiler is held to these registers: told a number it has as many loads on their way as fit, two
    where it is told none. Where columns begin between accesses that is worth more than further CTAs."""
    run = column_run(region, plan.widest) if plan.vectorize else None
    return run is not None and run.start != ZERO


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
