"""The template of a contraction with next to no rows: every element of the large operand is read once, straight into
registers, and multiplied with each of the few rows (spec section 11). No tile, no tensor core; what counts is how many
bytes are on their way.

    reg acc : fp32[8] = 0
    for k in 0..steps                               a thread's place along the sum and along the columns, `vector`
                                                    neighbours in one access
      if k0 + 8 <= K
        w[u, v] over v: 8 = B[k0 + u, c0 + v] vector 8         for all u, before the first is used
        acc[8*r + v] += A[m0 + r, k0 + u] * w[u, v]
      else: the same, element by element, where inside
    fold over the threads that share columns: lanes by shuffles, others through shared memory, in their order
    the end of the sum in shared memory (`shared_sum`), which a cluster may have cut

Neighbouring threads go along the axis in which the large operand is contiguous: the columns, or the sum.
"""

from __future__ import annotations

from ...ir.accumulate import cast
from ...ir.body import Binary, Body, Literal, Read
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.model import Model
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...ir.types import TensorType
from ...kit.records import dataclass
from ..family import Problem
from ..parts import shared_sum
from ..parts.arrays import shared
from ..parts.boxes import View, view_of
from ..parts.fresh import Fresh
from ..parts.point import below, guarded, split
from ..parts.tiles import countable, counts, tile_at
from ..problem import Contraction
from .declare import declare, part_of, stands_along_sum


