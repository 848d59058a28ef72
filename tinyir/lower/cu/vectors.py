"""Neighbours that are made together: stores of tensors in one access though nothing says on which address they begin,
and random numbers of a block."""

from __future__ import annotations

from typing import Any

from ...ir.body import Read, Select
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.neighbours import is_multiple
from ...ir.present import guard_names
from ...ir.runs import offset_of
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...kit.records import replace
from .value import memory_type, stream_of

WIDEST_BYTES = 16
WORDS = "xyzw"  # of a block of random numbers


class Vectors:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def _moved_whole(self: Any, s: nodes.Assign | nodes.Store) -> None:
        """16 bytes of a tensor at once where all of them are inside, else one by one."""
        guard, read = (s.value.guard, s.value.then) if isinstance(s.value, Select) else ((), s.value)
        if (
            not isinstance(read, Read)
            or len(s.over) != 1
            or s.over[0][1].constant != s.vector
            or read.dtype != self._dtype(s.to.name)
        ):
            raise self._no_vector(s)
        name = s.over[0][0]
        first = {name: ZERO}
        target, source = (tuple(e.substitute(first) for e in place.index) for place in (s.to, read))
        to, of = self._element(s.to.name, target, None), self._element(read.tensor, source, read.slot)
        is_aligned = all(
            n in self.tensors and self._is_aligned(n, index, s.vector)
            for n, index in ((s.to.name, target), (read.tensor, source))
        )
        along = tuple(b for b in guard if name in guard_names((b,)))
        is_one_access = is_aligned or s.vector * read.dtype.bytes == WIDEST_BYTES
        if (
            not self.is_memory(read.tensor)
            or not is_one_access
            or any(b.upper is None or b.lower is not None for b in along)
        ):
            raise self._no_vector(s)
        inside = self.integers.guard(tuple(b.substitute({name: Expr.of(s.vector - 1)}) for b in guard))
        kind = f"vector_of<{memory_type(read.dtype)}, {s.vector}>"
        move = f"*({kind} *)&{to} = *(const {kind} *)&{of};" if is_aligned else f"copy_16(&{to}, &{of});"
        self.say(move if inside == "true" else f"if ({inside}) {move}")
        if inside != "true":
            self.say("else")
            self.depth += 1
            self._moved(replace(s, vector=1))
            self.depth -= 1

    def _in_blocks(self: Any, s: nodes.Assign) -> None:
        """Neighbours of a stream of random numbers, whose blocks are computed once; of a pair it is not known which
        half of a block it is."""
        ((name, _),) = s.over
        key, offset = stream_of(s.value)
        for start in range(0, s.vector, len(WORDS)):
            first = s.value.index.substitute({name: start})
            self.say("{")
            self.depth += 1
            self.say(f"const uint4 words = philox_block({key}, {offset} + {self.integers.c(first // len(WORDS))});")
            for n in range(min(s.vector, len(WORDS))):
                word = (
                    f"words.{WORDS[n]}"
                    if s.vector > 2
                    else f"({self.integers.c(first - 4 * (first // 4))} == 0 ? words.{WORDS[n]} : words.{WORDS[n + 2]})"
                )
                to = tuple(e.substitute({name: start + n}) for e in s.to.index)
                self.say(f"{self._element(s.to.name, to, s.to.slot)} = {self.values.of_word(word, s.value.dtype)};")
            self.depth -= 1
            self.say("}")

    def _is_aligned(self: Any, name: str, index: tuple[Expr, ...], count: int) -> bool:
        """Whether an element of a tensor is the first of `count` that begin on a multiple of their bytes."""
        first = self.facts.plain(offset_of(self.tensors[name].type.shape, index))
        return bool(index) and is_multiple(first, count)

    def _no_vector(self: Any, s: nodes.Assign | nodes.Store) -> Exception:
        what = Phrase("store of a tensor in vectors, but of 16 bytes of another's neighbours")
        return refuse("E1620", self.kernel.name, s.span, what=what)


__all__ = ["Vectors"]
