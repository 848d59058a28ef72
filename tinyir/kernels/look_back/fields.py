"""The fields of a scan by look back: `tile [1, elements]` of a CTA, several of each thread."""

from __future__ import annotations

from ..accepts import Fields, where
from ..check.case import Case
from ..parts.scan_fields import along_a_row


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    kernel = case.kernel
    width = case.plan.threads[0] * case.plan.width_of(kernel.row[0].name)
    return {
        **along_a_row(case, (*kernel.rows, *kernel.row)),
        "tile": where(f"[1, {width} * n]", lambda tile: tile[0] == 1 and tile[1] % width == 0),
    }
