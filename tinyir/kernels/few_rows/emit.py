"""The template of a product of few rows: the large factor goes from memory into registers, each element once, and is
made the left operand of tensor cores there; its columns are their rows.

    for c in thread.z..K/128 step 8 unroll 2          a warp's piece of the sum: four threads have 32 elements each
      let chunk = 4*c + lane - 4*floor(lane/4)
      Q.v[h, e] over e: 16 = Q[n, 16*chunk + e] vector 16      of columns n = n0 + 8*h + floor(lane/4)
      for g in 0..4 unroll                            eight elements of each
        x.v[j, e] over e: 8 = A[8*j + floor(lane/4), 32*chunk + 8*g + e] vector 8
        for s in 0..2 unroll
          each r, k of wf                             sixteen columns, and sixteen elements of the sum: four of each
            let t = 4*s + ...                           thread's, so that it reads what is its own
            wf[r, k] = what is computed of Q.v[floor(r/8), 4*g + floor(t/2)]
          each k, m of xf
            xf[k, m] = x.v[floor(m/8), t]
          mma acc += wf * xf shape m16n8k16
    each r, m of acc
      store part[thread.z, m, n + r] = acc[r, m]
    barrier cta
    for e in thread.index..8*columns step threads     an element a thread: the warps' parts, in their order
      the values at this point, and the stores

Where the large factor is computed of what is contiguous along its columns, a thread has columns side by side, and as
many accesses as its piece of the sum has rows of them (`vectorize i1 width 4`, words of eight numbers along the sum):

      let n0 = 8*cta.x + floor(lane/4)                  a thread's columns are 4*n0 + 0..3
      Q.v[h, e] over e: 4 = Q[2*chunk + h, 4*n0 + e] vector 4
      wf[r, k] = what is computed of Q.v[2*g + floor(t/8), floor(r/8)]
      store part[thread.z, m, 4*(r mod 8) + floor(r/8)] = acc[r, m]

Which elements of the sum a product takes together is free, so a thread multiplies those that it has read: no shuffle
and no shared memory is between memory and the tensor cores. The two of a word are neighbours in memory: those of the
small factor are multiplied as they came, those of the large one are unpacked together.
"""

from __future__ import annotations

from ...ir.body import Binary, Body, Index, Literal, Read, rebuild, substitute
from ...ir.expr import ONE, ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.scope import has_floor
from ...ir.types import DTYPES
from ...kit.records import dataclass, replace
from ..family import Problem
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.point import Fresh, below, divides, names_in, needed
from ..parts.statements import Statements
from .declare import EIGHT, FRAGMENT, VECTOR, blocks_of, columns_of, declare, part_of, rows_of
from .match import Patch, Placed, Product, accesses_of, patch_of, placed_in, product_of, reads_of

LANES = 4  # that share a row of an operand


