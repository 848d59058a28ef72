"""A thread that walks down its tile: each row of the image is read once, for all rows of results that have it in their
windows. Registers hold the sums of those rows, and the factors of all taps.

    reg y.acc : fp32[3, 4] = 0.0                              the rows of results whose windows are not yet whole
    W.held[k0, k1] = W[i1, k0, k1]                            for k0 and k1, written out
    X.next                                                    the row i2 - 1 of the image, as in `thread`
    for t in 2..28                                            a row of results begins in each turn, and one is whole
      for p in 0..2 unroll, q in 0..4 unroll                  each takes the place of the one above it
        y.acc[p, q] = y.acc[p + 1, q]
      y.acc[2, q] = 0.0
      X.row = X.next                                          and the next row i2 + t of the image is on its way
      for p in 0..3 unroll
        let k0 = 2 - p
        what the row adds to y.acc[p] by its taps k1
      what follows the fold, and the stores, of y.acc[0] at i2 + t - 2

Before this loop, in `for t in 0..2`, no row of results is whole and a guard skips those above the first; those under
the last are skipped in `for t in 28..30`. These turns are written out: the guards are known then, and the compiler has
the rows of several turns on their way. By steps of two rows a turn reads two rows of the image. The compiler gives a
sum that moves up the register that it is added to, so that moving costs nothing.
"""

from __future__ import annotations

from ...ir.accumulate import start_of, widened
from ...ir.body import Read, Reduce
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...kit.records import dataclass, field
from ..parts.fold import type_of
from ..windowed import Fold, Image, Slide
from .block import beside_of, is_guarded, is_one_access, is_written_out, names_of
from .thread import Tap, Thread, loops, moved


@dataclass
class Walking(Thread):
    """`at` counts the rows of results that the walk begins, `behind` the rows of the image after the first of a turn;
    `next` holds the row of an image that is on its way."""

    next: dict[Image, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        of = self.fresh.of
        (self.fold,) = self.kernel.folds
        self.slide: Slide = self.fold.images[0].rows
        self.slots = self.block.slots
        self.at, self.behind = Expr.of(of("t")), Expr.of(of("j")) if self.slide.step > 1 else ZERO
        self.slot, self.done = Expr.of(of("p")), ZERO
        self.row = self.at - (self.slots - 1)

    def statements(self) -> tuple[Statement, ...]:
        """The factors and the first row, then the walk."""
        name, sums = self.held_sums(self.fold)
        lines = [sums]
        for read in beside_of(self.fold):
            lines += [] if is_guarded(self.fold, read) else self._kept(read)
        lines += self.begun()
        early, late = self.slots - 1, self.block.walk
        first, last = Bound(self.row + self.slot, ZERO), Bound(self.row + self.slot, upper=Expr.of(late))
        results = self.results()
        lines += self._walked(name, 0, early, (first,), [])
        lines += self._walked(name, early, late, (), results)
        return (*lines, *self._walked(name, late, self.block.turns, (last,), results), *self.ended())

    def begun(self) -> list[Statement]:
        """The first row, on its way."""
        lines: list[Statement] = []
        for image in self.fold.images:
            register = self.next[image] = self.fresh.name(f"{image.read.tensor}.next")
            lines += [self.row_of(image, register), *self.fetched(image, register, ZERO)]
        return lines

    def ended(self) -> list[Statement]:
        """What follows the last turn."""
        return []

    def _walked(
        self, name: str, low: int, high: int, guard: tuple[Bound, ...], results: list[Statement]
    ) -> list[Statement]:
        """Turns of the walk, in which rows of results under a guard take in rows of the image."""
        row = self.of_row(self.fold, name, self.slide.step * self.at + self.behind, self._tap(guard))
        body = [*self._moved_up(name, self.fold.reduce), *loops(((self.behind, self.slide.step),), row), *results]
        unroll = 0 if guard and is_written_out(self.kernel, self.block.columns * self.block.wide) else 1
        return [nodes.For(str(self.at), Expr.of(low), Expr.of(high), tuple(body), unroll=unroll)]

    def of_row(self, fold: Fold, name: str, at: Expr, tap: Tap | None = None) -> list[Statement]:
        """What the rows of results fold of the row that has come, while the next one is on its way."""
        held, lines = {}, []
        for image, following in self.next.items():
            register = held[image] = self.fresh.name(f"{image.read.tensor}.row")
            counts = [(Expr.of(self.fresh.of("c" if n == 0 else "v")), c) for n, c in enumerate(self.row_shape(image))]
            place = tuple(counter for counter, _ in counts)
            taken = nodes.Assign(Place(register, place), Read(following, place, image.read.dtype))
            lines += [self.row_of(image, register), *loops(tuple(counts), [taken])]
            lines += self.fetched(image, following, at + 1)
        return [*lines, *self.folded(fold, name, held, tap)]

    def folding_row(self) -> Expr:
        """That of its sum, the rows behind the one that is whole."""
        return self.row + self.slot

    def reads_on(self, image: Image) -> bool:
        """The last turn fetches a row under the last window."""
        return True

    def _tap(self, guard: tuple[Bound, ...]) -> Tap:
        """Which tap of a row of results the row is, and that it is one."""
        tap = self.slide.step * (self.slots - 1 - self.slot) + self.behind
        if self.slots * self.slide.step > self.slide.taps:
            guard += (Bound(tap, upper=Expr.of(self.slide.taps)),)
        return guard, nodes.Let(self.slide.tap.name, tap)

    def _moved_up(self, name: str, reduce: Reduce) -> list[Statement]:
        """Each row of results takes the place of the one above it; the last one begins."""
        _, *rest = self.index()
        above = nodes.Assign(Place(name, (self.slot, *rest)), Read(name, (self.slot + 1, *rest), widened(reduce).dtype))
        last = Place(name, (Expr.of(self.slots - 1), *rest))
        return [
            *loops(((self.slot, self.slots - 1),), self.over_results([above])),
            *self.over_results([nodes.Assign(last, start_of(reduce.op, reduce.dtype))]),
        ]

    def _kept(self, read: Read) -> list[Statement]:
        """Registers that hold a factor at all taps, and what fills them."""
        block, names = self.block, names_of(read)
        taps = [a for a in self.fold.reduce.axes if a.name in names]
        at = tuple(Expr.of(a.name) for a in taps)
        name = block.along
        is_wide = name in names
        register, turn = self.fresh.name(f"{read.tensor}.held"), Expr.of(self.turn)
        place = (*at, turn) if is_wide else at
        value = moved(read, {name: Expr.of(name) + turn}) if is_wide else read
        over = ((self.turn, Expr.of(block.wide)),) if is_wide else ()
        is_whole = is_wide and is_one_access(self.region, read, name, block.wide)
        lines: list[Statement] = [nodes.Assign(Place(register, place), value, over, block.wide if is_whole else 1)]
        for axis in reversed(taps):
            lines = [nodes.For(axis.name, ZERO, axis.size, tuple(lines), unroll=0)]
        self.kept[read] = Read(register, place, read.dtype)
        shape = (*(a.size for a in taps), *((block.wide,) if is_wide else ()))
        return [nodes.Reg(register, type_of(read.dtype, *shape)), *lines]
