"""What a kernel's text says of its integers at each statement, and what has to be shown there: every place that it
reads or writes is inside, every divisor is positive, and every element of a tensor is written once.

That no element is written twice: each name that tells one execution of a store from all others is an integer of the
element that it writes. That every element is written: the execution that these integers give exists, and writes it.
A certificate says the integers; whether they are those is shown by sums, at all sizes.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .polynomials import FLOORS, Key, Poly, Unreadable, add, constant, floors_in, key, multiply, name, names_in, number
from .stores import STORES, stored
from .text import FORMS, OF_DATA, OF_TEXT, Access, Half, Kernel, Line, Obligation, Points, Rows, Text, guard_of

HOLE = re.compile(r"\{([\w.]+)\}")
DEFINED, CLAIMED, DERIVED = range(3)  # a fact that defines a name; one that a point must meet to be one; neither
HOW = {"is": DEFINED, "data": DEFINED, "in": CLAIMED, "so": DERIVED}  # by which word statements.txt says it
MATRICES = {"wgmma": ("cta.warp", "lane"), "mma": ("lane",)}  # what tells apart the threads that hold a matrix


def told(rows: Rows, parts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What rows say with parts in their holes, and how: once for each of a part that is a list."""
    for how, row in rows:
        holes = [parts[hole] for hole in HOLE.findall(row)]
        for n in range(min((len(part) for part in holes if isinstance(part, list)), default=1)):
            values = iter([part[n] if isinstance(part, list) else part for part in holes])
            yield how, HOLE.sub(lambda _, values=values: str(next(values)), row)


class Scope:
    """What holds in a block: facts with how each is known, and the points at which it runs: names that tell one
    execution from all others. `tiles`: of the number of a tile, its coordinates and how many there are."""

    def __init__(self, around: Scope | None = None):
        self.around, self.facts = around, dict[Key, tuple[str, bool, int]]()  # how it is known, whether = 0, its kind
        self.arrays: dict[str, Line] = {**around.arrays} if around else {}
        self.divisors, self.names = ({*around.divisors}, {*around.names}) if around else (set[str](), set[str]())
        self.points: list[str] = [*around.points] if around else []
        self.tiles: dict[str, tuple[Any, Poly]] = {**around.tiles} if around else {}
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

    def say(self, rows: Rows, parts: dict[str, Any]) -> None:
        """What rows of statements.txt say. Raises Unreadable."""
        for how, said in told(rows, parts):
            if how == "new":
                self.define(*said.split(", "))
            elif how == "point":
                self.points += said.split(", ")
            else:
                for poly, is_equal in guard_of(said):
                    self.hold(poly, is_equal, HOW[how], OF_DATA if how == "data" else OF_TEXT)

    def below(self, called: str, size: Poly, kind: int = DEFINED) -> None:
        """0 <= name < size."""
        self.hold(name(called), False, kind)
        self.hold(add(add(size, name(called), -1), number(-1)), False, kind)

    def run(self, called: str, size: Poly) -> None:
        """There is a point for each 0 <= name < size."""
        self.points.append(called)
        self.below(called, size, CLAIMED)

    def spread(self, names: Sequence[str]) -> None:
        """Of the threads that these names tell apart one is at work at each point, whichever it is."""
        self.points = [point for point in self.points if point not in names]
        for called in names:
            self.below(called, number({"cta.warp": 4, "lane": 32}[called]))

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

    def all_facts(self) -> Iterator[tuple[Key, tuple[str, bool, int]]]:
        """The facts of this block and those around it."""
        yield from self.facts.items()
        yield from self.around.all_facts() if self.around is not None else ()

    def knows(self, fact: Key) -> tuple[str, bool] | None:
        """How a fact is known, and whether it is one of equality."""
        found = self.facts.get(fact)
        return found[:2] if found else self.around.knows(fact) if self.around is not None else None


