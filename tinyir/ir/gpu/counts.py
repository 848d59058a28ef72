"""The numbers of gpu text that count something: a step that goes on, rings and vectors that there are, boxes and tiles
of stated size.

What is not a count here would be a loop without an end, a division by zero, or more lines of code than anyone can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..expr import Expr
from . import nodes
from .nodes import Kernel
from .walk import Visit, words_held

MOST = 1 << 24  # of anything that is counted out: elements of a tile, points of a loop that is written out
# Fields that are whole numbers, with the least that they may be.
LEAST = {"ring": 1, "vector": 1, "width": 1, "steps": 1, "count": 1, "unroll": 0, "group": 0, "cluster": 0}
_COUNTS = tuple(LEAST)


def check_counts(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """Every count of every statement (E1602)."""
    for v in walked:
        s = v.statement
        for what, fault in _faults(s, v):
            yield Diag("E1602", kernel.name, {"name": what, "fault": fault}, s.span)


def _faults(s: Any, v: Visit) -> Iterator[tuple[str, str]]:
    for word in words_held(type(s), _COUNTS):
        given, least = getattr(s, word), LEAST[word]
        if isinstance(given, int) and not least <= given <= MOST:
            yield f"{word} {given}", Phrase("is not {least} to {most}", least=least, most=MOST)
    if isinstance(s, nodes.For) and not v.facts.is_at_least(s.step, Expr.of(1)):
        yield f"step {s.step}", Phrase("is not proven to be 1 or more, and the loop might never end")
    for name, size in getattr(s, "over", ()):
        if not _is_count(size) and not (
            isinstance(s, nodes.Resum) and size.constant is None
        ):  # which loops over a sum, of any length
            yield f"{name}: {size}", Phrase("is not over 1 to {most} points, a number", most=MOST)
    for e in (*getattr(s, "box", ()), *(s.type.shape if isinstance(s, (nodes.Shared, nodes.Reg)) else ())):
        if not _is_count(e):
            yield (
                f"{getattr(s, 'name', '') or s.to.name}: {e}",
                Phrase("has a side that is not 1 to {most}, a number", most=MOST),
            )
    for size in s.size if isinstance(s, nodes.Each) else ():
        if not 1 <= size <= MOST:
            yield f"size {size}", Phrase("is not 1 to {most}", most=MOST)
    found = _OF_KIND.get(type(s))
    if found is not None:
        yield from found(s)


def _of_cursor(s: nodes.Cursor) -> Iterator[tuple[str, str]]:
    if not 0 <= s.at < s.ring:
        yield s.name, Phrase("begins at {at}, which is not one of its {count} slots", at=s.at, count=s.ring)
    if s.phase not in (0, 1):
        yield f"phase {s.phase}", Phrase("is not 0 or 1")


def _of_order(s: nodes.Order) -> Iterator[tuple[str, str]]:
    if not len(s.names) == len(s.extents) == 2:
        yield ", ".join(s.names), Phrase("does not have two coordinates, in a range each")


def _of_access(s: nodes.Assign | nodes.Store) -> Iterator[tuple[str, str]]:
    """What is accessed at once are the points of one axis, all of them."""
    if s.vector > 1 and [e.constant for _, e in s.over] != [s.vector]:
        yield f"vector {s.vector}", Phrase("is not over one axis of {count} points", count=s.vector)


def _of_copy(s: nodes.Copy | nodes.CpAsync) -> Iterator[tuple[str, str]]:
    """Threads take whole vectors of the last axis."""
    last = s.over[-1][1].constant
    if last is not None and s.vector > 1 and last % s.vector:
        yield f"vector {s.vector}", Phrase("does not divide the {count} points of the last axis", count=last)


_OF_KIND: dict[type, Callable[[Any], Iterator[tuple[str, str]]]] = {
    nodes.Cursor: _of_cursor,
    nodes.Order: _of_order,
    nodes.Assign: _of_access,
    nodes.Store: _of_access,
    nodes.Copy: _of_copy,
    nodes.CpAsync: _of_copy,
}


def _is_count(e: Expr) -> bool:
    return e.constant is not None and 1 <= e.constant <= MOST
