"""Which statements write tensors, and how often each name is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .text import Line

STORES = ("store", "tma_store", "store_rows")


def stored(body: Sequence[Line]) -> Counter[str]:
    """How many stores write each name; those in the two branches of an `if` are one where there is one in each."""
    found: Counter[str] = Counter()
    for line in body:
        if line.kind in STORES:
            found[stored_by(line)] += 1
        then, other = stored(line.body), stored(line.otherwise)
        found += then if then == other else then + other
    return found


def stored_by(line: Line) -> str:
    """The name that a store writes."""
    return next(a.name for a in line.accesses if a.is_write)
