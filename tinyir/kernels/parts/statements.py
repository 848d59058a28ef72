"""A region's values and writes as statements at one point; a fold inside runs in the thread, element after element."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.body import Body, Gather, Reduce, Ref, Scan, Scatter
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.region import Region, Yield
from ...ir.runs import number_in
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field, replace
from ..resources import WALK
from .beyond import beyond_in
from .fold import Accumulator
from .point import Fresh, Values, carried, choice, element_store, needed
from .scatter import thread_scatter

FEW = 8  # turns of a loop over vectors that are written out
FEW_SINGLE = 2 * FEW  # over single elements: those of all folds are on their way together


@dataclass
class Statements:
    """Writes a region's values and stores as statements, at the point that its axes name."""

    region: Region
    fresh: Fresh
    known: dict[str, Body] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.point = {a.name: Expr.of(a.name) for a in self.region.iters}
        self.carried = carried(self.region)

    def at_point(self, yields: tuple[Yield, ...]) -> list[Statement]:
        """Every value that the yields need, then the stores."""
        lines = self.values(needed(self.region, (y.expr for y in yields)))
        for item in yields:
            expr, before = self.body(item.expr)
            lines += [*before, element_store(item, expr, self.point, self.region.iters)]
        return lines

    def values(self, names: tuple[str, ...]) -> list[Statement]:
        """The values by name, those that are known already left out."""
        lines: list[Statement] = []
        for name in names:
            if name in self.known:
                continue
            let = self.region.let(name)
            expr, before = self.body(let.expr, name)
            lines += before
            if name in self.carried:
                self.known[name] = expr
                continue
            lines.append(nodes.Value(name, expr))
            self.known[name] = Ref(name, let.expr.dtype)
        return lines

    def body(self, body: Body, name: str = "") -> tuple[Body, list[Statement]]:
        """An expression at the point, and the statements of the folds inside it."""
        before: list[Statement] = []

        return Values(self.region, self.point, self.known, self._emit_to(before, name or "fold")).at(body), before

    def _emit_to(self, lines: list[Statement], name: str) -> Callable[[Reduce | Gather | Scan | Scatter, Values], Body]:
        """Where a fold, a gather or a scatter inside an expression writes its statements."""

        def emit(inner: Reduce | Gather | Scan | Scatter, values: Values) -> Body:
            if isinstance(inner, Scan):
                return self._scanned(inner, values)
            if isinstance(inner, Scatter):
                return thread_scatter(
                    inner,
                    values,
                    self.fresh.name(f"{name}.acc"),
                    self.fresh.name(f"{inner.axes[0].name}.at"),
                    lines,
                    self._emit_to,
                )
            if isinstance(inner, Gather):
                return choice(inner, values, self.fresh.name(f"{inner.axis.name}.at"), lines)
            return self._thread_fold(Accumulator(self.fresh.name(f"{name}.acc"), inner), values, lines)

        return emit

    def _scanned(self, scan: Scan, values: Values) -> Body:
        raise beyond_in(self.region, scan.span, Phrase("a scan in a map"))

    def _thread_fold(self, accumulator: Accumulator, values: Values, before: list[Statement]) -> Body:
        """A fold over axes of its own, in one thread."""
        fold = accumulator.fold
        if any(a.size is None for a in fold.axes):
            raise beyond_in(self.region, fold.span, Phrase("a fold over the region's own axes in a map"))
        inside: list[Statement] = []
        names = {a.name: Expr.of(a.name) for a in fold.axes}
        deeper = replace(values, point={**values.point, **names}, emit=self._emit_to(inside, accumulator.name))
        element = values.shielded(deeper.at(fold.body))
        inside += accumulator.step(element, number_in(fold.axes, names))
        for axis in reversed(fold.axes):
            few = axis.size.constant is not None and axis.size.constant <= FEW_SINGLE
            inside = [nodes.For(axis.name, ZERO, axis.size, tuple(inside), unroll=0 if few else WALK)]
        before += [*accumulator.start(), *inside]
        return accumulator.value()
