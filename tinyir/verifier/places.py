"""What a kernel's text says of its integers at each statement, and what has to be shown there: every place that it
reads or writes is inside, every divisor is positive, and every element of a tensor is written once.

That no element is written twice: each name that tells one execution of a store from all others is an integer of the
element that it writes. That every element is written: the execution that these integers give exists, and writes it.
A certificate says the integers; whether they are those is shown by sums, at all sizes.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .polynomials import (
    FLOORS,
    Key,
    Poly,
    Unreadable,
    add,
    constant,
    floors_in,
    key,
    multiply,
    name,
    names_in,
    number,
    read,
)
from .text import Access, Half, Kernel, Line, Text

OF_TEXT, OF_DATA = "text", "data"  # how a fact is known: as it is written, or as the kernel looks after it when it runs
DEFINED, CLAIMED, DERIVED = range(3)  # a fact that defines a name; one that a point must meet to be one; neither
MATRICES = {"wgmma": ("cta.warp", "lane"), "mma": ("lane",)}  # what tells apart the threads that hold a matrix
STORES = ("store", "tma_store", "store_rows")


class Scope:
    """What holds in a block: facts with how each is known, and the points at which it runs: names that tell one
    execution from all others. `tiles`: of the number of a tile, its coordinates and how many there are."""

    def __init__(self, around: Scope | None = None):
        self.around, self.facts = around, dict[Key, tuple[str, bool, int]]()  # how it is known, whether = 0, its kind
        self.arrays: dict[str, Line] = {} if around is None else dict(around.arrays)
        self.divisors: set[str] = set() if around is None else set(around.divisors)
        self.names: set[str] = set() if around is None else set(around.names)
        self.points: list[str] = [] if around is None else list(around.points)
        self.tiles: dict[str, tuple[Any, Poly]] = {} if around is None else dict(around.tiles)
        self.is_lost = around is not None and around.is_lost  # whether some of what makes a point one is not said

    def define(self, *names: str) -> None:
        """Names that nothing else has here: what is known of a name is known of one thing. Raises Unreadable."""
        if len({*names}) < len(names) or self.names.intersection(names):
            raise Unreadable(f"{', '.join(names)}: defined twice")
        self.names.update(names)

    def hold(self, poly: Poly, is_equal: bool = False, kind: int = DEFINED, by: str = OF_TEXT) -> None:
        """poly >= 0, or = 0."""
        for fact in (key(poly), key(add({}, poly, -1)))[: 1 + is_equal]:
            how, was_equal, was = self.facts.get(fact, (by, False, kind))
            self.facts[fact] = how, is_equal or was_equal, CLAIMED if CLAIMED in (kind, was) else min(kind, was)

    def between(self, called: str, low: Poly, high: Poly, kind: int = DEFINED, by: str = OF_TEXT) -> None:
        """low <= name <= high."""
        self.hold(add(name(called), low, -1), False, kind, by)
        self.hold(add(high, name(called), -1), False, kind, by)

    def run(self, called: str, low: Poly, high: Poly) -> None:
        """There is a point for each low <= name <= high."""
        self.points.append(called)
        self.between(called, low, high, CLAIMED)

    def spread(self, names: Sequence[str]) -> None:
        """Of the threads that these names tell apart one is at work at each point, whichever it is."""
        self.points = [point for point in self.points if point not in names]
        for called in names:
            self.between(called, {}, number({"cta.warp": 3, "lane": 31}[called]))

    def mean(self, called: str, value: str) -> None:
        """name = value."""
        self.hold(add(name(called), read(value), -1), True)

    def under(self, guard: Sequence[Half], is_broken: bool = False, kind: int = CLAIMED) -> Scope:
        """What holds besides where a guard does, or does not."""
        found = Scope(self)
        if is_broken:
            sides = [add(add({}, p, -1), number(-1)) for p, _ in guard]
            sides += [add(p, number(-1)) for p, is_equal in guard if is_equal]
            found.is_lost = found.is_lost or len(sides) > 1 and kind == CLAIMED
            guard = [(sides[0], False)] if len(sides) == 1 else ()
        for poly, is_equal in guard:
            found.hold(poly, is_equal, kind)
        return found

    def knows(self, fact: Key) -> tuple[str, bool] | None:
        """How a fact is known, and whether it is one of equality."""
        scope: Scope | None = self
        while scope is not None:
            if fact in scope.facts:
                return scope.facts[fact][:2]
            scope = scope.around
        return None

    def all_facts(self) -> Iterator[tuple[Key, tuple[str, bool, int]]]:
        """The facts of this block and those around it."""
        yield from self.facts.items()
        yield from self.around.all_facts() if self.around is not None else ()


class Obligation(NamedTuple):
    """Something to show at a line: that all `goals` are >= 0; without any whether a rule `shows` it."""

    line: int
    what: str
    goals: Sequence[Poly] = ()
    scope: Scope | None = None
    shows: bool = False


Points = dict[int, list[tuple[str, Poly]]]  # of the line of a store: each point in terms of the element that it writes


def start_of(kernel: Kernel, text: Text) -> Scope:
    """What holds where a kernel starts: the ranges of the sizes and of the thread's place."""
    scope = Scope()
    for symbol in text.symbols():
        low, high = text.ranges.get(symbol, (0, (1 << 31) - 1))
        scope.between(symbol, number(low), number(high))
    warps = -(-kernel.threads // 32)
    counts = {"thread.index": kernel.threads, "warp.index": warps, "lane": 32, "warpgroup.index": -(-warps // 4)}
    counts |= {"warpgroup.thread": 128, "cluster.rank": math.prod(kernel.cluster)}
    points = {"thread.index": kernel.threads, "cta.warpgroup": -(-warps // 4), "cta.warp": 4, "lane": 32}
    counts |= zip(("thread.x", "thread.y", "thread.z"), (*kernel.block, 1, 1))
    if len(kernel.block) > 1:
        points = {called: counts[called] for called in ("thread.x", "thread.y", "thread.z")}
    ctas = dict(zip(("cta.x", "cta.y", "cta.z"), (*kernel.grid, *[number(1)] * 2)))
    scope.define(*text.symbols(), *{**counts, **points, **ctas}, "cta.cluster")
    for called, count in {**ctas, **{n: number(count) for n, count in points.items()}}.items():
        scope.run(called, {}, add(count, number(-1)))
    for called, count in counts.items():
        scope.between(called, {}, number(count - 1), DERIVED)
    if len(kernel.block) == 1:
        scope.points.remove("thread.index")
        scope.mean("thread.x", "thread.index")
        scope.mean("thread.index", "128*cta.warpgroup + warpgroup.thread")
        scope.mean("warpgroup.thread", "32*cta.warp + lane")
        scope.mean("warp.index", "4*cta.warpgroup + cta.warp")
    if len(kernel.cluster) == 1 and kernel.cluster[0] > 1:
        scope.points.remove("cta.x")
        scope.points.append("cta.cluster")
        scope.run("cluster.rank", {}, number(kernel.cluster[0] - 1))
        scope.mean("cta.x", f"{kernel.cluster[0]}*cta.cluster + cluster.rank")
    return scope


def places(kernel: Kernel, text: Text, points: Points) -> Iterator[Obligation]:
    """All that has to be shown of places and divisors, in the order of the text."""
    scope = start_of(kernel, text)
    has_roles = any(s.kind == "role" for s in kernel.body)
    if not has_roles and len(kernel.block) == 1:
        scope.mean("warpgroup.index", "cta.warpgroup")
    yield from _divisors(kernel.number, kernel.grid, scope)
    yield from _block(kernel.body, scope, text, points)


def _block(body: Sequence[Line], scope: Scope, text: Text, points: Points) -> Iterator[Obligation]:
    for line in body:
        inside = Scope(scope)
        spoken = [half for a in line.accesses for guard, _ in a.when for half in guard]
        yield from _divisors(
            line.number, (*line.has.values(), line.axes, spoken, [a.brackets for a in line.accesses]), inside
        )
        inside.define(*(called for called, _, _ in line.axes))
        for called, value, is_value in line.axes:
            if is_value:
                inside.hold(add(name(called), value, -1), True)
            else:
                inside.run(called, {}, add(value, number(-1)))
        for access in line.accesses:
            where = inside
            for guard, is_broken in access.when:
                where = where.under(guard, is_broken)
            yield from _inside(line, access, where, text)
        if line.kind in STORES:
            yield from once(line, next(a for a in line.accesses if a.is_write), inside, text, points)
        if line.kind == "if":
            kind = DEFINED if line.otherwise and stored(line.body) == stored(line.otherwise) else CLAIMED
            yield from _block(line.body, scope.under(line.get("guard"), False, kind), text, points)
            yield from _block(line.otherwise, scope.under(line.get("guard"), True, kind), text, points)
        elif line.body:
            yield from _block(line.body, _declared(line, Scope(scope)), text, points)
        else:
            _declared(line, scope)
            scope.divisors |= inside.divisors


def stored(body: Sequence[Line]) -> Counter[str]:
    """How many stores write each name; those in the two branches of an `if` are one where there is one in each."""
    found: Counter[str] = Counter()
    for line in body:
        if line.kind in STORES:
            found[stored_by(line)] += 1
        then, other = stored(line.body), stored(line.otherwise)
        found += then if then == other else then + other
    return found


def stored_by(line: Line) -> str:
    """The name that a store writes."""
    return next(a.name for a in line.accesses if a.is_write)


def _declared(line: Line, scope: Scope) -> Scope:
    """What is known behind a statement, or in its block."""
    kind, has = line.kind, line.has
    if kind not in ("role", "advance", "drain"):
        scope.define(*(n for n in (has.get("name"), *has.get("names", ())) if n is not None))
    if kind == "assume" and scope.around is not None:
        raise Unreadable(f"{line.text}: not outside of all blocks")
    if kind in ("shared", "reg", "mbarrier", "tensor_map", "pick", "cursor"):
        scope.arrays[has["name"]] = line
    if kind == "let":
        scope.hold(add(name(has["name"]), has["value"], -1), True)
    elif kind == "assume":
        for poly, is_equal in has["guard"]:
            scope.hold(poly, is_equal)
    elif kind in ("least", "most"):
        sides = [add(name(has["name"]), e, -1) for e in has["of"]]
        for side in sides:
            scope.hold(add({}, side, -1) if kind == "least" else side)
    elif kind in ("choose", "ticket"):
        low = number(-1) if kind == "choose" else {}
        scope.between(has["name"], low, add(has["below"], number(-1)), by=OF_DATA)
    elif kind == "order":
        total = number(1)
        for called, count in zip(has["names"], has["of"]):
            scope.run(called, {}, add(count, number(-1)))
            total = multiply(total, count)
        scope.define(tile := f"tile.{line.number}")
        scope.hold(add(name(tile), has["tile"], -1), True, CLAIMED)
        scope.tiles[tile] = has["names"], total
    elif kind == "cursor":
        for part, last in (("slot", has["ring"] - 1), ("previous", has["ring"] - 1), ("phase", 1)):
            scope.between(f"{has['name']}.{part}", {}, number(last))
    elif kind == "role":
        width, first, last = 128 if has["unit"] == "warpgroups" else 32, has["first"], has["last"]
        scope.between("thread.index", number(width * first), number(width * last - 1), CLAIMED)
        if width == 128:
            scope.between("cta.warpgroup", number(first), number(last - 1), CLAIMED)
            scope.between("warpgroup.index", {}, number(last - first - 1), DERIVED)
            scope.mean("warpgroup.index", f"cta.warpgroup - {first}")
    elif kind == "for":
        last, called, step = add(has["high"], number(-1)), has["name"], has.get("step", number(1))
        if step == number(1):
            scope.run(called, has["low"], last)
        else:
            scope.points.append(f"{called}.turn")
            scope.define(f"{called}.turn")
            scope.hold(name(f"{called}.turn"), kind=CLAIMED)
            scope.between(called, has["low"], last, CLAIMED)
            turned = add(has["low"], multiply(step, name(f"{called}.turn")))
            scope.hold(add(name(called), turned, -1), True)
        times = constant(step) or 1
        if times > 1 and all(c % times == 0 for c in add(has["high"], has["low"], -1).values()):
            scope.hold(add(add(has["high"], name(called), -1), number(-times)), kind=DERIVED)
    elif kind == "each":
        of = scope.arrays[has["of"]]
        for called, size in zip(has["names"], has.get("size") or of.get("shape")):
            scope.run(called, {}, add(size, number(-1)))
        spread = MATRICES.get(next((word for word in of.text.split() if word in MATRICES), ""), ())
        scope.is_lost = scope.is_lost or not spread
        scope.spread(spread)
    return scope


def _polys(found: Any) -> Iterator[Poly]:
    if isinstance(found, dict):
        yield found
    elif isinstance(found, (tuple, list)) and not isinstance(found, Access):
        for one in found:
            yield from _polys(one)


def _divisors(line: int, found: Any, scope: Scope) -> Iterator[Obligation]:
    """Divisors that are not numbers are positive where a value is first divided by them."""
    for atom in floors_in(_polys(tuple(found))):
        below = FLOORS[atom][1]
        if constant(below) is None and atom not in scope.divisors:
            yield Obligation(line, "divisor", [add(below, number(-1))], scope)
            scope.divisors.add(atom)  # what makes a floor one is known from here on


def _inside(line: Line, access: Access, scope: Scope, text: Text) -> Iterator[Obligation]:
    array, called = scope.arrays.get(access.name), access.name
    if array is not None and array.kind == "pick":
        called, array = array.get("of")[0], scope.arrays.get(array.get("of")[0])
    brackets, shape, rows = list(access.brackets), (), ()
    if array is None:
        shape = text.tensors[called][1]
    elif array.kind in ("shared", "reg"):
        shape = array.get("shape")
    ring = 0 if array is None else max(array.get("cluster", 0), array.get("ring", 0))
    if ring and brackets:
        (slot,) = brackets.pop(0)
        yield Obligation(line.number, f"inside {access.name} slot low", [slot], scope)
        yield Obligation(line.number, f"inside {access.name} slot high", [add(number(ring - 1), slot, -1)], scope)
    if not brackets or array is not None and array.kind not in ("shared", "reg"):
        return  # a whole tile; or a place in a tensor map, inside of which the copy engine stays
    (index,) = brackets
    piece = _piece(line, access, scope)
    if line.kind == "store_rows" and access.is_write:
        shape = line.get("view") or shape
        rows = tuple(n for n, side in enumerate(line.get("box")) if side != number(1))
    for axis, (place, size) in enumerate(zip(index, shape, strict=True)):
        yield Obligation(line.number, f"inside {access.name} axis {axis} low", [place], scope)
        last = add(size, piece[axis] if axis < len(piece) else number(1), -1)
        if axis not in rows:  # rows that leave together end with the tensor
            yield Obligation(line.number, f"inside {access.name} axis {axis} high", [add(last, place, -1)], scope)


def _piece(line: Line, access: Access, scope: Scope) -> Sequence[Poly]:
    """How far a place reaches along each axis, where a statement touches more than an element there."""
    if line.kind == "each" or line.kind == "send" and not access.is_write and access.name != line.get("on"):
        return line.get("size", ())
    if line.kind == "ldmatrix" and not access.is_write:
        shape = scope.arrays[line.get("to")].get("shape")
        return shape[::-1] if line.get("trans") else shape
    if line.kind == "wgmma" and access.name in (line.get("a"), line.get("b")):
        depth = line.get("k") * line.get("steps", 1)
        side = (line.get("m"), depth) if access.name == line.get("a") else (depth, line.get("n"))
        is_turned = line.get("a_trans" if access.name == line.get("a") else "b_trans")
        return [number(n) for n in (side[::-1] if is_turned else side)]
    return ()


def once(line: Line, access: Access, around: Scope, text: Text, points: Points) -> Iterator[Obligation]:
    """That a store writes no element twice, and every element."""
    box, scope, every, known = around.arrays.get(access.name), Scope(around), Scope(), set(text.symbols())
    if box is not None and box.kind == "shared":
        return
    pick = box if box is not None and box.kind == "pick" else None
    boxes = [around.arrays.get(one) for one in (pick.get("of") if pick is not None else ())] or [box]
    tensors = [one.get("of") for one in boxes if one is not None] or (pick.get("of") if pick else [access.name])
    (_, shape), box = text.tensors[tensors[0]], boxes[0]
    view = line.get("view") or (box.get("view") if box is not None else None) or shape
    index = list(access.brackets[-1])
    is_whole = (
        _product(view) == _product(shape) and len(view) == len(index) and None in (box, box and box.get("windows"))
    )
    is_whole = is_whole and all(text.tensors[one] == text.tensors[tensors[0]] for one in tensors)
    is_whole = is_whole and all(
        (one is None) == (box is None) and all(one is None or one.get(p) == box.get(p) for p in ("view", "box"))
        for one in boxes
    )
    for axis, side in enumerate(line.get("box") or (box.get("box") if box is not None else ())):
        scope.run(f"box.{axis}", {}, add(side, number(-1)))
        index[axis] = add(index[axis], name(f"box.{axis}"))
    if pick is not None:  # which of them is part of the element's place
        index, view = [pick.get("at"), *index], (number(len(pick.get("of"))), *view)
    if line.kind == "store_rows":
        scope.spread(MATRICES["wgmma"])
    alone, goals = [], []
    for axis, (place, size) in enumerate(zip(index, view)):
        at = name(f"at.{axis}")
        known.add(f"at.{axis}")
        scope.define(f"at.{axis}")
        scope.hold(add(at, place, -1), True, DERIVED)
        every.between(f"at.{axis}", {}, add(size, number(-1)))
        goals += [add(at, place, -1), add(place, at, -1)]
    for point, value in points.get(line.number, ()):
        is_whole = is_whole and point not in known and names_in(value) <= known
        known |= {point, *(tile for tile, (names, _) in scope.tiles.items() if known.issuperset(names))}
        rest = add(name(point), value, -1)
        every.hold(rest, True)
        if point in scope.points:
            alone += [rest, add({}, rest, -1)]
        else:
            scope.define(point)
            scope.hold(rest, True)
    for tile, (_, count) in scope.tiles.items():
        every.between(tile, {}, add(count, number(-1)))
    for fact, (how, is_equal, kind) in scope.all_facts():
        if kind == DEFINED:
            every.hold(dict(fact), is_equal, by=how)
        elif kind == CLAIMED:
            goals.append(dict(fact))
    is_whole = is_whole and known.issuperset(scope.points) and not scope.is_lost
    yield Obligation(line.number, f"no element twice {access.name}", alone if is_whole else (), scope)
    yield Obligation(line.number, f"every element {access.name}", goals if is_whole else (), every)


def _product(sizes: Sequence[Poly]) -> Poly:
    return functools.reduce(multiply, sizes, number(1))


__all__ = ["MATRICES", "OF_DATA", "OF_TEXT", "STORES", "Obligation", "Points", "Scope", "places", "stored", "stored_by"]