def few_rows_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `few_rows` or `one_row`."""
    made = _FewRows.of(plan, problem)
    array = shared(made.part, part_of(plan, problem))
    grid = made.product.right.size.ceildiv(made.columns)
    body = (array, *made.summed(), nodes.Barrier("cta"), made.written())
    regs = declare(plan, problem).registers  # as many as are told: the compiler reads as far ahead as they are enough
    return Kernel(plan.name, plan.regions, plan.arch, (grid,), plan.threads, body, regs=regs)


@dataclass
class _FewRows:
    """One kernel on its way. `patch`: what a thread takes at once; `rows` and `columns` of the CTA."""

    plan: Plan
    problem: Problem
    product: Product
    fresh: Fresh
    patch: Patch
    rows: int
    columns: int

    @staticmethod
    def of(plan: Plan, problem: Problem) -> _FewRows:
        region, kernel = problem.region, problem.kernel
        product = product_of(region, kernel)
        patch = patch_of(plan, product)
        return _FewRows(
            plan,
            problem,
            product,
            Fresh(names_in(region)),
            patch,
            rows_of(problem),
            columns_of(plan, problem),
        )

    @property
    def piece(self) -> int:
        """Elements along the sum of a thread."""
        return self.patch.piece

    @property
    def region(self) -> Region:
        """The region."""
        return self.problem.region

    @property
    def part(self) -> str:
        """The array in which warps leave what they have summed."""
        return self.fresh.of("part")

    def name(self, word: str) -> Expr:
        """An integer of the kernel."""
        return Expr.of(self.fresh.of(word))

    @property
    def of_warp(self) -> int:
        """Columns of a warp."""
        return FRAGMENT * blocks_of(self.plan)

    def summed(self) -> tuple[Statement, ...]:
        """The loop over the sum, and what each warp has then."""
        acc = self.fresh.of("acc")
        shape = type_of(DTYPES["fp32"], self.of_warp, self.rows)
        warp = self.of_warp * Expr.of("thread.y")
        r, m = self.name("r"), self.name("m")
        at = warp + self._column(r - EIGHT * (r // EIGHT), r // EIGHT)
        kept = nodes.Store(Place(self.part, (Expr.of("thread.z"), m, at)), Read(acc, (r, m), DTYPES["fp32"]))
        number, size = self.plan.threads[1] * Expr.of("cta.x") + "thread.y", self.product.right.size
        if self.has_whole_warps and not divides(self.columns, size):
            every = size // self.of_warp  # a warp whose columns are not there sums others, which nobody takes
            number = number - every * (number // every)
        first = self.of_warp * number
        if self.patch.side:  # whole columns of threads, so that accesses are seen to be whole
            first = EIGHT * number + Expr.of("lane") // LANES
        return (
            nodes.Let(str(self.name("n0")), first),
            nodes.Reg(acc, shape, kind="mma", init=Literal(0.0, DTYPES["fp32"])),
            self._loop(),
            nodes.Each((str(r), str(m)), acc, (kept,)),
        )

    @property
    def has_whole_warps(self) -> bool:
        """Whether a warp's columns are all there, or none."""
        return divides(self.of_warp, self.product.right.size)

    def _column(self, thread: Expr, h: Expr) -> Expr:
        """Which column of a warp is column h of a thread: tensor cores take them in any order."""
        return self.patch.side * thread + h if self.patch.side else EIGHT * h + thread

    def _loop(self) -> Statement:
        """Over the steps of a warp: what `stages` of them read is on its way at once."""
        c, steps, behind = self.name("c"), self.product.sum.size // (LANES * self.piece), self.plan.threads[2]
        body = (*self._registers(), *self._read(c), *self._multiplied())
        first, apart = Expr.of("thread.z"), Expr.of(behind)
        return nodes.For(str(c), first, steps, body, step=apart, unroll=self.plan.stages)

    # --- a step

    def _registers(self) -> tuple[Statement, ...]:
        """What a thread holds of a step."""
        rows = (self._of_rows(self.piece),) if self.has_rows_early else ()
        return (*map(self._of_columns, reads_of(self.product)), *rows)

    def _read(self, step: Expr) -> tuple[Statement, ...]:
        """All loads of a step."""
        g = self.name("g")
        rows = nodes.For(str(g), ZERO, Expr.of(self.piece // VECTOR), (self._rows(VECTOR * g),), unroll=0)
        return (
            nodes.Let(str(self.name("chunk")), LANES * step + "lane" - LANES * (Expr.of("lane") // LANES)),
            *(self._load(read) for read in reads_of(self.product)),
            *((rows,) if self.has_rows_early else ()),
        )

    def _multiplied(self) -> tuple[Statement, ...]:
        """The products of a step."""
        dtype, acc = self.product.small.dtype, self.fresh.of("acc")
        products = nodes.For(str(self.name("s")), ZERO, Expr.of(VECTOR // 4), tuple(self._products(acc)), unroll=0)
        rows = () if self.has_rows_early else (self._of_rows(VECTOR), self._rows(ZERO))
        return (
            nodes.Reg(self.fresh.of("wf"), type_of(dtype, self.of_warp, FRAGMENT), kind="mma_a"),
            nodes.Reg(self.fresh.of("xf"), type_of(dtype, FRAGMENT, self.rows), kind="mma_b"),
            nodes.For(str(self.name("g")), ZERO, Expr.of(self.piece // VECTOR), (*rows, products), unroll=0),
        )

    @property
    def has_rows_early(self) -> bool:
        """Whether a thread's elements of all rows are read with those of its columns."""
        return self.rows == EIGHT

    def _of_rows(self, count: int) -> Statement:
        shape = type_of(self.product.small.dtype, self.rows // EIGHT, count)
        return nodes.Reg(self.fresh.of("x.v"), shape)

    def _rows(self, first: Expr) -> Statement:
        """What a thread reads of each row for eight elements; of rows that are not there others, whose sums nobody
        takes."""
        product, small = self.product, self.product.small
        j, e = self.name("j"), self.name("e")
        point = {product.sum.name: self.piece * self.name("chunk") + VECTOR * self.name("g") + e}
        if product.left is not None:
            row = EIGHT * j + Expr.of("lane") // LANES
            point[product.left.name] = row - product.rows * (row // product.rows) if product.rows < self.rows else row
        to = Place(self.fresh.of("x.v"), (j, first + e))
        taken = nodes.Assign(to, substitute(small, point), ((str(e), Expr.of(VECTOR)),), VECTOR)
        return nodes.For(str(j), ZERO, Expr.of(self.rows // EIGHT), (taken,), unroll=0)

    def _of_columns(self, read: Read) -> Statement:
        """The registers of a read."""
        halves, count = self._held(read)
        is_of_all = self.has_whole_warps or halves == 1
        init = None if is_of_all else Literal(0 if not read.dtype.is_float else 0.0, read.dtype)
        return nodes.Reg(self.held(read), type_of(read.dtype, halves, count), init=init)

    def _held(self, read: Read) -> tuple[int, int]:
        """Rows and elements of a read's registers: those of each eight columns."""
        return accesses_of(self.placed(read), self.patch, 2 * blocks_of(self.plan))

    def placed(self, read: Read) -> Placed:
        """Where its elements are."""
        return placed_in(self.region, self.product, read, self.patch)

    def _load(self, read: Read) -> Statement:
        """What a thread reads of one tensor for its columns."""
        product, placed = self.product, self.placed(read)
        halves, count = self._held(read)
        h, e = self.name("h"), self.name("e")
        at = e if count > 1 else ZERO
        deep, first = (h, ZERO) if placed.beside else (at, h)  # along the sum, and among the thread's columns
        column, last = (
            self._columns_at(first + placed.beside * at),
            self._columns_at(first + max(1, self.patch.side) - 1),
        )
        point = {product.sum.name: self.piece * self.name("chunk") + placed.shared * deep, product.right.name: column}
        over = ((str(e), Expr.of(count)),) if count > 1 else ()
        to = Place(self.held(read), (h if placed.is_of_column else ZERO, at))
        taken: Statement = nodes.Assign(to, substitute(read, point), over, count)
        if placed.is_of_column and not self.has_whole_warps:
            taken = nodes.If(below(last, product.right.size), (taken,))
        return nodes.For(str(h), ZERO, Expr.of(halves), (taken,), unroll=0) if placed.is_of_column else taken

    def _columns_at(self, h: Expr) -> Expr:
        """Column h of a thread."""
        side, first = self.patch.side, self.name("n0")
        return side * first + h if side else first + EIGHT * h + Expr.of("lane") // LANES

    def held(self, read: Read) -> str:
        """The registers of a read: several of one tensor have names of their own."""
        same = [one for one in reads_of(self.product) if one.tensor == read.tensor]
        return self.fresh.of(f"{read.tensor}.v{same.index(read) or ''}")

    def _products(self, acc: str) -> list[Statement]:
        """A product of tensor cores: its operands' elements, then itself."""
        wf, xf = self.fresh.of("wf"), self.fresh.of("xf")
        r, k, m = self.name("r"), self.name("k"), self.name("m")
        t = nodes.Let(str(self.name("t")), 4 * self.name("s") + 2 * (k // 2 // 4) + k - 2 * (k // 2))
        place = self._element if self.has_rows_early else self.name("t")
        small = Read(self.fresh.of("x.v"), (m // EIGHT, place), self.product.small.dtype)
        return [
            nodes.Each((str(r), str(k)), wf, (t, nodes.Assign(Place(wf, (r, k)), self._made(self.product.large)))),
            nodes.Each((str(k), str(m)), xf, (t, nodes.Assign(Place(xf, (k, m)), small))),
            nodes.Mma(acc, Place(wf), Place(xf), "m16n8k16"),
        ]

    @property
    def _element(self) -> Expr:
        """Which element of a thread's piece an operand's is."""
        return VECTOR * self.name("g") + self.name("t")

    def _made(self, body: Body) -> Body:
        """An element of the large factor, of what the thread has read."""
        if isinstance(body, Read):
            placed, h = self.placed(body), self.name("r") // EIGHT
            at = self._element // placed.shared if placed.shared < self.piece else ZERO
            if placed.beside:
                where = (at, h // placed.beside if placed.beside < self.patch.side else ZERO)
            else:
                where = (h if placed.is_of_column else ZERO, at)
            return Read(self.held(body), where, body.dtype)
        if isinstance(body, Index):
            return replace(body, expr=self._number(body.expr))
        return rebuild(body, self._made)

    def _number(self, number: Expr) -> Expr:
        """An integer at an element: by what is known of its piece, where that is all there is to know."""
        at = self.piece * self.name("chunk") + self.name("v")
        u, r, side = self.name("u"), self.name("r"), self.patch.side
        column = self._columns_at(u) if side else self.name("n0") + r
        found = number.substitute({self.product.sum.name: at, self.product.right.name: column})
        places = {str(u): (max(1, side), r // EIGHT), str(self.name("v")): (self.piece, self._element)}
        for name, (size, place) in places.items():
            found = _along(found, name, size).substitute({name: place})
        return found

    # --- the end

    def written(self) -> Statement:
        """The elements of the tile, each by one thread."""
        product, behind = self.product, self.plan.threads[2]
        number, total = self.name("i"), self.fresh.of("total")
        threads = 32 * self.plan.threads[1] * behind
        fp32 = DTYPES["fp32"]
        row, column = number // self.columns, number - self.columns * (number // self.columns)
        z = self.name("z")
        so_far, more = Read(total, (ZERO,), fp32), Read(self.part, (z, row, column), fp32)
        added = nodes.Assign(Place(total, (ZERO,)), Binary("add", so_far, more, fp32))
        lines: list[Statement] = [
            nodes.Reg(total, type_of(fp32, 1)),
            nodes.Assign(Place(total, (ZERO,)), Read(self.part, (ZERO, row, column), fp32)),
        ]
        lines += [nodes.For(str(z), ONE, Expr.of(behind), (added,), unroll=0)] if behind > 1 else []
        values = Statements(self.region, self.fresh, {product.value: so_far})
        for name in _behind(self.region, product.value):
            lines += values.values((name,))
        for item in self.region.yields:
            expr, before = values.body(item.expr)
            lines += [*before, _store(item, expr, values.point)]
        lets = [nodes.Let(product.right.name, self.columns * Expr.of("cta.x") + column)]
        lets += [nodes.Let(product.left.name, row)] if product.left is not None else []
        inside = (
            () if divides(self.columns, product.right.size) else below(Expr.of(product.right.name), product.right.size)
        )
        body = (*lets, *((nodes.If(inside, tuple(lines)),) if inside else lines))
        return nodes.For(
            str(number),
            Expr.of("thread.index"),
            Expr.of(product.rows * self.columns),
            body,
            step=Expr.of(threads),
        )


def _along(number: Expr, name: str, size: int) -> Expr:
    """An integer without floors where it counts evenly along a name in 0..size - 1."""
    if not has_floor(number) or name not in number.names():
        return number
    first, *others = (number.substitute({name: n}) for n in range(size))
    step = (others[0] - first).constant if others else 0
    is_even = step is not None and all(one == first + n * step for n, one in enumerate(others, 1))
    return first + step * Expr.of(name) if is_even else number


def _store(item, body: Body, point) -> Statement:
    store = nodes.Store(Place(item.output, tuple(e.substitute(point) for e in item.index)), body)
    guard = tuple(b.substitute(point) for b in item.guard)
    return nodes.If(guard, (store,)) if guard else store


def _behind(region: Region, value: str) -> tuple[str, ...]:
    """The values that the writes need, and that need the product alone."""
    cut = replace(
        region,
        lets=tuple(
            replace(let, expr=Literal(0.0, let.expr.dtype)) if let.name == value else let for let in region.lets
        ),
    )
    return tuple(name for name in needed(cut, (y.expr for y in region.yields)) if name != value)
