"""The kernel of attention by warps, with cp.async, ldmatrix and mma.sync.

    cp_async q                                       the CTA's rows of the query, once
    for u in 0..ahead: cp_async k[u], v[u]           the first blocks
    for t in 0..cut, cut..whole, whole..steps        from the last block to the first (`attention.walk`)
      wait for block t, meet; cp_async k, v of block t + ahead to the slot that block t - 1 left
      for each 16 of the depth: ldmatrix of q and k; mma sc += qf * kf
      the softmax of sc (`attention.online`); p = the weights
      for each 16 columns: ldmatrix of v; mma acc += p * vf
    acc over the row's total, the values after it, the stores

The assembler fetches fragments while the products of those before them run. A factor whose rows are whole accesses is
copied asynchronously, 4 to 16 bytes at once; one that is computed, or whose neighbours are elsewhere in memory, element
by element. What is beyond an end is zero.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.accumulate import literal
from ...ir.body import Read
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..attention.ahead import outer_of
from ..attention.online import FP32, Held, OnlineSoftmax
from ..family import Problem
from ..parts.arrays import shared
from ..parts.boxes import at_least
from ..parts.fold import type_of
from ..parts.point import Values, below, element_store, guarded, named, split
from ..parts.tiles import fewer
from .declare import arrays_of, declare, sizes_of
from .match import STEP, Factor, factors_of, leaving_together

MOST_TILES = 2**31 - 1
SHAPE = "m16n8k16"
LANES = 32


def warps_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `streaming_mma`."""
    return _Template(plan, problem).kernel_text()


