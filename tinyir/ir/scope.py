"""What is known at the points of a domain: axes within their sizes, symbols within their ranges; and what follows from
it.

`Scope.proves` answers "is this expression >= 0 at every point": first by linear bounds, then by a counterexample at a
corner, and only when both are silent by isl. `Scope.simplify` puts floors into lowest form with the same knowledge
(seed 001 section 4.3): `floor((4*i0 + i1)/8)` with i1 < 4 is `floor(i0/2)`. A domain may be empty (a symbol may be 0);
everything holds there.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

from ..kit.records import dataclass
from .expr import ZERO, Bound, Expr, Floor, Monomial

STEPS = 64  # rounds of elimination before linear reasoning gives up
SAMPLE = 24  # what a symbol without an upper range is set to when a counterexample is sought


@dataclass(frozen=True, slots=True)
class Scope:
    """Axes with their sizes, symbols with their ranges (bounds included), and expressions that are >= 0 at the points
    in question."""

    axes: tuple[tuple[str, Expr], ...] = ()
    ranges: tuple[tuple[str, int, int], ...] = ()
    given: tuple[Expr, ...] = ()

    def proves(self, expr: Expr) -> bool:
        """True when `expr` is shown to be >= 0 at every point; False when it is not, or when nothing shows it."""
        return _proves(self, expr)

    def proves_bound(self, bound: Bound) -> bool:
        """True when the guard is shown to hold at every point."""
        return all(self.proves(half) for half in halves_of(bound))

    def outside(self, index: tuple[Expr, ...], shape: tuple[Expr, ...]) -> tuple[int, ...]:
        """The axes along which `index` is not shown to stay within `shape` at every point."""
        return _outside(self, index, shape)

    def is_empty(self) -> bool:
        """True when the scope is shown to have no point for any sizes."""
        return _is_empty(self)

    def simplify(self, expr: Expr) -> Expr:
        """An equal expression (at every point of the scope) with its floors in lowest form."""
        return _simplify(self, expr) if has_floor(expr) else expr

    def with_given(self, guard: tuple[Bound, ...]) -> Scope:
        """The points of this scope at which `guard` holds."""
        if not guard:
            return self
        return Scope(self.axes, self.ranges, self.given + tuple(half for bound in guard for half in halves_of(bound)))


def halves_of(bound: Bound) -> tuple[Expr, ...]:
    """The expressions that are >= 0 just where the guard holds."""
    if bound.equals is not None:
        return (bound.expr - bound.equals, bound.equals - bound.expr)
    low = () if bound.lower is None else (bound.expr - bound.lower,)
    high = () if bound.upper is None else (bound.upper - bound.expr - 1,)
    return low + high


def has_floor(expr: Expr) -> bool:
    """True when a floor is anywhere in it."""
    for _, monomial in expr.terms:  # a loop: it is asked of each index
        for atom in monomial:
            if atom.__class__ is Floor:
                return True
    return False


def floors_in(*exprs: Expr) -> frozenset[Floor]:
    """The floors that are factors in the expressions."""
    return frozenset(a for e in exprs for _, monomial in e.terms for a in monomial if isinstance(a, Floor))


@functools.lru_cache(maxsize=1 << 16)
def _proves(scope: Scope, expr: Expr) -> bool:
    if expr.constant is not None:
        return expr.constant >= 0 or scope.is_empty()
    bare = Scope(scope.axes, scope.ranges)
    if _is_bounded_below(bare, expr) or any(_is_bounded_below(bare, expr - fact) for fact in scope.given):
        return True
    if _has_counterexample(scope, expr):
        return False
    return _proves_by_isl(scope, -expr - 1)


@functools.lru_cache(maxsize=1 << 16)
def _outside(scope: Scope, index: tuple[Expr, ...], shape: tuple[Expr, ...]) -> tuple[int, ...]:
    return tuple(
        axis
        for axis, (at, size) in enumerate(zip(index, shape))
        if not (scope.proves(at) and scope.proves(size - 1 - at))
    )


@functools.lru_cache(maxsize=1 << 16)
def _is_empty(scope: Scope) -> bool:
    bare = Scope(scope.axes, scope.ranges)
    if any(_is_bounded_below(bare, -fact - 1) for fact in scope.given):
        return True
    if _has_counterexample(scope, Expr.of(-1)):
        return False
    return _proves_by_isl(scope, None)


def _proves_by_isl(scope: Scope, broken: Expr | None) -> bool:
    """True when isl finds no point of the scope at which `broken` is >= 0 as well."""
    from . import sets

    facts = scope.given if broken is None else (*scope.given, broken)
    if not all(sets.is_representable(fact, dict(scope.axes)) for fact in facts):
        return False
    return sets.is_empty(scope.axes, scope.ranges, facts)


# --- linear bounds


@functools.lru_cache(maxsize=1 << 16)
def _is_bounded_below(scope: Scope, expr: Expr) -> bool:
    """Whether linear reasoning shows expr >= 0: floors are replaced by their rational bounds, axes by their ends, then
    symbols."""
    sizes = dict(scope.axes)
    scale = 1
    for _ in range(STEPS):
        found = _first_floor(expr)
        if found is not None:
            coefficient, floor = found
            divisor = floor.den.constant
            rest = expr - Expr(((coefficient, (floor,)),))
            expr = rest * divisor + coefficient * (floor.num - (divisor - 1) if coefficient > 0 else floor.num)
            scale *= divisor
            continue
        axis_term = _first_axis(expr, sizes)
        if axis_term is None:
            whole = _first_multiple(expr)
            if whole is None:
                break
            term, floor = whole
            expr = expr - term + term.terms[0][0] * (floor.num if term.terms[0][0] < 0 else floor.num - floor.den + 1)
            continue
        coefficient, monomial, axis = axis_term
        others = list(monomial)
        others.remove(axis)
        if any(other in sizes or isinstance(other, Floor) for other in others):
            return False
        term = Expr(((coefficient, monomial),))
        expr = expr - term
        if coefficient < 0:
            expr = expr + Expr(((coefficient, tuple(others)),)) * (sizes[axis] - 1)
    lowest = _lowest(expr, scope)
    return lowest is not None and lowest > -scale


def _first_floor(expr: Expr) -> tuple[int, Floor] | None:
    for coefficient, monomial in expr.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Floor) and monomial[0].den.constant is not None:
            return coefficient, monomial[0]
    return None


def _first_multiple(expr: Expr) -> tuple[Expr, Floor] | None:
    """The first term c*d*floor(n/d) whose d is of symbols; d*floor(n/d) is at most n, and at least n - d + 1."""
    for coefficient, monomial in expr.terms:
        for at, atom in enumerate(monomial):
            rest = (*monomial[:at], *monomial[at + 1 :])
            if isinstance(atom, Floor) and rest and atom.den == Expr(((1, rest),)):
                return Expr(((coefficient, monomial),)), atom
    return None


def _first_axis(expr: Expr, sizes: dict[str, Expr]) -> tuple[int, Monomial, str] | None:
    for coefficient, monomial in expr.terms:
        for atom in monomial:
            if isinstance(atom, str) and atom in sizes:
                return coefficient, monomial, atom
    return None


def _lowest(expr: Expr, scope: Scope) -> int | None:
    """The smallest value over the symbols' ranges, each monomial by itself; None when a floor is in the way."""
    total = 0
    ranges = _ranges_of(scope)
    for coefficient, monomial in expr.terms:
        for atom in monomial:
            if isinstance(atom, Floor):
                return None
            low, high = ranges.get(atom, (0, (1 << 31) - 1))
            coefficient *= low if coefficient > 0 else high
        total += coefficient
    return total


