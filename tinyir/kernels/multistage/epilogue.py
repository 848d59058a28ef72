"""The epilogue of warps that hold an accumulator of mma.sync: sixteen rows at a time through shared memory, so that
neighbouring lanes get neighbouring columns, several a lane.

    for i                                               sixteen rows of the warp's tile
      barrier warp; each r, n of acc[16*i, 0]: store staged[warp.index][r, n]; barrier warp
      for v                                             a lane's columns, `width` of them side by side
        if row and columns are inside
          bias.near[e] over e: 8 = bias[col + e] vector 8       what is adjacent is read at once
          for e: %bias_add, %relu ...; C.out[e] = %relu
          store C[row, col + e] over e: 8 = cast(C.out[e]) : fp16 vector 8
"""

from __future__ import annotations

from ...ir.body import Read
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ..parts.arrays import shared
from ..parts.columns import Columns
from ..parts.fresh import Fresh
from ..parts.point import below, divides, split
from ..problem import Contraction
from .declare import FRAGMENT_ROWS, staged_array

LANES = 32
UNROLLED = 8  # turns of a lane's columns that are written out at most


@dataclass(frozen=True, slots=True)
class WarpEpilogue:
    """The shared tile to declare, and what follows the sum."""

    tile: nodes.Shared
    statements: tuple[Statement, ...]


def warp_epilogue(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh) -> WarpEpilogue:
    """The epilogue of a plan whose warps hold `warp_tile` accumulators each."""
    rows, columns = plan.warp_tile
    tile = shared(fresh("staged"), staged_array(plan, kernel))
    slot = Expr.of("warp.index") if tile.ring > 1 else None
    i, r, n, v = (fresh.expr(word) for word in "irnv")
    copy = nodes.Store(
        Place(fresh("staged"), (r, n), slot), Read(fresh("acc"), (r + FRAGMENT_ROWS * i, n), kernel.dtype)
    )
    pieces = nodes.Each((str(r), str(n)), fresh("acc"), (copy,), (FRAGMENT_ROWS * i, ZERO), (FRAGMENT_ROWS, columns))
    width = plan.width_of(kernel.right[-1].name) if len(kernel.right) == 1 else 1
    in_row = columns // width
    turns = FRAGMENT_ROWS * in_row // LANES
    number = LANES * v + Expr.of("lane") if turns > 1 else Expr.of("lane")
    down, across = fresh.expr("down"), fresh.expr("across")
    row, col = fresh.expr("row"), fresh.expr("col")
    places = (
        nodes.Let(str(down), number // in_row),
        nodes.Let(str(across), width * (number - in_row * (number // in_row))),
        nodes.Let(str(row), fresh.expr("m0") + fresh.expr("wm") + FRAGMENT_ROWS * i + down),
        nodes.Let(str(col), fresh.expr("n0") + fresh.expr("wn") + across),
    )
    inside = () if divides(plan.tile[0], extent_of(kernel.left)) else below(row, extent_of(kernel.left))
    inside += () if divides(plan.tile[1], extent_of(kernel.right)) else below(col + width - 1, extent_of(kernel.right))
    e = fresh.expr("e") if width > 1 else ZERO
    point = {**split(row, kernel.left), **split(col + e, kernel.right), **split(fresh.expr("batch"), kernel.batch)}
    acc = Read(fresh("staged"), (down, across + e), kernel.dtype, slot)
    elements = tuple(Columns(region, fresh, width, kernel.right, col + e, point, {kernel.value: acc}, {}).statements())
    turn = (*places, nodes.If(inside, elements)) if inside else (*places, *elements)
    walk: tuple[Statement, ...] = (
        (nodes.For(str(v), ZERO, Expr.of(turns), turn, unroll=0 if turns <= UNROLLED else UNROLLED),)
        if turns > 1
        else turn
    )
    return WarpEpilogue(
        tile,
        (
            nodes.For(
                str(i),
                ZERO,
                Expr.of(rows // FRAGMENT_ROWS),
                (nodes.Barrier("warp"), pieces, nodes.Barrier("warp"), *walk),
                unroll=0,
            ),
        ),
    )
