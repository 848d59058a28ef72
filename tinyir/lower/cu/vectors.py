"""Stores of tensors in vectors: neighbours that move in one access though nothing says on which address they begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ir.body import Read, Select
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...kit.diag import refuse

WIDEST_BYTES = 16


class Vectors:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def _moved_whole(self: Any, s: nodes.Assign | nodes.Store) -> None:
        """16 bytes of a tensor at once where all of them are inside, else one by one; or a pair of 2 bytes of shared memory."""
        guard, read = (s.value.guard, s.value.then) if isinstance(s.value, Select) else ((), s.value)
        if not isinstance(read, Read) or len(s.over) != 1 or s.over[0][1].constant != s.vector or read.dtype != self._dtype(s.to.name):
            raise self._no_vector(s)
        name = s.over[0][0]
        first = {name: ZERO}
        target = self._element(s.to.name, tuple(e.substitute(first) for e in s.to.index), None)
        source = self._element(read.tensor, tuple(e.substitute(first) for e in read.index), read.slot)
        if read.tensor in self.arrays and not guard and (s.vector, read.dtype.bytes) == (2, 2):
            self.say(f"copy_pair(&{target}, &{source});")
            return
        if not self.is_memory(read.tensor) or s.vector * read.dtype.bytes != WIDEST_BYTES or any(b.upper is None or b.lower is not None for b in guard):
            raise self._no_vector(s)
        inside = self.integers.guard(tuple(b.substitute({name: Expr.of(s.vector - 1)}) for b in guard))
        self.say(f"copy_16(&{target}, &{source});" if inside == "true" else f"if ({inside}) copy_16(&{target}, &{source});")
        if inside != "true":
            self.say("else")
            self.depth += 1
            self._moved(replace(s, vector=1))
            self.depth -= 1

    def _no_vector(self: Any, s: nodes.Assign | nodes.Store) -> Exception:
        what = "store of a tensor in vectors, but of 16 bytes of another's neighbours or a pair of 2 bytes of shared memory's"
        return refuse("E1620", self.kernel.name, s.span, what=what)


__all__ = ["Vectors"]
