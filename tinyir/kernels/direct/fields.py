"""The fields of a direct plan: `tile [rows, columns, planes]` of a CTA, `micro` of a thread, `vectorize` along what is
innermost. With `cache X -> reg at i2.i` a thread walks down its rows."""

from __future__ import annotations

from ...ir.plan import Bind, Cache, Plan, Vectorize
from ..accepts import Fields, only, where
from ..check.case import Case
from ..windowed import Windowed
from .block import ACROSS_PLACES, ALONG_PLACES, accesses_of, is_walked, threads_along, wide_of


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel, region = case.plan, case.kernel, case.problem.region
    columns = plan.micro[1] if len(plan.micro) == 3 else 1
    most_planes = max(wide_of(region, kernel)) if kernel.is_across else 1

    def is_block(micro: tuple[int, ...]) -> bool:
        return (
            len(micro) == 3
            and (bool(kernel.rows) or micro[0] == 1)
            and (micro[2] in wide_of(region, kernel) if kernel.is_across else micro[2] == 1)
        )

    return {
        "tile": where("[micro * threads]", lambda tile: _is_covered(plan, tile, kernel)),
        "micro": where(f"[rows, columns, planes <= {most_planes}]", is_block),
        "threads": where("[x, y, z]", lambda threads: len(threads) == 3),
        "bind": only(binds(kernel)),
        "cache": only((), *((cached(kernel),) if is_walked(kernel) and plan.micro[:1] > (1,) else ())),
        "vectorize": only(*(along(kernel, w) for w in widths(case, columns))),
    }


def widths(case: Case, columns: int) -> tuple[int, ...]:
    """What `vectorize` may say: as many neighbours along the planes as a thread has, or accesses along the columns."""
    if case.kernel.is_across:
        return (case.plan.micro[2],) if len(case.plan.micro) == 3 else (1,)
    return accesses_of(case.problem.region, case.kernel, columns)


def along(kernel: Windowed, width: int) -> tuple[Vectorize, ...]:
    """The field `vectorize` of accesses of this number of elements."""
    return (Vectorize(kernel.axes[-1].name, width),) if width > 1 else ()


def binds(kernel: Windowed) -> tuple[Bind, ...]:
    """The tiles in one line of CTAs, outermost first, and the blocks of a tile as the threads of three dims."""
    places = ACROSS_PLACES if kernel.is_across else ALONG_PLACES
    groups = {"rows": kernel.rows, "columns": kernel.columns, "planes": kernel.planes}
    cta = tuple(a.name if a in kernel.batch else f"{a.name}.o" for a in kernel.axes)
    inside = (Bind(tuple(f"{a.name}.i" for a in axes), places[word]) for word, axes in groups.items() if axes)
    return (Bind(cta, "cta.x"), *inside)


def cached(kernel: Windowed) -> tuple[Cache, ...]:
    """The field `cache` of a walk: registers hold a row of each image."""
    (row,) = kernel.rows
    return tuple(Cache(i.read.tensor, "reg", f"{row.name}.i") for f in kernel.folds for i in f.images)


def _is_covered(plan: Plan, tile: tuple[int, ...], kernel: Windowed) -> bool:
    if not len(tile) == len(plan.micro) == len(plan.threads) == 3:
        return False
    return tile == tuple(m * count for m, count in zip(plan.micro, threads_along(plan.threads, kernel)))


__all__ = ["along", "binds", "cached", "fields", "widths"]
