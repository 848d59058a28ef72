"""Single elements of a program, computed on demand from two texts: by its book, and by its regions.

Both stop at what they are given, numbers drawn by name and place, and run over few points of a long axis that they
fold: the first, the last and one between, fewer of many axes. So an element costs hundreds of steps whatever the sizes
are, and both say the same number where they compute the same (`play.scalar`), but for folds whose axes are cut in two
ways.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ir import index, region
from ..ir.accumulate import neutral_of
from ..ir.body import (
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Transpose,
    Unary,
    operands_of,
)
from ..ir.expr import Expr
from ..ir.ops import OPS
from ..ir.present import axes_of_values, present_axes
from ..ir.types import DType, round_to
from ..kit.groups import lists_of
from ..kit.records import dataclass
from .scalar import Number, Unsaid, applied, cast, folded

At = tuple[int, ...]
Env = Mapping[str, int]  # sizes of symbols, and the point of each axis
FEW = ((4, 3), (7, 2))  # points of a longer axis that is folded, with as many axes at most; of more axes one
_MIX = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in memory has the elements of a value or input, where `is_turned` with its last two axes exchanged."""

    value: str
    is_turned: bool = False

    def place(self, at: At) -> At:
        """The element of the value at a place in memory."""
        return (*at[:-2], at[-1], at[-2]) if self.is_turned else at


@dataclass(slots=True)
class Numbers:
    """What is given: a number for each element of each tensor and value by its name, drawn with a seed, above 0 where
    `is_positive`. `steps` are left, before it raises Unsaid. `is_whole`: folds run over all points."""

    seed: int
    steps: int
    is_positive: bool = False
    is_whole: bool = False

    def at(self, name: str, place: At, dtype: DType) -> Number:
        """The number of an element."""
        part = self.part(name, place)
        if dtype.is_float:
            return 0.25 + part if self.is_positive else 2 * part - 1
        if dtype.kind == "b":
            return part < 0.5
        return int(4 * part) if dtype.bits > 16 else int(60 * part) * (-1 if dtype.kind == "i" and part < 0.5 else 1)

    def part(self, name: str, place: Iterable[int]) -> float:
        """A number from 0 to 1, drawn by name and place."""
        mixed = hash((self.seed, zlib.crc32(name.encode("utf-8", "replace")), *place)) * _MIX & (1 << 64) - 1
        mixed = (mixed ^ mixed >> 29) * _MIX & (1 << 64) - 1
        return (mixed >> 11) / (1 << 53)

    def step(self, number: int = 1) -> None:
        """Take more steps; none where these are more than are left."""
        if number > self.steps:
            raise Unsaid
        self.steps -= number

    def points(self, sizes: Sequence[int]) -> Iterator[At]:
        """The points of the axes that a fold runs over, a step each. Raises Unsaid before any where they are too many:
        `itertools.product` lists every axis, which may have billions of points."""
        few = next((few for most, few in FEW if len(sizes) <= most), 1)
        spans = [self._span(size, few) for size in sizes]
        self.step(math.prod(map(len, spans)))
        return itertools.product(*spans)

    def _span(self, size: int, few: int) -> Sequence[int]:
        if size <= few or self.is_whole:
            return range(size)
        return sorted((1 + size * _MIX % max(1, size - 2), 0, size - 1)[-few:])

    def fold(self, op: str, dtype: DType, terms: Iterable[Any]) -> Any:
        """The fold of numbers; integers wrap term by term, so that none grows long."""
        total = neutral_of(op, dtype).value
        for term in terms:
            total = folded(op, total, term)
            total = total if dtype.is_float else round_to(dtype, total)
        return total

    def extreme(self, op: str, sizes: Sequence[int], terms: Iterable[tuple[At, Any]]) -> int:
        """The place in rows of the first term that is the largest or least; the first NaN is."""
        best: tuple[At, Any] | None = None
        for place, term in terms:
            if best is None or term != term or (term > best[1] if op == "argmax" else term < best[1]):
                best = place, term
                if term != term:
                    break
        return flat(best[0], sizes) if best is not None else 0

    def random(self, seed: int, offset: int, place: int, dtype: DType) -> Number:
        """An element of a stream, which is as good as any other number that seed, offset and place alone decide."""
        part = self.part("random", (seed, offset, place))
        return part if dtype.is_float else round_to(dtype, int(part * (1 << 31)))


def flat(place: At, sizes: Sequence[int]) -> int:
    """The number of an element in rows."""
    found = 0
    for at, size in zip(place, sizes):
        found = found * size + at
    return found


def unflat(number: int, sizes: Sequence[int]) -> At:
    """The element of a number."""
    found = []
    for size in reversed(sizes):
        number, at = divmod(number, size)
        found.append(at)
    return tuple(reversed(found))


