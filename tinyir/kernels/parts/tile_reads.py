"""Tensors that the end of a product reads at the accumulator's own places (a residual): the copy engine brings them to
shared memory piece by piece, as outputs leave, ahead of the consumers.

    shared r.tile : fp16[128, 64] ring 2 swizzle 128
    mbarrier landed ring 2 count 1
    mbarrier taken ring 2 count 2
    ...
    if warpgroup.thread = 32                        of the producer: loads of the next step do not wait for it
      for tile in ...
        wait taken[q.slot] phase q.phase
        arrive landed[q.slot] expect 16384 B
        %read.r = tma_load r.tile[q.slot] <- r.tile.map[m0, n0] on landed[q.slot]
        advance q

Read by each thread for its own elements, a residual of 64 columns takes longer than its tile's products.

What the end of a pair of products reads along the columns of a block alone, alike in all blocks (the cosines of a
rotation), is brought once for a tile:

    shared turn_cos.block : fp16[128, 32] swizzle 64
    mbarrier held count 1
    mbarrier freed count 2
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ...ir.body import Axis, Read, walk
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_multiple
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.numbers import Number, least
from ...kit.records import dataclass, replace
from ...target.hopper import SWIZZLE_BYTES, WARPGROUP_ROWS
from ..family import Array
from ..problem import Contraction
from .arrays import shared
from .boxes import STAGED_DTYPES, Dim, View, view_of
from .fresh import Fresh
from .leaving import turned
from .point import split

LEAST_ROW = 32  # bytes of a row of what a tile has once, as a swizzle has
READ_AHEAD = 2  # pieces of a tensor that are in shared memory or on their way
READER = 32  # the producer's thread that fetches them: another warp's than that which fetches operands
READER_ALONE = (Bound(Expr.of("warpgroup.thread"), equals=Expr.of(READER)),)


@functools.lru_cache(maxsize=4096)
def tile_reads(region: Region, kernel: Contraction, inner: str = "right") -> tuple[tuple[Read, View], ...]:
    """The reads behind the accumulator whose tiles the copy engine can bring, neighbours along `inner` being neighbours
    in memory, each tensor with its view. None of a tensor that is read at several places, or multiplied too."""
    bodies = [let.expr for let in region.lets if let.name not in kernel.values] + [y.expr for y in region.yields]
    reads = dict.fromkeys(n for body in bodies for n in walk(body) if isinstance(n, Read) and n.slot is None)
    names = [read.tensor for read in reads]
    factors = (kernel.lhs.tensor, kernel.rhs.tensor)
    found = []
    for read in reads:
        if kernel.siblings > 1 or names.count(read.tensor) > 1 or read.tensor in factors:
            continue
        view = view_of(region, read.tensor, read.index, kernel) if read.dtype.name in STAGED_DTYPES else ""
        is_tile = isinstance(view, View) and {d.role for d in view.dims} - {"batch"} == {"left", "right"}
        if is_tile and view.inner == inner:
            found.append((read, view))
    return tuple(found)


def reads_of(plan: Plan, region: Region, kernel: Contraction, inner: str = "right") -> tuple[tuple[Read, View], ...]:
    """Those that a plan has the copy engine bring."""
    return tuple((r, view) for r, view in tile_reads(region, kernel, inner) if plan.load_of(r.tensor).by == "tma")


@dataclass(frozen=True, slots=True)
class BlockRead:
    """A read whose place along the columns is that of a block, and along the rows the accumulator's own, or of a table
    that has the last `rows` of them alone, again and again; `start` is where in a row of the tensor a block begins."""

    read: Read
    view: View
    start: int
    rows: Expr | None

    def fits(self, rows: int) -> bool:
        """Whether no tile of this number of rows has two parts of the table."""
        return self.rows is None or is_multiple(self.rows, rows)


@functools.lru_cache(maxsize=4096)
def block_reads(region: Region, kernel: Contraction, inner: str = "right") -> tuple[BlockRead, ...]:
    """Those behind a pair of sums, whose columns are along `inner`."""
    bodies = [let.expr for let in region.lets if let.name not in kernel.values] + [y.expr for y in region.yields]
    reads = dict.fromkeys(n for body in bodies for n in walk(body) if isinstance(n, Read) and n.slot is None)
    if kernel.pair is None or kernel.siblings > 1:
        return ()
    tensors = {t.name: t for t in region.inputs}
    own, others = kernel.groups[:2][:: 1 if inner == "left" else -1]
    found = []
    for read in reads:
        *outer, last = zip(read.index, tensors[read.tensor].type.shape) if read.index else ((ZERO, ONE),)
        start, length = (last[0] - own[-1].name).constant, last[1].constant
        rows = tuple((e.name, size) for e, size in outer if e.constant != 0 or size != ONE)
        width = kernel.pair.width * read.dtype.bytes
        is_table = bool(rows) and rows == tuple((a.name, a.size) for a in others)[-len(rows) :]
        is_inside = start is not None and length and 0 <= start <= length - kernel.pair.width
        is_row = width >= LEAST_ROW and (width <= SWIZZLE_BYTES or width % SWIZZLE_BYTES == 0)
        if is_table and is_inside and is_row and read.dtype.name in STAGED_DTYPES:
            along = others[len(others) - len(rows) :]
            dims = Dim("right" if inner == "left" else "left", along), Dim(inner, (Axis(f"{last[1]}", last[1]),))
            part = extent_of(along) if len(rows) < len(others) else None
            found.append(BlockRead(read, View(tensors[read.tensor], dims), start, part))
    return tuple(found)


def blocks_of(plan: Plan, region: Region, kernel: Contraction, inner: str = "right") -> tuple[BlockRead, ...]:
    """Those that a plan has the copy engine bring."""
    return tuple(one for one in block_reads(region, kernel, inner) if plan.load_of(one.read.tensor).by == "tma")


def block_array(rows: Number, kernel: Contraction, read: Read) -> Array:
    """The columns of a block in this number of rows."""
    width = kernel.pair.width if kernel.pair else 1
    return Array("block", read.dtype, (rows, width), 1, min(width * read.dtype.bytes, SWIZZLE_BYTES))


def may_read_tiles(plan: Plan) -> bool:
    """Whether a plan's consumers can read pieces that another thread fetches: each has 64 rows of every tile, and its
    outputs leave by the copy engine, so that its threads meet at each piece."""
    rows = plan.tile[1 if plan.swap_ab else 0]
    is_by_engine = any(item.by == "tma" for item in plan.store)
    return is_by_engine and not plan.takes_turns and not plan.has_one_tile and rows == WARPGROUP_ROWS * plan.sharers


def read_array(plan: Plan, read: Read, sides: tuple[Number, Number]) -> Array:
    """The pieces of a tensor, of all warpgroups beside one another, as many columns of the accumulator each as leave
    together."""
    rows, columns = WARPGROUP_ROWS * plan.sharers, sides[1]
    shape = turned(plan, (rows, columns))
    return Array("read", read.dtype, shape, READ_AHEAD, least(shape[1] * read.dtype.bytes, SWIZZLE_BYTES))


def read_barriers(plan: Plan, region: Region, kernel: Contraction) -> int:
    """The mbarriers of these pieces, and of what is brought once for a tile."""
    of_pieces = 2 * READ_AHEAD if reads_of(plan, region, kernel) else 0
    return of_pieces + (2 if blocks_of(plan, region, kernel) else 0)


@dataclass(frozen=True, slots=True)
class TileRead:
    """One of them in a kernel: the read of a region, its view, and the tile with the map that fills it."""

    read: Read
    view: View
    tile: nodes.Shared
    map: nodes.TensorMap
    start: int = 0  # where in a row a block begins
    rows: Expr | None = None  # of a table that the accumulator's rows read again and again

    @property
    def bytes(self) -> int:
        """Of a piece of all warpgroups."""
        return self.tile.bytes // self.tile.ring


class TileReads:
    """What a kernel says of its tile reads: statements to declare, to fill, to wait, to give back."""

    def __init__(self, plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, sides: tuple[int, int]):
        self.plan, self.kernel, self.fresh, self.columns = plan, kernel, fresh, sides[1]
        found = reads_of(plan, region, kernel, "left" if plan.swap_ab else "right")
        self.all = tuple(self._of(read, view, read_array(plan, read, sides), ".tile") for read, view in found)
        rows, inner = plan.tile[int(plan.swap_ab)], "left" if plan.swap_ab else "right"
        self.blocks = tuple(
            replace(
                self._of(one.read, one.view, block_array(rows, kernel, one.read), f".block{one.start or ''}"),
                start=one.start,
                rows=one.rows,
            )
            for one in blocks_of(plan, region, kernel, inner)
        )

    def _of(self, read: Read, view: View, array: Array, word: str) -> TileRead:
        name = self.fresh(re.sub(r"\W", "_", read.tensor) + word)
        rows, width = array.shape[0], array.swizzle // read.dtype.bytes
        box = iter((Expr.of(rows), Expr.of(width)))
        dims = () if view.shape == view.tensor.type.shape else view.shape
        sizes = tuple(ONE if d.role == "batch" else next(box) for d in view.dims)
        mapped = nodes.TensorMap(f"{name}.map", read.tensor, sizes, array.swizzle, dims)
        return TileRead(read, view, shared(name, array), mapped)

    @property
    def barriers(self) -> tuple[Statement, ...]:
        """The mbarriers: a piece is there, and all warpgroups have read it; the same of what a tile has once."""
        found: tuple[Statement, ...] = ()
        if self.all:
            landed, taken = (self.fresh(word) for word in ("landed", "taken"))
            found = nodes.Mbarrier(landed, 1, READ_AHEAD), nodes.Mbarrier(taken, self.plan.sharers, READ_AHEAD)
        if self.blocks:
            held, freed = (self.fresh(word) for word in ("held", "freed"))
            found = (*found, nodes.Mbarrier(held, 1), nodes.Mbarrier(freed, self.plan.sharers))
        return found

    @property
    def cursors(self) -> tuple[Statement, ...]:
        """Where a consumer is in the ring."""
        own = (nodes.Cursor(self.fresh("u"), READ_AHEAD),) if self.all else ()
        return (*own, nodes.Cursor(self.fresh("h"), 1)) if self.blocks else own

    def around(self, pieces: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The pieces of a tile between the arrival of what it has once and its being read by a warpgroup, whose threads
        have met since."""
        if not self.blocks:
            return pieces
        tokens = tuple(f"read.{each.tile.name}" for each in self.blocks)
        wait = nodes.Wait(Place(self.fresh("held")), self.fresh.expr("h", "phase"), tokens)
        return (wait, *pieces, nodes.Arrive(Place(self.fresh("freed"))), nodes.Advance(self.fresh("h")))

    @property
    def awaited(self) -> tuple[Statement, ...]:
        """A consumer waits for a piece."""
        if not self.all:
            return ()
        tokens = tuple(f"read.{each.read.tensor}" for each in self.all)
        return (nodes.Wait(self._at("landed", "u"), self.fresh.expr("u", "phase"), tokens),)

    @property
    def given_back(self) -> tuple[Statement, ...]:
        """A warpgroup has read its part of a piece, and its threads have met since."""
        return (nodes.Arrive(self._at("taken", "u")), nodes.Advance(self.fresh("u"))) if self.all else ()

    def places(
        self, point: dict[str, Expr], r: Expr, n: Expr, corner: tuple[Expr, Expr]
    ) -> Iterator[tuple[Read, Read]]:
        """Each read at a point of the region, and where its value is: row `r` of the warpgroup's own, column `n` of the
        piece, which begins at `corner` of the results."""
        row = r + (self.fresh.expr("part") if self.plan.sharers > 1 else 0)
        for each in self.blocks:
            index = tuple(e.substitute(point) for e in each.read.index)
            width = self.kernel.pair.width if self.kernel.pair else 1
            own = (row, n + corner[1] - width * (corner[1] // width))
            if self.plan.swap_ab:  # whose rows are the columns of the block
                own = (n + corner[1], r)
            yield Read(each.read.tensor, index, each.read.dtype), Read(each.tile.name, own, each.read.dtype)
        for each in self.all:
            index = tuple(e.substitute(point) for e in each.read.index)
            at = Read(each.tile.name, turned(self.plan, (row, n)), each.read.dtype, self.fresh.expr("u", "slot"))
            yield Read(each.read.tensor, index, each.read.dtype), at

    def piece(self) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        """What the reader does before its walk, and for each tile."""
        if not self.all:
            return self._once()
        count, j = self.plan.tile[1] // self.columns, self.fresh.expr("j")
        fill: tuple[Statement, ...] = (
            nodes.Wait(self._at("taken", "q"), self.fresh.expr("q", "phase")),
            nodes.Arrive(self._at("landed", "q"), sum(each.bytes for each in self.all)),
            *(self._load(each, self.columns * j if count > 1 else ZERO) for each in self.all),
            nodes.Advance(self.fresh("q")),
        )
        if count > 1:
            fill = (nodes.For(self.fresh("j"), ZERO, Expr.of(count), fill),)
        before, once = self._once()
        return (*before, nodes.Cursor(self.fresh("q"), READ_AHEAD, phase=1)), (*once, *fill)

    def _once(self) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        """The same of what a tile has once."""
        if not self.blocks:
            return (), ()
        held = Place(self.fresh("held"))
        inner = "left" if self.plan.swap_ab else "right"
        corner = {"left": self.fresh.expr("m0"), "right": self.fresh.expr("n0")}
        loads = []
        for each in self.blocks:
            at = tuple(
                Expr.of(each.start)
                if d.role == inner
                else corner[d.role]
                if each.rows is None
                else corner[d.role] - each.rows * (corner[d.role] // each.rows)
                for d in each.view.dims
            )
            to = Place(each.tile.name)
            loads.append(nodes.TmaLoad(f"read.{each.tile.name}", to, Place(each.map.name, at), held))
        fill = (
            nodes.Wait(Place(self.fresh("freed")), self.fresh.expr("g", "phase")),
            nodes.Arrive(held, sum(each.bytes for each in self.blocks)),
            *loads,
            nodes.Advance(self.fresh("g")),
        )
        return (nodes.Cursor(self.fresh("g"), 1, phase=1),), fill

    def _load(self, each: TileRead, across: Expr) -> Statement:
        batch = split(self.fresh.expr("batch"), self.kernel.batch) if self.kernel.batch else {}
        corner = {"left": self.fresh.expr("m0"), "right": self.fresh.expr("n0") + across}
        at = tuple(d.place(batch) if d.role == "batch" else corner[d.role] for d in each.view.dims)
        to = Place(each.tile.name, slot=self.fresh.expr("q", "slot"))
        return nodes.TmaLoad(f"read.{each.read.tensor}", to, Place(each.map.name, at), self._at("landed", "q"))

    def _at(self, barrier: str, cursor: str) -> Place:
        return Place(self.fresh(barrier), slot=self.fresh.expr(cursor, "slot"))
