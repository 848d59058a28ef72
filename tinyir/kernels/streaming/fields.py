"""The fields of a streaming plan: `tile [rows of the query, rows of the key, depth]`, `micro` scores of a thread."""

from __future__ import annotations

from ...ir.plan import Edge
from ..accepts import Fields, bound_freely, only, where
from ..check.case import Case
from .space import cached_by


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    kernel, (first, _) = case.kernel, case.regions
    rows, columns = (kernel.row,), (kernel.column,)
    return {
        "micro": where("[rows, columns]", lambda micro: len(micro) == 2),
        "bind": bound_freely((rows,), ((rows, "thread.y"), (columns, "thread.x")), kernel.outer),
        "cache": only(cached_by(kernel)),
        "edge": only((Edge(first.yields[0].output, kernel.output, "smem", 1),)),
    }
