"""The cost of a haloed contraction: the image's tiles are brought in, then a step for each tap and block of channels.
Worked out from what the multistage template takes, and held to 20 timings on an H200 of two layers: 0.65 to 1.0 of what
was measured."""

from __future__ import annotations

import math

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..family import Clocks, Conditions, Problem
from ..parts.tile_clocks import roofline
from ..resources import threads_of
from .declare import WARP, image_array, rows_of
from .halo import ALONG, DEPTH, Halo, halo_of

SHARED_BYTES = 128  # a clock, of an SM
COPY_ISSUE = 24  # clocks of a scheduler for 32 elements of the image that are copied one by one
ASYNC_ISSUE = 16  # and for 32 copies of several
COPY_WAIT = 900  # clocks until the image's tile is there
STEP_CLOCKS = 160  # a step's barrier, and the latency of its first fragments
ISSUE = 0.65  # share of the instruction's ceiling that the products reach


def clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what may bound it."""
    kernel, sizes, device = problem.kernel, at.sizes, at.device
    halo = halo_of(problem.region, kernel)
    if not isinstance(halo, Halo):
        return roofline(plan, problem, at)
    rows, _ = rows_of(plan, halo)
    made = plan.tile[1 - halo.side]
    tiles = (
        extent_of(halo.images).evaluate(sizes)
        * math.ceil(halo.rows.size.evaluate(sizes) / rows)
        * math.ceil(halo.columns.size.evaluate(sizes) / ALONG)
        * math.ceil(extent_of(halo.made).evaluate(sizes) / made)
    )
    mine = -(-tiles // device.sms)
    resident = min(max(1, at.occupancy), mine)
    peak = device.peak[f"mma_{kernel.lhs.dtype.name}"] * device.reached["mma_sync"] * ISSUE
    products = 2 * plan.tile[0] * plan.tile[1] * DEPTH / (peak / device.sms * 1e3 / device.clock_ghz)
    fragments = threads_of(plan) // WARP * sum(plan.warp_tile) * DEPTH * 2 / SHARED_BYTES
    steps = extent_of(halo.taps).evaluate(sizes) * halo.blocks
    image = math.prod(image_array(plan, halo).shape) * halo.blocks
    each = COPY_ISSUE if halo.width == 1 else ASYNC_ISSUE
    copied = image / halo.width * each / WARP / device.arch.schedulers
    turn = resident * (copied + steps * max(products, fragments)) + COPY_WAIT + steps * STEP_CLOCKS
    turn += resident * plan.tile[0] * plan.tile[1] * 0.1
    compute = -(-mine // resident) * turn / device.clock_ghz / 1e3
    again = at.work.bytes * halo.places(rows) / (rows * ALONG * halo.image.rows.step * halo.image.columns.step)
    memory = max(at.work.bytes / device.dram_bytes_per_us, again / device.l2_bytes_per_us)
    return Clocks({"compute": compute, "memory": memory})


__all__ = ["clocks"]
