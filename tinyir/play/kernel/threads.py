"""The threads of a kernel that compute: a dry run (`ir.gpu.dry`) in which registers, shared memory and tensors hold
numbers.

An integer, a scalar or a guard is one number, or an array of one for each thread. Inside of `over` and `each` it has
an axis more for each of theirs; the first axis counts warps or warpgroups inside of `each`, and what differs in their
threads is that of the thread that holds the element.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.body import Binary, Body, Index, Literal, Random, Read, Ref, Select, Ternary, Unary, operands_of
from ...ir.evaluate import convert, numpy_dtype
from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.dry.integers import WARP, holds
from ...ir.gpu.dry.memory import Here
from ...ir.gpu.dry.steps import Step
from ...ir.gpu.dry.threads import At, Threads, Unknown, Wish
from ...ir.gpu.nodes import PART_KINDS, Place
from ..body import applied
from ..indirect import in_range, random_at

PARTS = 4  # in which a row of a matrix is held
UFUNCS: Mapping[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class Computing(Threads):
    """What threads do by themselves: integers, registers, shared memory and tensors, element by element."""

    def __init__(self, run: Any, cta: int, number: int):
        super().__init__(run, cta, number)
        self.count = len(self.names["lane"])
        self.lead: Any = np.arange(self.count)  # of each thread; inside `each`, of each unit that holds a matrix
        self.owner: Any = self.lead  # the thread that has an element
        self.size = 1  # threads of a unit
        self.part: Any = None  # inside `each` of parts of rows, which of them
        self.held: dict[str, np.ndarray] = {}  # registers: slot, thread or unit, element
        self.scalars: dict[str, Any] = {}

    # --- expressions

    def number(self, e: Expr) -> Any:
        """An integer, or one for each thread. Raises Unknown."""
        return self._known(e)

    def body(self, body: Body) -> Any:
        """What an expression is. Raises Unknown."""
        return _BODIES[type(body)](self, body)

    def _read(self, body: Read) -> Any:
        array, index = self.place(Place(body.tensor, body.index, body.slot))
        return fetched(array, index)

    def _ref(self, body: Ref) -> Any:
        if body.name not in self.scalars:
            raise Unknown
        return self.scalars[body.name]

    def _literal(self, body: Literal) -> Any:
        return np.asarray(body.value).astype(numpy_dtype(body.dtype))

    def _index(self, body: Index) -> Any:
        return convert(np.asarray(self.number(body.expr)), body.dtype)

    def _random(self, body: Random) -> Any:
        return convert(random_at(body.seed, body.offset, np.asarray(self.number(body.index)), body.dtype), body.dtype)

    def _applied(self, body: Any) -> Any:
        return applied(body, [np.asarray(self.body(o)) for o in operands_of(body)])

    def _select(self, body: Select) -> Any:
        found = holds(body.guard, self.names)
        if found is None:
            raise Unknown
        if np.all(found):
            return self.body(body.then)
        if not np.any(found):
            return self.body(body.other)
        return np.where(found, self.body(body.then), self.body(body.other))

    # --- where things are

    def named(self, name: str) -> str:
        """The tensor, or the map, of a name, which may be picked."""
        picked = self.run.picks.get(name)
        return name if picked is None else picked.of[self._number(picked.at)]

    def place(self, place: Place) -> tuple[np.ndarray, tuple[Any, ...]]:
        """The array of a place and the index in it."""
        name = self.named(place.name)
        slot = 0 if place.slot is None else self.number(place.slot)
        index = tuple([self.number(e) for e in place.index])
        declared = self.run.arrays.get(name)
        if isinstance(declared, nodes.Reg):
            parts = (self._part(),) if declared.kind in PART_KINDS else ()
            size = self.threads_of(declared.kind)
            if name not in self.held or size not in (1, self.size):
                raise Unknown
            return self.held[name], (slot, self.owner if size == 1 else self.lead, *index, *parts)
        if isinstance(declared, nodes.Shared):
            cta = self.party.cta
            return self.run.shared[name], (slot, 0, *index) if declared.cluster else (cta, slot, *index)
        return self.run.tensors[name], index

    def _part(self) -> Any:
        if self.part is None:
            raise Unknown
        return self.part

    def threads_of(self, kind: str) -> int:
        """How many threads hold a matrix of this kind together."""
        if not kind:
            return 1
        return min(self.count, WARP if kind.startswith("mma") else 4 * WARP)

    def put(self, place: Place, found: Any, op: str = "") -> None:
        """Writes numbers to a place, where threads are at work; with `op` they are folded into what is there."""
        array, index = self.place(place)
        at = self.at
        if at is not None or op or np.ndim(found) > len(np.broadcast_shapes(*map(np.shape, index))):
            shape = np.broadcast_shapes(np.shape(found), np.shape(at), *map(np.shape, index))
            mask = np.broadcast_to(True if at is None else at, shape)
            index = tuple([np.broadcast_to(i, shape)[mask] for i in index])
            found = np.broadcast_to(found, shape)[mask]
        self.store(self.named(place.name), array, index, found, op)

    def store(self, name: str, array: np.ndarray, index: tuple[Any, ...], found: Any, op: str = "") -> None:
        """Writes numbers to an array. Raises Unknown where one is outside."""
        try:
            if not index and not op:
                array[...] = np.ravel(found)[-1:].reshape(()) if np.size(found) else array
            elif op:
                UFUNCS[op].at(array, index, found)
            else:
                array[index] = found
        except (IndexError, ValueError):
            raise Unknown from None
        if name in self.run.written and np.size(found):
            self.run.written[name][index] = True
            self.run.stored[name].append(tuple(int(np.ravel(i)[0]) for i in index))

    # --- axes

    @contextlib.contextmanager
    def over(
        self, axes: Sequence[tuple[str, Any]], size: int = 0, owner: Any = None, used: frozenset[str] = frozenset()
    ) -> Iterator[None]:
        """Names for axes, with the integers along them. With `size` the first axis becomes that of units of this
        number of threads, of which `owner` has each element, without one nothing may differ in them; of all that
        threads know what is `used` alone comes along."""
        kept = self.names, self.scalars, self.lead, self.owner, self.size, self.part, self.at
        rank = len(axes)
        if size:
            self.lead, self.size = np.arange(self.count // size), size
            if owner is not None:
                owner = size * self.lead.reshape(-1, *[1] * rank) + owner

            def known(found: Mapping[str, Any]) -> dict[str, Any]:
                moved = ((n, self._of_units(found[n], size, rank, owner)) for n in found if n in used)
                return {n: a for n, a in moved if a is not None}

            self.names, self.scalars = known(self.names), known(self.scalars)
            self.lead, self.owner = self.lead.reshape(-1, *[1] * rank), owner
            if self.at is not None:
                self.at = self._of_units(self.at, size, rank, owner)
                if self.at is None:
                    raise Unknown
        elif rank:
            self.names = {n: _wider(a, rank) for n, a in self.names.items()}
            self.scalars = {n: _wider(a, rank) for n, a in self.scalars.items()}
            self.lead, self.owner = _wider(self.lead, rank), _wider(self.owner, rank)
            self.part, self.at = _wider(self.part, rank), _wider(self.at, rank)
        first = (self.lead.ndim if isinstance(self.lead, np.ndarray) else 1 + rank) - rank
        for number, (name, along) in enumerate(axes, first):
            along = along.reshape([-1 if n == number else 1 for n in range(first + rank)])
            if name:
                self.names[name] = along
            else:
                self.part = along
        try:
            yield
        finally:
            self.names, self.scalars, self.lead, self.owner, self.size, self.part, self.at = kept

    def _of_units(self, found: Any, size: int, rank: int = 0, owner: Any = None) -> Any:
        """One number for each unit of threads, or that of each element's owner; None where neither is."""
        if not isinstance(found, np.ndarray) or found.ndim == 0:
            return found
        if found.ndim != 1:
            return None
        if len(found) == 1:
            return found.reshape(-1, *[1] * rank)
        in_units = found.reshape(-1, size)
        if ((in_units == in_units[:, :1]) | (in_units != in_units)).all():
            return in_units[:, 0].reshape(-1, *[1] * rank)
        return None if owner is None else found[owner]

    def units(self, e: Expr, size: int) -> Any:
        """An integer for each unit of this number of threads. Raises Unknown where they differ in one."""
        found = self._of_units(self.number(e), size)
        if found is None:
            raise Unknown
        return found

    def at_work(self, units: int) -> Any:
        """Which of the units of threads are at work: a unit goes together."""
        at = True if self.at is None else self.at
        return np.broadcast_to(at, (self.count,)).reshape(units, -1).any(1)

    # --- statements

    def _reg(self, s: nodes.Reg, here: Here) -> None:
        shape = [d.evaluate({}) for d in s.type.shape]
        units = self.count // self.threads_of(s.kind)
        parts = [PARTS] if s.kind in PART_KINDS else []
        made = nothing((s.ring, units, *shape, *parts), s.type.dtype)
        if s.init is not None:
            made[...] = self.body(s.init).reshape(1, -1, *[1] * (made.ndim - 2))
        if s.name not in self.held or self.at is None:
            self.held[s.name] = made
        else:
            where = self.at_work(units)
            self.held[s.name][:, where] = made[:, where]

    def _value(self, s: nodes.Value, here: Here) -> None:
        self.scalars[s.name] = self.body(s.value)

    def _choose(self, s: nodes.Choose, here: Here) -> None:
        place, is_inside = in_range(np.asarray(self.body(s.value)), int(self._number(s.extent)))
        self.names[s.name] = np.where(is_inside, place, -1)

    def _assign(self, s: nodes.Assign | nodes.Store, here: Here) -> None:
        with self.over(self._axes(s.over)) if s.over else contextlib.nullcontext():
            self.put(s.to, self.body(s.value))

    def _axes(self, axes: nodes.Axes) -> list[tuple[str, np.ndarray]]:
        return [(name, np.arange(int(self._number(size)))) for name, size in axes]

    def _atomic(self, s: nodes.Atomic, here: Here) -> None:
        self.put(s.to, self.body(s.value), s.op)

    def _copy(self, s: nodes.Copy | nodes.CpAsync, here: Here) -> None:
        """All threads together. Raises Unknown where some of them alone come here."""
        with self.over(self._axes(s.over), self.count, used=self.run.used_in(s)):
            for name, e in s.lets:
                self.names[name] = self.number(e)
            self.put(s.to, self.body(s.value))

    def _each(self, s: nodes.Each, step: Step, at: At, here: Here) -> Iterator[Wish]:
        array = self.run.arrays[s.of]
        sizes = s.size or [d.evaluate({}) for d in array.type.shape]
        axes = [(name, np.arange(size)) for name, size in zip(s.names, sizes)]
        corner = [int(self._number(e)) for e in s.at] or [0] * len(axes)
        if len(axes) == 1:  # rows: each is held by some threads
            axes, corner = [*axes, ("", np.arange(PARTS))], [*corner, 0]
        rows, columns = (n + along for n, (_, along) in zip(corner, axes))
        rows, columns = rows.reshape(-1, 1), columns.reshape(1, -1)
        self.at = at
        size = self.threads_of(array.kind or "wgmma")
        owner = _owner(array, rows, columns, not axes[1][0])
        owner = owner[None] if size > WARP else owner[None] % WARP
        with self.over(axes, size, owner, self.run.used_in(s)):
            yield from self.block(step.body, self.at)

    def _for(self, s: nodes.For, step: Step, at: At, here: Here) -> Iterator[Wish]:
        """All turns at once, where none needs another."""
        turned, is_spread = self.run.turned, self.run.is_spread(s)
        if not is_spread and (not s.unroll or turned.get(id(s), 0) > 1):
            yield from super()._for(s, step, at, here)
            return
        low, high, by = (self._known(e) for e in (s.low, s.high, s.step))
        is_alike = not any(isinstance(n, np.ndarray) for n in (low, high, by))
        if s.unroll:
            turned[id(s)] = max(turned.get(id(s), 0), len(range(low, high, by)) if is_alike else 2)
        if not (is_spread and is_alike):
            yield from super()._for(s, step, at, here)
            return
        self.at = at
        if low < high:
            with self.over([(s.name, np.arange(low, high, by))]):
                yield from self.block(step.body, self.at)


