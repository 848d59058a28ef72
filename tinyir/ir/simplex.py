"""Whether integers can make linear expressions all >= 0: the simplex method on sparse rows of integers, a few
branches where a corner is not an integer, and a limit on all of it.

The method is that of solvers modulo theories (Dutertre and de Moura, 2006): every expression is a slack, a row of what
is not basic, and all that is not basic is 0. A row below 0 takes something in that raises it; a row that nothing raises
shows that there is no solution. Facts may be added between questions, which then go on from where they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..kit.work import count

ONE = -1  # the key of a row's constant; unknowns are 0 and more, slacks below -1
MOST_PIVOTS = 400  # of one question; a dozen is usual
MOST_BRANCHES = 12  # of one question
MOST_BITS = 512  # of a coefficient: beyond it a question is given up

Row = dict[int, int]


class Lost(Exception):
    """A limit is reached."""


class Simplex:
    """Expressions over unknowns 0, 1, ... that are >= 0, with a basis."""

    __slots__ = ("basic", "shares", "slacks", "is_empty")

    def __init__(self) -> None:
        self.basic: dict[int, Row] = {}  # what is basic -> its row, of what is not
        self.shares: dict[int, int] = {}  # a basic unknown times this is its row
        self.slacks = 0
        self.is_empty = False  # shown already

    def copy(self) -> Simplex:
        """One that goes its own way."""
        found = Simplex()
        found.basic = {k: dict(row) for k, row in self.basic.items()}
        found.shares, found.slacks, found.is_empty = dict(self.shares), self.slacks, self.is_empty
        return found

    def add(self, terms: Mapping[int, int], constant: int) -> None:
        """Also: the sum of the terms and the constant is >= 0."""
        common = math.gcd(*terms.values())
        if common > 1:
            terms, constant = {k: c // common for k, c in terms.items()}, constant // common  # integers: rounded down
        row: Row = {ONE: constant}
        scale = 1
        for unknown, coefficient in terms.items():
            known = self.basic.get(unknown)
            if known is None:
                row[unknown] = row.get(unknown, 0) + coefficient * scale
                continue
            share = self.shares[unknown]
            if share != 1:
                row = {k: c * share for k, c in row.items()}
                scale *= share
            coefficient = coefficient * scale // share
            for k, c in known.items():
                row[k] = row.get(k, 0) + coefficient * c
        row = _reduced(row)
        if len(row) == (ONE in row):
            self.is_empty = self.is_empty or row.get(ONE, 0) < 0
            return
        self.basic[-2 - self.slacks] = row
        self.slacks += 1

    def solve(self) -> bool:
        """Whether rational numbers can make all of it >= 0; they are in the basis then. Raises Lost."""
        for _ in range(MOST_PIVOTS):
            if self.is_empty:
                return False
            leaving = max((k for k, row in self.basic.items() if k < ONE and row.get(ONE, 0) < 0), default=None)
            if leaving is None:
                return True
            row = self.basic[leaving]
            entering = min((k for k in row if k >= 0), default=None)
            if entering is None:
                entering = max((k for k, c in row.items() if k < ONE and c > 0), default=None)
            if entering is None:
                self.is_empty = True
                return False
            self._pivot(leaving, entering)
        raise Lost

    def _pivot(self, leaving: int, entering: int) -> None:
        count("pivots")
        row = self.basic.pop(leaving)
        share = row.pop(entering)
        if share.bit_length() > MOST_BITS:
            raise Lost
        if share > 0:
            row = {k: -c for k, c in row.items()}
            row[leaving] = 1
        else:
            share = -share
            row[leaving] = -1
        for key, other in self.basic.items():
            times = other.pop(entering, 0)
            if not times:
                continue
            if share != 1:
                for k in other:
                    other[k] *= share
            for k, c in row.items():
                found = other.get(k, 0) + times * c
                if found:
                    other[k] = found
                else:
                    del other[k]
            if key >= 0:
                self._shorten(key, other, self.shares[key] * share)
            else:
                self.basic[key] = _reduced(other)
        if entering >= 0:
            self._shorten(entering, row, share)
        else:
            self.basic[entering] = _reduced(row)

    def _shorten(self, unknown: int, row: Row, share: int) -> None:
        common = math.gcd(share, *row.values())
        self.basic[unknown] = {k: c // common for k, c in row.items()} if common > 1 else row
        self.shares[unknown] = share // common

    def broken(self) -> tuple[int, int] | None:
        """An unknown that is not an integer at the corner of the basis, and that number rounded down; None: all are."""
        for unknown, share in self.shares.items():
            if share > 1 and self.basic[unknown].get(ONE, 0) % share:
                return unknown, self.basic[unknown].get(ONE, 0) // share
        return None


def has_integers(simplex: Simplex) -> bool | None:
    """Whether integers can make all of it >= 0; None where the limits do not let it be known."""
    try:
        return _branched(simplex, [MOST_BRANCHES])
    except Lost:
        return None


def _branched(simplex: Simplex, left: list[int]) -> bool | None:
    if not simplex.solve():
        return False
    broken = simplex.broken()
    if broken is None:
        return True
    is_known = True
    for sign in (-1, 1):
        if not left[0]:
            return None
        left[0] -= 1
        unknown, below = broken
        half = simplex.copy()
        half.add({unknown: sign}, below if sign < 0 else -below - 1)
        found = _branched(half, left)
        if found:
            return True
        is_known = is_known and found is False
    return False if is_known else None


def _reduced(row: Row) -> Row:
    """A row without zeros, in lowest terms: what is >= 0 stays so, and is as large as any."""
    common = math.gcd(*row.values()) or 1
    return {k: c // common for k, c in row.items() if c}
