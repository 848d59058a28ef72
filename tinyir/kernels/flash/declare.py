"""What a CTA of the flash family takes: tiles in shared memory, barriers, registers."""

from __future__ import annotations

import itertools

from ...ir.body import Read
from ...ir.plan.fields import Plan
from ...kit.records import dataclass
from ...target.arch import ARCHS
from ...target.hopper import WARPGROUP_ROWS
from ..attention import Streaming
from ..attention.ahead import reads_ahead
from ..attention.online import row_words
from ..attention.score import score_of
from ..family import Array, Needs, Problem
from ..parts.drawn import turn_array, turn_barriers
from ..resources import allotted, threads_of
from .match import Box, flash_of

STEP = 16  # elements along the sum of one product, of 16-bit numbers
SPAN = 64  # 16-bit elements of a swizzled row
SWIZZLE = 128  # bytes
PARTS_OF_SPAN = (SPAN // 2, SPAN // 4)  # columns of what is left of an output beside whole spans, each a swizzled row
STREAMED = "streamed"  # the way in which keys and values come that one CTA alone reads
STAGED = 2  # pieces of an output that a warpgroup has on their way out
ROWS = 2  # of a matrix, that a thread has elements of
ADDRESSING = 18  # registers beside the arrays, at least
BESIDE = 30  # with which the compiler spills nothing, and one more for each 12 columns of the output's sum
OF_TILE = 8  # of a tile whose elements are read where they are: places, and elements on their way
OF_WORK = 24  # more at most, 3 for each 8 columns, where scores meet work beside a factor, masks and reads ahead


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of a plan's tiles. `deep` and `wide` are the columns of the query's and the value's tiles, whole
    swizzled rows; `depth` and `width` those that products have; `pieces` the columns of an output that leave together,
    one after another. `rings` are the slots of the query, two where the next tile's is fetched
    while this tile ends, and of key and value."""

    rows: int
    columns: int
    deep: int
    wide: int
    depth: int
    width: int
    pieces: tuple[int, ...]
    rings: tuple[int, int]


def sizes_of(plan: Plan, kernel: Streaming) -> Sizes:
    """The tiles of a plan."""
    (rows, columns, _), (deep, wide) = plan.tile, kernel.sizes
    width = -(-wide // STEP) * STEP
    return Sizes(
        rows,
        columns,
        -(-deep // SPAN) * SPAN,
        -(-wide // SPAN) * SPAN,
        -(-deep // STEP) * STEP,
        width,
        (SPAN,) * (width // SPAN) + tuple(piece for piece in PARTS_OF_SPAN if width & piece),
        (1 + (plan.asynchrony is not None and plan.asynchrony.overlap == "epilogue"), plan.stages),
    )


def declare(plan: Plan, problem: Problem) -> Needs:
    """Rings of query, key and value, pieces of outputs; the registers are a consumer's."""
    rings = operand_arrays(plan, problem)
    shared = *rings, *itertools.chain(*output_arrays(plan, problem)), *turn_array(plan)
    barriers = 2 * sum(array.slots for array in rings) + turn_barriers(plan)
    return Needs(shared, barriers, limit_of(plan, problem.kernel), registers_of(plan, problem.kernel))


def tiles_of(plan: Plan, kernel: Streaming) -> tuple[tuple[Read, Box], ...]:
    """What the work on scores reads that a plan has the copy engine fetch."""
    return tuple((r, box) for r, box in flash_of(kernel).tiles if plan.load_of(r.tensor).by == "tma")


def span_of(read: Read, columns: int) -> int:
    """Bytes of a swizzled row of a tile with these columns of what scores meet, the widest that divides them; 0 where
    none does. Rows of 32 bytes are for what is a byte itself: of others they are too many boxes."""
    spans = (SWIZZLE, SWIZZLE // 2, SWIZZLE // 4)[: 3 if read.dtype.bytes == 1 else 2]
    return next((span for span in spans if columns * read.dtype.bytes % span == 0), 0)


def operand_arrays(plan: Plan, problem: Problem) -> tuple[Array, ...]:
    """The rings of the query, the key and the value, and of what scores meet besides, which have a slot less: a block
    is in registers before the block's products are done. Of one that three warpgroups read where it is there are two
    at least: else the next waits for the last of them."""
    sizes, flash, ahead = sizes_of(plan, problem.kernel), flash_of(problem.kernel), reads_ahead(problem.kernel)
    query, ring = sizes.rings
    return (
        Array("q", flash.query.dtype, (sizes.rows, sizes.deep), query, SWIZZLE),
        Array("k", flash.key.dtype, (sizes.columns, sizes.deep), ring, SWIZZLE),
        Array("v", flash.value.dtype, (sizes.columns, sizes.wide), ring, SWIZZLE),
        *(
            Array(
                f"{r.tensor}.tile",
                r.dtype,
                (sizes.rows, sizes.columns),
                max(ring - 1, (plan.consumers.count - 1) * (r not in ahead)),
                span_of(r, sizes.columns),
            )
            for r, _ in tiles_of(plan, problem.kernel)
        ),
    )


def output_arrays(plan: Plan, problem: Problem) -> tuple[tuple[Array, ...], ...]:
    """For each write of the second region the pieces that are on their way out, an array for each size of them; none
    where it leaves from registers. Two pieces that follow one another are never in one place."""
    flash, pieces = flash_of(problem.kernel), sizes_of(plan, problem.kernel).pieces
    places = {piece: STAGED if len({*pieces}) == 1 or pieces.count(piece) > 1 else 1 for piece in pieces}
    return tuple(
        tuple(
            Array(f"out.{piece}", box.dtype, (WARPGROUP_ROWS, piece), n * plan.consumers.count, box.dtype.bytes * piece)
            for piece, n in places.items()
        )
        if box is not None and plan.store_of(item.output).by == "tma"
        else ()
        for item, box in zip(problem.regions[1].yields, flash.outputs)
    )


def registers_of(plan: Plan, kernel: Streaming) -> int:
    """Registers of a consumer's thread in arrays: scores, weights, the output's sum, rows."""
    sizes, ahead = sizes_of(plan, kernel), reads_ahead(kernel)
    words = sizes.columns // 4 * (1 + len(ahead))  # weights, and what is read ahead
    words += OF_TILE * sum(read not in ahead for read, _ in tiles_of(plan, kernel))
    return sizes.columns // 2 + words + sizes.width // 2 + ROWS * len(row_words(kernel))


def most_registers(plan: Plan) -> int:
    """Registers that a consumer's thread has."""
    return plan.regs.consumer if plan.regs else launched_with(plan)


def limit_of(plan: Plan, kernel: Streaming) -> int:
    """Registers of each thread that the kernel is compiled for: all that it is launched with where roles exchange them,
    else what a consumer's thread needs."""
    if plan.regs:
        return launched_with(plan)
    has_work = score_of(kernel).work is not None
    beside = BESIDE + sizes_of(plan, kernel).width // 12 + has_work * min(OF_WORK, 3 * plan.tile[1] // 8)
    return min(launched_with(plan), allotted(plan, registers_of(plan, kernel) + beside))


def launched_with(plan: Plan) -> int:
    """Registers that each thread of a CTA has at first: an equal share of an SM's."""
    arch = ARCHS[plan.arch]
    return min(arch.registers_per_thread, arch.registers_per_sm // threads_of(plan) // 8 * 8)
