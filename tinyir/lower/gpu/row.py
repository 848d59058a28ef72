"""The row templates: a CTA folds one row at a time (softmax, norms, sums).

    row_streamed    each pass walks over the row and reads it again:   for c in thread.x..C step 256
    row_resident    each thread keeps its elements in registers:       for v in 0..8 unroll, c = 256*v + thread.x, if c < C

Where neighbours are known to lie side by side a thread takes vectors of them, and of a row that is no whole vectors then one element more (`ends`).
A pass is a fold, closed by `block_reduce`; values that do not vary along the row stand between passes, computed by every thread alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...ir.accumulate import is_plain, neutral_of, wide
from ...ir.body import Axis, Binary, Body, BroadcastInDim, Gather, Index, Literal, Read, Reduce, Ref, Ternary, Transpose, rebuild, walk
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.kernels import Row, extent_of
from ...ir.plan import Plan
from ...ir.region import Region, Yield
from ...ir.resources import WALK
from ...ir.runs import Run, number_in, row_run
from ...ir.types import DTYPES, DType
from ...kit.diag import refuse
from .ends import Ends
from .fold import Accumulator, type_of
from .moved import moved
from .point import Fresh, Point, Values, below, carried, choice, divides, element_store, free_axes, names_in, needed, split
from .side_by_side import SideBySide


def row_kernel(plan: Plan, region: Region, kernel: Row) -> Kernel:
    """The kernel of a plan of algo `row_streamed` or `row_resident`. Raises Refused (E1611) for what the template has no place for."""
    if plan.tile[0] != 1 or len(plan.threads) != 1 or plan.tile[1] % plan.threads[0]:
        raise refuse("E1611", plan.name, plan.span_of("tile"), what=f"tile {list(plan.tile)} on {list(plan.threads)} threads", region=region.name)
    run = _run_of(plan, region, kernel)
    rows = split(Expr.of("cta.x"), kernel.rows) if kernel.rows else {}
    lets = tuple(nodes.Let(name, e) for name, e in rows.items())
    writer = _Rows(plan, region, kernel, run)
    body = (*(writer.ends.lets() if writer.ends else ()), *writer.passes())
    shared = tuple(nodes.Shared(name, type_of(dtype, plan.threads[0] // 32)) for dtype, name in writer.parts.items())
    return Kernel(plan.name, plan.regions, plan.arch, (extent_of(kernel.rows),), plan.threads, (*shared, *lets, *body))


def _run_of(plan: Plan, region: Region, kernel: Row) -> Run | None:
    """The run that the plan takes in vectors. Raises Refused (E1611) where its neighbours are not known to lie side by side."""
    if not plan.vectorize:
        return None
    (item,) = plan.vectorize
    run = row_run(region, kernel, item.width)
    if run is None or [a.name for a in run.axes] != list(item.axes):
        raise refuse("E1611", plan.name, plan.span_of("vectorize"), what=f"{item.width} neighbours that are not known to lie side by side", region=region.name)
    if plan.algo == "row_resident" and plan.tile[1] % (run.width * plan.threads[0]):
        raise refuse("E1611", plan.name, plan.span_of("tile"), what=f"tile {list(plan.tile)} in vectors of {run.width}", region=region.name)
    return run


@dataclass
class _Rows:
    """Writes the passes of one region. `known` are the values that do not vary along the row; `held` what registers keep of it."""

    plan: Plan
    region: Region
    kernel: Row
    run: Run | None
    known: dict[str, Body] = field(default_factory=dict)
    held: dict[Body, str] = field(default_factory=dict)
    parts: dict[DType, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.row = {a.name for a in self.kernel.row if a in self.region.iters}
        self.point = {a.name: Expr.of(a.name) for a in self.region.iters}
        self.fresh = Fresh(names_in(self.region))
        self.carried = carried(self.region)
        self.width = self.run.width if self.run else 1
        self.is_cut = self.run is not None and not self.run.is_whole
        self.ends = Ends.of(self.run, self.fresh) if self.run else None
        self.is_resident = self.plan.algo == "row_resident"
        self.kept = self._used_twice() if self.is_resident else set()

    def passes(self) -> tuple[Statement, ...]:
        """All statements: every value that is one number a row in order, its folds before it, then the writes."""
        lines: list[Statement] = []
        for name in needed(self.region, (y.expr for y in self.region.yields)):
            expr = self.region.let(name).expr
            if not self._varies(expr):
                value = self._row_value(expr, name, lines)
                lines.append(nodes.Value(name, value))
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
                return choice(inner, values, self.fresh.name(f"{inner.axis.name}.at"), lines)
            if values.point.keys() - self.point.keys():
                raise refuse("E1611", self.region.name, inner.span, what="a fold at a gathered place of a row", region=self.region.name)
            shielded = replace(inner, body=values.shielded(inner.body))
            return self._fold(Accumulator(self.fresh.name(f"{name}.acc"), shielded), lines)

        return Values(self.region, self.point, self.known, emit).at(body)

    def _write_once(self, item: Yield, lines: list[Statement]) -> list[Statement]:
        value = self._row_value(item.expr, item.output, lines)
        one_thread = (Bound(Expr.of("thread.x"), equals=ZERO),)
        return [element_store(item, value, self.point, (a for a in self.region.iters if a.name not in self.row), one_thread)]

    # --- one pass

    def _fold(self, accumulator: Accumulator, lines: list[Statement]) -> Body:
        """A pass over the row, then over the CTA's threads."""
        fold = accumulator.fold
        axes = self._axes_of(fold)
        if not is_plain(fold.op):
            return self._find(accumulator, axes, lines)
        lines += accumulator.start()
        lines += self._over_row(axes, element=accumulator.step, of=fold.body)
        lines.append(self._over_threads(fold.op, accumulator.name, fold.dtype))
        return accumulator.value()

    def _find(self, accumulator: Accumulator, axes: tuple[Axis, ...], lines: list[Statement]) -> Body:
        """argmax and argmin in two passes: the best value, then the first place that holds it."""
        fold = accumulator.fold
        best = Accumulator(accumulator.best, Reduce(fold.op.removeprefix("arg"), fold.axes, fold.body, fold.body.dtype))
        lines += best.start()
        lines += self._over_row(axes, element=best.step, of=fold.body)
        lines.append(self._over_threads(best.fold.op, best.name, fold.body.dtype))
        place = Accumulator(accumulator.name, Reduce("min", fold.axes, fold.body, fold.dtype))
        lines += place.start()

        def step(body: Body, number: Expr):
            yes = DTYPES["bool"]
            yield nodes.Value(f"{accumulator.name}.element", body)
            element = Ref(f"{accumulator.name}.element", body.dtype)
            found: Body = Binary("cmpeq", element, best.value(), yes)
            if body.dtype.is_float:
                found = Binary("or", found, Binary("cmpne", element, element, yes), yes)
            here = Ternary("where", found, Index(number, fold.dtype), neutral_of("min", fold.dtype), fold.dtype)
            yield nodes.Assign(Place(place.name, (ZERO,)), Binary("min", place.value(), here, fold.dtype))

        lines += self._over_row(axes, element=step, of=fold.body)
        lines.append(self._over_threads("min", place.name, fold.dtype))
        nowhere = Binary("cmpeq", place.value(), neutral_of("min", fold.dtype), DTYPES["bool"])
        return Ternary("where", nowhere, Literal(0, fold.dtype), place.value(), fold.dtype)

    def _axes_of(self, fold: Reduce) -> tuple[Axis, ...]:
        own = tuple(a for a in self.region.iters if a.name in {x.name for x in fold.axes})
        return own if fold.axes[0].size is None else fold.axes

    def _over_threads(self, op: str, name: str, dtype: DType) -> Statement:
        if self.plan.threads[0] <= 32:
            return nodes.WarpReduce(op, name, self.plan.threads[0])
        part = self.parts[wide(dtype)] = self.parts.get(wide(dtype)) or self.fresh.name("part")
        return nodes.BlockReduce(op, name, part)

    @property
    def turn(self) -> Expr:
        """The number of a thread's element, where registers keep the row."""
        return Expr.of(self.fresh.of("v")) + (self.width * Expr.of(self.fresh.of("u")) if self.width > 1 else 0)

    def _over_row(self, axes: tuple[Axis, ...], element=None, of: Body | None = None, across_writes: tuple[Yield, ...] = ()) -> list[Statement]:
        """A loop over this thread's elements of the row, with what is done at each."""
        if self.run:
            return self._over_vectors(self.run, axes, element, of, across_writes)
        column = Expr.of(axes[0].name if len(axes) == 1 else self.fresh.of("c"))
        at = {a.name: Expr.of(a.name) for a in axes}
        inner: list[Statement] = [nodes.Let(n, e) for n, e in split(column, axes).items()][::-1] if len(axes) > 1 else []
        declared: list[Statement] = []
        values = _Point(self, at, inner, declared)
        if of is not None:
            inner += element(values.at(of), number_in(axes, at))
        for item in across_writes:
            body = values.at(item.expr)
            inner.append(element_store(item, body, {**self.point, **at}, self.region.iters))
        return [*declared, self._walk(str(column), extent_of(axes), inner)]

    def _over_vectors(self, run: Run, axes: tuple[Axis, ...], element, of: Body | None, across_writes: tuple[Yield, ...]) -> list[Statement]:
        """A loop over this thread's vectors of the row; then the same at the element that is left to it."""
        column, counter = axes[0].name if len(axes) == 1 else self.fresh.of("e"), self.fresh.of("c")
        neighbours = SideBySide(self.region, self.fresh, run, Expr.of(column), {column: run.width * Expr.of(counter) + run.head})
        inner: list[Statement] = []
        declared: list[Statement] = []
        values = _Point(self, neighbours.point(axes), inner, declared)
        if of is not None:
            inner += element(values.at(of), neighbours.place)
        for item in across_writes:
            body = values.at(item.expr)
            neighbours.store(item, body, values.point, self.region.iters)
        lines = [nodes.Let(column, run.width * Expr.of(counter) + self.ends.head), *neighbours.loop(inner)]
        left = self.ends.at_left(nodes.Let(column, self.ends.left), moved([*inner, *neighbours.singles], self._behind(neighbours.turn))) if self.is_cut else []
        return [*declared, self._walk(counter, self.ends.whole, lines), *left]

    def _behind(self, turn: str) -> dict[str, Expr]:
        """The register behind those of the vectors."""
        return {turn: ZERO, self.fresh.of("u"): Expr.of(self.plan.tile[1] // (self.plan.threads[0] * self.width))}

    def _walk(self, name: str, count: Expr, lines: list[Statement]) -> Statement:
        """The loop over this thread's elements, or vectors, of the row."""
        threads = self.plan.threads[0]
        if not self.is_resident:
            return nodes.For(name, Expr.of("thread.x"), count, tuple(lines), step=Expr.of(threads), unroll=max(2, WALK // self.width))
        turn, length = self.fresh.of("u" if self.width > 1 else "v"), self.plan.tile[1] // self.width
        guard = () if divides(length, count) else below(Expr.of(name), count)
        guarded: tuple[Statement, ...] = (nodes.If(guard, tuple(lines)),) if guard else tuple(lines)
        return nodes.For(turn, ZERO, Expr.of(length // threads), (nodes.Let(name, threads * Expr.of(turn) + "thread.x"), *guarded), unroll=0)

    # --- what registers keep

    def _used_twice(self) -> set[Body]:
        """What varies along the row and is used by more than one pass: values, and reads that are made outside the first use of those."""
        values = self._in_many_passes(Ref, frozenset())
        return values | self._in_many_passes(Read, frozenset(values))

    def _in_many_passes(self, kind: type, held: frozenset[Body]) -> set[Body]:
        """The values (Ref) or reads (Read) that several passes make, when `held` values are made by the first pass that needs them."""
        users: dict[Body, set[int]] = {}
        made: set[Body] = set()
        for number, body in enumerate(self._pass_bodies()):
            for node in self._reached(body, made):
                users.setdefault(node, set()).add(number)
            made |= held & users.keys()
        return {node for node, passes in users.items() if len(passes) > 1 and isinstance(node, kind)}

    def _pass_bodies(self) -> list[Body]:
        """The expressions that one pass each evaluates along the row."""
        bodies: list[Body] = []
        for let in self.region.lets:
            bodies += [n.body for n in walk(let.expr) if isinstance(n, Reduce)]
        return [*bodies, *(y.expr for y in self.region.yields if self._varies_index(y))]

    def _reached(self, body: Body, made: set[Body]) -> set[Body]:
        """Row-varying values and reads that evaluating the expression needs, through values that it refers to, but for those that are made already."""
        found: set[Body] = set()
        stack = [body]
        while stack:
            for node in walk(stack.pop()):
                if isinstance(node, Ref) and node.index is None and self._varies(node) and node not in found:
                    found.add(node)
                    if node not in made:
                        stack.append(self.region.let(node.name).expr)
                elif isinstance(node, Read) and self.row & {n for e in node.index for n in e.names()}:
                    found.add(node)
        return found


class _Point:
    """The values at one element of the row: computed here, or taken from the registers that an earlier pass filled."""

    def __init__(self, rows: _Rows, at: Point, inner: list[Statement], declared: list[Statement]):
        self.rows = rows
        self.inner = inner
        self.declared = declared
        self.known = dict(rows.known)
        self.point = {**rows.point, **at}

    def at(self, body: Body) -> Body:
        """The expression, after the values that it needs."""
        for name in needed(self.rows.region, (body,)):
            if name not in self.known:
                self._value(name)
        return self._here(body)

    def _value(self, name: str) -> None:
        let = self.rows.region.let(name)
        ref = Ref(name, let.expr.dtype)
        register = self.rows.held.get(ref)
        if register is not None:
            self.known[name] = Read(register, (self.rows.turn,), let.expr.dtype)
            return
        body = self._here(let.expr)
        if name in self.rows.carried and ref not in self.rows.kept:
            self.known[name] = body
        elif ref in self.rows.kept:
            self.known[name] = self._keep(ref, self.rows.fresh.name(f"{name}.row"), body)
        else:
            self.inner.append(nodes.Value(name, body))
            self.known[name] = ref

    def _keep(self, node: Body, register: str, body: Body) -> Read:
        self.rows.held[node] = register
        self.declared.append(nodes.Reg(register, type_of(node.dtype, self.rows.plan.tile[1] // self.rows.plan.threads[0] + self.rows.is_cut)))
        self.inner.append(nodes.Assign(Place(register, (self.rows.turn,)), body))
        return Read(register, (self.rows.turn,), node.dtype)

    def _here(self, body: Body) -> Body:
        def emit(inner: Reduce | Gather, values: Values) -> Body:
            if isinstance(inner, Reduce):
                raise refuse("E1611", self.rows.region.name, inner.span, what="a fold inside a value that varies along the row", region=self.rows.region.name)
            return choice(inner, values, self.rows.fresh.name(f"{inner.axis.name}.at"), self.inner)

        return Values(self.rows.region, self.point, self.known, emit).at(self._with_kept_reads(body))

    def _with_kept_reads(self, body: Body) -> Body:
        """The expression with reads that registers keep named as values."""
        if isinstance(body, (BroadcastInDim, Transpose, Gather)):
            return body
        if not isinstance(body, Read) or body not in self.rows.kept:
            return rebuild(body, self._with_kept_reads)
        if body not in self.rows.held:
            name = self.rows.fresh.name(f"{body.tensor}.row")
            self._keep(body, name, Values(self.rows.region, self.point, self.known).at(body))
        register = self.rows.held[body]
        self.known[register] = Read(register, (self.rows.turn,), body.dtype)
        return Ref(register, body.dtype)