def _owner(array: Any, rows: np.ndarray, columns: np.ndarray, is_rows: bool) -> np.ndarray:
    """The thread of a warpgroup that holds an element of a matrix; modulo 32, of a warp."""
    if array.kind == "mma_b":
        rows, columns = columns, rows
    each = 1 if is_rows else max(1, 4 // array.type.dtype.bytes) if array.kind in ("mma_a", "mma_b", "wgmma_a") else 2
    return WARP * (rows % 64 // 16) + 4 * (rows % 8) + columns // each % 4


def fetched(array: np.ndarray, index: tuple[Any, ...]) -> Any:
    """Elements of an array; any where an index is outside, which nobody looks at."""
    try:
        return array[index]
    except IndexError:
        if 0 in array.shape:
            return np.zeros(np.broadcast_shapes(*map(np.shape, index)), array.dtype)
        return array[tuple(np.clip(i, 0, size - 1) for i, size in zip(index, array.shape))]


def nothing(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Memory before anybody has written to it: not a number, where there is such a thing."""
    made = np.full(shape, 77, numpy_dtype(dtype)) if dtype.kind != "b" else np.zeros(shape, bool)
    if dtype.is_float:
        made[...] = math.nan
    return made


def _wider(found: Any, rank: int) -> Any:
    if not isinstance(found, np.ndarray) or found.ndim == 0:
        return found
    return found.reshape(found.shape + (1,) * rank)


_BODIES: dict[type, Any] = {
    Read: Computing._read,
    Ref: Computing._ref,
    Literal: Computing._literal,
    Index: Computing._index,
    Random: Computing._random,
    Unary: Computing._applied,
    Binary: Computing._applied,
    Ternary: Computing._applied,
    Select: Computing._select,
}
Computing.go = {**Threads.go, nodes.Each: Computing._each, nodes.For: Computing._for}
Computing.act = {
    **Threads.act,
    nodes.Fence: lambda threads, s, here: None,
    nodes.WaitGroup: lambda threads, s, here: None,
    nodes.Reg: Computing._reg,
    nodes.Value: Computing._value,
    nodes.Choose: Computing._choose,
    nodes.Assign: Computing._assign,
    nodes.Store: Computing._assign,
    nodes.Atomic: Computing._atomic,
    nodes.Copy: Computing._copy,
    nodes.CpAsync: Computing._copy,
}