def start_of(kernel: Kernel, text: Text) -> Scope:
    """What holds where a kernel starts: the ranges of the sizes and of the thread's place."""
    scope, is_line = Scope(), len(kernel.block) == 1
    for symbol in text.symbols():
        low, high = text.ranges.get(symbol, (0, (1 << 31) - 1))
        scope.define(symbol)
        scope.hold(add(name(symbol), number(low), -1))
        scope.hold(add(number(high), name(symbol), -1))
    warps, ctas = -(-kernel.threads // 32), math.prod(kernel.cluster)
    parts = {"threads": kernel.threads, "warps": warps, "warpgroups": -(-warps // 4), "ctas": ctas}
    parts |= dict(zip("xyz", (*kernel.block, 1, 1)))
    parts |= dict(zip(("grid.x", "grid.y", "grid.z"), (*kernel.sizes, 1, 1)))
    said = ["(kernel)", "(of one axis)" if is_line else "(of several)"]
    said.append("(of clusters)" if len(kernel.cluster) == 1 < ctas else "(of CTAs)")
    if is_line and not any(s.kind == "role" for s in kernel.body):
        said.append("(without roles)")
    for head in said:
        scope.say(FORMS[head][0][2], parts)
    return scope


def places(kernel: Kernel, text: Text, points: Points) -> Iterator[Obligation]:
    """All that has to be shown of places and divisors, in the order of the text."""
    scope = start_of(kernel, text)
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
                inside.run(called, value)
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


def _declared(line: Line, scope: Scope) -> Scope:
    """What is known behind a statement, or in its block."""
    kind, has = line.kind, line.has
    if kind not in ("role", "advance", "drain"):
        scope.define(*(n for n in (has.get("name"), *has.get("names", ())) if n is not None))
    if kind == "assume" and scope.around is not None:
        raise Unreadable(f"{line.text}: not outside of all blocks")
    if kind in ("shared", "reg", "mbarrier", "tensor_map", "pick", "cursor"):
        scope.arrays[has["name"]] = line
    of = scope.arrays[has["of"]] if kind == "each" else line
    scope.say(line.rows, {"size": of.raw.get("shape"), **line.raw})
    if kind == "order":
        scope.tiles[f"tile.{line.number}"] = has["names"], _product(has["of"][: len(has["names"])])
    if kind == "each":
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
    array, called, brackets, rows = scope.arrays.get(access.name), access.name, list(access.brackets), ()
    if array is not None and array.kind == "pick":
        called, array = array.get("of")[0], scope.arrays.get(array.get("of")[0])
    ring = 0 if array is None else max(array.get("cluster", 0), array.get("ring", 0))
    if ring and brackets:
        (slot,) = brackets.pop(0)
        yield Obligation(line.number, f"inside {access.name} slot low", [slot], scope)
        yield Obligation(line.number, f"inside {access.name} slot high", [add(number(ring - 1), slot, -1)], scope)
    if not brackets or array is not None and array.kind not in ("shared", "reg"):
        return  # a whole tile; or a place in a tensor map, inside of which the copy engine stays
    shape = text.tensors[called][1] if array is None else array.get("shape")
    piece = _piece(line, access, scope)
    if line.kind == "store_rows" and access.is_write:
        shape = line.get("view") or shape
        rows = tuple(n for n, side in enumerate(line.get("box")) if side != number(1))
    for axis, (place, size) in enumerate(zip(brackets[0], shape, strict=True)):
        yield Obligation(line.number, f"inside {access.name} axis {axis} low", [place], scope)
        last = add(size, piece[axis] if axis < len(piece) else number(1), -1)
        if axis not in rows:  # rows that leave together end with the tensor
            yield Obligation(line.number, f"inside {access.name} axis {axis} high", [add(last, place, -1)], scope)


def _piece(line: Line, access: Access, scope: Scope) -> Sequence[Poly]:
    """How far a place reaches along each axis, where a statement touches more than an element there."""
    has, side, is_turned = line.has, (), line.get("trans")
    if line.kind == "each" or line.kind == "send" and not access.is_write and access.name != has["on"]:
        side = has.get("size", ())
    elif line.kind == "ldmatrix" and not access.is_write:
        side = scope.arrays[has["to"]].get("shape")
    elif line.kind == "wgmma" and access.name in (has["a"], has["b"]):
        depth, operand = number(has["k"] * has.get("steps", 1)), "a" if access.name == has["a"] else "b"
        side, is_turned = (
            (number(has["m"]), depth) if operand == "a" else (depth, number(has["n"])),
            has.get(f"{operand}_trans"),
        )
    return side[::-1] if is_turned else side


def once(line: Line, access: Access, around: Scope, text: Text, points: Points) -> Iterator[Obligation]:
    """That a store writes no element twice, and every element."""
    box, scope, every, known = around.arrays.get(access.name), Scope(around), Scope(), set(text.symbols())
    if box is not None and box.kind == "shared":
        return
    pick = box if box is not None and box.kind == "pick" else None
    named = pick.get("of") if pick is not None else (access.name,)
    maps = [around.arrays.get(one) for one in named]
    types = [text.tensors[one if of is None else of.get("of")] for one, of in zip(named, maps)]
    boxes = [None if of is None else (of.get("view"), of.get("box"), of.get("windows")) for of in maps]
    (_, shape), box, index = types[0], maps[0] or line, list(access.brackets[-1])
    view, sides = (line.get(of) or box.get(of) for of in ("view", "box"))
    view = view or shape
    is_whole = _product(view) == _product(shape) and len(view) == len(index) and not box.get("windows")
    is_whole = is_whole and all(one == types[0] for one in types) and all(one == boxes[0] for one in boxes)
    for axis, side in enumerate(sides or ()):
        scope.run(f"box.{axis}", side)
        index[axis] = add(index[axis], name(f"box.{axis}"))
    if pick is not None:  # which of them is part of the element's place
        index, view = [pick.get("at"), *index], (number(len(named)), *view)
    if line.kind == "store_rows":
        scope.spread(MATRICES["wgmma"])
    alone, goals = [], []
    for axis, (place, size) in enumerate(zip(index, view)):
        at = name(f"at.{axis}")
        known.add(f"at.{axis}")
        scope.define(f"at.{axis}")
        scope.hold(add(at, place, -1), True, DERIVED)
        every.below(f"at.{axis}", size)
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
        every.below(tile, count)
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
