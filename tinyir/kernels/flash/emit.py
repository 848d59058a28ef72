"""The kernel of the flash family: two contractions with a softmax between them on the tensor cores of sm90.

    role producer    one thread fetches the query's tile, then block by block keys and values, into rings
    role consumer    for each tile of 64 rows a warpgroup
      sc = q * k of the first block; its softmax; p = the weights
      for each further block
        sc = q * k of this block, acc += p * v of the one before      both at once; then what they read is given back
        the softmax of sc; acc scaled to the new maximum; p = the weights
      acc += p * v of the last block; acc over the row's total, the values after it, piece by piece to the output

Blocks go from the last to the first (`masks`). What streaming says of old sums under a new maximum holds here
(`streaming.match`); the weights are rounded to the value's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...ir.accumulate import literal, neutral_of
from ...ir.body import Binary, Body, Read, Reduce, Ref, Select, Ternary, Unary, operands_of
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...ir.types import DTYPES, TensorType, round_to
from ...target.hopper import WARPGROUP, WARPGROUP_ROWS
from ..attention import Streaming
from ..attention.walk import AFTER, Walk, sides_of, walk_of
from ..family import Problem
from ..parts.arrays import shared
from ..parts.point import Fresh, Values, below, divides, element_store, names_in, needed, split
from ..parts.tiles import fewer
from .declare import SPAN, STAGED, STEP, SWIZZLE, operand_arrays, output_arrays, sizes_of
from .match import Box, Flash, flash_of
from .rows import guard_of_row, named_page, names_of_row

FP32 = DTYPES["fp32"]
FIRST_THREAD = (Bound(Expr.of("warpgroup.thread"), equals=ZERO),)
BOX_ROWS = 256  # at most
MOST_TILES = 2**31 - 2**16  # so that a tile's number stays an int when CTAs go on


def flash_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `streaming_softmax`."""
    return _Template(plan, problem).kernel_text()


