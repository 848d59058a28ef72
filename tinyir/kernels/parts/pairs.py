"""Two sums of the same rows in one accumulator (`problem.Pair`), of which a thread holds what belongs together.

    columns of the accumulator   u0..u63 v0..v63 u64..u127 v64..v127        of a tile of 256, width 64
    columns of the results       0..63           64..127

Blocks of `width` columns of the one and of the other take turns, as the operand has them in memory, so that tiles are
fetched and multiplied as those of one product. What follows the sums is done for half as many results; the second sum
of one is `width` columns further, in the same thread: whole groups of eight columns, or in a transposed product, whose
rows these are, the 64 rows of a product. What speaks of results has a plan of half the tile (`results_of`), and its
places are those of results: the operand's are twice as far.
"""

from __future__ import annotations

from ...ir.expr import Expr
from ...ir.plan.fields import Plan
from ...ir.region import Region, Yield
from ...kit.records import replace
from ...target.hopper import HELD_COLUMNS, WARPGROUP_ROWS
from ..problem import PAIR, Contraction
from .boxes import View, store_view

Corner = tuple[Expr, Expr]


def pair_side(kernel: Contraction) -> int:
    """The side of the tile along which a pair's columns are, `as_multiplied`."""
    return 0 if any(a.name == PAIR for a in kernel.left) else 1


def doubled(kernel: Contraction, side: int) -> int:
    """How many columns or rows of the accumulator one of the results has."""
    return 2 if kernel.pair is not None and pair_side(kernel) == side else 1


def results_of(plan: Plan, kernel: Contraction) -> tuple[Plan, Contraction]:
    """Plan and contraction of what follows the sums."""
    if kernel.pair is None:
        return plan, kernel
    rows, columns, *depth = plan.tile
    tile = (rows // doubled(kernel, 0), columns // doubled(kernel, 1), *depth)
    return replace(plan, tile=tile), kernel.results


def fits_pair(kernel: Contraction, is_swapped: bool, rows: int, columns: int) -> bool:
    """Whether a warpgroup's part of an accumulator, as multiplied, has whole pairs, each of which one thread holds."""
    if kernel.pair is None:
        return True
    step, size = (WARPGROUP_ROWS, rows) if is_swapped else (HELD_COLUMNS, columns)
    return kernel.pair.width % step == 0 and size % (2 * kernel.pair.width) == 0


def left_view(region: Region, kernel: Contraction, item: Yield, inner: str = "right") -> tuple[View | str, int | None]:
    """The view of an output whose tiles the copy engine can write, or in words why it cannot, and which half of a pair
    it is where it takes the operand's columns, and not those of results."""
    found = store_view(region, kernel.results, item, inner)
    if isinstance(found, View) or kernel.pair is None:
        return found, None
    axis, width = kernel.groups[pair_side(kernel)][-1].name, kernel.pair.width
    for half in (0, 1):
        index = tuple(e + width * Expr.of(PAIR) - width * half if axis in e.names() else e for e in item.index)
        view = store_view(region, kernel, replace(item, index=index), inner)
        if isinstance(view, View):
            return view, half
    return found, None


def corners_of(plan: Plan, kernel: Contraction, corner: Corner) -> tuple[Corner, ...]:
    """Where in the accumulator each sum of the piece begins that begins so among the results."""
    if kernel.pair is None:
        return (corner,)
    width, (row, column) = kernel.pair.width, corner
    if plan.swap_ab:
        first = row + width * (row // width)
        return (first, column), (first + width, column)
    first = column + width * (column // width)
    return (row, first), (row, first + width)
