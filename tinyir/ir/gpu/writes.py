"""Every element of a result is written by one thread, once: counted by isl over all threads of a launch, at sizes that
the kernel assumes.

The points at which a store runs (CTA, thread, turns of loops) and what it writes there are an isl map. It must take no
two points to one element, no two stores may meet, and together they must reach all that the regions yield. Sizes are
numbers here: those of a shape set, or others that are no multiples of any tile, as far as the kernel allows.

A store is passed over with its tensor where isl cannot follow it: at a place or under a guard that the data decide, or
that depends on which thread holds an element of a matrix. An atomic is not a store: it folds into what was written
before (`ir.gpu.atomics`).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, cycle
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.groups import lists_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from ..expr import ONE, ZERO, Bound, Expr
from ..scope import floors_in, has_floor
from ..sets import read_set, within_steps
from . import nodes
from .boxes import Uneven, boxed
from .extremes import EXTREMES
from .listed import TooMany, elements_of, judged
from .nodes import Kernel, Statement
from .points import (
    THREAD,
    Guarded,
    Lost,
    Point,
    Ranged,
    depends,
    map_of,
    start_of,
    takes_turns,
    with_threads,
    without,
    without_threads,
)
from .walk import tensors_of

SIZES = (1037, 845, 629, 1153, 511, 761, 423, 319)  # several tiles, and no multiples of one
# (multiplied by, divided by): for kernels that assume multiples, or few
MANNERS = ((1, 1), (2, 4), (4, 4), (8, 8), (64, 64), (1, 16))
HELD_BY = {"wgmma": 128, "mma": 32}  # threads that hold a matrix together
LIMITS = (  # of the points of each store to a tensor, and its elements, in a list; of isl's steps for one tensor
    (1 << 12, 2_000),  # a millisecond for each
    (1 << 18, 30_000),  # some hundredths of a second, a second at most
    (None, 60_000),  # where the elements are too many for a list; a step takes the longer the more there were
)
MOST_DIGITS = 6  # dims of which any may be digits of one number
NO_CTA = Phrase("is for some tile of no CTA")
NO_TURNS = Phrase("does not give each number to one CTA: they begin at others than the steps take in turn")
TWICE, BOTH = Phrase("has an element that this writes twice"), Phrase("has an element that two stores write")


@dataclass(frozen=True, slots=True)
class _Write:
    """A store: the points at which it runs, and the element that it writes there, by its index in terms of the dims,
    and inside of `clip`."""

    statement: Statement
    tensor: str
    point: Point
    index: tuple[Expr, ...]
    clip: tuple[int, ...]

    @property
    def map(self) -> Any:
        """Points -> elements."""
        return map_of(self.point, self.index, self.clip)

    def numbered(self, shape: Sequence[int], digits: Sequence[int]) -> tuple[Expr, ...]:
        """The index with the number that these dims of a tensor of such a shape make, and then the other dims: the
        digits of a number make that number again. That the index is inside the shape is proven elsewhere."""
        number = functools.reduce(lambda number, dim: shape[dim] * number + self.index[dim], digits, ZERO)
        return number, *(e for dim, e in enumerate(self.index) if dim not in digits)


def check_writes(module: Any) -> Iterator[Diag]:
    """E1619 of every launch, a kernel with those that serve it: an element that two points write, or none."""
    program = module.plans.program.program
    for kernel in module.kernels:
        if kernel.serves:
            continue
        kernels = (kernel, *(k for k in module.kernels if k.serves == kernel.name))
        yielded = lists_of(
            (item.output, ([(a.name, a.size) for a in region.iters], item.index, item.guard))
            for region in map(program.region, kernel.regions)
            for item in region.yields
        )
        yield from _check_launch(kernels, module.plans.program.model, tensors_of(kernel, module), yielded)


def _check_launch(
    kernels: tuple[Kernel, ...], model: Any, tensors: Mapping[str, Any], yielded: Mapping[str, list[Any]]
) -> Iterator[Diag]:
    """`yielded`: (axes, index, guard) of each tensor's yields; a tensor without any must be written whole."""
    sizes = _sizes_for(kernels, model, [d for t in tensors.values() for d in t.type.shape])
    if sizes is None:
        return
    writes: dict[str, list[_Write]] = {}
    lost: set[str] = set()
    is_empty = bool(yielded) and not any(
        math.prod(e.evaluate(sizes) for e in tensors[name].type.shape) for name in yielded
    )
    for kernel in kernels:
        if is_empty and any(e.evaluate(sizes) <= 0 for e in kernel.grid):
            continue  # no CTA, for results of no element: indices may divide by their empty axes
        walk = _Walk(kernel, tensors, sizes)
        walk.block(kernel.body, start_of(kernel, sizes))
        lost |= walk.lost
        for one in walk.left_out[:1]:
            is_loop = isinstance(one, nodes.For)
            name = one.name if is_loop else f"[{', '.join(one.names)}]"
            yield _fault(kernel, name, NO_TURNS if is_loop else NO_CTA, sizes, one)
        for write in walk.writes:
            writes.setdefault(write.tensor, []).append(write)
    for name, found in writes.items():
        if name not in lost:
            yield from _Judging(kernels[0], name, found, tensors[name], sizes, yielded.get(name, [])).faults()