@functools.lru_cache(maxsize=4096)
def _ranges_of(scope: Scope) -> dict[str, tuple[int, int]]:
    """The symbols' ranges; a symbol that is (a factor of) an axis's size is at least 1 where there is any point."""
    ranges = {name: (low, high) for name, low, high in scope.ranges}
    for _, size in scope.axes:
        if len(size.terms) == 1 and size.terms[0][0] > 0:
            for atom in size.terms[0][1]:
                if isinstance(atom, str):
                    low, high = ranges.get(atom, (0, (1 << 31) - 1))
                    ranges[atom] = (max(low, 1), high)
    return ranges


# --- counterexamples


def _has_counterexample(scope: Scope, expr: Expr) -> bool:
    """Whether expr < 0 at a point tried: its own axes at the ends that make it small, the others in the middle; and
    where facts about one axis begin or end."""
    for symbols in _symbol_samples(scope):
        try:
            sizes = {axis: size.evaluate(symbols) for axis, size in scope.axes}
        except (KeyError, ZeroDivisionError):
            return False
        if any(size < 1 for size in sizes.values()):
            continue
        for point in itertools.chain(_corners(expr, sizes), _edges(scope.given, sizes)):
            bindings = {**symbols, **point}
            try:
                if expr.evaluate(bindings) < 0 and all(fact.evaluate(bindings) >= 0 for fact in scope.given):
                    return True
            except (KeyError, ZeroDivisionError):
                return False
    return False


def _symbol_samples(scope: Scope) -> Iterator[dict[str, int]]:
    names = {name: (0, (1 << 31) - 1) for _, size in scope.axes for name in size.names()}
    names |= {name: (0, (1 << 31) - 1) for fact in scope.given for name in fact.names() if name not in dict(scope.axes)}
    names |= {name: (low, high) for name, low, high in scope.ranges}
    yield {name: min(max(low, SAMPLE + 5 * at), high) for at, (name, (low, high)) in enumerate(names.items())}
    yield {name: min(max(low, 1), high) for name, (low, high) in names.items()}


