"""The template of folds across rows.

    let i0 = 256*cta.x + 8*thread.x                        a thread's columns
    reg y.acc : fp32[8] = 0.0
    for c in thread.y..K step 8 unroll 8                   its elements of the fold
      X.v[v] over v: 8 = X[c, i0 + v] vector 8
      for v in 0..8 unroll
        y.acc[v] = add(y.acc[v], X.v[v])
    store y.part[thread.y, 8*thread.x + v] over v: 8 = y.acc[v]
    barrier cta
    for n in thread.index..256 step 256                    one thread for each column
      if i0 < N
        y.sum[0] = what the threads of the column have, in their order
        the values at this point, and the stores

Where there are few columns, so that many threads share each, they are folded in rounds, a few at once in each, and
always in the same order.

Where rows begin anywhere (4093 columns), those of one thread begin equally far behind a whole access, since its steps
are a multiple of one: its accesses begin as much before its columns, and what it has is taken that far behind.

    let skew = 5*thread.y - 8*floor(5*thread.y/8)
    let i0 = 248*cta.x + 8*thread.x - skew               the last access of a tile is the first of the next
    for k in 0..512
      let c = 8*k + thread.y
      ...
    y.all[0] = y.part[q, n + (5*q - 8*floor(5*q/8))]
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.accumulate import cast, fold_word, start_of, wide
from ...ir.body import Axis, Binary, Read, Select
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Let, Region
from ...ir.runs import Run, column_run
from ...ir.types import DType
from ...kit.records import dataclass
from ..family import Problem
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.point import Fresh, Values, divides, names_in, split
from ..parts.side_by_side import SideBySide
from ..parts.statements import Statements
from .declare import declare, is_held, parts_of, rounds_of
from .match import covered_of, folds_of_columns, is_slanted, length_of, tiles_of


def columns_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `columns`."""
    region, folds = problem.region, folds_of_columns(problem.region)
    made = _Columns.of(plan, region, folds)
    names = (name for parts in made.parts for name in parts)
    arrays = tuple(shared(name, array) for name, array in zip(names, parts_of(plan, problem), strict=True))
    grid = ONE
    for axis in made.numbers:
        grid = grid * axis.size
    where = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), made.numbers).items())[::-1]
    body = (*arrays, *where, *made.folded(), nodes.Barrier("cta"), *made.joined())
    regs = declare(plan, problem).registers if is_held(plan, region) else 0
    return Kernel(plan.name, plan.regions, plan.arch, (grid,), plan.threads, body, regs=regs)


AT_ONCE = 8  # elements of a fold that a thread asks for together


