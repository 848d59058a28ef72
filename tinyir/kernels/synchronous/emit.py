"""The synchronous template of a contraction (seed 002 section 6): tiles of both operands in shared memory, a micro tile
of accumulators a thread, the epilogue on the accumulators.

    shared a, b                         one tile each, along k first, in the operands' dtypes (`tiles`)
    for k: copy a, b; barrier; multiply micro tiles; barrier
    for each accumulator: the values after the fold, and the stores, where the tile is inside

With `stages 2` there are two tiles of each, and one barrier a step:

    copy a[0], b[0]; barrier
    for k: copy a[p.slot], b[p.slot] of the next step; multiply a[s.slot], b[s.slot]; barrier

What an operand's tile holds is its factor of the product at the tile's points: a transposed operand, a guard of
padding, a batch axis are all in the read's map, and a prologue (a dequantised weight, an activation) is computed as the
tile is filled. Lanes follow the axis along which the operand is contiguous in memory; where that is k, a warp takes 4 x
8 points and rows of the tile are padded, so that neither side has conflicts.
"""

from __future__ import annotations

import math

from ...ir.accumulate import cast, literal, wide, widened
from ...ir.body import Axis, Binary, Body, Read, Reduce
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ..family import Problem
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.picks import sibling_let
from ..parts.point import Fresh, Values, below, divides, element_store, guarded, named, names_in, split
from ..problem import SIBLING
from .declare import declare, lies_along_sum, tile_array, width_of
from .tiles import stored_factor

IN_A_ROW = 128  # multiply-adds of a thread between two branches
LANES_OF_K = 8  # of a warp, when the operand is contiguous along k: 8 x 2 bytes are half a sector


@dataclass(frozen=True, slots=True)
class Side:
    """One operand: its factor, the axes it has alone, and how the tile and the threads go along them. `width`
    neighbours are one access to the tile. `tile`, `share`, `origin`, `loop` and `number` name its tile, the thread's
    part of it, the tile's first element, the accumulators' loop, and the number of an element along the side."""

    factor: Body
    read: Read
    axes: tuple[Axis, ...]
    size: int
    micro: int
    width: int
    place: str
    threads: int
    cta: str
    tile: str
    share: str
    origin: str
    loop: str
    number: str

    @property
    def extent(self) -> Expr:
        """Elements along the side."""
        return extent_of(self.axes)

    @property
    def first(self) -> Expr:
        """The number of the tile's first element."""
        return Expr.of(self.origin) if self.cta else ZERO

    @property
    def guard_is_needed(self) -> bool:
        """Whether the last tile may reach over the end."""
        return not divides(self.size, self.extent)


