"""Left operands that hold what a tensor has, as CUDA: words of two neighbours.

Element [r, n] of 16 bits is in word `x[n / 16][r / 16][i]` of a warp's operand, `x[0][n / 16][i]` of a warpgroup's,
with i = 2 * (n / 8 mod 2) + (r / 8 mod 2) and n even in its lower half (`target.ampere`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...ir.body import Body, Read, Select
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.accesses import is_known_multiple
from ...ir.gpu.memory import OPERAND_KINDS
from ...ir.intervals import Interval
from ...ir.runs import offset_of
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.hopper import WARPGROUP_ROWS

PIECE = 16  # rows and columns of a fragment
WORDS = 4  # of it in a thread


class Words:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def _each_word(self: Any, s: nodes.Each) -> None:
        """The words that a thread holds of an operand: two neighbours at once where they begin at an even number."""
        *lets, last = s.body
        rows, columns = (e.evaluate({}) for e in self.arrays[s.of].type.shape)
        guard, read = _parts(last.value) if isinstance(last, nodes.Assign) else ((), None)
        if (
            not self._is_of_words(s)
            or s.size
            or last.to.name != s.of
            or not all(isinstance(x, nodes.Let) for x in lets)
        ):
            what = Phrase("each of an operand, but to read elements of its dtype")
            raise refuse("E1620", self.kernel.name, s.span, what=what)
        blocks = rows // PIECE if self.arrays[s.of].kind == "mma_a" else 1
        counts = {"piece": columns // PIECE, "block": blocks, "word": WORDS}
        counts = {word: count for word, count in counts.items() if word != "block" or count > 1}
        self.fragment = Expr.of("block") if blocks > 1 else ZERO
        with (
            self.scope({word: Interval(0, count - 1) for word, count in counts.items()}),
            self.unrolled(*((self.names.of("integer", word), count) for word, count in counts.items())),
        ):
            facts, (r, n) = self.facts, s.names
            for name, value in self._corner_of_word(s):
                self._let(nodes.Let(name, value))
            self.integers.ranges |= {r: Interval(0, rows - 1), n: Interval(0, columns - 2)}
            self.facts = facts.with_range(r, ZERO, Expr.of(rows)).with_range(n, ZERO, Expr.of(columns))
            for item in lets:
                self._let(item)
            self.say(f"{self._word_of(s.of)} = {self._pair_at(guard, read, n, dict(lets_of(lets)))};")

    def _rows_of_halves(self: Any, s: nodes.Ldmatrix, tile: nodes.Shared, to: nodes.Reg) -> None:
        """A warpgroup's left operand of 16 bits, as wide as it is, from the first column of a swizzled row on."""
        (rows, width), (height, columns) = ([e.evaluate({}) for e in x.type.shape] for x in (to, tile))
        row, column = s.source.index or (None, ZERO)
        starts_a_row = column.constant is not None and column.constant % max(self._width(tile), 1) == 0
        is_swizzled = bool(tile.swizzle) and columns % self._width(tile) == 0
        is_one = row is not None and not s.is_transposed and rows == WARPGROUP_ROWS and width % PIECE == 0
        if not (is_one and is_swizzled and starts_a_row):
            what = Phrase("an operand of a warpgroup that does not begin with a swizzled row of its tile")
            raise refuse("E1620", self.kernel.name, s.span, what=what)
        start = self._start(nodes.Place(s.source.name, slot=s.source.slot))
        at = ", ".join(self.integers.c(e, 0) for e in (row, column))
        self.say(f"rows_of_halves<{tile.swizzle}, {height}>({self._fragment(s.to)}[0], {start}, {at});")

    def _is_of_words(self: Any, s: nodes.Each) -> bool:
        """Whether elements are those of a tensor in memory, of the operand's dtype."""
        last = s.body[-1]
        read = _parts(last.value)[1] if isinstance(last, nodes.Assign) else None
        return (
            isinstance(read, Read)
            and self.arrays[s.of].kind in OPERAND_KINDS
            and self.is_memory(read.tensor)
            and self._dtype(s.of) == read.dtype
        )

    def _corner_of_word(self: Any, s: nodes.Each) -> tuple[tuple[str, Expr], ...]:
        """The row of a word, and the first of its two columns."""
        word, lane = Expr.of("word"), Expr.of("lane")
        r = lane // 4 + 8 * (word - 2 * (word // 2))
        is_of_warp = self.arrays[s.of].kind == "mma_a"
        r = r + (PIECE * self.fragment if is_of_warp else PIECE * (Expr.of("warpgroup.thread") // 32))
        n = PIECE * Expr.of("piece") + 8 * (word // 2) + 2 * (lane - 4 * (lane // 4))
        return (s.names[0], r), (s.names[1], n)

    def _pair_at(self: Any, guard: tuple[Bound, ...], read: Read, name: str, lets: dict[str, Expr]) -> str:
        """C of two elements of a tensor, the second of which is the next along a name: one access where rows are even
        and the first is at an even place, so that both are of one row; else two, each where it is inside."""
        shape = self.of_memory(read.tensor).type.shape
        first = offset_of(shape, read.index).substitute(lets) - Expr.of(name)
        if name not in first.names() and self._is_even(self.facts.plain(first)) and self._is_even(shape[-1]):
            word, inside = f"word_of(&{self._element(read.tensor, read.index, None)})", self.integers.guard(guard)
            return word if inside == "true" else f"{inside} ? {word} : 0u"
        halves, after = [], {name: Expr.of(name) + 1}
        for put in ({}, {n: e.substitute(after) for n, e in lets.items()} | after):
            element = self._element(read.tensor, tuple(e.substitute(put) for e in read.index), None)
            inside = self.integers.guard(tuple(b.substitute(put) for b in guard))
            halves.append(element if inside == "true" else f"{inside} ? {element} : {read.dtype}{{}}")
        return f"word_of({', '.join(halves)})"

    def _is_even(self: Any, expr: Expr) -> bool:
        """Whether every term has a factor that is even, as the kernel assumes."""
        return all(
            c % 2 == 0 or any(isinstance(a, str) and is_known_multiple(self.kernel, Expr.of(a), 2) for a in m)
            for c, m in expr.terms
        )

    def _word_of(self: Any, name: str) -> str:
        """The word of this turn."""
        array, piece = self.arrays[name], Expr.of("piece")
        columns = array.type.shape[1].evaluate({})
        steps = (piece,) if columns > PIECE else ()
        places = (*steps, self.fragment) if array.kind == "mma_a" else (ZERO, piece)
        return self.names.of("array", name) + "".join(f"[{self.integers.c(e, 0)}]" for e in (*places, Expr.of("word")))

    def _half_of_word(self: Any, name: str, index: tuple[Expr, ...]) -> str:
        """The element of an operand that `each` of its matrix is at."""
        array, piece, e = self.arrays[name], Expr.of("piece"), Expr.of("element")
        if array.type.dtype.bytes != 2:
            what = Phrase("an element of an operand of {dtype}", dtype=array.type.dtype)
            raise refuse("E1620", self.kernel.name, None, what=what)
        if array.kind == "mma_a":
            row, column = self._corner(name, index, (PIECE, PIECE // 2))
            piece = column // (PIECE // 2) + piece
            steps = (piece // 2,) if array.type.shape[1].evaluate({}) > PIECE else ()
            places = (*steps, row // PIECE + self.fragment, 2 * (piece - 2 * (piece // 2)) + e // 2)
        else:
            row, column = self._corner(name, index, (WARPGROUP_ROWS, PIECE))
            number = self.width // 2 * piece + e
            places = (row // WARPGROUP_ROWS, column // PIECE + number // 8, (number - 8 * (number // 8)) // 2)
        word = self.names.of("array", name) + "".join(f"[{self.integers.c(p, 0)}]" for p in places)
        dtype = array.type.dtype  # registers have numbers as fp32
        return f"float_of_{dtype}(half_of<{dtype}>({word}, {self.integers.c(e - 2 * (e // 2), 0)}))"


def lets_of(body: Iterable[nodes.Let]) -> Iterator[tuple[str, Expr]]:
    """What names mean, each written out in the names before it."""
    known: dict[str, Expr] = {}
    for item in body:
        known[item.name] = item.value.substitute(known)
        yield item.name, known[item.name]


def _parts(value: Body) -> tuple[tuple, Body]:
    return (value.guard, value.then) if isinstance(value, Select) else ((), value)
