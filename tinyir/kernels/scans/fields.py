"""The fields of plans of a scan: `tile [1, elements of a row at once]` of a CTA, or `[rows, neighbours at
once]` of its threads."""

from __future__ import annotations

from ...ir.plan import Vectorize
from ...ir.runs import WIDTHS, row_run
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.scan_fields import along_a_row


def of_block(case: Case) -> Fields:
    """What `scan_block` takes in each field."""
    width = case.plan.width_of(case.kernel.row[0].name)
    return {**along_a_row(case, case.kernel.rows), "tile": only((1, case.plan.threads[0] * width))}


def of_thread(case: Case) -> Fields:
    """What `scan_thread` takes in each field."""
    kernel, region = case.kernel, case.problem.region
    runs = [run for w in WIDTHS if (run := row_run(region, kernel, w)) is not None and run.is_whole]
    return {
        "tile": only((case.plan.threads[0], case.plan.width_of(kernel.row[0].name))),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "bind": bound((parts_of_axes(kernel.rows, "o"), "cta.x"), (parts_of_axes(kernel.rows, "i"), "thread.x")),
        "vectorize": only((), *((Vectorize(kernel.row[0].name, run.width),) for run in runs)),
    }


__all__ = ["of_block", "of_thread"]
