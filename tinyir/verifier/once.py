"""Every element of a tensor is written once: what a store writes is a number whose digits are the store's dims.

The dims of a store are the CTA, the thread and the turns of loops around it, each with how many values it has. Where an
index, or the number that a whole index is in the tensor, is a sum of dims of which each has for its factor the product
of how many values those before it have, no two points write one element, and none is left out up to that product. The
guards around may cut off only what is outside the tensor. Sizes are symbols throughout.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Container, Iterator, Mapping, Sequence

from .polynomials import FLOORS, Poly, add, constant, floor, floors_in, key, multiply, name, number
from .text import Kernel, Line, Text, statements

Dims = dict[str, Poly]  # how many values each has
MOST_PARTS = 16  # in which dims are cut
MATRICES = {"wgmma": 128, "mma": 32}


class Lost(Exception):
    """What these rules do not follow."""


Store = tuple[str, "Line", "Points | None"]


class Points:
    """Where a statement runs: its dims, what names mean, and the guards around it."""

    def __init__(self, dims: Dims, means: dict[str, Poly], sizes: Container[str]):
        self.dims, self.means, self.sizes = dims, means, sizes
        self.guards: list[Poly] = []
        self.arrays: dict[str, Line] = {}

    def copy(self) -> Points:
        """Points that go their own way."""
        found = Points(dict(self.dims), dict(self.means), self.sizes)
        found.guards, found.arrays = list(self.guards), dict(self.arrays)
        return found

    def plain(self, poly: Poly) -> Poly:
        """The polynomial in terms of dims and sizes."""
        found: Poly = {}
        for monomial, coefficient in poly.items():
            product = number(coefficient)
            for atom in monomial:
                if atom in FLOORS:
                    product = multiply(product, self.floored(*map(self.plain, FLOORS[atom])))
                else:
                    product = multiply(product, self.means.get(atom, name(atom)))
            found = add(found, product)
        return found

    def floored(self, above: Poly, below: Poly) -> Poly:
        """floor(above/below), of which what is a multiple is taken out where what is left is below the divisor."""
        divisor = constant(below)
        if divisor is None:
            return floor(above, below)
        whole = {m: c // divisor for m, c in above.items() if c % divisor == 0}
        rest = {m: c for m, c in above.items() if c % divisor}
        most = self.most(rest)
        if most is not None and most < divisor:
            return whole
        return add(whole, floor(rest, below))

    def most(self, poly: Poly) -> int | None:
        """The greatest value of a sum of dims that is never negative, or None."""
        total = 0
        for monomial, coefficient in poly.items():
            count = constant(self.dims[monomial[0]]) if len(monomial) == 1 and monomial[0] in self.dims else None
            if coefficient < 0 or monomial and count is None:
                return None
            total += coefficient * ((count or 2) - 1)
        return total

    def without_floors(self, index: Sequence[Poly]) -> list[Poly]:
        """The index with dims cut in parts where it has floors of them. Raises Lost."""
        for _ in range(MOST_PARTS):
            index = [self.plain(e) for e in index]
            cuts = [
                (m[0], divisor // c)
                for atom in floors_in(index)
                for divisor in (constant(FLOORS[atom][1]) or 0,)
                for m, c in FLOORS[atom][0].items()
                if divisor
                and len(m) == 1
                and m[0] in self.dims
                and c > 0
                and divisor % c == 0
                and c * (constant(self.dims[m[0]]) or 0) > divisor
            ]
            if not cuts:
                return list(index)
            self.split(*cuts[0])
        raise Lost

    def implies(self, end: Poly, guard: Poly) -> bool:
        """Whether a guard holds wherever end >= 0."""
        guard = dict(key(guard))
        times = next((end[m] // c for m, c in guard.items() if m and m in end and end[m] % c == 0), 0)
        rest = add(multiply(guard, number(times)), end, -1) if times > 0 else guard
        least = rest.get((), 0)
        for monomial, coefficient in rest.items():
            count = constant(self.dims[monomial[0]]) if len(monomial) == 1 and monomial[0] in self.dims else None
            is_natural = all(atom in self.dims or atom in self.sizes for atom in monomial)
            if not is_natural or coefficient < 0 and monomial and count is None:
                return False
            least += coefficient * ((count or 1) - 1) if coefficient < 0 and monomial else 0
        return least > -max(times, 1)

    def joined(self, guard: Poly, index: Sequence[Poly]) -> list[Poly]:
        """The index where a guard lets through the first numbers alone that some dims make: one dim in their place.
        Raises Lost."""
        guard = self.plain(guard)
        total = {m: -c for m, c in guard.items() if m}
        own = {d: n for d, n in self.dims.items() if any(d in m for m in total)}
        unit = next((d for d in own if total.get((d,)) == 1), None)
        limit = number(guard.get((), 0) + 1)
        if unit is None or (constant(add(_digits(total, own), limit, -1)) or -1) < 0:
            raise Lost
        self.dims = {d: n for d, n in self.dims.items() if d not in own} | {f"{unit} joined": limit}
        rest = add(add(name(f"{unit} joined"), total, -1), name(unit))
        self.replace(unit, rest)
        return [self.plain(e) for e in index]

    def split(self, dim: str, size: int) -> None:
        """A dim as `size` times a new one and the rest."""
        count = constant(self.dims[dim])
        if count is None or count % size:
            raise Lost
        del self.dims[dim]
        self.dims |= {f"{dim} over {size}": number(count // size), f"{dim} in {size}": number(size)}
        self.replace(dim, add(multiply(number(size), name(f"{dim} over {size}")), name(f"{dim} in {size}")))

    def replace(self, dim: str, by: Poly) -> None:
        """Writes a dim in terms of others wherever it is."""
        self.means[dim] = by
        self.means = {called: self.plain(poly) for called, poly in self.means.items()}
        self.guards = [self.plain(poly) for poly in self.guards]


def start_of(kernel: Kernel, sizes: Container[str]) -> Points:
    """All threads of all CTAs."""
    grid = dict(zip(("cta.x", "cta.y", "cta.z"), kernel.grid))
    alone = [called for called, count in grid.items() if count == number(1)]
    points = Points({d: n for d, n in grid.items() if d not in alone}, dict.fromkeys(alone, {}), sizes)
    if len(kernel.cluster) == 1 and kernel.cluster[0] > 1:  # `cluster.rank` and which cluster
        points.split("cta.x", kernel.cluster[0])
        points.means["cluster.rank"] = name(f"cta.x in {kernel.cluster[0]}")
    if len(kernel.block) > 1:
        for axis, size in zip("xyz", kernel.block):
            points.dims[f"thread.{axis}"] = number(size)
        return points
    return with_threads(points, 0, kernel.threads)


def with_threads(points: Points, first: int, last: int) -> Points:
    """The threads first..last of a CTA, by warpgroup, warp and lane."""
    found = points.copy()
    groups, rest = divmod(last - first, 128)
    if rest % 32:
        raise Lost
    warps = number(4 if not rest else (last - first) // 32)
    found.dims |= {"warpgroup": number(groups if not rest else 1), "warp": warps, "lane": number(32)}
    group, warp, lane = name("warpgroup"), name("warp"), name("lane")
    of_warp = add(multiply(number(4), group), warp)
    thread = add(add(multiply(number(32), of_warp), lane), number(first))
    found.means |= {
        "thread.x": thread,
        "thread.index": thread,
        "warp.index": add(of_warp, number(first // 32)),
        "warpgroup.index": group,
        "warpgroup.thread": add(multiply(number(32), warp), lane),
    }
    return found


def stores(body: Sequence[Line], points: Points, kernel: Kernel) -> Iterator[Store]:
    """Each store to a place, with its points; without any where they are lost."""
    points = points.copy()
    for s in body:
        try:
            yield from _store(s, points, kernel)
        except (Lost, KeyError):
            yield from ((called, line, None) for called, line, _ in stores_in(s))


def stores_in(s: Line) -> Iterator[tuple[str, Line, None]]:
    """The stores of a statement and the blocks in it."""
    if s.kind in ("store", "tma_store", "store_rows"):
        yield _target(s), s, None
    for inner in (*s.body, *s.otherwise):
        yield from stores_in(inner)


def _target(s: Line) -> str:
    return next(a.name for a in s.accesses if a.is_write)


def _store(s: Line, points: Points, kernel: Kernel) -> Iterator[Store]:
    if s.kind in ("shared", "reg", "tensor_map"):
        points.arrays[s.get("name")] = s
    elif s.kind == "let":
        points.means[s.get("name")] = points.plain(s.get("value"))
    elif s.kind == "for":
        yield from stores(s.body, _turns(s, points), kernel)
    elif s.kind == "order":
        _ordered(s, points)
    elif s.kind == "if":
        inner = points.copy()
        if not s.otherwise:
            for poly, is_equal in s.get("guard"):
                _under(inner, points.plain(poly), is_equal)
        then = list(stores(s.body, inner, kernel))
        yield from _either(then, list(stores(s.otherwise, inner, kernel))) if s.otherwise else then
    elif s.kind == "role":
        unit = 128 if s.get("unit") == "warpgroups" else 32
        if len(kernel.block) > 1 or points.guards:
            raise Lost
        yield from stores(s.body, with_threads(points, unit * s.get("first"), unit * s.get("last")), kernel)
    elif s.kind == "each":
        yield from stores(s.body, _held(s, points), kernel)
    elif s.kind in ("store", "tma_store", "store_rows"):
        inner = points.copy()
        inner.dims |= {called: points.plain(size) for called, size, _ in s.axes}
        if s.kind == "store_rows":
            inner.dims = {d: n for d, n in inner.dims.items() if d not in ("warp", "lane")}
        yield _target(s), s, inner


def _either(then: list[Store], other: list[Store]) -> list[Store]:
    """The stores of two branches. Those that go to one element by the same dims are one, wherever the guard holds."""
    if len(then) == len(other) == 1 and then[0][2] and other[0][2]:
        (called, line, points), (_, second, beside) = then[0], other[0]
        if points.dims == beside.dims and _element(line, points) == _element(second, beside):
            points.guards += beside.guards
            return [(called, line, points)]
    return [(called, line, None) for called, line, _ in (*then, *other)]


def _element(s: Line, points: Points) -> tuple[str, list[Poly]]:
    place = next(a for a in s.accesses if a.is_write)
    return place.name, [points.plain(e) for e in place.brackets[0]]


def _turns(s: Line, points: Points) -> Points:
    found, called = points.copy(), s.get("name")
    low, high, step = (points.plain(s.get(end, number(1))) for end in ("low", "high", "step"))
    own = {d: n for d, n in points.dims.items() if any(d in m for m in low)}
    if own:  # `for tile in cta.x..tiles step 132`: the threads that begin beside one another share the turns
        if constant(step) is None or _digits(low, own) != step or _speaks_of(high, points.dims):
            raise Lost
        found.dims = {d: n for d, n in found.dims.items() if d not in own} | {called: high}
        return found
    if constant(step) is None or constant(add(high, low, -1)) is None and step != number(1):
        raise Lost
    count = add(high, low, -1)
    if _speaks_of(count, points.dims):
        raise Lost
    turns = number(-(-(constant(count) or 0) // (constant(step) or 1))) if step != number(1) else count
    found.dims[f"{called} turn"] = turns
    found.means[called] = add(low, multiply(step, name(f"{called} turn")))
    return found


def _speaks_of(poly: Poly, names: Container[str]) -> bool:
    """Whether any of these names is in a polynomial, inside floors too."""
    sides = [poly, *(side for atom in floors_in((poly,)) for side in FLOORS[atom])]
    return any(atom in names for side in sides for monomial in side for atom in monomial)


def _is_of(poly: Poly, names: Container[str]) -> bool:
    """Whether a polynomial speaks of nothing but these names."""
    sides = [poly, *(side for atom in floors_in((poly,)) for side in FLOORS[atom])]
    return all(atom in names or atom in FLOORS for side in sides for monomial in side for atom in monomial)


def _ordered(s: Line, points: Points) -> None:
    """The tile's coordinates in place of its number, which has each value once."""
    tile, total = points.plain(s.get("tile")), number(1)
    for count in s.get("of"):
        total = multiply(total, points.plain(count))
    own = {d: n for d, n in points.dims.items() if any(d in m for m in tile)}
    if key(add(_digits(tile, own), total, -1)):
        raise Lost
    for dim in own:
        del points.dims[dim]
    for called, count in zip(s.get("names"), s.get("of")):
        points.dims[called] = points.plain(count)


