"""Candidates as a table: the plans of a family that differ in numbers alone, a column for each number.

    plan   tile [128, 64 | 128, 64]  stages 4 | 3  micro [8, 8 | 4, 8]       one plan, whose numbers are columns
    row 0  tile [128, 128, 64]       stages 4      micro [8, 4]
    row 1  tile [64, 64, 64]         stages 3      micro [8, 8]

`declare` and `clocks` of a family take a plan of columns as they take a plan, and count all rows at once: they decide
between numbers by `kit.numbers`, and ask with `if` only for what all rows of a sheet have in common. A row becomes a
plan when somebody wants to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.plan.fields import Async, Cluster, Consumers, Load, Order, Plan, Regs, SplitK
from ..kit.records import dataclass, field, fields, replace

NUMBERED = (Async, Cluster, Consumers, Load, Order, Regs, SplitK)  # what of a plan has numbers
_HELD = frozenset((np.ndarray, *NUMBERED))
_MADE_UP = _HELD | {tuple}  # what may hold columns


def _same(plan: Plan) -> Plan:
    return plan


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """`count` plans of a family. `plan` has a column of as many entries wherever they differ. `places` says where each
    is among all that the family proposes for the problem. `stops`: by row why not even its cost is worth asking.
    `whole` adds to a row's plan what follows from its numbers, such as the axes that need a guard."""

    plan: Plan
    count: int
    places: Sequence[int]
    stops: Mapping[int, str] = field(default_factory=dict)
    whole: Callable[[Plan], Plan] = _same

    def row(self, number: int) -> Plan:
        """The plan of a row."""
        return self.whole(rows_of(self.plan, number))


def columns_of(rows: Iterable[Sequence[int]]) -> tuple[np.ndarray, ...]:
    """Rows of whole numbers as columns."""
    return tuple(np.array(list(zip(*rows)), np.int64))


def rows_of(thing: Any, which: Any) -> Any:
    """A plan, or a part of one, with only those rows of its columns: those of an array of row numbers, or the one row
    of an int, whose numbers are Python's own."""
    kind = thing.__class__
    if kind is np.ndarray:
        return thing[which].item() if isinstance(which, int) else thing[which]
    if kind is tuple and not _HELD.isdisjoint(map(type, thing)):
        return tuple([rows_of(x, which) for x in thing])
    if kind is Plan or kind in _HELD:
        given = [(f.name, getattr(thing, f.name)) for f in fields(thing)]
        taken = [(name, x, rows_of(x, which)) for name, x in given if x.__class__ in _MADE_UP]
        return replace(thing, **{name: new for name, x, new in taken if x is not new})
    return thing
