"""Plans of a product of few rows: warps beside one another along the columns, and behind one another along the sum."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import Expr
from ...ir.plan import Bind, Plan
from ...kit.records import replace
from ...target.device import Device
from ..candidate import over_registers, parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..problem import Contraction
from .declare import FRAGMENT, MOST_OF_SIXTEEN, MOST_WORDS, STAGES, VECTOR, held_of, rows_of, words_of
from .match import patches_of, placed_in, product_of, reads_of, vectorize_of

WARPS = (
    (1, 4),
    (1, 8),
    (2, 4),
    (1, 16),
    (2, 8),
    (4, 2),
    (4, 4),
    (8, 1),
    (8, 2),
)  # along the columns, and along the sum
BLOCKS = (1, 2, 4)  # sixteens of columns of a warp
MOST_BESIDE = 8
MOST_WARPS = 16


def warps_of(columns: int, size: Expr, card: Device) -> Iterator[tuple[int, int]]:
    """Warps of this number of columns, along these and along the sum: also as many along the columns as it takes until
    each SM has one CTA."""
    yield from WARPS
    beside = -(-(size.constant or 0) // (card.sms * columns))
    if beside <= MOST_BESIDE and beside & (beside - 1):
        yield from ((beside, behind) for behind in (1, 2, 4) if beside * behind <= MOST_WARPS)


def propose(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each shape of a CTA with each piece; none where the product is none of few rows."""
    region, kernel = problem.region, problem.kernel
    product = product_of(region, kernel)
    for patch in patches_of(region, kernel):
        piece = patch.piece
        placed = [placed_in(region, product, read, patch) for read in reads_of(product)]
        unpacked = VECTOR * any(1 < at.shared < piece for at in placed if at is not None)
        for blocks in (patch.side // 2,) if patch.side else BLOCKS:
            for beside, behind in warps_of(FRAGMENT * blocks, product.right.size, card):
                columns, depth = FRAGMENT * blocks * beside, 4 * piece * behind
                rows = rows_of(problem)
                is_contraction = isinstance(kernel, Contraction)
                guarded = {
                    name
                    for axis, size in ((product.left, rows), (product.right, columns), (product.sum, depth))
                    if axis is not None
                    for name in guarded_axes((axis,), size)
                }
                binds = (
                    Bind(parts_of_axes((product.right,), "o"), "cta.x"),
                    Bind(parts_of_axes((product.right,), "i"), "thread.y"),
                    Bind(parts_of_axes((product.sum,), "i"), "thread.z"),
                )
                plan = Plan(
                    regions=(region.name,),
                    arch=card.arch.name,
                    family=type(kernel).kind,
                    algo="few_rows" if is_contraction else "one_row",
                    tile=(rows, columns, depth) if is_contraction else (columns, depth),
                    threads=(32, beside, behind),
                    bind=binds,
                    vectorize=vectorize_of(product, patch),
                    epilogue=tuple(let.name for let in region.lets if let.name != product.value)
                    if is_contraction
                    else (),
                    predicate=tuple(a.name for a in dict.fromkeys((*region.iters, product.sum)) if a.name in guarded),
                )
                is_twice = blocks > 1 or rows <= MOST_OF_SIXTEEN
                for stages in STAGES if is_twice and 2 * words_of(plan, problem) <= MOST_WORDS else STAGES[:1]:
                    one = replace(plan, stages=stages)
                    yield Proposal(one, over_registers(held_of(one, problem) + unpacked, card))
