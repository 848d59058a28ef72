"""The numbers of gpu text that count something: a step that goes on, rings and vectors that there are, boxes and tiles
of stated size.

What is not a count here would be a loop without an end, a division by zero, or more lines of code than anyone can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..expr import Expr
from . import nodes
from .nodes import Kernel
from .walk import Visit

MOST = 1 << 24  # of anything that is counted out: elements of a tile, points of a loop that is written out
# Fields that are whole numbers, with the least that they may be.
LEAST = {"ring": 1, "vector": 1, "width": 1, "steps": 1, "count": 1, "unroll": 0, "group": 0, "cluster": 0}


def check_counts(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """Every count of every statement (E1602)."""
    for v in walked:
        s = v.statement
        for what, fault in _faults(s, v):
            yield Diag("E1602", kernel.name, {"name": what, "fault": fault}, s.span)


def _faults(s: Any, v: Visit) -> Iterator[tuple[str, str]]:
    for word, least in LEAST.items():
        given = getattr(s, word, None)
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


def _is_count(e: Expr) -> bool:
    return e.constant is not None and 1 <= e.constant <= MOST
