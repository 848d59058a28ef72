"""The row templates: a team of threads folds one row at a time (softmax, norms, sums).

    row_streamed    each pass walks over the row and reads it again:   for c in thread.x..C step 256 unroll 8
    row_resident    each thread keeps its elements in registers:       for v in 0..8 unroll, c = 256*v + thread.x, if c
                    < C

Where neighbours are known to be side by side a thread takes vectors of them, and of a row that is not whole vectors
then one element more (`ends`). A team is a few lanes of a warp, a CTA or a cluster (`row_team`); `row_passes` writes
what it does.
"""

from __future__ import annotations

from ...ir.gpu.nodes import Kernel
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.runs import Run, row_run
from ...target.arch import ARCHS
from ..family import Problem
from ..parts.point import Fresh, names_in
from ..problem import Row
from ..resources import threads_of
from .declare import (
    HELD_COMPUTED,
    MOST_PASSES,
    asked_ahead,
    counted,
    declare,
    declare_streamed,
    each_of,
    stays_as_read,
)
from .ends import Ends
from .passes import Passes
from .team import Team


def resident_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `row_resident`."""
    return _kernel(plan, problem, is_resident=True)


def streamed_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `row_streamed`."""
    return _kernel(plan, problem, is_resident=False)


def _kernel(plan: Plan, problem: Problem, is_resident: bool) -> Kernel:
    region, kernel = problem.region, problem.kernel
    declared, fresh = declare if is_resident else declare_streamed, Fresh(names_in(region))
    team = Team.of(plan, region, kernel, fresh)
    run = _run_of(plan, region, kernel)
    ends = Ends.of(run, fresh, team.number) if run else None
    body = Passes(plan, region, kernel, team, ends, is_resident).statements()
    registers = declared(plan, problem).registers
    # what the threads of a CTA leave one another at most the compiler knows
    is_told = registers < ARCHS[plan.arch].registers_per_sm // threads_of(plan) + (not is_resident)
    row = counted(region, kernel)
    is_counted = row.held > 0 and kernel.passes <= MOST_PASSES or row.is_folded or row.is_slow
    is_held = not is_resident or team.ctas > 1 or is_counted or stays_as_read(plan, region, kernel)
    if team.ctas > 1 and not row.is_slow and each_of(plan) <= HELD_COMPUTED and asked_ahead(plan, row):
        is_held = False  # the compiler takes fewer, so that another CTA fits
    cluster = (team.ctas,) if team.ctas > 1 else ()
    return Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        (team.grid,),
        plan.threads,
        (*team.arrays(), *team.lets(), *(ends.lets() if ends else ()), *body, *team.end()),
        cluster,
        regs=registers if is_told and is_held else 0,
    )


def _run_of(plan: Plan, region: Region, kernel: Row) -> Run | None:
    """The run that the plan takes in vectors."""
    return row_run(region, kernel, plan.vectorize[0].width) if plan.vectorize else None