def _under(points: Points, side: Poly, is_equal: bool) -> None:
    if is_equal:  # `warpgroup.thread = 0`: dims that add up to 0 are 0
        for monomial, coefficient in side.items():
            if len(monomial) != 1 or monomial[0] not in points.dims or coefficient * max(side.values()) < 0:
                raise Lost
        for (dim,) in list(side):
            del points.dims[dim]
            points.replace(dim, {})
        return
    points.guards.append(side)


def _held(s: Line, points: Points) -> Points:
    """Each element of a matrix once, by one of the threads that hold it."""
    unit = MATRICES.get(_kind(points.arrays[s.get("of")]), 0)
    if not unit:
        raise Lost
    found = points.copy()
    for dim in ("warp", "lane") if unit == 128 else ("lane",):
        del found.dims[dim]
    sizes = s.get("size") or points.arrays[s.get("of")].get("shape")
    found.dims |= zip(s.get("names"), sizes)
    return found


def _kind(array: Line) -> str:
    return next((word for word in array.text.split() if word in MATRICES), "")


def _digits(poly: Poly, dims: Mapping[str, Poly]) -> Poly:
    """How many numbers from 0 on a sum of all these dims takes, each once. Raises Lost."""
    left = {d: n for d, n in dims.items() if n != number(1)}
    poly = {m: c for m, c in poly.items() if len(m) != 1 or m[0] not in dims or m[0] in left}
    total = number(1)
    while left:
        factors = {d: {tuple(a for a in m if a != d): c for m, c in poly.items() if d in m} for d in left}
        dim = next((d for d, factor in factors.items() if factor == total), None)
        if dim is None:
            raise Lost
        poly = {m: c for m, c in poly.items() if dim not in m}
        total = multiply(total, left.pop(dim))
    if poly:
        raise Lost
    return total