@dataclass
class _Columns:
    """One kernel on its way: the names of each fold's shared arrays round by round, and of the tile's number."""

    plan: Plan
    region: Region
    folds: tuple[Let, ...]
    run: Run
    fresh: Fresh
    parts: tuple[tuple[str, ...], ...]
    cut: Axis

    @staticmethod
    def of(plan: Plan, region: Region, folds: tuple[Let, ...]) -> _Columns:
        fresh, last = Fresh(names_in(region)), region.iters[-1]
        parts = tuple(tuple(fresh.name(f"{let.name}.part") for let in folds) for _ in rounds_of(plan))
        run = column_run(region, plan.widest) if plan.vectorize else None
        run = run or Run((last,), plan.widest)
        tiles = tiles_of(run, plan.tile[0])
        return _Columns(plan, region, folds, run, fresh, parts, Axis(fresh.name(f"{last.name}.o"), tiles))

    @property
    def last(self) -> Axis:
        """The axis along which columns are side by side."""
        return self.region.iters[-1]

    @property
    def numbers(self) -> tuple[Axis, ...]:
        """The axes that CTAs count along."""
        return (*self.region.iters[:-1], self.cut)

    @property
    def corner(self) -> Expr:
        """The first column of a CTA: the first access of all may begin before the first column."""
        first = covered_of(self.run, self.plan.tile[0]) * Expr.of(self.cut.name)
        return first if self.is_slanted else first - self.run.skew

    @property
    def is_slanted(self) -> bool:
        """Whether accesses begin elsewhere in each row of threads."""
        return is_slanted(self.run)

    def behind(self, row: Expr) -> Expr:
        """How far behind its first access a row of threads has the CTA's first column."""
        if not self.is_slanted:
            return ZERO
        (along,) = {axis.name for let in self.folds for axis in let.expr.axes}
        start = self.run.start.substitute({along: row})
        return start - self.run.width * (start // self.run.width)

    def folded(self) -> tuple[Statement, ...]:
        """What each thread folds, put where its column's threads meet."""
        width, v = self.plan.widest, Expr.of(self.fresh.of("v"))
        accumulators = [self.fresh.name(f"{let.name}.acc") for let in self.folds]
        registers, puts = [], []
        for let, name, part in zip(self.folds, accumulators, self.parts[0]):
            dtype = wide(let.expr.dtype)
            registers.append(nodes.Reg(name, type_of(dtype, width), init=start_of(let.expr.op, let.expr.dtype)))
            at = v if width > 1 else ZERO
            place = Place(part, (Expr.of("thread.y"), width * Expr.of("thread.x") + at))
            over = ((str(v), Expr.of(width)),) if width > 1 else ()
            puts.append(nodes.Store(place, Read(name, (at,), dtype), over))
        first = nodes.Let(self.last.name, self.corner - self.behind(Expr.of("thread.y")) + width * Expr.of("thread.x"))
        counter = Expr.of(self.fresh.of("c"))
        steps, singles = self._steps(accumulators, counter)
        guard = self._inside(Expr.of(self.last.name), width)
        is_cut = self.run.start != ZERO or guard and not self.run.is_whole
        otherwise: tuple[Statement, ...] = ()
        if is_cut:
            one = (*((self._wrapped(width),) if self._is_wrapped else ()), self._loop(counter, singles))
            otherwise = (nodes.For(self.fresh.of("v"), ZERO, Expr.of(width), one, unroll=0),)
        if is_cut and self.run.start != ZERO:  # of a thread that has no column there is nothing to fold
            column = Expr.of(self.last.name)
            otherwise = (nodes.If((Bound(column, Expr.of(1 - width), self.last.size),), otherwise),)
        loop = self._loop(counter, steps)
        # a loop of its own keeps the name of the column to itself
        walk = nodes.For(
            self.fresh.of("w"), ZERO, ONE, (first, nodes.If(guard, (loop,), otherwise) if guard else loop), unroll=0
        )
        return (*registers, walk, *puts)

    @property
    def _is_wrapped(self) -> bool:
        """Whether a column that is not there is one from the other end."""
        return self.last.size.constant is not None

    def _wrapped(self, width: int) -> Statement:
        """The column of a thread that takes its columns one by one, found before it walks over the fold."""
        column = Expr.of(self.last.name) + (self.fresh.of("v") if width > 1 else 0)
        return nodes.Let(self.fresh.of("at"), column - self.last.size * (column // self.last.size))

    def _inside(self, column: Expr, width: int) -> tuple[Bound, ...]:
        """What says that `width` columns are there."""
        lower = None if self.run.start == ZERO else ZERO
        is_whole = self.run.start == ZERO and divides(self.plan.tile[0], self.last.size)
        return () if is_whole else (Bound(column, lower, self.last.size - (width - 1)),)

    def _loop(self, counter: Expr, steps: Iterable[Statement]) -> Statement:
        """The elements of the fold that are a thread's."""
        length, apart = length_of(self.region), self.plan.threads[1]
        if self.is_slanted:  # so that it is seen where the rows of a thread begin
            turn = self.fresh.of("k")
            place = nodes.Let(str(counter), self._place(Expr.of(turn)))
            return nodes.For(turn, ZERO, length.ceildiv(apart), (place, *steps), unroll=AT_ONCE)
        return nodes.For(str(counter), Expr.of("thread.y"), length, tuple(steps), step=Expr.of(apart), unroll=AT_ONCE)

    def _place(self, turn: Expr) -> Expr:
        """The element of the fold that a thread takes in a turn."""
        return self.plan.threads[1] * turn + Expr.of("thread.y")

    def _steps(self, accumulators: list[str], counter: Expr) -> tuple[list[Statement], list[Statement]]:
        """One element of each fold, of all columns of the thread; and of one of them. Where that column is not there it
        is one from the other end, of which nobody takes what is folded, or where columns are not counted yet, what is
        folded stays as it is: a condition around loads would hold back those that follow."""
        width, first = self.plan.widest, Expr.of(self.last.name)
        lets = {self.last.name: self.corner - self.behind(Expr.of("thread.y")) + width * Expr.of("thread.x")}
        lets |= {str(counter): self._place(Expr.of(self.fresh.of("k")))} if self.is_slanted else {}
        beside = SideBySide(self.region, self.fresh, self.run, first, lets, keeps_guards=self.is_slanted)
        at = Expr.of(beside.turn) if width > 1 else ZERO
        steps: list[Statement] = []
        singles: list[Statement] = []
        columns = (first + at, Expr.of(self.fresh.of("at")) if self._is_wrapped else first + at)
        guards = ((), () if self._is_wrapped else self._inside(first + at, 1))
        short = self.is_slanted and not divides(self.plan.threads[1], length_of(self.region))
        rows = (Bound(counter, upper=length_of(self.region)),) if short else ()
        for let, name in zip(self.folds, accumulators):
            fold, dtype = let.expr, wide(let.expr.dtype)
            held, nothing = Read(name, (at,), dtype), start_of(fold.op, fold.dtype)
            for lines, column, guard in zip((steps, singles), columns, guards):
                point = {a.name: Expr.of(a.name) for a in self.region.iters} | {self.last.name: column}
                element = cast(Values(self.region, point | split(counter, fold.axes)).at(fold.body), dtype)
                value = Select((*guard, *rows), element, nothing, dtype) if guard or rows else element
                folded = Binary(fold_word(fold.op, dtype), held, value, dtype)
                lines.append(nodes.Assign(Place(name, (at,)), folded))
        return beside.loop(steps) if width > 1 else steps, singles

    def joined(self) -> tuple[Statement, ...]:
        """The rounds in which a column's numbers become one, and what is made of it."""
        *rounds, last = rounds_of(self.plan)
        left, found = self.plan.threads[1], []
        for step, number in enumerate(rounds):
            left //= number
            found += [self._round(step, number, left, step == 0), nodes.Barrier("cta")]
        column = Expr.of(self.fresh.of("n"))
        lines, totals = self._totals(self.parts[-1], last, 1, ZERO, column, not rounds)
        known = {let.name: cast(total, let.expr.dtype) for let, total in zip(self.folds, totals)}
        values = Statements(self.region, self.fresh, known).at_point(self.region.yields)
        columns, threads = covered_of(self.run, self.plan.tile[0]), self.plan.threads[0] * self.plan.threads[1]
        inside = self._inside(Expr.of(self.last.name), 1)
        here = (*lines, *values)
        body = (nodes.Let(self.last.name, self.corner + column), *((nodes.If(inside, here),) if inside else here))
        walk = nodes.For(str(column), Expr.of("thread.index"), Expr.of(columns), body, step=Expr.of(threads))
        return (*found, walk)

    def _round(self, step: int, number: int, left: int, is_first: bool) -> Statement:
        """Groups of threads fold `number` numbers of each column, which leaves `left`."""
        columns, thread = self.plan.tile[0], Expr.of("thread.index")
        group, column = Expr.of(self.fresh.of("g")), Expr.of(self.fresh.of("n"))
        lines, totals = self._totals(self.parts[step], number, left, group, column, is_first)
        puts = (nodes.Store(Place(part, (group, column)), total) for part, total in zip(self.parts[step + 1], totals))
        covered = covered_of(self.run, columns)
        there = (Bound(column, upper=Expr.of(covered)),) if covered < columns else ()
        body = (
            nodes.Let(str(group), thread // columns),
            nodes.Let(str(column), thread - columns * (thread // columns)),
            nodes.If((Bound(group, upper=Expr.of(left)), *there), (*lines, *puts)),
        )
        return nodes.For(self.fresh.of("w"), ZERO, ONE, body, unroll=0)

    def _totals(
        self, parts: tuple[str, ...], number: int, apart: int, group: Expr, column: Expr, is_first: bool
    ) -> tuple[list[Statement], list[Read]]:
        """The statements that fold `number` numbers of a column, `apart` from one another, and for each fold the
        register that holds what they give. What `is_first` is as the threads left it."""

        def found(part: str, row: Expr, dtype: DType) -> Read:
            return Read(part, (row, column + self.behind(row) if is_first else column), dtype)

        lines: list[Statement] = []
        totals: list[Read] = []
        turn = Expr.of(self.fresh.of("q"))
        for let, part in zip(self.folds, parts):
            dtype, name = wide(let.expr.dtype), self.fresh.of(f"{let.name}.all")
            total, more = Read(name, (ZERO,), dtype), found(part, group + apart * turn, dtype)
            step = nodes.Assign(Place(name, (ZERO,)), Binary(fold_word(let.expr.op, dtype), total, more, dtype))
            lines.append(nodes.Reg(name, type_of(dtype, 1)))
            lines.append(nodes.Assign(Place(name, (ZERO,)), found(part, group, dtype)))
            lines += [nodes.For(str(turn), ONE, Expr.of(number), (step,), unroll=0)] if number > 1 else []
            totals.append(total)
        return lines, totals
