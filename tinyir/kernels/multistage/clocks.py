"""What a multistage contraction (cp.async, ldmatrix, mma.sync) takes: the CTAs of an SM share its units, and hide one
another's waits.

    a step of n CTAs = n * (the longer of products and of fragments from shared memory) + one CTA's own chain
    time = tiles of the busiest SM * (steps + epilogue)

Fitted to 508 timings on an H100: 46 plans at 14 shapes. The model is off by 14 % (root mean square); the plan that it
puts first took 7 % longer than the fastest on average, 19 % at worst. On an A100 nothing was measured, nor fp32
operands on either: as many products as `math` asks for, at TF32's rate; and a gathered element's copy as many
instructions as the synchronous template's.
"""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...kit.numbers import Number, least, most, pick
from ...target.tf32 import PRODUCTS
from ..family import Clocks, Conditions, Problem
from ..parts.boxes import View, view_of
from ..parts.padding_clocks import padding_us
from ..parts.tile_clocks import worked_clocks
from ..resources import threads_of

SHARED_BYTES = 128  # a clock, of an SM


def multistage_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds of computing and of memory."""
    region, kernel, sizes, device = problem.region, problem.kernel, at.sizes, at.device
    c = device.mma
    rows, columns, depth = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    bm, bn, bk = plan.tile
    size, threads = kernel.lhs.dtype.bytes, threads_of(plan)
    tiles = -(-rows // bm) * -(-columns // bn) * extent_of(kernel.batch).evaluate(sizes)
    unit = "tf32" if plan.math else kernel.lhs.dtype.name
    products = (
        2
        * bm
        * bn
        * bk
        * PRODUCTS[plan.math]
        / (device.peak[f"mma_{unit}"] * device.reached["mma_sync"] * c["issue"] / device.sms * 1e3 / device.clock_ghz)
    )
    fragments = threads // device.arch.warp * sum(plan.warp_tile) * bk * size / SHARED_BYTES
    singles = sum(
        side * bk
        for read, side in ((kernel.lhs, bm), (kernel.rhs, bn))
        if not isinstance(view_of(region, read.tensor, read.index, kernel), View)
    )
    copied = sum(
        side * bk / threads
        for read, side in ((kernel.lhs, bm), (kernel.rhs, bn))
        if plan.load_of(read.tensor).by != "cp_async"
    )
    busy = most(
        products + singles * device.simt["copy_issue"] / device.arch.warp / device.arch.schedulers,
        fragments * c["shared_read"],
    )
    chain = (
        c["step_clocks"]
        + bk * c["depth_clocks"] * PRODUCTS[plan.math]
        + pick(copied > 0, c["wait_clocks"] + copied * c["copy_wait_clocks"], 0.0)
    )

    mine = -(-tiles // device.sms)
    resident = least(at.occupancy, mine)
    rounds, rest = mine // resident, mine % resident
    steps = -(-depth // bk)

    def turn(ctas: Number) -> Number:
        return steps * (ctas * busy + chain) + ctas * bm * bn * (c["element_clocks"] + worked_clocks(region, kernel))

    clocks = rounds * turn(resident) + pick(rest > 0, turn(rest), 0.0)
    before = padding_us(plan, region, kernel, sizes, device)
    memory = before + at.work.bytes / device.dram_bytes_per_us
    return Clocks({"compute": before + clocks / device.clock_ghz / 1e3, "memory": memory}, c["start_us"])
