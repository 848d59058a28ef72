"""The cost of a row kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.body import Read
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.rules import product
from ...ir.traits import extent_of, nearest, nodes_of, reads_apart
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.waiting import BARRIER_CLOCKS, LINE_LOSS, MAP_ISSUE, SHUFFLE_CLOCKS, WAITING_SHARPNESS
from ..resources import threads_of
from .declare import team_of

CLUSTER_CLOCKS = 3500  # of a barrier of a cluster, and the reads of its CTAs' shared memory behind it

NEAR_BYTES = 200_000  # of the rows of an SM, which its own cache keeps from pass to pass
FETCHED_BYTES = 64  # for an element whose neighbours in the row are apart
NEAR_CLOCKS = 400  # until an element is there from it


def resident_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """A row in registers is on its way at once."""
    return _clocks(plan, problem, at, is_resident=True)


def streamed_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """A row that is read again comes from L2 then."""
    return _clocks(plan, problem, at, is_resident=False)


def _clocks(plan: Plan, problem: Problem, at: Conditions, is_resident: bool) -> Clocks:
    """Each pass reads a row, folds it over its team of threads and waits. A row in registers is on its way at once; one
    that is read again comes from L2 then, or from memory where the rows being read do not stay there, and a few
    elements at a time."""
    region, kernel, device, sizes, occupancy = problem.region, problem.kernel, at.device, at.sizes, at.occupancy
    rows, length = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    team, width, moved = team_of(plan), plan.widest, at.work.bytes
    elements = -(-length // (team * width)) * width
    ctas = -(-rows // plan.tile[0]) * (team // plan.threads[0])
    again = 0 if is_resident else kernel.passes - 1
    issued = MAP_ISSUE / width + 2
    moved *= LINE_LOSS if reads_apart(region) else 1
    waits = 1 if is_resident else -(-length // plan.tile[1])
    resident = max(1, min(occupancy, -(-ctas // device.sms)))
    is_near = resident * plan.tile[0] * at.work.bytes / max(rows, 1) <= NEAR_BYTES
    behind = again * (NEAR_CLOCKS if is_near else device.l2_latency_ns * device.clock_ghz)
    wait = (device.dram_latency_ns * device.clock_ghz + behind) * waits
    one = wait + kernel.passes * (_meeting(plan) + elements * issued)
    latency = -(-ctas // (device.sms * resident)) * one / device.clock_ghz / 1e3
    issue = (
        (ctas * threads_of(plan) * elements * (1 + again) * issued + at.work.flops)
        / device.arch.warp
        / device.arch.schedulers
        / device.sms
    )
    stays = min(ctas, device.sms * resident) * plan.tile[0] * moved / max(rows, 1) <= device.l2_useful_bytes
    fetched = moved * (1 if stays else 1 + again)
    # the busiest SM's share, times SMs
    brought = moved if reads_apart(region) else moved + _lost(region, kernel.row[-1].name, sizes)
    through = brought * (1 if is_near else 1 + again) * device.sms * -(-ctas // device.sms) / max(ctas, 1)
    return Clocks(
        {
            "memory": longer_of(
                max(fetched / device.dram_bytes_per_us, through / device.l2_bytes_per_us), latency, WAITING_SHARPNESS
            ),
            "compute": issue / device.clock_ghz / 1e3,
            "latency": latency,
        }
    )


def _lost(region: Region, along: str, sizes: Mapping[str, int]) -> float:
    """Bytes that move beside those used, of what neighbouring threads read apart: channels innermost, of which a row
    has a few, pixel after pixel."""
    reads = (n for n in nodes_of(region) if isinstance(n, Read) and any(along in e.names() for e in n.index))
    apart = {n.tensor for n in reads if along not in nearest(n.index)}
    read = (t.type for t in region.inputs if t.name in apart)
    return sum(product(t.shape).evaluate(sizes) * (FETCHED_BYTES - t.dtype.bytes) for t in read)


def _meeting(plan: Plan) -> float:
    """Clocks in which the threads of a row close a fold."""
    shuffles = SHUFFLE_CLOCKS * math.log2(min(plan.threads[0], 32))
    of_block = 2 * BARRIER_CLOCKS + plan.threads[0] if plan.threads[0] > 32 else 0
    return shuffles + of_block + (CLUSTER_CLOCKS if plan.cluster else 0)


__all__ = ["resident_clocks", "streamed_clocks"]
