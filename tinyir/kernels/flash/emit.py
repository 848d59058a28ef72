"""The kernel of the flash family: two contractions with a softmax between them on the tensor cores of sm90.

    role producer    one thread fetches the query's tile, then block by block keys, bias and values, into rings
    role consumer    for each tile of 64 rows a warpgroup
      sc = q * k of the first block; its softmax; p = the weights
      for each further block
        sc = q * k of this block, acc += p * v of the one before      both at once; then what they read is given back
        the softmax of sc; acc scaled to the new maximum; p = the weights
      acc += p * v of the last block; acc over the row's total, the values after it, piece by piece to the output

Blocks go from the last to the first (`attention.walk`); what a score, its weight and an element of the output are is
`attention.online`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.body import Body, Read
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.hopper import WARPGROUP, WARPGROUP_ROWS
from ..attention.online import Held, OnlineSoftmax
from ..family import Problem
from ..parts.arrays import shared
from ..parts.drawn import WARP, is_drawn, over_tiles, turns_declared
from ..parts.point import Values, split
from ..parts.tiles import fewer
from ..resources import threads_of
from .declare import STAGED, STEP, STREAMED, limit_of, operand_arrays, output_arrays, sizes_of, tiles_of
from .match import Box, Flash, flash_of
from .rows import guard_of_row, named_page, names_of_row

FIRST_THREAD = (Bound(Expr.of("warpgroup.thread"), equals=ZERO),)
FIRST_LANE = (Bound(Expr.of("lane"), equals=ZERO),)
MOST_TILES = 2**31 - 2**16  # so that a tile's number stays an int when CTAs go on


def flash_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `streaming_softmax`."""
    return _Template(plan, problem).kernel_text()


