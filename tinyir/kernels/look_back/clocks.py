"""The cost of a scan by look back: one CTA for each tile, which waits for those before it once, behind a launch that
clears their words."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.scan_clocks import SCAN_CLOCKS, block_turn, is_along_memory, memory_us, turns_us
from ..parts.waiting import WAITING_SHARPNESS
from .declare import held_of

LOOKS = 4  # at words that other CTAs publish, each behind the one before


def look_back_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what bounds it."""
    rows, length = (extent_of(g).evaluate(at.sizes) for g in problem.kernel.groups)
    device = at.device
    looks = LOOKS * device.l2_latency_ns * device.clock_ghz
    one = block_turn(plan, at) + held_of(plan) // plan.widest * SCAN_CLOCKS + looks
    latency = turns_us(at, rows * -(-length // plan.tile[1]), 1, one)
    joined = longer_of(memory_us(problem, at, not is_along_memory(problem)), latency, WAITING_SHARPNESS)
    before = device.padding["us"]
    return Clocks({"memory": before + joined, "latency": before + latency})
