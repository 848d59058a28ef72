"""Bank conflicts of shared memory: how many times a warp's access goes to the banks (seed 001 section 7.1).

Shared memory has 32 banks of 4 bytes. An access of a warp is served 128 bytes at a time: all lanes where each moves up
to 4 bytes, 16 of them where each moves 8, 8 of them where each moves 16 (as ldmatrix, stmatrix and wgmma do with a row
of a matrix). Lanes that want different words of one bank are served one after the other; the same word goes to all of
them at once. An access of `ways` 2 takes twice as long as it could. Source: CUDA C++ Programming Guide, section on
shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ..kit.groups import sets_of
from ..kit.records import dataclass, replace

BANKS, WORD = 32, 4  # bytes of a word
LINE = BANKS * WORD  # bytes that are served at once
SWIZZLES = (128, 64, 32)  # bytes, the span of the XOR pattern
ATOM = 16  # bytes that a swizzle keeps together


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a tile's elements in shared memory: `columns` elements of `size` bytes a row, rows `pitch` elements
    apart. With a swizzle, tiles of rows of `swizzle` bytes are side by side, and 16-byte pieces are exchanged by the
    row's number; `rows` says how many rows each has."""

    rows: int
    columns: int
    size: int
    swizzle: int = 0
    pitch: int = 0  # 0: as many as there are columns

    def bytes_of(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """The byte at which an element begins, from the tile's start on."""
        if not self.swizzle:
            return (row * (self.pitch or self.columns) + column) * self.size
        width = self.swizzle // self.size
        inside = row * self.swizzle + column % width * self.size
        return column // width * (self.rows * self.swizzle) + (inside ^ (inside >> 3 & (self.swizzle - ATOM)))

    def others(self, width: int, may_pad: bool) -> Iterator[Order]:
        """Other orders of the same tile whose accesses of `width` bytes are whole: the swizzles, then longer rows."""
        plain = replace(self, swizzle=0, pitch=0)
        row = self.columns * self.size
        for span in SWIZZLES:
            if span != self.swizzle and row % span == 0:
                yield replace(plain, swizzle=span)
        if may_pad:
            step = max(width, self.size, WORD) // self.size
            for more in range(step, LINE // self.size, step):  # a whole line more is alike
                yield replace(plain, pitch=self.columns + more)

    def __str__(self) -> str:
        return f"swizzle {self.swizzle}" if self.swizzle else f"rows of {self.pitch or self.columns}"


@dataclass(frozen=True, slots=True)
class Touch:
    """Where the lanes of warps begin to read or write, all in one instruction: arrays of [instructions, 32] rows and
    columns of a tile, the bytes that each lane moves, and which lanes take part."""

    row: np.ndarray
    column: np.ndarray
    width: int
    is_active: np.ndarray


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The worst instruction of some: `ways` are the words that lanes served together want of one bank at most;
    `waves` how often it goes to the banks, `least` how often it would without conflicts."""

    ways: int = 0
    waves: int = 0
    least: int = 0

    def worse(self, other: Conflicts) -> Conflicts:
        """The one with more ways, then more waves."""
        return max(self, other, key=lambda c: (c.ways, c.waves))


def conflicts_of(order: Order, touches: Iterable[Touch]) -> Conflicts:
    """The worst of the instructions; 0 ways where no lane takes part in any."""
    worst = Conflicts()
    for touch in touches:
        first = order.bytes_of(touch.row, touch.column)
        start = np.where(touch.is_active, first, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        first = np.where(touch.is_active, first - start // LINE * LINE, -1)  # a whole line further is alike
        for lanes in np.unique(first, axis=0):
            worst = worst.worse(_of_instruction(lanes, touch.width))
    return worst


def _of_instruction(first: np.ndarray, width: int) -> Conflicts:
    """Of one instruction: the byte at which each lane begins, -1 of one that takes no part."""
    together = BANKS if width <= WORD else max(1, LINE // width)
    ways = waves = least = 0
    for lane in range(0, len(first), together):
        words = sets_of(
            (word % BANKS, word)
            for start in (int(b) for b in first[lane : lane + together] if b >= 0)
            for word in range(start // WORD, (start + width - 1) // WORD + 1)
        )
        if words:
            most = max(map(len, words.values()))
            ways, waves, least = max(ways, most), waves + most, least + 1
    return Conflicts(ways, waves, least)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Another order of a tile, and what each of its accesses comes to with it."""

    order: Order
    after: tuple[Conflicts, ...]

    @property
    def cost(self) -> int:
        """Waves of all accesses together, which is what a remedy makes fewer."""
        return sum(c.waves for c in self.after)

    @property
    def is_clean(self) -> bool:
        """Whether no access has a conflict."""
        return all(c.ways <= 1 for c in self.after)


def remedy_of(order: Order, accesses: list[tuple[Touch, ...]], width: int, may_pad: bool) -> Remedy | None:
    """The order in which the accesses of a tile together go to the banks the fewest times, the first of those that
    `others` lists, in which accesses of `width` bytes stay whole; None where it is not better than the tile's own."""
    own = Remedy(order, tuple(conflicts_of(order, t) for t in accesses))
    best = own
    for other in order.others(width, may_pad):
        found = Remedy(other, tuple(conflicts_of(other, t) for t in accesses))
        if found.cost < best.cost:
            best = found
        if best is not own and best.is_clean:
            break
    return None if best is own else best
