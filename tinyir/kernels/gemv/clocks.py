"""What a contraction with next to no rows takes: the large operand from memory once, as fast as the bytes on their way
allow, and the end of the sum, which comes when the last of them has been multiplied.

    time = max(bytes / min(memory's rate, bytes on their way / their flight), instructions of the busiest SM) + the end

Fitted to 105 timings on an H100, fp16 and fp32, both orders of the large operand: off by 31 % (root mean square, the
near ones weighing more), the plan that it puts first 9 % behind the fastest in geometric mean, 46 % at worst. What
several rows cost it does not know.
"""

from __future__ import annotations

import math

from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..family import Clocks, Conditions, Problem
from ..resources import threads_of
from .declare import stands_along_sum


def gemv_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds of computing and of memory."""
    kernel, sizes, device, occupancy, moved = problem.kernel, at.sizes, at.device, at.occupancy, at.work.bytes
    g = device.gemv
    rows, columns, depth = (extent_of(group).evaluate(sizes) for group in kernel.groups)
    ctas = plan.parts * -(-rows // plan.tile[0]) * -(-columns // plan.tile[1]) * extent_of(kernel.batch).evaluate(sizes)
    steps = -(--(-depth // plan.tile[2]) // plan.parts)
    threads, weights = threads_of(plan), plan.micro[1] * plan.micro[2]
    waves = -(-ctas // (device.sms * occupancy))
    resident = min(ctas, device.sms * occupancy)
    on_their_way = resident * threads * weights * kernel.rhs.dtype.bytes
    access = plan.widest * kernel.rhs.dtype.bytes
    rate = g["narrow"] ** math.log2(ACCESS_BYTES / access) * min(
        device.dram_bytes_per_us, on_their_way / g["flight_us"], min(ctas, device.sms) * g["sm_bytes_per_us"]
    )
    an_element = plan.micro[0] + g["widening"] + plan.micro[0] * g["row"] / plan.micro[1]
    issued = threads / device.arch.warp * steps * weights * an_element * -(-resident // device.sms)
    busy = waves * issued / (device.arch.schedulers * device.reached["ffma"]) / device.clock_ghz / 1e3
    end = g["end_us"] + (0 if stands_along_sum(plan, kernel) else g["fold_us"] * plan.threads[1] * plan.tile[0] / 64)
    end += g["cluster_us"] * plan.parts if plan.parts > 1 else 0
    return Clocks({"compute": busy + waves * end, "memory": moved / rate + waves * end}, g["start_us"])
