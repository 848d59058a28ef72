"""The fields of a synchronous plan: `tile [rows, columns, sum]`, of which a thread sums `micro [rows, columns]`."""

from __future__ import annotations

from ...kit.phrase import Phrase
from ..accepts import Fields, bound_freely, only, where
from ..check.case import Case
from ..parts.contraction_fields import cached

MOST_STAGES = 2  # tiles in shared memory: one that is multiplied while the next is written


def fields(case: Case) -> Fields:
    """What the family takes in each field."""
    plan, kernel = case.plan, case.kernel
    sides = (kernel.left, kernel.right)
    taken = {b.place for b in plan.bind}
    places = ("thread.x", "thread.y", "thread.z")

    def threads(given: tuple[int, ...]) -> bool:
        return len(given) <= 3 and all(n == 1 or place in taken for n, place in zip(given, places))

    return {
        "micro": where("[rows, columns]", lambda micro: len(micro) == 2),
        "threads": where(Phrase("[x, y, z], 1 where nothing is bound"), threads),
        "stages": only(*range(1, MOST_STAGES + 1)),
        "bind": bound_freely(sides, ((side, "thread.") for side in sides), kernel.batch),
        "cache": only(cached(kernel)),
    }
