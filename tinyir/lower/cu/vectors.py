"""Neighbours that are made together: stores of tensors in one access though nothing says on which address they begin,
and random numbers of a block. Registers that only carry what moves, and those of 16-bit floats that wait behind a fold
over threads as they were read: half the registers of what they are computed in.

    X.row[8*u + v] = X.v[v]                    fp16 X_row[16];      as X_v, which only brings them
    block_reduce sum s via part                the fold, then stay_as_read(X_row), so that the compiler does not keep
                                               what it has made of them for before the fold
    cast(X.row[8*u + v]) : fp32                float_of_fp16(X_row[8 * u + v])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...ir.body import Read, Select
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.gpu.walk import own_names_in, statements
from ...ir.intervals import Interval
from ...ir.neighbours import is_multiple
from ...ir.present import guard_names
from ...ir.runs import offset_of
from ...ir.types import DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...target.dtypes import SMALL_FLOATS
from .once import WORD_BYTES
from .value import memory_type, stream_of

WIDEST_BYTES = 16
FOLDS = (nodes.BlockReduce, nodes.WarpReduce)
WORDS = "xyzw"  # of a block of random numbers


class Vectors:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the integers and the lines."""

    def _moved_whole(self: Any, s: nodes.Assign | nodes.Store) -> None:
        """16 bytes of a tensor at once where all of them are inside; else they are read one by one."""
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
            self._at_the_end(s, kind, to)

    def _at_the_end(self: Any, s: nodes.Store, kind: str, to: str) -> None:
        """What is inside of an access, and zeros behind it, stored at once."""
        ((name, size),) = s.over
        e, outer = self.names.of("integer", name), self.integers.ranges
        self.integers.ranges = {**outer, name: Interval(0, s.vector - 1)}
        for line in (
            "else {",
            f"  {kind} piece;",
            "  #pragma unroll",
            f"  for (int {e} = 0; {e} < {size}; ++{e})",
            f"    piece.x[{e}] = {self.values.stored(s.value, self._dtype(s.to.name))};",
            f"  *({kind} *)&{to} = piece;",
            "}",
        ):
            self.say(line)
        self.integers.ranges = outer

    def _in_blocks(self: Any, s: nodes.Assign) -> None:
        """Neighbours of a stream of random numbers, whose blocks are computed once; of a pair it is not known which
        half of a block it is."""
        ((name, _),) = s.over
        key, offset = stream_of(s.value)
        for start in range(0, s.vector, len(WORDS)):
            first = s.value.index.substitute({name: start})
            with self.braces():
                self.say(f"const uint4 words = philox_block({key}, {offset} + {self.integers.c(first // len(WORDS))});")
                for n in range(min(s.vector, len(WORDS))):
                    word = f"words.{WORDS[n]}"
                    if s.vector <= 2:
                        word = f"({self.integers.c(first - 4 * (first // 4))} == 0 ? {word} : words.{WORDS[n + 2]})"
                    to = tuple(e.substitute({name: start + n}) for e in s.to.index)
                    self.say(f"{self._element(s.to.name, to, s.to.slot)} = {self.values.of_word(word, s.value.dtype)};")

    def _near(self: Any, s: nodes.Assign | nodes.Store, dtype: DType, first: str, name: str) -> str:
        """The call that moves neighbours between memory and registers that are side by side, as they are or as small
        floats; empty for what is more."""
        is_store, held = isinstance(s, nodes.Store), s.value if isinstance(s, nodes.Store) else s.to
        register = held.tensor if isinstance(held, Read) else getattr(held, "name", "")
        array = self.arrays.get(register)
        if not isinstance(array, nodes.Reg) or array.kind or register in self.in_words:
            return ""
        if name in self.facts.plain(offset_of(array.type.shape, held.index) - name).names():
            return ""
        start = tuple(e.substitute({name: ZERO}) for e in held.index)
        is_whole = start == (ZERO,) and held.slot is None
        place = self.names.of("array", register) if is_whole else f"&{self._element(register, start, held.slot)}"
        if not is_store:
            is_wider = dtype.name in SMALL_FLOATS and register not in self.carrying
            way, small = self._way(s), f"_{dtype}" if is_wider else ""
            return f"load_near{way and f'_{way}'}{small}<{s.vector}>({place}, &{first});"
        element, stored = self._element(register, held.index, held.slot), self.values.stored(held, dtype)
        small = {element: "", f"{dtype.cuda}_of_float({element})": f"_{dtype}"}.get(stored)
        way = self._way_out(s)
        return "" if small is None else f"store_near{way and f'_{way}'}{small}<{s.vector}>(&{first}, {place});"

    def _way(self: Any, s: nodes.Assign) -> str:
        """What a load asks of the caches, found once for each: `once` to leave them to others, `line` to do so and have
        L2 fetch whole lines, `kept` to hold what is loaded again, `last` where it was; empty for nothing."""
        left = self.again.get(s.value.tensor, 0)
        if left:
            self.again[s.value.tensor] = left - 1
            return "kept" if left > 1 else "last"
        if s.vector * s.value.dtype.bytes % WORD_BYTES:
            return ""
        return "line" if s.value.tensor in self.in_lines else "once" if s.value.tensor in self.once else ""

    def _way_out(self: Any, s: nodes.Store) -> str:
        """What a store asks of the caches: what is written beside rows that L2 should keep, in whole accesses, is the
        first that it gives up (`last`)."""
        is_whole = s.vector * self._dtype(s.to.name).bytes % WORD_BYTES == 0
        return "last" if self.again and is_whole and s.to.name in self.tensors else ""

    def _is_aligned(self: Any, name: str, index: tuple[Expr, ...], count: int) -> bool:
        """Whether an element of a tensor is the first of `count` that begin on a multiple of their bytes."""
        first = self.facts.plain(offset_of(self.tensors[name].type.shape, index))
        return bool(index) and is_multiple(first, count)

    def _is_computed_in(self: Any, name: str) -> bool:
        """Whether elements of an array are in the type of arithmetic."""
        return self._in_registers(name) and name not in self.carrying

    def _no_vector(self: Any, s: nodes.Assign | nodes.Store) -> Exception:
        what = Phrase("store of a tensor in vectors, but of 16 bytes of another's neighbours")
        return refuse("E1620", self.kernel.name, s.span, what=what)


