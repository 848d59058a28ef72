"""The cost model of scatters: how far each element of the result looks for its writers, or what a thread for each of
these takes. Not calibrated."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.body import Scatter, walk
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.scatters import scatter_of, updates_of
from ...ir.traits import bodies_of, extent_of
from ...target.device import Device

LOOK_ISSUE = (
    10  # warp instructions for one place: its load, which end it counts from, and whether it is the element's own
)
LOOK_CLOCKS = 40  # until a place is there, from the L1 cache, and compared
UPDATE_ISSUE = 20  # warp instructions for one update
ATOMIC_BYTES = 32  # of the L2 cache that one atomic holds


def looks_of(region: Region, sizes: Mapping[str, int]) -> int:
    """Places that one element of the region's result looks at."""
    return sum(
        extent_of(n.axes).evaluate(sizes) for body in bodies_of(region) for n in walk(body) if isinstance(n, Scatter)
    )


def scatter_atomic_parts(
    plan: Plan, region: Region, sizes: Mapping[str, int], device: Device, moved: int
) -> dict[str, float]:
    """Microseconds of a plan of algo `scatter_atomic`, by what may bound it, behind the launch that writes the base."""
    updates = extent_of(updates_of(region, scatter_of(region))).evaluate(sizes)
    memory = max(moved / device.dram_bytes_per_us, (moved + updates * ATOMIC_BYTES) / device.l2_bytes_per_us)
    issue = updates * UPDATE_ISSUE / device.arch.warp / device.arch.schedulers / device.sms
    latency = 2 * device.dram_latency_ns + device.l2_latency_ns  # the base; then a place, what lies there
    front = device.padding["us"]
    return {
        "memory": front + memory,
        "compute": front + issue / device.clock_ghz / 1e3,
        "latency": front + latency / 1e3,
    }
