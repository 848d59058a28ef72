"""Integer expressions as C, in 32 bits where the numbers prove that they fit, in 64 where they do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from ...ir.expr import Bound, Expr, Floor
from ...ir.intervals import INT_MAX, Interval, interval_of

SUM, PRODUCT, UNARY = 1, 2, 3  # how tightly a piece of C binds


@dataclass
class Integers:
    """What is known of each name: its range, and its spelling in C."""

    ranges: dict[str, Interval] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    spell: Callable[[str], str] = str

    def interval(self, expr: Expr) -> Interval:
        """The range of the expression's values."""
        return interval_of(expr, self.ranges)

    def fits(self, expr: Expr) -> bool:
        """True when the value, and so every partial sum of non-negative terms, fits an int."""
        return self.interval(expr).fits(INT_MAX)

    def c(self, expr: Expr, tight: int = SUM) -> str:
        """The expression as C: an int when it fits, else a long long. Parenthesised when it binds less than `tight`."""
        text, binds = self._sum(expr, not self.fits(expr))
        return f"({text})" if binds < tight else text

    def type_of(self, expr: Expr) -> str:
        """The C type that `c` gives."""
        return "int" if self.fits(expr) else "long long"

    def guard(self, guard: tuple[Bound, ...]) -> str:
        """A conjunction as C, without the comparisons that the ranges decide; `true` when none is left."""
        tests: list[str] = []
        for bound in guard:
            if bound.equals is not None:
                tests.append(f"{self.c(bound.expr)} == {self.c(bound.equals)}")
                continue
            value = self.interval(bound.expr)
            if bound.lower is not None and not self._is_at_least(value, bound.lower):
                tests.append(f"{self.c(bound.lower)} <= {self.c(bound.expr)}")
            if bound.upper is not None and not self._is_below(value, bound.upper):
                tests.append(f"{self.c(bound.expr)} < {self.c(bound.upper)}")
        return " && ".join(tests) or "true"

    def _is_at_least(self, value: Interval, lower: Expr) -> bool:
        return value.low is not None and lower.constant is not None and value.low >= lower.constant

    def _is_below(self, value: Interval, upper: Expr) -> bool:
        return value.high is not None and upper.constant is not None and value.high < upper.constant

    def _sum(self, expr: Expr, is_wide: bool) -> tuple[str, int]:
        if not expr.terms:
            return "0", UNARY
        rest, pieces = self._remainders(expr, is_wide)
        positive = [t for t in rest.terms if t[0] > 0]
        ordered = [t for t in positive if t[1]] + [t for t in positive if not t[1]] + [t for t in rest.terms if t[0] < 0]
        for coefficient, monomial in ordered:
            pieces.append(("-" if coefficient < 0 else "+", *self._product(abs(coefficient), monomial, is_wide)))
        pieces.sort(key=lambda piece: piece[0] == "-")
        sign, first, binds = pieces[0]
        if len(pieces) == 1 and sign == "+":
            return first, binds
        text = ("-" if sign == "-" else "") + first
        for sign, piece, _ in pieces[1:]:
            text += f" {sign} {piece}"
        return text, SUM

    def _remainders(self, expr: Expr, is_wide: bool) -> tuple[Expr, list[tuple[str, str, int]]]:
        """Takes out what is a remainder, `q*(e - d*floor(e/d))`, as `q * (e % d)` where e is known not to be negative; e may itself be a
        quotient, whose floor in a floor is one floor: `floor(n/c) - d*floor(n/(c*d))`."""
        pieces: list[tuple[str, str, int]] = []
        for coefficient, monomial in expr.terms:
            for atom in monomial:
                if not isinstance(atom, Floor) or (low := self.interval(atom.num).low) is None or low < 0:
                    continue
                others = list(monomial)
                others.remove(atom)
                rest = Expr(((-coefficient, tuple(others)),))
                found = self._whole_of(expr, atom, rest)
                if found is None:
                    continue
                factor, whole, divisor, dividend = found
                left = expr - Expr(((coefficient, monomial),)) - factor * whole
                if len(left.terms) != len(expr.terms) - 1 - len((factor * whole).terms) or len(factor.terms) != 1:
                    continue
                inner = f"{dividend} % {self.c(divisor, UNARY)}"
                scale, names = factor.terms[0]
                if scale == 1 and not names:
                    pieces.append(("+", inner, PRODUCT))
                else:
                    text, _ = self._product(abs(scale), names, is_wide)
                    pieces.append(("-" if scale < 0 else "+", f"{text} * ({inner})", PRODUCT))
                remaining, more = self._remainders(left, is_wide)
                return remaining, pieces + more
        return expr, pieces

    def _whole_of(self, expr: Expr, atom: Floor, rest: Expr) -> tuple[Expr, Expr, Expr, str] | None:
        """For a term `-rest * floor(num/den)`: (q, e, d, C of e) such that the term and `q*e` in `expr` make `q * (e mod d)`."""
        factor = _quotient(rest, atom.den)
        if factor is not None:
            return factor, atom.num, atom.den, self.c(atom.num, PRODUCT)
        for coefficient, monomial in expr.terms:
            for other in monomial:
                if isinstance(other, Floor) and other.num == atom.num and other != atom:
                    names = list(monomial)
                    names.remove(other)
                    factor, ratio = Expr(((coefficient, tuple(names)),)), _quotient(atom.den, other.den)
                    if ratio is not None and factor * ratio == rest:
                        return factor, Expr(((1, (other,)),)), ratio, self._atom(other, False)
        return None

    def _product(self, coefficient: int, monomial: tuple, is_wide: bool) -> tuple[str, int]:
        factors = [str(coefficient) + ("ll" if coefficient > INT_MAX else "")] if coefficient != 1 or not monomial else []
        factors += [self._atom(atom, len(monomial) + (coefficient != 1) > 1) for atom in monomial]
        if is_wide and monomial and not self._is_long(monomial[0]):
            factors[-len(monomial)] = f"(long long){factors[-len(monomial)]}"
            if len(factors) > len(monomial):  # the cast first, so that the product is made in 64 bits
                factors[0], factors[1] = factors[1], factors[0]
        binds = PRODUCT if len(factors) > 1 or factors[0].startswith("(long") or " / " in factors[0] else UNARY
        return " * ".join(factors), binds

    def _is_long(self, atom: str | Floor) -> bool:
        return isinstance(atom, str) and not self.ranges.get(atom, Interval(0, 0)).fits(INT_MAX)

    def _atom(self, atom: str | Floor, in_product: bool) -> str:
        if isinstance(atom, str):
            return self.spellings.get(atom) or self.spell(atom)
        low = self.interval(atom.num).low
        if low is None or low < 0:
            call = f"floor_div({self.c(atom.num)}, {self.c(atom.den)})"
            return f"(int){call}" if interval_of(Expr(((1, (atom,)),)), self.ranges).fits(INT_MAX) else call
        text = f"{self.c(atom.num, PRODUCT)} / {self.c(atom.den, UNARY)}"
        return f"({text})" if in_product else text


def _quotient(product: Expr, den: Expr) -> Expr | None:
    """product / den, when that is one monomial without a rest."""
    quotient = product // den
    return quotient if quotient * den == product and not any(isinstance(a, Floor) for _, m in quotient.terms for a in m) else None
