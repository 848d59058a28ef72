"""Plans of a product of few rows: warps beside one another along the columns, and behind one another along the sum."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Bind, Plan, Vectorize
from ...kit.records import replace
from ...target.device import Device
from ..candidate import parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..problem import Contraction
from .declare import EIGHT, FRAGMENT, STAGES
from .match import pieces_of, product_of

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
AT_ONCE = 32  # weights of a column that the warps of 64 columns on an SM have at once, at least: 64 x 11008 x 4096 of 8
# bits has fewer and takes 49.8 us so, 44.4 with 32 columns; of 4 bits 42.3


def propose(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each shape of a CTA with each piece; none where the product is none of few rows."""
    region, kernel = problem.region, problem.kernel
    product = product_of(region, kernel)
    wide = (product.right.size.constant or 0) // (FRAGMENT * BLOCKS[-1]) if product is not None else 0
    for piece in pieces_of(region, kernel):
        for beside, behind in WARPS:
            for blocks in BLOCKS:
                columns, depth = FRAGMENT * blocks * beside, 4 * piece * behind
                if blocks == BLOCKS[-1] and wide * piece < AT_ONCE * card.sms:
                    continue
                rows = EIGHT if product.rows <= EIGHT else FRAGMENT * -(-product.rows // FRAGMENT)
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
                    vectorize=(Vectorize(product.sum.name, piece),),
                    epilogue=tuple(let.name for let in region.lets if let.name != product.value)
                    if is_contraction
                    else (),
                    predicate=tuple(a.name for a in dict.fromkeys((*region.iters, product.sum)) if a.name in guarded),
                )
                yield from (Proposal(replace(plan, stages=stages)) for stages in STAGES)


__all__ = ["propose"]
