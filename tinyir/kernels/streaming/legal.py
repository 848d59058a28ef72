"""What a streaming kernel asks of a plan: rows in lanes of a warp, the whole depth, whole accesses."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..attention import Streaming
from ..family import Problem


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1581 for each field that the template cannot obey."""
    for field, given, wanted in _unmet_by(problem.kernel, plan):
        yield fault_of(plan, "E1581", field, field=field, given=given, algo=plan.algo, wanted=wanted)


def _unmet_by(kernel: Streaming, plan: Plan) -> Iterator[tuple[str, list[int], str]]:
    """The fields of a plan that the template cannot obey: the field, what it is, and what is needed."""
    if len(plan.threads) != 2 or plan.threads[0] not in (1, 2, 4, 8, 16, 32):
        yield "threads", list(plan.threads), Phrase("[x, y] with x a power of two, at most 32")
    if plan.tile[2] != kernel.sizes[0]:
        yield "tile", list(plan.tile), Phrase("a third number of {sizes}", sizes=kernel.sizes[0])
    if plan.tile[1] % kernel.access:
        yield "tile", list(plan.tile), Phrase("a second number of whole accesses of {access}", access=kernel.access)
