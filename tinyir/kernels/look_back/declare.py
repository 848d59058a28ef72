"""What a CTA of a scan by look back takes: where its warps meet, and the elements that a thread holds."""

from __future__ import annotations

from ...ir.accumulate import wide
from ...ir.body import Scan
from ...ir.plan.fields import Plan
from ...ir.traits import scans_of
from ...ir.types import DTYPES
from ..family import Array, Needs, Problem
from ..problem import Prefix
from ..resources import ADDRESSING, allotted, threads_of

WARP = 32
PLACE = Array("place", DTYPES["i32"], (1,))  # of the CTA among those that run


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    scans = dict.fromkeys(scans_of(problem.region))
    arrays = (array for scan in scans for array in (*part_of(plan, problem.kernel, scan), before_of(scan)))
    return Needs((PLACE, *arrays), registers=allotted(plan, 5 * held_of(plan) // 4 + ADDRESSING))


def part_of(plan: Plan, kernel: Prefix, scan: Scan) -> tuple[Array, ...]:
    """Where the warps of a CTA meet, at each turn of a scan."""
    warps, turns = threads_of(plan) // WARP, held_of(plan) // plan.width_of(kernel.row[0].name)
    return (Array("part", wide(scan.dtype), (warps * turns,)),) if warps > 1 else ()


def before_of(scan: Scan) -> Array:
    """What the tiles before fold to."""
    return Array("before", wide(scan.dtype), (1,))


def held_of(plan: Plan) -> int:
    """Elements of its tile that a thread keeps in registers."""
    return plan.tile[1] // threads_of(plan)
