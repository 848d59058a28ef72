"""What a front end knows of the symbols: the range of each, as it is stated, and as the ops of the model narrow it.

An op whose meaning changes with a size (a Slice that ends at 5 of an axis of n, or at L of a table of 512) has one form
in tiny text. It takes the form that holds where its bounds are within the axis, and supposes that they are: n >= 5, L
<= 512. The signature states what is supposed (`sym L in 0..512`), and what runs the program checks it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import Expr, Floor
from ..ir.model import Range
from ..ir.scope import Scope

MOST = (1 << 31) - 1


class Limits:
    """The ranges of symbols, bounds included; a symbol without one is of 0 to MOST."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[int, int]] = {}

    def state(self, ranges: Iterable[Range]) -> None:
        """Take ranges as given."""
        self._ranges.update((r.symbol, (r.low, r.high)) for r in ranges)

    def ranges(self) -> tuple[Range, ...]:
        """The ranges that are stated or supposed, in the order in which they became known."""
        return tuple(Range(symbol, low, high) for symbol, (low, high) in self._ranges.items())

    def shows(self, expr: Expr) -> bool:
        """Whether expr >= 0 for all sizes within the ranges."""
        if expr.constant is not None:
            return expr.constant >= 0
        return Scope((), tuple((s, *self._range(s)) for s in dict.fromkeys(expr.names()))).proves(expr)

    def suppose(self, expr: Expr) -> bool:
        """Narrow the ranges to where expr >= 0; False, with nothing changed, where no ranges say just that."""
        if self.shows(expr):
            return True
        names = tuple(dict.fromkeys(expr.names()))
        if len(names) == 1 and (slope := _slope(expr)):
            return self._narrow(names[0], expr, slope)
        if _is_product(expr) and all(self._range(n)[1] for n in names):  # M*N >= 1
            self._ranges.update((n, (max(1, self._range(n)[0]), self._range(n)[1])) for n in names)
            return True
        return False

    def _range(self, symbol: str) -> tuple[int, int]:
        return self._ranges.get(symbol, (0, MOST))

    def _narrow(self, symbol: str, expr: Expr, slope: int) -> bool:
        """The range of the one symbol up to where expr, which rises with it (slope 1) or falls (-1), is 0 or more."""
        low, high = self._range(symbol)
        best, other = (high, low) if slope > 0 else (low, high)
        if expr.evaluate({symbol: best}) < 0:
            return False
        while abs(best - other) > 1:  # at `best` it is >= 0, at `other` it is not
            middle = (best + other) // 2
            best, other = (middle, other) if expr.evaluate({symbol: middle}) >= 0 else (best, middle)
        self._ranges[symbol] = (best, high) if slope > 0 else (low, best)
        return True


def _slope(expr: Expr) -> int:
    """1 when each term rises with the symbols, -1 when each falls, 0 when neither is plain."""
    slopes = {(1 if coefficient > 0 else -1) * _rise(monomial) for coefficient, monomial in expr.terms if monomial}
    return slopes.pop() if len(slopes) == 1 else 0


def _rise(monomial: tuple[str | Floor, ...]) -> int:
    if all(isinstance(atom, str) for atom in monomial):
        return 1
    (atom, *more) = monomial
    return _slope(atom.num) if isinstance(atom, Floor) and not more and (atom.den.constant or 0) > 0 else 0


def _is_product(expr: Expr) -> bool:
    """Whether it is a product of symbols, less 1."""
    named = [(coefficient, monomial) for coefficient, monomial in expr.terms if monomial]
    return expr.offset == -1 and len(named) == 1 and named[0][0] > 0 and all(isinstance(a, str) for a in named[0][1])
