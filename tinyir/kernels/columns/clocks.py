"""The cost of folds of columns."""

from __future__ import annotations

import math

from ...ir.body import Binary, Read, Ternary, Unary, walk
from ...ir.plan import Plan
from ...ir.present import names_in
from ...ir.region import Region
from ...ir.rules import product
from ...ir.runs import column_run
from ...ir.traits import extent_of, nodes_of
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.boxes import LINE_BYTES
from ..parts.waiting import BARRIER_CLOCKS, MAP_ISSUE, WAITING_SHARPNESS
from ..resources import threads_of
from .declare import rounds_of
from .match import covered_of, folds_of_columns, is_slanted, length_of, runs_of_columns, tiles_of

PIECE_LOSS = 0.2  # of bandwidth, where a row of threads reads next to nothing of a line
SECTOR = 32  # bytes that memory moves at least
SHARED_CLOCKS = 30  # of an element that comes from shared memory
FOLDED_BYTES = 4  # of a sum
SINGLES = 24  # elements that a thread at the end of a row has on their way
ENDS_SHARE = 0.5  # of their time, that the other CTAs do not take as well
FOLD_OPS = 2  # of an element at least
ON_THEIR_WAY = 4  # accesses of a thread, with the registers that the compiler gives it


def columns_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Bytes from memory as far as enough of them are on their way, by what the busiest SM has of them; then what
    threads of a column take to meet."""
    region, device, sizes = problem.region, at.device, at.sizes
    columns = region.iters[-1].size.evaluate(sizes)
    rows = extent_of(region.iters[:-1]).evaluate(sizes)
    length = length_of(region).evaluate(sizes)
    threads, width = threads_of(plan), plan.widest
    run = column_run(region, width) if plan.vectorize else None
    tiles = tiles_of(run, plan.tile[0]).evaluate(sizes) if run else -(-columns // plan.tile[0])
    ctas = rows * tiles
    each = -(-length // plan.threads[1])  # elements of a fold, of a thread
    read = sum(product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in region.inputs)
    item = _item_of(region)
    line = plan.tile[0] * item
    loss = max(1.0, SECTOR / line, 1 + PIECE_LOSS * (1 - line / LINE_BYTES))
    first = run or runs_of_columns(region)[0]
    if not run and first and is_slanted(first):  # each access of a warp has a sector more
        loss *= (line + SECTOR) / line
    if run and is_slanted(run):  # rows begin anywhere in a sector, and each tile has some of the next one's columns
        loss *= (line + SECTOR) / (covered_of(run, plan.tile[0]) * item)
    resident = max(1, min(at.occupancy, -(-ctas // device.sms)))
    many = max(1, ON_THEIR_WAY * 16 // max(16, width * FOLDED_BYTES))  # the more sums, the fewer registers for loads
    busy = columns / (tiles * (covered_of(run, plan.tile[0]) if run else plan.tile[0]))  # threads that have a column
    under_way = min(ctas, device.sms * resident) * threads * busy * min(each, many) * width * item
    waited = read * device.dram_latency_ns / 1e3 / max(under_way, 1.0)
    busiest = device.sms * -(-ctas // device.sms) / max(ctas, 1)
    moved = at.work.bytes + (loss - 1) * read
    meeting = sum(2 * BARRIER_CLOCKS + SHARED_CLOCKS * math.log2(2 * n) for n in rounds_of(plan))
    waves = -(-ctas // (device.sms * resident))
    turns = -(-each // ON_THEIR_WAY)
    issue = (
        ctas
        * threads
        * each
        * (width * max(FOLD_OPS, _ops_of(region)) + MAP_ISSUE / 2)
        / device.arch.warp
        / device.arch.schedulers
        / device.sms
    )
    latency = waves * (turns * device.dram_latency_ns + meeting / device.clock_ghz + device.dram_latency_ns) / 1e3
    ends = 0.0
    if run and run.start.constant != 0:  # threads at the ends of rows take their columns one by one
        ends = each * width / SINGLES * device.dram_latency_ns / 1e3
    memory = longer_of(moved * max(1.0, busiest * 0.75) / device.dram_bytes_per_us, waited, WAITING_SHARPNESS)
    return Clocks(
        {
            "memory": memory + ENDS_SHARE * ends,
            "compute": issue / device.clock_ghz / 1e3,
            "latency": latency + ends,
        }
    )


def _item_of(region: Region) -> int:
    """Bytes of an element of what is read along columns: a number for each row has no neighbours there."""
    reads = (n for n in nodes_of(region) if isinstance(n, Read))
    along = {n.tensor for n in reads if region.iters[-1].name in names_in(n.index)}
    return max((t.type.dtype.bytes for t in region.inputs if t.name in along), default=1)


def _ops_of(region: Region) -> int:
    """Ops for each element of the folds, and their adding up."""
    folds = folds_of_columns(region)
    bodies = [n for let in folds for n in walk(let.expr.body)]
    return sum(isinstance(n, (Unary, Binary, Ternary)) for n in bodies) + len(folds)
