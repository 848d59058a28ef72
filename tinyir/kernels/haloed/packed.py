"""The template of groups: several side by side fill the channels of a block, of which the tile of the image is brought
in with its edge, and what each makes is a product of its own channels alone. The other factor is there along the whole
sum before the first tile.

    %first.taps = cp_async taps[r, c] at [b] over r: 64, c: 64 = W[i1, i2, k1, k2, k0] where 64*b + c < 144 else 0.0
    for tile in cta.x..512 step 528
      barrier                                             the last tile has been read
      %load.image = cp_async image[p, ch] over p: 180, ch: 64 = X[i0, h, w, 64*tm + ch] where ... else 0.0 vector 8
      wait; barrier
      for turn in 0..2                                    one group of the warp's part after the other
        let wm = wp + 16*turn
        for k in 0..9
          let k1 = floor(k/3), k2 = k - 3*floor(k/3)
          for each 16 channels of the group: ldmatrix wf <- taps[wm, 16*k]
            for each row of the warp's results: ldmatrix xf <- image[18*(row + k1) + k2, wm]; mma acc += wf * xf
        the epilogue, as in `ring`

No factor is a zero in the place of another group's, so that what is infinite stays in its own group. Groups that make
less than 16 share a fragment of the other factor; each multiplies all of it, and has what it makes of the sum that is
its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Axis
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.traits import extent_of
from ...kit.records import dataclass, replace
from ..parts.point import Values, below, divides, guarded, named, split
from .declare import rows_of
from .expanded import Expanded
from .halo import DEPTH
from .ring import IMAGE, STEP, TOKENS

MOST_TAPS = 25  # that are written out one by one


@dataclass(frozen=True, slots=True)
class Packed(Expanded):
    """Writes the kernel of a plan of groups."""

    def _factor(self) -> Iterator[Statement]:
        """The other factor: what is made, along the taps and the channels of its group."""
        halo, fresh, kernel = self.halo, self.fresh, self.problem.kernel
        r, c, b = fresh.expr("r"), fresh.expr("c"), fresh.expr("b") if self.depth > DEPTH else ZERO
        made, there = halo.made_at(fresh.expr("m0") + r)
        first, lets = named(halo.made, made, fresh("made"))
        more, inside = self._summed(DEPTH * b + c)
        guard = () if divides(self.made, halo.slots) else below(first, extent_of(halo.made))
        guard += (*there, *inside)
        point = {a.name: Expr.of(a.name) for a in (*halo.made, *halo.taps, halo.channel)}
        value = guarded(guard, Values(self.problem.region, point).at(kernel.factors[1 - halo.side]))
        over = ((str(r), Expr.of(self.made)), (str(c), Expr.of(DEPTH)))
        to = Place(fresh("taps"), (r, c), b if self.depth > DEPTH else None)
        copy: Statement = nodes.Copy(to, over, value, 1, (*lets, *more))
        if halo.beside > 1:
            copy = nodes.CpAsync(TOKENS[0], to, over, value, halo.beside, (*lets, *more))
        if self.depth > DEPTH:
            copy = nodes.For(str(b), ZERO, Expr.of(-(-self.depth // DEPTH)), (copy,), unroll=0)
        yield copy
        yield from self._committed(0)

    def _summed(self, number: Expr) -> tuple[tuple[tuple[str, Expr], ...], tuple[Bound, ...]]:
        """The tap and the channel of an element of the sum, as integers, and where there is one."""
        halo, size = self.halo, self.halo.channel.size
        order = (*halo.taps, replace(halo.channel, size=Expr.of(halo.room)))
        at, lets = named(order, number, self.fresh("tap"))
        there = () if size.constant == halo.room else below(Expr.of(halo.channel.name), size)
        return lets, (*there, *(() if divides(DEPTH, extent_of(order)) else below(at, extent_of(order))))

    def _begun(self) -> Iterator[Statement]:
        """The image's tile, when all have read the last one."""
        halo = self.halo
        tokens = (*((IMAGE,) if halo.width > 1 else ()), *(TOKENS[:1] if halo.beside > 1 else ()))
        yield nodes.Barrier("cta")
        yield self._image(self.fresh.expr("tm"))
        if halo.width > 1:
            yield nodes.Commit((IMAGE,))
        if tokens:
            yield nodes.WaitGroup("cp_async", 0, tokens)
        yield nodes.Barrier("cta")

    def _of_tile(self) -> Iterator[Statement]:
        """The image, then one group after the other."""
        turn = self.fresh.expr("turn")
        count = self.plan.warp_tile[1 - self.halo.side] // self.part
        yield from self._begun()
        at = nodes.Let(self.fresh("wm"), self.fresh.expr("wp") + self.part * (turn if count > 1 else 0))
        body = (at, *self._registers(), *self._loop(), *self._ended())
        yield from (nodes.For(str(turn), ZERO, Expr.of(count), body),) if count > 1 else body

    def _places(self, numbers: tuple[Axis, ...], tile: Expr) -> Iterator[Statement]:
        """Where the tile of this number begins, and the warp's part of it, `wp`."""
        for let in Expanded._places(self, numbers, tile):
            yield replace(let, name=self.fresh("wp")) if let.name == self.fresh("wm") else let

    def _registers(self) -> Iterator[Statement]:
        """Those of a tile, with a sum for each group of a fragment."""
        for reg in Expanded._registers(self):
            is_sum = reg.kind == "mma" and self.halo.at_once > 1
            yield from (
                (replace(reg, name=self._of(reg.name, n)) for n in range(self.halo.at_once)) if is_sum else (reg,)
            )

    def _of(self, acc: str, number: int) -> str:
        """The sum of a group of a fragment, by the name of what one has alone."""
        return f"{acc}.{number}" if self.halo.at_once > 1 else acc

    def _loop(self) -> Iterator[Statement]:
        """The products, tap after tap."""
        halo, k = self.halo, self.fresh.expr("k")
        lets = [nodes.Let(name, e) for name, e in split(k, halo.taps).items()]
        count = extent_of(halo.taps)
        unroll = 0 if count.constant <= MOST_TAPS else 1
        yield nodes.For(str(k), ZERO, count, (*lets, *self._tap(k)), unroll=unroll)

    def _tap(self, k: Expr) -> Iterator[Statement]:
        """Those of a tap, with 16 channels of the group after the other."""
        halo, fresh, channels = self.halo, self.fresh, self.halo.room
        x, w, made = Place(fresh("xf")), Place(fresh("wf")), fresh.expr("wm")
        for step in range(0, channels, STEP):
            yield nodes.Ldmatrix(w, self._blocked("taps", made, channels * k + step), halo.side == 0)
            for q in range(rows_of(self.plan, halo)[1]):
                for n in range(halo.at_once):
                    place = self.place_of(fresh.expr("wq") + q), channels * (made // halo.made_room + n) + step
                    yield nodes.Ldmatrix(x, Place(fresh("image"), place), halo.side == 1)
                    yield self._product(q, n, w)

    def _product(self, row: int, number: int, w: Place) -> Statement:
        """That of a group's fragment for a row of results."""
        x = Place(self.fresh("xf"))
        left, right = (w, x) if self.halo.side == 1 else (x, w)
        return nodes.Mma(self._of(self._sum(row), number), left, right, "m16n8k16")

    def _staged(self, q: int, i: Expr, columns: int) -> Iterator[Statement]:
        """What each group has made of the fragment."""
        halo = self.halo
        if halo.at_once == 1:
            yield from Expanded._staged(self, q, i, columns)
            return
        for n in range(halo.at_once):
            (every,) = Expanded._staged(self, q, i, columns)
            made = Expr.of(every.names[1 - halo.side])
            own = Bound(made, Expr.of(halo.of_group * n), Expr.of(halo.of_group * (n + 1)))
            (store,) = every.body
            acc = replace(store.value, tensor=self._of(store.value.tensor, n))
            yield replace(every, of=self._of(every.of, n), body=(nodes.If((own,), (replace(store, value=acc),)),))
