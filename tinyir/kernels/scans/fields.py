"""The fields of plans of a scan: `tile [1, elements of a row at once]` of a CTA, or `[rows, 1]` of its threads."""

from __future__ import annotations

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
    rows = case.kernel.rows
    return {
        "tile": only((case.plan.threads[0], 1)),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "bind": bound((parts_of_axes(rows, "o"), "cta.x"), (parts_of_axes(rows, "i"), "thread.x")),
    }


__all__ = ["of_block", "of_thread"]