def synchronous_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `synchronous`."""
    return _Template(plan, problem).kernel_text()


class _Template:
    """The template with one plan's numbers and one region's maps in it."""

    def __init__(self, plan: Plan, problem: Problem):
        self.plan = plan
        self.problem = problem
        self.region, self.kernel = problem.region, problem.kernel
        self.fold: Reduce = self.region.let(self.kernel.value).expr
        self.dtype = wide(self.fold.body.dtype)
        self.held = widened(self.fold).dtype  # of the accumulators
        self.depth = plan.tile[2]
        self.names = Fresh(names_in(self.region))
        self.acc, self.k, self.kk = map(self.names.of, ("acc", "k", "kk"))
        self.slot, self.filled = map(self.names.of, ("s", "p"))  # cursors of the ring, where there is one
        self.number = self._cta_of(self.kernel.batch) if self.kernel.batch else ZERO  # along the batch axes
        self.batch = split(self.number, self.kernel.batch)
        self.sides = self._sides()

    def kernel_text(self) -> Kernel:
        """Tiles and registers, the loop over the sum, the epilogue."""
        plan, sides, depth = self.plan, self.sides, self.depth
        body: list[Statement] = [*sibling_let(self.kernel, self.number, self.names.of(SIBLING))]
        body += (shared(s.tile, tile_array(plan, self.kernel, number)) for number, s in enumerate(sides))
        body.append(nodes.Reg(self.acc, type_of(self.held, *(s.micro for s in sides)), init=literal(0, self.held)))
        body += [nodes.Reg(s.share, type_of(self.dtype, s.micro)) for s in sides]
        body += [nodes.Let(s.origin, s.size * Expr.of(s.cta)) for s in sides if s.cta]
        multiply = nodes.For(
            self.kk, ZERO, Expr.of(depth), (*map(self._share, sides), self._multiply()), unroll=self._turns()
        )
        body += self._in_turn(multiply) if plan.stages > 1 else self._alone(multiply)
        body.append(self._epilogue())
        return Kernel(
            plan.name,
            plan.regions,
            plan.arch,
            self._grid(),
            plan.threads,
            tuple(body),
            regs=declare(plan, self.problem).registers,
        )

    def _alone(self, multiply: Statement) -> tuple[Statement, ...]:
        """The walk along the sum with one tile of each operand."""
        fill = [self._copy(side, Expr.of(self.k)) for side in self.sides]
        loop = (*fill, nodes.Barrier("cta"), multiply, nodes.Barrier("cta"))
        return (nodes.For(self.k, ZERO, extent_of(self.kernel.sum), loop, step=Expr.of(self.depth)),)

    def _in_turn(self, multiply: Statement) -> tuple[Statement, ...]:
        """The walk with two: the next tiles are brought in while these are multiplied."""
        total, following = extent_of(self.kernel.sum), Expr.of(self.k) + self.depth
        cursors = tuple(
            nodes.Cursor(name, self.plan.stages, at)
            for name, at in ((self.slot, 0), (self.filled, 1 % self.plan.stages))
        )
        begun = tuple(self._copy(side, ZERO, ZERO) for side in self.sides)
        ahead = tuple(self._copy(side, following, Expr.of(f"{self.filled}.slot")) for side in self.sides)
        onward = (nodes.Barrier("cta"), *(nodes.Advance(c.name) for c in cursors))
        loop = (nodes.If(below(following, total), ahead), multiply, *onward)
        walk = nodes.For(self.k, ZERO, total, loop, step=Expr.of(self.depth))
        return (*cursors, *begun, nodes.Barrier("cta"), walk)

    def _turns(self) -> int:
        """How many k are written out in a row: enough to keep a scheduler busy, and few enough that no register
        spills."""
        turns = max(1, IN_A_ROW // math.prod(self.plan.micro))
        return 0 if turns >= self.depth else turns

    def _sides(self) -> tuple[Side, Side]:
        """The operands as the plan cuts them."""
        plan, kernel = self.plan, self.kernel
        sides = []
        for at, (read, axes) in enumerate(((kernel.lhs, kernel.left), (kernel.rhs, kernel.right))):
            place = plan.place_of(f"{axes[-1].name}.i") or ""
            threads = dict(zip(("thread.x", "thread.y", "thread.z"), plan.threads)).get(place, 1)
            size, micro = plan.tile[at], plan.micro[at]
            width = width_of(plan, kernel, at)
            named_so = (
                self.names.of(bases[at])
                for bases in (("a", "b"), ("ar", "br"), ("m0", "n0"), ("i", "j"), ("row", "col"))
            )
            sides.append(
                Side(
                    stored_factor(kernel, at),
                    read,
                    axes,
                    size,
                    micro,
                    width,
                    place,
                    threads,
                    self._place_of(axes),
                    *named_so,
                )
            )
        return tuple(sides)

    def _place_of(self, axes: tuple[Axis, ...]) -> str:
        return self.plan.place_of(f"{axes[0].name}.o") or self.plan.place_of(axes[0].name) or ""

    def _cta_of(self, axes: tuple[Axis, ...]) -> Expr:
        return Expr.of(self._place_of(axes)) if self._place_of(axes) else ZERO

    def _is_along_k(self, side: Side) -> bool:
        """Whether neighbours along the sum are neighbours in memory."""
        return lies_along_sum(self.kernel, side.read)

    def _grid(self) -> tuple[Expr, ...]:
        counts = {s.cta: s.extent.ceildiv(s.size) for s in self.sides if s.cta}
        if self.kernel.batch:
            counts[self._place_of(self.kernel.batch)] = extent_of(self.kernel.batch)
        used = [counts.get(place, ONE) for place in ("cta.x", "cta.y", "cta.z")]
        while len(used) > 1 and used[-1] == ONE:
            used.pop()
        return tuple(used)

    def _copy(self, side: Side, start: Expr, slot: Expr | None = None) -> Statement:
        """Fills one operand's tile from the element `start` of the sum on. Outside the operand it holds zero, which
        adds nothing."""
        depth, of = self.depth, self.names.of
        if self._is_along_k(side):
            lanes, across = math.gcd(LANES_OF_K, depth), math.gcd(side.width, side.size)
            over = ((of("ro"), side.size // across), (of("co"), depth // lanes), (of("ri"), across), (of("ci"), lanes))
            row, column = across * Expr.of(of("ro")) + of("ri"), lanes * Expr.of(of("co")) + of("ci")
        else:
            over = ((of("c"), depth), (of("r"), side.size))
            row, column = Expr.of(of("r")), Expr.of(of("c"))
        none = {name: ZERO for name, size in over if size == 1}
        row, column = row.substitute(none), column.substitute(none)
        first, first_lets = named(side.axes, side.first + row, side.number)
        second, second_lets = named(self.kernel.sum, start + column, of("term"))
        guard = below(first, side.extent) if side.guard_is_needed else ()
        guard += () if divides(depth, extent_of(self.kernel.sum)) else below(second, extent_of(self.kernel.sum))
        point = {a.name: Expr.of(a.name) for a in (*side.axes, *self.kernel.sum)}
        factor = Values(self.region, {**self.batch, **point}).at(side.factor)
        axes = tuple((name, Expr.of(size)) for name, size in over if size > 1)
        return nodes.Copy(
            Place(side.tile, (column, row), slot), axes, guarded(guard, factor), lets=(*first_lets, *second_lets)
        )

    def _share(self, side: Side) -> Statement:
        """The thread's part of one k of a tile, in accesses of `width` elements."""
        group, v = self.names.of("g"), self.names.of("v")
        groups = side.micro // side.width
        g = Expr.of(group) if groups > 1 else ZERO
        own = side.width * Expr.of(side.place) if side.place else ZERO
        slot = Expr.of(f"{self.slot}.slot") if self.plan.stages > 1 else None
        place = (Expr.of(self.kk), side.width * side.threads * g + own + v)
        source = cast(Read(side.tile, place, side.factor.dtype, slot), self.dtype)
        load = nodes.Assign(Place(side.share, (side.width * g + v,)), source, ((v, Expr.of(side.width)),), side.width)
        return nodes.For(group, ZERO, Expr.of(groups), (load,), unroll=0) if groups > 1 else load

    def _multiply(self) -> Statement:
        rows, columns = self.sides
        point = tuple(Expr.of(s.loop) for s in self.sides)
        left, right = (Read(s.share, (e,), self.dtype) for s, e in zip(self.sides, point))
        product: Body = cast(Binary("mul", left, right, self.dtype), self.fold.body.dtype)
        sum_so_far = Read(self.acc, point, self.held)
        step = nodes.Assign(Place(self.acc, point), Binary("add", sum_so_far, cast(product, self.held), self.held))
        inner = nodes.For(columns.loop, ZERO, Expr.of(columns.micro), (step,), unroll=0)
        return nodes.For(rows.loop, ZERO, Expr.of(rows.micro), (inner,), unroll=0)

    def _number_of(self, side: Side) -> Expr:
        """Where accumulator `loop` of the thread is along its side: groups of `width`, a whole row of threads
        apart."""
        loop = Expr.of(side.loop)
        own = side.width * Expr.of(side.place) if side.place else ZERO
        return side.first + own + loop + side.width * (side.threads - 1) * (loop // side.width)

    def _epilogue(self) -> Statement:
        """The values after the fold at each accumulator's point, then the writes, where the point is inside the
        output."""
        rows, columns = self.sides
        point = {**self.batch, **{a.name: Expr.of(a.name) for s in self.sides for a in s.axes}}
        acc = Read(self.acc, (Expr.of(rows.loop), Expr.of(columns.loop)), self.held)
        values = Values(self.region, point, {self.kernel.value: cast(acc, self.fold.dtype)})
        statements = values.name_values()
        statements += [
            element_store(item, values.at(item.expr), point, self.region.iters) for item in self.region.yields
        ]
        guard: tuple[Bound, ...] = ()
        numbers: list[Statement] = []
        parts: list[Statement] = []
        for side in self.sides:
            index, made = named(side.axes, self._number_of(side), side.number)
            guard += below(index, side.extent) if side.guard_is_needed else ()
            numbers.append(nodes.Let(*made[0]))
            parts += [nodes.Let(name, e) for name, e in made[1:]]
        inner = (nodes.If(guard, (*parts, *statements)),) if guard else (*parts, *statements)
        across = nodes.For(columns.loop, ZERO, Expr.of(columns.micro), (numbers[1], *inner), unroll=0)
        return nodes.For(rows.loop, ZERO, Expr.of(rows.micro), (numbers[0], across), unroll=0)
