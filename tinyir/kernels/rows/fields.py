"""The fields of plans of a row kernel: `tile [rows, elements of a row at once]`, threads `[of a row]` or `[of a row,
rows]`, and CTAs that share a row as a cluster."""

from __future__ import annotations

import math

from ...ir.plan import Vectorize
from ...ir.runs import WIDTHS, Run, row_run
from ...target.arch import ARCHS
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from .declare import team_of

WARP = 32


def of_streamed(case: Case) -> Fields:
    """What `row_streamed` takes in each field."""
    return {word: accepts for word, accepts in of_resident(case).items() if word != "cluster"}


def of_resident(case: Case) -> Fields:
    """What `row_resident` takes in each field."""
    plan, kernel, region = case.plan, case.kernel, case.problem.region
    rows, team = plan.threads[1] if len(plan.threads) > 1 else 1, team_of(plan)
    runs = {vectors_along(run): run for w in WIDTHS if (run := row_run(region, kernel, w)) is not None}
    run = runs.get(plan.vectorize)
    width, least = (run.width, run.most_left) if run is not None else (1, 0)
    ctas = math.prod(plan.cluster.shape) if plan.cluster else 1
    most = ARCHS[plan.arch].ctas_per_cluster

    def shares_rows(threads: tuple[int, ...]) -> bool:
        return len(threads) == 1 or len(threads) == 2 and ctas == 1 and WARP % threads[0] == 0

    return {
        "tile": where(
            f"[{rows}, {width * team} * n]",
            lambda tile: tile[0] == rows and tile[1] % (width * team) == 0 and least <= team,
        ),
        "threads": where("[x] | [x, rows], 32 = n * x", shares_rows),
        "cluster": where(
            f"[1, n], 2 <= n <= {most}",
            lambda c: c is None or len(c.shape) == 2 and c.shape[0] == 1 and c.shape[1] > 1 and not c.multicast,
        ),
        "bind": bound(
            (parts_of_axes(kernel.rows, "o"), "cta.x"),
            (parts_of_axes(kernel.rows, "i") if rows > 1 else (), "thread.y"),
            (parts_of_axes(kernel.row, "i"), "thread.x"),
        ),
        "vectorize": only((), *runs),
    }


def vectors_along(run: Run) -> tuple[Vectorize, ...]:
    """The field `vectorize` of a plan that takes a run."""
    return (Vectorize("*".join(a.name for a in run.axes), run.width),)
