"""The cost of a scan: each CTA, or each thread of it, waits for its loads and folds in turns."""

from __future__ import annotations

from ...ir.plan import Plan
from ..family import Conditions, Problem
from .waiting import BARRIER_CLOCKS, MAP_ISSUE, SHUFFLE_CLOCKS

SCAN_CLOCKS = 5 * SHUFFLE_CLOCKS  # five shuffles of a warp, each needing the one before
TURNS_AT_ONCE = 4  # of a warp that scans a row alone
SECTOR_BYTES = 32  # of memory, of which a thread whose neighbours read elsewhere uses one element


def load_clocks(at: Conditions) -> float:
    """Clocks until a load from memory is there."""
    return at.device.dram_latency_ns * at.device.clock_ghz


def block_turn(plan: Plan, at: Conditions) -> float:
    """Clocks of one turn of a block: its loads, its own elements, and two barriers around the fold over its warps; a
    warp alone needs none, and has the loads of some turns on their way."""
    is_alone = plan.threads[0] == at.device.arch.warp
    waited = load_clocks(at) / TURNS_AT_ONCE if is_alone else load_clocks(at) + 2 * BARRIER_CLOCKS
    return waited + MAP_ISSUE * plan.widest + SCAN_CLOCKS


def turns_us(at: Conditions, ctas: int, turns: int, one: float) -> float:
    """Microseconds of CTAs with a number of turns each, one behind another."""
    resident = max(1, min(at.occupancy, -(-ctas // at.device.sms)))
    return -(-ctas // (at.device.sms * resident)) * turns * one / at.device.clock_ghz / 1e3


def memory_us(problem: Problem, at: Conditions, is_apart: bool) -> float:
    """Microseconds that memory takes: a load is a sector for every thread where neighbouring threads have no neighbours
    in memory (`is_apart`)."""
    region = problem.region
    narrowest = min(t.type.dtype.bytes for t in (*region.inputs, *region.outputs))
    return at.work.bytes / at.device.dram_bytes_per_us * (SECTOR_BYTES / narrowest if is_apart else 1)


def is_along_memory(problem: Problem) -> bool:
    """Whether the scanned axis is the region's innermost, whose neighbours are side by side in memory."""
    return problem.kernel.row[0] == problem.region.iters[-1]
