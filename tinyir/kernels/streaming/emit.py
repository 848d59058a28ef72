"""The streaming template: two contractions with a softmax between them, without tensor cores (`kernels.attention` has
the algebra).

    copy q                                        the CTA's rows of the query, once
    for each tile of columns that the masks touch
      copy k, v; barrier
      sc = q * k, and the work on each element    a micro tile a thread, outside the masks and the tensor -inf
      top, scale, weights; store p; barrier       sums under the old maximum are scaled to the new one
      acc += p * v; barrier
    for each row and column of the output: acc over the row's total, the values after the sum, the stores

Tiles have the layout of their tensors, rows first. A thread has rows `micro*thread.y + i` of all of them, of the scores
the columns `thread.x` apart by the block's width, of the output neighbours by access.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.accumulate import cast, fold_word, literal, neutral_of
from ...ir.body import Axis, Binary, Body, Gather, Literal, Read, Reduce, Ref, Scan, Scatter, Select, Ternary
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...ir.types import DTYPES
from ..attention import masks_of, tile_is_touched
from ..attention.score import is_bare
from ..family import Problem
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.point import Fresh, Values, below, choice, divides, element_store, guarded, named, names_in, needed, split
from .declare import TILES, declare, streamed_tiles, tile_arrays, width_each

UNROLLED = 128  # multiply-adds of a thread between two branches


def streaming_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `streaming`."""
    return _Template(plan, problem).kernel_text()


