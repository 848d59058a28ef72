"""Small proofs about integers in a kernel: what is below what, given the guards that hold there.

Sound, not complete: a `False` means not proven. One fact at a time is used, with the ranges of names for the rest, and the laws of
floor: floor(n/d) < m when n < m*d, and n - d*floor(n/d) < d; and 0 <= e when 0 <= d*e + d - 1, e being an integer.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from ..expr import Bound, Expr, Floor
from ..intervals import Interval, interval_of
from ..remainder import remainders


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at a place of the kernel: ranges of names, what `let`s stand for (written out, and `near`, as they stand in the text),
    and guards that hold. A place whose guards shut out every value of a name is never reached: there everything is proven."""

    ranges: dict[str, Interval] = field(default_factory=dict)
    lets: dict[str, Expr] = field(default_factory=dict)
    guards: tuple[Bound, ...] = ()
    near: dict[str, Expr] = field(default_factory=dict)
    is_reached: bool = True

    def without(self, name: str) -> "Facts":
        """What is known, but for `name`, which now is another's."""
        guards = tuple(g for g in self.guards if not any(name in e.names() for e in (g.expr, g.lower, g.upper, g.equals) if e is not None))
        lets = {k: v for k, v in self.lets.items() if k != name and name not in v.names()}
        near = {k: v for k, v in self.near.items() if k != name and name not in v.names()}
        return Facts({k: v for k, v in self.ranges.items() if k != name}, lets, guards, near, self.is_reached)

    def with_range(self, name: str, low: Expr, high: Expr) -> "Facts":
        """Also low <= name < high."""
        low, high = self.plain(low), self.plain(high)
        least, most = interval_of(low, self.ranges).low, interval_of(high, self.ranges).high
        known = self.without(name)
        bound = Bound(Expr.of(name), low, high)
        return Facts({**known.ranges, name: Interval(least, None if most is None else most - 1)}, known.lets, (*known.guards, bound), known.near, self.is_reached)

    def with_let(self, name: str, value: Expr) -> "Facts":
        """Also name = value."""
        plain = self.plain(value)
        known = self.without(name)
        whole = tuple(Bound(Expr.of(name), Expr.of(0), r.divisor) for r in remainders(plain) if r.factor == Expr.of(1) and r.rest == Expr.of(0))
        found = _within_both(_range_of(plain, self.ranges), _range_of(value, self.ranges))
        found = _within_both(found, Interval(0, None)) if whole else found
        return Facts({**known.ranges, name: found}, {**known.lets, name: plain}, (*known.guards, *whole), {**known.near, name: value}, self.is_reached)

    def with_guard(self, guard: tuple[Bound, ...]) -> "Facts":
        """Also every bound of a guard."""
        bounds = (*guard, *(b.substitute(self.lets) for b in guard))
        ranges = _narrowed(self.ranges, bounds)
        return replace(self, guards=self.guards + tuple(dict.fromkeys(bounds)), ranges=ranges or self.ranges, is_reached=self.is_reached and ranges is not None)

    def plain(self, expr: Expr) -> Expr:
        """The expression with `let`s written out."""
        return expr.substitute(self.lets)

    def is_below(self, expr: Expr, limit: Expr) -> bool:
        """Whether expr < limit is proven."""
        return not self.is_reached or self._is_below(expr, limit, 3)

    def is_at_least(self, expr: Expr, limit: Expr) -> bool:
        """Whether limit <= expr is proven."""
        return not self.is_reached or self._is_below(limit - 1, expr, 3)

    def holds(self, bound: Bound) -> bool:
        """Whether a guard is proven."""
        if bound.equals is not None:
            return not self.is_reached or self.plain(bound.expr) == self.plain(bound.equals)
        return (bound.lower is None or self.is_at_least(bound.expr, bound.lower)) and (bound.upper is None or self.is_below(bound.expr, bound.upper))

    def _is_below(self, expr: Expr, limit: Expr, depth: int) -> bool:
        near = expr.substitute(self.near), limit.substitute(self.near)
        for e, m in dict.fromkeys([(expr, limit), (near[0], limit), near, (self.plain(expr), self.plain(limit))]):
            if self._is_sum_of_naturals(m - e - 1, 2):
                return True
            if depth > 0 and (self._by_floor(e, m, depth) or self._by_floor(*_without_minus(e, m), depth) or self._by_remainder(e, m, depth)):
                return True
            if self._by_scale(m - e - 1):
                return True
        return False

    def _is_sum_of_naturals(self, expr: Expr, depth: int) -> bool:
        """expr >= 0, as a sum of up to `depth` multiples of known non-negative expressions and of one that its range makes so."""
        if self._is_natural(expr):
            return True
        if depth == 0:
            return False
        negative = {m: -c for c, m in expr.terms if c < 0}
        for known in _naturals(self.guards):
            for c, m in known.terms:
                if m in negative and c < 0 and self._is_sum_of_naturals(expr - max(1, negative[m] // -c) * known, depth - 1):
                    return True
        return False

    def _is_natural(self, expr: Expr) -> bool:
        low = interval_of(expr, self.ranges).low
        if low is None or low < 0:
            low = _range_of(expr, self.ranges).low
        return low is not None and low >= 0

    def _by_floor(self, expr: Expr, limit: Expr, depth: int) -> bool:
        """One floor and a rest: floor(n/d) + r < m when n < (m - r)*d, and c*floor(n/d) + r < m when floor(n/d) <= floor((m - r - 1)/c), a
        number; the same for -floor on the other side; and e < c*floor(n/d) + r when e < r and 0 <= n."""
        for coefficient, monomial in expr.terms:
            if coefficient > 1 and len(monomial) == 1 and isinstance(monomial[0], Floor):
                floor, rest = monomial[0], expr - Expr(((coefficient, monomial),))
                room = interval_of(limit - rest - 1, self.ranges).low
                if room is not None and self._is_below(floor.num, (room // coefficient + 1) * floor.den, depth - 1):
                    return True
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Floor):
                floor = monomial[0]
                rest = expr - Expr(((1, monomial),))
                if self._is_below(floor.num, (limit - rest) * floor.den, depth - 1):
                    return True
        for coefficient, monomial in limit.terms:
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Floor):
                floor = monomial[0]
                rest = limit - Expr(((1, monomial),))
                if self._is_below((expr - rest + 1) * floor.den - 1, floor.num, depth - 1):  # e - r + 1 <= floor(n/d)
                    return True
            if coefficient > 1 and len(monomial) == 1 and isinstance(monomial[0], Floor):
                rest = limit - Expr(((coefficient, monomial),))
                if self._is_below(expr, rest, depth - 1) and self._is_below(Expr.of(-1), monomial[0].num, depth - 1):
                    return True
        return False

    def _by_scale(self, expr: Expr) -> bool:
        """0 <= floor(n/d) + r when 0 <= d*(floor(n/d) + r) + d - 1, where a guard may speak of d*floor(n/d)."""
        dens = dict.fromkeys(a.den for c, m in expr.terms if c == 1 and len(m) == 1 for a in m if isinstance(a, Floor) and a.den.constant is not None)
        return any(self._is_sum_of_naturals(den * expr + den - 1, 2) for den in dens)

    def _by_remainder(self, expr: Expr, limit: Expr, depth: int) -> bool:
        """q*(n mod d) + r lies between r and q*(d - 1) + r, in this order when 0 <= q, in the other when q <= 0."""
        for name, at_most in (("expr", True), ("limit", False)):
            whole = expr if at_most else limit
            for found in remainders(whole):
                is_rising = self._is_natural(found.factor)
                if not is_rising and not self._is_natural(-found.factor):
                    continue
                bound = found.rest + found.factor * (found.divisor - 1) if at_most == is_rising else found.rest
                if self._is_below(bound, limit, depth - 1) if at_most else self._is_below(expr, bound, depth - 1):
                    return True
        return False


def _range_of(expr: Expr, ranges: dict[str, Interval]) -> Interval:
    """The range of an expression, of which every remainder by a number is read as one."""
    found = interval_of(expr, ranges)
    for part in remainders(expr):
        if part.divisor.constant is not None:
            remainder = Interval(0, part.divisor.constant - 1)
            found = _within_both(found, interval_of(part.factor, ranges) * remainder + _range_of(part.rest, ranges))
    return found


def _within_both(left: Interval, right: Interval) -> Interval:
    """What lies in both ranges."""
    low, high = ([e for e in ends if e is not None] for ends in ((left.low, right.low), (left.high, right.high)))
    return Interval(max(low, default=None), min(high, default=None))


def _narrowed(ranges: dict[str, Interval], bounds: tuple[Bound, ...]) -> dict[str, Interval] | None:
    """The ranges, less what bounds of a name by numbers shut out; None where a name has no value left."""
    found = dict(ranges)
    for b in bounds:
        name = b.expr.terms[0][1][0] if len(b.expr.terms) == 1 and len(b.expr.terms[0][1]) == 1 else None
        if not isinstance(name, str) or b.expr != Expr.of(name):
            continue
        low = b.lower.constant if b.lower is not None else None
        upper = b.upper.constant if b.upper is not None else None
        narrowed = _within_both(found.get(name, Interval(None, None)), Interval(low, None if upper is None else upper - 1))
        if narrowed.low is not None and narrowed.high is not None and narrowed.low > narrowed.high:
            return None
        found[name] = narrowed
    return found


def _without_minus(expr: Expr, limit: Expr) -> tuple[Expr, Expr]:
    """The two sides of expr < limit with every term on the side where it is added."""
    difference = limit - expr
    added = Expr(tuple((c, m) for c, m in difference.terms if c > 0))
    return added - difference, added


@functools.lru_cache(maxsize=4096)
def _naturals(guards: tuple[Bound, ...]) -> tuple[Expr, ...]:
    """Expressions that the guards make non-negative."""
    found = []
    for g in guards:
        if g.equals is not None:
            found += [g.expr - g.equals, g.equals - g.expr]
        if g.lower is not None:
            found.append(g.expr - g.lower)
        if g.upper is not None:
            found.append(g.upper - g.expr - 1)
    return tuple(dict.fromkeys(found))