def stated(numbers: Any, place: At) -> Number:
    """An element of nested tuples of numbers, or the one number that all are."""
    for at in place:
        if not isinstance(numbers, tuple):
            break
        numbers = numbers[at]
    return numbers


class BookElements:
    """Values by the book."""

    def __init__(self, module: index.Module):
        self._values, self._entries = module.tiny.value_of(), module.entry_of()
        self._types, self._model = module.tiny.type_of(), module.tiny.model

    def begin(self, sizes: Env, numbers: Numbers, given: Collection[str]) -> BookElements:
        """From now on with these numbers, for inputs of the model and for the values in `given`. Where one of them is
        a movement, what is read through it is read in single steps, which end there."""
        self._sizes, self._numbers, self._given = sizes, numbers, given
        values = (self._values[name] for name in given if name in self._values)
        self._is_stepping = any(OPS[value.op].is_movement for value in values)
        self._known: dict[tuple[str, At], Number] = {}
        return self

    def element(self, name: str, at: At) -> Number:
        """An element of a value or input. Raises Unsaid."""
        if name in self._given or self._model.input(name) is not None:
            return self._numbers.at(name, at, self._types[name].dtype)
        if (name, at) not in self._known:
            self._numbers.step()
            self._known[name, at] = self._computed(self._values[name], at)
        return self._known[name, at]

    def _computed(self, value: Any, at: At) -> Number:
        entry, op, dtype, numbers = self._entries[value.name], value.op.lower(), value.type.dtype, self._numbers
        env = {**self._sizes, **{axis.name: place for axis, place in zip(entry.own_axes, at)}}
        if OPS[value.op].is_elementwise:
            operands = [self._read(value, n, env) for n in range(len(value.operands))]
            return applied(op, dtype, operands, self._types[value.operands[0]].dtype)
        if op == "reduce":
            return self._reduced(value, entry, env)
        if op == "scan":
            axes, own = [a for a in entry.axes if a.kind == "reduce"], value.attr("dtype")
            terms = (cast(self._read(value, 0, {**env, **point}), own) for point in self._points(axes))
            return cast(numbers.fold(value.attr("op").lower(), own, terms), dtype)
        if op == "gather":
            (axis,) = (a for a in entry.axes if a.kind == "indirect")
            place, size = self._read(value, 1, env), axis.size.evaluate(self._sizes)
            place += size if place < 0 else 0
            return self._read(value, 0, {**env, axis.name: place}) if 0 <= place < size else round_to(dtype, 0)
        if op == "scatter":
            return self._scattered(value, entry, env, at)
        if op == "const":
            number = value.attr("value")
            number = number.evaluate(self._sizes) if isinstance(number, Expr) else stated(number, at)
            return round_to(dtype, number)
        if op == "iota":
            return cast(at[value.attr("axis") % len(at)], dtype)
        if op == "random":
            sizes = [d.evaluate(self._sizes) for d in value.type.shape]
            return numbers.random(value.attr("seed"), value.attr("offset") or 0, flat(at, sizes), dtype)
        return self._read(value, 0, env)  # a movement

    def _read(self, value: Any, operand: int, env: Env) -> Number:
        entry = self._entries[value.name]
        accesses = entry.reads if self._is_stepping else entry.sources
        access = accesses[operand]
        self._numbers.step(len(access.pieces) - 1)  # their guards are asked in turn
        found = access.at(env)  # pyright: ignore - it reads alone
        return self.element(*found) if isinstance(found, tuple) else found

    def _points(self, axes: Sequence[Any]) -> Iterator[dict[str, int]]:
        names = [a.name for a in axes]
        points = self._numbers.points([a.size.evaluate(self._sizes) for a in axes])
        return (dict(zip(names, point)) for point in points)

    def _reduced(self, value: Any, entry: Any, env: Env) -> Number:
        op, own, numbers = value.attr("op").lower(), value.attr("dtype"), self._numbers
        axes = [a for a in entry.axes if a.kind == "reduce"]
        terms = ((tuple(p.values()), self._read(value, 0, {**env, **p})) for p in self._points(axes))
        if op in ("argmax", "argmin"):
            return numbers.extreme(op, [a.size.evaluate(self._sizes) for a in axes], terms)
        return cast(numbers.fold(op, own, (cast(term, own) for _, term in terms)), value.type.dtype)

    def _scattered(self, value: Any, entry: Any, env: Env, at: At) -> Number:
        axis, op = value.attr("axis") % len(at), value.attr("op").lower()
        size, total = value.type.shape[axis].evaluate(self._sizes), self._read(value, 0, env)
        for point in self._points([a for a in entry.axes if a.kind == "indirect"]):
            place = self._read(value, 1, {**env, **point})
            if place + (size if place < 0 else 0) == at[axis]:
                update = self._read(value, 2, {**env, **point})
                total = update if op == "update" else folded(op, total, update)
        return total if value.type.dtype.is_float else round_to(value.type.dtype, total)


