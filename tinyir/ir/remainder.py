"""Remainders in integer expressions: there is no `%` in the text, so `n mod d` is written as `n - d*floor(n/d)` and is
found again here."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..kit.records import dataclass
from .expr import ZERO, Expr, Floor


@dataclass(frozen=True, slots=True)
class Remainder:
    """A way to read an expression: `factor * (dividend mod divisor) + rest`."""

    factor: Expr
    dividend: Expr
    divisor: Expr
    rest: Expr


@functools.lru_cache(maxsize=1 << 14)
def remainders(expr: Expr) -> tuple[Remainder, ...]:
    """Every remainder in an expression, those first whose floor comes first. The dividend may itself be a quotient,
    whose floor in a floor is one floor: `floor(n/c) - d*floor(n/(c*d))` is `floor(n/c) mod d`."""
    found = []
    for floor in dict.fromkeys(a for _, m in expr.terms for a in m if isinstance(a, Floor)):
        outside = -_coefficient(expr, floor)
        taken = expr + outside * Expr(((1, (floor,)),))
        for dividend, divisor in ((floor.num, floor.den), *_quotients(expr, floor)):
            factor = exact_quotient(outside, divisor)
            if factor is not None:
                rest = taken - factor * dividend
                if _length(rest) < _length(taken):
                    found.append(Remainder(factor, dividend, divisor, rest))
    return tuple(found)


def _length(expr: Expr) -> tuple[int, int]:
    """Terms with names, then all."""
    return sum(bool(m) for _, m in expr.terms), len(expr.terms)


def _coefficient(expr: Expr, floor: Floor) -> Expr:
    """What the floor is multiplied by; terms that have it twice count once."""
    terms = []
    for coefficient, monomial in expr.terms:
        if floor in monomial:
            others = list(monomial)
            others.remove(floor)
            terms.append((coefficient, tuple(others)))
    return ZERO + Expr(tuple(terms))


def _quotients(expr: Expr, floor: Floor) -> Iterator[tuple[Expr, Expr]]:
    """Other floors of the same number by a part of the divisor: (that floor, the other part)."""
    for other in dict.fromkeys(a for _, m in expr.terms for a in m if isinstance(a, Floor)):
        if other.num == floor.num and other != floor:
            part = exact_quotient(floor.den, other.den)
            if part is not None:
                yield Expr(((1, (other,)),)), part


@functools.lru_cache(maxsize=1 << 14)
def exact_quotient(product: Expr, den: Expr) -> Expr | None:
    """product / den when there is no rest; None otherwise. Long division of polynomials, the terms in the order of
    their exponents."""
    atoms = list(dict.fromkeys(a for e in (den, product) for _, m in e.terms for a in m))

    def lead(expr: Expr) -> tuple[tuple[int, ...], int]:
        return max((tuple(map(m.count, atoms)), c) for c, m in expr.terms)

    if not den.terms:
        return None
    quotient, rest = ZERO, product
    powers, scale = lead(den)
    while rest.terms:
        highest, coefficient = lead(rest)
        left = [h - p for h, p in zip(highest, powers)]
        if min(left, default=0) < 0 or coefficient % scale:
            return None
        term = Expr(((coefficient // scale, ()),))
        for atom, power in zip(atoms, left):
            for _ in range(power):
                term = term * Expr(((1, (atom,)),))
        quotient, rest = quotient + term, rest - term * den
    return quotient
