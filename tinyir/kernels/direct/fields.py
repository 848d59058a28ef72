"""The fields of a direct plan: `tile [rows, columns, planes]` of a CTA, `micro` of a thread, `vectorize` along what is
innermost. With `cache X -> reg at i2.i` a thread walks down its rows, with `cache X -> smem at i2.i` down `stages` rows
of whole tiles that come ahead."""

from __future__ import annotations

from ...ir.neighbours import ACCESS_BYTES, is_multiple
from ...ir.plan import Async, Bind, Cache, Load, Plan, Vectorize
from ...ir.traits import extent_of
from ..accepts import Fields, only, where
from ..check.case import Case
from ..windowed import Windowed
from .block import ACROSS_PLACES, ALONG_PLACES, accesses_of, is_ahead, is_staged, is_walked, threads_along, wide_of

MOST_STAGES = 8


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
        "cache": only((), *_caches(case)),
        "load": only(loads(kernel) if is_ahead(plan) else ()),
        "stages": only(*(range(2, MOST_STAGES + 1) if is_ahead(plan) else (1,))),
        "async": only(Async(plan.stages - 1) if is_ahead(plan) else None),
        "barrier": only("cp_async_group" if is_ahead(plan) else "cta"),
        "vectorize": only(*(along(kernel, w) for w in widths(case, columns))),
    }


def _caches(case: Case) -> tuple[tuple[Cache, ...], ...]:
    """What `cache` may say beside nothing: that threads walk, down rows in registers or of whole tiles in shared
    memory."""
    plan, kernel, region = case.plan, case.kernel, case.problem.region
    if plan.micro[:1] <= (1,):
        return ()
    found = (cached(kernel),) if is_walked(kernel) else ()
    if is_staged(region, kernel) and plan.threads[2:] == (1,) and is_whole(plan, kernel):
        found += (cached(kernel, "smem"),)
    return found


def is_whole(plan: Plan, kernel: Windowed) -> bool:
    """Whether no tile hangs over the end of the results, and rows of the image in one are whole accesses."""
    (image,) = kernel.folds[0].images
    return (
        len(plan.tile) == 3
        and all(is_multiple(extent_of(axes), tile) for axes, tile in zip(kernel.groups, plan.tile))
        and plan.tile[2] * image.read.dtype.bytes % ACCESS_BYTES == 0
    )


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


def cached(kernel: Windowed, where_: str = "reg") -> tuple[Cache, ...]:
    """The field `cache` of a walk: registers, or shared memory, hold a row of each image."""
    (row,) = kernel.rows
    return tuple(Cache(i.read.tensor, where_, f"{row.name}.i") for f in kernel.folds for i in f.images)


def loads(kernel: Windowed) -> tuple[Load, ...]:
    """The field `load` of a walk down rows that come ahead."""
    return tuple(Load(i.read.tensor, "cp_async") for f in kernel.folds for i in f.images)


def _is_covered(plan: Plan, tile: tuple[int, ...], kernel: Windowed) -> bool:
    if not len(tile) == len(plan.micro) == len(plan.threads) == 3:
        return False
    return tile == tuple(m * count for m, count in zip(plan.micro, threads_along(plan.threads, kernel)))
