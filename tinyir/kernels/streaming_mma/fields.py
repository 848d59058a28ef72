"""The fields of a plan for warps: `tile [rows of the query, columns of scores, depth]`, `warp_tile [rows, columns]`."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.body import Read
from ...ir.plan import Async, Bind, Cache, Edge, Load
from ...target.hopper import SWIZZLE_BYTES
from ..accepts import Fields, only, where
from ..attention import Streaming
from ..attention.ahead import outer_of
from ..check.case import Case
from ..parts.contraction_fields import grouped
from ..resources import MAX_STAGES
from .match import STEP, factors_of

LEAST_STAGES = 2
WARP_ROWS = (16, 32)


def fields(case: Case) -> Fields:
    """What the family takes in each field; `legal` judges the tile."""
    plan, kernel, (first, _) = case.plan, case.kernel, case.regions

    def tile(given: tuple[int, ...]) -> bool:
        rows, columns, depth = given
        return rows % STEP == 0 and columns % STEP == 0 and depth == kernel.sizes[0]

    return {
        "tile": where(f"[{STEP}*n, {STEP}*n, {kernel.sizes[0]}]", tile),
        "warp_tile": only(*((rows, plan.tile[1]) for rows in WARP_ROWS)),
        "threads": where("[x]", lambda threads: len(threads) == 1),
        "stages": only(*range(LEAST_STAGES, MAX_STAGES + 1)),
        "bind": only(bind_of(kernel)),
        "order": grouped() if kernel.outer else only(None),
        "cache": only(cached_by(kernel)),
        "load": where(", ".join(f"{t} ld|cp_async swizzle {SWIZZLE_BYTES}" for t in loadable(kernel)), _takes(kernel)),
        "async": only(Async(plan.stages - 1)),
        "barrier": only("cp_async_group" if any(item.by == "cp_async" for item in plan.load) else "cta"),
        "edge": only((Edge(first.yields[0].output, kernel.output, "reg", 1),)),
    }


def bind_of(kernel: Streaming) -> tuple[Bind, ...]:
    """Tiles of rows of all heads are counted along x, rows by warps."""
    outer = tuple(a.name for a in outer_of(kernel))
    return Bind((*outer, f"{kernel.row.name}.o"), "cta.x"), Bind((f"{kernel.row.name}.i",), "warp.y")


def cached_by(kernel: Streaming) -> tuple[Cache, ...]:
    """The tensors whose tiles are in shared memory: the query's throughout, the key's and the value's in turn."""
    places = (kernel.row, kernel.column, kernel.column)
    found = ((t, f"{axis.name}.o") for factor, axis in zip(factors_of(kernel), places) for t in factor.tensors)
    return tuple({tensor: Cache(tensor, "smem", at) for tensor, at in found}.values())


def loadable(kernel: Streaming) -> dict[str, bool]:
    """The tensors that factors read as they are, and whether an asynchronous copy moves each."""
    reads = [(factor.body.tensor, factor.width) for factor in factors_of(kernel) if isinstance(factor.body, Read)]
    return {tensor: all(width for name, width in reads if name == tensor) for tensor, _ in reads}


def _takes(kernel: Streaming) -> Callable[[tuple[Load, ...]], bool]:
    ways = loadable(kernel)

    def takes(given: tuple[Load, ...]) -> bool:
        return [item.tensor for item in given] == list(ways) and all(
            item.swizzle == SWIZZLE_BYTES and item.by in (("ld", "cp_async") if ways[item.tensor] else ("ld",))
            for item in given
        )

    return takes
