"""The fields of plans that fold columns: `tile [columns]`, `micro [of a thread]`, threads `[lanes along them, along
the fold]`."""

from __future__ import annotations

from ...ir.plan import Vectorize
from ...ir.runs import WIDTHS, Run, column_run
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from .match import is_slanted

WARP = 32


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, region = case.plan, case.problem.region
    last = region.iters[-1:]
    runs = [run for width in WIDTHS if (run := column_run(region, width)) is not None]
    lanes = plan.threads[0] if plan.threads else 0
    return {
        "tile": only((lanes * plan.widest,)),
        "micro": only((plan.widest,)),
        "threads": where(
            "[x, y], 32 = n * x, y = 2 ** m",
            lambda given: (
                len(given) == 2
                and WARP % given[0] == 0
                and given[1] & (given[1] - 1) == 0
                and _covers(column_run(region, plan.widest) if plan.vectorize else None, *given)
            ),
        ),
        "bind": bound(
            (parts_of_axes(region.iters, "o"), "cta.x"),
            (parts_of_axes(last, "i"), "thread.x"),
        ),
        "vectorize": only((), *((Vectorize(last[0].name, run.width),) for run in runs if last)),
    }


def _covers(run: Run | None, lanes: int, rows: int) -> bool:
    """Whether threads whose accesses begin elsewhere in each row have columns in common, and rows that return."""
    return run is None or not is_slanted(run) or lanes > 1 and rows % run.width == 0
