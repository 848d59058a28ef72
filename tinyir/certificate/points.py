"""The points at which a store runs, in terms of the element that it writes.

An index is a sum of points, each times how many values those before it have: they are digits of it, and found by
dividing. Axes of which a floor takes one part and the rest the other are taken together; a point of which a floor is
left is cut in two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..ir.expr import ONE, ZERO, Expr, Floor, Monomial
from .known import Known
from .shown import floors_of

MOST_PARTS = 16  # in which points are cut
MOST_AXES = 6  # that are taken together in all ways
MOST_TRIES = 12  # of ways to take them together


class Equation(NamedTuple):
    """What an integer of the element (`value`) is in terms of points (`e`). `flat`: the axes of which it is the number
    of the element along them, if several."""

    e: Expr
    value: Expr
    flat: Sequence[int] = ()


class Points:
    """`so_far`: the points that are found, each in terms of the element and of those before it; `left`: the others;
    `equations`: what they were found by; `flat`: by name, the axes that are taken together."""

    def __init__(self, known: Known):
        self.around, self.counts, self.lows = known, dict(known.counts), dict(known.lows)
        self.so_far: list[tuple[str, Expr]] = []
        self.equations: list[Equation] = []
        self.flat: dict[str, Sequence[int]] = {}
        self.left = set(known.points)
        self.parts: dict[str, tuple[str, str, Expr]] = {}  # of a point: over, within, and what it is of them
        self.cuts: list[tuple[str, Expr]] = []  # parts of points, and what they are
        self.means: dict[str, Expr] = {}  # of points in terms of what they are cut in
        self.has_gaps = False  # whether a digit counts more or less than those before it have values
        for point in known.points:
            if self.counts[point] == ONE:
                self._put(point, self.lows[point])

    def is_found(self, equations: Sequence[Equation]) -> bool:
        """Finds each point. Returns whether the equations told all those that they speak of."""
        self._solve(equations)
        is_told = not any(self.left.intersection(self.plain(one.e).vocabulary) for one in equations)
        for tile, (order, _) in self.around.tiles.items():
            self._solve([Equation(self.around.plain(order.tile), Expr.of(tile))])
        for point in [p for p in self.counts if p in self.left]:  # guards leave them one value
            self._put(point, self.lows[point])
        return is_told

    def _put(self, name: str, value: Expr) -> None:
        self.so_far.append((name, value))
        self.left.discard(name)
        for point, (over, within, value) in list(self.parts.items()):
            if point in self.parts and not {over, within} & {*self.left, *self.parts}:
                del self.parts[point]
                self._put(point, value)

    def _solve(self, equations: Sequence[Equation]) -> None:
        """Cuts points in two where a floor takes one part of them, and solves what equations can be."""
        for _ in range(MOST_PARTS):
            cut = next((c for one in equations for c in self._cuts(self.plain(one.e))), None)
            if cut is not None:
                self._cut(*cut)
        while sum(self._is_solved(one) for one in equations):
            pass  # what one finds may be what another waits for

    def _cuts(self, e: Expr) -> Iterator[tuple[str, Expr, Expr]]:
        """Points of which a floor takes a part, with the size of the parts and where the first begins."""
        for floor in floors_of(e):
            divisor = floor.den.constant
            for times, monomial in floor.num.terms:
                point = monomial[0] if len(monomial) == 1 and monomial[0] in self.left else None
                if point is None:
                    continue
                count, rest = self.counts[point].constant, floor.num - times * Expr.of(point)
                if divisor is None:
                    if times == 1 and not rest.vocabulary.intersection(self.left):
                        yield point, floor.den, rest
                elif times > 0 and divisor % times == 0 and (count is None or times * count > divisor):
                    yield point, Expr.of(divisor // times), ZERO

    def _cut(self, point: str, size: Expr, shift: Expr) -> None:
        over, within = f"{point}.over.{len(self.cuts)}", f"{point}.in.{len(self.cuts)}"
        self.counts |= {over: (self.counts[point] + shift).ceildiv(size), within: size}
        self.lows |= {over: ZERO, within: ZERO}
        value = size * Expr.of(over) + within - shift
        self.parts[point] = over, within, value
        self.cuts += [(over, (point + shift) // size), (within, point + shift - size * ((point + shift) // size))]
        self.left = self.left - {point} | {over, within}
        self.means = {name: known.substitute({point: value}) for name, known in self.means.items()} | {point: value}

    def plain(self, e: Expr) -> Expr:
        """An integer in terms of what points are cut in, without floors that are 0."""
        total = ZERO
        for times, monomial in e.substitute(self.means).terms:
            product = Expr.of(times)
            for atom in monomial:
                if isinstance(atom, Floor):
                    quotient = _quotient(self.plain(atom.num), atom.den)
                    product = product * sum(
                        (Expr((term,)) for term in quotient.terms if not self._is_zero(term[1])), ZERO
                    )
                else:
                    product = product * atom
            total = total + product
        return total

    def _is_zero(self, monomial: Monomial) -> bool:
        """Whether one of the factors is a floor of what is always below its divisor."""
        for num, den in ((a.num, a.den) for a in monomial if isinstance(a, Floor)):
            most = 0
            for times, factors in num.terms:
                count = self.counts[factors[0]] if len(factors) == 1 and factors[0] in self.counts else None
                if count == den and num.name:
                    return True
                if times < 0 or factors and (count is None or count.constant is None):
                    break
                most += times * (count.constant - 1 if count is not None else 1)
            else:
                return den.constant is not None and most < den.constant
        return False

    def _is_solved(self, one: Equation) -> bool:
        """Whether some points are digits of a sum; they are found then."""
        e, value = self.plain(one.e), one.value
        own = [p for p in self.counts if p in self.left and p in e.vocabulary]
        factors = {p: Expr(tuple((c, tuple(a for a in m if a != p)) for c, m in e.terms if p in m)) for p in own}
        rest = e - sum((factor * p for p, factor in factors.items()), ZERO)
        if not own or any(part.vocabulary.intersection(own) for part in (rest, *factors.values())):
            return False
        turned = {p for p in own if (factors[p].constant or 0) < 0}  # counted from their last value
        firsts = {p: self.lows[p] + self.counts[p] - 1 if p in turned else self.lows[p] for p in own}
        sizes = {p: -f if p in turned else f for p, f in factors.items()}
        digits = _digits(sizes, self.counts)
        if digits is None:
            return False
        self.has_gaps |= any(sizes[a] * self.counts[a] != sizes[b] for a, b in itertools.pairwise(digits))
        if one.flat:
            name = f"at.{one.flat[0]}.flat"
            self.flat[name] = one.flat
            self._put(name, value)
            value = Expr.of(name)
        self.equations.append(Equation(one.e, value))
        for at, point in reversed([*enumerate(digits)]):
            base = sum((factors[p] * firsts[p] for p in digits[: at + 1]), rest)
            if point in turned:
                self._put(point, firsts[point] - (value - base) // -factors[point])
            else:
                self._put(point, firsts[point] + (value - base) // factors[point])
            value = value - factors[point] * point
        return True


def _quotient(num: Expr, den: Expr) -> Expr:
    """floor(num/den), of which what is a multiple is taken out."""
    if den.constant is not None:
        return num // den
    parts = [Expr((term,)) for term in num.terms]
    whole = [part // den for part in parts]
    is_whole = [not any(isinstance(a, Floor) and a.den == den for _, m in part.terms for a in m) for part in whole]
    rest = sum((part for part, is_out in zip(parts, is_whole) if not is_out), ZERO)
    return sum((part for part, is_out in zip(whole, is_whole) if is_out), rest // den)


def _digits(factors: Mapping[str, Expr], counts: Mapping[str, Expr]) -> list[str] | None:
    """Points in an order in which each has for its factor how many values those before it have, or the next number."""
    found, total = list[str](), ONE
    while len(found) < len(factors):
        left = {p: f.constant for p, f in factors.items() if p not in found}
        point = next((p for p in left if factors[p] == total), None)
        if point is None and len(left) > 1 and None in left.values():
            return None
        point = point or min(left, key=lambda p: (left[p] or 0, p))
        found.append(point)
        total = factors[point] * counts[point]
    return found


def points_of(known: Known, index: Sequence[Expr], sizes: Sequence[Expr]) -> Points | None:
    """The points of a store to this index of a tensor of these sizes, or None."""
    index = [known.plain(e) for e in index]
    ways = [_together(index, sizes, groups) for groups in _partitions(len(index))]
    ways.sort(key=lambda way: (sum(len([*floors_of(one.e)]) for one in way), sum(one.e.weight for one in way)))
    first = None
    for way in ways[:MOST_TRIES]:
        found = Points(known)
        is_found = found.is_found(way)
        if is_found and not found.has_gaps:
            return found
        first = first or (found if is_found else None)
    return first


def _partitions(count: int) -> Iterator[list[list[int]]]:
    """All ways to take axes together."""
    if count == 0 or count > MOST_AXES:
        yield [[axis] for axis in range(count)]
        return
    for groups in _partitions(count - 1):
        yield [*groups, [count - 1]]
        for at, group in enumerate(groups):
            yield [*groups[:at], [*group, count - 1], *groups[at + 1 :]]


def _together(index: Sequence[Expr], sizes: Sequence[Expr], groups: Sequence[Sequence[int]]) -> list[Equation]:
    found = []
    for axes in groups:
        e = value = ZERO
        for axis in axes:
            e, value = e * sizes[axis] + index[axis], value * sizes[axis] + Expr.of(f"at.{axis}")
        found.append(Equation(e, value, axes if len(axes) > 1 else ()))
    return found
