"""The template of few channels, whose taps alone would fill a small part of a fragment: the tile of the image is
expanded on the chip into the matrix of its windows, a row for each result, so that the sum has no more zeros than fill
it up to a multiple of 16.

    copy taps[r, k] over r: 64, k: 160 = W[i1, k0, k1, k2] where k < 147 else 0.0
    for tile in cta.x..1568 step 264
      copy image[p, ch] over ch: 3, p: 777 with ... = X[i0, ch, h, w] where 0 <= h < 224 and 0 <= w < 224 else 0.0
      barrier
      for n in 0..5                                     each thread takes an element of 16 neighbouring results
        let line = floor((thread.x + 256*n)/160), k = the rest
        let first = 37*(2*line + k1) + column of k2
        for q in 0..16 unroll
          windows[16*line + q, k] = image[first + q, k0]
      barrier
      for k in 0..10
        ldmatrix wf <- taps[wm, 16*k]
        for each row of the warp's results: ldmatrix xf <- windows[16*row, 16*k]; mma acc += wf * xf
      the epilogue, as in `ring`
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accumulate import literal
from ...ir.body import Axis, Read
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ..parts.point import Values, below, divides, guarded, named, split
from ..resources import threads_of
from .declare import rows_of
from .halo import ALONG, DEPTH
from .ring import STEP, Ring


@dataclass(frozen=True, slots=True)
class Expanded(Ring):
    """Writes the kernel of a plan without a ring."""

    @property
    def depth(self) -> int:
        """Elements of the sum with the zeros behind them."""
        return self.plan.tile[2]

    def _ctas(self, numbers: tuple[Axis, ...]) -> Expr:
        return Expr.of(self.plan.persistent)

    def _tiles(self, numbers: tuple[Axis, ...]) -> Iterator[Statement]:
        """What a CTA does: it takes its part of the other factor once, then tiles that need this part."""
        *_, made = numbers
        cta, tile, outer = Expr.of("cta.x"), self.fresh.expr("tile"), {made.name, self.fresh("m0")}
        yield nodes.Let(made.name, cta - made.size * (cta // made.size))
        yield nodes.Let(self.fresh("m0"), self.made * Expr.of(made.name))
        yield from self._factor()
        places = (s for s in self._places(numbers, tile) if s.name not in outer)
        body = (*places, *self._of_tile())
        yield nodes.For(str(tile), cta, extent_of(numbers), body, Expr.of(self.plan.persistent))

    def _of_tile(self) -> Iterator[Statement]:
        """What a CTA does for a tile."""
        yield from (*self._registers(), *self._begun(), *self._loop(), *self._ended())

    def _begun(self) -> Iterator[Statement]:
        """The image's tile, then the windows. Others may still multiply the last ones when the image is overwritten,
        but have read it."""
        yield self._image(ZERO)
        yield nodes.Barrier("cta")
        yield self._windows()
        yield nodes.Barrier("cta")

    def _factor(self) -> Iterator[Statement]:
        """The other factor: what is made, along the whole sum."""
        halo, fresh, kernel = self.halo, self.fresh, self.problem.kernel
        r, k = fresh.expr("r"), fresh.expr("k")
        first, lets = named(halo.made, fresh.expr("m0") + r, fresh("made"))
        second, more = named(kernel.sum, k, fresh("tap"))
        guard = () if divides(self.made, extent_of(halo.made)) else below(first, extent_of(halo.made))
        guard += () if divides(self.depth, extent_of(kernel.sum)) else below(second, extent_of(kernel.sum))
        point = {a.name: Expr.of(a.name) for a in (*halo.made, *kernel.sum)}
        value = guarded(guard, Values(self.problem.region, point).at(kernel.factors[1 - halo.side]))
        over = ((str(r), Expr.of(self.made)), (str(k), Expr.of(self.depth)))
        yield nodes.Copy(self._blocked("taps", r, k), over, value, 1, (*lets, *more))

    def _windows(self) -> Statement:
        """The rows of windows: an element of the sum of a line of results after the other."""
        fresh, threads, (rows, _) = self.fresh, threads_of(self.plan), rows_of(self.plan, self.halo)
        n, item, line, k = (fresh.expr(word) for word in ("n", "item", "line", "k"))
        count = self.depth * rows
        body = (
            nodes.Let(str(line), item // self.depth),
            nodes.Let(str(k), item - self.depth * line),
            *self._line_of_windows(line, k),
        )
        lines = [nodes.Let(str(item), Expr.of("thread.x") + threads * n)]
        lines += [nodes.If(below(item, Expr.of(count)), body)] if count % threads else body
        return nodes.For(str(n), ZERO, Expr.of(-(-count // threads)), tuple(lines))

    def _line_of_windows(self, line: Expr, k: Expr) -> Iterator[Statement]:
        """An element of the windows of a row of results, zero behind the sum."""
        fresh, kernel, image = self.fresh, self.problem.kernel, self.halo.image
        q, first = fresh.expr("q"), fresh.expr("first")
        lets = [nodes.Let(name, e) for name, e in split(k, kernel.sum).items()]
        lets.append(nodes.Let(str(first), self.place_of(line)))
        dtype, to = image.read.dtype, self._blocked("windows", ALONG * line + q, k)
        taken = nodes.Store(to, Read(fresh("image"), (first + q, Expr.of(self.halo.channel.name)), dtype))
        written, zeros = (
            nodes.For(str(q), ZERO, Expr.of(ALONG), (store,), unroll=0)
            for store in (taken, nodes.Store(to, literal(0, dtype)))
        )
        guard = () if divides(self.depth, extent_of(kernel.sum)) else below(k, extent_of(kernel.sum))
        yield from (nodes.If(guard, (*lets, written), (zeros,)),) if guard else (*lets, written)

    def _blocked(self, word: str, row: Expr, k: Expr) -> Place:
        """The element of the sum in a row, in its block of an array."""
        array = self.fresh(word)
        return (
            Place(array, (row, k - DEPTH * (k // DEPTH)), k // DEPTH) if self.depth > DEPTH else Place(array, (row, k))
        )

    def _loop(self) -> Iterator[Statement]:
        fresh, halo = self.fresh, self.halo
        x, w = Place(fresh("xf")), Place(fresh("wf"))
        for k in range(0, self.depth, STEP):
            yield nodes.Ldmatrix(w, self._blocked("taps", fresh.expr("wm"), Expr.of(k)), halo.side == 0)
            for q in range(rows_of(self.plan, halo)[1]):
                place = self._blocked("windows", ALONG * (fresh.expr("wq") + q), Expr.of(k))
                left, right = (w, x) if halo.side == 1 else (x, w)
                yield nodes.Ldmatrix(x, place, halo.side == 1)
                yield nodes.Mma(self._sum(q), left, right, "m16n8k16")