class _Template(OnlineSoftmax):
    """The template with one plan's numbers and two regions' maps in it."""

    def __init__(self, plan: Plan, problem: Problem):
        self.plan, self.problem = plan, problem
        self.sizes = sizes_of(plan, problem.kernel)
        held = Held("mma", "mma_a", "mma_rows", "mma_row_parts", plan.warp_tile[0])
        super().__init__(problem, held, *plan.tile[:2], self.sizes.width)
        self.ahead = plan.asynchrony.prefetch
        self.factors = {factor.word: factor for factor in factors_of(problem.kernel)}
        self.arrays = {array.label: array for array in arrays_of(plan, problem.kernel)}
        self.tokens: list[str] = []  # of the copies that may be on their way
        self.has_ring = any(self._is_async(self.factors[word]) for word in "kv")
        self.may_be_empty = bool(at_least(self.column.size, 1, self.model))
        is_free = not self.walk.is_whole and self.walk.cut == ONE  # else there is a block even where no column is
        self.has_no_block = is_free and self.may_be_empty

    def kernel_text(self) -> Kernel:
        """Declarations, which tile the CTA has, the walk over blocks, the output."""
        plan = self.plan
        heads, high = extent_of(self.streaming.outer), self.row.size.ceildiv(plan.tile[0])
        body: list[Statement] = [nodes.Assume(plan.assume)] if plan.assume else []
        body += fewer(self.model, MOST_TILES, heads * high)
        body += [shared(self.of(word), array) for word, array in self.arrays.items()]
        body += [*self._tile(heads, high), *self.sum_registers(), *self.start()]
        body += [*self._first_blocks(), *self._blocks(), *self._leave()]
        regs = declare(plan, self.problem).registers
        return Kernel(plan.name, plan.regions, plan.arch, (heads * high,), plan.threads, tuple(body), regs=regs)

    def _tile(self, heads: Expr, high: Expr) -> Iterable[Statement]:
        """The CTA's rows: heads that share keys and values in L2 run together, and where later rows have more columns
        those come first."""
        plan, head, tm = self.plan, self.of("head"), self.of("tm")
        yield nodes.Let(self.of("heads"), heads)
        yield nodes.Let(self.of("tiles.m"), high)
        extents = (Expr.of(self.of("heads")), Expr.of(self.of("tiles.m")))
        yield nodes.Order((head, tm), Expr.of("cta.x"), extents, plan.order.width if plan.order else 0)
        yield from (nodes.Let(n, e) for n, e in split(Expr.of(head), outer_of(self.streaming)).items())
        place = Expr.of(self.of("tiles.m")) - 1 - tm if self.is_longest_last else Expr.of(tm)
        yield nodes.Let(self.of("m0"), plan.tile[0] * place)
        yield nodes.Let(self.of("part"), plan.warp_tile[0] * Expr.of("warp.index"))
        yield from self.limits()
        yield from self.walk.setup

    def _fragment(self, word: str) -> Statement:
        """An operand's elements of one step along the sum."""
        dtype, kind = self.factors[word[0]].body.dtype, "mma_a" if word == "qf" else "mma_b"
        shape = {"qf": (self.held.count, STEP), "kf": (STEP, self.columns), "vf": (STEP, self.sizes.width)}[word]
        return nodes.Reg(self.of(word), type_of(dtype, *shape), kind=kind)

    # --- the copies

    def _first_blocks(self) -> Iterable[Statement]:
        """The query with the first block, and the others, each a group of copies."""
        yield self._fill("q", "first", self.m0, None, bool(self.row_guard))
        if self.tokens and not self.has_ring:
            yield nodes.Commit(tuple(self.tokens))
            yield nodes.WaitGroup("cp_async", 0, tuple(self.tokens))
        for u in range(self.ahead):
            yield from self._fetch(f"first.{u}" if u else "first", Expr.of(u), Expr.of(u))
        yield nodes.Cursor(self.of("s"), self.plan.stages)
        yield nodes.Cursor(self.of("next"), self.plan.stages, self.ahead)

    def _fetch(self, word: str, t: Expr, slot: Expr) -> Iterable[Statement]:
        """Key and value of block t, where there is one, to a slot; one group."""
        n0 = self.of(f"n0.{word}")
        is_cut = self.is_column_guarded and (t == ZERO or bool(self.masks))  # else the last block alone is cut
        fills = [nodes.Let(n0, self.walk.start(t))]
        fills += [self._fill(operand, word, Expr.of(n0), slot, is_cut) for operand in ("k", "v")]
        yield nodes.If((Bound(t, upper=self.walk.steps),), tuple(fills))
        if self.has_ring:
            own = {s.token for s in fills if isinstance(s, nodes.CpAsync)} | set(self.tokens if word == "first" else ())
            yield nodes.Commit(tuple(token for token in self.tokens if token in own))

    def _fill(self, word: str, turn: str, first: Expr, slot: Expr | None, is_guarded: bool) -> Statement:
        """Rows of an operand's tile from `first` on."""
        factor: Factor = self.factors[word]
        r, c = self.of("r"), self.of("c")
        rows, across = self.arrays[word].shape[0], extent_of(factor.across)
        columns = self.sizes.depth if word != "v" else self.sizes.width
        number, lets = named(factor.across, Expr.of(c), self.of("term"))
        along = Expr.of(factor.along.name)
        guard = below(along, factor.along.size) if is_guarded else ()
        guard += below(number, across) if columns > across.constant else ()
        point = {**self.point, **{n: Expr.of(m) for n, m in factor.there}, factor.along.name: along}
        point |= {a.name: Expr.of(a.name) for a in factor.across}
        value = guarded(guard, Values(factor.region, point).at(factor.body))
        over = ((r, Expr.of(rows)), (c, Expr.of(columns)))
        to = Place(self.of(word), (Expr.of(r), Expr.of(c)), slot)
        lets = ((factor.along.name, first + r), *lets)
        if not self._is_async(factor):
            return nodes.Copy(to, over, value, 1, lets)
        token = f"{turn}.{word}"
        self.tokens.append(token)
        return nodes.CpAsync(token, to, over, value, factor.width, lets)

    def _is_async(self, factor: Factor) -> bool:
        return factor.width > 0 and self.plan.load_of(factor.tensors[0]).by == "cp_async"

    # --- the blocks

    def _blocks(self) -> Iterable[Statement]:
        walk = self.walk
        cut = Expr.of(self.of("cut")) if self.has_no_block else walk.cut
        if self.has_no_block:
            yield nodes.Least(self.of("cut"), (walk.cut, walk.steps))
        loops = (
            (("whole", ZERO, walk.steps, False),)
            if walk.is_whole
            else (("cut", ZERO, cut, True), ("whole", cut, walk.whole, False), ("begin", walk.whole, walk.steps, True))
        )
        for word, low, high, is_cut in loops:
            if low != high:
                yield nodes.For(self.of("t"), low, high, tuple(self._block(word, is_cut)))

    def _block(self, word: str, is_cut: bool) -> Iterable[Statement]:
        t, n0, slot = Expr.of(self.of("t")), self.of("n0"), Expr.of(f"{self.of('s')}.slot")
        fetch = tuple(self._fetch(word, t + self.ahead, Expr.of(f"{self.of('next')}.slot")))
        if self.has_ring:
            yield nodes.WaitGroup("cp_async", self.ahead - 1, tuple(self.tokens))
        yield nodes.Barrier("cta")
        yield from fetch
        yield self.score_registers()
        yield nodes.Let(n0, self.walk.start(t))
        yield self._each("sc", (nodes.Assign(self._at("sc"), literal(0, FP32)),))
        yield from self.ahead_registers()
        yield from self.read_ahead(Expr.of(n0), is_cut)
        yield from self._scores(slot)
        yield self.weight_registers()
        yield from self.softmax(Expr.of(n0), is_cut, is_first=False)
        yield from self._weighted(slot)
        yield nodes.Advance(self.of("s"))
        yield nodes.Advance(self.of("next"))

    def _scores(self, slot: Expr) -> Iterable[Statement]:
        yield from map(self._fragment, ("qf", "kf"))
        for at in range(0, self.sizes.depth, STEP):
            yield nodes.Ldmatrix(Place(self.of("qf")), Place(self.of("q"), (self.part, Expr.of(at))))
            yield nodes.Ldmatrix(Place(self.of("kf")), Place(self.of("k"), (ZERO, Expr.of(at)), slot), True)
            yield nodes.Mma(self.of("sc"), Place(self.of("qf")), Place(self.of("kf")), SHAPE)

    def _weighted(self, slot: Expr) -> Iterable[Statement]:
        yield self._fragment("vf")
        for at in range(0, self.columns, STEP):
            yield nodes.Ldmatrix(Place(self.of("vf")), Place(self.of("v"), (Expr.of(at), ZERO), slot))
            p = Place(self.of("p"), (ZERO, Expr.of(at)) if self.columns > STEP else ())
            yield nodes.Mma(self.of("acc"), p, Place(self.of("vf")), SHAPE)

    # --- the output

    def _leave(self) -> Iterable[Statement]:
        """Sums over totals, the values after them, and the stores: of neighbours together, where each warp leaves its
        rows in the query's tile, which nobody reads any more."""
        yield from self.rows_done()
        width = leaving_together(self.streaming)
        if not width:
            yield self._each("acc", tuple(self.elements(ZERO, {})))
            return
        (item,), own = self.second.yields, Place(self.of("q"), (self.part + self._r, self._n))
        first = tuple(token for token in self.tokens if token.startswith("first."))
        if first:  # a tile without a block has not waited for its query
            yield nodes.WaitGroup("cp_async", 0, first)
        yield nodes.Barrier("cta")
        yield self._each("acc", tuple(self.elements(ZERO, {item.output: own})))
        yield nodes.Barrier("cta")
        in_row = self.streaming.sizes[1] // width
        pieces = self.held.count * in_row
        turns, e = -(-pieces // LANES), self.of("e")
        turn, number, down = self.of("turn"), self.of("piece"), Expr.of(self.of("down"))
        across = width * (Expr.of(number) - in_row * down) + e
        point = {n: Expr.of(m) for n, m in self.streaming.meets} | {self.streaming.width[0].name: across}
        dtype, over = self.arrays["q"].dtype, ((e, Expr.of(width)),)
        near = nodes.Reg(self.of("near"), type_of(dtype, width))
        value = Read(own.name, (self.part + down, across), dtype)
        moves = (
            near,
            nodes.Assign(Place(near.name, (Expr.of(e),)), value, over, width),
            element_store(item, Read(near.name, (Expr.of(e),), dtype), point, self.second.iters, (), over, width),
        )
        guard = (*below(Expr.of(number), Expr.of(pieces)), *self.row_guard)[pieces % LANES == 0 :]
        body = (
            nodes.Let(number, Expr.of("lane") + (LANES * Expr.of(turn) if turns > 1 else 0)),
            nodes.Let(str(down), Expr.of(number) // in_row),
            nodes.Let(self.row.name, self.m0 + self.part + down),
            *((nodes.If(guard, moves),) if guard else moves),
        )
        yield from (nodes.For(turn, ZERO, Expr.of(turns), body, unroll=0),) if turns > 1 else body
