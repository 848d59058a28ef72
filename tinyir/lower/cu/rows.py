"""What a warpgroup knows of the rows of an accumulator, and an accumulator that becomes the left operand of the next
product.

Of 64 rows a thread holds parts of two: of `rows` and `row_parts` it has two registers, one for each. The four threads
of a row are neighbouring lanes. An operand of 16 bits holds the elements of an accumulator in their order, two a word.
"""

from __future__ import annotations

from typing import Any

from ...ir.accumulate import neutral_of
from ...ir.body import Unary
from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.memory import ROW_KINDS
from ...ir.intervals import Interval
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.hopper import WARPGROUP_ROWS

HALVES = 2  # rows of which a thread holds elements
SHARING = 4  # threads that hold a row together
PIECE = 16  # columns of an operand of 16 bits that one instruction takes
IDEMPOTENT = ("max", "min")


class Rows:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the values and the lines."""

    def __init__(self) -> None:
        self.half = ""  # C of which of its two rows the thread is at, inside `each`
        self.row_point = ""  # the coordinate that counts rows there
        self.words: dict[str, str] = {}  # left operand -> the floats that become its words

    def _row_registers(self: Any, s: nodes.Reg) -> None:
        """Declares `rows` or `row_parts`."""
        if [e.constant for e in s.type.shape] != [WARPGROUP_ROWS] or s.type.dtype.name != "fp32" or s.ring > 1:
            raise refuse(
                "E1620",
                self.kernel.name,
                s.span,
                what=Phrase("{kind} that are not {warpgroup_rows} of fp32", kind=s.kind, warpgroup_rows=WARPGROUP_ROWS),
            )
        self.arrays[s.name] = s
        init = "" if s.init is None else f" = {{{', '.join([self.values.value(s.init)] * HALVES)}}}"
        self.say(
            f"float {self.names.of('array', s.name)}[{HALVES}]{init};  // of this thread's rows of {s.type.shape[0]}"
        )

    def _each_row(self: Any, s: nodes.Each) -> None:
        if len(s.names) != 1 or s.at or s.size:
            raise refuse(
                "E1620", self.kernel.name, s.span, what=Phrase("each of a part of {of}, or by two coordinates", of=s.of)
            )
        (r,), half = s.names, self.names.of("integer", "which")
        known, approx = dict(self.integers.ranges), self.values.is_approx
        self.integers.ranges |= {"which": Interval(0, HALVES - 1), r: Interval(0, WARPGROUP_ROWS - 1)}
        self.values.is_approx = s.is_approx
        self.say("#pragma unroll")
        self.say(f"for (int {half} = 0; {half} < {HALVES}; ++{half}) {{")
        self.depth += 1
        first, thread = len(self.lines), Expr.of("warpgroup.thread")
        row = 16 * (thread // 32) + Expr.of("lane") // 4 + 8 * Expr.of("which")
        self.say(f"const int {self.names.of('integer', r)} = {self.integers.c(row, 0)};")
        self.half, self.row_point = half, r
        self.block(s.body)
        self._drop_unused(first, (r,))
        self.half = self.row_point = ""
        self.integers.ranges, self.values.is_approx = known, approx
        self.depth -= 1
        self.say("}")

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
        dtype, half = to.type.dtype, self.names.of("integer", "which")
        is_whole, is_direct = to.kind == "rows", to.kind == "row_parts" or s.op in IDEMPOTENT
        if source.kind in ROW_KINDS and to.kind != "rows" or source.type.shape[0] != to.type.shape[0]:
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
            held = [f"{of}[{n}]" if source.kind in ROW_KINDS else start for n in range(HALVES)]
            self.say(f"float {part}[{HALVES}] = {{{', '.join(held)}}};")
        if source.kind == "wgmma":
            element = self.names.of("integer", "element")
            self.say("#pragma unroll")
            self.say(f"for (int {element} = 0; {element} < {source.type.shape[1].evaluate({}) // 2}; ++{element})")
            self.say(f"  {self._folded(s.op, f'{part}[{element} / 2 % 2]', f'{of}[{element}]', dtype)}")
        elif is_direct:
            for n in range(HALVES):
                self.say(self._folded(s.op, f"{into}[{n}]", f"{of}[{n}]", dtype))
        if is_whole:
            self.say("#pragma unroll")
            self.say(f"for (int {half} = 0; {half} < {HALVES}; ++{half}) {{")
            self.depth += 1
            self._over_lanes(s.op, f"{part}[{half}]", dtype, SHARING)
            if not is_direct:
                self.say(self._folded(s.op, f"{into}[{half}]", f"{part}[{half}]", dtype))
            self.depth -= 1
            self.say("}")
        if not is_direct:
            self.depth -= 1
            self.say("}")

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
        return getattr(self.arrays.get(name), "kind", "") == "wgmma_a"

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
        """The words of a piece of sixteen columns."""
        dtype, (row, column) = self.arrays[s.to.name].type.dtype, self._corner(s.to.name, s.to.index, (64, PIECE))
        block, piece = (self.integers.c(e, 0) for e in (row // WARPGROUP_ROWS, column // PIECE + "piece"))
        floats, i = self.words.pop(s.to.name), self.names.of("integer", "i")
        self.say("#pragma unroll")
        self.say(
            f"for (int {i} = 0; {i} < 4; ++{i}) {self.names.of('array', s.to.name)}[{block}][{piece}][{i}] = "
            f"pair_of_{dtype}({floats}[2 * {i}], {floats}[2 * {i} + 1]);"
        )

    # --- integers

    def _least(self: Any, s: nodes.Least | nodes.Most) -> None:
        sign = "<" if isinstance(s, nodes.Least) else ">"
        name, ends = self.names.of("integer", s.name), [self.integers.interval(e) for e in s.of]
        pick = min if isinstance(s, nodes.Least) else max
        lows, highs = [e.low for e in ends], [e.high for e in ends]
        known = (
            (None if None in lows else min(lows), min((h for h in highs if h is not None), default=None))
            if pick is min
            else (max((x for x in lows if x is not None), default=None), None if None in highs else max(highs))
        )
        self.integers.ranges[s.name] = Interval(*known)
        first, *others = (self.integers.c(e, 2) for e in s.of)
        text = first
        for number, other in enumerate(others):
            text = f"{f'({text})' if number else text} {sign} {other} ? {f'({text})' if number else text} : {other}"
        self.say(f"const {self.integers.type_of(Expr.of(s.name))} {name} = {text};")

    _most = _least


__all__ = ["Rows"]
