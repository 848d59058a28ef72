"""What a CTA of the form for warps takes: a tile of the query, rings of key and value, registers."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ...kit.records import dataclass
from ...target.hopper import SWIZZLE_BYTES
from ..attention import Streaming
from ..attention.ahead import reads_ahead
from ..attention.online import row_words
from ..family import Array, Needs, Problem
from ..resources import filled
from .match import STEP, factors_of

WARP = 32
SPAN = 64  # 16-bit elements of a swizzled row
ADDRESSING = 46  # registers beside scores and sums, at least: fragments, numbers of rows, addresses
ROOM = 66  # of them where nothing is spilled, of warps that have LEAST_ROWS rows
LEAST_ROWS = 16
ROW_REGISTERS = 1.5  # of each row more


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of a plan's tiles: `deep` and `wide` are the columns of the tiles of query and key, and of the value,
    whole swizzled rows; `depth` and `width` those that products have."""

    rows: int
    columns: int
    deep: int
    wide: int
    depth: int
    width: int


def sizes_of(plan: Plan, kernel: Streaming) -> Sizes:
    """The tiles of a plan."""
    deep, wide = kernel.sizes
    return Sizes(*plan.tile[:2], *(_whole(n, SPAN) for n in (deep, wide)), *(_whole(n, STEP) for n in (deep, wide)))


def _whole(size: int, step: int) -> int:
    return -(-size // step) * step


def declare(plan: Plan, problem: Problem) -> Needs:
    """The tiles, and the registers of a warp's scores and sums."""
    held = held_by(plan, problem.kernel)
    beside = held // 6 + int(ROW_REGISTERS * (plan.warp_tile[0] - LEAST_ROWS)) + ROOM
    return filled(plan, Needs(arrays_of(plan, problem.kernel), registers=held + beside, accumulators=held))


def arrays_of(plan: Plan, kernel: Streaming) -> tuple[Array, Array, Array]:
    """The tile of the query, and the rings of key and value."""
    sizes = sizes_of(plan, kernel)
    shapes = (
        (sizes.rows, sizes.deep, 1),
        (sizes.columns, sizes.deep, plan.stages),
        (sizes.columns, sizes.wide, plan.stages),
    )
    query, key, value = (
        Array(factor.word, factor.body.dtype, shape[:2], shape[2], SWIZZLE_BYTES)
        for factor, shape in zip(factors_of(kernel), shapes)
    )
    return query, key, value


def held_by(plan: Plan, kernel: Streaming) -> int:
    """Registers of a thread in scores and sums: the weights take the place of the scores that they are made of."""
    sizes = sizes_of(plan, kernel)
    ahead = len(reads_ahead(kernel)) * sizes.columns // 2  # two in a word
    return plan.warp_tile[0] * (sizes.columns + sizes.width + ahead) // WARP


def declared_by(plan: Plan, kernel: Streaming) -> int:
    """Registers of a thread in arrays where most are declared at once: scores beside the weights that take their
    place, sums, and numbers of rows."""
    sizes, rows = sizes_of(plan, kernel), plan.warp_tile[0]
    return held_by(plan, kernel) + rows * sizes.columns // (2 * WARP) + len(row_words(kernel)) * rows // 8