def carrying(kernel: nodes.Kernel) -> frozenset[str]:
    """Registers of small floats of which nothing is computed: they are filled with elements of memory, and written to
    memory or moved to other registers, as they are. They have the memory's type, so that 16 bits stay 16 bits."""
    found = {
        s.name: s.type.dtype
        for s in statements(kernel.body)
        if isinstance(s, nodes.Reg) and not s.kind and s.type.dtype.name in SMALL_FLOATS
        if s.init is None or s.is_zeroed
    }
    named = found and set().union(*(_computed(s, found) for s in statements(kernel.body)))
    return frozenset(found.keys() - named)


def _computed(s: nodes.Statement, found: Mapping[str, DType]) -> set[str]:
    """The registers of which a statement does more than to carry elements."""
    if isinstance(s, (nodes.Assign, nodes.Store)) and isinstance(s.value, Read):
        ends = {s.to.name, s.value.tensor} & found.keys()
        if not all(s.value.dtype == found[name] for name in ends) or isinstance(s, nodes.Store) and s.by:
            return ends
        return {s.to.name} if len(ends) > 1 else set()  # of what is moved something is computed
    return set() if isinstance(s, nodes.Reg) else found.keys() & set(own_names_in(s))


def as_read(kernel: nodes.Kernel) -> tuple[tuple[str, ...], frozenset[str]]:
    """The arrays that something is made of before a fold over threads and behind it, filled with elements of tensors
    alone; and those whose elements go to them and nowhere else."""
    folds = [n for n, s in enumerate(kernel.body) if isinstance(s, FOLDS)]
    regs = (
        {s.name: s.type for s in statements(kernel.body) if isinstance(s, nodes.Reg) and _is_half(s)} if folds else {}
    )
    if not regs:
        return (), frozenset()
    sources: dict[str, set[str]] = {}
    users: dict[str, set[str]] = {}
    for s in statements(kernel.body):
        if isinstance(s, nodes.Assign) and s.to.name in regs:
            is_moved = isinstance(s.value, Read) and s.value.dtype == regs[s.to.name].dtype
            sources.setdefault(s.to.name, set()).add(s.value.tensor if is_moved else "")
            if is_moved:
                users.setdefault(s.value.tensor, set()).add(s.to.name)
                continue
        for name in set() if isinstance(s, nodes.Reg) else regs.keys() & set(own_names_in(s)):
            if not (isinstance(s, nodes.Assign) and s.to.name == name):
                users.setdefault(name, set()).add("")
    first, last = (set(_used(part)) for part in (kernel.body[: folds[0]], kernel.body[folds[0] + 1 :]))
    waiting = {n for n in regs.keys() & first & last if regs[n].shape[0].evaluate({}) % 2 == 0}
    bring = {n for n in regs if users.get(n, {""}) <= waiting and not sources.get(n, {""}) & {*regs, ""}}
    found = tuple(n for n in regs if n in waiting and not sources.get(n, {""}) & ({*regs, ""} - bring))
    return found, frozenset(n for n in bring if users[n] <= set(found))


def _is_half(s: nodes.Reg) -> bool:
    dtype = s.type.dtype
    return (
        not s.kind and s.ring == 1 and s.init is None and len(s.type.shape) == 1 and dtype.is_float and dtype.bytes == 2
    )


def _used(body: Iterable[Statement]) -> Iterator[str]:
    """The names in statements, but those of registers that are made or filled."""
    for s in statements(body):
        filled = s.name if isinstance(s, nodes.Reg) else s.to.name if isinstance(s, nodes.Assign) else ""
        yield from (n for n in own_names_in(s) if n != filled)
