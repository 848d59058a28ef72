"""What a kernel's text says of its integers at each statement, and what has to be shown there: every place that it
reads or writes is inside, every divisor is positive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .polynomials import FLOORS, Key, Poly, Unreadable, add, axioms, constant, floors_in, key, name, number
from .text import Access, Half, Kernel, Line, Text

OF_TEXT, OF_DATA = "text", "data"  # how a fact is known: as it is written, or as the kernel looks after it when it runs


class Scope:
    """What holds in a block: facts with how each is known, cases of which one holds, and what names mean."""

    def __init__(self, around: Scope | None = None):
        self.around = around
        self.facts, self.equal = dict[Key, str](), set[Key]()
        self.cases: list[tuple[Key, ...]] = [] if around is None else list(around.cases)
        self.arrays: dict[str, Line] = {} if around is None else dict(around.arrays)
        self.divisors: set[str] = set() if around is None else set(around.divisors)
        self.names: set[str] = set() if around is None else set(around.names)

    def define(self, *names: str) -> None:
        """Names that nothing else has here: what is known of a name is known of one thing. Raises Unreadable."""
        if len({*names}) < len(names) or self.names.intersection(names):
            raise Unreadable(f"{', '.join(names)}: defined twice")
        self.names.update(names)

    def hold(self, poly: Poly, is_equal: bool = False, by: str = OF_TEXT) -> None:
        """poly >= 0, or = 0."""
        self.facts.setdefault(key(poly), by)
        if is_equal:
            self.facts.setdefault(key(add({}, poly, -1)), by)
            self.equal |= {key(poly), key(add({}, poly, -1))}

    def between(self, called: str, low: Poly, high: Poly, by: str = OF_TEXT) -> None:
        """low <= name <= high."""
        self.hold(add(name(called), low, -1), by=by)
        self.hold(add(high, name(called), -1), by=by)

    def under(self, guard: Sequence[Half], is_broken: bool = False) -> Scope:
        """What holds besides where a guard does, or does not."""
        found = Scope(self)
        if is_broken:
            sides = [add(add({}, p, -1), number(-1)) for p, _ in guard]
            sides += [add(p, number(-1)) for p, is_equal in guard if is_equal]
            if len(sides) == 1:
                found.hold(sides[0])
            found.cases.append(tuple(map(key, sides)))
        else:
            for poly, is_equal in guard:
                found.hold(poly, is_equal)
        return found

    def knows(self, fact: Key) -> tuple[str, bool] | None:
        """How a fact is known, and whether it is one of equality."""
        scope: Scope | None = self
        while scope is not None:
            if fact in scope.facts:
                return scope.facts[fact], fact in scope.equal
            scope = scope.around
        poly = dict(fact)
        for atom in floors_in((poly,)):
            if fact in map(key, axioms(atom)):
                return OF_TEXT, False
        return None


class Obligation(NamedTuple):
    """Something to show at a line: that `goal` >= 0; without a goal whether a rule `shows` it."""

    line: int
    what: str
    goal: Poly | None = None
    scope: Scope | None = None
    shows: bool = False


def start_of(kernel: Kernel, text: Text) -> Scope:
    """What holds where a kernel starts: the ranges of the sizes and of the thread's place."""
    scope = Scope()
    for symbol in text.symbols():
        low, high = text.ranges.get(symbol, (0, (1 << 31) - 1))
        scope.between(symbol, number(low), number(high))
    warps = -(-kernel.threads // 32)
    counts = {"thread.index": kernel.threads, "warp.index": warps, "lane": 32, "warpgroup.index": -(-warps // 4)}
    counts |= {"warpgroup.thread": 128, "cluster.rank": 1}
    for size in kernel.cluster:
        counts["cluster.rank"] *= size
    for axis, ctas, size in zip("xyz", (*kernel.grid, *[number(1)] * 2), (*kernel.block, 1, 1)):
        scope.between(f"cta.{axis}", {}, add(ctas, number(-1)))
        counts[f"thread.{axis}"] = size
    scope.define(*text.symbols(), *counts, "cta.x", "cta.y", "cta.z")
    for called, count in counts.items():
        scope.between(called, {}, number(count - 1))
    return scope


def places(kernel: Kernel, text: Text) -> Iterator[Obligation]:
    """All that has to be shown of places and divisors, in the order of the text."""
    scope = start_of(kernel, text)
    yield from _divisors(kernel.number, kernel.grid, scope)
    yield from _block(kernel.body, scope, text)


def _block(body: Sequence[Line], scope: Scope, text: Text) -> Iterator[Obligation]:
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
                inside.between(called, {}, add(value, number(-1)))
        for access in line.accesses:
            where = inside
            for guard, is_broken in access.when:
                where = where.under(guard, is_broken)
            yield from _inside(line, access, where, text)
        if line.kind == "if":
            yield from _block(line.body, scope.under(line.get("guard")), text)
            yield from _block(line.otherwise, scope.under(line.get("guard"), True), text)
        elif line.body:
            yield from _block(line.body, _declared(line, Scope(scope)), text)
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
    if kind == "let":
        scope.hold(add(name(has["name"]), has["value"], -1), True)
    elif kind == "assume":
        for poly, is_equal in has["guard"]:
            scope.hold(poly, is_equal)
    elif kind in ("least", "most"):
        sides = [add(name(has["name"]), e, -1) for e in has["of"]]
        sides = [add({}, e, -1) for e in sides] if kind == "least" else sides
        for side in sides:
            scope.hold(side)
        scope.cases.append(tuple(key(add({}, side, -1)) for side in sides))
    elif kind in ("choose", "ticket"):
        low = number(-1) if kind == "choose" else {}
        scope.between(has["name"], low, add(has["below"], number(-1)), OF_DATA)
    elif kind == "order":
        for called, count in zip(has["names"], has["of"]):
            scope.between(called, {}, add(count, number(-1)))
    elif kind == "cursor":
        for part, last in (("slot", has["ring"] - 1), ("previous", has["ring"] - 1), ("phase", 1)):
            scope.between(f"{has['name']}.{part}", {}, number(last))
    elif kind == "role" and has["unit"] == "warpgroups":
        scope.between("warpgroup.index", {}, number(has["last"] - has["first"] - 1))
    elif kind == "for":
        last, step = add(has["high"], number(-1)), constant(has.get("step", number(1)))
        if step and step > 1 and all(c % step == 0 for c in add(has["high"], has["low"], -1).values()):
            last = add(has["high"], number(-step))
        scope.between(has["name"], has["low"], last)
    elif kind == "each":
        for called, size in zip(has["names"], has.get("size") or scope.arrays[has["of"]].get("shape")):
            scope.between(called, {}, add(size, number(-1)))
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
            scope.divisors.add(atom)
            yield Obligation(line, "divisor", add(below, number(-1)), scope)


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
        yield Obligation(line.number, f"inside {access.name} slot low", slot, scope)
        yield Obligation(line.number, f"inside {access.name} slot high", add(number(ring - 1), slot, -1), scope)
    if not brackets or array is not None and array.kind not in ("shared", "reg"):
        return  # a whole tile; or a place in a tensor map, inside of which the copy engine stays
    (index,) = brackets
    piece = _piece(line, access, scope)
    if line.kind == "store_rows" and access.is_write:
        shape = line.get("view") or shape
        rows = tuple(n for n, side in enumerate(line.get("box")) if side != number(1))
    for axis, (place, size) in enumerate(zip(index, shape, strict=True)):
        yield Obligation(line.number, f"inside {access.name} axis {axis} low", place, scope)
        last = add(size, piece[axis] if axis < len(piece) else number(1), -1)
        if axis not in rows:  # rows that leave together end with the tensor
            yield Obligation(line.number, f"inside {access.name} axis {axis} high", add(last, place, -1), scope)


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
