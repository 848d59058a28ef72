"""What a CTA of a product of few rows takes: the sums of its warps, and what a thread has of a step."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ...ir.types import DTYPES
from ..family import Array, Needs, Problem
from ..problem import Contraction
from ..resources import allotted
from .match import accesses_of, patch_of, placed_in, product_of, reads_of

FRAGMENT = 16  # columns of a warp's product
EIGHT = 8  # rows of it
VECTOR = 8  # elements of the small factor in an access
STAGES = (1, 2)  # steps of a warp that are read at once
GROUPS, GROUPS_OF_EIGHT = 2, 4  # of eight elements of many rows that are, and of eight rows
OF_ROWS, LATER = 4, 8  # where some are read later: rows whose addresses take a register, registers beside
BESIDE = 32  # registers of a thread beside all these: pointers, a column's factors, operands on their way
MOST_WORDS = 64  # that the compiler reads before it multiplies, of two steps together
MOST_OF_SIXTEEN = 32  # rows of which a warp of sixteen columns reads two steps at once: of 64 the compiler spills


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    wanted, held = held_of(plan, problem), _accumulators(plan, problem)
    return Needs((part_of(plan, problem),), registers=allotted(plan, wanted + BESIDE), accumulators=held)


def held_of(plan: Plan, problem: Problem) -> int:
    """Registers of a thread beside addresses: sums, what a step reads of the large factor, and elements of rows of as
    many groups as there are at once."""
    product, rows = product_of(problem.region, problem.kernel), rows_of(problem)
    every = plan.stages * patch_of(plan, product).piece // VECTOR
    most = GROUPS_OF_EIGHT if rows == EIGHT else GROUPS
    small = min(every, most) * rows // EIGHT * VECTOR * product.small.dtype.bytes // 4
    if every > most:
        small += LATER + rows // OF_ROWS
    return _accumulators(plan, problem) + plan.stages * words_of(plan, problem) + small


def words_of(plan: Plan, problem: Problem) -> int:
    """Registers of a thread that hold what a step reads of the large factor."""
    product = product_of(problem.region, problem.kernel)
    patch, words = patch_of(plan, product), 0
    for read in reads_of(product):
        placed = placed_in(problem.region, product, read, patch)
        if placed is not None:
            count, each = accesses_of(placed, patch, 2 * blocks_of(plan))
            words += count * max(1, each * read.dtype.bytes // 4)
    return words


def _accumulators(plan: Plan, problem: Problem) -> int:
    """Registers of a thread's sums."""
    return blocks_of(plan) * rows_of(problem) * FRAGMENT // 32


def part_of(plan: Plan, problem: Problem) -> Array:
    """What each warp has summed."""
    return Array("part", DTYPES["fp32"], (plan.threads[2], rows_of(problem), columns_of(plan, problem) + 1))


def rows_of(problem: Problem) -> int:
    """Rows of the tensor cores' product."""
    product = product_of(problem.region, problem.kernel)
    return EIGHT if product.rows <= EIGHT else FRAGMENT * -(-product.rows // FRAGMENT)


def columns_of(plan: Plan, problem: Problem) -> int:
    """Columns of a CTA."""
    return plan.tile[1] if isinstance(problem.kernel, Contraction) else plan.tile[0]


def blocks_of(plan: Plan) -> int:
    """Columns of a warp, in sixteens."""
    columns = plan.tile[1] if plan.family == Contraction.kind else plan.tile[0]
    return columns // (FRAGMENT * plan.threads[1])
