"""The cost of a scan by blocks or by threads."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..family import Clocks, Conditions, Problem
from ..parts.scan_clocks import block_turn, is_along_memory, load_clocks, memory_us, turns_us
from ..parts.waiting import MAP_ISSUE
from ..resources import threads_of


def block_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """One CTA for each row, with a barrier twice a turn of it."""
    rows, length = (extent_of(g).evaluate(at.sizes) for g in problem.kernel.groups)
    latency = turns_us(at, rows, -(-length // plan.tile[1]), block_turn(plan, at))
    return Clocks({"memory": memory_us(problem, at, not is_along_memory(problem)), "latency": latency})


def thread_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """One thread for each row, whose loads follow one another."""
    rows, length = (extent_of(g).evaluate(at.sizes) for g in problem.kernel.groups)
    latency = turns_us(at, -(-rows // threads_of(plan)), length, load_clocks(at) + MAP_ISSUE)
    return Clocks({"memory": memory_us(problem, at, is_along_memory(problem)), "latency": latency})


__all__ = ["block_clocks", "thread_clocks"]
