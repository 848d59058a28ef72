"""Copies between memories as CUDA: the threads of a CTA take the elements in turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.body import Read, walk
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.intervals import Interval
from ...ir.model import show_name
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from .names import comment

ELEMENT, TURN = "the element's number", "the turn's number"  # no name of a text has a blank
SPELLINGS = {ELEMENT: "element", TURN: "turn"}


class Turns:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def _copy(self: Any, s: nodes.Copy) -> None:
        if s.vector > 1:
            raise refuse("E1620", self.kernel.name, s.span, what=Phrase("copy in vectors"))
        self._in_turn(s, 1, lambda: self._write(s.to, s.value))

    def _in_turn(self: Any, s: nodes.Copy | nodes.CpAsync, vector: int, write: Callable[[], None]) -> None:
        """The threads take the elements in turn, `vector` at a time, the last axis of `over` the fastest."""
        sizes = [size.evaluate({}) for _, size in s.over]
        sizes[-1] //= vector
        total = math.prod(sizes)
        for name in dict.fromkeys(n.tensor for n in walk(s.value) if isinstance(n, Read) and self.is_memory(n.tensor)):
            of = self.picked[name].of[0] if name in self.picked else name  # a plan of siblings speaks of the first
            cached = next(
                (
                    f"plan cache: {show_name(c.tensor)} -> {c.where} at {c.at}"
                    for c in (self.plan.cache if self.plan else ())
                    if c.tensor == of
                ),
                show_name(name),
            )
            self.say(comment(f"{cached}, as {show_name(s.to.name)}"))
        outer, facts, inner = self.integers.ranges, self.facts, Expr.of(1)
        element = self._begun(s, total)
        self.depth += 1
        parts: list[tuple[str, Expr]] = []
        for number, ((name, _), size) in reversed(list(enumerate(zip(s.over, sizes)))):
            whole = element // inner
            part = whole - size * (element // (inner * size)) if number else whole
            parts.append((name, vector * part if number + 1 == len(sizes) else part))
            inner = inner * size
        for name, part in reversed(parts):
            self.say(f"const int {self.names.of('integer', name)} = {self.integers.c(part, 0)};")
        self.integers.ranges.update((name, Interval(0, size.evaluate({}) - 1)) for name, size in s.over)
        for name, size in s.over:
            self.facts = self.facts.with_range(name, ZERO, size)
        for name, value in s.lets:
            self._let(nodes.Let(name, value))
        write()
        self.integers.ranges, self.facts = outer, facts
        self.depth -= 1
        self.say("}")

    def _begun(self: Any, s: nodes.Copy | nodes.CpAsync, total: int) -> Expr:
        """Opens the loop over a thread's share of the elements; the number of one. Where all threads have as many, of
        asynchronous copies, turns are counted: the places of all of them are one place and numbers."""
        threads, index, ranges = self.kernel.threads, self._spell("thread.index"), self.integers.ranges
        turns, is_even = -(-total // threads), total % threads == 0
        if is_even and turns > 1 and isinstance(s, nodes.CpAsync):
            self.say("#pragma unroll")
            self.say(f"for (int turn = 0; turn < {turns}; ++turn) {{")
            self.integers.ranges = {**ranges, TURN: Interval(0, turns - 1)}
            return Expr.of("thread.index") + threads * Expr.of(TURN)
        self.integers.ranges = {**ranges, ELEMENT: Interval(0, total - 1)}
        if is_even and turns == 1:
            self.say(f"{{ const int element = {index};")
        else:
            self.say("#pragma unroll")
            self.say(f"for (int element = {index}; element < {total}; element += {threads}) {{")
        return Expr.of(ELEMENT)
