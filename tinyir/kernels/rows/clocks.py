"""The cost of a row kernel."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from ...analysis.traffic import SLOW
from ...ir.body import Binary, Body, Read, Reduce, Ternary, Unary, operands_of
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.rules import product
from ...ir.traits import extent_of, nearest, nodes_of, reads_apart
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.point import free_axes, needed
from ..parts.waiting import (
    BARRIER_CLOCKS,
    CTAS_SHARPNESS,
    LATE,
    LEAST_THREADS,
    LINE_LOSS,
    MAP_ISSUE,
    SHUFFLE_CLOCKS,
    WAITING_SHARPNESS,
    handed_out_us,
)
from ..problem import Row
from ..resources import threads_of
from .declare import has_ends, stays_as_read, team_of

CLUSTER_CLOCKS = 4  # of each thread of a CTA, each time as many CTAs, of a cluster's barrier and the reads after it
CLUSTER_LOSS = 0.07  # of the bandwidth, each time as many, since they begin and end together
SLOW_ISSUE = 2  # plain instructions that take as long as an exponential
QUOTIENT_ISSUE = 6  # the same of a division by what divides a row
BYTE_ISSUE = 0.5  # the same of one of four floats that become a word of bytes
ROUND_ISSUE = 4  # the same of a conversion to an integer
ALONE_CLOCKS = 3  # of an instruction that waits for the one before, while no other CTA has its turn
ALONE_WARPS = 8  # at which half of an SM's instructions are waits
ENDS_WAIT = 0.3  # of the elements beside whole vectors, which are read behind them
IDLE = (
    0.4  # of the time, were all of a turn's elements behind the row's end: with half of them rows take 5 to 50 % more
)
UNEVEN = 0.2  # of a wave, what the last CTA ends after the mean

CLUSTER_ALONE = 0.06  # of it beside that, where nothing else is on an SM while a cluster's CTAs wait for one another
KEPT = 0.9  # of rows that L2 has room for is there when they are read again
LOST = 2  # the power by which rows that are more than L2's share are lost before they are read again
NEAR_BYTES = 150_000  # of the rows of an SM, which its own cache keeps from pass to pass
FETCHED_BYTES = 64  # for an element whose neighbours in the row are apart
NEAR_CLOCKS = 400  # until an element is there from it


def resident_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """A row in registers is on its way at once."""
    return _clocks(plan, problem, at, is_resident=True)


def streamed_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """A row that is read again comes from L2 then."""
    return _clocks(plan, problem, at, is_resident=False)


def _clocks(plan: Plan, problem: Problem, at: Conditions, is_resident: bool) -> Clocks:
    """Each pass reads a row, folds it over its team of threads and waits. A row in registers is on its way at once; one
    that is read again comes from L2 then, or from memory where the rows being read do not stay there, and a few
    elements at a time."""
    region, kernel, device, sizes = problem.region, problem.kernel, at.device, at.sizes
    rows, length = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    team, width, moved = team_of(plan), plan.widest, at.work.bytes
    elements = -(-length // (team * width)) * width
    ctas = -(-rows // plan.tile[0]) * (team // plan.threads[0])
    held = (SLOW_ISSUE if stays_as_read(plan, region, kernel) else math.inf) if is_resident else 0
    again = 0 if is_resident else kernel.passes - 1
    issued = MAP_ISSUE / width + 2
    is_apart = reads_apart(region) and kernel.row[-1] not in region.iters
    moved *= LINE_LOSS if is_apart else 1
    waits = 1 if is_resident else -(-length // plan.tile[1]) + ENDS_WAIT * has_ends(plan, region, kernel)
    resident = max(1, min(at.occupancy, -(-ctas // device.sms)))
    waves = ctas / (device.sms * resident)
    alone = max(1.0, ALONE_CLOCKS / max(1.0, waves)) if rows >= device.sms else 1.0
    is_near = resident * plan.tile[0] * at.work.bytes / max(rows, 1) <= NEAR_BYTES
    behind = again * (NEAR_CLOCKS if is_near else device.l2_latency_ns * device.clock_ghz)
    wait = (device.dram_latency_ns * device.clock_ghz + behind) * waits
    one = wait + kernel.passes * (_meeting(plan) + elements * issued * alone)
    latency = math.ceil(waves) * one / device.clock_ghz / 1e3
    warps = resident * threads_of(plan) / device.arch.warp
    issue = (ctas * threads_of(plan) * elements * ((1 + again) * issued + _row_ops(region, kernel, held))) / (
        device.arch.warp * device.arch.schedulers * device.sms
    )
    issue *= (1 + ALONE_WARPS / warps) / device.clock_ghz / 1e3
    read = _read_along(region, kernel, sizes)
    # of rows that are being read and written, what L2 has still when it is read again
    underway = min(ctas * plan.tile[0] // (team // plan.threads[0]), device.sms * resident * plan.tile[0])
    most = 1.0 if is_near else KEPT
    stays = min(most, (device.l2_useful_bytes / max(1.0, underway * moved / max(rows, 1))) ** LOST)
    fetched = moved + again * read * (1 - stays)
    # the busiest SM's share, times SMs
    brought = moved if is_apart else moved + _lost(region, kernel.row[-1].name, sizes)
    through = (brought + (0 if is_near else again * read)) * device.sms * -(-ctas // device.sms) / max(ctas, 1)
    memory = max(fetched / device.dram_bytes_per_us, through / device.l2_bytes_per_us) * (1 + UNEVEN / max(1, waves))
    turns = max(1, -(-length // plan.tile[1]))
    memory = longer_of(memory, handed_out_us(ctas), CTAS_SHARPNESS)
    memory *= 1 + (LATE * (threads_of(plan) / LEAST_THREADS - 1) if len(plan.threads) > 1 else 0)
    ctas_of_row = team // plan.threads[0]
    memory *= 1 + CLUSTER_LOSS * math.log2(ctas_of_row) + CLUSTER_ALONE * (resident == 1 < ctas_of_row)
    memory = longer_of(memory, latency, WAITING_SHARPNESS) * (1 + IDLE * (1 - length / (turns * plan.tile[1])))
    # what one CTA computes the loads of others go beside, and in a walk of some turns those of its own other warps
    sharpness = min(WAITING_SHARPNESS, 0.8 + 0.9 * resident * (1 if waits < 2 else 2))
    return Clocks(
        {
            "memory": longer_of(memory, issue, sharpness) if memory >= issue else memory,
            "compute": longer_of(memory, issue, sharpness) if memory < issue else issue,
            "latency": latency,
        }
    )


def _read_along(region: Region, kernel: Row, sizes: Mapping[str, int]) -> float:
    """Bytes that a pass reads: of tensors that vary along rows and from row to row."""
    axes = {a.name for a in kernel.rows} & {a.name for a in region.iters}
    reads = {
        n.tensor for n in nodes_of(region) if isinstance(n, Read) and axes <= {x for e in n.index for x in e.names()}
    }
    along = (t.type for t in region.inputs if t.name in reads)
    return sum(product(t.shape).evaluate(sizes) * t.dtype.bytes for t in along)


def _lost(region: Region, along: str, sizes: Mapping[str, int]) -> float:
    """Bytes that move beside those used, of what neighbouring threads read apart: channels innermost, of which a row
    has a few, pixel after pixel."""
    reads = (n for n in nodes_of(region) if isinstance(n, Read) and any(along in e.names() for e in n.index))
    apart = {n.tensor for n in reads if along not in nearest(n.index)}
    read = (t.type for t in region.inputs if t.name in apart)
    return sum(product(t.shape).evaluate(sizes) * (FETCHED_BYTES - t.dtype.bytes) for t in read)


@functools.lru_cache(maxsize=4096)
def _row_ops(region: Region, kernel: Row, held: float) -> float:
    """Instructions of an element of a row beside its moves: each value once, those of `held` instructions and more in
    every pass that needs them. A row that is read again holds none; one that stays as it was read makes what is cheap
    again beside its loads."""
    row = {a.name for a in kernel.row if a in region.iters}
    roots = [let.expr.body for let in region.lets if isinstance(let.expr, Reduce)]
    roots += [y.expr for y in region.yields if row & {n for e in y.index for n in e.names()}]

    def varies(body: Body) -> bool:
        return not row or bool(row.intersection(free_axes(region, body)))

    def ops(body: Body) -> float:
        if isinstance(body, Reduce) or not varies(body):
            return 0
        return _issue(body) + sum(map(ops, operands_of(body)))

    names = [n for root in roots for n in needed(region, (root,)) if varies(region.let(n).expr)]
    folds = len(roots) - sum(y.expr in roots for y in region.yields)
    made = {n: ops(region.let(n).expr) for n in names}
    return folds + sum(map(ops, roots)) + sum(n * (names.count(v) if n >= held else 1) for v, n in made.items())


def _issue(body: Body) -> float:
    """Instructions of an op, less its operands'."""
    if not isinstance(body, (Unary, Binary, Ternary)):
        return 0
    if body.op == "abs":  # a sign that another instruction leaves out
        return 0
    if body.op == "fdiv":
        return QUOTIENT_ISSUE
    if body.op.upper() in SLOW:
        return SLOW_ISSUE
    if body.op != "cast" or not body.x.dtype.is_float or not (body.dtype.is_integer or body.dtype.bytes == 1):
        return 1
    return BYTE_ISSUE if body.dtype.bytes == 1 else ROUND_ISSUE


def _meeting(plan: Plan) -> float:
    """Clocks in which the threads of a row close a fold."""
    shuffles = SHUFFLE_CLOCKS * math.log2(min(plan.threads[0], 32))
    of_block = 2 * BARRIER_CLOCKS + plan.threads[0] if plan.threads[0] > 32 else 0
    ctas = team_of(plan) // plan.threads[0]
    return shuffles + of_block + CLUSTER_CLOCKS * plan.threads[0] * math.log2(ctas)
