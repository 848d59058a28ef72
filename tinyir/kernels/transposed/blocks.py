"""How a map that is read across is cut into square blocks: `block` neighbours along both axes, which are one access of
what is read and, turned in registers, one of what is written."""

from __future__ import annotations

import functools
import math

from ...ir.body import Read
from ...ir.expr import Expr
from ...ir.neighbours import ACCESS_BYTES, across_of, crossed_elements, crossed_reads, is_multiple
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...ir.runs import offset_of
from ...kit.records import dataclass

SIDES = (8, 4, 2)  # of a block
WORDS = 64  # registers of a thread for the blocks of all tensors


@dataclass(frozen=True, slots=True)
class Sides:
    """Elements of a tile along the axis that is written along, and along the one that is read along."""

    along: int
    across: int


def sides_of(plan: Plan, region: Region) -> Sides:
    """The sides of a tile in blocks: as near to a square as its area allows; where an axis is known to be shorter, the
    tile is as long as that there, and longer along the other."""
    block, area = plan.widest, plan.tile[0]
    along = 1 << -(-(area.bit_length() - 1) // 2)
    across = area // along
    read = crossed_reads(region)[0]
    most = [_side_over(axis.size, block) for axis in (region.iters[-1], across_of(region, read))]
    if most[1] is not None and most[1] < across:
        along, across = along * across // most[1], most[1]
    elif most[0] is not None and most[0] < along:
        along, across = most[0], across * along // most[0]
    return Sides(along, across)


def _side_over(extent: Expr, block: int) -> int | None:
    """The least power of two, of whole blocks, that covers an axis."""
    size = extent.constant
    return None if size is None else max(block, 1 << max(0, size - 1).bit_length())


@functools.lru_cache(maxsize=4096)
def block_of(region: Region) -> int:
    """The side of a block; 0 where neighbours of what is written are not known to begin on whole accesses, or those of
    what is read all as far behind one, or axes to be made of whole blocks, and where a guard is around what is read."""
    elements = crossed_elements(region)
    reads = tuple(elements)
    if not reads or any(element is not read for read, element in elements.items()):
        return 0
    along, across = region.iters[-1], across_of(region, reads[0])
    sizes = [n.dtype.bytes for n in reads] + [t.type.dtype.bytes for t in region.outputs]
    for side in SIDES:
        words = sum(-(-side * side * n.dtype.bytes // 4) for n in reads)
        if side * min(sizes) > ACCESS_BYTES or words > WORDS:
            continue
        skew = skew_of(region, side)
        if skew is None or not is_multiple(along.size, side) or skew == 0 and not is_multiple(across.size, side):
            continue
        if all(_behind(region, y.output, y.index, along.name, side) == 0 for y in region.yields):
            return side
    return 0


@functools.lru_cache(maxsize=4096)
def skew_of(region: Region, side: int) -> int | None:
    """Points before the first one along the axis that is read along which its first whole access also covers; None
    where rows of what is read begin differently."""
    reads = crossed_reads(region)
    across = across_of(region, reads[0])
    found = {_behind(region, n.tensor, n.index, across.name, side) for n in reads}
    return found.pop() if len(found) == 1 else None


def _behind(region: Region, tensor: str, index: tuple[Expr, ...], axis: str, side: int) -> int | None:
    """How many elements behind a multiple of `side` the first point along the axis is, wherever the others are; None
    where they are not side by side, or that differs."""
    found = region.tensor(tensor)
    if found is None or not index:
        return None
    first = offset_of(found.type.shape, index) - axis
    skew = next((c for c, m in first.terms if not m), 0) % side
    return skew if axis not in first.names() and is_multiple(first - skew, side) else None


def registers_of(plan: Plan, reads: tuple[Read, ...]) -> int:
    """Registers of a thread for the blocks of what is read across."""
    side = plan.widest
    return sum(math.ceil(side * side * n.dtype.bytes / 4) for n in reads)
