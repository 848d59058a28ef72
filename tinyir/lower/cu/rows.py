"""What is known of the rows of an accumulator, and an accumulator that becomes the left operand of the next product.

Of a warpgroup's 64 rows, or of 16 of a warp's, a thread holds parts of two: of what is kept of rows it has a register
for each. The four threads of a row are neighbouring lanes. An operand of 16 bits holds the elements of an accumulator
in their order, two a word.
"""

from __future__ import annotations

from typing import Any

from ...ir.accumulate import neutral_of
from ...ir.body import Unary
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.extremes import interval_of
from ...ir.gpu.memory import OPERAND_KINDS, PART_KINDS, ROW_KINDS, WALKED_KINDS
from ...ir.intervals import Interval
from ...ir.types import DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.hopper import WARPGROUP_ROWS

HALVES = 2  # rows of which a thread holds elements, of a warpgroup's matrix, and of a fragment of a warp's
FRAGMENT = 16  # rows
COLUMNS = 8  # of a fragment
SHARING = 4  # threads that hold a row together
PIECE = 16  # columns of an operand of 16 bits that one instruction takes
IDEMPOTENT = ("max", "min")


class Rows:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the values and the lines."""

    def __init__(self) -> None:
        self.half = ""  # C of which of its rows the thread is at, inside `each`
        self.row_point = ""  # the coordinate that counts rows there
        self.fragment: Expr = ZERO  # which rows of a warp's matrix, sixteen at a time, `each` is at
        self.words: dict[str, str] = {}  # left operand -> the floats that become its words

    def _row_registers(self: Any, s: nodes.Reg) -> None:
        """Declares what is kept of rows."""
        self.arrays[s.name] = s
        count = self._rows_each(s)
        init = "" if s.init is None else f" = {{{', '.join([self.values.value(s.init)] * count)}}}"
        self.say(
            f"float {self.names.of('array', s.name)}[{count}]{init};  // of this thread's rows of {s.type.shape[0]}"
        )

    def _rows_each(self: Any, s: nodes.Reg) -> int:
        """Rows of a matrix, or of what is kept of rows, of which a thread holds elements."""
        rows, is_of_warp = s.type.shape[0].evaluate({}), ROW_KINDS.get(s.kind, s.kind) == "mma"
        if not is_of_warp and rows != WARPGROUP_ROWS or rows % FRAGMENT or s.type.dtype.name != "fp32" or s.ring > 1:
            what = Phrase("{name}, which is not of a product's rows", name=s.name)
            raise refuse("E1620", self.kernel.name, s.span, what=what)
        return rows // FRAGMENT * HALVES if is_of_warp else HALVES

    def _each_row(self: Any, s: nodes.Each) -> None:
        if len(s.names) != 1 or s.at or s.size:
            raise refuse(
                "E1620", self.kernel.name, s.span, what=Phrase("each of a part of {of}, or by two coordinates", of=s.of)
            )
        (r,), half = s.names, self.names.of("integer", "which")
        of = self.arrays[s.of]
        count, is_of_warp = self._rows_each(of), ROW_KINDS[of.kind] == "mma"
        rows, approx = of.type.shape[0].evaluate({}), self.values.is_approx
        self.values.is_approx = s.is_approx
        with (
            self.scope({"which": Interval(0, count - 1), r: Interval(0, rows - 1)}),
            self.unrolled((half, count)),
        ):
            first, row = len(self.lines), Expr.of("lane") // 4 + 8 * Expr.of("which")
            row = row if is_of_warp else 16 * (Expr.of("warpgroup.thread") // 32) + row
            self.say(f"const int {self.names.of('integer', r)} = {self.integers.c(row, 0)};")
            self.half, self.row_point = half, r
            self.block(s.body)
            self._drop_unused(first, (r,))
        self.half, self.row_point, self.values.is_approx = "", "", approx

    def _row_element(self: Any, name: str, index: tuple[Expr, ...]) -> str:
        """The register of the row at which `each` is."""
        if not self.row_point or index != (Expr.of(self.row_point),):
            raise refuse(
                "E1620",
                self.kernel.name,
                None,
                what=Phrase("an element of {name} of another row than that of `each`", name=name),
            )
        return f"{self.names.of('array', name)}[{self.half}]"

    def _rowreduce(self: Any, s: nodes.RowReduce) -> None:
        source, to = self.arrays[s.source], self.arrays[s.to]
        of, into = self.names.of("array", s.source), self.names.of("array", s.to)
        dtype, half, count = to.type.dtype, self.names.of("integer", "which"), self._rows_each(to)
        is_whole = to.kind not in PART_KINDS
        is_direct = not is_whole or s.op in IDEMPOTENT
        if source.kind in ROW_KINDS and not is_whole or source.type.shape[0] != to.type.shape[0]:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("row_reduce of {source} into {to}", source=s.source, to=s.to),
            )
        part = into if is_direct else self.names.of("array", f"{s.to}.part")
        if not is_direct:
            start = self.values.value(neutral_of(s.op, dtype))
            self.say("{")
            self.depth += 1
            held = [f"{of}[{n}]" if source.kind in ROW_KINDS else start for n in range(count)]
            self.say(f"float {part}[{count}] = {{{', '.join(held)}}};")
        if source.kind in ("wgmma", "mma"):
            self._fold_elements(s.op, source, part, dtype)
        elif is_direct:
            for n in range(count):
                self.say(self._folded(s.op, f"{into}[{n}]", f"{of}[{n}]", dtype))
        if is_whole:
            with self.unrolled((half, count)):
                self._over_lanes(s.op, f"{part}[{half}]", dtype, SHARING)
                if not is_direct:
                    self.say(self._folded(s.op, f"{into}[{half}]", f"{part}[{half}]", dtype))
        if not is_direct:
            self.depth -= 1
            self.say("}")

    def _fold_elements(self: Any, op: str, source: nodes.Reg, part: str, dtype: DType) -> None:
        """Folds the elements of a matrix that a thread holds, each row's by themselves."""
        of, columns = self.names.of("array", source.name), source.type.shape[1].evaluate({})
        element, piece, block = (self.names.of("integer", word) for word in ("element", "piece", "block"))
        loops = [(element, columns // 2)]
        held, row = f"{of}[{element}]", f"{element} / 2 % 2"
        if source.kind == "mma":
            loops = [(block, source.type.shape[0].evaluate({}) // FRAGMENT), (piece, columns // COLUMNS), (element, 4)]
            held, row = f"{of}[{block}][{piece}][{element}]", f"2 * {block} + {element} / 2"
        for depth, (name, count) in enumerate(loops):
            self.say("#pragma unroll")
            self.say("  " * depth + f"for (int {name} = 0; {name} < {count}; ++{name})")
        self.say("  " * len(loops) + self._folded(op, f"{part}[{row}]", held, dtype))

    # --- an accumulator as the next product's left operand

    def _left_operand(self: Any, s: nodes.Reg) -> None:
        """Declares a left operand: of words an instruction takes eight columns, of 16 bits sixteen."""
        rows, columns = (e.evaluate({}) for e in s.type.shape)
        ring = f"[{s.ring}]" if s.ring > 1 else ""
        words = "[2][4]" if s.type.dtype.bytes == 4 else "[4]"
        self.say(
            f"unsigned int {self.names.of('array', s.name)}{ring}[{rows // WARPGROUP_ROWS}][{columns // PIECE}]{words};"
            f"  // its part of [{rows}, {columns}]"
        )

    def _is_operand(self: Any, name: str) -> bool:
        return getattr(self.arrays.get(name), "kind", "") in (*OPERAND_KINDS, *WALKED_KINDS)

    def _into_word(self: Any, s: nodes.Assign) -> None:
        """A value on its way to a word, which rounds it."""
        operand = self.arrays[s.to.name]
        if operand.type.dtype.bytes != 2 or s.over or s.to.name not in self.words:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("an element of {to} outside `each` of a matrix", to=s.to.name),
            )
        value = s.value.x if isinstance(s.value, Unary) and s.value.op == "cast" else s.value
        self.say(f"{self.words[s.to.name]}[{self.names.of('integer', 'element')}] = {self.values.value(value)};")

    def _packed(self: Any, s: nodes.Assign) -> None:
        """The words of a piece of sixteen columns, or of eight of a warp's operand."""
        dtype = self.arrays[s.to.name].type.dtype
        if self.arrays[s.to.name].kind == "mma_a":
            self._packed_of_warp(s, dtype)
            return
        row, column = self._corner(s.to.name, s.to.index, (64, PIECE))
        block, piece = (self.integers.c(e, 0) for e in (row // WARPGROUP_ROWS, column // PIECE + "piece"))
        floats, i = self.words.pop(s.to.name), self.names.of("integer", "i")
        self.say("#pragma unroll")
        self.say(
            f"for (int {i} = 0; {i} < 4; ++{i}) {self.names.of('array', s.to.name)}[{block}][{piece}][{i}] = "
            f"pair_of_{dtype}({floats}[2 * {i}], {floats}[2 * {i} + 1]);"
        )

    def _packed_of_warp(self: Any, s: nodes.Assign, dtype: DType) -> None:
        row, column = self._corner(s.to.name, s.to.index, (FRAGMENT, COLUMNS))
        piece = column // COLUMNS + "piece"
        places = (piece // 2, row // FRAGMENT + self.fragment, 2 * (piece - 2 * (piece // 2)) + "i")
        floats, i = self.words.pop(s.to.name), self.names.of("integer", "i")
        self.integers.ranges["i"] = Interval(0, 1)
        word = self.names.of("array", s.to.name) + "".join(f"[{self.integers.c(e, 0)}]" for e in places)
        self.say("#pragma unroll")
        self.say(
            f"for (int {i} = 0; {i} < 2; ++{i}) {word} = pair_of_{dtype}({floats}[2 * {i}], {floats}[2 * {i} + 1]);"
        )

    # --- integers

    def _least(self: Any, s: nodes.Least | nodes.Most) -> None:
        sign = "<" if isinstance(s, nodes.Least) else ">"
        name, ends = self.names.of("integer", s.name), [self.integers.interval(e) for e in s.of]
        self.integers.ranges[s.name] = interval_of(s, ends)
        first, *others = (self.integers.c(e, 2) for e in s.of)
        text = first
        for number, other in enumerate(others):
            text = f"{f'({text})' if number else text} {sign} {other} ? {f'({text})' if number else text} : {other}"
        self.say(f"const {self.integers.type_of(Expr.of(s.name))} {name} = {text};")

    _most = _least
