"""What a CTA of the flash family takes: tiles in shared memory, barriers, registers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.plan.fields import Plan
from ...target.arch import ARCHS
from ..streaming.match import Streaming

WARPGROUP = 128  # threads
WARPGROUP_ROWS = 64
STEP = 16  # elements along the sum of one product, of 16-bit numbers
SPAN = 64  # 16-bit elements of a swizzled row
STAGED = 2  # pieces of an output that a warpgroup has on their way out
ALIGNMENT = 1024  # bytes, of a swizzled tile
MBARRIER_BYTES = 8
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

    @property
    def shared(self) -> tuple[int, ...]:
        """Bytes of the tiles of query, key, value and output."""
        query, ring, out = self.rings
        return tuple(
            -(-2 * count // ALIGNMENT) * ALIGNMENT
            for count in (
                query * self.rows * self.deep,
                ring * self.columns * self.deep,
                ring * self.columns * self.wide,
                out * WARPGROUP_ROWS * self.piece,
            )
        )


def sizes_of(plan: Plan, kernel: Streaming, outputs: int = 1) -> Sizes:
    """The tiles of a plan; `outputs` leave through shared memory."""
    (rows, columns, _), (deep, wide) = plan.tile, kernel.sizes
    width = -(-wide // STEP) * STEP
    staged = sum(s.by == "tma" for s in plan.store) if outputs else 0
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


def smem_of(plan: Plan, kernel: Streaming) -> int:
    """Bytes of shared memory of a CTA."""
    sizes = sizes_of(plan, kernel)
    return sum(sizes.shared) + MBARRIER_BYTES * 2 * (sizes.rings[0] + 2 * sizes.rings[1])


def registers_of(plan: Plan, kernel: Streaming) -> int:
    """Registers of a consumer's thread in arrays: scores, weights, the output's sum, rows."""
    sizes = sizes_of(plan, kernel)
    return sizes.columns // 2 + sizes.columns // 4 + sizes.width // 2 + ROW_REGISTERS


def most_registers(plan: Plan) -> int:
    """Registers that a consumer's thread has."""
    threads = WARPGROUP * (1 + plan.consumers.count)
    arch = ARCHS[plan.arch]
    if plan.regs:
        return plan.regs.consumer
    return min(arch.registers_per_thread, arch.registers_per_sm // threads // 8 * 8)


__all__ = ["ADDRESSING", "SPAN", "STAGED", "STEP", "Sizes", "most_registers", "registers_of", "sizes_of", "smem_of"]
