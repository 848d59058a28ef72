"""The template of transposed maps in blocks: each thread reads a square block in whole accesses, turns it in registers
and puts it into a tile, whose rows are written in whole accesses too.

    let r = 16*t1 + floor(thread.x/8), c = thread.x - 8*floor(thread.x/8)        the number of a block
    for a in 0..8 unroll
      X.block[a, b] over b: 8 = X[8*r + a, 8*c + b] vector 8
    for b in 0..8 unroll
      store X.tile[c, 128*b + 8*r + a] over a: 8 = X.block[a, b] vector 8         neighbours are those of a column now
    barrier cta
    for u in 0..8 unroll
      X.near[v] over v: 8 = X.tile[...] vector 8
      the values at these neighbours; store Y[i0, i1 + v] over v: 8 = ... vector 8

A row of the tile holds all that is written of one row of blocks, and ends with a vector that nobody uses, so that the
lanes of a store meet different banks. A plan that caches nothing has no tile: threads write the columns of their blocks
from registers, those that have blocks of one row of them side by side.

    let r = ..., c = ...                                                           a block, of 2 rows of 8 here
    X.block[a, b] over b: 8 = X[2*r + a, 8*c + b] vector 8
    for b in 0..8 unroll
      store Y[8*c + b, 2*r + v] over v: 2 = X.block[v, b] vector 2
"""

from __future__ import annotations

from ...ir.body import Axis, Body, Read, Ref, rebuild, substitute
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.neighbours import across_of, crossed_reads
from ...ir.plan import Plan
from ...ir.region import Let, Region
from ...ir.runs import Run
from ...kit.records import dataclass, replace
from ..parts.arrays import shared
from ..parts.element_vectors import parted
from ..parts.fold import type_of
from ..parts.point import Fresh, divides, names_in, needed, split
from ..parts.side_by_side import SideBySide
from ..parts.statements import Statements
from .blocks import Sides, block_of, sides_of, skew_of
from .declare import tile_of


def turned_kernel(plan: Plan, region: Region) -> Kernel:
    """The kernel of a plan of algo `transposed` in vectors, whose tile the caller has checked."""
    turned = _Turned.of(plan, region)
    numbers, grid = turned.numbers, ONE
    for axis in numbers:
        grid = grid * axis.size
    where = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), numbers).items())[::-1]
    arrays = tuple(shared(name, tile_of(plan, region, read)) for read, name in turned.tiles.items())
    passed = (*turned.filled(), nodes.Barrier("cta"), *turned.written())
    body = (*arrays, *where, *(passed if plan.cache else turned.handed()))
    return Kernel(plan.name, plan.regions, plan.arch, (grid,), plan.threads, body)


