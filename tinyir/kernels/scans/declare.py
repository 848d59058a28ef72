"""What a CTA of a scan takes: where the warps of a block meet."""

from __future__ import annotations

from ...ir.accumulate import wide
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...ir.traits import scans_of
from ..family import Array, Needs, Problem
from ..parts.scan_clocks import TURNS_AT_ONCE
from ..resources import ADDRESSING, allotted, threads_of

WARP = 32


def declare_block(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes that has a row."""
    return Needs(meeting_arrays(plan, problem.region), registers=allotted(plan, ADDRESSING))


def meeting_arrays(plan: Plan, region: Region) -> tuple[Array, ...]:
    """Where a CTA's warps meet: an array for each dtype that is scanned."""
    warps = threads_of(plan) // WARP if len(plan.threads) == 1 else 1
    dtypes = dict.fromkeys(wide(scan.dtype) for scan in scans_of(region))
    return tuple(Array("part", dtype, (warps,)) for dtype in dtypes) if warps > 1 else ()


def turns_of(plan: Plan) -> int:
    """Turns of a row that are written out together: a warp alone meets no barrier between their loads."""
    return TURNS_AT_ONCE if plan.threads[0] == WARP else 1
