"""Small proofs about integers in a kernel: what is below what, given the guards that hold there.

Sound, not complete: a `False` means not proven. What ranges show, alone or with one guard, costs next to nothing; the
rest is asked of `ir.gpu.linear`, which takes all facts together.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...kit.records import dataclass, field, replace
from ...kit.work import count
from ..expr import Bound, Expr
from ..intervals import Interval, Ranges, interval_of
from ..remainder import remainders
from ..scope import halves_of
from .extremes import Least, Most, bounds_of
from .extremes import interval_of as extreme_of
from .linear import Known, is_shown


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at a place of the kernel: ranges of names, what `let`s mean (written out, and `near`, as they
    are written in the text), guards that hold, and of those that do not (`broken`) the sides, of which one at least is
    < 0. A place whose guards shut out every value of a name is never reached: there everything is proven. `vocabulary`
    has every name that is spoken of."""

    ranges: dict[str, Interval] = field(default_factory=dict)
    lets: dict[str, Expr] = field(default_factory=dict)
    guards: tuple[Bound, ...] = ()
    near: dict[str, Expr] = field(default_factory=dict)
    is_reached: bool = True
    broken: tuple[tuple[Expr, ...], ...] = ()
    vocabulary: frozenset[str] | None = field(default=None, compare=False)
    _asked: _Asked | None = field(default=None, init=False, repr=False, compare=False)

    def _spoken_of(self) -> frozenset[str]:
        if self.vocabulary is not None:
            return self.vocabulary
        spoken = (b.vocabulary for b in (*self.guards, *(e for case in self.broken for e in case)))
        lets = (e.vocabulary for e in (*self.lets.values(), *self.near.values()))
        return frozenset().union(self.ranges, self.lets, self.near, *lets, *spoken)

    def without(self, name: str) -> Facts:
        """What is known, but for `name`, which now is another's."""
        vocabulary = self._spoken_of()
        if name not in vocabulary:
            return self if self.vocabulary is not None else replace(self, vocabulary=vocabulary)
        guards = tuple(g for g in self.guards if name not in g.vocabulary)
        lets = {k: v for k, v in self.lets.items() if k != name and name not in v.vocabulary}
        near = {k: v for k, v in self.near.items() if k != name and name not in v.vocabulary}
        broken = tuple(case for case in self.broken if not any(name in e.vocabulary for e in case))
        ranges = {k: v for k, v in self.ranges.items() if k != name}
        return Facts(ranges, lets, guards, near, self.is_reached, broken, vocabulary - {name})

    def with_range(self, name: str, low: Expr, high: Expr) -> Facts:
        """Also low <= name < high."""
        low, high = self.plain(low), self.plain(high)
        least, most = interval_of(low, self.ranges).low, interval_of(high, self.ranges).high
        known = self.without(name)
        bound = Bound(Expr.of(name), low, high)
        is_reached = self.is_reached and (least is None or most is None or least < most)
        return Facts(
            {**known.ranges, name: Interval(least, None if most is None else most - 1)},
            known.lets,
            (*known.guards, bound),
            known.near,
            is_reached,
            known.broken,
            known._spoken_of() | bound.vocabulary,
        )

    def with_let(self, name: str, value: Expr) -> Facts:
        """Also name = value."""
        plain = self.plain(value)
        known = self.without(name)
        whole = tuple(
            Bound(Expr.of(name), Expr.of(0), r.divisor)
            for r in remainders(plain)
            if r.factor == Expr.of(1) and r.rest == Expr.of(0)
        )
        found = _within_both(_range_of(plain, self.ranges), _range_of(value, self.ranges))
        found = _within_both(found, Interval(0, None)) if whole else found
        return Facts(
            {**known.ranges, name: found},
            {**known.lets, name: plain},
            (*known.guards, *whole),
            {**known.near, name: value},
            self.is_reached,
            known.broken,
            known._spoken_of().union([name], plain.vocabulary, value.vocabulary, *(b.vocabulary for b in whole)),
        )

    def with_extreme(self, s: Least | Most) -> Facts:
        """Also that its integer is the least or the most of several."""
        ends = (_within_both(_range_of(e, self.ranges), _range_of(self.plain(e), self.ranges)) for e in s.of)
        found = extreme_of(s, ends)
        known = self.without(s.name).with_guard(tuple(bounds_of(s)))
        own = known.ranges.get(s.name, Interval(None, None))
        return replace(known, ranges={**known.ranges, s.name: _within_both(own, found)})

    def with_guard(self, guard: tuple[Bound, ...]) -> Facts:
        """Also every bound of a guard."""
        bounds = (*guard, *(b.substitute(self.lets) for b in guard))
        ranges = _narrowed(self.ranges, bounds)
        return Facts(
            ranges or self.ranges,
            self.lets,
            self.guards + tuple(dict.fromkeys(bounds)),
            self.near,
            self.is_reached and ranges is not None,
            self.broken,
            self._spoken_of().union(*(b.vocabulary for b in bounds)),
        )

    def with_broken(self, guard: tuple[Bound, ...]) -> Facts:
        """Also that a guard does not hold: one side of it at least is broken."""
        sides = [Bound(b.expr, upper=b.lower) for b in guard if b.lower is not None] + [
            Bound(b.expr, lower=b.upper) for b in guard if b.upper is not None
        ]
        halves = tuple(half for b in guard for half in halves_of(b))
        if len(sides) == len(halves) == 1:
            return self.with_guard(tuple(sides))
        vocabulary = self._spoken_of().union(*(e.vocabulary for e in halves))
        return replace(self, broken=(*self.broken, halves), vocabulary=vocabulary)

    def plain(self, expr: Expr) -> Expr:
        """The expression with `let`s written out."""
        return expr.substitute(self.lets)

    def is_below(self, expr: Expr, limit: Expr) -> bool:
        """Whether expr < limit is proven."""
        return not self.is_reached or self._is_natural(limit - expr - 1)

    def is_at_least(self, expr: Expr, limit: Expr) -> bool:
        """Whether limit <= expr is proven."""
        return not self.is_reached or self._is_natural(expr - limit)

    def is_one_of(self, expr: Expr, count: Expr, more: int = 0) -> bool:
        """Whether expr and the `more` numbers behind it are within 0..count; ranges are asked first."""
        found = interval_of(expr, self.ranges)
        if (
            None not in (found.low, found.high, count.constant)
            and 0 <= found.low
            and found.high + more < count.constant
        ):
            return True
        return self.is_at_least(expr, Expr.of(0)) and self.is_below(expr + more, count)

    def holds(self, bound: Bound) -> bool:
        """Whether a guard is proven."""
        if bound.equals is not None:
            return not self.is_reached or self.plain(bound.expr) == self.plain(bound.equals)
        return (bound.lower is None or self.is_at_least(bound.expr, bound.lower)) and (
            bound.upper is None or self.is_below(bound.expr, bound.upper)
        )

    def _is_natural(self, expr: Expr) -> bool:
        """Whether 0 <= expr is proven: by ranges, by ranges and one guard, or by all that has to do with it. What was
        once asked of facts that are equal is not asked again."""
        asked = self._asked or self._ask()
        found = asked.answers.get(expr)
        if found is None:
            count("proofs")
            found = asked.answers[expr] = self._shows(expr, asked)
        return found

    def _ask(self) -> _Asked:
        ranges, lets, near = (tuple(known.items()) for known in (self.ranges, self.lets, self.near))
        found = _asked_of(ranges, lets, self.guards, near, self.broken)
        object.__setattr__(self, "_asked", found)
        return found

    def _shows(self, expr: Expr, asked: _Asked) -> bool:
        forms = tuple(dict.fromkeys((expr, expr.substitute(self.near), self.plain(expr))))
        ranges = asked.written.ranges
        if any(_is_in_range(e, ranges) for e in forms):
            return True
        for e in forms:
            negative = {m: -c for c, m in e.terms if c < 0}
            if any(
                m in negative and c < 0 and _is_in_range(e - max(1, negative[m] // -c) * known, ranges)
                for known in asked.written.naturals
                for c, m in known.terms
            ):
                return True
        if is_shown(forms[-1], asked.plain):
            return True
        return bool(self.lets) and is_shown(expr, asked.written)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked of facts, and the facts as `ir.gpu.linear` takes them: with `let`s written out, and as they are
    written."""

    answers: dict[Expr, bool]
    plain: Known
    written: Known


@functools.lru_cache(maxsize=1 << 14)
def _asked_of(
    ranges: tuple[tuple[str, Interval], ...],
    lets: tuple[tuple[str, Expr], ...],
    guards: tuple[Bound, ...],
    near: tuple[tuple[str, Expr], ...],
    broken: tuple[tuple[Expr, ...], ...],
) -> _Asked:
    within, written = Ranges(dict(ranges)), dict(near)
    names = frozenset(name for name, _ in lets)
    naturals = _naturals(guards)
    plain = Known(tuple(e for e in naturals if names.isdisjoint(e.vocabulary)), broken, {}, within)
    stand_for = {name: tuple(dict.fromkeys((written.get(name, value), value))) for name, value in lets}
    return _Asked({}, plain, Known(naturals, broken, stand_for, within))


def _is_in_range(expr: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Whether ranges alone make an expression >= 0."""
    low = interval_of(expr, ranges).low
    if low is None or low < 0:
        low = _range_of(expr, ranges).low
    return low is not None and low >= 0


def _range_of(expr: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """The range of an expression, of which every remainder by a number is read as one."""
    found = interval_of(expr, ranges)
    for part in remainders(expr):
        if part.divisor.constant is not None:
            remainder = Interval(0, part.divisor.constant - 1)
            found = _within_both(found, interval_of(part.factor, ranges) * remainder + _range_of(part.rest, ranges))
    return found


def _within_both(left: Interval, right: Interval) -> Interval:
    """What is in both ranges."""
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
        narrowed = _within_both(
            found.get(name, Interval(None, None)), Interval(low, None if upper is None else upper - 1)
        )
        if narrowed.low is not None and narrowed.high is not None and narrowed.low > narrowed.high:
            return None
        found[name] = narrowed
    return found


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
