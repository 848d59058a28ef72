"""What the families of scans take alike in the fields of a plan: a CTA has a tile of one row."""

from __future__ import annotations

from typing import Any

from ...ir.body import Axis
from ...ir.plan import Vectorize
from ...ir.runs import WIDTHS, row_run
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes


def along_a_row(case: Any, counted: tuple[Axis, ...]) -> Fields:
    """CTAs along the axes that are `counted`, threads along the row."""
    kernel, region = case.kernel, case.problem.region
    axis = kernel.row[0].name
    ways = [(Vectorize(axis, width),) for width in WIDTHS if row_run(region, kernel, width) is not None]
    return {
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "bind": bound((parts_of_axes(counted, "o"), "cta.x"), (parts_of_axes(kernel.row, "i"), "thread.x")),
        "vectorize": only((), *ways),
    }
