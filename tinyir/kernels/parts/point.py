"""A region's expressions at one point: axes become integers of the thread, values become what the kernel has
computed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...ir.accumulate import literal, wide
from ...ir.body import (
    Axis,
    Body,
    BroadcastInDim,
    Gather,
    Literal,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Transpose,
    Unary,
    rebuild,
    substitute,
    walk,
)
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_movement
from ...ir.present import axes_of_values, present_axes
from ...ir.region import Region, Yield
from ...ir.traits import bodies_of, extent_of
from ...ir.types import DTYPES
from ...kit.names import FreeNames
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field, replace
from .beyond import beyond_in

Point = Mapping[str, Expr]


def element_store(
    item: Yield,
    body: Body,
    point: Point,
    axes: Iterable[Axis],
    inside: tuple[Bound, ...] = (),
    over: tuple[tuple[str, Expr], ...] = (),
    vector: int = 1,
) -> Statement:
    """The store of one element of an output (or of `vector` of them, side by side `over` a name) where it is inside.
    Of the points along those `axes` of the kernel that the output lacks, the first alone writes."""
    used = {name for e in item.index for name in e.names()}
    guard = inside + tuple(b.substitute(point) for b in item.guard)
    guard += tuple(Bound(point[a.name], equals=ZERO) for a in axes if a.name not in used and a.size != ONE)
    store = nodes.Store(Place(item.output, tuple(e.substitute(point) for e in item.index)), body, over, vector)
    return nodes.If(guard, (store,)) if guard else store


def split(index: Expr, axes: Sequence[Axis]) -> dict[str, Expr]:
    """The axes' coordinates, the first outermost, of the element number `index` of their product."""
    point: dict[str, Expr] = {}
    inner = ONE
    for position in range(len(axes) - 1, -1, -1):
        size = axes[position].size if axes[position].size.constant != 0 else ONE  # of no points none is ever split
        whole = index // inner
        point[axes[position].name] = whole if position == 0 else whole - size * (index // (inner * size))
        inner = inner * size
    return point


def named(axes: Sequence[Axis], index: Expr, number: str) -> tuple[Expr, tuple[tuple[str, Expr], ...]]:
    """Integers that name each axis at the element number `index` of their product, and the number's own name: the axis
    where there is one, else `number`."""
    if len(axes) == 1:
        return Expr.of(axes[0].name), ((axes[0].name, index),)
    parts = split(Expr.of(number), axes)
    return Expr.of(number), ((number, index), *((a.name, parts[a.name]) for a in axes))


def numbered(
    axes: Sequence[Axis], fresh: Fresh, number: Expr, word: str, lines: Iterable[Statement], is_guarded: bool
) -> tuple[Statement, ...]:
    """The lines at the point of the axes that has this number, where there is one (`is_guarded`: there may be none).
    The number bears the name of the one axis, or is called `word`."""
    name = axes[0].name if len(axes) == 1 else fresh.name(word)
    places = split(Expr.of(name), axes) if len(axes) > 1 else {}
    inner = (*(nodes.Let(a.name, places[a.name]) for a in axes if places), *lines)
    guard = below(Expr.of(name), extent_of(axes)) if is_guarded else ()
    return (nodes.Let(name, number), *((nodes.If(guard, inner),) if guard else inner))


def below(index: Expr, extent: Expr) -> tuple[Bound, ...]:
    """The guard `index < extent`; empty when the numbers alone say so."""
    margin = (extent - index).constant
    return () if margin is not None and margin > 0 else (Bound(index, upper=extent),)


def divides(tile: int, extent: Expr) -> bool:
    """True when the extent is a multiple of `tile` for all symbols."""
    return all(c % tile == 0 for c, _ in extent.terms)


def guarded(guard: tuple[Bound, ...], body: Body) -> Body:
    """`body where guard else 0`, one Select where the body is one already."""
    if isinstance(body, Select) and isinstance(body.other, Literal) and body.other.value == 0:
        guard, body = tuple(dict.fromkeys((*guard, *body.guard))), body.then
    return Select(guard, body, literal(0, body.dtype), body.dtype) if guard else body


def from_shared(body: Body, held: dict[Body, Body]) -> Body:
    """The expression with what is in shared memory read from there."""
    return held[body] if body in held else rebuild(body, lambda inner: from_shared(inner, held))


class Fresh:
    """Names for what a kernel has and its region has not; a base that the region uses gets a number."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._free = FreeNames(taken)
        self._given: dict[str, str] = {}

    def name(self, base: str) -> str:
        """A new name each time: `y.acc`, then `y.acc2`."""
        return self._free.name(base)

    def of(self, base: str) -> str:
        """The same name each time for one base."""
        if base not in self._given:
            self._given[base] = self.name(base)
        return self._given[base]


def names_in(region: Region) -> set[str]:
    """Every name of a region that is written without `%` in a kernel's text: tensors, symbols, axes."""
    tensors = (*region.inputs, *region.outputs)
    found = {t.name for t in tensors} | {n for t in tensors for e in t.type.shape for n in e.names()}
    axes = [*region.iters, *(a for body in bodies_of(region) for n in walk(body) for a in axes_made_by(n))]
    return found | {a.name for a in axes} | {n for a in axes if a.size is not None for n in a.size.names()}


def axes_made_by(body: Body) -> tuple[Axis, ...]:
    """The axes that an expression brings in."""
    return body.axes if isinstance(body, (Reduce, Scatter)) else (body.axis,) if isinstance(body, Gather) else ()


@dataclass
class Values:
    """The values of a region at one point. `known` gives those that the kernel holds, as expressions; the others are
    written out. `emit` writes the statements of a fold, a gather, a scatter or a scan and gives its value. `sides` are
    the guards around what is written, the outermost first, and whether it is what they guard (else what is in its
    place)."""

    region: Region
    point: Point
    known: dict[str, Body] = field(default_factory=dict)
    emit: Callable[[Reduce | Gather | Scan | Scatter, Values], Body] | None = None
    sides: tuple[tuple[tuple[Bound, ...], bool], ...] = ()

    def at(self, body: Body) -> Body:
        """The expression at this point: no axis and no movement is left in it."""
        if isinstance(body, Ref):
            return self._value(body)
        if isinstance(body, (BroadcastInDim, Transpose)):
            return self._moved(body).at(body.x)
        if isinstance(body, (Reduce, Gather, Scan, Scatter)):
            if self.emit is not None:
                return self.emit(body, self)
            raise beyond_in(self.region, body.span, Phrase("a {node}", node=type(body).__name__.lower()))
        if isinstance(body, Select):
            guard = substitute_here(body, self.point).guard
            sides = (
                replace(self, sides=(*self.sides, (guard, is_then))).at(side)
                for side, is_then in ((body.then, True), (body.other, False))
            )
            return Select(guard, *sides, body.dtype, span=body.span)
        return substitute_here(rebuild(body, self.at), self.point)

    def name_values(self, through: Callable[[Body], Body] = lambda body: body) -> list[Statement]:
        """Statements that give the values which the outputs need, and which are not known yet, their names; what each
        is goes `through` first."""
        lines: list[Statement] = []
        for name in needed(self.region, (y.expr for y in self.region.yields)):
            if name not in self.known:
                let = self.region.let(name)
                lines.append(nodes.Value(name, through(self.at(let.expr))))
                self.known[name] = Ref(name, let.expr.dtype)
        return lines

    def shielded(self, body: Body) -> Body:
        """An expression of a statement before the guards, which reads nothing that they keep from being read."""
        for guard, is_then in reversed(self.sides):
            body = guarded(guard, body) if is_then else Select(guard, literal(0, body.dtype), body, body.dtype)
        return body

    def _value(self, ref: Ref) -> Body:
        if ref.index is None and ref.name in self.known:
            return self.known[ref.name]
        let = self.region.let(ref.name)
        if ref.index is None:
            return self.at(let.expr)
        free = free_axes(self.region, let.expr)
        moved = dict(zip(free, (e.substitute(self.point) for e in ref.index)))
        return self._elsewhere({**self.point, **moved}).at(let.expr)

    def _moved(self, body: BroadcastInDim | Transpose) -> Values:
        free = free_axes(self.region, body.x)
        if isinstance(body, Transpose):
            targets = {free[p]: free[j] for j, p in enumerate(body.perm)}
        else:
            axes = body.axes if body.axes is not None else tuple(a.name for a in self.region.iters)
            targets = {name: axes[d] for name, d in zip(free, body.dims)}
        moved = {name: self.point[target] for name, target in targets.items() if name != target}
        return self._elsewhere({**self.point, **moved}) if moved else self

    def _elsewhere(self, point: Point) -> Values:
        same = {
            name: body
            for name, body in self.known.items()
            if all(point[a] == self.point[a] for a in free_axes(self.region, self.region.let(name).expr))
        }
        return replace(self, point=point, known=same)


def is_in_place(region: Region, body: Body) -> bool:
    """Whether a broadcast takes its operand at the point itself: its axes keep their names."""
    if not isinstance(body, BroadcastInDim):
        return False
    axes = body.axes if body.axes is not None else tuple(a.name for a in region.iters)
    return all(name == axes[d] for name, d in zip(free_axes(region, body.x), body.dims))


def substitute_here(body: Body, point: Point) -> Body:
    """One node with its own indices and guards at `point`; what is inside it stays as it is."""
    inner: list[Body] = []
    hollow = rebuild(body, lambda b: inner.append(b) or _HOLE)
    filled = iter(inner)
    return rebuild(substitute(hollow, point), lambda _: next(filled))


_HOLE = Read("", (), DTYPES["bool"])


def free_axes(region: Region, body: Body) -> tuple[str, ...]:
    """The region's axes that an expression varies along, in the order of `for`."""
    iters = tuple(a.name for a in region.iters)
    found = present_axes(body, iters, _axes_of(region))
    return tuple(name for name in iters if name in found)


# Values refer to values, each to several: what a value varies along is found once, since there may be 2**30 ways to it.
_axes_of = functools.lru_cache(maxsize=1024)(axes_of_values)


def needed(region: Region, bodies: Iterable[Body]) -> tuple[str, ...]:
    """The values that the expressions use, directly or through others, in the region's order."""
    wanted: set[str] = set()
    stack = list(bodies)
    while stack:
        for node in walk(stack.pop()):
            if isinstance(node, Ref) and node.name not in wanted:
                wanted.add(node.name)
                stack.append(region.let(node.name).expr)
    return tuple(let.name for let in region.lets if let.name in wanted)


def carried(region: Region) -> frozenset[str]:
    """The values that are only written, and moved or rounded for it: they have no name of their own, so that 16 bits
    stay 16 bits."""
    used = [n.name for body in bodies_of(region) for n in walk(body) if isinstance(n, Ref)]
    whole = [y.expr.name for y in region.yields if isinstance(y.expr, Ref) and y.expr.index is None]
    return frozenset(
        let.name
        for let in region.lets
        if used.count(let.name) == whole.count(let.name) == 1
        and (
            is_movement(let.expr)
            or isinstance(let.expr, Unary)
            and let.expr.op == "cast"
            and let.expr.dtype != wide(let.expr.dtype)
        )
    )


def choice(gather: Gather, values: Values, name: str, lines: list[Statement]) -> Body:
    """The value at the place that a gather chooses; 0 where there is no such place. The place goes to `lines` as the
    integer `name`, before what is folded there, which reads nothing where there is none."""
    lines.append(nodes.Choose(name, values.shielded(values.at(gather.at)), gather.axis.size))
    found = (Bound(Expr.of(name), lower=ZERO),)
    there = replace(
        values, point={**values.point, gather.axis.name: Expr.of(name)}, sides=(*values.sides, (found, True))
    )
    return guarded(found, there.at(gather.body))