def _covers(total: Poly, size: Poly) -> bool:
    """Whether total >= size, for floors by what makes them one."""
    rest = add(total, size, -1)
    for monomial, coefficient in total.items():
        for atom in monomial:
            if atom in FLOORS and coefficient > 0:
                divisor = constant(FLOORS[atom][1])
                others = {tuple(a for a in monomial if a != atom): coefficient}
                if divisor:  # d*q >= n - d + 1
                    least = add(FLOORS[atom][0], number(1 - divisor))
                    scaled = add(
                        multiply(number(divisor), rest), multiply(others, multiply(number(divisor), name(atom))), -1
                    )
                    rest_of = constant(add(scaled, multiply(others, least)))
                    if rest_of is not None and rest_of > -divisor:
                        return True
    found = constant(rest)
    return found is not None and found >= 0


def written_once(found: Sequence[Store], text: Text) -> bool:
    """Whether the stores to a tensor write each of its elements once."""
    (_, line, points), *others = found
    if others or points is None:
        return False
    place = next(a for a in line.accesses if a.is_write)
    box = points.arrays.get(place.name)
    tensor = box.get("of") if box is not None else place.name
    if tensor not in text.tensors or box is not None and box.get("windows"):
        return False
    shape = text.tensors[tensor][1]
    view = line.get("view") or (box.get("view") if box is not None else None)
    if view and _product(view) != _product(shape):
        return False
    shape = view or shape
    index = [points.plain(e) for e in place.brackets[0]]
    for axis, side in enumerate(line.get("box") or (box.get("box") if box is not None else ())):
        points.dims[f"box {axis}"] = side
        index[axis] = add(index[axis], name(f"box {axis}"))
    if not all(_is_of(n, points.sizes) for n in points.dims.values()):
        return False
    return any(_is_once(points, *grouped) for grouped in _groupings(index, shape))


