"""The kernel of a plain plan: for the writes along each group of axes a number of CTAs, one behind another in the
grid."""

from __future__ import annotations

from ...ir.body import Axis, Body, Gather, Reduce, Ref, Scan, Scatter
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Statement
from ...ir.plan import Plan
from ...ir.present import guard_names, names_in
from ...ir.region import Region, Yield
from ...ir.runs import number_in
from ...ir.traits import extent_of
from ...kit.groups import lists_of
from ...kit.records import dataclass, field, replace
from ..family import Problem
from ..parts.fold import Accumulator
from ..parts.point import Fresh, Values, choice, element_store, free_axes, numbered
from ..parts.point import names_in as names_of
from ..parts.scatter import thread_scatter


def plain_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `plain`."""
    region = problem.region
    (threads,) = plan.threads
    fresh, values = Fresh(names_of(region)), Fresh(())
    parts = lists_of((_axes_of(region, item), item) for item in region.yields)
    body: list[Statement] = []
    before = ZERO
    for axes, items in parts.items():
        ctas = extent_of(axes).ceildiv(threads)
        lines = _results(region, axes, items, threads * (Expr.of("cta.x") - before) + "thread.x", fresh, values)
        is_alone = len(parts) == 1
        body += lines if is_alone else [nodes.If((Bound(Expr.of("cta.x"), lower=before, upper=before + ctas),), lines)]
        before = before + ctas
    return Kernel(plan.name, plan.regions, plan.arch, (before,), plan.threads, tuple(body))


def _axes_of(region: Region, item: Yield) -> tuple[Axis, ...]:
    """The axes along which a write has points of its own."""
    used = {*names_in(item.index), *guard_names(item.guard), *free_axes(region, item.expr)}
    return tuple(a for a in region.iters if a.name in used)


def _results(
    region: Region, axes: tuple[Axis, ...], items: list[Yield], number: Expr, fresh: Fresh, names: Fresh
) -> tuple[Statement, ...]:
    """What a thread does for the result of this number."""
    point = {a.name: Expr.of(a.name) for a in axes}
    block = Block(region, fresh, names, [])
    at = PlainValues(region, point, emit=block)
    for item in items:
        value = at.at(item.expr)
        block.lines.append(element_store(item, value, point, axes))
    return numbered(axes, fresh, number, "e", block.lines, True)


@dataclass
class Block:
    """A block of statements that grows as expressions are evaluated: folds and places that data choose write theirs
    here, and so do values, each once for a point. What an outer block has computed is known inside it."""

    region: Region
    fresh: Fresh
    names: Fresh
    lines: list[Statement]
    outer: Block | None = None
    known: dict[tuple, Ref] = field(default_factory=dict)

    def inside(self, lines: list[Statement], _: str = "") -> Block:
        """A block within this one."""
        return Block(self.region, self.fresh, self.names, lines, self)

    def find(self, key: tuple) -> Ref | None:
        """The value that has been computed for this key, here or further out."""
        return self.known.get(key) or (self.outer.find(key) if self.outer is not None else None)

    def add(self, key: tuple, name: str, body: Body) -> Ref:
        """A value's statement."""
        name = self.names.name(name)
        self.lines.append(nodes.Value(name, body))
        self.known[key] = Ref(name, body.dtype)
        return self.known[key]

    def __call__(self, inner: Reduce | Gather | Scan | Scatter, values: Values) -> Body:
        """The value of a fold, a scan, a scatter or a gather, after its statements."""
        if isinstance(inner, Gather):
            return choice(inner, values, self.fresh.name(f"{inner.axis.name}.at"), self.lines)
        if isinstance(inner, Scatter):
            return thread_scatter(
                inner,
                values,
                self.fresh.name("scatter.acc"),
                self.fresh.name(f"{inner.axes[0].name}.at"),
                self.lines,
                self.inside,
            )
        return self._scan(inner, values) if isinstance(inner, Scan) else self._fold(inner, values)

    def _fold(self, fold: Reduce, values: Values) -> Body:
        size_of = {a.name: a.size for a in self.region.iters}
        axes = tuple(
            Axis(self.fresh.name("k"), axis.size if axis.size is not None else size_of[axis.name]) for axis in fold.axes
        )
        there = {axis.name: Expr.of(new.name) for axis, new in zip(fold.axes, axes)}
        return self._walk(fold, axes, there, (), values)

    def _scan(self, scan: Scan, values: Values) -> Body:
        """The fold of a row from its beginning, or from its end, to the point."""
        here, size = values.point[scan.axis], next(a.size for a in self.region.iters if a.name == scan.axis)
        axis = Axis(self.fresh.name("k"), size)
        at = size - 1 - Expr.of(axis.name) if scan.reverse else Expr.of(axis.name)
        past = (at - here if scan.reverse else here - at) - (1 if scan.exclusive else 0)
        fold = Reduce(scan.op, (Axis(scan.axis),), scan.body, scan.dtype)
        return self._walk(fold, (axis,), {scan.axis: at}, (Bound(past, lower=ZERO),), values)

    def _walk(
        self, fold: Reduce, axes: tuple[Axis, ...], there: dict[str, Expr], guard: tuple[Bound, ...], values: Values
    ) -> Body:
        """A fold as loops over the axes: its body is evaluated `there` in each turn, and counts where the guard
        holds."""
        accumulator = Accumulator(self.fresh.name("fold.acc"), fold)
        lines: list[Statement] = []
        deeper = replace(values, point={**values.point, **there}, emit=self.inside(lines))
        lines += accumulator.step(
            values.shielded(deeper.at(fold.body)), number_in(axes, {a.name: Expr.of(a.name) for a in axes})
        )
        lines = [nodes.If(guard, tuple(lines))] if guard else lines
        for axis in reversed(axes):
            lines = [nodes.For(axis.name, ZERO, axis.size, tuple(lines))]
        self.lines += [*accumulator.start(), *lines]
        return accumulator.value()


class PlainValues(Values):
    """Values at a point that are computed where they are first asked for, at whichever point that is."""

    def _value(self, ref: Ref) -> Body:
        let = self.region.let(ref.name)
        free = free_axes(self.region, let.expr)
        there = (
            self
            if ref.index is None
            else self._elsewhere({**self.point, **{name: e.substitute(self.point) for name, e in zip(free, ref.index)}})
        )
        key = (ref.name, tuple(there.point[name] for name in free), self.sides)
        return self.emit.find(key) or self.emit.add(key, ref.name, there.shielded(there.at(let.expr)))
