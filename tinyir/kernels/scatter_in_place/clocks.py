"""The cost of updates that are written in place: each is read and written once, one behind the other in its thread.
Not calibrated."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.rules import product
from ...ir.scatters import columns_of, put_in_place
from ..family import Clocks, Conditions, Problem

UPDATE_ISSUE = 12  # warp instructions for one update
AHEAD = 8  # updates whose places, which an earlier kernel has left in the L2 cache, are loaded side by side


def in_place_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds of a plan of algo `scatter_in_place`, by what may bound it."""
    region, sizes, device = problem.region, at.sizes, at.device
    scatter = put_in_place(region)
    assert not isinstance(scatter, str), "legal was not asked"
    columns = product(tuple(a.size for a in columns_of(region, scatter))).evaluate(sizes)
    updates = product(tuple(a.size for a in scatter.axes)).evaluate(sizes)
    moved = columns * updates * 2 * scatter.dtype.bytes + updates * scatter.at.dtype.bytes
    waves = -(-columns // (device.sms * plan.tile[0]))
    issue = columns * updates * UPDATE_ISSUE / device.arch.warp / device.arch.schedulers / device.sms
    return Clocks(
        {
            "memory": moved / device.dram_bytes_per_us,
            "compute": issue / device.clock_ghz / 1e3,
            "latency": waves * (device.l2_latency_ns + (1 + (updates - 1) / AHEAD) * device.dram_latency_ns) / 1e3,
        }
    )
