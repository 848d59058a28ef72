"""A walk with channels innermost, whose rows of the image come to shared memory several turns ahead: neighbouring
threads have neighbouring channels, so that what one of them reads is too short to wait for in registers.

    shared X.rows : fp16[20, 64] ring 4                         the places that the columns of a tile cover
    the first three rows of the image, a group of copies each
    for t in 2..28
      the sums move up, as in `walking`
      wait for the row of this turn; meet; the row three turns ahead is asked for, in place of the one of the last turn
      X.row[c] = X.rows[s.slot][7*thread.y + c, thread.x]      for each place that the thread's columns cover
      what the row adds to the sums, and the stores

What is outside of the image is zero where it is brought in, so that reads have no guards. Every tile is whole: all
threads of a CTA meet.
"""

from __future__ import annotations

from ...ir.body import Read
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import ACCESS_BYTES
from ...kit.records import dataclass
from ..parts.arrays import shared
from ..parts.point import guarded
from ..windowed import Fold
from .block import ACROSS_PLACES
from .declare import Rows
from .thread import Tap, loops
from .walking import Walking


@dataclass
class Staged(Walking):
    """`rows` are the rows of the image in shared memory; `tokens` name the copies that have been asked for."""

    rows: Rows | None = None
    tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        of = self.fresh.of
        (self.image,) = self.fold.images
        self.array = self.fresh.name(f"{self.image.read.tensor}.rows")
        self.written, self.taken = of("w.at"), of("r.at")

    def begun(self) -> list[Statement]:
        """The first rows, as many as are on their way at a time."""
        ahead, token = self.rows.stages - 1, self.fresh.name("first.rows")
        lines = (self._copied(token, self.at, self.at), nodes.Commit((token,)))
        self.tokens = (token,)
        return [
            shared(self.array, self.rows.array),
            nodes.For(str(self.at), ZERO, Expr.of(ahead), lines, unroll=0),
            nodes.Cursor(self.written, self.rows.stages, ahead),
            nodes.Cursor(self.taken, self.rows.stages),
        ]

    def ended(self) -> list[Statement]:
        """Nothing is on its way when the kernel ends."""
        return [nodes.WaitGroup("cp_async", 0, self.tokens)]

    def of_row(self, fold: Fold, name: str, at: Expr, tap: Tap | None = None) -> list[Statement]:
        """What the rows of results fold of the row that has come, while others are on their way."""
        ahead, token = self.rows.stages - 1, self.fresh.name("load.rows")
        self.tokens = (*self.tokens, token)
        register = self.fresh.name(f"{self.image.read.tensor}.row")
        lines: list[Statement] = [
            nodes.WaitGroup("cp_async", ahead - 1, self.tokens),
            nodes.Barrier("cta"),
            self._copied(token, at + ahead, Expr.of(f"{self.written}.slot")),
            nodes.Commit((token,)),
            self.row_of(self.image, register),
            *self._read(register),
            *self.folded(fold, name, {self.image: register}, tap),
        ]
        return [*lines, nodes.Advance(self.written), nodes.Advance(self.taken)]

    def _read(self, register: str) -> list[Statement]:
        """Registers take the part of the row that the thread's columns cover."""
        block, image = self.block, self.image
        place = Expr.of(self.fresh.of("c")) if block.loads(image) > 1 else ZERO
        at = image.columns.step * block.columns * Expr.of(ACROSS_PLACES["columns"]) + block.place_step(image) * place
        turn = Expr.of(self.turn) if block.wide > 1 else ZERO
        beside = ((self.turn, Expr.of(block.wide)),) if block.wide > 1 else ()
        channel = block.wide * Expr.of(ACROSS_PLACES["planes"]) + turn
        value = Read(self.array, (at, channel), image.read.dtype, Expr.of(f"{self.taken}.slot"))
        to = Place(register, (place, turn) if block.wide > 1 else (place,))
        return loops(((place, block.loads(image)),), [nodes.Assign(to, value, beside, block.wide)])

    def _copied(self, token: str, at: Expr, slot: Expr) -> Statement:
        """A row of the image, with zeros around it."""
        image, grid, fresh = self.image, self.grid, self.fresh
        place, channel = Expr.of(fresh.of("place")), Expr.of(fresh.of("ch"))
        first = {word: grid.firsts[word].substitute({ACROSS_PLACES[word]: ZERO}) for word in grid.firsts}
        (plane,) = self.kernel.planes
        index = [e.substitute({plane.name: first["planes"] + channel}) for e in image.read.index]
        index[image.rows.dim] = image.rows.step * first["rows"] + at + image.rows.low
        index[image.columns.dim] = image.columns.step * first["columns"] + place + image.columns.low
        shape = self.region.tensor(image.read.tensor).type.shape
        dims = sorted((image.rows.dim, image.columns.dim))
        bounds = [Bound(index[dim], ZERO, shape[dim]) for dim in dims]
        bounds += [Bound(index[dim], b.lower, b.upper) for dim, b in image.inside]
        value = guarded(tuple(dict.fromkeys(bounds)), Read(image.read.tensor, tuple(index), image.read.dtype))
        places, channels = self.rows.array.shape
        over = ((str(place), Expr.of(places)), (str(channel), Expr.of(channels)))
        to = Place(self.array, (place, channel), slot)
        return nodes.CpAsync(token, to, over, value, ACCESS_BYTES // image.read.dtype.bytes)