@dataclass(frozen=True, slots=True)
class _Thread:
    """What a thread does: `rows` x `columns` sums over `depth` elements a step; `vector` neighbours of the large
    operand at once."""

    plan: Plan
    region: Region
    kernel: Contraction
    fresh: Fresh

    @property
    def is_along_sum(self) -> bool:
        """Whether neighbouring threads go along the sum."""
        return stands_along_sum(self.plan, self.kernel)

    @property
    def acc(self) -> str:
        return self.fresh("acc")

    def operand(self, side: int, row: Expr, term: Expr) -> Read:
        """The element of an operand at a place along its own axis and along the sum."""
        read, axes = (self.kernel.lhs, self.kernel.rhs)[side], self.kernel.groups[side]
        point = {
            **split(row, axes),
            **split(term, self.kernel.sum),
            **split(self.fresh.expr("batch"), self.kernel.batch),
        }
        return Read(read.tensor, tuple(e.substitute(point) for e in read.index), read.dtype)

    @property
    def holds_rows(self) -> bool:
        """Whether the small operand too is read several neighbours at once: both run along the sum."""
        lhs, rhs = self.kernel.lhs, self.kernel.rhs
        view = view_of(self.region, lhs.tensor, lhs.index, self.kernel)
        return self.is_along_sum and lhs.dtype == rhs.dtype and isinstance(view, View) and view.inner == "sum"

    def factor(self, r: Expr, term: Expr) -> Body:
        """The element of the small operand, 0 behind its last row."""
        row = self.fresh.expr("m0") + r
        return guarded(below(row, extent_of(self.kernel.left)), self.operand(0, row, term))

    def added(self, r: Expr, n: Expr, x: Body, weight: Body) -> Statement:
        """One product into its sum."""
        dtype = self.kernel.dtype
        product = Binary("mul", cast(x, dtype), cast(weight, dtype), dtype)
        return nodes.Assign(
            Place(self.acc, self.sum_of(r, n)), Binary("add", Read(self.acc, self.sum_of(r, n), dtype), product, dtype)
        )

    def sum_of(self, r: Expr, n: Expr) -> tuple[Expr]:
        """Where the sum of a row and a column is among the thread's."""
        return (self.plan.micro[1] * r + n,)

    def at(self, word: str, count: int) -> Expr:
        """The name of a loop with this number of turns; 0 where there is one."""
        return self.fresh.expr(word) if count > 1 else ZERO

    def over(self, body: Statement, *names: tuple[str, int]) -> Statement:
        """`body` at every point of loops that are written out."""
        for name, count in reversed(names):
            body = nodes.For(self.fresh(name), ZERO, Expr.of(count), (body,), unroll=0) if count > 1 else body
        return body

    def placed(self, column: Expr, term: Expr) -> tuple[Expr, Expr]:
        """A column and a place along the sum, the one along which accesses go last."""
        return (column, term) if self.is_along_sum else (term, column)

    def step(self) -> tuple[Statement, ...]:
        """A step's loads, then its products; at an end element by element."""
        rows, columns, depth = self.plan.micro
        f, dtype = self.fresh, self.kernel.rhs.dtype
        k0, c0 = f.expr("k0"), f.expr("c0")
        r, c, u = self.at("r", rows), self.at("c", columns), self.at("u", depth)
        sums = (("u", depth), ("r", rows), ("c", columns))
        held = nodes.Reg(f("w"), TensorType(dtype, self.placed(Expr.of(columns), Expr.of(depth))))
        x = Read(f("x"), (r, u), dtype) if self.holds_rows else self.factor(r, k0 + u)
        added = self.over(self.added(r, c, x, Read(held.name, self.placed(c, u), dtype)), *sums)
        loads = held, *self._rows(), self._loads(held.name)
        whole = below(k0 + depth - 1, extent_of(self.kernel.sum)) + below(
            c0 + columns - 1, extent_of(self.kernel.right)
        )
        if not whole:
            return *loads, added
        inside = below(k0 + u, extent_of(self.kernel.sum)) + below(c0 + c, extent_of(self.kernel.right))
        alone = nodes.If(inside, (self.added(r, c, self.factor(r, k0 + u), self.operand(1, c0 + c, k0 + u)),))
        return (nodes.If(whole, (*loads, added), (self.over(alone, *sums),)),)

    def _rows(self) -> tuple[Statement, ...]:
        """A step's elements of the small operand, where they are read several at once; 0 behind its last row."""
        if not self.holds_rows:
            return ()
        rows, _, depth = self.plan.micro
        f, width, dtype = self.fresh, self.plan.width_of(self._inner), self.kernel.lhs.dtype
        r, u = self.at("r", rows), self.at("u", depth // width)
        v = f.expr("v") if width > 1 else ZERO
        row, over = f.expr("m0") + r, ((str(v), Expr.of(width)),) if width > 1 else ()
        load = nodes.Assign(
            Place(f("x"), (r, width * u + v)), self.operand(0, row, f.expr("k0") + width * u + v), over, width
        )
        inside = below(row, extent_of(self.kernel.left))
        body: Statement = self.over(load, ("u", depth // width))
        body = self.over(nodes.If(inside, (body,)) if inside else body, ("r", rows))
        return nodes.Reg(f("x"), TensorType(dtype, (Expr.of(rows), Expr.of(depth))), init=Literal(0.0, dtype)), body

    def _loads(self, name: str) -> Statement:
        """All of a step's elements of the large operand, several an access."""
        _, columns, depth = self.plan.micro
        f, width = self.fresh, self.plan.width_of(self._inner)
        turns = (columns, depth // width) if self.is_along_sum else (columns // width, depth)
        c, u = self.at("c", turns[0]), self.at("u", turns[1])
        v = f.expr("v") if width > 1 else ZERO
        column, term = (c, width * u + v) if self.is_along_sum else (width * c + v, u)
        source = self.operand(1, f.expr("c0") + column, f.expr("k0") + term)
        over = ((str(v), Expr.of(width)),) if width > 1 else ()
        return self.over(
            nodes.Assign(Place(name, self.placed(column, term)), source, over, width), ("u", turns[1]), ("c", turns[0])
        )

    @property
    def _inner(self) -> str:
        return (self.kernel.sum if self.is_along_sum else self.kernel.right)[-1].name


def gemv_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `gemv`."""
    region, kernel, model = problem.region, problem.kernel, problem.model
    fresh = Fresh(model, region)
    thread = _Thread(plan, region, kernel, fresh)
    rows, columns, depth = plan.tile
    along, other = Expr.of("thread.x"), Expr.of("thread.y")
    down, across = (along, other) if thread.is_along_sum else (other, along)
    place, grid = _place(plan, kernel, model, fresh)
    body: list[Statement] = [nodes.Assume(plan.assume)] if plan.assume else []
    body += place
    body.append(nodes.Let(fresh("steps"), extent_of(kernel.sum).ceildiv(depth)))
    part = (shared(fresh(a.label), a) for a in part_of(plan, kernel))
    body += [*shared_sum.declared(plan, kernel, fresh), *part, *shared_sum.set_up(plan, fresh)]
    body += [nodes.Fence("mbarrier_init"), *shared_sum.told(plan)] if plan.parts > 1 else []
    body.append(nodes.Let(fresh("c0"), fresh.expr("n0") + plan.micro[1] * across))
    body.append(
        nodes.Reg(
            thread.acc,
            TensorType(kernel.dtype, (Expr.of(plan.micro[0] * plan.micro[1]),)),
            init=Literal(0.0, kernel.dtype),
        )
    )
    step = (nodes.Let(fresh("k0"), depth * fresh.expr("k") + plan.micro[2] * down), *thread.step())
    first, last, apart = shared_sum.steps(plan, fresh)
    body.append(nodes.For(fresh("k"), first, last, step, step=apart))
    body += _folded(plan, thread, across, other)
    body += shared_sum.finished(plan, region, kernel, fresh, plan.threads[0] * plan.threads[1], ())
    return Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        (grid,),
        plan.threads,
        tuple(body),
        (plan.parts,) if plan.parts > 1 else (),
        regs=declare(plan, problem).registers,
    )


def _place(plan: Plan, kernel: Contraction, model: Model, fresh: Fresh) -> tuple[list[Statement], Expr]:
    """What gives a CTA its rows and columns, and the number of CTAs."""
    rows, columns = (extent_of(g).ceildiv(size) for g, size in zip(kernel.groups[:2], plan.tile))
    count = rows * columns * extent_of(kernel.batch)
    body: list[Statement] = [
        *countable(kernel, model, count),
        *counts(fresh, rows, columns),
        *tile_at(plan, kernel, fresh, Expr.of("cta.x") // plan.parts, columns),
    ]
    body += [
        nodes.Let(fresh(word), size * fresh.expr(tile))
        for word, tile, size in zip(("m0", "n0"), ("tm", "tn"), plan.tile)
    ]
    return body, plan.parts * count


def _folded(plan: Plan, thread: _Thread, across: Expr, other: Expr) -> tuple[Statement, ...]:
    """The CTA's sums, in its tile in shared memory."""
    fresh, dtype, columns = thread.fresh, thread.kernel.dtype, plan.micro[1]
    r, c = thread.at("r", plan.micro[0]), thread.at("c", columns)
    mine = Read(thread.acc, thread.sum_of(r, c), dtype)
    if thread.is_along_sum:
        keep = thread.over(
            nodes.Store(Place(fresh(shared_sum.SUMS), (r, columns * across + c)), mine),
            ("r", plan.micro[0]),
            ("c", columns),
        )
        first = (Bound(Expr.of("thread.x"), equals=ZERO),)
        return nodes.WarpReduce("sum", thread.acc, plan.threads[0]), nodes.If(first, (keep,))
    keep = thread.over(
        nodes.Store(Place(fresh("part"), (other, r, columns * across + c)), mine), ("r", plan.micro[0]), ("c", columns)
    )
    r, n, y, total = fresh.expr("r"), fresh.expr("n"), fresh.expr("y"), fresh("total")
    add = nodes.Assign(
        Place(total, (ZERO,)), Binary("add", Read(total, (ZERO,), dtype), Read(fresh("part"), (y, r, n), dtype), dtype)
    )
    turns = shared_sum.Turns(plan.tile[0], plan.tile[1], plan.threads[0] * plan.threads[1], 1, fresh)
    body = (
        nodes.Reg(total, TensorType(dtype, (Expr.of(1),)), init=Literal(0.0, dtype)),
        nodes.For(str(y), ZERO, Expr.of(plan.threads[1]), (add,), unroll=8),
        nodes.Store(Place(fresh(shared_sum.SUMS), (r, n)), Read(total, (ZERO,), dtype)),
    )
    return keep, nodes.Barrier("cta"), turns.over((), *body)