@dataclass(frozen=True, slots=True)
class _Judging:
    """Whether the stores to a tensor write each of its elements once."""

    kernel: Kernel
    name: str
    writes: list[_Write]
    tensor: Any
    sizes: Mapping[str, int]
    yields: list[Any]

    def faults(self) -> Iterator[Diag]:
        """What a list of all elements says, or isl of the stores, each with its map: a list where it is short, isl
        where it takes few steps; else the same with higher limits in turn."""
        for points, steps in LIMITS:
            found: list[Diag] | None = None
            with contextlib.suppress(TooMany):
                found = list(self._by_list(points))
            if found is None:
                maps, wanted = self._asked_of_isl()
                with within_steps(steps):
                    found = list(self._by_isl(maps, wanted))
            if found is not None:
                yield from found
                return

    def _asked_of_isl(self) -> tuple[list[Any], Any]:
        """The map of each store, points -> elements, and the elements that they must write; None: what the yields
        say."""
        found = _in_numbers(self.writes, self.tensor, self.sizes, self.yields)
        return found or ([write.map for write in self.writes], None)

    def _fault(self, words: Phrase, s: Statement, *other: Statement) -> Diag:
        return _fault(self.kernel, self.name, words, self.sizes, s, *other)

    def _by_isl(self, maps: list[Any], wanted: Any) -> Iterator[Diag]:
        writes = self.writes
        for write, written in zip(writes, maps):
            if not written.is_injective():
                yield self._fault(TWICE, write.statement)
                return
        for (one, here), (other, there) in combinations(zip(writes, maps), 2):
            if not here.range().is_disjoint(there.range()):
                yield self._fault(BOTH, other.statement, one.statement)
                return
        if self._is_all_wanted() and sum(map(_points_of, writes)) == math.prod(
            e.evaluate(self.sizes) for e in self.tensor.type.shape
        ):
            return  # each element has a point of its own, and there are as many points
        left = (_wanted(self.tensor, self.sizes, self.yields) if wanted is None else wanted).subtract(
            functools.reduce(lambda a, b: a.union(b), (written.range() for written in maps))
        )
        if not left.is_empty():
            at = left.sample_point().to_str().strip("{ }")
            yield self._fault(_left(at), writes[-1].statement)

    def _by_list(self, most: int | None) -> Iterator[Diag]:
        """Of `most` elements, and points of each store, at most; by boxes where all write these. Raises TooMany."""
        shape = [e.evaluate(self.sizes) for e in self.tensor.type.shape]
        if most is not None and math.prod(shape) > most:
            raise TooMany
        asked = [] if self._is_all_wanted() else [*_yielded(self.sizes, self.yields)]
        alone = (1,) * len(shape)
        sides, writes = boxed(self.writes, shape) if not asked else (alone, self.writes)
        try:
            wrong = self._judged(writes, asked, shape, sides, most)
        except Uneven:
            sides = alone
            wrong = self._judged(self.writes, asked, shape, sides, most)
        if wrong is None:
            return
        what, at = wrong
        if what == "left":
            at = tuple(n * side for n, side in zip(at, sides))
            yield self._fault(_left(f"[{', '.join(map(str, at))}]"), self.writes[-1].statement)
        else:
            first, *others = (self.writes[n].statement for n in reversed(at))
            yield self._fault(TWICE if what == "twice" else BOTH, first, *others)

    def _judged(
        self, writes: Sequence[_Write], asked: list[Any], shape: list[int], sides: Sequence[int], most: int | None
    ) -> tuple[str, tuple[int, ...]] | None:
        """What is wrong with the stores of boxes of these sides. Raises TooMany, Uneven."""
        boxes = [size // side for size, side in zip(shape, sides)]
        clips = [[c // n for c, n in zip(w.clip, sides)] for w in writes]
        lists = [elements_of(w.point, w.index, boxes, clip, most, sides) for w, clip in zip(writes, clips)]
        wanted = [elements_of(*one, shape, shape, most) for one in asked]
        return judged(lists, functools.reduce(_joined, wanted) if wanted else None, boxes)

    def _is_all_wanted(self) -> bool:
        return any(_is_whole(self.tensor, *item) for item in self.yields)


def _points_of(write: _Write) -> float:
    """How many points a store runs at, where its dims are independent of one another; else no number."""
    found = 1
    for held in write.point.holds:
        if isinstance(held.says, Ranged):
            ends = held.says.first.constant, held.says.last.constant
            if None in ends:
                return math.nan
            found *= max(0, -(-(ends[1] - ends[0]) // held.says.step))
        elif isinstance(held.says, Guarded):
            return math.nan
    return math.nan if write.clip else found


def _left(at: str) -> Phrase:
    return Phrase("has an element that nothing writes: {to_str}", to_str=at)


def _joined(one: Any, other: Any) -> Any:
    import numpy as np

    return np.concatenate((one, other))


def _fault(kernel: Kernel, name: str, words: str, sizes: Mapping[str, int], s: Statement, *other: Statement) -> Diag:
    labels = tuple(Label(o.span, Phrase("and by this")) for o in other if o.span)
    shown = ", ".join(f"{k} = {v}" for k, v in sizes.items()) or Phrase("its sizes")
    return Diag("E1619", kernel.name, {"tensor": name, "fault": words, "sizes": shown}, s.span, labels)


def _in_numbers(
    writes: list[_Write], tensor: Any, sizes: Mapping[str, int], yields: list[Any]
) -> tuple[list[Any], Any] | None:
    """Points -> elements of each store, and the elements wanted, with one number in the place of several dims, those by
    which the fewest divisions are left, where the whole tensor is wanted: isl is slow to see that the digits of a
    number, of which a window's matrix has five, tell the numbers apart. An output's images, rows and columns are such
    digits, whose channels may come between them."""
    shape = [e.evaluate(sizes) for e in tensor.type.shape]
    is_whole = not yields or any(_is_whole(tensor, *item) for item in yields)
    if not is_whole or any(write.clip for write in writes):
        return None
    divided = [dim for dim in range(len(shape)) if any(has_floor(write.index[dim]) for write in writes)]
    some = divided[:MOST_DIGITS]
    every = (tuple(range(len(shape))), *(c for n in range(2, len(some) + 1) for c in combinations(some, n)))
    best, least = None, len(floors_in(*(e for write in writes for e in write.index)))
    for digits in every if divided else ():
        found = [write.numbered(shape, digits) for write in writes]
        if (left := len(floors_in(*(e for index in found for e in index)))) < least:
            best, least = (digits, found), left
    if best is None:
        return None
    digits, found = best
    extents = math.prod(shape[dim] for dim in digits), *(size for dim, size in enumerate(shape) if dim not in digits)
    return [map_of(write.point, index) for write, index in zip(writes, found)], _box(extents)


def _is_whole(tensor: Any, axes: list[Any], index: tuple[Expr, ...], guard: tuple[Bound, ...]) -> bool:
    """Whether a yield is of every element: an axis of the tensor's own size for each of its dims."""
    extents = dict(axes)
    places = [(e.name, size) for e, size in zip(index, tensor.type.shape) if (e, size) != (ZERO, ONE)]
    return (
        not guard
        and len({name for name, _ in places}) == len(places)
        and all(extents.get(name) == size for name, size in places)
    )


def _box(shape: Sequence[int]) -> Any:
    """The places inside a shape."""
    box = " and ".join(f"0 <= e{n} < {size}" for n, size in enumerate(shape))
    return read_set(f"{{ [{', '.join(f'e{n}' for n in range(len(shape)))}] : {box or 'true'} }}", ())


def _wanted(tensor: Any, sizes: Mapping[str, int], yields: list[Any]) -> Any:
    whole = _box([e.evaluate(sizes) for e in tensor.type.shape])
    found = None
    for point, index in _yielded(sizes, yields):
        image = map_of(point, index).range()
        found = image if found is None else found.union(image)
    return whole if found is None else found.intersect(whole)


def _yielded(sizes: Mapping[str, int], yields: list[Any]) -> Iterator[tuple[Point, tuple[Expr, ...]]]:
    """The points of each yield that can be followed, with the index that it yields to."""
    for axes, index, guard in yields:
        point = Point((), (), {n: Expr.of(v) for n, v in sizes.items()})
        for axis, size in axes:
            point = point.with_dim(axis, Expr.of(0), size)
        with contextlib.suppress(Lost):
            point = point.under(guard)
            yield point, tuple(map(point.expr, index))


def _sizes_for(kernels: tuple[Kernel, ...], model: Any, dims: list[Expr]) -> dict[str, int] | None:
    """Sizes of all symbols that the kernels assume, none of them large, and at which no dim is negative; None where
    none is found."""
    symbols = list(model.symbols())
    sets = [dict(s.sizes) for s in model.shape_sets]
    odd = [dict(zip(symbols, (step * (size // part) for size in cycle(SIZES)))) for step, part in MANNERS]
    for sizes in (*odd, *sets):
        inside = all(model.range_of(n).low <= v <= model.range_of(n).high for n, v in sizes.items())
        guards = [b for k in kernels for s in k.body if isinstance(s, nodes.Assume) for b in s.guard]
        if inside and len(sizes) == len(symbols) and all(b.holds(sizes) for b in guards):
            if all(d.evaluate(sizes) >= 0 for d in dims):
                return sizes
    return None


class _Walk:
    """Gathers the stores to tensors with the points at which they run."""

    def __init__(self, kernel: Kernel, tensors: Mapping[str, Any], sizes: Mapping[str, int]):
        self.kernel, self.tensors, self.sizes = kernel, tensors, sizes
        self.writes: list[_Write] = []
        self.lost: set[str] = set()
        self.arrays: dict[str, Any] = {}
        self.left_out: list[nodes.Order | nodes.For] = []  # of which no CTA takes some tile, or several take one

    def block(self, body: Iterable[Statement], point: Point) -> None:
        for s in body:
            try:
                point = self._one(s, point)
            except Lost:
                self.lost |= set(_tensors_written((s,), self.arrays))

    def _one(self, s: Statement, point: Point) -> Point:
        """The point behind a statement."""
        if isinstance(s, (nodes.Shared, nodes.Reg, nodes.TensorMap, nodes.Pick)):
            self.arrays[s.name] = s
        enter = self._ENTERED.get(type(s))
        if enter is not None:
            enter(self, s, point)
        behind = self._BEHIND.get(type(s))
        return point if behind is None else behind(self, s, point)

    def _let(self, s: nodes.Let, point: Point) -> Point:
        return point.with_name(s.name, s.value)

    def _unknown(self, s: Any, point: Point) -> Point:
        """Integers that are not followed: data decide them, or how often a cursor has advanced."""
        parts = ("slot", "phase", "previous")
        names = [f"{s.name}.{part}" for part in parts] if isinstance(s, nodes.Cursor) else [s.name]
        return replace(point, lost=point.lost.union(names))

    def _ticket(self, s: nodes.Ticket, point: Point) -> Point:
        """In any order the CTAs get each number once."""
        return without(point, {"cta.x"}).with_dim(s.name, ZERO, s.extent)

    def _if(self, s: nodes.If, point: Point) -> None:
        self.block(s.body, point.under(s.guard))
        self.block(s.otherwise, point.under(s.guard, is_broken=True))

    def _role(self, s: nodes.Role, point: Point) -> None:
        unit = 128 if s.unit == "warpgroups" else 32
        self.block(s.body, with_threads(without_threads(point), self.kernel, unit * s.first, unit * s.last))

    def _store_rows(self, s: nodes.StoreRows, point: Point) -> None:
        self._store(s, self._by_one(point, 128)[0])

    def _loop(self, s: nodes.For, point: Point) -> None:
        step = point.expr(s.step).constant
        if step is None or step < 1:
            raise Lost
        if not takes_turns(s, self.kernel):
            self.left_out.append(s)
        self.block(s.body, point.with_dim(s.name, s.low, s.high, step))

    def _order(self, s: nodes.Order, point: Point) -> Point:
        """The tile's coordinates take the place of what its number is made of, which must give each number once."""
        tile = point.expr(s.tile)
        extents = [point.expr(e).constant for e in s.extents]
        if None in extents:
            raise Lost
        gone = {d for d in tile.names() if depends(tile, d, point)}
        while (more := {d for h in point.holds if h.dims & gone for d in h.dims}) - gone:
            gone |= more
        holds = tuple(h for h in point.holds if h.dims & gone)
        fixed = tile.substitute(dict.fromkeys(set(tile.names()) - gone, 0))
        numbers = map_of(Point(tuple(d for d in point.dims if d in gone), holds, {}), (fixed,))
        if not read_set(f"{{ [e0] : 0 <= e0 < {math.prod(extents)} }}", ()).is_subset(numbers.range()):
            self.left_out.append(s)
        if not numbers.is_injective():
            raise Lost  # the parts of one tile, which are summed
        found = without(point, gone)
        for name, extent in zip(s.names, extents):
            found = found.with_dim(name, Expr.of(0), Expr.of(extent))
        return found

    def _each(self, s: nodes.Each, point: Point) -> None:
        """Each element of the matrix once, by one of the threads that hold it; which one is not known."""
        array = self.arrays.get(s.of)
        unit = HELD_BY.get(getattr(array, "kind", ""))
        if unit is None:
            raise Lost
        inside, lost = self._by_one(point, unit)
        inside = replace(inside, lost=inside.lost | lost)
        for name, size in zip(s.names, map(Expr.of, s.size) if s.size else array.type.shape):
            inside = inside.with_dim(name, Expr.of(0), size)
        self.block(s.body, inside)

    def _by_one(self, point: Point, unit: int) -> tuple[Point, set[str]]:
        """The points of one of a number of threads that do something together, and the names that tell them apart."""
        lost = {"lane", "thread.index", "thread.x", "thread.y", "thread.z", "warpgroup.thread"} | (
            {"warp.index"} if unit == 128 else set()
        )
        if (
            not any(f"{part} number" in point.dims for part in (("warpgroup",) if unit == 128 else ("warp",)))
            and self.kernel.threads > unit
        ):
            raise Lost
        one = tuple(
            Bound(Expr.of(d), equals=Expr.of(0))
            for d in point.dims
            if d == THREAD or unit == 128 and d == "warp number"
        )
        return replace(point, names={**point.names, **{d: Expr.of(d) for d in point.dims}}).under(one), lost

    def _store(self, s: Any, point: Point) -> None:
        picked = self.arrays.get(s.to.name)
        if isinstance(picked, nodes.Pick):
            for number, name in enumerate(picked.of):
                self._store_to(s, name, point.under((Bound(picked.at, equals=Expr.of(number)),)))
        else:
            self._store_to(s, s.to.name, point)

    def _store_to(self, s: Any, target: str, point: Point) -> None:
        box = self.arrays.get(target)
        name = box.tensor if isinstance(box, nodes.TensorMap) else target
        if name not in self.tensors or name in self.arrays:
            return
        box = s if isinstance(s, nodes.StoreRows) else box if isinstance(box, nodes.TensorMap) else None
        if box is not None and box.dims:
            raise Lost
        index, clip = list(s.to.index), ()
        if box is not None:
            for n, side in enumerate(box.box):
                point = point.with_dim(f"box{n}", Expr.of(0), side)
                index[n] = index[n] + Expr.of(f"box{n}")
            clip = tuple(e.evaluate(self.sizes) for e in self.tensors[name].type.shape)
        for axis, size in getattr(s, "over", ()):
            point = point.with_dim(axis, Expr.of(0), size)
        plain = replace(point, names={d: Expr.of(d) for d in point.dims}, lost=frozenset())
        self.writes.append(_Write(s, name, plain, tuple(map(point.expr, index)), clip))

    _ENTERED = {
        nodes.For: _loop,
        nodes.If: _if,
        nodes.Role: _role,
        nodes.Each: _each,
        nodes.StoreRows: _store_rows,
        nodes.Store: _store,
        nodes.TmaStore: _store,
    }
    _BEHIND = {
        nodes.Let: _let,
        nodes.Choose: _unknown,
        **dict.fromkeys(EXTREMES, _unknown),
        nodes.Cursor: _unknown,
        nodes.Ticket: _ticket,
        nodes.Order: _order,
    }


def _tensors_written(body: Iterable[Statement], arrays: Mapping[str, Any]) -> Iterator[str]:
    for s in body:
        if isinstance(s, (nodes.Store, nodes.TmaStore, nodes.StoreRows)):
            for name in getattr(arrays.get(s.to.name), "of", (s.to.name,)):
                yield getattr(arrays.get(name), "tensor", name)
        yield from _tensors_written(getattr(s, "body", ()), arrays)
        yield from _tensors_written(getattr(s, "otherwise", ()), arrays)
