"""Matrix products of warpgroups as CUDA, and what a thread does with its elements of an accumulator.

A wgmma takes its operands from shared memory by descriptors: where a matrix starts, and how far apart its pieces of
eight rows are. Of the accumulator each thread holds eight elements in every sixteen columns, in the order of `d[8*piece
+ e]`: row `lane/4 + 8*(e/2 mod 2)` of its warp's sixteen, column `2*(lane mod 4) + 8*(e/4) + e mod 2`.
"""

from __future__ import annotations

import math
from typing import Any

from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.memory import OPERAND_KINDS, ROW_KINDS, WALKED_KINDS
from ...ir.gpu.nodes import Place
from ...ir.gpu.walk import statements
from ...ir.intervals import Interval
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.hopper import ATOM_BYTES, HELD_COLUMNS, SWIZZLE_BYTES, WARPGROUP, WARPGROUP_ROWS
from .names import comment, words_of
from .rows import Rows

CORE_ROWS = 8  # rows of a swizzle's pattern
INSTRUCTION_BYTES = 32  # along the sum, of one wgmma
PIECE = 16  # rows and columns of what a warp stores at once
ELEMENT_BYTES = 4  # of an accumulator
LARGEST = "3.402823466e+38f"  # number of fp32


def as_held(s: nodes.Shared) -> tuple[int, ...]:
    """The dims of a matrix that is in shared memory as the registers of a warpgroup hold it: blocks of rows, pieces
    of columns, threads, elements."""
    rows, columns = (e.evaluate({}) for e in s.type.shape)
    return (*((rows // WARPGROUP_ROWS,) if rows > WARPGROUP_ROWS else ()), columns // HELD_COLUMNS, WARPGROUP, 4)


class Matrices(Rows):
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: dict[nodes.Send, tuple[str, str]] = {}  # C of where it sends to, and of the barrier there
        self.point: tuple[str, ...] = ()  # the coordinates of the current `each`
        self.piece: dict[str, Expr] = {}  # those coordinates -> where a warp's piece starts
        self.width = PIECE  # the columns of that piece
        self.columns: dict[str, tuple[Expr, Expr, Expr]] = {}  # that of columns -> its eight, by lane, the rest
        self.row_name = ""  # of the coordinate that counts the accumulator's rows
        self.pieces: dict[str, str] = {}  # shared tile -> the registers that stmatrix will store in it

    def _matrix(self: Any, s: nodes.Reg) -> None:
        """The accumulator of a warpgroup: 64 rows at a time, in the order in which wgmma leaves them; or its left
        operand."""
        self.arrays[s.name] = s
        rows, columns = (e.evaluate({}) for e in s.type.shape)
        if s.kind == "wgmma_a":
            self._left_operand(s)
            return
        blocks = f"[{rows // 64}]" if rows > 64 else ""
        self.say(
            f"float {self.names.of('array', s.name)}{blocks}[{columns // 2}];  // this thread's part of [{rows}, "
            f"{columns}]"
        )

    def _send_held(self: Any, s: nodes.Send) -> None:
        """Each thread sends its elements of some columns, four at a time, to where the thread of its number finds
        them."""
        columns = s.size[1]
        if s not in self.reached:
            self._reach(s, s.cta)
        to, on = self.reached[s]
        self.say("#pragma unroll")
        self.say(f"for (int v = 0; v < {columns // HELD_COLUMNS}; ++v)")
        self.integers.ranges["v"], self.integers.spellings["v"] = Interval(0, columns // HELD_COLUMNS - 1), "v"
        words = ", ".join(self._register(s.source.name, s.source.index, 4 * Expr.of("v") + e) for e in range(4))
        self.say(f"  send_words({to} + {4 * ELEMENT_BYTES * WARPGROUP} * v, {words}, {on});")

    def _reach(self: Any, s: nodes.Send, cta: Expr) -> None:
        """Declares where this thread's elements, and the barrier, are in the CTA that they are sent to."""
        to, on = (self.names.of("integer", f"{name}.there") for name in (s.to.name, s.on.name))
        place = self._sent_place(s.to.name, s.to.index or (ZERO, ZERO), s.to.slot, ZERO)
        self.say(
            f"const unsigned int {to} = address_in_cta({place}, {self.integers.c(cta, 0)}), {on} = "
            f"address_in_cta({self._barrier_at(s.on)}, {self.integers.c(cta, 0)});"
        )
        self.reached[s] = to, on

    def _reach_early(self: Any, body: tuple[Any, ...]) -> None:
        """Where a role sends to is worked out before its sum, not after, where all wait for it."""
        lets = {s.name: s.value for s in body if isinstance(s, nodes.Let)}
        held = {s.name for s in body if isinstance(s, nodes.Reg)}
        for s in body:
            if isinstance(s, nodes.Send) and s.source.name in held and s.to.slot is None:
                cta = s.cta.substitute(lets)
                if {n for e in (cta, *s.to.index) for n in e.names()} <= {"cluster.rank", "warpgroup.index"}:
                    self._reach(s, cta)

    def _sent_place(self: Any, name: str, index: tuple[Expr, ...], slot: Expr | None, piece: Expr) -> str:
        """C of this thread's four elements in eight columns of a matrix that is in shared memory as registers hold
        it."""
        blocks = self.arrays[name].type.shape[0].evaluate({}) > WARPGROUP_ROWS
        inner = (
            *(() if slot is None else (slot,)),
            *((index[0] // WARPGROUP_ROWS,) if blocks else ()),
            index[1] // HELD_COLUMNS + piece,
            Expr.of("warpgroup.thread"),
        )
        return self.names.of("array", name) + "".join(f"[{self.integers.c(e, 0)}]" for e in inner)

    def _sent_element(self: Any, name: str, index: tuple[Expr, ...], slot: Expr | None) -> str:
        """The current element inside `each` of such a matrix."""
        corner = self._corner(name, index, (WARPGROUP_ROWS, HELD_COLUMNS))
        e = Expr.of("element")
        return f"{self._sent_place(name, corner, slot, 2 * Expr.of('piece') + e // 4)}[{self.integers.c(e - 4 * (e // 4), 0)}]"  # noqa: E501

    def _register(self: Any, name: str, at: tuple[Expr, ...], number: Expr) -> str:
        """C of the register of this number, of those from a corner of an accumulator on. Registers have no address:
        where the corner is known as the kernel runs alone, it is one or another of them."""
        rows, columns = (e.evaluate({}) for e in self.arrays[name].type.shape)
        block = f"[{self.integers.c(at[0] // WARPGROUP_ROWS, 0)}]" if rows > WARPGROUP_ROWS else ""

        def held(start: Expr | int) -> str:
            return f"{self.names.of('array', name)}{block}[{self.integers.c(start + number, 0)}]"

        if self.written_out.issuperset(at[1].names()):
            return held(at[1] // 2)
        apart = math.gcd(*(c for c, _ in at[1].terms))
        text = held(Expr.of((columns - apart) // 2))
        for start in reversed(range(0, columns - apart, apart)):
            text = (
                f"one_of({self.integers.c(at[1] // apart, 2)} == {start // apart}, {held(Expr.of(start // 2))}, {text})"
            )
        return text

    def _width(self: Any, tile: nodes.Shared) -> int:
        """Elements of a row of the swizzle."""
        return tile.swizzle // tile.type.dtype.bytes

    # --- matrix products

    def _wgmma(self: Any, s: nodes.Wgmma) -> None:
        acc, a, b = self.arrays[s.acc], self.arrays[s.a.name], self.arrays[s.b.name]
        held = isinstance(a, nodes.Reg)
        if held and a.kind != "wgmma_a" or not all(tile.swizzle for tile in ((b,) if held else (a, b))):
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("wgmma of an accumulator, or of tiles that are plain arrays"),
            )
        rows, columns = (e.evaluate({}) for e in acc.type.shape)
        sides = (*(() if held else ((s.a, a, not s.a_transposed),)), (s.b, b, s.b_transposed))
        majors = [0 if along_sum else 1 for _, _, along_sum in sides]
        if b.type.dtype.bytes != 2 and any(majors):
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("wgmma of {dtype} that is not contiguous along the sum", dtype=b.type.dtype),
            )
        ways = "" if b.type.dtype.bytes != 2 else f"<{', '.join(map(str, majors))}>"
        with self.braces():
            moved = [self._descriptor(*side) for side in sides]
            self.say("#pragma unroll")
            self.say(f"for (int step = 0; step < {s.steps}; ++step)" + (" {" if rows > 64 else ""))
            for block in range(rows // 64):
                target = self.names.of("array", s.acc) + (f"[{block}]" if rows > 64 else "")
                left = (
                    f"{self._fragment(s.a)}[{block}]{'[step / 2][step % 2]' if a.type.dtype.bytes == 4 else '[step]'}"
                    if held
                    else _plus(moved[0], block * self._down(a, not s.a_transposed))
                )
                self.say(
                    f"  {self._product_name(a, b, columns)}{ways}({target}, {left}, {moved[-1]}, {self._is_added(s)});"
                )
            if rows > 64:
                self.say("}")
            self.say("wgmma_commit();")

    def _rows(self: Any, s: nodes.Ldmatrix, tile: nodes.Shared, to: nodes.Reg) -> None:
        """A warpgroup's left operand from shared memory, 64 rows at a time."""
        (rows, columns), depth = (e.evaluate({}) for e in tile.type.shape), to.type.shape[1].evaluate({})
        if tile.type.dtype.bytes == 2 and not s.low:
            self._rows_of_halves(s, tile, to)
            return
        if (
            tile.type.dtype.bytes != 4
            or tile.swizzle != 128
            or not s.source.index
            or not s.is_transposed
            and columns != self._width(tile)
            or depth % PIECE
        ):
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("an operand of a warpgroup that is not of words, swizzled by 128 B"),
            )
        row, column = s.source.index
        for block in range(to.type.shape[0].evaluate({}) // 64):
            down = (row, column + 64 * block) if s.is_transposed else (row + 64 * block, column)
            function = f"rows_across<{rows}>" if s.is_transposed else f"rows_along<{tile.swizzle}>"
            start = self._start(Place(s.source.name, slot=s.source.slot))
            words = self.names.of("array", f"{s.to.name}.words") if s.low else f"{self._fragment(s.to)}[{block}]"
            call = f"{function}({words}, {start}, {', '.join(self.integers.c(e, 0) for e in down)});"
            if not s.low:
                self.say(call)
                continue
            self.say(f"{{ unsigned int {words}[{depth // PIECE}][2][4]; {call}")
            self.say("#pragma unroll")
            self.say(
                f"  for (int p = 0; p < {depth // PIECE}; ++p) split_tf32({words}[p], "
                f"{self._fragment(s.to)}[{block}][p], {self._fragment(s.low)}[{block}][p]); }}"
            )

    def _split(self: Any, s: nodes.Split) -> None:
        tile = self.arrays[s.to.name]
        if (
            tile.type != self.arrays[s.source.name].type
            or tile.type.dtype.name != "fp32"
            or tile.swizzle != self.arrays[s.source.name].swizzle
        ):
            raise refuse(
                "E1620", self.kernel.name, s.span, what=Phrase("a split of tiles that are not alike, or not of words")
            )
        self.say(f"split_tile<{tile.bytes // 4 // tile.ring}>({self._start(s.to)}, {self._start(s.source)});")

    def _resum(self: Any, s: nodes.Resum) -> None:
        """An element of an accumulator once more, where it is not finite."""
        element, total = self._held_element(s.to.name, s.to.index), self.names.of("array", f"{s.to.name}.again")
        with (
            self.braces(f"if (!(fabsf({element}) <= {LARGEST})) {{"),
            self.scope({name: Interval(0, None) for name, _ in s.over}),
        ):
            self.say(f"float {total} = 0.0f;")
            for depth, (name, size) in enumerate(s.over):
                c = self.names.of("integer", name)
                self.say("#pragma unroll 1")
                self.say("  " * depth + f"for (long long {c} = 0; {c} < {self.integers.c(size, 0)}; ++{c})")
            self.say("  " * len(s.over) + f"{total} += {self.values.value(s.value)};")
            self.say(f"{element} = {total};")

    def _descriptor(self: Any, place: Place, tile: nodes.Shared, along_sum: bool) -> str:
        """Declares where an operand starts; C of where it does at a step."""
        name = self.names.of("integer", f"{place.name}.start")
        lead, stride, step = self._strides(tile, along_sum)
        made = "matrix_descriptor" if tile.swizzle == SWIZZLE_BYTES else f"descriptor_of<{tile.swizzle}>"
        start = self._start(place, self._offset_in(place, tile, along_sum))
        self.say(f"const unsigned long long {name} = {made}({start}, {lead}, {stride});")
        return f"{name} + {step.format('step', 'step')}"

    def _product_name(self: Any, a: Any, b: Any, columns: int) -> str:
        left, right = ("tf32" if t.type.dtype.name == "fp32" else t.type.dtype.name for t in (a, b))
        shape = f"wgmma_m64n{columns}k{INSTRUCTION_BYTES // b.type.dtype.bytes}_{left}"
        return shape + (f"_{right}" if left != right else "") + ("_of_registers" if isinstance(a, nodes.Reg) else "")

    def _is_added(self: Any, s: nodes.Wgmma) -> str:
        if s.zero is None:
            return "true"
        return f"step > 0 || !({self.integers.guard(s.zero)})" if s.zero else "step > 0"

    def _strides(self: Any, tile: nodes.Shared, is_along_sum: bool) -> tuple[int, int, str]:
        """Leading and stride byte offset of a descriptor, and C of what a step along the sum adds to it."""
        rows = tile.type.shape[0].evaluate({})
        pattern = CORE_ROWS * tile.swizzle
        if tile.swizzle == ATOM_BYTES:  # no swizzle: pieces of 8 rows, one beside another along the row
            columns = rows * ATOM_BYTES
            lead, stride = (columns, pattern) if is_along_sum else (pattern, columns)
            atoms = INSTRUCTION_BYTES // ATOM_BYTES * rows if is_along_sum else self._instruction_rows(tile)
            return lead, stride, f"{atoms} * {{}}"
        if not is_along_sum:
            return (
                rows * tile.swizzle,
                pattern,
                f"{self._instruction_rows(tile) * tile.swizzle // ATOM_BYTES} * {{}}",
            )
        inside = tile.swizzle // INSTRUCTION_BYTES
        if tile.type.shape[1].evaluate({}) == self._width(tile):
            return ATOM_BYTES, pattern, f"{INSTRUCTION_BYTES // ATOM_BYTES} * {{}}"
        return (
            ATOM_BYTES,
            pattern,
            f"{INSTRUCTION_BYTES // ATOM_BYTES} * ({{}} % {inside}) + {rows * tile.swizzle // ATOM_BYTES} * "
            f"({{}} / {inside})",
        )

    def _instruction_rows(self: Any, tile: nodes.Shared) -> int:
        """Elements along the sum of one wgmma."""
        return INSTRUCTION_BYTES // tile.type.dtype.bytes

    def _down(self: Any, tile: nodes.Shared, is_along_sum: bool) -> int:
        """What 64 rows of the product further adds to a descriptor."""
        rows = 64 if is_along_sum else 64 // self._width(tile) * tile.type.shape[0].evaluate({})
        return rows * tile.swizzle // ATOM_BYTES

    def _offset_in(self: Any, place: Place, tile: nodes.Shared, is_along_sum: bool) -> Any:
        """Elements from the tile's start to the operand's."""
        if not place.index:
            return ZERO
        along, other = (place.index[0], place.index[1]) if is_along_sum else (place.index[1], place.index[0])
        is_row = is_along_sum and tile.type.shape[1].evaluate({}) == self._width(tile)
        if other != ZERO and not (
            is_row and all(c * tile.type.dtype.bytes % INSTRUCTION_BYTES == 0 for c, _ in other.terms)
        ):
            raise refuse(
                "E1620",
                self.kernel.name,
                None,
                what=Phrase("wgmma that starts inside the sum, of more than a swizzled row or inside an instruction"),
            )
        rows = tile.type.shape[0].evaluate({})
        return (
            self._width(tile) * along + other
            if is_along_sum
            else rows * self._width(tile) * (along // self._width(tile))
        )

    # --- the elements of an accumulator

    def _each(self: Any, s: nodes.Each) -> None:
        acc = self.arrays[s.of]
        if acc.kind in ROW_KINDS:
            self._each_row(s)
            return
        if acc.kind in WALKED_KINDS and not self._is_of_words(s):
            self._each_of_operand(s)
            return
        if acc.kind in OPERAND_KINDS:
            self._each_word(s)
            return
        if acc.kind == "mma":
            self._each_of_warp(s)
            return
        rows, columns = s.size or tuple(e.evaluate({}) for e in acc.type.shape)
        by_matrix = [i for i in statements(s.body) if isinstance(i, nodes.Store) and i.by == "stmatrix"]
        by_word = [i for i in s.body if isinstance(i, nodes.Assign) and self._is_operand(i.to.name)]
        width = PIECE if columns % PIECE == 0 or by_matrix or by_word else HELD_COLUMNS
        if acc.kind != "wgmma" or rows != 64 or columns % width:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("each of a piece of {rows} x {columns}", rows=rows, columns=columns),
            )
        r, n = s.names
        piece, element = (self.names.of("integer", word) for word in ("piece", "element"))
        known = dict(self.integers.ranges)
        warp = 16 * (Expr.of("warpgroup.thread") // 32)
        lane = Expr.of("lane")
        self.integers.ranges |= {
            "piece": Interval(0, columns // width - 1),
            "element": Interval(0, width // 2 - 1),
            r: Interval(0, 63),
            n: Interval(0, columns - 1),
        }
        self.say("#pragma unroll")
        with self.braces(
            f"for (int {piece} = 0; {piece} < {columns // width}; ++{piece}) {{  {comment(f'{width} columns')}"
        ):
            for store in by_matrix:
                self.pieces[store.to.name] = self.names.of("integer", f"{store.to.name}.piece")
                self.say(f"float {self.pieces[store.to.name]}[8];")
            for item in by_word:
                self.words[item.to.name] = self.names.of("integer", f"{item.to.name}.piece")
                self.say(f"float {self.words[item.to.name]}[8];")
            self.say("#pragma unroll")
            with self.braces(f"for (int {element} = 0; {element} < {width // 2}; ++{element}) {{"):
                e = Expr.of("element")
                coordinates = len(self.lines)
                self.say(
                    f"const int {self.names.of('integer', r)} = "
                    f"{self.integers.c(warp + lane // 4 + 8 * (e // 2 - 2 * (e // 4)), 0)};"
                )
                eight = width * Expr.of("piece") + HELD_COLUMNS * (e // 4)
                of_lane, odd = 2 * (lane - 4 * (lane // 4)), e - 2 * (e // 2)
                self.say(f"const int {self.names.of('integer', n)} = {self.integers.c(eight + of_lane + odd, 0)};")
                self.columns = {n: (eight, of_lane, odd)}
                self.piece, self.row_name, self.point, self.width = (
                    {r: warp, n: width * Expr.of("piece")},
                    r,
                    (r, n),
                    width,
                )
                self.half, self.row_point = self.integers.c(e // 2 - 2 * (e // 4), 0), r
                approx, self.values.is_approx = self.values.is_approx, s.is_approx
                self.block(s.body)
                self.half, self.row_point, self.values.is_approx = "", "", approx
                self._drop_unused(coordinates, (r, n))
            for store in by_matrix:
                self._store_piece(store)
            for item in by_word:
                self._packed(item)
            self.point, self.piece, self.columns = (), {}, {}
            self.integers.ranges = known

    def _drop_unused(self: Any, first: int, names: tuple[str, ...]) -> None:
        """Leaves out the coordinates, declared from line `first` on, that no line after them uses."""
        words = words_of(self.lines[first + len(names) :])
        for number in reversed(range(len(names))):
            if self.names.of("integer", names[number]) not in words:
                del self.lines[first + number]

    def _held_element(self: Any, name: str, index: tuple[Expr, ...]) -> str:
        """The register of an accumulator's element inside `each`."""
        if self.arrays[name].kind in ROW_KINDS:
            return self._row_element(name, index)
        if self.arrays[name].kind in OPERAND_KINDS:
            return self._half_of_word(name, index)
        if self.arrays[name].kind == "mma":
            return self._held_fragment(name, self._corner(name, index, (PIECE, HELD_COLUMNS)))
        return self._register(
            name,
            self._corner(name, index, (WARPGROUP_ROWS, HELD_COLUMNS)),
            self.width // 2 * Expr.of("piece") + "element",
        )

    def _corner(self: Any, name: str, index: tuple[Expr, ...], sides: tuple[int, int]) -> tuple[Expr, ...]:
        """Where the block of a matrix begins in which a thread's element of this index has the place that the current
        one has in its own."""
        corner = tuple(e - Expr.of(n) for e, n in zip(index, self.point)) if self.point else ()
        highest = (self.integers.interval(e).high for e in index)
        is_outside = any(
            high is not None and high >= size.evaluate({}) for high, size in zip(highest, self.arrays[name].type.shape)
        )
        if (
            not corner
            or is_outside
            or any(n in e.names() for e in corner for n in self.point)
            or any(c % side for e, side in zip(corner, sides) for c, _ in e.terms)
        ):
            raise refuse(
                "E1620",
                self.kernel.name,
                None,
                what=Phrase("an element of {name} outside `each`, or other than the current one", name=name),
            )
        return corner

    def _swizzled_element(self: Any, name: str, index: tuple[Expr, ...], slot: Expr | None) -> str:
        tile = self.arrays[name]
        if tile.type.rank != 2:
            raise refuse(
                "E1620",
                self.kernel.name,
                tile.span,
                what=Phrase("an element of a swizzled tile that does not have two axes"),
            )
        (rows, columns), width = (e.evaluate({}) for e in tile.type.shape), self._width(tile)
        start, column, own, lanes = self._start(Place(name, slot=slot)), index[1], ZERO, ""
        for coordinate, (eight, of_lane, odd) in self.columns.items():
            beside = column - coordinate
            if coordinate not in beside.names() and all(c % HELD_COLUMNS == 0 for c, _ in beside.terms):
                column, own, lanes = beside + eight, odd, f"{self.integers.c(of_lane, 0)}, "
        if columns > width:
            start += f" + {self.integers.c(rows * width * (column // width))}"
            column = column - width * (column // width)
        row = self.integers.c(index[0], 0)
        word = "swizzled_of_lane" if lanes else "swizzled_at"
        return f"{word}<{tile.swizzle}>({start}, {row}, {lanes}{self.integers.c(column + own, 0)})"

    def _store_piece(self: Any, s: nodes.Store) -> None:
        tile = self.arrays[s.to.name]
        row, column = (e.substitute(self.piece) for e in s.to.index)
        start = self._start(s.to)
        if tile.type.shape[1].evaluate({}) > self._width(tile):
            beside = column // self._width(tile)
            start, column = (
                self._start(s.to, tile.type.shape[0] * self._width(tile) * beside),
                column - self._width(tile) * beside,
            )
        row, column = self.integers.c(row, 0), self.integers.c(column, 0)
        turned = "_turned" if self.row_name in s.to.index[1].names() else ""
        self.say(
            f"store{turned}_piece_{tile.type.dtype}<{tile.swizzle}>({start}, {row}, {column}, "
            f"{self.pieces[s.to.name]});"
        )

    def _into_piece(self: Any, s: nodes.Store) -> None:
        """A value on its way to stmatrix, which rounds it to the tile's dtype."""
        text = self.values.before_rounding(s.value, self.arrays[s.to.name].type.dtype)
        self.say(f"{self.pieces[s.to.name]}[{self.names.of('integer', 'element')}] = {text};")


def _plus(text: str, more: int) -> str:
    return f"{text} + {more}" if more else text