class _Template:
    """The template with one plan's numbers and two regions' maps in it."""

    def __init__(self, plan: Plan, problem: Problem):
        self.plan, self.model = plan, problem.model
        self.first, self.second = first, second = problem.kernel.first, problem.kernel.second
        self.kernel: Flash = flash_of(problem.kernel)
        kernel = self.kernel
        self.streaming: Streaming = kernel.streaming
        self.sizes = sizes_of(plan, self.streaming)
        self.count = plan.consumers.count
        self.fresh = Fresh({*names_in(first), *names_in(second), *self.model.symbols()})
        self.of = self.fresh.of
        self.row, self.column = self.streaming.row, self.streaming.column
        self.m0 = Expr.of(self.of("m0"))
        own = {limit.name: Expr.of(self.of(limit.name)) for limit in kernel.limits}
        self.masks = tuple(mask.substitute(own) for mask in kernel.masks)
        rows, m0 = (self.row.size.constant, ZERO) if kernel.packed else (plan.tile[0], self.m0)
        sides = sides_of(self.masks, self.row.name, self.column.name, rows, m0)
        self.walk: Walk = walk_of(sides, self.column.size, plan.tile[1], self.of)
        self.is_longest_last = any(
            s.what == AFTER and any(c > 0 and m == (self.of("m0"),) for c, m in s.touched.terms) for s in sides or ()
        )
        self.row_guard = guard_of_row(kernel, plan.tile[0])
        self.is_column_guarded = not divides(plan.tile[1], self.column.size) or self.walk.may_pass_end
        self.point = {a.name: Expr.of(a.name) for a in first.iters}
        self.rings = {array.label: array for array in operand_arrays(plan, problem)}
        self.boxes = (("q", kernel.query), ("k", kernel.key), ("v", kernel.value))
        self.staged = tuple(
            (item, box, array)
            for item, box, array in zip(second.yields, kernel.outputs, output_arrays(plan, problem))
            if array is not None
        )

    def kernel_text(self) -> Kernel:
        """Declarations, what all threads know, and the two roles."""
        plan, tiles = self.plan, Expr.of(self.of("tiles"))
        heads, high = extent_of(self.kernel.outer), self.kernel.height.ceildiv(plan.tile[0])
        body: list[Statement] = [nodes.Assume(plan.assume)] if plan.assume else []
        body += fewer(self.model, MOST_TILES, heads * high)
        body += [*self._maps(), *self._tiles()]
        body += [nodes.Fence("mbarrier_init"), nodes.Barrier("cta")]
        body += [
            nodes.Let(self.of("heads"), heads),
            nodes.Let(self.of("tiles.m"), high),
            nodes.Let(self.of("tiles"), Expr.of(self.of("heads")) * Expr.of(self.of("tiles.m"))),
        ]
        body += [self._producer(tiles), self._consumer(tiles)]
        threads = WARPGROUP * (1 + self.count)
        grid = (Expr.of(plan.persistent) if plan.persistent else heads * high,)
        return Kernel(plan.name, plan.regions, plan.arch, grid, (threads,), tuple(body))

    # --- declarations

    def _maps(self) -> Iterable[Statement]:
        for word, box in self.boxes:
            rows = self.rings[word].shape[0]
            yield nodes.TensorMap(f"{self.of(word)}.map", box.tensor.name, box.sides(rows, SPAN), SWIZZLE)
        for item, box, array in self.staged:
            sides = box.sides(*array.shape)
            yield nodes.TensorMap(f"{self._out(item.output)}.map", box.tensor.name, sides, array.swizzle)

    def _tiles(self) -> Iterable[Statement]:
        for word, array in self.rings.items():
            yield shared(self.of(word), array)
        for item, _, array in self.staged:
            yield shared(self._out(item.output), array)
        for word, array in self.rings.items():
            slots = array.slots
            yield nodes.Mbarrier(self.of(f"full.{word}"), 1, slots)
            yield nodes.Mbarrier(self.of(f"empty.{word}"), self.count, slots)

    def _out(self, output: str) -> str:
        return self.of(f"{output}.out")

    # --- the walk over tiles

    def _over_tiles(self, tiles: Expr, body: Iterable[Statement]) -> Statement:
        """The tiles of a CTA: heads that share keys and values in L2 together. Where later rows have more columns those
        come first, and last in every other group of heads: a CTA's tiles are as far apart as CTAs are many, so that
        without turns the same CTAs would have the long tiles of each group."""
        plan, head, tm = self.plan, self.of("head"), self.of("tm")
        extents = (Expr.of(self.of("heads")), Expr.of(self.of("tiles.m")))
        number = Expr.of(self.of("tile"))
        width = plan.order.width if plan.order else 0
        place = Expr.of(self.of("tiles.m")) - 1 - tm if self.is_longest_last else Expr.of(tm)
        lets = [nodes.Order((head, tm), number, extents, width, self.is_longest_last and width > 0)]
        lets += [nodes.Let(n, e) for n, e in split(Expr.of(head), self.kernel.outer).items()]
        lets += [nodes.Let(self.of("m0"), plan.tile[0] * place), *self._limits(), *self.walk.setup]
        step = Expr.of(plan.persistent) if plan.persistent else tiles
        return nodes.For(self.of("tile"), Expr.of("cta.x"), tiles, (*lets, *body), step=step)

    def _limits(self) -> Iterable[Statement]:
        """What data say of the tile's columns."""
        values = Values(self.first, self.point)
        for limit in self.kernel.limits:
            yield nodes.Choose(self.of(limit.name), values.at(limit.value), limit.most + 1)

    def _producer(self, tiles: Expr) -> Statement:
        t = Expr.of(self.of("t"))
        n0 = Expr.of(self.of("n0"))
        blocks = (nodes.Let(self.of("n0"), self.walk.start(t)), *self._fetch("k", n0), *self._fetch("v", n0))
        loop = nodes.For(self.of("t"), ZERO, self.walk.steps, blocks)
        cursors = tuple(
            nodes.Cursor(self.of(f"{word}.next"), self.rings[word].slots, phase=1) for word, _ in self.boxes
        )
        some = self.of("some")  # 0 of a tile of which the data leave no column: what it fetches is beyond the tensor
        any_end = Expr.of(f"{some}.end")
        known = (nodes.Least(f"{some}.end", (ONE, self.walk.end)), nodes.Most(some, (ZERO, any_end)))
        known = known if self.kernel.limits else ()
        one = (*cursors, self._over_tiles(tiles, (*known, *self._fetch("q", self.m0), loop)))
        regs = self.plan.regs.producer if self.plan.regs else 0
        return nodes.Role("producer", "warpgroups", 0, 1, (nodes.If(FIRST_THREAD, one),), regs)

    def _fetch(self, word: str, row: Expr) -> tuple[Statement, ...]:
        """One operand's tile into the next slot of its ring."""
        box: Box = dict(self.boxes)[word]
        rows, columns = self.rings[word].shape
        cursor = self.of(f"{word}.next")
        slot = self._slot(word, cursor)
        full = Place(self.of(f"full.{word}"), slot=slot)
        if self.kernel.limits and word != "q" and not box.page:
            row = row + box.tensor.type.shape[box.row] * (1 - Expr.of(self.of("some")))
        page = named_page(self.kernel, box.page, self.of(f"{word}.page"), self.masks, row) if box.page else ()
        at = tuple(Expr.of(page[0].name) if page and n == box.page.dim else e for n, e in enumerate(box.at(row, ZERO)))
        source = Place(f"{self.of(word)}.map", at)
        return (
            *page,
            nodes.Wait(Place(self.of(f"empty.{word}"), slot=slot), Expr.of(f"{cursor}.phase")),
            nodes.Arrive(full, rows * columns * box.dtype.bytes),
            nodes.TmaLoad(f"load.{word}", Place(self.of(word), slot=slot), source, full),
            nodes.Advance(cursor),
        )

    # --- the consumers

    def _consumer(self, tiles: Expr) -> Statement:
        s, value = self.sizes, self.kernel.value
        body: list[Statement] = [nodes.Cursor(self.of(f"{word}.s"), self.rings[word].slots) for word, _ in self.boxes]
        body += [nodes.Cursor(self.of("o"), STAGED)] if self.staged else []
        body += [
            nodes.Reg(self.of("sc"), _type(FP32, WARPGROUP_ROWS, s.columns), kind="wgmma"),
            nodes.Reg(self.of("p"), _type(value.dtype, WARPGROUP_ROWS, s.columns), kind="wgmma_a"),
            nodes.Reg(self.of("acc"), _type(FP32, WARPGROUP_ROWS, s.width), kind="wgmma"),
        ]
        rows = ("top", "old", "base", "change", "scale")
        body += [nodes.Reg(self.of(word), _type(FP32, WARPGROUP_ROWS), kind="rows") for word in rows]
        body.append(nodes.Reg(self.of("total"), _type(FP32, WARPGROUP_ROWS), kind="row_parts"))
        body.append(nodes.Let(self.of("part"), WARPGROUP_ROWS * Expr.of("warpgroup.index")))
        body.append(self._over_tiles(tiles, self._tile()))
        tokens = tuple(f"store.{item.output}" for item, _, _ in self.staged)
        body += [nodes.If(FIRST_THREAD, (nodes.WaitGroup("tma_store", 0, tokens),))] if tokens else []
        regs = self.plan.regs.consumer if self.plan.regs else 0
        return nodes.Role("consumer", "warpgroups", 1, 1 + self.count, tuple(body), regs)

    def _tile(self) -> Iterable[Statement]:
        """One tile of rows."""
        walk, t = self.walk, self.of("t")
        yield self._each_row("top", (self._set("top", neutral_of("max", FP32)), self._set("total", literal(0, FP32))))
        yield self._each("acc", (nodes.Assign(self._at("acc"), literal(0, FP32)),))
        yield nodes.Wait(Place(self.of("full.q"), slot=self._slot("q")), self._phase("q"), ("load.q",))
        yield nodes.Let(self.of("n0.last"), walk.start(ZERO))
        yield from self._scores("qk")
        yield nodes.WaitGroup("wgmma", 0, ("qk",))
        yield from self._give_back("k")
        yield from self._softmax(is_cut=not walk.is_whole, is_first=True)
        for word, low, high, is_cut in (
            ("cut", ONE, walk.cut, True),
            ("whole", walk.cut, walk.whole, False),
            ("begin", walk.whole, walk.steps, True),
        ):
            if low != high:
                yield nodes.For(t, low, high, tuple(self._block(word, is_cut)))
        yield from self._give_back("q")
        yield from self._weighted("pv")
        yield nodes.WaitGroup("wgmma", 0, ("pv",))
        yield from self._give_back("v")
        yield from self._leave()

    def _block(self, word: str, is_cut: bool) -> Iterable[Statement]:
        """A block of columns, and the values of the one before."""
        yield nodes.Let(self.of("n0"), self.walk.start(Expr.of(self.of("t"))))
        yield from self._scores(f"qk.{word}")
        yield from self._weighted(f"pv.{word}")
        yield nodes.WaitGroup("wgmma", 0, (f"qk.{word}", f"pv.{word}"))
        yield from self._give_back("k")
        yield from self._give_back("v")
        yield from self._softmax(is_cut, is_first=False)

    def _scores(self, token: str) -> Iterable[Statement]:
        yield nodes.Wait(Place(self.of("full.k"), slot=self._slot("k")), self._phase("k"), ("load.k",))
        yield nodes.Fence("wgmma")
        yield nodes.Wgmma(
            token,
            self.of("sc"),
            Place(self.of("q"), (Expr.of(self.of("part")), ZERO), self._slot("q")),
            Place(self.of("k"), slot=self._slot("k")),
            f"m64n{self.sizes.columns}k{STEP}",
            self.sizes.depth // STEP,
            b_transposed=True,
            zero=(),
        )

    def _weighted(self, token: str) -> Iterable[Statement]:
        yield nodes.Wait(Place(self.of("full.v"), slot=self._slot("v")), self._phase("v"), ("load.v",))
        yield nodes.Fence("wgmma")  # of its own: without one ptxas puts one there, and says so (C7519)
        yield nodes.Wgmma(
            token,
            self.of("acc"),
            Place(self.of("p")),
            Place(self.of("v"), slot=self._slot("v")),
            f"m64n{self.sizes.width}k{STEP}",
            self.sizes.columns // STEP,
        )

    def _give_back(self, word: str) -> tuple[Statement, ...]:
        place = Place(self.of(f"empty.{word}"), slot=self._slot(word))
        return nodes.Arrive(place), nodes.Advance(self.of(f"{word}.s"))

    def _slot(self, word: str, cursor: str = "") -> Expr | None:
        """Where a cursor is in the ring of an operand, if it is one; by default the consumers'."""
        return Expr.of(f"{cursor or self.of(f'{word}.s')}.slot") if self.rings[word].slots > 1 else None

    def _phase(self, word: str) -> Expr:
        return Expr.of(f"{self.of(f'{word}.s')}.phase")

    # --- the softmax of a block

    def _softmax(self, is_cut: bool, is_first: bool) -> Iterable[Statement]:
        work = self._work(is_cut, is_first)
        if work:
            yield self._each("sc", work)
        yield self._each_row("old", (self._set("old", self._of("top")),))
        yield nodes.RowReduce("max", self.of("sc"), self.of("top"))
        lowest, top = neutral_of("max", FP32), self._of("top")
        is_empty = Binary("cmpeq", top, lowest, DTYPES["bool"])
        base = Ternary("where", is_empty, literal(0, FP32), self._scaled(top), FP32)
        change = Binary("sub", self._scaled(self._of("old")), self._of("base"), FP32)
        total = Binary("mul", self._of("total"), self._of("change"), FP32)
        rows = [self._set("base", base), self._set("change", Unary("exp2", change, FP32)), self._set("total", total)]
        yield self._each_row("top", tuple(rows), is_approx=True)
        score = self._read("sc")
        weight = Unary("exp2", Binary("sub", self._scaled(score), self._of("base"), FP32), FP32)
        yield self._each("sc", (nodes.Assign(self._at("sc"), weight),), is_approx=True)
        yield nodes.RowReduce("sum", self.of("sc"), self.of("total"))
        if not is_first:
            rescaled = Binary("mul", self._read("acc"), self._of("change"), FP32)
            yield self._each("acc", (nodes.Assign(self._at("acc"), rescaled),))
        rounded = Unary("cast", score, self.kernel.value.dtype)
        yield self._each("sc", (nodes.Assign(self._at("p"), rounded),))

    def _scaled(self, body: Body) -> Body:
        return _times(body, self.kernel.factor)

    def _work(self, is_cut: bool, is_first: bool) -> tuple[Statement, ...]:
        """What is done to each score before its maximum is taken: the region's work, and -inf outside masks and
        tensors."""
        kernel, streaming, lowest = self.kernel, self.streaming, neutral_of("max", FP32)
        guard = self.masks if is_cut else ()
        guard += below(Expr.of(self.column.name), self.column.size) if is_cut and self.is_column_guarded else ()
        start = "n0.last" if is_first else "n0"
        names = [*self._row(), nodes.Let(self.column.name, Expr.of(self.of(start)) + self._n)]
        score = self._read("sc")
        if kernel.work is None:
            masked = Select(guard, score, lowest, FP32)
            return (*names, nodes.Assign(self._at("sc"), masked)) if guard else ()
        guard += self.row_guard
        values = Values(self.first, self.point, {streaming.scores: score})
        inside: list[Statement] = []
        for name in needed(self.first, (kernel.work,)):
            if name != streaming.scores:
                inside.append(nodes.Value(name, values.at(self.first.let(name).expr)))
                values.known[name] = Ref(name, self.first.let(name).expr.dtype)
        inside.append(nodes.Assign(self._at("sc"), values.at(kernel.work)))
        nothing = (nodes.Assign(self._at("sc"), lowest),)
        return (*names, nodes.If(guard, tuple(inside), nothing)) if guard else (*names, *inside)

    # --- the output

    def _leave(self) -> Iterable[Statement]:
        """Sums over totals, the values after them, and the stores."""
        yield self._each_row("scale", (self._set("scale", literal(0, FP32)),))
        yield nodes.RowReduce("sum", self.of("total"), self.of("scale"))
        yield from self._row_writes()
        if self.streaming.norm:
            yield self._each_row("scale", tuple(self._normed()))
        pieces = self.sizes.width // self.sizes.piece
        j = Expr.of(self.of("j"))
        across = self.sizes.piece * j if pieces > 1 else ZERO
        body = tuple(self._piece(across))
        if pieces > 1:
            yield nodes.For(self.of("j"), ZERO, Expr.of(pieces), body, unroll=0)
        else:
            yield from body

    def _row_values(self) -> Values:
        """What is known of a row when all columns are walked: its total is in `scale`."""
        streaming = self.streaming
        known = {streaming.total: self._of("scale"), streaming.top: _times(self._of("top"), self.kernel.scale)}
        return Values(self.first, self.point, known)

    def _row_writes(self) -> Iterable[Statement]:
        """The writes of numbers of a row, by the thread that holds the first column of its sum."""
        deferred = {t.name for t in self.first.outputs if t.attr("materialize") == "deferred"}
        writes = [item for item in self.streaming.writes if item.output not in deferred]
        if not writes:
            return
        values, total = self._row_values(), self.streaming.total
        if not self.streaming.is_guarded:
            # the total of a row of -inf is 0 here, and NaN in the text
            is_empty = Binary("cmpeq", self._of("top"), neutral_of("max", FP32), DTYPES["bool"])
            values.known[total] = Ternary("where", is_empty, literal(math.nan, FP32), values.known[total], FP32)
        stores = []
        for item in writes:
            place = Place(item.output, tuple(e.substitute(self.point) for e in item.index))
            stores.append(nodes.Store(place, values.at(item.expr)))
        guard = (*self.row_guard, Bound(self._n, equals=ZERO))
        body = (*self._row(), nodes.If(guard, tuple(stores)))
        names = (self.of("r"), self.of("n"))
        yield nodes.Each(names, self.of("acc"), body, (ZERO, ZERO), (WARPGROUP_ROWS, STEP))

    def _normed(self) -> Iterable[Statement]:
        """By what a row's sums are multiplied, or divided."""
        streaming, kernel = self.streaming, self.kernel
        values = self._row_values()
        by = values.at(streaming.norm_by)
        if kernel.has_reciprocal:
            by = Binary("fdiv", literal(1, FP32), by, FP32)
        if streaming.zero is not None:  # no reciprocal of a sum is 0
            by = Ternary("where", values.at(streaming.zero), literal(0, FP32), by, FP32)
        yield from self._row()
        yield self._set("scale", by)

    def _piece(self, across: Expr) -> Iterable[Statement]:
        """A piece of the sum's columns, from `across` on."""
        tokens = tuple(f"store.{item.output}" for item, _, _ in self.staged)
        o = self.of("o")
        slot = Expr.of(f"{o}.slot") + (STAGED * Expr.of("warpgroup.index") if self.count > 1 else 0)
        if tokens:
            yield nodes.If(FIRST_THREAD, (nodes.WaitGroup("tma_store", (STAGED - 1) * len(tokens), tokens),))
            yield nodes.Barrier("warpgroup")
        yield self._elements(across, slot)
        if tokens:
            yield nodes.Fence("async_proxy")
            yield nodes.Barrier("warpgroup")
            stores = []
            for item, box, _ in self.staged:
                at = box.at(self.m0 + self.of("part"), across)
                to = Place(f"{self._out(item.output)}.map", at)
                stores.append(nodes.TmaStore(f"store.{item.output}", to, Place(self._out(item.output), slot=slot)))
            yield nodes.If(FIRST_THREAD, tuple(stores))
            yield nodes.Advance(o)

    def _elements(self, across: Expr, slot: Expr) -> Statement:
        """The values of each element, and where it is stored."""
        streaming, width = self.streaming, self.streaming.width[0]
        column = across + self._n
        total = Read(self.of("acc"), (self._r, column), FP32)
        if streaming.norm:
            op = "mul" if self.kernel.has_reciprocal else streaming.norm
            total = Binary(op, total, self._of("scale"), FP32)
        if streaming.zero is not None:
            is_zero = Binary("cmpeq", self._of("scale"), literal(0, FP32), DTYPES["bool"])
            total = Ternary("where", is_zero, literal(0, FP32), total, FP32)
        point = {n: Expr.of(m) for n, m in streaming.meets} | {width.name: Expr.of(self.of("col"))}
        values = Values(self.second, point, {streaming.output: total})
        inner: list[Statement] = []
        if len(needed(self.second, (y.expr for y in self.second.yields))) > 1 or len(self.second.yields) > 1:
            inner.append(nodes.Value(streaming.output, total))
            values.known[streaming.output] = Ref(streaming.output, FP32)
        reads = [*(y.expr for y in self.second.yields), *(let.expr for let in self.second.lets)]
        is_touching = any(isinstance(n, Read) for n in self._after(reads))
        inner += values.name_values()
        staged = {item.output for item, _, _ in self.staged}
        direct = []
        for item in self.second.yields:
            value = values.at(item.expr)
            if item.output in staged:
                place = Place(self._out(item.output), (self._r, self._n), slot)
                inner.append(nodes.Store(place, value, by="stmatrix"))
            else:
                direct.append(element_store(item, value, values.point, self.second.iters))
        guard = self.row_guard
        guard += below(Expr.of(self.of("col")), width.size) if self.sizes.width != self.streaming.sizes[1] else ()
        names: list[Statement] = []
        if direct or is_touching:
            names = [*self._row(), nodes.Let(self.of("col"), column)]
        if direct:
            inner = [*inner, nodes.If(guard, tuple(direct))] if guard else [*inner, *direct]
        return nodes.Each(
            (self.of("r"), self.of("n")),
            self.of("acc"),
            (*names, *inner),
            (ZERO, across) if self.sizes.piece != self.sizes.width else (),
            (WARPGROUP_ROWS, self.sizes.piece) if self.sizes.piece != self.sizes.width else (),
        )

    def _after(self, bodies: Iterable[Body]) -> Iterable[Body]:
        """The nodes of the second region's expressions, but for its sum."""
        stack = list(bodies)
        while stack:
            node = stack.pop()
            if not isinstance(node, Reduce):
                yield node
                stack += operands_of(node)

    # --- words

    @property
    def _r(self) -> Expr:
        return Expr.of(self.of("r"))

    @property
    def _n(self) -> Expr:
        return Expr.of(self.of("n"))

    def _row(self) -> tuple[Statement, ...]:
        """The names of the row at which `each` is."""
        return names_of_row(self.kernel, self.m0 + self.of("part") + self._r, self.of("row"))

    def _at(self, word: str) -> Place:
        return Place(self.of(word), (self._r, self._n))

    def _read(self, word: str) -> Body:
        return Read(self.of(word), (self._r, self._n), FP32)

    def _of(self, word: str) -> Body:
        return Read(self.of(word), (self._r,), FP32)

    def _set(self, word: str, value: Body) -> Statement:
        return nodes.Assign(Place(self.of(word), (self._r,)), value)

    def _each(self, word: str, body: tuple[Statement, ...], is_approx: bool = False) -> Statement:
        return nodes.Each((self.of("r"), self.of("n")), self.of(word), body, is_approx=is_approx)

    def _each_row(self, word: str, body: tuple[Statement, ...], is_approx: bool = False) -> Statement:
        return nodes.Each((self.of("r"),), self.of(word), body, is_approx=is_approx)


def _times(body: Body, factor: float) -> Body:
    """The value times a number, as fp32 has it."""
    return body if factor == 1.0 else Binary("mul", body, literal(round_to(FP32, factor), FP32), FP32)


def _type(dtype, *shape: int) -> TensorType:
    return TensorType(dtype, tuple(map(Expr.of, shape)))


__all__ = ["flash_kernel"]
