"""Ranges of integer expressions: what 32-bit arithmetic, array sizes and guards are decided by."""

from __future__ import annotations

from collections.abc import Mapping

from ..kit.records import dataclass
from .expr import Expr, Floor

INT_MAX = (1 << 31) - 1
LARGEST_SIZE = INT_MAX - (
    1 << 16
)  # of an axis, unless its `sym` range says less: tiles may reach over its end by up to 65536


@dataclass(frozen=True, slots=True)
class Interval:
    """low <= value <= high; None: there is no bound."""

    low: int | None
    high: int | None

    def fits(self, most: int) -> bool:
        """True when every value is within -most..most."""
        return self.low is not None and self.high is not None and -most <= self.low and self.high <= most

    def __add__(self, other: Interval) -> Interval:
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Interval(low, high)

    def __mul__(self, other: Interval) -> Interval:
        if self.low is not None and self.low >= 0 and other.low is not None and other.low >= 0:
            return Interval(
                self.low * other.low, None if self.high is None or other.high is None else self.high * other.high
            )
        ends = (self.low, self.high, other.low, other.high)
        if None in ends:
            return _scaled(self, other) or _scaled(other, self) or Interval(None, None)
        products = [a * b for a in ends[:2] for b in ends[2:]]
        return Interval(min(products), max(products))

    def divided(self, by: Interval) -> Interval:
        """The range of floor(self/by); `by` is positive wherever it is computed, whatever its range says."""
        least = max(by.low or 1, 1)
        most = None if by.high is None else max(by.high, least)
        low = (
            None if self.low is None else self.low // least if self.low < 0 else 0 if most is None else self.low // most
        )
        high = (
            None
            if self.high is None
            else self.high // least
            if self.high >= 0
            else -1
            if most is None
            else self.high // most
        )
        return Interval(low, high)


def _scaled(number: Interval, other: Interval) -> Interval | None:
    """The product with a known number."""
    if number.low is None or number.low != number.high:
        return None
    ends = [None if e is None else number.low * e for e in (other.low, other.high)]
    return Interval(*(ends if number.low >= 0 else reversed(ends)))


def interval_of(expr: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """The range of an expression whose names have `ranges`; a name that is not there is unbounded."""
    low: int | None = 0
    high: int | None = 0
    for coefficient, monomial in expr.terms:
        if not monomial:
            low = None if low is None else low + coefficient
            high = None if high is None else high + coefficient
            continue
        found = _atom(monomial[0], ranges)
        for atom in monomial[1:]:
            found = found * _atom(atom, ranges)
        least, most = (found.low, found.high) if coefficient > 0 else (found.high, found.low)
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or most is None else high + coefficient * most
        if low is None and high is None:
            break
    return Interval(low, high)


_ANY = Interval(None, None)


class Ranges(dict[str, Interval]):
    """Ranges of names that stay as they are: those of floors are worked out once."""

    __slots__ = ("floors",)

    def __init__(self, ranges: Mapping[str, Interval]):
        super().__init__(ranges)
        self.floors: dict[Floor, Interval] = {}


def _atom(atom: str | Floor, ranges: Mapping[str, Interval]) -> Interval:
    if atom.__class__ is not Floor:
        return ranges.get(atom, _ANY)
    if not isinstance(ranges, Ranges):
        return interval_of(atom.num, ranges).divided(interval_of(atom.den, ranges))
    found = ranges.floors.get(atom)
    if found is None:
        found = interval_of(atom.num, ranges).divided(interval_of(atom.den, ranges))
        ranges.floors[atom] = found
    return found
