"""The fields of a gemv plan: `tile [rows, columns, sum]`, of which a thread computes `micro`."""

from __future__ import annotations

from ...ir.plan import SplitK, Vectorize
from ...target.arch import ARCHS
from ..accepts import Fields, bound, only, where
from ..candidate import parts_of_axes
from ..check.case import Case
from ..parts.boxes import View, view_of
from ..parts.contraction_fields import grouped
from ..parts.sum_arrays import can_end_in_parts
from .declare import stands_along_sum

WARP = 32
WIDTHS = (2, 4, 8, 16)


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel = case.plan, case.kernel
    view = view_of(case.problem.region, kernel.rhs.tensor, kernel.rhs.index, kernel)
    is_along_sum = stands_along_sum(plan, kernel)
    inner = view.inner if isinstance(view, View) else ""
    along, other = (kernel.sum, kernel.right) if inner == "sum" else (kernel.right, kernel.sum)
    number = 2 if is_along_sum else 1
    each = plan.micro[number] if len(plan.micro) == 3 else 1
    rows, columns = plan.tile[:2]
    cuts = [n for n in range(2, ARCHS[plan.arch].ctas_per_cluster + 1) if can_end_in_parts(rows, columns, n)]
    widths = [(Vectorize(along[-1].name, width),) for width in WIDTHS if each % width == 0]

    def threads(given: tuple[int, ...]) -> bool:
        return len(given) == 2 and (not is_along_sum or given[0] <= WARP and WARP % given[0] == 0)

    return {
        "micro": where("[rows, columns, sum]", lambda micro: len(micro) == 3),
        "threads": where("[x, y], 32 = n * x" if is_along_sum else "[x, y]", threads),
        "bind": bound(
            (tuple(a.name for a in kernel.batch), "cta.z"),
            (parts_of_axes(kernel.left, "o"), "cta.y"),
            (parts_of_axes(kernel.right, "o"), "cta.x"),
            (parts_of_axes(along, "i"), "thread.x"),
            (parts_of_axes(other, "i"), "thread.y"),
        ),
        "order": grouped(),
        "split_k": only(None, *(SplitK(n, "cluster") for n in cuts)),
        "vectorize": only((), *widths),
    }