@dataclass
class _Turned:
    """One kernel on its way: the names of its tiles, and of the numbers of tiles along both axes."""

    plan: Plan
    region: Region
    fresh: Fresh
    along: Axis
    across: Axis
    tiles: dict[Read, str]
    cut: dict[str, Axis]

    @staticmethod
    def of(plan: Plan, region: Region) -> _Turned:
        reads, fresh, sides = crossed_reads(region), Fresh(names_in(region)), sides_of(plan, region)
        along, across = region.iters[-1], across_of(region, reads[0])
        tiles = {read: fresh.name(f"{read.tensor}.tile") for read in reads} if plan.cache else {}
        cut = {
            a.name: Axis(fresh.name(f"{a.name}.o"), (a.size + before).ceildiv(side))
            for a, side, before in (
                (across, sides.across, skew_of(region, block_of(region)) or 0),
                (along, sides.along, 0),
            )
        }
        return _Turned(plan, region, fresh, along, across, tiles, cut)

    @property
    def numbers(self) -> tuple[Axis, ...]:
        """The axes that CTAs count along."""
        return tuple(self.cut.get(a.name, a) for a in self.region.iters)

    def filled(self) -> tuple[Statement, ...]:
        """Each thread's blocks, read and put into the tiles."""
        side, a, b = self.plan.widest, *map(Expr.of, map(self.fresh.of, "ab"))
        lines: list[Statement] = []
        for read, tile in self.tiles.items():
            block, taken = self._taken(read, Expr.of(self.across.name), a, b)
            place = (self.column, self.sides.along * b + side * self.row + a)
            put = nodes.Store(Place(tile, place), Read(block, (a, b), read.dtype), ((str(a), Expr.of(side)),), side)
            lines += [*taken, nodes.For(str(b), ZERO, Expr.of(side), (put,), unroll=0)]
        at = self.corner_across + side * self.column
        guard = self._inside(0 if self.skew else side, self.corner_along)
        body = (nodes.Let(self.across.name, at), *((nodes.If(guard, tuple(lines)),) if guard else lines))
        return self._walk(self.sides.along // side, self.sides.across // side, body)

    def handed(self) -> tuple[Statement, ...]:
        """Each thread's blocks, and the values of their columns from registers."""
        side, a, b, v = self.side, *map(Expr.of, map(self.fresh.of, "abv"))
        first = Expr.of(self.fresh.name(self.across.name))
        lines: list[Statement] = []
        near: dict[Read, Body] = {}
        for read in crossed_reads(self.region):
            block, taken = self._taken(read, first, a, b)
            near[read] = Read(block, (v, b), read.dtype)
            lines += taken
        values = self._values(near)
        there = (Bound(Expr.of(self.across.name), ZERO, self.across.size),) if self.skew else ()
        column = (
            nodes.Let(self.across.name, first + b),
            nodes.Let(self.along.name, self.corner_along),
            *((nodes.If(there, values),) if there else values),
        )
        lines.append(nodes.For(str(b), ZERO, Expr.of(side), column, unroll=0))
        guard = self._inside(0 if self.skew else side, self.corner_along, first)
        at = nodes.Let(str(first), self.corner_across + side * self.column)
        body = (at, *((nodes.If(guard, tuple(lines)),) if guard else lines))
        return self._walk(self.sides.along // self.plan.widest, self.sides.across // side, body)

    def _taken(self, read: Read, first: Expr, a: Expr, b: Expr) -> tuple[str, list[Statement]]:
        """A block of what is read, from its first column on, each line at once; where blocks begin before the first
        point or end behind the last, those of its elements that are there."""
        side, deep = self.side, self.plan.widest
        block = self.fresh.name(f"{read.tensor}.block")
        beside = substitute(read, {self.across.name: first + b})
        taken = nodes.Assign(Place(block, (a, b)), beside, ((str(b), Expr.of(side)),), side)
        here, count = nodes.Let(self.along.name, self.corner_along + a), Expr.of(deep)
        whole: Statement = nodes.For(str(a), ZERO, count, (here, taken), unroll=0)
        if self.skew:
            one = nodes.If((Bound(first + b, ZERO, self.across.size),), (replace(taken, over=(), vector=1),))
            singles = nodes.For(
                str(a), ZERO, count, (here, nodes.For(str(b), ZERO, Expr.of(side), (one,), unroll=0)), unroll=0
            )
            whole = nodes.If((Bound(first, ZERO, self.across.size - (side - 1)),), (whole,), (singles,))
        return block, [nodes.Reg(block, type_of(read.dtype, deep, side)), whole]

    def written(self) -> tuple[Statement, ...]:
        """Each thread's neighbours of the output, read from the tiles."""
        side, v = self.plan.widest, Expr.of(self.fresh.of("v"))
        lines: list[Statement] = []
        near: dict[Read, Body] = {}
        for read, tile in self.tiles.items():
            name = self.fresh.name(f"{read.tensor}.near")
            near[read] = Read(name, (v,), read.dtype)
            inside = self.column - side * (self.column // side)
            place = (self.column // side, self.sides.along * inside + side * self.row + v)
            of = Read(tile, place, read.dtype)
            lines += [
                nodes.Reg(name, type_of(read.dtype, side)),
                nodes.Assign(Place(name, (v,)), of, ((str(v), Expr.of(side)),), side),
            ]
        lines += self._values(near)
        guard = self._inside(1, Expr.of(self.along.name))
        body = (
            nodes.Let(self.across.name, self.corner_across + self.column),
            nodes.Let(self.along.name, self.corner_along),
            *((nodes.If(guard, tuple(lines)),) if guard else lines),
        )
        return self._walk(self.sides.across, self.sides.along // side, body, is_by_rows=True)

    def _values(self, near: dict[Read, Body]) -> tuple[Statement, ...]:
        """The values and stores at neighbours along the output, what is read across taken from registers."""
        region, known = _with_names(self.region, near)
        run, first = Run((self.along,), self.plan.widest), Expr.of(self.along.name)
        beside = _Beside(region, self.fresh, run, first, {self.along.name: self.corner_along})
        writer = Statements(region, self.fresh, known)
        writer.point |= beside.point(run.axes)
        same, varying = parted(writer.values(needed(region, (y.expr for y in region.yields))), beside.turn)
        for item in region.yields:
            body, _ = writer.body(item.expr)
            beside.store(item, body, writer.point, region.iters, varying)
        return (*same, *beside.loop(varying))

    @property
    def row(self) -> Expr:
        """The number of a block in the tile, along the axis that is written along."""
        return Expr.of(self.fresh.of("r"))

    @property
    def column(self) -> Expr:
        """The number of a block in the tile, along the axis that is read along; of a line of it where it is written."""
        return Expr.of(self.fresh.of("c"))

    @property
    def sides(self) -> Sides:
        """Those of a tile."""
        return sides_of(self.plan, self.region)

    @property
    def side(self) -> int:
        """Of a block, along the axis that is read along."""
        return block_of(self.region)

    @property
    def skew(self) -> int:
        """Points that the first access along what is read covers before the first one."""
        return skew_of(self.region, self.side) or 0

    @property
    def corner_across(self) -> Expr:
        """Where a tile begins along the axis that is read along."""
        return self.sides.across * Expr.of(self.cut[self.across.name].name) - self.skew

    @property
    def corner_along(self) -> Expr:
        """Where a block begins along the axis that is written along."""
        return self.sides.along * Expr.of(self.cut[self.along.name].name) + self.plan.widest * self.row

    def _inside(self, columns: int, along: Expr, first: Expr | None = None) -> tuple[Bound, ...]:
        """Guards of a block, or of one line of it, where tiles hang over an end: axes are of whole blocks. Of no
        columns there is nothing to guard."""
        lower = ZERO if self.skew else None
        across = Bound(first or Expr.of(self.across.name), lower, self.across.size - (columns - 1))
        ends = Bound(along, upper=self.along.size - (self.plan.widest - 1))
        is_whole = not self.skew and divides(self.sides.across, self.across.size)
        return (
            *(() if is_whole or not columns else (across,)),
            *(() if divides(self.sides.along, self.along.size) else (ends,)),
        )

    def _walk(
        self, outer: int, inner: int, body: tuple[Statement, ...], is_by_rows: bool = False
    ) -> tuple[Statement, ...]:
        """The body at each pair of numbers that is this thread's, neighbouring threads along the inner one: along rows
        of what is read, or of what is written."""
        (threads,) = self.plan.threads
        turn = Expr.of(self.fresh.of("u"))
        turns = outer * inner // threads
        number = Expr.of("thread.x") + (threads * turn if turns > 1 else 0)
        slow, fast = (self.column, self.row) if is_by_rows else (self.row, self.column)
        lets = (nodes.Let(str(slow), number // inner), nodes.Let(str(fast), number - inner * (number // inner)))
        lines = (*lets, *body)
        return (nodes.For(str(turn), ZERO, Expr.of(turns), lines, unroll=0),)


class _Beside(SideBySide):
    """Neighbours of which registers hold what is read across."""

    def moves_whole(self, body: Body) -> bool:
        """Whether an output's neighbours are those of another tensor, or of registers."""
        return isinstance(body, Read) and self.region.tensor(body.tensor) is None or SideBySide.moves_whole(self, body)


def _with_names(region: Region, near: dict[Read, Body]) -> tuple[Region, dict[str, Body]]:
    """The region with a value in the place of each read across, and what is known of these values."""
    names = {read: f"{body.tensor}.read" for read, body in near.items()}

    def put(body: Body) -> Body:
        return Ref(names[body], body.dtype) if isinstance(body, Read) and body in names else rebuild(body, put)

    lets = (
        *(Let(name, read) for read, name in names.items()),
        *(replace(let, expr=put(let.expr)) for let in region.lets),
    )
    yields = tuple(replace(y, expr=put(y.expr)) for y in region.yields)
    known = {names[read]: body for read, body in near.items()}
    known |= {let.name: near[let.expr] for let in region.lets if let.expr in near}
    return replace(region, lets=lets, yields=yields), known
