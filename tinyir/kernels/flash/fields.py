"""The fields of a flash plan: `tile [rows of the query, columns of scores, depth]`, 64 rows for each consumer."""

from __future__ import annotations

from ...ir.plan import Async, Cache, Consumers, Edge, Load, Store
from ...target.hopper import SWIZZLE_BYTES
from ..accepts import Fields, only, where
from ..check.case import Case
from ..parts.contraction_fields import grouped
from ..resources import MAX_STAGES
from .declare import STREAMED
from .legal import LEAST_STAGES, MOST_CONSUMERS, bind_of, threads_of_one_warp
from .match import flash_of


def fields(case: Case) -> Fields:
    """What the family takes in each field; `legal` judges the tile."""
    plan, kernel, (first, second) = case.plan, case.kernel, case.regions
    reads = flash_of(kernel).fetched
    columns = kernel.column.name
    kept, streamed = (
        tuple(Load(tensor, "tma", SWIZZLE_BYTES, way if axis == columns else "") for tensor, axis in reads.items())
        for way in ("", STREAMED)
    )
    beside = tuple(Load(read.tensor, "tma") for read, _ in flash_of(kernel).tiles)
    outputs = {t.name for t in second.outputs}

    def stores(given: tuple[Store, ...]) -> bool:
        tensors = [item.tensor for item in given]
        return len(set(tensors)) == len(tensors) and set(tensors) <= outputs and all(i.by != "rows" for i in given)

    return {
        "stages": only(*range(LEAST_STAGES, MAX_STAGES + 1)),
        "threads": only((), (threads_of_one_warp(plan.consumers.count),)),
        "consumers": only(*(Consumers(count, "cooperative") for count in range(1, MOST_CONSUMERS + 1))),
        "bind": only(bind_of(flash_of(kernel))),
        "order": grouped(may_be_drawn=True) if flash_of(kernel).outer else only(None),
        "cache": only(tuple(Cache(tensor, "smem", f"{axis}.o") for tensor, axis in reads.items())),
        "load": only(*((*loads, *beside[:n]) for loads in (kept, streamed) for n in range(len(beside) + 1))),
        "store": where(", ".join(f"{name} global|tma" for name in sorted(outputs)), stores),
        "async": only(Async(plan.stages), Async(plan.stages, "epilogue")),
        "barrier": only("mbarrier"),
        "edge": only((Edge(first.yields[0].output, kernel.output, "reg", 1),)),
    }
