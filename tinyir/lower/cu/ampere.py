"""The statements of sm80 as CUDA: asynchronous copies, fragments of a warp, their products, and accesses of several
elements.

A warp's accumulator is `acc[i][j][2v + e]`, the element (16i + 8v + lane/4, 8j + 2*(lane mod 4) + e) of its matrix; its
left operands are `x[i][2h + v]`, right ones `x[i][2v + h]`, pairs along the sum (`target.ampere`); of fp32 both are
`x[i][s][2h + v]` (`target.tf32`).
"""

from __future__ import annotations

from typing import Any

from ...ir.body import Body, Literal, Random, Read, Select, Unary, substitute, walk
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.accesses import is_known_multiple
from ...ir.intervals import Interval
from ...ir.neighbours import ACCESS_BYTES, is_multiple
from ...ir.runs import offset_of
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...kit.records import replace
from ...target import packed
from ...target.ampere import COPIES
from ...target.arch import ARCHS
from ...target.dtypes import SMALL_FLOATS
from .value import arithmetic_type, memory_type

PIECE = 16  # rows and columns of a fragment
COLUMNS = 8  # of a fragment of an accumulator
WORD = 4  # bytes of a word


class Ampere:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    # --- asynchronous copies

    def _cpasync(self: Any, s: nodes.CpAsync) -> None:
        size = s.vector * s.value.dtype.bytes
        guard, read = (s.value.guard, s.value.then) if isinstance(s.value, Select) else ((), s.value)
        if size not in COPIES or not isinstance(read, Read) or not self.is_memory(read.tensor):
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("cp_async of {size} B, or of more than a read", size=size),
            )

        def copy() -> None:
            to, source = self._element(s.to.name, s.to.index, s.to.slot), self._element(read.tensor, read.index, None)
            self.say(f"cp_async_{size}(&{to}, &{source}, {self._bytes_inside(s, guard, size)});")

        self._in_turn(s, s.vector, copy)

    def _bytes_inside(self: Any, s: nodes.CpAsync, guard: tuple, size: int) -> str:
        """C of how many bytes of a copy are inside. Along the copy's own axis limits that are no multiples of the copy
        cut it."""
        axis = s.over[-1][0]
        whole, left = [], f"{s.vector}ll"
        for bound in guard:
            is_cut = bound.upper is not None and not is_known_multiple(self.kernel, bound.upper, s.vector)
            if s.vector > 1 and is_cut and self._moves(s, bound.expr, axis):
                left = f"min((long long)({self.integers.c(bound.upper - bound.expr, 0)}), {left})"
                bound = replace(bound, upper=None)
            if bound != Bound(bound.expr):
                whole.append(bound)
        inside = self.integers.guard(tuple(whole))
        bytes_ = str(size) if left == f"{s.vector}ll" else f"{s.value.dtype.bytes} * (int)max(0ll, {left})"
        return bytes_ if inside == "true" else f"{inside} ? {bytes_} : 0"

    def _moves(self: Any, s: nodes.CpAsync, place: Expr, axis: str) -> bool:
        """Whether a place moves with the elements of a copy, one for each; not at all is the other way. Raises Refused
        (E1620) for a third."""
        plain, u = self.facts.plain(place), Expr.of("u")
        if axis not in plain.names():
            return False
        at = [self.integers.folded(plain.substitute({axis: s.vector * u + e})) for e in range(s.vector)]
        if all(other == at[0] for other in at):
            return False
        if all((other - at[0]).constant == e for e, other in enumerate(at)):
            return True
        what = Phrase("cp_async behind a guard that neither moves with its elements nor is the same for all")
        raise refuse("E1620", self.kernel.name, s.span, what=what)

    def _commit(self: Any, s: nodes.Commit) -> None:
        self.say("cp_async_commit();")

    # --- fragments and their products

    def _fragments(self: Any, s: nodes.Reg) -> None:
        """The registers of a warp's matrix, an accumulator or an operand."""
        self.arrays[s.name] = s
        rows, columns = (e.evaluate({}) for e in s.type.shape)
        name = self.names.of("array", s.name)
        ring = f"[{s.ring}]" if s.ring > 1 else ""
        if s.kind == "mma":
            start = " = {}" if s.is_zeroed else ""
            self.say(
                f"float {name}{ring}[{rows // PIECE}][{columns // COLUMNS}][4]{start};  // this thread's part of "
                f"its warp's [{rows}, {columns}]"
            )
        else:
            words = "[2][4]" if s.type.dtype.bytes == 4 else "[4]"
            side = rows if s.kind == "mma_a" else columns
            steps = f"[{columns // PIECE}]" if self._is_wide_operand(s) else ""
            self.say(
                f"unsigned int {name}{ring}{steps}[{-(-side // PIECE)}]{words};  // its part of [{rows}, {columns}]"
            )

    def _is_wide_operand(self: Any, s: nodes.Reg) -> bool:
        """Whether a left operand has several products' elements along the sum."""
        return s.kind == "mma_a" and s.type.shape[1].evaluate({}) > PIECE

    def _fragment(self: Any, place: nodes.Place) -> str:
        array = self.arrays[place.name]
        slot = "" if place.slot is None else f"[{self.integers.c(place.slot, 0)}]"
        step = (
            f"[{self.integers.c(place.index[1] // PIECE, 0)}]" if place.index and self._is_wide_operand(array) else ""
        )
        return self.names.of("array", place.name) + slot + step

    def _ldmatrix(self: Any, s: nodes.Ldmatrix) -> None:
        tile, to = self.arrays[s.source.name], self.arrays[s.to.name]
        if to.kind == "wgmma_a":
            self._rows(s, tile, to)
            return
        is_along = s.is_transposed if to.kind == "mma_b" else not s.is_transposed
        rows, columns = (e.evaluate({}) for e in tile.type.shape)
        size = tile.type.dtype.bytes
        is_whole = bool(tile.swizzle) and (columns % self._width(tile) == 0 if is_along else tile.swizzle == 128)
        if size not in (2, 4) or not is_whole or not s.source.index:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("ldmatrix of a tile that is not swizzled, or across the sum not by 128 B"),
            )
        row, column = s.source.index
        beside = ZERO
        if is_along and columns > self._width(tile):
            beside = rows * self._width(tile) * (column // self._width(tile))
            column = column - self._width(tile) * (column // self._width(tile))
        name = "words" if size == 4 else "factor" if to.kind == "mma_b" else "operand"
        function = f"{name}_along<{tile.swizzle}>" if is_along else f"{name}_across<{rows}>"
        start = self._start(nodes.Place(s.source.name, slot=s.source.slot), beside)
        self.say(
            f"{function}({self._fragment(s.to)}, {start}, {self.integers.c(row, 0)}, {self.integers.c(column, 0)});"
        )

    def _mma(self: Any, s: nodes.Mma) -> None:
        dtype = self.arrays[s.a.name].type.dtype
        a, b = self._fragment(s.a), self._fragment(s.b)
        if s.math and s.shape == "m16n8k8" and dtype.name == "fp32":
            self.say(f"add_products_{s.math}({self.names.of('array', s.acc)}, {a}, {b});")
            return
        if s.math or s.shape != "m16n8k16" or dtype.name not in ("fp16", "bf16"):
            raise refuse(
                "E1620", self.kernel.name, s.span, what=Phrase("mma {shape} of {dtype}", shape=s.shape, dtype=dtype)
            )
        self.say(f"add_products_{dtype}({self.names.of('array', s.acc)}, {a}, {b});")

    def _each_of_warp(self: Any, s: nodes.Each) -> None:
        """The elements that a thread holds of a piece of its warp's accumulator."""
        acc = self.arrays[s.of]
        rows, columns = s.size or tuple(e.evaluate({}) for e in acc.type.shape)
        if rows % PIECE or columns % COLUMNS:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("each of a piece of {rows} x {columns}", rows=rows, columns=columns),
            )
        r, n = s.names
        block, piece, element = (self.names.of("integer", word) for word in ("block", "piece", "element"))
        lane, e = Expr.of("lane"), Expr.of("element")
        known = dict(self.integers.ranges)
        self.integers.ranges |= {
            "block": Interval(0, rows // PIECE - 1),
            "piece": Interval(0, columns // COLUMNS - 1),
            "element": Interval(0, 3),
            r: Interval(0, rows - 1),
            n: Interval(0, columns - 1),
        }
        self.fragment = Expr.of("block") if rows > PIECE else ZERO
        by_word = [i for i in s.body if isinstance(i, nodes.Assign) and self._is_operand(i.to.name)]
        loops = ((block, rows // PIECE), (piece, columns // COLUMNS), (element, 4))
        for name, count in loops[rows == PIECE :]:
            if name == element:
                for item in by_word:
                    self.words[item.to.name] = self.names.of("integer", f"{item.to.name}.piece")
                    self.say(f"float {self.words[item.to.name]}[4];")
            self.say("#pragma unroll")
            self.say(f"for (int {name} = 0; {name} < {count}; ++{name}) {{")
            self.depth += 1
        coordinates = len(self.lines)
        self.say(
            f"const int {self.names.of('integer', r)} = "
            f"{self.integers.c(PIECE * self.fragment + lane // 4 + 8 * (e // 2), 0)};"
        )
        self.say(
            f"const int {self.names.of('integer', n)} = "
            f"{self.integers.c(COLUMNS * Expr.of('piece') + 2 * (lane - 4 * (lane // 4)) + e - 2 * (e // 2), 0)};"
        )
        self.point, self.row_point = (r, n), r
        self.half = self.integers.c(2 * self.fragment + e // 2, 0)
        approx, self.values.is_approx = self.values.is_approx, s.is_approx
        self.block(s.body)
        self.half, self.row_point, self.values.is_approx = "", "", approx
        self._drop_unused(coordinates, (r, n))
        for name, _ in reversed(loops[rows == PIECE :]):
            self.depth -= 1
            self.say("}")
            if name == element:
                for item in by_word:
                    self._packed(item)
        self.point = ()
        self.integers.ranges = known

    def _each_of_operand(self: Any, s: nodes.Each) -> None:
        """The elements that a thread holds of an operand of its warp's product, made one by one and packed in pairs."""
        operand = self.arrays[s.of]
        rows, columns = (e.evaluate({}) for e in operand.type.shape)
        made = [i for i in s.body if isinstance(i, nodes.Assign) and i.to.name == s.of]
        is_left = operand.kind == "mma_a"
        if operand.type.dtype.bytes != 2 or (columns if is_left else rows) != PIECE or len(made) != 1 or s.size:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("each of an operand of {rows} x {columns}", rows=rows, columns=columns),
            )
        block, word = (self.names.of("integer", name) for name in ("block", "word"))
        lane, w = Expr.of("lane"), Expr.of("word")
        side = rows if is_left else columns
        words = 2 if side < PIECE else 4  # of eight columns there are the first two
        along = 2 * (lane - 4 * (lane // 4)) + "element"  # of the sum, then of the other side
        across = PIECE * Expr.of("block") + lane // 4
        odd, later = 8 * (w - 2 * (w // 2)), 8 * (w // 2)  # a right operand counts its words along the sum first
        places = (across + odd, along + later) if is_left else (across + later, along + odd)
        ranges = {
            "block": Interval(0, -(-side // PIECE) - 1),
            "word": Interval(0, words - 1),
            "element": Interval(0, 1),
            **{n: Interval(0, size - 1) for n, size in zip(s.names, (rows, columns))},
        }
        corner = dict(zip(s.names, places if is_left else places[::-1]))
        to = f"{self.names.of('array', s.of)}[{block}][{word}]"
        with self.scope(ranges), self.unrolled((block, -(-side // PIECE)), (word, words)):
            if not self._by_pairs(s, corner, to):
                self._by_halves(s, corner, to)

    def _by_halves(self: Any, s: nodes.Each, corner: dict[str, Expr], to: str) -> None:
        """The word of an operand, whose two elements are made one by one."""
        pair = self.words[s.of] = self.names.of("integer", f"{s.of}.piece")
        element = self.names.of("integer", "element")
        self.say(f"float {pair}[2];")
        with self.unrolled((element, 2)):
            coordinates = len(self.lines)
            for name, place in corner.items():
                self.say(f"const int {self.names.of('integer', name)} = {self.integers.c(place, 0)};")
            self.block(s.body)
            self._drop_unused(coordinates, s.names)
        del self.words[s.of]
        self.say(f"{to} = pair_of_{self.arrays[s.of].type.dtype}({pair}[0], {pair}[1]);")

    def _by_pairs(self: Any, s: nodes.Each, corner: dict[str, Expr], to: str) -> bool:
        """The word of an operand, whose two elements are made at once; whether they can be."""
        *lets, last = s.body
        if not all(isinstance(x, nodes.Let) for x in lets) or not isinstance(last, nodes.Assign):
            return False
        of_one, of_other = ({name: e.substitute({"element": n}) for name, e in corner.items()} for n in (0, 1))
        for item in lets:
            of_one[item.name], of_other[item.name] = (
                self.integers.folded(item.value.substitute(known)) for known in (of_one, of_other)
            )
        two = substitute(last.value, of_one), substitute(last.value, of_other)
        found = self._word_held(*two) or self.pairs.word(two)
        if found:
            self.say(f"{to} = {found};")
        return bool(found)

    def _word_held(self: Any, one: Body, other: Body) -> str:
        """C of two neighbours in shared memory as the word that they are there, or 0 where a guard has both be 0; empty
        of other elements."""
        if isinstance(one, Select) and isinstance(other, Select) and one.guard == other.guard:
            word = self._word_held(one.then, other.then)
            is_zero = all(isinstance(x, Literal) and x.value == 0 for x in (one.other, other.other))
            return f"{self.integers.guard(one.guard)} ? {word} : 0u" if word and is_zero else ""
        if not isinstance(one, Read) or not isinstance(other, Read) or one.tensor != other.tensor:
            return ""
        array = self.arrays.get(one.tensor)
        if not isinstance(array, nodes.Shared) or array.kind or array.type.dtype.bytes != WORD // 2:
            return ""
        *rows, first = one.index
        if other.index != (*rows, first + 1) or one.slot != other.slot or array.cluster:
            return ""
        is_whole = array.type.shape[-1].evaluate({}) % 2 == 0 and is_multiple(first, 2)
        return f"*(const unsigned int *)&{self._element(one.tensor, one.index, one.slot)}" if is_whole else ""

    def _held_fragment(self: Any, name: str, corner: tuple[Expr, ...]) -> str:
        """The register of the current element."""
        places = (corner[0] // PIECE + self.fragment, corner[1] // COLUMNS + "piece", Expr.of("element"))
        return self.names.of("array", name) + "".join(f"[{self.integers.c(e, 0)}]" for e in places)

    # --- several elements at once

    def _in_vector(self: Any, s: nodes.Assign | nodes.Store) -> bool:
        """Writes a statement of several elements as one access where a tensor has a part in it; whether it did."""
        if self._moves_at_once(s):
            self._at_once(s)
        elif s.vector > 1 and isinstance(s.value, Random):
            self._in_blocks(s)
        elif s.vector > 1 and self.is_memory(s.to.name):
            self._moved_whole(s)
        else:
            return False
        return True

    def _moves_at_once(self: Any, s: nodes.Assign | nodes.Store) -> bool:
        """Whether a statement of several elements has a tensor on one side and registers on the other."""
        if s.vector == 1 or len(s.over) != 1:
            return False
        if isinstance(s, nodes.Store):
            is_swizzled = getattr(self.arrays.get(s.to.name), "swizzle", 0) and self._lies_whole(
                s, s.to.name, s.to.index
            )
            return (self.is_memory(s.to.name) or is_swizzled) and all(self._in_registers(n) for n in _reads(s.value))
        return isinstance(s.value, Read) and (
            self.is_memory(s.value.tensor) or self._lies_whole(s, s.value.tensor, s.value.index)
        )

    def _lies_whole(self: Any, s: nodes.Assign | nodes.Store, of: str, index: tuple[Expr, ...]) -> bool:
        """Whether neighbours in an array of dynamic shared memory are one access: 16 bytes, the first at a multiple of
        them; a swizzle moves such pieces whole. Of other arrays the compiler knows that by itself."""
        array, ((name, _),) = self.arrays.get(of), s.over
        if (
            not self.dynamic
            or not isinstance(array, nodes.Shared)
            or array.cluster
            or s.vector * array.type.dtype.bytes != ACCESS_BYTES
        ):
            return False
        first = self.facts.plain(offset_of(array.type.shape, index) - name)
        slots = array.ring == 1 or array.bytes // array.ring % ACCESS_BYTES == 0
        return slots and name not in first.names() and is_multiple(first, s.vector)

    def _at_once(self: Any, s: nodes.Assign | nodes.Store) -> None:
        """Neighbours in a tensor as one access; where they begin is a multiple of their bytes, 16 at most
        (`ir.gpu.check`)."""
        if s.to.name in self.in_words:
            self._words_at_once(s)
            return
        if self._is_of_bytes(s):
            self._bytes_at_once(s)
            return
        ((name, size),) = s.over
        is_store = isinstance(s, nodes.Store)
        place = s.to if is_store else nodes.Place(s.value.tensor, s.value.index, s.value.slot)
        dtype = self._dtype(place.name)
        first = self._element(place.name, tuple(e.substitute({name: ZERO}) for e in place.index), place.slot)
        kind, e = f"vector_of<{memory_type(dtype)}, {size}>", self.names.of("integer", name)
        with self.scope({name: Interval(0, size.evaluate({}) - 1)}):
            call = self._near(s, dtype, first, name)
            if call:
                self.say(call)
                return
            loop = ("#pragma unroll", f"for (int {e} = 0; {e} < {size}; ++{e})")
            if is_store:
                lines = [
                    f"{kind} piece;",
                    *loop,
                    f"  piece.x[{e}] = {self.values.stored(s.value, dtype)};",
                    f"{self._stored_at(s, kind, first)};",
                ]
            else:
                is_wider = dtype.name in SMALL_FLOATS and s.to.name not in self.carrying
                value = f"float_of_{dtype}(piece.x[{e}])" if is_wider else f"piece.x[{e}]"
                lines = [
                    f"const {kind} piece = {self._loaded(s, kind, first)};",
                    *loop,
                    f"  {self._element(s.to.name, s.to.index, s.to.slot)} = {value};",
                ]
            with self.braces():
                for line in lines:
                    self.say(line)

    def _loaded(self: Any, s: nodes.Assign, kind: str, first: str) -> str:
        """C of an access of a type to neighbours in a tensor."""
        place = f"(const {kind} *)&{first}"
        way = self._way(s)
        return f"loaded_{way}({place})" if way else f"*{place}"

    def _words_at_once(self: Any, s: nodes.Assign) -> None:
        """Neighbours in a tensor of bytes as one access, to registers that are words."""
        ((name, size),) = s.over
        count = size.evaluate({}) // WORD
        first = self._element(s.value.tensor, tuple(i.substitute({name: ZERO}) for i in s.value.index), None)
        kind, e = f"vector_of<unsigned int, {count}>", self.names.of("integer", name)
        *rows, at = (i.substitute({name: WORD * Expr.of(name)}) for i in s.to.index)
        with self.scope({name: Interval(0, count - 1)}):
            to = self._of_words(s.to.name, (*rows, at // WORD))
        self.say(f"{{ const {kind} piece = {self._loaded(s, kind, first)};")
        self.say("#pragma unroll")
        self.say(f"for (int {e} = 0; {e} < {count}; ++{e}) {to} = piece.x[{e}]; }}")

    def _is_of_bytes(self: Any, s: nodes.Assign | nodes.Store) -> bool:
        """Whether a statement rounds floats to neighbours in memory of which each is a byte, four or more of them."""
        value, count = s.value, s.over[0][1].constant
        if not isinstance(s, nodes.Store) or not isinstance(value, Unary) or value.op != "cast":
            return False
        words = (*packed.INTEGERS, *(packed.FLOATS if ARCHS[self.kernel.arch].has_tma else ()))
        is_wide = arithmetic_type(value.x.dtype) == "float"
        return is_wide and value.dtype.name in words and count is not None and count % WORD == 0

    def _bytes_at_once(self: Any, s: nodes.Store) -> None:
        """Floats as neighbours of a tensor of bytes, four to a word (`target.packed`)."""
        ((name, size),) = s.over
        count = size.evaluate({}) // WORD
        first = self._element(s.to.name, tuple(e.substitute({name: ZERO}) for e in s.to.index), s.to.slot)
        kind, e = f"vector_of<unsigned int, {count}>", self.names.of("integer", name)
        four = (substitute(s.value.x, {name: WORD * Expr.of(name) + n}) for n in range(WORD))
        with self.scope({name: Interval(0, count - 1)}):
            word = f"{s.value.dtype}s_of({', '.join(map(self.values.value, four))})"
        for line in (
            f"{{ {kind} piece;",
            "#pragma unroll",
            f"for (int {e} = 0; {e} < {count}; ++{e})",
            f"  piece.x[{e}] = {word};",
            f"{self._stored_at(s, kind, first)}; }}",
        ):
            self.say(line)

    def _stored_at(self: Any, s: nodes.Store, kind: str, first: str) -> str:
        """C of a store of a piece."""
        place, way = f"({kind} *)&{first}", self._way_out(s)
        return f"store_{way}({place}, piece)" if way else f"*{place} = piece"

    def _of_words(self: Any, name: str, index: tuple[Expr, ...]) -> str:
        """A word of registers that hold bytes in words, or a row of them."""
        return self.names.of("array", name) + "".join(f"[{self.integers.c(e, 0)}]" for e in index)

    def _byte_of_word(self: Any, name: str, index: tuple[Expr, ...]) -> str:
        """A byte of registers that hold them in words."""
        *rows, at = index
        word, place = self._of_words(name, (*rows, at // WORD)), self.integers.c(8 * (at - WORD * (at // WORD)), 0)
        return f"({self.arrays[name].type.dtype.cuda})({word} >> {place})"


def _reads(body: Body) -> list[str]:
    return [n.tensor for n in walk(body) if isinstance(n, Read)]
