"""The cost of the synchronous template. On an H100 it is off by 14 % (root mean square over 1192 timings of 149 emitted
kernels), and the plan that it puts first took 8 % longer than the fastest on average, 20 % at worst. Operands
narrower than fp32, whose elements are widened as they are taken from their tiles, were timed once more on an H200: 8
plans at 4 sizes, off by 15 %; the first plan took 23 % longer at worst."""

from __future__ import annotations

from ...analysis.work import ops_each
from ...ir.body import Body, Unary, walk
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...kit.numbers import Number, least, most, pick
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.tile_clocks import dram_bytes
from ..problem import Contraction
from ..resources import threads_of
from .declare import width_of
from .tiles import tile_dtype

WIDENED_WAIT = 20  # clocks that each k of a step waits longer for elements that are widened as they are taken


def synchronous_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Per step of the sum every thread copies its share and does the prologues' work on it,
    waits, and multiplies its micro tile. The resident CTAs of an SM hide one another's waits; a step takes the longer
    of the SM's issue and one CTA's own chain, smoothly joined."""
    kernel, device, sizes, simt = problem.kernel, at.device, at.sizes, at.device.simt
    rows, columns, depth = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    bm, bn, bk = plan.tile
    steps = -(-depth // bk)
    tiles = -(-rows // bm) * -(-columns // bn) * extent_of(kernel.batch).evaluate(sizes)
    threads = threads_of(plan)
    m, n = plan.micro
    words = max(1, kernel.dtype.bytes // 4)
    reads = sum(count // width_of(plan, kernel, side) for side, count in enumerate(plan.micro))
    widened = sum(c for side, c in enumerate(plan.micro) if tile_dtype(kernel, side).bytes < kernel.factor_bytes)
    issued = m * n * words + reads + widened
    lanes = m * n * words * device.arch.warp / device.arch.fp32_lanes
    multiply = bk * most(
        lanes / device.reached["ffma"],
        issued / device.arch.schedulers / device.reached["ffma"],
        _shared_reads(plan, kernel) * simt["shared_read_clocks"],
    )
    copied = (bm + bn) * bk / threads
    prologue = sum(side * bk / threads * _prologue_ops(factor) for factor, side in zip(kernel.factors, (bm, bn)))
    busy = threads / device.arch.warp * (multiply + (copied * simt["copy_issue"] + prologue) / device.arch.schedulers)
    chain = simt["wait_clocks"] + copied * simt["copy_wait_clocks"] + bk * WIDENED_WAIT * (widened > 0)

    def step(resident: Number) -> Number:
        return longer_of(resident * busy, chain, simt["sharpness"])

    mine = -(-tiles // device.sms)
    resident = least(at.occupancy, mine)
    rounds, rest = mine // resident, mine % resident
    clocks = steps * (rounds * step(resident) + pick(rest > 0, step(rest), 0.0))
    traffic = tiles * steps * bk * (bm * kernel.lhs.dtype.bytes + bn * kernel.rhs.dtype.bytes)
    is_waiting, us = chain > resident * busy, clocks / device.clock_ghz / 1e3
    return Clocks(
        {
            "latency": pick(is_waiting, us, 0.0),
            "compute": pick(is_waiting, 0.0, us),
            "memory": most(
                traffic / device.l2_bytes_per_us,
                dram_bytes(plan, kernel, at, tiles, resident) / device.dram_bytes_per_us,
            ),
        }
    )


def _prologue_ops(factor: Body) -> int:
    """Instructions an element of a tile beside its copy; a cast is part of that."""
    return ops_each(factor) - sum(isinstance(n, Unary) and n.op == "cast" for n in walk(factor))


def _shared_reads(plan: Plan, kernel: Contraction) -> Number:
    """Lines of 128 bytes that a warp reads from shared memory for one k: lanes that want the same element share it."""
    across, total = least(plan.threads[0], 32), 0.0
    for side, lanes in ((0, most(1, 32 // across)), (1, across)):
        count = plan.micro[side]
        total = total + most(
            count // width_of(plan, kernel, side), count * tile_dtype(kernel, side).bytes * lanes / 128
        )
    return total