class _Template(OnlineSoftmax):
    """The template with one plan's numbers and two regions' maps in it."""

    def __init__(self, plan: Plan, problem: Problem):
        self.plan, self.problem, self.sizes = plan, problem, sizes_of(plan, problem.kernel)
        self.kernel: Flash = flash_of(problem.kernel)
        held = Held("wgmma", "wgmma_a", "rows", "row_parts", WARPGROUP_ROWS)
        super().__init__(problem, held, *plan.tile[:2], self.sizes.width, self.kernel.packed is not None)
        self.row_guard = guard_of_row(self.kernel, plan.tile[0])
        self.count, kernel, second = plan.consumers.count, self.kernel, self.second
        self.rings = {array.label: array for array in operand_arrays(plan, problem)}
        self.tiles = {read: f"{read.tensor}.tile" for read, _ in tiles_of(plan, problem.kernel)}
        of_tiles = ((self.tiles[read], box) for read, box in tiles_of(plan, problem.kernel))
        self.boxes = (("q", kernel.query), ("k", kernel.key), ("v", kernel.value), *of_tiles)
        self.staged = tuple(
            (item.output, box, {array.shape[1]: array for array in arrays})
            for item, box, arrays in zip(second.yields, kernel.outputs, output_arrays(plan, problem))
            if arrays
        )
        self.stores = tuple(self._stored(output, piece) for output, _, arrays in self.staged for piece in arrays)

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
        body += sorted((self._producer(tiles), self._consumer(tiles)), key=lambda role: role.first)
        grid = (Expr.of(plan.persistent) if plan.persistent else heads * high,)
        regs = 0 if plan.regs else limit_of(plan, self.streaming)
        return Kernel(plan.name, plan.regions, plan.arch, grid, (threads_of(plan),), tuple(body), regs=regs)

    # --- declarations

    def _maps(self) -> Iterable[Statement]:
        for word, box in self.boxes:
            rows = self.rings[word].shape[0]
            sides = box.sides(rows, self.rings[word].swizzle // box.dtype.bytes)
            yield nodes.TensorMap(f"{self.of(word)}.map", box.tensor.name, sides, self.rings[word].swizzle, box.dims)
        for output, box, arrays in self.staged:
            for piece, array in arrays.items():
                sides = box.sides(*array.shape)
                yield nodes.TensorMap(
                    f"{self._out(output, piece)}.map", box.tensor.name, sides, array.swizzle, box.dims
                )

    def _tiles(self) -> Iterable[Statement]:
        for word, array in self.rings.items():
            yield shared(self.of(word), array)
        for output, _, arrays in self.staged:
            for piece, array in arrays.items():
                yield shared(self._out(output, piece), array)
        for word, array in self.rings.items():
            slots = array.slots
            yield nodes.Mbarrier(self.of(f"full.{word}"), 1, slots)
            yield nodes.Mbarrier(self.of(f"empty.{word}"), self.count, slots)
        yield from turns_declared(self.plan, self.of, WARPGROUP // WARP * self.count)

    def _out(self, output: str, piece: int) -> str:
        """The name of the pieces of an output that have this number of columns."""
        return self.of(f"{output}.out" + self._own(piece))

    def _stored(self, output: str, piece: int) -> str:
        """The token of the store of such a piece."""
        return f"store.{output}" + self._own(piece)

    def _own(self, piece: int) -> str:
        """The end of a name that pieces of this number of columns have, where the first has another number."""
        return f".{piece}" if piece != self.sizes.pieces[0] else ""

    # --- the walk over tiles

    def _over_tiles(self, tiles: Expr, body: Iterable[Statement], draws: bool = False) -> tuple[Statement, ...]:
        """The tiles of a CTA: heads that share keys and values in L2 together. Where later rows have more columns those
        come first, and last in every other group of heads: a CTA's tiles are as far apart as CTAs are many, so that
        without turns the same CTAs would have the long tiles of each group. Where tiles are drawn, or have a CTA each,
        the longest of each group come first."""
        plan, head, tm = self.plan, self.of("head"), self.of("tm")
        extents = (Expr.of(self.of("heads")), Expr.of(self.of("tiles.m")))
        number = Expr.of(self.of("tile"))
        width = plan.order.width if plan.order else 0
        place = Expr.of(self.of("tiles.m")) - 1 - tm if self.is_longest_last else Expr.of(tm)
        is_turning = self.is_longest_last and width > 0 and plan.persistent > 0 and not is_drawn(plan)
        lets = [nodes.Order((head, tm), number, extents, width, is_turning)]
        lets += [nodes.Let(n, e) for n, e in split(Expr.of(head), self.kernel.outer).items()]
        lets += [nodes.Let(self.of("m0"), plan.tile[0] * place), *self.limits(), *self.walk.setup]
        return over_tiles(plan, self.problem, self.of, tiles, (*lets, *body), draws)

    def _producer(self, tiles: Expr) -> Statement:
        t = Expr.of(self.of("t"))
        n0 = Expr.of(self.of("n0"))
        fetches = [s for word in ("k", *self.tiles.values(), "v") for s in self._fetch(word, n0)]
        blocks = (nodes.Let(self.of("n0"), self.walk.start(t)), *fetches)
        loop = nodes.For(self.of("t"), ZERO, self.walk.steps, blocks)
        cursors = tuple(
            nodes.Cursor(self.of(f"{word}.next"), self.rings[word].slots, phase=1) for word, _ in self.boxes
        )
        some = self.of("some")  # 0 of a tile of which the data leave no column: what it fetches is beyond the tensor
        any_end = Expr.of(f"{some}.end")
        known = (nodes.Least(f"{some}.end", (ONE, self.walk.end)), nodes.Most(some, (ZERO, any_end)))
        known = known if self.score.limits else ()
        one = (*cursors, *self._over_tiles(tiles, (*known, *self._fetch("q", self.m0), loop), draws=True))
        regs = self.plan.regs.producer if self.plan.regs else 0
        warps = WARPGROUP // WARP * self.count
        unit, first = ("warps", warps) if self.plan.threads else ("warpgroups", 0)
        elected = FIRST_LANE if self.plan.threads else FIRST_THREAD
        return nodes.Role("producer", unit, first, first + 1, (nodes.If(elected, one),), regs)

    def _fetch(self, word: str, row: Expr) -> tuple[Statement, ...]:
        """One operand's tile into the next slot of its ring: from this row on, or this column of scores."""
        box: Box = dict(self.boxes)[word]
        rows, columns = self.rings[word].shape
        cursor = self.of(f"{word}.next")
        slot = self._slot(word, cursor)
        full = Place(self.of(f"full.{word}"), slot=slot)
        is_of_scores = word in self.tiles.values()
        if self.score.limits and word in ("k", "v") and not box.page:
            row = row + box.shape[box.row] * (1 - Expr.of(self.of("some")))
        corner = box.at(self.m0, row) if is_of_scores else box.at(row, ZERO)
        page = named_page(self.kernel, box.page, self.of(f"{word}.page"), self.masks, row) if box.page else ()
        at = tuple(Expr.of(page[0].name) if page and n == box.page.dim else e for n, e in enumerate(corner))
        source = Place(f"{self.of(word)}.map", at)
        is_streamed = self.plan.load_of(box.tensor.name).way == STREAMED
        return (
            *page,
            nodes.Wait(Place(self.of(f"empty.{word}"), slot=slot), Expr.of(f"{cursor}.phase")),
            nodes.Arrive(full, rows * columns * box.dtype.bytes),
            nodes.TmaLoad(f"load.{word}", Place(self.of(word), slot=slot), source, full, is_streamed=is_streamed),
            nodes.Advance(cursor),
        )

    # --- the consumers

    def _consumer(self, tiles: Expr) -> Statement:
        body: list[Statement] = [nodes.Cursor(self.of(f"{word}.s"), self.rings[word].slots) for word, _ in self.boxes]
        body += [nodes.Cursor(self.of("o"), STAGED)] if self._has_turns(self.sizes.pieces[0]) else []
        body += [self.score_registers(), self.weight_registers(), *self.ahead_registers(), *self.sum_registers()]
        body.append(nodes.Let(self.of("part"), WARPGROUP_ROWS * Expr.of("warpgroup.index")))
        body += self._over_tiles(tiles, self._tile())
        tokens = self.stores
        body += [nodes.If(FIRST_THREAD, (nodes.WaitGroup("tma_store", 0, tokens),))] if tokens else []
        regs = self.plan.regs.consumer if self.plan.regs else 0
        first = 0 if self.plan.threads else 1
        return nodes.Role("consumer", "warpgroups", first, first + self.count, tuple(body), regs)

    def _tile(self) -> Iterable[Statement]:
        """One tile of rows."""
        walk, t = self.walk, self.of("t")
        yield from self.start()
        yield nodes.Wait(Place(self.of("full.q"), slot=self._slot("q")), self._phase("q"), ("load.q",))
        yield nodes.Let(self.of("n0.last"), walk.start(ZERO))
        yield from self._scores("qk")
        yield from self.read_ahead(Expr.of(self.of("n0.last")), is_cut=not walk.is_whole)
        yield nodes.WaitGroup("wgmma", 0, ("qk",))
        yield from self._give_back("k")
        yield from self._tiles_read()
        yield from self.softmax(Expr.of(self.of("n0.last")), is_cut=not walk.is_whole, is_first=True)
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
        yield from self.read_ahead(Expr.of(self.of("n0")), is_cut)
        yield nodes.WaitGroup("wgmma", 0, (f"qk.{word}", f"pv.{word}"))
        yield from self._give_back("k")
        yield from self._give_back("v")
        yield from self._tiles_read()
        yield from self.softmax(Expr.of(self.of("n0")), is_cut, is_first=False)

    def read_ahead(self, n0: Expr, is_cut: bool) -> Iterable[Statement]:
        """As `OnlineSoftmax` has it; and waits for tiles whose elements the work on scores reads where they are."""
        yield from super().read_ahead(n0, is_cut)
        for word in self._words(is_whole=True):
            yield self._tile_there(word)

    def read_one(self, read: Read, name: str, n0: Expr, is_cut: bool) -> Iterable[Statement]:
        """As `OnlineSoftmax` has it, or of the tile that the copy engine has brought."""
        word = self.tiles.get(read)
        if word is None:
            yield from super().read_one(read, name, n0, is_cut)
            return
        yield self._tile_there(word)
        yield nodes.Ldmatrix(Place(name), Place(self.of(word), (Expr.of(self.of("part")), ZERO), self._slot(word)))

    def held_of(self, values: Values) -> dict[Read, Body]:
        """As `OnlineSoftmax` has it, or a tile's element."""
        place = self.part + self._r, self._n
        whole = {
            values.at(read): Read(self.of(word), place, read.dtype, slot=self._slot(word))
            for read, word in self.tiles.items()
            if read not in self.ahead_of
        }
        return super().held_of(values) | whole

    def work_done(self) -> Iterable[Statement]:
        """Tiles whose elements the work has read are given back."""
        return self._tiles_read(is_whole=True)

    def _words(self, is_whole: bool) -> tuple[str, ...]:
        """The tiles whose elements are read where they are, or those which registers hold."""
        return tuple(word for read, word in self.tiles.items() if (read not in self.ahead_of) == is_whole)

    def _tile_there(self, word: str) -> Statement:
        return nodes.Wait(Place(self.of(f"full.{word}"), slot=self._slot(word)), self._phase(word), (f"load.{word}",))

    def _tiles_read(self, is_whole: bool = False) -> Iterable[Statement]:
        """All threads of a warpgroup have read what scores meet besides."""
        words = self._words(is_whole)
        if words:
            yield nodes.Barrier("warpgroup")
        for word in words:
            yield from self._give_back(word)

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

    # --- the output

    def _leave(self) -> Iterable[Statement]:
        """Sums over totals, the values after them, and the stores."""
        yield from self.rows_done()
        first, *others = self.sizes.pieces
        count, j = self.sizes.pieces.count(first), self.of("j")
        if count > 1:
            body = tuple(self._piece(first * Expr.of(j), first))
            yield nodes.For(j, ZERO, Expr.of(count), body, unroll=0)
        else:
            yield from self._piece(ZERO, first)
        across = count * first
        for piece in others[count - 1 :]:
            yield from self._piece(Expr.of(across), piece)
            across += piece

    def _has_turns(self, piece: int) -> bool:
        """Whether pieces of this number of columns have several places, which they take in turn."""
        return any(arrays[piece].slots > self.count for _, _, arrays in self.staged)

    def _piece(self, across: Expr, piece: int) -> Iterable[Statement]:
        """A piece of the sum's columns, from `across` on."""
        o, has_turns = self.of("o"), self._has_turns(piece)
        slot = (STAGED if has_turns else 1) * Expr.of("warpgroup.index") if self.count > 1 else ZERO
        slot = slot + Expr.of(f"{o}.slot") if has_turns else slot if self.count > 1 else None
        if self.staged:
            pending = (STAGED - 1) * len(self.staged)
            yield nodes.If(FIRST_THREAD, (nodes.WaitGroup("tma_store", pending, self.stores),))
            yield nodes.Barrier("warpgroup")
        places = {output: Place(self._out(output, piece), (self._r, self._n), slot) for output, _, _ in self.staged}
        is_part = piece != self.sizes.width
        yield nodes.Each(
            (self.of("r"), self.of("n")),
            self.of("acc"),
            tuple(self.elements(across, places, "stmatrix")),
            (ZERO, across) if is_part else (),
            (WARPGROUP_ROWS, piece) if is_part else (),
        )
        if self.staged:
            yield nodes.Fence("async_proxy")
            yield nodes.Barrier("warpgroup")
            stores = []
            for output, box, _ in self.staged:
                name = self._out(output, piece)
                to = Place(f"{name}.map", box.at(self.m0 + self.of("part"), across))
                stores.append(nodes.TmaStore(self._stored(output, piece), to, Place(name, slot=slot)))
            yield nodes.If(FIRST_THREAD, tuple(stores))
            yield from (nodes.Advance(o),) * has_turns

    def row_names(self) -> tuple[Statement, ...]:
        """The names of the row at which `each` is, or of the two axes that make it."""
        return names_of_row(self.kernel, self._row(), self.of("row"))
