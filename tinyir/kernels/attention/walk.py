"""Which columns of scores a tile of rows has to look at, and which of them no mask touches.

A mask whose guard is alpha*row + gamma*column + rest >= 0 ends the columns of a row (gamma = -1) or begins them (gamma
= 1). Over the rows m0 <= row < m0 + rows of a tile

    touched   column <= max(alpha*row) + rest       untouched by the mask   column <= min(alpha*row) + rest
    touched   column >= -rest - max(alpha*row)      untouched by the mask   column >= -rest - min(alpha*row)

The walk goes from the last block of columns to the first: blocks that the mask's end cuts, whole blocks, and blocks
that its beginning cuts. A mask of another form cuts every block.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...kit.records import dataclass

AFTER, BEFORE = "after", "before"


@dataclass(frozen=True, slots=True)
class Side:
    """One guard: what it does to columns (they end AFTER some, or begin BEFORE), in terms of the tile's first row:
    `touched` and `whole` are the ends of columns that a row has, and that all rows have."""

    what: str
    touched: Expr
    whole: Expr


def sides_of(masks: Iterable[Bound], row: str, column: str, rows: int, first: Expr) -> tuple[Side, ...] | None:
    """The guards of the masks for a tile with this number of rows; None where one of them is of another form."""
    found: list[Side] = []
    for bound in masks:
        if bound.equals is not None:
            return None
        for end, sign in ((bound.lower, 1), (bound.upper, -1)):
            if end is None:
                continue
            e = sign * (bound.expr - end) - (sign < 0)  # 0 <= e
            alpha, gamma = (sum(c for c, m in e.terms if m == (name,)) for name in (row, column))
            rest = e - alpha * Expr.of(row) - gamma * Expr.of(column)
            if gamma not in (1, -1) or any(name in rest.names() for name in (row, column)):
                return None
            low, high = (alpha * first + pick(0, alpha * (rows - 1)) + rest for pick in (min, max))
            found.append(Side(AFTER, high + 1, low + 1) if gamma < 0 else Side(BEFORE, -high, -low))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Walk:
    """The walk over blocks of columns. `setup` names its ends; block t of 0..`steps` begins at column `start(t)`. Block
    0 is cut, then those of 1..`cut`, those of `cut`..`whole` are whole, those of `whole`..`steps` cut. `is_whole`: no
    block is cut. `may_pass_end`: a block may begin beyond the last column. No column from `end` on is touched; where
    there is none, one block is walked all the same."""

    setup: tuple[Statement, ...]
    end: Expr
    last: Expr
    columns: int
    steps: Expr
    cut: Expr
    whole: Expr
    is_whole: bool
    may_pass_end: bool

    def start(self, t: Expr) -> Expr:
        """The first column of block t."""
        return self.columns * (self.last - 1 - t)


def walk_of(sides: tuple[Side, ...] | None, length: Expr, columns: int, name: callable) -> Walk:
    """The walk over `length` columns in blocks. `name` gives the names of its integers."""
    ends = [s for s in sides or () if s.what == AFTER]
    starts = [s for s in sides or () if s.what == BEFORE]
    setup: list[Statement] = []

    def extreme(kind: type, word: str, of: list[Expr]) -> Expr:
        of = list(dict.fromkeys(of))
        if len(of) == 1:
            return of[0]
        setup.append(kind(name(word), tuple(of)))
        return Expr.of(name(word))

    def let(word: str, value: Expr) -> Expr:
        if value.constant is not None or value.name is not None:
            return value
        setup.append(nodes.Let(name(word), value))
        return Expr.of(name(word))

    end = extreme(nodes.Least, "end", [length, *(s.touched for s in ends)])
    begin = extreme(nodes.Most, "begin", [ZERO, *(s.touched for s in starts)])
    first = let("first", begin // columns)
    is_bounded = not ends and not starts  # then there is a column, and so a block
    last = (
        let("last", end.ceildiv(columns))
        if is_bounded
        else extreme(nodes.Most, "last", [first + 1, end.ceildiv(columns)])
    )
    steps = let("steps", last - first)
    divides = all(c % columns == 0 for c, _ in length.terms)
    if sides is None:
        return Walk(tuple(setup), end, last, columns, steps, steps, steps, False, False)
    if not sides:
        return Walk(tuple(setup), end, last, columns, steps, ONE, steps, divides, False)
    cut = ONE
    if ends:
        whole_end = extreme(nodes.Least, "whole.end", [s.whole for s in ends])
        reached = extreme(nodes.Most, "cut.most", [ONE, last - whole_end // columns])
        cut = extreme(nodes.Least, "cut", [steps, reached])
    whole = steps
    if starts:
        whole_begin = extreme(nodes.Most, "whole.begin", [s.whole for s in starts])
        reached = extreme(nodes.Most, "whole.most", [cut, last - whole_begin.ceildiv(columns)])
        whole = extreme(nodes.Least, "whole", [steps, reached])
    return Walk(tuple(setup), end, last, columns, steps, cut, whole, False, bool(starts))
