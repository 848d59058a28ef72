"""The cost of a product of few rows: turns of a warp, which waits for what it asked for and computes, while the CTAs of
an SM share its units. Fitted to 1542 timings of 64 cases on an H200 of packed weights in fp16: off by 11 % near the
fastest of a case; the plan that it puts first takes 2.7 % longer than that in geometric mean, 28 % at worst."""

from __future__ import annotations

from ...ir.body import Binary, Read, Ternary, Unary, walk
from ...ir.plan import Plan
from ...ir.region import Region
from ..family import Clocks, Conditions, Problem
from ..resources import threads_of
from .declare import EIGHT, GROUPS, VECTOR, blocks_of, columns_of, rows_of
from .match import Patch, Product, accesses_of, patch_of, placed_in, product_of, reads_of

OP_ISSUE = {"fp16": 0.1, "bf16": 0.7}  # warp instructions of an op: some are done once for a piece, of fp16 for two
EACH = 2.4  # warp instructions of an element of the large factor beside its ops
OF_PRODUCT = 0.9  # of a product of tensor cores
WAITING = 4.3  # clocks of a warp alone for an instruction
LINE_CLOCKS = 0.65  # of an SM's cache for a line, of which an access to eight columns or rows takes some of each
LINES_BESIDE = 4  # of an access to columns that are side by side
LATER_US = 0.087  # of eight elements of eight rows that are read later than the others of a step
END_US = 2.4  # of a CTA: its first bytes, and its end
FROM_L2 = 1.07  # of L2's bandwidth: the small factor, which every CTA fetches
SHARPNESS = 3.0  # of the slowest of what goes on at once


def few_rows_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """The CTAs of an SM take their turns together; where there are more than fit, others follow as these end."""
    region, device, sizes = problem.region, at.device, at.sizes
    product = product_of(region, problem.kernel)
    columns, depth = product.right.size.evaluate(sizes), product.sum.size.evaluate(sizes)
    ctas = -(-columns // columns_of(plan, problem))
    busiest = -(-ctas // device.sms)
    resident = max(1, min(at.occupancy, busiest))
    active = min(ctas, resident * device.sms)
    patch, blocks, warps = patch_of(plan, product), blocks_of(plan), threads_of(plan) // device.arch.warp
    groups, eights = plan.stages * patch.piece // VECTOR, rows_of(problem) // EIGHT
    held, lines = 0, EIGHT * eights * groups
    for read in reads_of(product):
        placed = placed_in(region, product, read, patch)
        if placed is not None and placed.is_of_column:
            count, each = accesses_of(placed, patch, 2 * blocks)
            lines += plan.stages * count * (LINES_BESIDE if placed.beside else EIGHT)
            if patch.side or placed.shared < patch.piece:
                held += plan.stages * count * each * read.dtype.bytes
    an_element = EACH + _ops_of(region, product, patch) * OP_ISSUE[product.small.dtype.name]
    elements = plan.stages * 2 * blocks * patch.piece
    issue = (elements * an_element + OF_PRODUCT * 2 * blocks * groups * eights) / device.clock_ghz / 1e3
    later = LATER_US * max(0, patch.piece // VECTOR - GROUPS) * plan.stages * eights if eights > 1 else 0.0
    small = plan.stages * product.rows * plan.tile[-1] * product.small.dtype.bytes  # that a CTA fetches in a turn
    moved = active * warps * device.arch.warp * held / device.dram_bytes_per_us
    cached = resident * warps * lines * LINE_CLOCKS / device.clock_ghz / 1e3
    parts = {
        "memory": (moved, cached, active * small / FROM_L2 / device.l2_bytes_per_us),
        "compute": (resident * warps * issue / device.arch.schedulers,),
        "latency": (device.dram_latency_ns / 1e3 + WAITING * issue + later,),
    }
    turn = sum(us**SHARPNESS for every in parts.values() for us in every) ** (1 / SHARPNESS)
    turns = -(-depth // (plan.tile[-1] * plan.stages))
    bound = max(parts, key=lambda part: max(parts[part]))
    return Clocks({bound: busiest / resident * (turns * turn + END_US)})


def _ops_of(region: Region, product: Product, patch: Patch) -> int:
    """Ops for each element of the large factor; of a patch of columns side by side those that it does not share."""
    ops = [n for n in walk(product.large) if isinstance(n, (Unary, Binary, Ternary))]
    if not patch.side:
        return len(ops)
    placed = {read: placed_in(region, product, read, patch) for read in reads_of(product)}
    many = {read for read, at in placed.items() if at is not None and at.shared < patch.piece}
    return sum(any(n in many for n in walk(op) if isinstance(n, Read)) for op in ops)