class _Template:
    """The template with one plan's numbers and two regions' maps in it."""

    def __init__(self, plan: Plan, problem: Problem):
        kernel = problem.kernel
        self.plan, self.problem = plan, problem
        self.first, self.second, self.kernel = kernel.first, kernel.second, kernel
        self.dtype = kernel.dtype
        self.rows, self.columns = plan.tile[:2]
        self.each_row, self.each_column = plan.micro
        self.each_width = width_each(plan, kernel)
        self.access = kernel.access
        self.tiles = streamed_tiles(plan, kernel)
        self.fresh = Fresh({*names_in(self.first), *names_in(self.second)})
        self.across = plan.threads[0]
        of = self.fresh.of
        self.q, self.k, self.v, self.p = map(of, TILES)
        self.acc, self.scores, self.top, self.total = map(of, ("acc", "sc", "top", "total"))
        self.m0, self.n0, self.i, self.j, self.u = map(of, ("m0", "n0", "i", "j", "u"))
        self.row = self.m0_expr + self.each_row * Expr.of("thread.y") + self.i
        self.column = Expr.of(self.n0) + "thread.x" + self.across * Expr.of(self.j)
        self.is_row_guarded = not divides(self.rows, kernel.row.size)
        self.is_column_guarded = not divides(self.columns, kernel.column.size)
        self.point = {a.name: Expr.of(a.name) for a in self.first.iters}
        self.folds = tuple((name, self.first.let(name).expr) for name in kernel.folds)
        self.fold = {name: of(f"{name}.row") for name in kernel.folds}

    @property
    def m0_expr(self) -> Expr:
        """The first row of the CTA."""
        return Expr.of(self.m0)

    def kernel_text(self) -> Kernel:
        """Tiles and registers, the walk along the columns, the epilogue."""
        plan, kernel = self.plan, self.kernel
        body: list[Statement] = [
            shared(name, array)
            for name, array in zip((self.q, self.k, self.v, self.p), tile_arrays(plan, kernel), strict=True)
        ]
        each = type_of(self.dtype, self.each_row)
        body += [nodes.Reg(self.top, each, init=neutral_of("max", self.dtype))] if kernel.top else []
        body += [nodes.Reg(self.total, each, init=literal(0, self.dtype))] if kernel.total else []
        body += [
            nodes.Reg(self.fold[n], type_of(f.dtype, self.each_row), init=neutral_of(f.op, f.dtype))
            for n, f in self.folds
        ]
        body.append(
            nodes.Reg(self.acc, type_of(self.dtype, self.each_row, self.each_width), init=literal(0, self.dtype))
        )
        body += (
            [
                nodes.Let(name, e)
                for name, e in split(Expr.of(plan.place_of(kernel.outer[0].name)), kernel.outer).items()
            ]
            if kernel.outer
            else []
        )
        body.append(nodes.Let(self.m0, self.rows * self._turn()))
        body.append(self._fill(self.q, self.first, kernel.query, kernel.row, self.m0_expr, self.rows, kernel.depth, {}))
        there = {n: Expr.of(m) for n, m in kernel.meets if m != kernel.column.name}
        sum_axis = next(n for n, m in kernel.meets if m == kernel.column.name)
        tile: list[Statement] = [
            self._fill(self.k, self.first, kernel.key, kernel.column, Expr.of(self.n0), self.columns, kernel.depth, {}),
            self._fill(
                self.v,
                self.second,
                kernel.value,
                Axis(sum_axis, kernel.column.size),
                Expr.of(self.n0),
                self.columns,
                kernel.width,
                there,
            ),
            nodes.Barrier("cta"),
            *self._score(),
            *self._weigh(),
            nodes.Barrier("cta"),
            self._gather(),
            nodes.Barrier("cta"),
        ]
        touched = tile_is_touched(kernel, self.first, (self.rows, self.columns), (self.m0_expr, Expr.of(self.n0)))
        inner = (nodes.If(touched, tuple(tile)),) if touched else tuple(tile)
        body.append(nodes.For(self.n0, ZERO, kernel.column.size, inner, step=Expr.of(self.columns)))
        body += [nodes.WarpReduce("sum", self.total, self.across)] if kernel.total else []
        body += [nodes.WarpReduce(fold.op, self.fold[name], self.across) for name, fold in self.folds]
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

    @property
    def _row_place(self) -> str:
        return self.plan.place_of(f"{self.kernel.row.name}.o") or self.plan.place_of(self.kernel.row.name) or ""

    def _grid(self) -> tuple[Expr, ...]:
        """CTAs along each place that the plan binds."""
        counts = {self._row_place: self.kernel.row.size.ceildiv(self.rows)}
        if self.kernel.outer:
            counts[self.plan.place_of(self.kernel.outer[0].name)] = extent_of(self.kernel.outer)
        used = [counts.get(place, ONE) for place in ("cta.x", "cta.y", "cta.z")]
        while len(used) > 1 and used[-1] == ONE:
            used.pop()
        return tuple(used)

    def _turn(self) -> Expr:
        """Which rows a CTA takes. Where later rows meet more columns they come first: the longest work is not left to
        the end."""
        if not self._row_place:
            return ZERO
        turn = Expr.of(self._row_place)
        grows = any(
            b.lower is not None
            and any(c > 0 and m == (self.kernel.row.name,) for c, m in b.expr.terms)
            and b.upper is None
            for b in masks_of(self.kernel, self.first)
        )
        return self.kernel.row.size.ceildiv(self.rows) - 1 - turn if grows else turn

    def _fill(
        self,
        tile: str,
        region: Region,
        factor: Body,
        along: Axis,
        first: Expr,
        count: int,
        across: Sequence[Axis],
        there: dict[str, Expr],
    ) -> Statement:
        """One operand's tile: `count` elements of `along` from `first` on, each with all of `across`. Outside the
        operand it holds zero."""
        r, c = self.fresh.of("r"), self.fresh.of("c")
        size = extent_of(tuple(across)).constant
        columns = self.tiles[(self.q, self.k, self.v).index(tile)][1]
        columns -= 0 if tile == self.v else self.access
        _, lets = named(across, Expr.of(c), self.fresh.of("term"))
        guard = () if divides(count, along.size) else below(Expr.of(along.name), along.size)
        guard += below(Expr.of(c), Expr.of(size)) if columns > size else ()
        point = {**self.point, **there, along.name: Expr.of(along.name), **{a.name: Expr.of(a.name) for a in across}}
        value = cast(Values(region, point).at(factor), self.dtype)
        over = ((r, Expr.of(count)), (c, Expr.of(columns)))
        return nodes.Copy(
            Place(tile, (Expr.of(r), Expr.of(c))), over, guarded(guard, value), lets=((along.name, first + r), *lets)
        )

    # --- one tile of columns

    def _score(self) -> list[Statement]:
        """The first product's micro tile, an access of the depth at a time."""
        kk, width = self.fresh.of("kk"), self.access
        depth = self.tiles[0][1] - width
        ours, theirs = self.each_row * Expr.of("thread.y") + self.i, Expr.of("thread.x") + self.across * Expr.of(self.j)
        steps = [
            self._part(self.fresh.of("qr"), self.q, (self.i, self.each_row), ours, Expr.of(kk)),
            self._part(self.fresh.of("kr"), self.k, (self.j, self.each_column), theirs, Expr.of(kk)),
        ]
        left, right = (
            Read(n, (Expr.of(x), Expr.of(self.u)), self.dtype)
            for n, x in ((self.fresh.of("qr"), self.i), (self.fresh.of("kr"), self.j))
        )
        add = self._accumulate(self.scores, (self.i, self.j), left, right, self.kernel.product)
        multiply = self._over(add, (self.u, width), (self.i, self.each_row), (self.j, self.each_column))
        turns = max(1, UNROLLED // (width * self.each_row * self.each_column))
        loop = nodes.For(kk, ZERO, Expr.of(depth), (*steps, multiply), step=Expr.of(width), unroll=turns)
        regs = [
            nodes.Reg(self.fresh.of(n), type_of(self.dtype, count, width))
            for n, count in (("qr", self.each_row), ("kr", self.each_column))
        ]
        zero = nodes.Reg(self.scores, type_of(self.dtype, self.each_row, self.each_column), init=literal(0, self.dtype))
        return [zero, *regs, loop, self._mask()]

    def _part(self, to: str, tile: str, turn: tuple[str, int], row: Expr, column: Expr) -> Statement:
        """A thread's rows of a tile, one access of each."""
        w = self.fresh.of("x")
        source = Read(tile, (row, column + w), self.dtype)
        load = nodes.Assign(
            Place(to, (Expr.of(turn[0]), Expr.of(w))), source, ((w, Expr.of(self.access)),), self.access
        )
        return self._over(load, turn)

    def _over(self, inner: Statement, *turns: tuple[str, int]) -> Statement:
        """Unrolled loops around a statement, the first outermost."""
        for name, count in reversed(turns):
            inner = nodes.For(name, ZERO, Expr.of(count), (inner,), unroll=0)
        return inner

    def _accumulate(self, to: str, index: tuple[str, str], left: Body, right: Body, product: object) -> Statement:
        place = tuple(map(Expr.of, index))
        term = cast(Binary("mul", left, right, self.dtype), product)
        return nodes.Assign(
            Place(to, place), Binary("add", Read(to, place, self.dtype), cast(term, self.dtype), self.dtype)
        )

    def _mask(self) -> Statement:
        """The work on each score; -inf outside the tensor, where no mask is read."""
        kernel = self.kernel
        score = Read(self.scores, (Expr.of(self.i), Expr.of(self.j)), self.dtype)
        inside, values = self._work(score)
        element = score if kernel.element == kernel.scores else values.at(self.first.let(kernel.element).expr)
        place = Place(self.scores, score.index)
        for name, fold in self.folds:
            kept = Read(self.fold[name], (Expr.of(self.i),), fold.dtype)
            term = Binary(fold_word(fold.op, fold.dtype), kept, cast(values.at(fold.body), fold.dtype), fold.dtype)
            inside.append(nodes.Assign(Place(self.fold[name], kept.index), term))
        if element != score:
            inside.append(nodes.Assign(place, element))
        guard = below(Expr.of(kernel.row.name), kernel.row.size) if self.is_row_guarded and inside else ()
        guard += below(Expr.of(kernel.column.name), kernel.column.size) if self.is_column_guarded else ()
        nothing = nodes.Assign(place, neutral_of("max", self.dtype))
        work = (
            (nodes.If(guard, tuple(inside), (nothing,)),)
            if guard and inside
            else (nodes.Assign(place, Select(guard, score, neutral_of("max", self.dtype), self.dtype)),)
            if guard
            else tuple(inside)
        )
        column = nodes.For(
            self.j, ZERO, Expr.of(self.each_column), (nodes.Let(kernel.column.name, self.column), *work), unroll=0
        )
        return nodes.For(self.i, ZERO, Expr.of(self.each_row), (nodes.Let(kernel.row.name, self.row), column), unroll=0)

    def _work(self, score: Body) -> tuple[list[Statement], Values]:
        """The values that the element and the folds of a row are made of, at one score."""
        kernel = self.kernel
        lines: list[Statement] = []

        def emit(inner: Reduce | Gather | Scan | Scatter, values: Values) -> Body:
            assert isinstance(inner, Gather), "the rule lets no other fold in"
            return choice(inner, values, self.fresh.name(f"{inner.axis.name}.at"), lines)

        values = Values(self.first, self.point, {kernel.scores: score}, emit)
        wanted = [self.first.let(kernel.element).expr] if kernel.element != kernel.scores else []
        for name in needed(self.first, (*wanted, *(fold.body for _, fold in self.folds))):
            if name != kernel.scores:
                lines.append(nodes.Value(name, values.at(self.first.let(name).expr)))
                values.known[name] = Ref(name, self.first.let(name).expr.dtype)
        return lines, values

    def _weigh(self) -> list[Statement]:
        """The new maximum, what the old sums are worth under it, and the weights."""
        best, base, scale = self.fresh.of("best"), self.fresh.of("base"), self.fresh.of("scale")
        i, dtype = Expr.of(self.i), self.dtype
        score = Read(self.scores, (i, Expr.of(self.j)), dtype)
        old, new = Read(self.top, (i,), dtype), Read(best, (i,), dtype)
        start = nodes.Assign(Place(best, (i,)), old)
        fold = nodes.Assign(Place(best, (i,)), Binary("max", new, score, dtype))
        lowest = neutral_of("max", dtype)
        finite = Ternary("where", Binary("cmpeq", new, lowest, DTYPES["bool"]), literal(0, dtype), new, dtype)
        into = Place(
            self.p, (self.each_row * Expr.of("thread.y") + self.i, Expr.of("thread.x") + self.across * Expr.of(self.j))
        )
        total = Read(self.total, (i,), dtype)
        held = Read(self.acc, (i, Expr.of(self.u)), dtype)
        rescale = nodes.Assign(Place(self.acc, held.index), Binary("mul", held, Ref(scale, dtype), dtype))
        weights = nodes.For(
            self.j, ZERO, Expr.of(self.each_column), self._weights(score, Ref(base, dtype), total, into), unroll=0
        )
        if not self.kernel.top:
            return [nodes.For(self.i, ZERO, Expr.of(self.each_row), (*self._named_row(), weights), unroll=0)]
        sums = (nodes.Assign(Place(self.total, (i,)), Binary("mul", total, Ref(scale, dtype), dtype)),)
        row = (
            *self._named_row(),
            nodes.Value(base, finite),
            nodes.Value(scale, self._weight(old, Ref(base, dtype))),
            nodes.Assign(Place(self.top, (i,)), new),
            *(sums if self.kernel.total else ()),
            nodes.For(self.u, ZERO, Expr.of(self.each_width), (rescale,), unroll=0),
            weights,
        )
        return [
            nodes.Reg(best, type_of(dtype, self.each_row)),
            nodes.For(
                self.i, ZERO, Expr.of(self.each_row), (start, self._over(fold, (self.j, self.each_column))), unroll=0
            ),
            nodes.WarpReduce("max", best, self.across),
            nodes.For(self.i, ZERO, Expr.of(self.each_row), row, unroll=0),
        ]

    @property
    def _is_changed(self) -> bool:
        """Whether work on one weight follows its exponential."""
        return self.kernel.summed is not None or self.kernel.handed is not None

    def _named_row(self) -> tuple[Statement, ...]:
        return (nodes.Let(self.kernel.row.name, self.row),) if self._is_changed else ()

    def _weights(self, score: Read, base: Body, total: Read, into: Place) -> tuple[Statement, ...]:
        """A weight in the place of its score, its part of the sum, and what the second product takes of it."""
        kernel, dtype = self.kernel, self.dtype
        lines: list[Statement] = [nodes.Let(kernel.column.name, self.column)] if self._is_changed else []
        lines.append(nodes.Assign(Place(self.scores, score.index), self._weight(score, base)))
        guard = below(Expr.of(kernel.row.name), kernel.row.size) if self.is_row_guarded else ()
        guard += below(Expr.of(kernel.column.name), kernel.column.size) if self.is_column_guarded else ()
        values = Values(self.first, self.point, {kernel.weighed: score})

        def done(work: Body | None) -> Body:
            return score if work is None else guarded(guard, values.at(work))

        if kernel.total:
            add = Binary("add", total, done(kernel.summed), dtype)
            lines.append(nodes.Assign(Place(self.total, total.index), add))
        return (*lines, nodes.Store(into, done(kernel.handed)))

    def _weight(self, element: Body, base: Body) -> Body:
        """The weight of an element under the maximum `base`."""
        known = {self.kernel.element: element, self.kernel.top: base}
        return Values(self.first, self.point, known).at(self.kernel.weight)

    def _gather(self) -> Statement:
        """The second product: an access of the weights at a time, each against a row of the value's tile."""
        step, width = self.fresh.of("cc"), math.gcd(self.each_width, self.access)
        w, g = self.fresh.of("x"), self.fresh.of("g")
        pr, vr = self.fresh.of("pr"), self.fresh.of("vr")
        ours = self.each_row * Expr.of("thread.y") + self.i
        groups = self.each_width // width
        at = Expr.of(g) if groups > 1 else ZERO
        own = width * Expr.of("thread.x") + width * self.across * at
        source = Read(self.v, (Expr.of(step) + self.u, own + w), self.dtype)
        value: Statement = nodes.Assign(Place(vr, (width * at + w,)), source, ((w, Expr.of(width)),), width)
        value = self._over(value, (g, groups)) if groups > 1 else value
        e = self.fresh.of("e")
        left, right = Read(pr, (Expr.of(self.i), Expr.of(self.u)), self.dtype), Read(vr, (Expr.of(e),), self.dtype)
        add = self._accumulate(self.acc, (self.i, e), left, right, self.dtype)
        each = nodes.For(
            self.u,
            ZERO,
            Expr.of(self.access),
            (value, self._over(add, (self.i, self.each_row), (e, self.each_width))),
            unroll=0,
        )
        regs = (
            nodes.Reg(pr, type_of(self.dtype, self.each_row, self.access)),
            nodes.Reg(vr, type_of(self.dtype, self.each_width)),
        )
        weights = self._part(pr, self.p, (self.i, self.each_row), ours, Expr.of(step))
        turns = max(1, UNROLLED // (self.access * self.each_row * self.each_width))
        return nodes.For(
            step, ZERO, Expr.of(self.columns), (*regs, weights, each), step=Expr.of(self.access), unroll=turns
        )

    # --- the output

    def _epilogue(self) -> Statement:
        """Each sum over the row's total, the values after it, and the writes, where the point is inside the
        output."""
        kernel, i, e = self.kernel, Expr.of(self.i), Expr.of(self.fresh.of("e"))
        width = math.gcd(self.each_width, self.access)
        column = width * Expr.of("thread.x") + e + width * (self.across - 1) * (e // width)
        own = {n: Expr.of(m) for n, m in kernel.meets}
        row_values = Values(self.first, self.point, self._numbers_of_row(i))
        before: list[Statement] = [*self._row_writes(row_values)]
        acc: Body = Read(self.acc, (i, e), self.dtype)
        if kernel.norm:
            by = self.fresh.of("norm")
            before.append(nodes.Value(by, row_values.at(kernel.norm_by)))
            acc = Binary(kernel.norm, acc, Ref(by, self.dtype), self.dtype)
        if is_bare(kernel):
            empty = Binary("cmpeq", row_values.known[kernel.top], neutral_of("max", self.dtype), DTYPES["bool"])
            acc = Ternary("where", empty, Literal(math.nan, self.dtype), acc, self.dtype)
        if kernel.zero is not None:
            nothing = self.fresh.of("nothing")
            before.append(nodes.Value(nothing, row_values.at(kernel.zero)))
            acc = Ternary("where", Ref(nothing, DTYPES["bool"]), literal(0, self.dtype), acc, self.dtype)
        number = self.fresh.of("col")
        index, lets = (
            named(kernel.width, column, self.fresh.of("width"))
            if len(kernel.width) > 1
            else (Expr.of(number), ((number, column),))
        )
        axes = (
            {a.name: Expr.of(a.name) for a in kernel.width}
            if len(kernel.width) > 1
            else {kernel.width[0].name: Expr.of(number)}
        )
        values = Values(self.second, {**own, **axes}, {kernel.output: acc})
        for name, expr in kernel.rows:
            before.append(nodes.Value(name, row_values.at(expr)))
            values.known[name] = Ref(name, expr.dtype)
        inner: list[Statement] = []
        if len(needed(self.second, (y.expr for y in self.second.yields))) > 1 or len(self.second.yields) > 1:
            inner.append(nodes.Value(kernel.output, acc))
            values.known[kernel.output] = Ref(kernel.output, self.dtype)
        inner += values.name_values()
        for item in self.second.yields:
            inner.append(element_store(item, values.at(item.expr), values.point, self.second.iters))
        inside = below(index, extent_of(kernel.width)) if self.across * self.each_width > kernel.sizes[1] else ()
        numbers, parts = (nodes.Let(*lets[0]),), tuple(nodes.Let(*one) for one in lets[1:])
        work = (nodes.If(inside, (*parts, *inner)),) if inside else (*parts, *inner)
        each: tuple[Statement, ...] = (
            *before,
            nodes.For(self.fresh.of("e"), ZERO, Expr.of(self.each_width), (*numbers, *work), unroll=0),
        )
        guard: tuple[Bound, ...] = below(Expr.of(kernel.row.name), kernel.row.size) if self.is_row_guarded else ()
        each = (nodes.If(guard, each),) if guard else each
        return nodes.For(self.i, ZERO, Expr.of(self.each_row), (nodes.Let(kernel.row.name, self.row), *each), unroll=0)

    def _numbers_of_row(self, i: Expr) -> dict[str, Body]:
        """What the thread knows of a row when all columns are walked, as the text has it."""
        kernel, dtype = self.kernel, self.dtype
        known: dict[str, Body] = {n: Read(self.fold[n], (i,), f.dtype) for n, f in self.folds}
        total, top = Read(self.total, (i,), dtype), Read(self.top, (i,), dtype)
        is_over = kernel.norm == "fdiv" and isinstance(kernel.norm_by, Ref) and kernel.norm_by.name == kernel.total
        if kernel.top and not kernel.is_guarded and (kernel.writes or not is_over):
            # the sum of a row of -inf is 0 here, and NaN in the text: over 0 both are
            empty = Binary("cmpeq", top, neutral_of("max", dtype), DTYPES["bool"])
            known[kernel.total] = Ternary("where", empty, Literal(math.nan, dtype), total, dtype)
        else:
            known[kernel.total] = total
        known[kernel.top] = top
        return known

    def _row_writes(self, values: Values) -> list[Statement]:
        """The writes of numbers of a row, by the first thread of those that share it."""
        lines: list[Statement] = []
        for item in (y for y in self.kernel.writes if not self._is_kept(y.output)):
            place = Place(item.output, tuple(e.substitute(values.point) for e in item.index))
            lines.append(nodes.Store(place, values.at(item.expr)))
        return [nodes.If((Bound(Expr.of("thread.x"), equals=ZERO),), tuple(lines))] if lines else []

    def _is_kept(self, name: str) -> bool:
        """Whether an output of the first region stays on the chip."""
        return any(t.name == name and t.attr("materialize") == "deferred" for t in self.first.outputs)
