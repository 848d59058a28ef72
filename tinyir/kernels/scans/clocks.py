"""The cost of a scan by blocks or by threads."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.scan_clocks import TURNS_AT_ONCE, block_turn, is_along_memory, load_clocks, memory_us, turns_us
from ..parts.waiting import CTAS_SHARPNESS, MAP_ISSUE, WAITING_SHARPNESS, handed_out_us
from ..resources import threads_of

TURN_BYTES = 512  # of a row in one turn, of which many rows at once take the more time,
TURN_LOSS = 0.1  # as a share
PIECES_LOSS = 1.5  # of stores whose neighbours come in other turns


def block_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """One CTA for each row, with a barrier twice a turn of it, or for some short ones."""
    rows, length = (extent_of(g).evaluate(at.sizes) for g in problem.kernel.groups)
    rows = -(-rows // plan.tile[0])
    latency = turns_us(at, rows, -(-length // plan.tile[1]), block_turn(plan, at))
    turn = plan.tile[0] * plan.tile[1] * max((t.type.dtype.bytes for t in problem.region.inputs), default=1)
    loss = 1 + TURN_LOSS * min(1.0, TURN_BYTES / turn)
    memory = longer_of(loss * memory_us(problem, at, not is_along_memory(problem)), handed_out_us(rows), CTAS_SHARPNESS)
    return Clocks({"memory": longer_of(memory, latency, WAITING_SHARPNESS), "latency": latency})


def thread_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """One thread for each row, whose loads follow one another; in vectors some of them are on their way together, and
    what a sector has beside them is in the cache when it is asked for."""
    rows, length = (extent_of(g).evaluate(at.sizes) for g in problem.kernel.groups)
    width = plan.widest
    turns = -(-length // width)
    one = load_clocks(at) / (TURNS_AT_ONCE if width > 1 else 1) + MAP_ISSUE * width
    latency = turns_us(at, -(-rows // threads_of(plan)), turns, one)
    is_apart = is_along_memory(problem) and width == 1
    moved = memory_us(problem, at, is_apart)
    return Clocks({"memory": moved * (PIECES_LOSS if width > 1 and turns > 1 else 1), "latency": latency})
