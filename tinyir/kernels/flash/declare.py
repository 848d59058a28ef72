"""What a CTA of the flash family takes: tiles in shared memory, barriers, registers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.plan.fields import Plan
from ...target.arch import ARCHS
from ...target.hopper import WARPGROUP_ROWS
from ..attention import Streaming
from ..family import Array, Needs, Problem
from ..resources import threads_of

STEP = 16  # elements along the sum of one product, of 16-bit numbers
SPAN = 64  # 16-bit elements of a swizzled row
STAGED = 2  # pieces of an output that a warpgroup has on their way out
ROW_REGISTERS = 12  # what a thread knows of its two rows
ADDRESSING = 18  # registers beside the arrays


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of a plan's tiles. `deep` and `wide` are the columns of the query's and the value's tiles, whole
    swizzled rows; `depth` and `width` those that products have; `piece` the columns of an output that leave together.
    `rings` are the slots of the query, of key and value, and of an output's pieces."""

    rows: int
    columns: int
    deep: int
    wide: int
    depth: int
    width: int
    piece: int
    rings: tuple[int, int, int]


def sizes_of(plan: Plan, kernel: Streaming) -> Sizes:
    """The tiles of a plan."""
    (rows, columns, _), (deep, wide) = plan.tile, kernel.sizes
    width = -(-wide // STEP) * STEP
    staged = sum(s.by == "tma" for s in plan.store)
    return Sizes(
        rows,
        columns,
        -(-deep // SPAN) * SPAN,
        -(-wide // SPAN) * SPAN,
        -(-deep // STEP) * STEP,
        width,
        math.gcd(SPAN, width),
        (1 + has_two_queries(plan), plan.stages, staged * STAGED * plan.consumers.count),
    )


def has_two_queries(plan: Plan) -> bool:
    """Whether the next tile's query is fetched while this tile ends."""
    return plan.asynchrony is not None and plan.asynchrony.overlap == "epilogue"


def declare(plan: Plan, problem: Problem) -> Needs:
    """Rings of query, key and value, pieces of outputs; the registers are a consumer's."""
    sizes = sizes_of(plan, problem.kernel)
    query, ring, out = sizes.rings
    tiles = (
        ("q", sizes.rows * sizes.deep, query),
        ("k", sizes.columns * sizes.deep, ring),
        ("v", sizes.columns * sizes.wide, ring),
        ("out", WARPGROUP_ROWS * sizes.piece, out),
    )
    shared = tuple(Array(name, 2 * elements, slots) for name, elements, slots in tiles if slots)
    return Needs(shared, 2 * (query + 2 * ring), launched_with(plan), registers_of(plan, problem.kernel))


def registers_of(plan: Plan, kernel: Streaming) -> int:
    """Registers of a consumer's thread in arrays: scores, weights, the output's sum, rows."""
    sizes = sizes_of(plan, kernel)
    return sizes.columns // 2 + sizes.columns // 4 + sizes.width // 2 + ROW_REGISTERS


def most_registers(plan: Plan) -> int:
    """Registers that a consumer's thread has."""
    return plan.regs.consumer if plan.regs else launched_with(plan)


def launched_with(plan: Plan) -> int:
    """Registers that each thread of a CTA has at first: an equal share of an SM's."""
    arch = ARCHS[plan.arch]
    return min(arch.registers_per_thread, arch.registers_per_sm // threads_of(plan) // 8 * 8)


__all__ = [
    "ADDRESSING",
    "SPAN",
    "STAGED",
    "STEP",
    "Sizes",
    "declare",
    "most_registers",
    "registers_of",
    "sizes_of",
]