def _product(sizes: Sequence[Poly]) -> Poly:
    return functools.reduce(multiply, sizes, number(1))


def _groupings(index: Sequence[Poly], shape: Sequence[Poly]) -> Iterator[tuple[list[Poly], list[Poly]]]:
    """The index with neighbouring axes as one, in all ways: an element's number along them is as good as its place."""
    for cuts in itertools.product((False, True), repeat=max(0, len(index) - 1)):
        places, sizes = [index[0]], [shape[0]]
        for e, size, is_cut in zip(index[1:], shape[1:], cuts):
            if is_cut:
                places.append(e)
                sizes.append(size)
            else:
                places[-1], sizes[-1] = add(multiply(places[-1], size), e), multiply(sizes[-1], size)
        yield places, sizes


def _is_once(points: Points, index: Sequence[Poly], shape: Sequence[Poly]) -> bool:
    """Whether the dims are the digits of the index, and guards cut off only what is outside."""
    points = points.copy()
    try:
        index = points.without_floors(index)
        ends = [add(add(size, e, -1), number(-1)) for e, size in zip(index, shape)]
        for guard in [g for g in points.guards if not any(points.implies(end, g) for end in ends)]:
            index = points.joined(guard, index)
        left = dict(points.dims)
        for e, size in zip(index, shape):
            own = {d: n for d, n in left.items() if any(d in m for m in e)}
            if not _covers(_digits(e, own), size):
                return False
            left = {d: n for d, n in left.items() if d not in own}
    except Lost:
        return False
    return all(n == number(1) for n in left.values())


def once(kernel: Kernel, text: Text) -> Iterator[tuple[str, bool]]:
    """The places that a kernel stores to outside of shared memory, each with whether every element is written once."""
    shared = {s.get("name") for s in statements(kernel.body) if s.kind == "shared"}
    try:
        every = list(stores(kernel.body, start_of(kernel, set(text.symbols())), kernel))
    except Lost:
        every = [one for s in kernel.body for one in stores_in(s)]
    found: dict[str, list[Store]] = {}
    for one in every:
        found.setdefault(one[0], []).append(one)
    for called, places in found.items():
        if called not in shared:
            yield called, written_once(places, text)


__all__ = ["once"]
