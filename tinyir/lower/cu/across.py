"""What CTAs tell one another: tickets, words that are published and the look back at them, folds into one element."""

from __future__ import annotations

from typing import Any

from ...ir.accumulate import neutral_of
from ...ir.expr import ZERO
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place
from ...ir.intervals import Interval
from ...ir.rules import product
from ...ir.types import DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.words import BRANCHES, LEVELS
from .names import comment


class Across:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the values and the lines."""

    def _ticket(self: Any, s: nodes.Ticket) -> None:
        name, via = self.names.of("integer", s.name), self.names.of("array", s.via)
        most = self.integers.interval(s.extent).high
        self.integers.ranges[s.name] = Interval(0, None if most is None else most - 1)
        self.facts = self.facts.with_range(s.name, ZERO, s.extent)
        self.say(comment("CTAs are numbered as they come"))
        self.say(
            f"if ({self._spell('thread.index')} == 0) {via}[0] = "
            f"(int)atomicAdd(&{self._element(s.source.name, s.source.index, None)}, 1u);"
        )
        self.say("__syncthreads();")
        self.say(f"const int {name} = {via}[0];")

    def _drawn(self: Any, s: nodes.For, kind: str) -> str:
        """The end of a turn of a loop whose numbers are drawn; says what it needs before the loop."""
        if kind != "int":
            raise refuse("E1620", self.kernel.name, s.span, what=Phrase("a drawn number that no int holds"))
        slot, phase, own, after = (
            self.names.of("integer", name) for name in (f"{s.via}.slot", f"{s.via}.phase", s.name, f"{s.name}.next")
        )
        place, full, empty = (self.names.of("array", name) for name in (s.via, s.full, s.empty))
        ring = self.arrays[s.via].ring
        self.say(f"int {slot} = 0{f', {after}' if s.source else ''};")
        self.say(f"unsigned int {phase} = {int(s.source is not None)};")
        if s.source:
            return f"hand_turn<{ring}>({place}[0], {full}, {empty}, {slot}, {phase}, {own}, {after})"
        return f"take_turn<{ring}>({place}[0], {full}, {empty}, {slot}, {phase}, {own})"

    def _draw(self: Any, s: nodes.For) -> tuple[str, ...]:
        """What a turn begins with: the next number is drawn, which memory needs some time for."""
        if s.source is None:
            return ()
        counter = self._element(s.source.name, s.source.index, None)
        after = self.names.of("integer", f"{s.name}.next")
        return (f"{after} = {self.integers.c(s.step, 0)} + (int)atomicAdd(&{counter}, 1u);",)

    def _publish(self: Any, s: nodes.Publish) -> None:
        dtype = self.arrays[s.name].type.dtype
        with self.braces(f"if ({self._spell('thread.index')} == 0) {{"):
            held = self._element(s.held, s.to.index, None) if s.held else ""
            self._say_published(
                dtype, self._element(s.to.name, s.to.index, None), held, f"{self.names.of('array', s.name)}[0]"
            )

    def _say_published(self: Any, dtype: DType, word: str, held: str, value: str) -> None:
        if held:
            self.say(f"{held} = {value};")
            self.say(f"publish_flag(&{word});")
        else:
            self.say(f"publish_word(&{word}, bits_as<unsigned int, {dtype.cuda}>({value}));")

    def _lookback(self: Any, s: nodes.LookBack) -> None:
        name, via, dtype = self.names.of("array", s.name), self.names.of("array", s.via), self.arrays[s.name].type.dtype
        lane, warp, size = (
            self._spell("lane"),
            self._spell("warp.index"),
            self.integers.c(product(self.of_memory(s.source.name).type.shape[1:])),
        )
        start = Place(s.source.name, (*s.source.index[:-1], ZERO))
        words = "unsigned int" if s.held else "unsigned long long"
        self.say(comment(f"{s.op} over the tiles before: of 1024, of {BRANCHES} and of one, always the same together"))
        with self.braces(f"if ({warp} == 0) {{"):
            self.say(f"{words} *words = &{self._element(start.name, start.index, None)};")
            if s.held:
                self.say(f"{dtype.cuda} *values = &{self._element(s.held, start.index, None)};")
            self.say(f"{dtype.cuda} own = {name}[0], before = {self.values.value(neutral_of(s.op, dtype))};")
            self.say("bool is_last = true;  // of the tiles that stand under one word of the next level")
            self.say("#pragma unroll 1")
            with self.braces(
                f"for (int level = 0, at = {self.integers.c(s.source.index[-1], 0)}; level < {LEVELS}; ++level, at "
                f"/= {BRANCHES}) {{"
            ):
                self.say(f"{dtype.cuda} found = {self.values.value(neutral_of(s.op, dtype))};")
                with self.braces(
                    f"for (int n = (level < {LEVELS - 1} ? at / {BRANCHES} * {BRANCHES} : 0) + {lane}; n < at; n += "
                    f"{BRANCHES}) {{"
                ):
                    if s.held:
                        self.say("await_flag(&words[n]);")
                    value = (
                        "__ldcg(&values[n])"
                        if s.held
                        else f"bits_as<{dtype.cuda}, unsigned int>(await_word(&words[n]))"
                    )
                    self.say(f"const {dtype.cuda} other = {value};")
                    self.say(self._folded(s.op, "found", "other", dtype))
                self._over_lanes(s.op, "found", dtype, BRANCHES)
                self.say(f"is_last = is_last && at % {BRANCHES} == {BRANCHES - 1};")
                self.say(f"own = {self._applied(s.op, 'found', 'own', dtype)};")
                self.say(f"before = {self._applied(s.op, 'found', 'before', dtype)};")
                self.say(f"words += {size};")
                if s.held:
                    self.say(f"values += {size};")
                with self.braces(f"if (is_last && level < {LEVELS - 1} && {lane} == 0) {{"):
                    self._say_published(
                        dtype, f"words[at / {BRANCHES}]", f"values[at / {BRANCHES}]" if s.held else "", "own"
                    )
            self.say(f"if ({lane} == 0) {via}[0] = before;")
        self.say("__syncthreads();")
        self.say(f"{name}[0] = {via}[0];")

    def _atomic(self: Any, s: nodes.Atomic) -> None:
        dtype = self._dtype(s.to.name)
        self.say(
            f"{_function(s.op, dtype)}(&{self._element(s.to.name, s.to.index, None)}, {self.values.value(s.value)});"
        )


WORD = {4: "unsigned int", 8: "unsigned long long"}  # that is compared and swapped, by bytes


def _function(op: str, dtype: DType) -> str:
    """What folds: the hardware's atomic where it has one that folds as the op table says, else its compare and swap."""
    if op == "sum":
        return "atomic_sum"
    if op in ("max", "min") and dtype.is_integer:
        return f"atomic{op.title()}"
    fold = f"{op}_nan" if op in ("max", "min") else f"{'wrap_mul' if dtype.is_integer else 'product_of'}<{dtype.cuda}>"
    return f"atomic_fold<{dtype.cuda}, {WORD[dtype.bytes]}, {fold}>"
