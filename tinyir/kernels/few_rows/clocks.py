"""The cost of a product of few rows. Fitted to 240 timings on an H200 of packed weights in fp16: the plan that it puts
first takes 4 % longer than the fastest that was timed, in geometric mean."""

from __future__ import annotations

from ...ir.body import Binary, Ternary, Unary, walk
from ...ir.plan import Plan
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.waiting import BARRIER_CLOCKS, WAITING_SHARPNESS
from ..resources import threads_of
from .declare import EIGHT, FRAGMENT, VECTOR, blocks_of, columns_of, rows_of
from .match import layout_of, product_of, reads_of

OP_ISSUE = {"fp16": 0.4, "bf16": 0.7}  # warp instructions of an op: some are done once for a piece, of fp16 for two
ALONE_WARPS = 12  # at which half of an SM's instructions are waits
CTAS_THAT_HELP = 2.5  # of an SM: more of them read places far apart, which is as slow as fewer
AT_ONCE = 2  # steps whose loads are on their way together
OVERHEAD = 0.7  # warp instructions an element of the large factor beside its arithmetic
ROW_ISSUE = 1.0  # of an element of the small factor, in every warp
LINE_CLOCKS = 1.0  # of an SM's cache for a line: a warp's access to the small factor is eight rows of two lines each
ROWS_AGAIN = 1.3  # of the bytes of the small factor, which every CTA fetches from L2
STEP_ISSUE = 56  # of a step beside its elements: addresses and loads


def few_rows_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """The large factor once from memory, as fast as the bytes on their way allow; its arithmetic; the end."""
    region, device, sizes = problem.region, at.device, at.sizes
    product = product_of(region, problem.kernel)
    columns, depth = product.right.size.evaluate(sizes), product.sum.size.evaluate(sizes)
    ctas = -(-columns // columns_of(plan, problem))
    piece, threads = plan.widest, threads_of(plan)
    held = 0
    for read in reads_of(product):
        placed = layout_of(region, product, read, piece)
        if placed is not None and placed.is_of_column and placed.shared < piece:
            held += 2 * blocks_of(plan) * piece // placed.shared * read.dtype.bytes
    resident = max(1, min(at.occupancy, -(-ctas // device.sms)))
    under_way = min(ctas, device.sms * resident) * threads * held * AT_ONCE
    waited = at.work.bytes * device.dram_latency_ns / 1e3 / max(under_way, 1)
    busiest = device.sms * -(-ctas // device.sms) / max(ctas, 1)
    memory = at.work.bytes * max(1.0, 0.75 * busiest) / device.dram_bytes_per_us
    rows = product.rows * depth * product.small.dtype.bytes  # bytes of the small factor, which every CTA fetches
    shared = ctas * rows / device.l2_bytes_per_us * ROWS_AGAIN
    accesses = columns / (FRAGMENT * blocks_of(plan)) * depth / (4 * VECTOR) * rows_of(plan, problem) / EIGHT
    lines = accesses * 2 * EIGHT * LINE_CLOCKS / device.sms / device.clock_ghz / 1e3
    ops = sum(isinstance(n, (Unary, Binary, Ternary)) for n in walk(product.large)) * OP_ISSUE[product.small.dtype.name]
    an_element = ops + OVERHEAD + STEP_ISSUE / (2 * blocks_of(plan) * piece)
    an_element += ROW_ISSUE * rows_of(plan, problem) / (FRAGMENT * blocks_of(plan))
    warps = columns * depth / device.arch.warp
    together = min(resident, CTAS_THAT_HELP) * threads / device.arch.warp  # of which few leave an SM waiting
    issue = warps * an_element * busiest / device.arch.schedulers / device.sms * (1 + ALONE_WARPS / together)
    turns = -(-depth // (plan.tile[-1] * AT_ONCE))
    waves = -(-ctas // (device.sms * resident))
    end = (2 * BARRIER_CLOCKS + 40 * plan.threads[2]) / device.clock_ghz
    return Clocks(
        {
            "memory": longer_of(memory, max(waited, shared, lines), WAITING_SHARPNESS),
            "compute": issue / device.clock_ghz / 1e3 + memory,
            "latency": waves * (turns * device.dram_latency_ns + end) / 1e3,
        }
    )


__all__ = ["few_rows_clocks"]
