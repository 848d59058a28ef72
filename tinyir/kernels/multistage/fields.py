"""The fields of a multistage plan: `tile [rows, columns, sum]`, of which a warp sums `warp_tile [rows, columns]`."""

from __future__ import annotations

from collections.abc import Container

from ...ir.plan import Async, Load, Vectorize
from ...ir.region import Region
from ...target.hopper import SWIZZLE_BYTES
from ..accepts import Accepts, Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.boxes import MMA_FACTORS, View, is_along_sum, view_of
from ..parts.contraction_fields import cached, copies, grouped, tensors_of
from ..problem import Contraction
from .declare import FRAGMENTS, STEP

LEAST_STAGES, MOST_STAGES = 2, 16
WIDTHS = (2, 4, 8, 16)


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel = case.plan, case.kernel
    wide, step = SWIZZLE_BYTES // kernel.lhs.dtype.bytes, FRAGMENTS.get(plan.math, 1) * STEP
    pieces = [1 if is_along_sum(kernel, side) else wide for side in (0, 1)]
    least = [max(piece, STEP) for piece in pieces]

    def tile(given: tuple[int, ...]) -> bool:
        rows, columns, depth = given
        return rows % pieces[0] == 0 and columns % pieces[1] == 0 and depth % step == 0 and depth <= wide

    def warp_tile(given: tuple[int, ...]) -> bool:
        return len(given) == 2 and all(n & (n - 1) == 0 and n >= STEP for n in given)

    is_async = any(item.by == "cp_async" for item in plan.load)
    return {
        "tile": where(f"[{least[0]}*n, {least[1]}*n, {step}*n <= {wide}]", tile),
        "warp_tile": where(f"[2^n, 2^n], {STEP} <= 2^n", warp_tile),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "stages": only(*range(LEAST_STAGES, MOST_STAGES + 1)),
        "math": only(*(math for math, names in MMA_FACTORS.items() if kernel.lhs.dtype.name in names)),
        "bind": bound(
            (tuple(a.name for a in kernel.batch), "cta.z"),
            (parts_of_axes(kernel.left, "o"), "cta.y"),
            (parts_of_axes(kernel.right, "o"), "cta.x"),
            (parts_of_axes(kernel.left, "i"), "warp.y"),
            (parts_of_axes(kernel.right, "i"), "warp.x"),
        ),
        "order": grouped(),
        "cache": only(cached(kernel)),
        "load": _loads(case),
        "vectorize": _vectors(case),
        "async": only(*(Async(ahead) for ahead in range(1, plan.stages))),
        "barrier": only("cp_async_group" if is_async else "cta"),
        "layout": copies(
            {t: ("padded", "padded_once") for t in tensors_of(kernel) if plan.load_of(t).by == "cp_async"},
            kernel.siblings,
        ),
    }


def row_bytes(kernel: Contraction, tile: tuple[int, ...], side: int) -> int:
    """Bytes of a swizzled row of an operand's tile: the row, up to the widest swizzle."""
    size = tile[2 if is_along_sum(kernel, side) else side]
    return min(SWIZZLE_BYTES, size * (kernel.lhs, kernel.rhs)[side].dtype.bytes)


def _loads(case: Case) -> Accepts:
    """Each factor by ld or by cp_async, its rows swizzled over their whole length."""
    kernel, tile = case.kernel, case.plan.tile
    spans = {read.tensor: row_bytes(kernel, tile, side) for side, read in enumerate((kernel.lhs, kernel.rhs))}

    def takes(given: tuple[Load, ...]) -> bool:
        return (
            len(given) == len(spans)
            and {item.tensor for item in given} == set(spans)
            and all(item.by in ("ld", "cp_async") and item.swizzle == spans[item.tensor] for item in given)
        )

    return where(", ".join(f"{tensor} ld|cp_async swizzle {span}" for tensor, span in spans.items()), takes)


def vector_axes(kernel: Contraction, region: Region, moved: Container[str]) -> tuple[str, ...]:
    """The axes along which an access has several neighbours: of the factors that cp_async has `moved` in
    memory, and of the output where its columns are one axis."""
    views = (
        view_of(region, read.tensor, read.index, kernel) for read in (kernel.lhs, kernel.rhs) if read.tensor in moved
    )
    axes = [view.dims[-1].axes[-1].name for view in views if isinstance(view, View)]
    return tuple(dict.fromkeys((*axes, *(a.name for a in kernel.right if len(kernel.right) == 1))))


def _vectors(case: Case) -> Accepts:
    """Neighbours along the axes in which cp_async copies a factor, and along the output's columns."""
    plan, kernel = case.plan, case.kernel
    moved = {t for t in tensors_of(kernel) if plan.load_of(t).by == "cp_async" and not plan.is_padded(t)}
    known = vector_axes(kernel, case.problem.region, moved)

    def takes(given: tuple[Vectorize, ...]) -> bool:
        names = [item.axis for item in given]
        return len(set(names)) == len(names) and all(i.axis in known and i.width in WIDTHS for i in given)

    return where(", ".join(f"{axis} width 2|4|8|16" for axis in known), takes)
