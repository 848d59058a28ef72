"""Plans of a contraction. Now: the synchronous template, tiles in shared memory and a micro tile of accumulators a
thread."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from ...ir.plan import Bind, Cache, Plan
from ...kit.phrase import Phrase
from ...target.device import Device
from ..candidate import batch_bind, guarded, parts_of_axes
from ..family import Problem
from ..problem import Contraction
from ..sheet import Sheet, columns_of

SIDES = (16, 32, 64, 128)
DEPTHS = (8, 16, 32)
THREADS = ((8, 8), (16, 8), (16, 16), (32, 8))  # x, y
MICRO = 8  # an 8 x 8 micro tile of fp32 is what 255 registers hold with its fragments


def propose_contraction(problem: Problem, card: Device) -> tuple[Sheet, ...]:
    """Every tile, depth and thread block that divide one another, the biggest first."""
    kernel, region = problem.kernel, problem.region
    rows, columns, depth, across, down = _shapes()
    micro = rows // down, columns // across
    outermost = f"{kernel.sum[0].name}.o"
    cached = tuple(dict.fromkeys((kernel.lhs.tensor, kernel.rhs.tensor)))
    plan = Plan(
        regions=(region.name,),
        arch=card.arch.name,
        family="contraction",
        algo="synchronous",
        tile=(rows, columns, depth),
        micro=micro,
        threads=(across, down),
        bind=_bind(kernel),
        cache=tuple(Cache(tensor, "smem", outermost) for tensor in cached),
        epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
    )
    return (Sheet(plan, len(rows), range(len(rows)), _stops(), lambda plan: guarded(plan, region, kernel)),)


@functools.cache
def _shapes() -> tuple[np.ndarray, ...]:
    """Rows, columns and depth of each tile, and threads along its columns and rows."""
    return columns_of(
        (rows, columns, depth, across, down)
        for across, down in THREADS
        for rows in reversed(SIDES)
        for columns in reversed(SIDES)
        if rows % down == 0 and columns % across == 0
        for depth in DEPTHS
    )


@functools.cache
def _stops() -> Mapping[int, str]:
    """By row why registers do not hold its micro tile."""
    rows, columns, _, across, down = _shapes()
    micro = zip((rows // down).tolist(), (columns // across).tolist())
    return {
        row: Phrase(
            "a micro tile of {micro} x {micro2} is over {micro3} x {micro3}", micro=high, micro2=wide, micro3=MICRO
        )
        for row, (high, wide) in enumerate(micro)
        if max(high, wide) > MICRO
    }


def _bind(kernel: Contraction) -> tuple[Bind, ...]:
    return (
        *batch_bind(kernel),
        Bind(parts_of_axes(kernel.left, "o"), "cta.y"),
        Bind(parts_of_axes(kernel.right, "o"), "cta.x"),
        Bind(parts_of_axes(kernel.left, "i"), "thread.y"),
        Bind(parts_of_axes(kernel.right, "i"), "thread.x"),
    )
