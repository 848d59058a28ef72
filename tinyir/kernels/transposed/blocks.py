"""How a map that is read across is cut into square blocks: `block` neighbours along both axes, which are one access of
what is read and, turned in registers, one of what is written. Axes that are one in memory are one here (`merged`)."""

from __future__ import annotations

import functools
import math

from ...ir.body import Axis, Read, Unary, substitute, walk
from ...ir.expr import ZERO, Expr
from ...ir.neighbours import ACCESS_BYTES, across_of, crossed_elements, crossed_reads, is_multiple
from ...ir.plan.fields import Plan, Vectorize
from ...ir.region import Region, Yield
from ...ir.runs import offset_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from ..family import Problem

SIDES = (8, 4, 2)  # of a block
WORDS = 64  # registers of a thread for the blocks of all tensors


def beyond(problem: Problem) -> str:
    """Why a map is none that is transposed, in words; empty where it is one."""
    return "" if crossed_reads(problem.region) else Phrase("a map that reads along the axis that it writes along")


@dataclass(frozen=True, slots=True)
class Sides:
    """Elements of a tile along the axis that is written along, and along the one that is read along."""

    along: int
    across: int


def sides_of(plan: Plan, region: Region) -> Sides:
    """The sides of a tile in blocks: as near to a square as its area allows; where an axis is known to be shorter, the
    tile is as long as that there, and longer along the other."""
    area = plan.tile[0]
    along = 1 << -(-(area.bit_length() - 1) // 2)
    across = area // along
    axes = region.iters[-1], across_of(region, crossed_reads(region)[0])
    most = [_side_over(axis.size, block) for axis, block in zip(axes, (plan.widest, block_of(region)))]
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
def merged(region: Region) -> Region:
    """The map with the axes before that which is read along, and before the last one, as parts of it where elements
    along both are neighbours in all tensors: tiles of images of 7 x 7 have 49 columns, not 7. Of copies alone."""
    reads = crossed_reads(region)
    if not reads or region.lets or not all(_is_copy(y) for y in region.yields):
        return region
    ends = across_of(region, reads[0]).name, region.iters[-1].name
    return _joined(_joined(region, *ends), *ends[::-1])


def _is_copy(one: Yield) -> bool:
    moved = one.expr.x if isinstance(one.expr, Unary) and one.expr.op == "cast" else one.expr
    return isinstance(moved, Read) and not one.guard


def _joined(region: Region, name: str, other: str) -> Region:
    """The copy with the axes before this one as parts of it, up to the `other`, as long as it is read across."""
    at = next(n for n, axis in enumerate(region.iters) if axis.name == name)
    before, axis = region.iters[at - 1], region.iters[at]
    if not at or before.name == other or not before.size.constant or not axis.size.constant:
        return region
    outer = Expr.of(name) // axis.size
    parts = {before.name: outer, name: Expr.of(name) - axis.size * outer}
    places = [(y.output, y.index) for y in region.yields]
    places += [(n.tensor, n.index) for y in region.yields for n in walk(y.expr) if isinstance(n, Read)]
    for tensor, index in places:
        offset = offset_of(region.tensor(tensor).type.shape, index)
        if offset.substitute(parts) != offset.substitute({before.name: ZERO}):
            return region
    yields = tuple(
        replace(y, index=tuple(e.substitute(parts) for e in y.index), expr=substitute(y.expr, parts))
        for y in region.yields
    )
    iters = (*region.iters[: at - 1], Axis(name, before.size * axis.size), *region.iters[at + 1 :])
    made = replace(region, iters=iters, yields=yields)
    return _joined(made, name, other) if crossed_reads(made) else region


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


def ways_of(region: Region, is_tiled: bool) -> tuple[tuple[Vectorize, ...], ...]:
    """How many neighbours of what is written a thread may move at once: a side of a block, or fewer where its columns
    leave from registers."""
    side = block_of(region)
    widths = [w for w in SIDES if w == side or w < side and not is_tiled] if side else []
    return tuple((Vectorize(region.iters[-1].name, width),) for width in widths)


def is_shared(tile: tuple[int, ...], area: int, threads: tuple[int, ...]) -> bool:
    """Whether a tile is a power of two, of blocks of such an area, and each thread has as many of its blocks."""
    size = math.prod(tile)
    is_power = len(tile) == 1 and size & (size - 1) == 0
    return is_power and size % area == 0 and size // area % math.prod(threads) == 0


def registers_of(plan: Plan, region: Region) -> int:
    """Registers of a thread for the blocks of what is read across."""
    area = plan.widest * block_of(region)
    return sum(math.ceil(area * n.dtype.bytes / 4) for n in crossed_reads(region))
