"""The cost of a product of few rows. Fitted to 480 timings of 40 cases on an H200 of packed weights in fp16: the plan
that it puts first takes 3 % longer than the fastest that was timed, in geometric mean, 19 % at worst."""

from __future__ import annotations

from ...ir.body import Binary, Read, Ternary, Unary, walk
from ...ir.plan import Plan
from ...ir.region import Region
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.waiting import BARRIER_CLOCKS, WAITING_SHARPNESS
from ..resources import threads_of
from .declare import EIGHT, FRAGMENT, VECTOR, blocks_of, columns_of, rows_of
from .match import Patch, Product, accesses_of, patch_of, placed_in, product_of, reads_of

OP_ISSUE = {"fp16": 0.1, "bf16": 0.7}  # warp instructions of an op: some are done once for a piece, of fp16 for two
ALONE_WARPS = 18  # at which half of an SM's instructions are waits
CTAS_THAT_HELP = 2.5  # of an SM: more of them read places far apart, which is as slow as fewer
OVERHEAD = 0.9  # warp instructions an element of the large factor beside its arithmetic
ROW_ISSUE = 0.75  # of an element of the small factor, in every warp
LINE_CLOCKS, LINE_BYTES = 1.6, 128  # of an SM's cache for a line, of which an access to eight rows takes some of each
LINE_WARPS = 3.3  # that are waited for as long as for their lines, of each step that is read at once
ROWS_AGAIN = 0.29  # of the bytes of the small factor, which every CTA fetches from L2
ACCESS_ISSUE = 4  # of an access to columns side by side
STEP_ISSUE = 60  # of a step beside its elements: addresses and loads
BEHIND, BEHIND_LINES = 0.6, 0.3  # of the bytes that arithmetic does not hide, and that lines do not
TURNS, MOST_BESIDE = 1.9, 1.5  # the bytes of a first turn hide nothing, and are beside the others the less these are


def few_rows_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """The large factor once from memory, as fast as the bytes on their way allow; its arithmetic; the end."""
    region, device, sizes = problem.region, at.device, at.sizes
    product = product_of(region, problem.kernel)
    columns, depth = product.right.size.evaluate(sizes), product.sum.size.evaluate(sizes)
    ctas = -(-columns // columns_of(plan, problem))
    patch, threads = patch_of(plan, product), threads_of(plan)
    piece = patch.piece
    held, accesses_each = 0, 0.0
    for read in reads_of(product):
        placed = placed_in(region, product, read, patch)
        if placed is not None and placed.is_of_column and (patch.side or placed.shared < piece):
            count, each = accesses_of(placed, patch, 2 * blocks_of(plan))
            held += count * each * read.dtype.bytes
            if patch.side:
                accesses_each += count / (piece * patch.side)
    resident = max(1, min(at.occupancy, -(-ctas // device.sms)))
    under_way = min(ctas, device.sms * resident) * threads * held * plan.stages
    waited = at.work.bytes * device.dram_latency_ns / 1e3 / max(under_way, 1)
    busiest = device.sms * -(-ctas // device.sms) / max(ctas, 1)
    memory = at.work.bytes * max(1.0, 0.75 * busiest) / device.dram_bytes_per_us
    rows = product.rows * depth * product.small.dtype.bytes  # bytes of the small factor, which every CTA fetches
    shared = ctas * rows / device.l2_bytes_per_us * ROWS_AGAIN
    accesses = columns / (FRAGMENT * blocks_of(plan)) * depth / (4 * VECTOR) * rows_of(problem) / EIGHT
    of_row = max(1, 4 * piece * product.small.dtype.bytes // LINE_BYTES)  # lines of an access
    lines = accesses * of_row * EIGHT * LINE_CLOCKS * busiest / device.sms / device.clock_ghz / 1e3
    ops = _ops_of(region, product, patch) * OP_ISSUE[product.small.dtype.name]
    an_element = ops + OVERHEAD + STEP_ISSUE / (2 * blocks_of(plan) * piece) + ACCESS_ISSUE * accesses_each
    an_element += ROW_ISSUE * rows_of(problem) / (FRAGMENT * blocks_of(plan))
    warps = columns * depth / device.arch.warp
    together = min(resident, CTAS_THAT_HELP) * threads / device.arch.warp  # of which few leave an SM waiting
    issue = warps * an_element * busiest / device.arch.schedulers / device.sms * (1 + ALONE_WARPS / together)
    turns = -(-depth // (plan.tile[-1] * plan.stages))
    waves = -(-ctas // (device.sms * resident))
    beside = min(MOST_BESIDE, TURNS / (turns * waves * resident))
    lines = lines * (1 + LINE_WARPS / (together * plan.stages)) + (BEHIND_LINES + beside) * memory
    end = (2 * BARRIER_CLOCKS + 40 * plan.threads[2]) / device.clock_ghz
    return Clocks(
        {
            "memory": max(longer_of(memory, max(waited, shared), WAITING_SHARPNESS), lines),
            "compute": issue / device.clock_ghz / 1e3 + (BEHIND + beside) * memory,
            "latency": waves * (turns * device.dram_latency_ns + end) / 1e3,
        }
    )


def _ops_of(region: Region, product: Product, patch: Patch) -> int:
    """Ops for each element of the large factor; of a patch of columns side by side those that it does not share."""
    ops = [n for n in walk(product.large) if isinstance(n, (Unary, Binary, Ternary))]
    if not patch.side:
        return len(ops)
    placed = {read: placed_in(region, product, read, patch) for read in reads_of(product)}
    many = {read for read, at in placed.items() if at is not None and at.shared < patch.piece}
    return sum(any(n in many for n in walk(op) if isinstance(n, Read)) for op in ops)
