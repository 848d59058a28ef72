"""One region as several, one after another: what one part hands to a later one is in a buffer between them.

A value with a home is computed there, and later parts read it from memory; any other is computed again in each part
that uses it. A part has the axes that something in it varies along or folds, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain, count

from ...analysis.regions import analyse
from ...ir.body import Axis, Body, BroadcastInDim, Read, Reduce, Ref, Scan, Scatter, rebuild, walk
from ...ir.expr import ONE, ZERO, Expr
from ...ir.present import axes_of_values
from ...ir.region import Let, Module, Program, Region, Tensor, Yield
from ...ir.traits import axes_of
from ...ir.types import TensorType
from ...kit.records import dataclass, replace


def point_of(shape: Sequence[Expr]) -> tuple[tuple[Axis, ...], tuple[Expr, ...]]:
    """The axes of a region that makes a tensor of this shape, and its point there: dims of one element have none."""
    iters = tuple(Axis(f"i{n}", size) for n, size in enumerate(s for s in shape if s != ONE))
    numbers = iter(iters)
    return iters, tuple(ZERO if size == ONE else Expr.of(next(numbers).name) for size in shape)


@dataclass
class Names:
    """The names of memory and of regions that a program has already."""

    memory: set[str]
    regions: set[str]

    @classmethod
    def of(cls, module: Module) -> Names:
        """Those of a module."""
        tensors = (*module.model.inputs, *module.model.outputs, *module.program.buffers)
        return cls({t.name for t in tensors} | set(module.model.symbols()), {r.name for r in module.program.regions})

    def taken_by(self, parts: Sequence[Region]) -> None:
        """What parts have taken is taken."""
        self.memory |= {t.name for p in parts for t in p.outputs}
        self.regions |= {p.name for p in parts}


def free_name(wanted: str, taken: Container[str]) -> str:
    """`wanted`, or wanted.2, wanted.3, ... where it is taken."""
    return next(name for name in chain((wanted,), (f"{wanted}.{number}" for number in count(2))) if name not in taken)


def numbered_name(base: str, taken: Container[str]) -> str:
    """The first of base0, base1, ... that is free: axes have such names."""
    return next(name for name in (f"{base}{number}" for number in count()) if name not in taken)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a rewrite of one region may ask: the names that are taken, the microseconds of a region's best plan
    (infinite without one), the symbols' values of the first shape set, the microseconds that a region takes at the
    least in this number of launches, and the constants of the model."""

    names: Names
    time_of: Callable[[Region], float]
    sizes: Mapping[str, int]
    least_of: Callable[[Region, int], float] = lambda region, launches: 0.0
    constants: frozenset[str] = frozenset()


