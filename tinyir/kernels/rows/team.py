"""The threads that share a row: lanes of a warp beside those of other rows, a CTA, or the CTAs of a cluster.

    threads [32, 4]               let i0 = 4*cta.x + thread.y       each warp has a row; folds are shuffles,
                                  and there is no barrier anywhere
    threads [256]                 let i0 = cta.x                    each CTA has a row; folds meet in shared memory
    threads [512], cluster [4]    let i0 = floor(cta.x/4)           each cluster has a row; its CTAs read one another's
                                  folds

Of a row that is not there the lanes do nothing but meet the others in shuffles.
"""

from __future__ import annotations

import math

from ...ir.accumulate import fold_word, wide
from ...ir.body import Binary, Read
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...ir.types import DType
from ...kit.records import dataclass, field
from ..family import Array
from ..parts.arrays import shared
from ..parts.point import Fresh, below, divides, split
from ..problem import Row
from .declare import meeting_arrays

WARP = 32


@dataclass
class Team:
    """The threads of a row of one plan. `parts` are the arrays through which a CTA's warps meet, by dtype, two that
    take turns; `others` those of a cluster's CTAs; `meeting` all of them, as `declare` counts them."""

    plan: Plan
    kernel: Row
    fresh: Fresh
    meeting: tuple[Array, ...]
    parts: dict[tuple[DType, int], str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    folds: int = 0

    @staticmethod
    def of(plan: Plan, region: Region, kernel: Row, fresh: Fresh) -> Team:
        """The team of a plan."""
        return Team(plan, kernel, fresh, meeting_arrays(plan, region, kernel))

    @property
    def lanes(self) -> int:
        """Threads of a CTA that share a row."""
        return self.plan.threads[0]

    @property
    def rows(self) -> int:
        """Rows of a CTA."""
        return self.plan.threads[1] if len(self.plan.threads) > 1 else 1

    @property
    def ctas(self) -> int:
        """CTAs of a row."""
        return math.prod(self.plan.cluster.shape) if self.plan.cluster else 1

    @property
    def size(self) -> int:
        """Threads of a row."""
        return self.lanes * self.ctas

    @property
    def number(self) -> Expr:
        """A thread's number among those of its row."""
        return Expr.of("thread.x") + (self.lanes * Expr.of("cluster.rank") if self.ctas > 1 else ZERO)

    @property
    def grid(self) -> Expr:
        """CTAs of all rows."""
        return extent_of(self.kernel.rows).ceildiv(self.rows) * self.ctas

    def lets(self) -> tuple[Statement, ...]:
        """Which row it is."""
        if not self.kernel.rows:
            return ()
        first, *_ = self.kernel.rows
        if self.rows == 1:
            return tuple(
                nodes.Let(name, e) for name, e in split(Expr.of("cta.x") // self.ctas, self.kernel.rows).items()
            )
        row = Expr.of(first.name if len(self.kernel.rows) == 1 else self.fresh.of("row"))
        found = () if len(self.kernel.rows) == 1 else split(row, self.kernel.rows).items()
        return (
            nodes.Let(str(row), self.rows * Expr.of("cta.x") + "thread.y"),
            *(nodes.Let(name, e) for name, e in found),
        )

    @property
    def inside(self) -> tuple[Bound, ...]:
        """What says that the row is there."""
        rows = extent_of(self.kernel.rows)
        if self.rows == 1 or divides(self.rows, rows):
            return ()
        return (
            below(Expr.of(self.kernel.rows[0].name if len(self.kernel.rows) == 1 else self.fresh.of("row")), rows)
            if self.kernel.rows
            else (Bound(Expr.of("thread.y"), equals=ZERO),)
        )

    @property
    def first(self) -> tuple[Bound, ...]:
        """What picks one thread of a row."""
        return (Bound(self.number, equals=ZERO),)

    def where_inside(self, lines: list[Statement]) -> list[Statement]:
        """The lines, where the row is there."""
        return [nodes.If(self.inside, tuple(lines))] if self.inside and lines else lines

    def fold(self, op: str, name: str, dtype: DType) -> list[Statement]:
        """A register's fold over all threads of the row."""
        if self.lanes <= WARP:
            own: list[Statement] = [nodes.WarpReduce(op, name, self.lanes)]
        else:
            key = (wide(dtype), self.folds % 2)
            self.folds += 1
            self.parts[key] = self.parts.get(key) or self.fresh.name("part")
            own = [nodes.BlockReduce(op, name, self.parts[key], is_fresh=True)]
        return own if self.ctas == 1 else [*own, *self._over_cluster(op, name, wide(dtype))]

    def _over_cluster(self, op: str, name: str, dtype: DType) -> list[Statement]:
        """All CTAs read what each has found, in the same order, so that all find the same."""
        every, at = self.fresh.name(f"{name}.all"), Place(name, (ZERO,))
        self.others.append(every)

        def found(cta: Expr) -> Read:
            return Read(every, (ZERO,), dtype, cta)

        turn = Expr.of(self.fresh.of("cta"))
        kept = nodes.Store(Place(every, (ZERO,), Expr.of("cluster.rank")), Read(name, (ZERO,), dtype))
        step = nodes.Assign(at, Binary(fold_word(op, dtype), Read(name, (ZERO,), dtype), found(turn), dtype))
        return [
            nodes.If((Bound(Expr.of("thread.x"), equals=ZERO),), (kept,)),
            nodes.Barrier("cluster"),
            nodes.Assign(at, found(ZERO)),
            nodes.For(str(turn), ONE, Expr.of(self.ctas), (step,), unroll=0),
        ]

    def arrays(self) -> tuple[Statement, ...]:
        """The shared memory of the folds so far."""
        names = (*self.parts.values(), *self.others)
        return tuple(shared(n, array) for n, array in zip(names, self.meeting, strict=True))

    def end(self) -> tuple[Statement, ...]:
        """No CTA of a cluster leaves while others read."""
        return (nodes.Barrier("cluster"),) if self.others else ()
