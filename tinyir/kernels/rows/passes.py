"""What a team of threads does with a row, pass after pass: a pass is a fold, closed over the team's threads; values
that do not vary along the row come between passes, computed by every thread alike; what is written along the row comes
last.
"""

from __future__ import annotations

from ...ir.accumulate import cast, is_plain, neutral_of
from ...ir.body import Axis, Binary, Body, Gather, Read, Reduce, Ref, Ternary, walk
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region, Yield
from ...ir.runs import number_in
from ...ir.traits import extent_of
from ...ir.types import DTYPES
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field, replace
from ..parts.beyond import beyond_in
from ..parts.fold import Accumulator
from ..parts.kept import read_twice, used_twice
from ..parts.point import Values, below, carried, choice, divides, element_store, free_axes, guarded, needed, split
from ..parts.side_by_side import SideBySide
from ..problem import Row
from .declare import asked_first, place_dtype, stays_as_read
from .ends import Ends
from .moved import moved
from .point import RowPoint
from .team import Team


@dataclass
class Passes:
    """Writes the passes of one region by a team of threads, in vectors where there are `ends`. `known` are the values
    that do not vary along the row, `values` those that are part of an expression; `held` what registers keep of the
    row."""

    plan: Plan
    region: Region
    kernel: Row
    team: Team
    ends: Ends | None
    is_resident: bool
    known: dict[str, Body] = field(default_factory=dict)
    held: dict[Body, str] = field(default_factory=dict)
    values: dict[Body, Ref] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.row = {a.name for a in self.kernel.row if a in self.region.iters}
        self.point = {a.name: Expr.of(a.name) for a in self.region.iters}
        self.fresh = self.team.fresh
        self.carried = carried(self.region)
        self.width = self.ends.run.width if self.ends else 1
        self.is_cut = self.ends is not None and not self.ends.run.is_whole
        self.each = self.plan.tile[1] // self.team.size
        as_read = self.is_resident and stays_as_read(self.plan, self.region, self.kernel)
        kept = read_twice if as_read else used_twice
        self.kept = kept(self.region, self.row) if self.is_resident else set()
        self.late = asked_first(self.plan, self.region, self.kernel) if self.is_resident else ()
        self.kept |= set(self.late)

    def statements(self) -> tuple[Statement, ...]:
        """All statements: every value that is one number a row in order, its folds before it, then the writes."""
        lines: list[Statement] = []
        for name in needed(self.region, (y.expr for y in self.region.yields)):
            expr = self.region.let(name).expr
            if not self._varies(expr):
                value = self._row_value(expr, name, lines)
                lines.append(nodes.Value(name, self._shielded(value)))
                self.known[name] = Ref(name, expr.dtype)
        across = tuple(y for y in self.region.yields if self._varies_index(y))
        once = tuple(y for y in self.region.yields if not self._varies_index(y))
        for item in once:
            lines += self._write_once(item, lines)
        if across:
            lines += self._over_row(self.kernel.row, across_writes=across)
        return tuple(lines)

    def _varies(self, body: Body) -> bool:
        return bool(self.row.intersection(free_axes(self.region, body)))

    def _varies_index(self, item: Yield) -> bool:
        return bool(self.row & {n for e in item.index for n in e.names()})

    def _row_value(self, body: Body, name: str, lines: list[Statement]) -> Body:
        """An expression that is one number a row; the passes of its folds go to `lines`."""

        def emit(inner: Reduce | Gather, values: Values) -> Body:
            if isinstance(inner, Gather):
                here = replace(values, sides=((self.team.inside, True), *values.sides)) if self.team.inside else values
                return choice(inner, here, self.fresh.name(f"{inner.axis.name}.at"), lines)
            if values.point.keys() - self.point.keys():
                raise beyond_in(self.region, inner.span, Phrase("a fold at a gathered place of a row"))
            shielded = replace(inner, body=values.shielded(inner.body))
            return self._fold(Accumulator(self.fresh.name(f"{name}.acc"), shielded), lines)

        return Values(self.region, self.point, self.known, emit).at(body)

    def _write_once(self, item: Yield, lines: list[Statement]) -> list[Statement]:
        value = self._row_value(item.expr, item.output, lines)
        one_thread = (*self.team.inside, *self.team.first)
        return [
            element_store(item, value, self.point, (a for a in self.region.iters if a.name not in self.row), one_thread)
        ]

    def _shielded(self, value: Body) -> Body:
        """A value that reads nothing where its row is not there."""
        reads = (n for n in walk(value) if isinstance(n, Read) and self.region.tensor(n.tensor) is not None)
        return guarded(self.team.inside, value) if any(reads) else value

    # --- one pass

    def _fold(self, accumulator: Accumulator, lines: list[Statement]) -> Body:
        """A pass over the row, then over the CTA's threads."""
        fold = accumulator.fold
        axes = self._axes_of(fold)
        if not is_plain(fold.op):
            return self._find(accumulator, axes, lines)
        if self.width == 1:
            lines += [*accumulator.start(), *self._over_row(axes, element=accumulator.step, of=fold.body)]
        else:
            turn = self.fresh.of("v")
            lines += accumulator.start_beside(self.width)
            lines += self._over_row(
                axes, element=lambda body, _: accumulator.step_beside(body, Expr.of(turn)), of=fold.body
            )
            lines += accumulator.end_beside(self.width, turn)
        lines += self.team.fold(fold.op, accumulator.name, fold.dtype)
        return accumulator.value()

    def _find(self, accumulator: Accumulator, axes: tuple[Axis, ...], lines: list[Statement]) -> Body:
        """argmax and argmin in one pass: each thread finds its own, the team the best of these, and of the places where
        that was found the first."""
        fold, yes = accumulator.fold, DTYPES["bool"]
        places = place_dtype(fold, extent_of(axes))
        mine = Accumulator(accumulator.name, replace(fold, dtype=places))
        lines += mine.start()
        lines += self._over_row(axes, element=mine.step, of=fold.body, left=mine.earliest)
        best, own = Read(mine.best, (ZERO,), fold.body.dtype), Ref(f"{mine.name}.own", fold.body.dtype)
        lines.append(nodes.Value(own.name, best))
        lines += self.team.fold(fold.op.removeprefix("arg"), mine.best, fold.body.dtype)
        found: Body = Binary("cmpeq", own, best, yes)
        if fold.body.dtype.is_float:
            found = Binary("or", found, Binary("cmpne", own, own, yes), yes)
        here = Ternary("where", found, mine.value(), neutral_of("min", places), places)
        lines.append(nodes.Assign(Place(mine.name, (ZERO,)), here))
        lines += self.team.fold("min", mine.name, places)
        return cast(mine.value(), fold.dtype)

    def _axes_of(self, fold: Reduce) -> tuple[Axis, ...]:
        own = tuple(a for a in self.region.iters if a.name in {x.name for x in fold.axes})
        return own if fold.axes[0].size is None else fold.axes

    @property
    def turn(self) -> Expr:
        """The number of a thread's element, where registers keep the row."""
        return Expr.of(self.fresh.of("v")) + (self.width * Expr.of(self.fresh.of("u")) if self.width > 1 else 0)

    def _over_row(
        self,
        axes: tuple[Axis, ...],
        element=None,
        of: Body | None = None,
        across_writes: tuple[Yield, ...] = (),
        left=None,
    ) -> list[Statement]:
        """A loop over this thread's elements of the row, with what is done at each, and at one beside whole vectors,
        which comes last, what is done at `left` (default: the same)."""
        if self.ends:
            return self._over_vectors(self.ends, axes, element, of, across_writes, left or element)
        column = Expr.of(axes[0].name if len(axes) == 1 else self.fresh.of("c"))
        at = {a.name: Expr.of(a.name) for a in axes}
        inner: list[Statement] = (
            [nodes.Let(n, e) for n, e in split(column, axes).items()][::-1] if len(axes) > 1 else []
        )
        declared: list[Statement] = []
        values = RowPoint(self, at, inner, declared)
        if of is not None:
            inner += element(values.at(of), number_in(axes, at))
            self._ask_for_late(values)
        for item in across_writes:
            body = values.at(item.expr)
            inner.append(element_store(item, body, {**self.point, **at}, self.region.iters))
        return [*declared, *self.team.where_inside([self._walk(str(column), extent_of(axes), inner)])]

    def _over_vectors(
        self, ends: Ends, axes: tuple[Axis, ...], element, of: Body | None, across_writes: tuple[Yield, ...], left
    ) -> list[Statement]:
        """A loop over this thread's vectors of the row; then the same at the element that is left to it."""
        run = ends.run
        column, counter = axes[0].name if len(axes) == 1 else self.fresh.of("e"), self.fresh.of("c")
        neighbours = SideBySide(
            self.region, self.fresh, run, Expr.of(column), {column: run.width * Expr.of(counter) + run.head}
        )
        inner: list[Statement] = []
        declared: list[Statement] = []
        values = RowPoint(self, neighbours.point(axes), inner, declared)
        behind = inner
        if of is not None:
            body, made = values.at(of), len(inner)
            inner += element(body, neighbours.place)
            behind = [*inner[:made], *left(body, neighbours.place)]
            self._ask_for_late(values)
        for item in across_writes:
            body = values.at(item.expr)
            neighbours.store(item, body, values.point, self.region.iters, inner)
        lines = [nodes.Let(column, run.width * Expr.of(counter) + ends.head), *neighbours.loop(inner)]
        last = (
            ends.at_left(
                nodes.Let(column, ends.left), moved([*behind, *neighbours.singles], self._behind(neighbours.turn))
            )
            if self.is_cut
            else []
        )
        return [*declared, *self.team.where_inside([self._walk(counter, ends.whole, lines), *last])]

    def _ask_for_late(self, values: RowPoint) -> None:
        """In the first pass, what later ones read: it is on its way while the folds wait."""
        for read in self.late:
            values.at(read)
        self.late = ()

    def _behind(self, turn: str) -> dict[str, Expr]:
        """The register behind those of the vectors."""
        return {turn: ZERO, self.fresh.of("u"): Expr.of(self.each // self.width)}

    def _walk(self, name: str, count: Expr, lines: list[Statement]) -> Statement:
        """The loop over this thread's elements, or vectors, of the row."""
        turns, step = self.each // self.width, self.team.size
        if not self.is_resident:
            return nodes.For(name, self.team.number, count, tuple(lines), step=Expr.of(step), unroll=turns)
        turn = self.fresh.of("u" if self.width > 1 else "v")
        guard = () if divides(turns * step, count) else below(Expr.of(name), count)
        guarded: tuple[Statement, ...] = (nodes.If(guard, tuple(lines)),) if guard else tuple(lines)
        return nodes.For(
            turn, ZERO, Expr.of(turns), (nodes.Let(name, step * Expr.of(turn) + self.team.number), *guarded), unroll=0
        )