class RegionElements:
    """Tensors by the regions that write them."""

    def __init__(self, module: region.Module):
        self._module = module
        self._buffers = {t.name: t for t in module.program.buffers}
        self._written = lists_of((y.output, (one, y)) for one in module.program.regions for y in one.yields)
        self._lets: dict[str, Mapping[str, tuple[region.Let, tuple[str, ...]]]] = {}

    def begin(self, sizes: Env, numbers: Numbers, given: Mapping[str, Held]) -> RegionElements:
        """From now on with these numbers, for the tensors in `given`."""
        self._sizes, self._numbers, self._given = sizes, numbers, given
        self._known: dict[tuple[str, str, At], Number] = {}
        return self

    def yielded(self, one: region.Region, item: region.Yield, env: Env) -> Number:
        """What a region writes at a point of its axes. Raises Unsaid."""
        return self._of(item.expr, one, env)

    def element(self, name: str, at: At, dtype: DType) -> Number:
        """An element of a tensor, by its place in memory. Raises Unsaid."""
        buffer = self._buffers.get(name)
        if (held := self._given.get(name)) is not None:
            return self._numbers.at(held.value, held.place(at), dtype)
        if buffer is not None and buffer.attr("value") is not None:
            return round_to(dtype, stated(buffer.attr("value"), at))
        if name not in self._written:
            if buffer is None or buffer.attr("alias") is None:
                raise Unsaid
            name, model = buffer.attr("alias"), self._module.model
            home = self._buffers.get(name) or model.input(name) or model.output(name)
            sizes, others = ([d.evaluate(self._sizes) for d in t.type.shape] for t in (buffer, home))
            return self.element(home.name, unflat(flat(at, sizes), others), dtype)
        for one, item in self._written[name]:
            self._numbers.step()  # as many may write one tensor as a concatenation has parts
            env = self._writing(one, item, at)
            if env is not None and all(b.holds(env) for b in item.guard):
                return self._of(item.expr, one, env)
        raise Unsaid

    def _writing(self, one: region.Region, item: region.Yield, at: At) -> dict[str, int] | None:
        """The point of a region's axes at which it writes an element. Raises Unsaid where that is not plain."""
        env = dict(self._sizes)
        sizes = {a.name: a.size.evaluate(self._sizes) for a in one.iters}  # pyright: ignore - axes of `for` have sizes
        pairs = list(zip(item.index, at))
        for e, place in sorted(pairs, key=lambda pair: len(pair[0].vocabulary - env.keys())):
            self._solve(e, place, env, sizes)
        for name, size in sizes.items():
            if name in env or size == 1:
                env.setdefault(name, 0)
                continue
            told = [(e, place) for e, place in pairs if e.vocabulary - env.keys() == {name}]
            self._numbers.step(size)
            fits = (n for n in range(size) if all(e.evaluate({**env, name: n}) == place for e, place in told))
            env[name] = next(fits, -1)
        is_there = all(0 <= env[name] < size for name, size in sizes.items())
        return env if is_there and all(e.evaluate(env) == place for e, place in pairs) else None

    def _solve(self, e: Expr, place: int, env: dict[str, int], sizes: Mapping[str, int]) -> None:
        """Bind the axes of an index that is a number in digits of its axes: `64*i0 + i2`."""
        digits = [(c, m[0]) for c, m in e.terms if len(m) == 1 and m[0] in sizes and m[0] not in env]
        if len(digits) != sum(1 for _, m in e.terms if not env.keys() >= Expr(((1, m),)).vocabulary):
            return
        rest = place - e.evaluate({**env, **{name: 0 for _, name in digits}})
        for number, name in sorted(digits, reverse=True):
            env[name] = rest // number if number > 0 else 0
            rest -= number * env[name]

    def _of(self, body: Body, one: region.Region, env: Env) -> Any:
        self._numbers.step()
        return _FORMS[type(body)](self, body, one, env)

    def _points(self, axes: Iterable[Any], one: region.Region) -> Iterator[At]:
        """The points of axes that are folded, of which some are the region's own."""
        return self._numbers.points([self._size(a, one) for a in axes])

    def _size(self, axis: Any, one: region.Region) -> int:
        size = axis.size if axis.size is not None else next(a.size for a in one.iters if a.name == axis.name)
        return size.evaluate(self._sizes)

    # --- one function a form

    def _read(self, body: Read, one: region.Region, env: Env) -> Any:
        return self.element(body.tensor, tuple([e.evaluate(env) for e in body.index]), body.dtype)

    def _ref(self, body: Ref, one: region.Region, env: Env) -> Any:
        if one.name not in self._lets:
            axes_of = axes_of_values(one)
            self._lets[one.name] = {let.name: (let, axes_of[let.name]) for let in one.lets}
        let, axes = self._lets[one.name][body.name]
        if body.index is not None:
            env = {**env, **dict(zip(axes, [e.evaluate(env) for e in body.index]))}
        key = one.name, body.name, tuple([env[a] for a in axes])
        if key not in self._known:
            self._known[key] = self._of(let.expr, one, env)
        return self._known[key]

    def _literal(self, body: Literal, one: region.Region, env: Env) -> Any:
        return body.value

    def _index(self, body: Index, one: region.Region, env: Env) -> Any:
        return cast(body.expr.evaluate(env), body.dtype)

    def _elementwise(self, body: Unary | Binary | Ternary, one: region.Region, env: Env) -> Any:
        inside = operands_of(body)
        return applied(body.op, body.dtype, [self._of(o, one, env) for o in inside], inside[0].dtype)

    def _select(self, body: Select, one: region.Region, env: Env) -> Any:
        return self._of(body.then if all(b.holds(env) for b in body.guard) else body.other, one, env)

    def _broadcast(self, body: BroadcastInDim, one: region.Region, env: Env) -> Any:
        return self._of(body.x, one, env)

    def _transpose(self, body: Transpose, one: region.Region, env: Env) -> Any:
        iters = tuple(a.name for a in one.iters)
        present = present_axes(body.x, iters, axes_of_values(one))
        own = [a for a in iters if a in present]
        return self._of(body.x, one, {**env, **{own[p]: env[own[j]] for j, p in enumerate(body.perm)}})

    def _reduce(self, body: Reduce, one: region.Region, env: Env) -> Any:
        names = [a.name for a in body.axes]
        points = self._points(body.axes, one)
        terms = ((point, self._of(body.body, one, {**env, **dict(zip(names, point))})) for point in points)
        if body.op in ("argmax", "argmin"):
            return self._numbers.extreme(body.op, [self._size(a, one) for a in body.axes], terms)
        return self._numbers.fold(body.op, body.dtype, (term for _, term in terms))

    def _scan(self, body: Scan, one: region.Region, env: Env) -> Any:
        here, axis = env[body.axis], next(a for a in one.iters if a.name == body.axis)
        before = [n for (n,) in self._points((axis,), one) if (n >= here if body.reverse else n <= here)]
        places = [n for n in before if n != here or not body.exclusive]
        terms = (self._of(body.body, one, {**env, body.axis: n}) for n in places)
        return self._numbers.fold(body.op, body.dtype, terms)

    def _gather(self, body: Gather, one: region.Region, env: Env) -> Any:
        place, size = self._of(body.at, one, env), self._size(body.axis, one)
        place += size if place < 0 else 0
        return self._of(body.body, one, {**env, body.axis.name: place}) if 0 <= place < size else cast(0, body.dtype)

    def _scatter(self, body: Scatter, one: region.Region, env: Env) -> Any:
        total, names = self._of(body.base, one, env), [a.name for a in body.axes]
        size = self._size(next(a for a in one.iters if a.name == body.axis), one)
        for point in self._points(body.axes, one):
            inside = {**env, **dict(zip(names, point))}
            place = self._of(body.at, one, inside)
            if place + (size if place < 0 else 0) == env[body.axis]:
                update = self._of(body.update, one, inside)
                total = update if body.op == "update" else folded(body.op, total, update)
        return total if body.dtype.is_float else round_to(body.dtype, total)

    def _random(self, body: Random, one: region.Region, env: Env) -> Any:
        return self._numbers.random(body.seed, body.offset, body.index.evaluate(env), body.dtype)


_FORMS: Mapping[type, Callable[..., Any]] = {
    Read: RegionElements._read,
    Ref: RegionElements._ref,
    Literal: RegionElements._literal,
    Index: RegionElements._index,
    Unary: RegionElements._elementwise,
    Binary: RegionElements._elementwise,
    Ternary: RegionElements._elementwise,
    Select: RegionElements._select,
    BroadcastInDim: RegionElements._broadcast,
    Transpose: RegionElements._transpose,
    Reduce: RegionElements._reduce,
    Scan: RegionElements._scan,
    Gather: RegionElements._gather,
    Scatter: RegionElements._scatter,
    Random: RegionElements._random,
}


def alike(one: Number, other: Number) -> bool:
    """Whether two numbers are the same but for roundings."""
    if one.__class__ is not float and other.__class__ is not float:
        return one == other
    if one != one or other != other:
        return one != one and other != other
    return one == other or abs(one - other) <= 1e-5 * max(abs(one), abs(other)) and math.isfinite(one - other)
