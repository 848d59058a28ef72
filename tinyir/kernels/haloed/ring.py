"""The haloed template (seed 001 section 15.2): the tile of the image with its edge is brought in once, and each tap is
a product of the ring's next tile with the places as far beside the results.

    %load.image = cp_async image[p, ch] over p: 180, ch: 64 with ... = X[i0, h, w, ch] where 0 <= h < 56 and 0 <= w < 56
      else 0.0 vector 8                                 one by one where the channels are not innermost
    the first taps of W, as far as the ring runs ahead
    for k in 0..9
      wait for the tap; meet; fetch the one that is so far ahead
      let k1 = floor(k/3), k2 = k - 3*floor(k/3)
      for each 16 channels: ldmatrix wf <- taps[s.slot][wm, 16*c]
        for each row of the warp's results: ldmatrix xf <- image[18*(row + k1) + k2, 16*c]; mma acc += wf * xf
    the epilogue, sixteen rows of a warp's accumulator at a time through shared memory

A fragment is 16 results of a row, which are contiguous in shared memory for every tap: so a shift by a tap is another
place to begin at. What is outside of the image is zero where it is brought in.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...ir.body import Axis, Literal, Read
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ..family import Problem
from ..parts.arrays import shared
from ..parts.columns import Columns
from ..parts.fold import type_of
from ..parts.fresh import Fresh
from ..parts.leaving import columns_beside
from ..parts.point import Values, below, divides, guarded, named, split
from ..parts.tiles import countable
from .apart import filled_apart
from .declare import (
    FRAGMENT_ROWS,
    WARP,
    arrays_of,
    declare,
    deep_of,
    is_apart,
    is_expanded,
    is_whole,
    piece_of,
    rows_of,
)
from .halo import ALONG, DEPTH, Halo

STEP = 16  # channels of one set of fragments
TOKENS = ("first.taps", "load.taps")
IMAGE = "load.image"


@dataclass(frozen=True, slots=True)
class Ring:
    """Writes the kernel of a plan."""

    plan: Plan
    problem: Problem
    halo: Halo
    fresh: Fresh

    @property
    def made(self) -> int:
        """What is made of a place, in a tile."""
        return self.plan.tile[1 - self.halo.side]

    @property
    def part(self) -> int:
        """And in a warp's part of it, at a time."""
        return piece_of(self.plan, self.halo)

    @property
    def steps(self) -> Expr:
        """Of the sum: a block of channels of a tap each."""
        return extent_of(self.halo.taps) * self.halo.blocks

    def kernel(self) -> Kernel:
        """All of it."""
        plan, halo, kernel = self.plan, self.halo, self.problem.kernel
        arrays = arrays_of(plan, kernel, halo)
        numbers = self._numbers()
        body: list[Statement] = [shared(self.fresh(a.label), a) for a in arrays]
        body += [*countable(kernel, self.problem.model, extent_of(numbers)), *self._tiles(numbers)]
        return Kernel(
            plan.name,
            plan.regions,
            plan.arch,
            (self._ctas(numbers),),
            plan.threads,
            tuple(body),
            # where all steps are written out the compiler loads as far ahead as a limit lets it, and spills
            regs=declare(plan, self.problem).registers if not is_whole(plan) or halo.is_narrow else 0,
        )

    # --- which tile

    def _ctas(self, numbers: tuple[Axis, ...]) -> Expr:
        return extent_of(numbers)

    def _tiles(self, numbers: tuple[Axis, ...]) -> Iterator[Statement]:
        """What a CTA does: a tile."""
        yield from self._places(numbers, Expr.of("cta.x"))
        yield from (*self._registers(), *self._begun(), *self._loop(), *self._ended())

    def _numbers(self) -> tuple[Axis, ...]:
        """The tiles: images, rows of tiles, columns, what is made."""
        halo, fresh, (rows, _) = self.halo, self.fresh, rows_of(self.plan, self.halo)
        images = (Axis(fresh("picture"), extent_of(halo.images)),) if halo.images else ()
        counts = (
            halo.rows.size.ceildiv(rows),
            halo.columns.size.ceildiv(ALONG),
            halo.slots.ceildiv(self.made),
        )
        return (*images, *(Axis(fresh(word), count) for word, count in zip(("th", "tw", "tm"), counts)))

    def _places(self, numbers: tuple[Axis, ...], tile: Expr) -> Iterator[Statement]:
        """Where the tile of this number and the warp's part of it begin."""
        plan, halo, fresh, (rows, own) = self.plan, self.halo, self.fresh, rows_of(self.plan, self.halo)
        for name, e in split(tile, numbers).items():
            yield nodes.Let(name, e)
        if halo.images:
            yield from (
                nodes.Let(n, e) for n, e in split(fresh.expr("picture"), halo.images).items() if n != fresh("picture")
            )
        for word, at, size in (("row0", "th", rows), ("col0", "tw", ALONG), ("m0", "tm", self.made)):
            yield nodes.Let(fresh(word), size * fresh.expr(at))
        across, warp = plan.tile[1] // plan.warp_tile[1], Expr.of("warp.index")
        parts = warp // across, warp - across * (warp // across)
        yield nodes.Let(fresh("wq"), own * parts[halo.side])
        yield nodes.Let(fresh("wm"), plan.warp_tile[1 - halo.side] * parts[1 - halo.side])

    def _registers(self) -> Iterator[Statement]:
        halo, kernel, dtype = self.halo, self.problem.kernel, self.halo.image.read.dtype
        shapes = {"x": (ALONG, STEP), "w": (self.part, STEP)}
        acc = (self.part, ALONG) if halo.side == 1 else (ALONG, self.part)
        for q in range(rows_of(self.plan, halo)[1]):
            yield nodes.Reg(self._sum(q), type_of(kernel.dtype, *acc), kind="mma", init=Literal(0.0, kernel.dtype))
        for word, shape in shapes.items():
            is_right = (word == "x") == (halo.side == 1)
            kind = "mma_b" if is_right else "mma_a"
            yield nodes.Reg(self.fresh(f"{word}f"), type_of(dtype, *(shape[::-1] if is_right else shape)), kind=kind)

    def _sum(self, row: int) -> str:
        """The accumulator of a row of the warp's results."""
        return self.fresh(f"acc{row}")

    # --- the sum

    def _begun(self) -> Iterator[Statement]:
        """The image's tile, and the first taps."""
        halo, fresh, ahead = self.halo, self.fresh, self.plan.asynchrony.prefetch
        fill = self._image(fresh.expr("b") if halo.blocks > 1 else ZERO)
        if halo.blocks > 1:
            fill = nodes.For(fresh("b"), ZERO, Expr.of(halo.blocks), (fill,), unroll=0)
        t = fresh.expr("t")
        taps = nodes.For(str(t), ZERO, Expr.of(ahead), (self._taps(t, t, 0), *self._committed(0)), unroll=0)
        # threads wait for what they turn, so that the taps are on their way before
        yield from (taps, fill) if is_apart(self.plan, halo) else (fill,)
        if halo.width > 1:
            yield nodes.Commit((IMAGE,))
        yield from () if is_apart(self.plan, halo) else (taps,)
        yield nodes.Cursor(fresh("p"), self.plan.stages, ahead)
        yield nodes.Cursor(fresh("s"), self.plan.stages)

    def _image(self, block: Expr) -> Statement:
        """A block of channels of all places that the tile covers."""
        halo, fresh, image, (rows, _) = self.halo, self.fresh, self.halo.image, rows_of(self.plan, self.halo)
        if is_apart(self.plan, halo):
            return filled_apart(self.plan, halo, fresh, functools.partial(self._columns_at, block), block)
        p, ch = fresh.expr("place"), fresh.expr("ch")
        high, beside, wide, w = (fresh.expr(word) for word in ("down", "beside", "across", "channel"))
        lets = [(str(high), p // halo.wide)]
        place = p - halo.wide * high
        if image.columns.step > 1:
            lets.append((str(beside), place // halo.apart))
            place = image.columns.step * (place - halo.apart * beside) + beside
        deep = deep_of(self.plan, halo)
        channel, there = self._channel_at(block, ch)
        lets += [(str(wide), place), (str(w), channel)]
        index, bounds = self._read_at(high, wide, w)
        bounds += (*there, *self._ends_before(w))
        value = guarded(bounds, Read(image.read.tensor, index, image.read.dtype))
        to = Place(fresh("image"), (p, ch), block if halo.blocks > 1 else None)
        over = ((str(p), Expr.of(halo.places(rows))), (str(ch), Expr.of(deep)))
        if self.plan.vectorize:
            return nodes.CpAsync(IMAGE, to, over, value, halo.width, tuple(lets))
        return nodes.Copy(to, over[::-1], value, 1, tuple(lets))  # neighbouring threads take neighbouring places

    def _columns_at(
        self, block: Expr, down: Expr, across: Expr, place: Expr, count: int
    ) -> tuple[tuple[Expr, ...], tuple[Bound, ...]]:
        """Where an access of this many columns is in the image, and under which guard."""
        channel, there = self._channel_at(block, place)
        index, bounds = self._read_at(down, across, channel, count)
        return index, (*bounds, *there, *self._ends_before(channel))

    def _channel_at(self, block: Expr, place: Expr) -> tuple[Expr, tuple[Bound, ...]]:
        """The channel of the image that a place of a block has, and under which guard it has one."""
        if is_expanded(self.plan, self.halo):
            return place, ()
        return self.halo.channel_at(block, place)

    def _ends_before(self, channel: Expr) -> tuple[Bound, ...]:
        """The guard that the image has a channel, where blocks end behind its last."""
        halo = self.halo
        each = halo.packed * (halo.channel.size.constant or 1) if halo.groups else deep_of(self.plan, halo)
        return () if divides(each, halo.channels) else below(channel, halo.channels)

    def _read_at(
        self, down: Expr, across: Expr, channel: Expr, count: int = 1
    ) -> tuple[tuple[Expr, ...], tuple[Bound, ...]]:
        """Where in the image a place of the tile is, and under which guard it and those behind it are there, `count` in
        a row."""
        halo, fresh, image = self.halo, self.fresh, self.halo.image
        at = {image.rows.dim: (image.rows, "row0", down), image.columns.dim: (image.columns, "col0", across)}
        places = {dim: s.step * fresh.expr(first) + number + s.low for dim, (s, first, number) in at.items()}
        shape = self.problem.region.tensor(image.read.tensor).type.shape
        channels = {halo.channel.name: channel, **{a.name: ZERO for a in halo.groups}}
        index = tuple(places[n] if n in places else e.substitute(channels) for n, e in enumerate(image.read.index))
        last = {image.columns.dim: count - 1}
        bounds = [Bound(places[dim], ZERO, shape[dim] - last.get(dim, 0)) for dim in sorted(places)]
        bounds += [
            Bound(places[dim], b.lower, None if b.upper is None else b.upper - last.get(dim, 0))
            for dim, b in image.inside
        ]
        bounds += [b.substitute(channels) for b in image.others]
        return index, tuple(dict.fromkeys(bounds))

    def _taps(self, slot: Expr, step: Expr, turn: int) -> Statement:
        """The other factor's tile of a step."""
        halo, fresh, kernel = self.halo, self.fresh, self.problem.kernel
        r, c = fresh.expr("r"), fresh.expr("c")
        tap, block = step // halo.blocks, step - halo.blocks * (step // halo.blocks)
        channel = DEPTH * block + c
        first, lets = named(halo.made, fresh.expr("m0") + r, fresh("made"))
        second, more = named(halo.taps, tap, fresh("tap"))
        guard = () if divides(self.made, extent_of(halo.made)) else below(first, extent_of(halo.made))
        guard += below(second, extent_of(halo.taps))
        guard += below(channel, halo.channel.size) if (halo.channel.size.constant or 1) % DEPTH else ()
        point = {a.name: Expr.of(a.name) for a in (*halo.made, *halo.taps)} | {halo.channel.name: channel}
        value = guarded(guard, Values(self.problem.region, point).at(kernel.factors[1 - halo.side]))
        over = ((str(r), Expr.of(self.made)), (str(c), Expr.of(DEPTH)))
        to = Place(fresh("taps"), (r, c), slot)
        if halo.beside == 1:
            return nodes.Copy(to, over, value, 1, (*lets, *more))
        return nodes.CpAsync(TOKENS[turn], to, over, value, halo.beside, (*lets, *more))

    def _loop(self) -> Iterator[Statement]:
        halo, fresh, ahead = self.halo, self.fresh, self.plan.asynchrony.prefetch
        k = fresh.expr("k")
        tokens = (*((IMAGE,) if halo.width > 1 else ()), *(TOKENS if halo.beside > 1 else ()))
        pending = ahead - 1 if halo.beside > 1 else 0
        body: list[Statement] = [nodes.WaitGroup("cp_async", pending, tokens)] if tokens else []
        body += [nodes.Barrier("cta"), nodes.Let(fresh("next"), k + ahead)]
        body += [self._taps(fresh.expr("p", "slot"), fresh.expr("next"), 1), *self._committed(1)]
        tap, block = (k, ZERO) if halo.blocks == 1 else (k // halo.blocks, k - halo.blocks * (k // halo.blocks))
        body += [nodes.Let(name, e) for name, e in split(tap, halo.taps).items()]
        for step in range(DEPTH // STEP):
            body += self._products(block, STEP * step)
        body += [nodes.Advance(fresh("p")), nodes.Advance(fresh("s"))]
        yield nodes.For(str(k), ZERO, self.steps, tuple(body))
        if tokens:
            yield nodes.WaitGroup("cp_async", 0, tokens)

    def _committed(self, turn: int) -> tuple[Statement, ...]:
        """What makes a group of the copies of the other factor, where these are asynchronous."""
        return (nodes.Commit(TOKENS[turn : turn + 1]),) if self.halo.beside > 1 else ()

    def _products(self, block: Expr, channel: int) -> Iterator[Statement]:
        """Those of 16 channels."""
        halo, fresh = self.halo, self.fresh
        x, w = Place(fresh("xf")), Place(fresh("wf"))
        yield nodes.Ldmatrix(
            w, Place(fresh("taps"), (fresh.expr("wm"), Expr.of(channel)), fresh.expr("s", "slot")), halo.side == 0
        )
        slot = block if halo.blocks > 1 else None
        for q in range(rows_of(self.plan, halo)[1]):
            place = Place(fresh("image"), (self.place_of(fresh.expr("wq") + q), Expr.of(channel)), slot)
            yield nodes.Ldmatrix(x, place, halo.side == 1)
            left, right = (w, x) if halo.side == 1 else (x, w)
            yield nodes.Mma(self._sum(q), left, right, "m16n8k16")

    def place_of(self, row: Expr) -> Expr:
        """The place of the image that the first result of a row takes for a tap."""
        halo, image = self.halo, self.halo.image
        down = image.rows.spread * Expr.of(image.rows.tap.name)
        return halo.wide * (image.rows.step * row + down) + self.column

    @property
    def column(self) -> Expr:
        """The place in its row that the first result takes for a tap."""
        columns = self.halo.image.columns
        return self.halo.at_column(columns.spread * Expr.of(columns.tap.name))

    # --- what follows the sum

    def _ended(self) -> Iterator[Statement]:
        for q in range(rows_of(self.plan, self.halo)[1]):
            rows = self.part if self.halo.side == 1 else ALONG
            i = self.fresh.expr("i") if rows > FRAGMENT_ROWS else ZERO
            body = tuple(self._rows_ended(q, i))
            if rows > FRAGMENT_ROWS:
                body = (nodes.For(str(i), ZERO, Expr.of(rows // FRAGMENT_ROWS), body, unroll=0),)
            yield from body

    def _rows_ended(self, q: int, i: Expr) -> Iterator[Statement]:
        """Sixteen rows of the accumulator of a row of results."""
        halo, fresh = self.halo, self.fresh
        columns, slot = ALONG if halo.side == 1 else self.part, self._slot()
        v = fresh.expr("v")
        yield nodes.Barrier("warp")
        yield from self._staged(q, i, columns)
        yield nodes.Barrier("warp")
        width = self._width(self.is_along_made)
        in_row = (FRAGMENT_ROWS if self.is_turned else columns) // width
        turns = FRAGMENT_ROWS * columns // width // WARP
        number = WARP * v + Expr.of("lane") if turns > 1 else Expr.of("lane")
        body = (*self._lets(number, in_row, width, q, i), *self._values(width, slot))
        yield from (nodes.For(str(v), ZERO, Expr.of(turns), body, unroll=0),) if turns > 1 else body

    def _slot(self) -> Expr | None:
        """Which of the arrays that accumulators leave through is the warp's."""
        return Expr.of("warp.index") if self.plan.threads[0] > WARP else None

    def _staged(self, q: int, i: Expr, columns: int) -> Iterator[Statement]:
        """The accumulator's rows as they are put into shared memory."""
        r, n = self.fresh.expr("r"), self.fresh.expr("n")
        acc = Read(self._sum(q), (r + FRAGMENT_ROWS * i, n), self.problem.kernel.dtype)
        copy = nodes.Store(Place(self.fresh("staged"), (r, n), self._slot()), acc)
        yield nodes.Each((str(r), str(n)), self._sum(q), (copy,), (FRAGMENT_ROWS * i, ZERO), (FRAGMENT_ROWS, columns))

    @property
    def is_turned(self) -> bool:
        """Whether neighbours in the outputs are one below the other in an accumulator, so that lanes end these."""
        ours = self.halo.side == 0
        return self._width(not ours) > self._width(ours)

    @property
    def is_along_made(self) -> bool:
        """Whether a lane ends neighbours of what is made, or those of the results of a row."""
        return (self.halo.side == 0) != self.is_turned

    def _width(self, is_made: bool) -> int:
        """How many neighbours along what is made, or along a row of results, leave at once."""
        beside = columns_beside(self.problem.region, (self.halo.made[-1] if is_made else self.halo.columns,))
        return beside.width if beside is not None else 1

    def _lets(self, number: Expr, in_row: int, width: int, q: int, i: Expr) -> Iterator[Statement]:
        """Which results a lane ends."""
        fresh = self.fresh
        down, across = fresh.expr("down"), fresh.expr("across")
        yield nodes.Let(str(down), number // in_row)
        yield nodes.Let(str(across), width * (number - in_row * down))
        made, result = (across, down) if self.is_along_made else (down, across)
        yield nodes.Let(fresh("row"), fresh.expr("row0") + fresh.expr("wq") + q)
        yield nodes.Let(fresh("col"), fresh.expr("col0") + result)
        at = FRAGMENT_ROWS * i if self.halo.side == 1 else 0
        slot = fresh.expr("m0") + fresh.expr("wm") + at + made
        if self.halo.made_at(slot)[1]:
            yield nodes.Let(fresh("slot"), slot)
            slot = fresh.expr("slot")
        yield nodes.Let(fresh("of"), self.halo.made_at(slot)[0])

    def _values(self, width: int, slot: Expr | None) -> tuple[Statement, ...]:
        """The values and stores of neighbours."""
        halo, fresh, kernel, plan = self.halo, self.fresh, self.problem.kernel, self.plan
        e = fresh.expr("e") if width > 1 else ZERO
        row, col, of = fresh.expr("row"), fresh.expr("col"), fresh.expr("of")
        is_made = self.is_along_made
        result, made = (col, of + e) if is_made else (col + e, of)
        point = {a.name: Expr.of(a.name) for a in halo.images}
        point |= {halo.rows.name: row, halo.columns.name: result, **split(made, halo.made)}
        down, across = fresh.expr("down"), fresh.expr("across") + e
        acc = Read(fresh("staged"), (across, down) if self.is_turned else (down, across), kernel.dtype, slot)
        beside = {acc} if width > 1 and not self.is_turned else set()
        lined = fresh("of") if is_made else fresh("col")
        along = halo.made if is_made else (halo.columns,)
        place = made if is_made else result
        values = {kernel.value: acc}
        columns = Columns(
            self.problem.region, fresh, width, along, place, point, values, {}, beside, frozenset({lined})
        )
        statements = tuple(columns.statements())
        rows, _ = rows_of(plan, halo)
        ends = (col, of + (width - 1)) if is_made else (col + (width - 1), of)
        bounds = () if divides(rows, halo.rows.size) else below(row, halo.rows.size)
        bounds += () if divides(ALONG, halo.columns.size) else below(ends[0], halo.columns.size)
        bounds += self.halo.made_at(fresh.expr("slot"))[1]
        bounds += () if divides(self.made, halo.slots) else below(ends[1], extent_of(halo.made))
        return (nodes.If(bounds, statements),) if bounds else statements
