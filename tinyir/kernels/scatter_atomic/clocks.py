"""The cost of a scatter by atomics: what a thread for each update takes. Not calibrated."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.scatters import scatter_of, updates_of
from ...ir.traits import extent_of
from ..family import Clocks, Conditions, Problem

UPDATE_ISSUE = 20  # warp instructions for one update
ATOMIC_BYTES = 32  # of the L2 cache that one atomic holds


def scatter_atomic_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds of a plan of algo `scatter_atomic`, by what may bound it, behind the launch that writes the base."""
    region, sizes, device, moved = problem.region, at.sizes, at.device, at.work.bytes
    updates = extent_of(updates_of(region, scatter_of(region))).evaluate(sizes)
    memory = max(moved / device.dram_bytes_per_us, (moved + updates * ATOMIC_BYTES) / device.l2_bytes_per_us)
    issue = updates * UPDATE_ISSUE / device.arch.warp / device.arch.schedulers / device.sms
    latency = 2 * device.dram_latency_ns + device.l2_latency_ns  # the base; then a place, what is there
    front = device.padding["us"]
    return Clocks(
        {
            "memory": front + memory,
            "compute": front + issue / device.clock_ghz / 1e3,
            "latency": front + latency / 1e3,
        }
    )