def _corners(expr: Expr, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    middle = {axis: size // 2 for axis, size in sizes.items()}
    signs: dict[str, int] = {}
    for coefficient, monomial in expr.terms:
        for name in Expr(((1, monomial),)).names():
            if name in sizes:
                signs.setdefault(name, coefficient)
    low = {axis: 0 if sign > 0 else sizes[axis] - 1 for axis, sign in signs.items()}
    yield {**middle, **low}
    yield middle
    yield dict.fromkeys(sizes, 0)
    yield {axis: size - 1 for axis, size in sizes.items()}
    for axis, _sign in signs.items():
        for at in {0, 1, 2, sizes[axis] - 3, sizes[axis] - 2, sizes[axis] - 1}:
            if 0 <= at < sizes[axis]:
                yield {**middle, axis: at}
                yield {**middle, **low, axis: at}


def _edges(given: tuple[Expr, ...], sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """The first point, and the last, that facts of one axis leave, the other axes in the middle."""
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for fact in given:
        bare = fact - fact.offset
        axis = bare.terms[0][1][0] if len(bare.terms) == 1 and len(bare.terms[0][1]) == 1 else None
        if isinstance(axis, str) and axis in sizes:
            coefficient = bare.terms[0][0]
            if coefficient > 0:
                low[axis] = max(low.get(axis, 0), -(fact.offset // coefficient))
            else:
                high[axis] = min(high.get(axis, sizes[axis] - 1), fact.offset // -coefficient)
    middle = {axis: size // 2 for axis, size in sizes.items()}
    for ends in (low, high):
        if ends and all(0 <= at < sizes[axis] for axis, at in ends.items()):
            yield {**middle, **ends}


# --- floors in lowest form


@functools.lru_cache(maxsize=1 << 16)
def _simplify(scope: Scope, expr: Expr) -> Expr:
    total = ZERO
    for coefficient, monomial in expr.terms:
        product = Expr.of(coefficient)
        for atom in monomial:
            product = product * (
                atom
                if isinstance(atom, str)
                else _simplify_floor(scope, scope.simplify(atom.num), scope.simplify(atom.den))
            )
        total = total + product
    return total if total == expr or not has_floor(total) else scope.simplify(total)


def _simplify_floor(scope: Scope, num: Expr, den: Expr) -> Expr:
    """floor(num/den) with every divisor taken out that the ranges allow."""
    quotient = num // den
    floors = [m[0] for c, m in quotient.terms if c == 1 and len(m) == 1 and isinstance(m[0], Floor)]
    if len(quotient.terms) != 1 or not floors:
        return quotient
    num, den = floors[0].num, floors[0].den
    if den.constant is None:
        return _without_remainder(scope, num, den) or quotient
    divisors = {math.gcd(c, den.constant) for c, m in num.terms if m} | {den.constant}
    for divisor in sorted(divisors, reverse=True):
        if divisor > 1:
            for whole, rest in _splits(num, divisor):
                base = _constant_quotient(scope, rest, divisor)
                if base is not None:
                    return scope.simplify((whole + base) // (den.constant // divisor))
    return quotient


def _splits(num: Expr, divisor: int) -> Iterator[tuple[Expr, Expr]]:
    """num = divisor * whole + rest, with the coefficients of rest from 0, and with them around 0."""
    seen: list[Expr] = []
    for centre in (0, divisor // 2, divisor - 1):
        kept = [(c - (c + centre) % divisor + centre, c, m) for c, m in num.terms]
        whole = sum((Expr(((multiple // divisor, m),)) for multiple, _, m in kept if multiple), ZERO)
        if whole not in seen:
            seen.append(whole)
            yield whole, num - whole * divisor


def _constant_quotient(scope: Scope, rest: Expr, divisor: int) -> int | None:
    """The k for which k*divisor <= rest < (k + 1)*divisor at every point, when there is one and it can be shown."""
    if rest.constant is not None:
        return rest.constant // divisor
    for symbols in _symbol_samples(scope):
        try:
            point = {axis: size.evaluate(symbols) // 2 for axis, size in scope.axes}
            base = rest.evaluate({**symbols, **point}) // divisor
        except (KeyError, ZeroDivisionError):
            return None
        return base if scope.proves(rest - base * divisor) and scope.proves((base + 1) * divisor - 1 - rest) else None
    return None


def _without_remainder(scope: Scope, num: Expr, den: Expr) -> Expr | None:
    """num // den for a symbolic divisor q*g when num = g*a + r with 0 <= r < g shown: a // q. None when nothing is
    shown."""
    if len(den.terms) != 1 or den.terms[0][0] < 1:
        return _by_divisor(scope, num, den, 1)
    ((count, monomial),) = den.terms
    for divisor, times in ((den, 1), (Expr(((1, monomial),)), count)):
        found = _by_divisor(scope, num, divisor, times)
        if found is not None:
            return found
    return None


def _by_divisor(scope: Scope, num: Expr, divisor: Expr, times: int) -> Expr | None:
    whole, rest = ZERO, ZERO
    for term in num.terms:
        one = Expr((term,))
        quotient = one // divisor
        if quotient * divisor == one:
            whole = whole + quotient
        else:
            rest = rest + one
    if rest == ZERO or (scope.proves(rest) and scope.proves(divisor - 1 - rest)):
        return scope.simplify(whole // times)
    return None
