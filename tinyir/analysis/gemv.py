"""What a contraction with next to no rows takes: the large operand from memory once, as fast as the bytes on their way allow, and the end of
the sum, which comes when the last of them has been multiplied.

    time = max(bytes / min(memory's rate, bytes on their way / their flight), instructions of the busiest SM) + the end

Calibrated on timings of one prototype on an H100, 550 forms of it at 4096 columns and as many elements along the sum.
"""

from __future__ import annotations

from typing import Mapping

from ..ir import resources
from ..ir.kernels import Contraction, extent_of
from ..ir.plan import Plan
from .device import Device


def gemv_parts(plan: Plan, kernel: Contraction, sizes: Mapping[str, int], device: Device, occupancy: int, moved: int) -> dict[str, float]:
    """Microseconds of computing and of memory, at the symbol values `sizes`."""
    g = device.gemv
    rows, columns, depth = (extent_of(group).evaluate(sizes) for group in kernel.groups)
    ctas = plan.parts * -(-rows // plan.tile[0]) * -(-columns // plan.tile[1]) * extent_of(kernel.batch).evaluate(sizes)
    steps = -(--(-depth // plan.tile[2]) // plan.parts)
    threads, weights = resources.threads_of(plan), plan.micro[1] * plan.micro[2]
    waves = -(-ctas // (device.sms * occupancy))
    resident = min(ctas, device.sms * occupancy)
    on_their_way = g["overlap"] * resident * threads * weights * kernel.rhs.dtype.bytes
    rate = min(device.dram_bytes_per_us, on_their_way / g["flight_us"])
    issued = threads / device.arch.warp * steps * weights * (plan.micro[0] + g["widening"]) * -(-resident // device.sms)
    busy = waves * issued / (device.arch.schedulers * device.reached["ffma"]) / device.clock_ghz / 1e3
    end = g["end_us"] + g["fold_us"] * (plan.threads[1] / 64 if plan.micro[1] * plan.threads[0] == plan.tile[1] else 1)
    end += g["cluster_us"] * plan.parts / 2 if plan.parts > 1 else 0
    return {"compute": busy + end, "memory": max(moved / rate, waves * g["flight_us"] * steps) + end}