@dataclass
class Parts:
    """A region, the number of the part in which each value that has a `home` is computed, and that of each write."""

    region: Region
    home: Mapping[str, int]
    written: Sequence[int]
    names: Names

    def __post_init__(self) -> None:
        self.axes_of = axes_of_values(self.region)
        self.count = 1 + max((*self.home.values(), *self.written), default=0)
        self.items = [self._items(number) for number in range(self.count)]
        handed = {
            name
            for number, items in enumerate(self.items)
            for i in items
            for name in refs_of(i.expr)
            if self.home.get(name, number) != number
        }
        self.buffers = {name: self._buffer(name) for name in (let.name for let in self.region.lets) if name in handed}

    def regions(self, wanted: Sequence[Sequence[str]]) -> tuple[Region, ...]:
        """The parts in order. `wanted` are the names for each, of which it gets the first that is free."""
        free, found = set(self.names.regions) - {self.region.name}, []
        for number in range(self.count):
            name = next((n for n in wanted[number] if n not in free), f"{self.region.name}.{number + 1}")
            free.add(name)
            found.append(replace(self.part(number), name=name))
        return tuple(found)

    def part(self, number: int) -> Region:
        """One part, under the region's name."""
        items = [replace(i, expr=self._from_memory(i.expr, number)) for i in self.items[number]]
        for value, buffer in self.buffers.items():
            if self.home[value] == number:
                items.append(
                    Yield(buffer.name, tuple(map(Expr.of, self.axes_of[value])), Ref(value, buffer.type.dtype))
                )
        lets, yields = (tuple(i for i in items if isinstance(i, kind)) for kind in (Let, Yield))
        return region_of(self.region.name, self.region, lets, yields, tuple(self.buffers.values()))

    def _items(self, number: int) -> list[Let | Yield]:
        """The values and writes of a part, in the region's order."""
        items: list[Let | Yield] = [y for y, n in zip(self.region.yields, self.written) if n == number]
        used = {name for y in items for name in refs_of(y.expr)}
        for let in reversed(self.region.lets):
            if self.home.get(let.name, number if let.name in used else None) == number:
                items.insert(0, let)
                used.update(refs_of(let.expr))
        return items

    def _buffer(self, value: str) -> Tensor:
        size_of = {a.name: a.size for a in self.region.iters}
        return Tensor(
            free_name(value, self.names.memory),
            TensorType(self.region.let(value).expr.dtype, tuple(size_of[a] for a in self.axes_of[value])),
        )

    def _from_memory(self, body: Body, number: int) -> Body:
        if isinstance(body, Ref) and self.home.get(body.name, number) != number:
            point = body.index if body.index is not None else tuple(map(Expr.of, self.axes_of[body.name]))
            return Read(self.buffers[body.name].name, point, body.dtype, span=body.span)
        return rebuild(body, lambda inner: self._from_memory(inner, number))


def region_of(
    name: str, whole: Region, lets: tuple[Let, ...], yields: tuple[Yield, ...], buffers: tuple[Tensor, ...]
) -> Region:
    """A region of these values and writes, with the tensors that they name and those of the axes that they use; its
    span is that of the `whole` that it is a part of."""
    known = {t.name: t for t in (*whole.inputs, *whole.outputs, *buffers)}
    read = dict.fromkeys(n.tensor for item in (*lets, *yields) for n in walk(item.expr) if isinstance(n, Read))
    written = dict.fromkeys(y.output for y in yields)
    used = {name for item in (*lets, *yields) for name in _axes_in(item.expr)} | {
        name for y in yields for e in y.index for name in e.names()
    }
    is_whole = any(
        isinstance(n, BroadcastInDim) and n.axes is None for item in (*lets, *yields) for n in walk(item.expr)
    )
    kept = tuple(a for a in whole.iters if is_whole or a.name in used)
    part = Region(
        name, tuple(known[t] for t in read), tuple(known[t] for t in written), kept, lets, yields, span=whole.span
    )
    return replace(part, analysis=analyse(part))


def with_parts(module: Module, parts: Mapping[str, Sequence[Region]]) -> Module:
    """The module with the parts of each region, by its name, in its place."""
    if all(several == (module.program.region(name),) for name, several in parts.items()):
        return module
    known = {t.name for one in module.program.regions for t in one.inputs + one.outputs}
    made = {t.name: t for several in parts.values() for one in several for t in one.outputs if t.name not in known}
    regions = tuple(one for several in parts.values() for one in several)
    return replace(module, program=Program(module.program.name, (*module.program.buffers, *made.values()), regions))


def refs_of(body: Body) -> Iterator[str]:
    """The values that an expression names."""
    return (n.name for n in walk(body) if isinstance(n, Ref))


def _axes_in(body: Body) -> Iterator[str]:
    """Every name of an axis in an expression, those of its folds too."""
    yield from axes_of(body)
    for node in walk(body):
        if isinstance(node, Reduce):
            yield from (a.name for a in node.axes)
        elif isinstance(node, (Scan, Scatter)):
            yield node.axis
        elif isinstance(node, Ref) and node.index is not None:
            yield from (n for e in node.index for n in e.names())
        elif isinstance(node, BroadcastInDim) and node.axes is not None:
            yield from node.axes
