"""The fields of plans of a scan: `tile [1, elements of a row at once]` of a CTA, or `[rows, neighbours at
once]` of its threads."""

from __future__ import annotations

from ...ir.plan import Bind, Vectorize
from ...ir.runs import WIDTHS, row_run
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.scan_fields import along_a_row
from ..problem import Prefix
from .declare import WARP
from .vector import lanes_of, run_of_lanes


def of_block(case: Case) -> Fields:
    """What `scan_block` takes in each field."""
    kernel, width, (lanes, *rows) = case.kernel, case.plan.width_of(case.kernel.row[0].name), case.plan.threads
    found = {**along_a_row(case, kernel.rows), "tile": only((rows[0] if rows else 1, lanes * width))}
    if not rows:
        return found
    run = run_of_lanes(case.problem.region, kernel, width)
    least = lanes_of(run) if run is not None and kernel.rows else 0
    of_lanes = where(
        f"[x, y], 32 = n * x, {least} <= x",
        lambda given: len(given) == 2 and WARP % given[0] == 0 and least <= given[0],
    )
    return {
        **found,
        "threads": of_lanes if least else where("[x]", lambda given: len(given) == 1),
        "bind": bound((parts_of_axes(kernel.rows, "o"), "cta.x"), *((b.axes, b.place) for b in lanes_bind(kernel))),
    }


def lanes_bind(kernel: Prefix) -> tuple[Bind, ...]:
    """Where the threads of a CTA are counted that has several rows: along the rows, and along a row."""
    return Bind(parts_of_axes(kernel.rows, "i"), "thread.y"), Bind(parts_of_axes(kernel.row, "i"), "thread.x")


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
