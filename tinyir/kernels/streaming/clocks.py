"""The cost of a streaming kernel: instructions of the tiles that its masks touch, on whole SMs."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.touched import touched_share
from ..resources import threads_of
from .declare import width_each

SOFTMAX_ISSUE = (
    14  # instructions of a thread for each score beside the products: mask, maximum, exponential, sum, store
)
ROW_ISSUE = 24  # and for each row of its tile: folding over lanes, scaling


def streaming_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what binds: each tile of columns costs its copies, two products and the work on the scores;
    resident CTAs hide one another's waits."""
    region, kernel, sizes, device = problem.region, problem.kernel, at.sizes, at.device
    simt, threads = device.simt, threads_of(plan)
    rows, columns, depth = plan.tile
    m, n = plan.micro
    width, access, words = width_each(plan, kernel), kernel.access, max(1, kernel.dtype.bytes // 4)
    height, length = (a.size.evaluate(sizes) for a in (kernel.row, kernel.column))
    ctas = -(-height // rows) * extent_of(kernel.outer).evaluate(sizes)
    tiles = -(-length // columns) * touched_share(region, kernel, (rows, columns), sizes)
    lanes = device.arch.warp / device.arch.fp32_lanes * words / device.reached["ffma"]
    products = m * (n * depth + width * columns) * max(lanes, words / device.arch.schedulers / device.reached["ffma"])
    reads = depth / access * (m + n) + columns / access * m + columns * -(-width // access)
    copied = columns * (depth + kernel.sizes[1]) / threads
    issued = reads + m * n * SOFTMAX_ISSUE + m * (ROW_ISSUE + width) + copied * simt["copy_issue"]
    busy = threads / device.arch.warp * (products + issued / device.arch.schedulers)
    chain = 3 * simt["wait_clocks"] + copied * simt["copy_wait_clocks"]
    mine = -(-ctas // device.sms)
    resident = max(1, min(at.occupancy, mine))

    def step(together: int) -> float:
        return longer_of(together * busy, chain, simt["sharpness"])

    rounds, rest = divmod(mine, resident)
    clocks = tiles * (rounds * step(resident) + (step(rest) if rest else 0.0))
    fetched = ctas * tiles * columns * (depth + kernel.sizes[1]) * kernel.dtype.bytes / 2
    return Clocks(
        {
            "latency" if chain > resident * busy else "compute": clocks / device.clock_ghz / 1e3,
            "memory": max(fetched / device.l2_bytes_per_us, at.work.bytes / device.dram_bytes_per_us),
        }
    )
