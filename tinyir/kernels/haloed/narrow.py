"""The template of groups of fewer than 16 channels: a fragment of the image has the taps of a row side by side, with
zeros behind them, and serves each row of results that has it in its window.

    wf0, wf1, wf2 <- taps[wm, 0], taps[wm, 16], taps[wm, 32]      three taps of 4 channels and 4 zeros of each row
    for each row of the image under the warp's results, for each group
      each n, t of xf                                     two neighbouring channels are a word
        let k2 = floor(t/4)
        xf[n, t] = image[18*row + k2 + n, channel] where t < 12 else 0.0
      mma acc0 += xf * wf1; mma acc1 += xf * wf0          the second row of one window, the first of the next
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Read
from ...ir.expr import Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...kit.records import dataclass, replace
from ..parts.point import below, guarded
from .declare import rows_of
from .halo import DEPTH, STEP
from .packed import Packed

PAIR = 2  # channels of a word


@dataclass(frozen=True, slots=True)
class Narrow(Packed):
    """Writes the kernel of a plan of such groups."""

    def _summed(self, number: Expr) -> tuple[tuple[tuple[str, Expr], ...], tuple[Bound, ...]]:
        halo, image, rest = self.halo, self.halo.image, self.fresh.expr("rest")
        size = halo.channel.size.constant
        row = number // halo.line
        lets = {image.rows.tap.name: row, str(rest): number - halo.line * row, image.columns.tap.name: rest // size}
        lets[halo.channel.name] = rest - size * (rest // size)
        inside = below(rest, image.columns.tap.size * size) if halo.line > halo.summed else ()
        ended = () if self.depth % DEPTH == 0 else below(number, Expr.of(self.depth))
        return tuple(lets.items()), (*inside, *ended)

    def _registers(self) -> Iterator[Statement]:
        for reg in Packed._registers(self):
            if reg.name != self.fresh("wf"):
                yield reg
                continue
            yield from (replace(reg, name=self._taps_of(k)) for k in range(self.halo.image.rows.tap.size.constant))

    def _taps_of(self, row: int) -> str:
        """The other factor's fragment of a row of taps."""
        return self.fresh(f"wf{row}")

    def _loop(self) -> Iterator[Statement]:
        """The products, one row of the image after the other."""
        halo, rows = self.halo, self.halo.image.rows
        taps, results = range(rows.tap.size.constant), range(rows_of(self.plan, halo)[1])
        places = sorted({rows.step * q + rows.spread * k for q in results for k in taps})
        for first in range(0, halo.line, STEP):
            for k in taps:
                at = self._blocked("taps", self.fresh.expr("wm"), Expr.of(halo.line * k + first))
                yield nodes.Ldmatrix(Place(self._taps_of(k)), at, halo.side == 0)
            for place in places:
                for n in range(halo.at_once):
                    yield self._gathered(first, place, n)
                    for q in results:
                        for k in (k for k in taps if rows.step * q + rows.spread * k == place):
                            yield self._product(q, n, Place(self._taps_of(k)))

    def _gathered(self, first: int, row: int, number: int) -> Statement:
        """The fragment of a group of a row of the image, from an element of the taps of this row on."""
        halo, fresh, image = self.halo, self.fresh, self.halo.image
        t, n, half, pair = (fresh.expr(word) for word in ("t", "n", "half", "pair"))
        size = halo.channel.size.constant
        pairs, group = size // PAIR, fresh.expr("wm") // halo.made_room + number
        tap = pair // pairs
        lets = {str(half): t // PAIR, str(pair): half + first // PAIR, image.columns.tap.name: tap}
        place = halo.wide * (image.rows.step * fresh.expr("wq") + row) + self.column + n
        channel = size * group + PAIR * (pair - pairs * tap) + t - PAIR * half
        read = Read(fresh("image"), (place, channel), image.read.dtype)
        guard = below(pair, Expr.of(halo.summed // PAIR)) if halo.summed < first + STEP else ()
        own = (t, n) if halo.side == 1 else (n, t)
        made = nodes.Assign(Place(fresh("xf"), own), guarded(guard, read))
        body = (*(nodes.Let(name, e) for name, e in lets.items()), made)
        return nodes.Each(tuple(map(str, own)), fresh("xf"), body)
