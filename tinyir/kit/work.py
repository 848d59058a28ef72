"""What a command has done: counts of work, which are the same on every machine, and spans of time.

Counts are always kept: tests bound them, so that work that comes back is seen. Spans are kept when somebody asks
(`--time`), and the open ones are what a progress line says.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from .columns import in_columns
from .records import dataclass, field

counts: Counter[str] = Counter()  # of work, by name; for this process
_open: list[str] = []  # spans that have begun and not ended
_kept: list[Span] | None = None


@dataclass(slots=True)
class Span:
    """A step: what it does, and to what; where it began and ended in seconds; how deep it is nested; the counts that
    grew in it."""

    name: str
    of: str
    start: float
    depth: int
    end: float = 0.0
    grown: dict[str, int] = field(default_factory=dict)


def count(name: str, number: int = 1) -> None:
    """Adds to the count of a kind of work."""
    counts[name] += number


@contextmanager
def span(name: str, of: str = "") -> Iterator[None]:
    """For the time that a step takes. `of` is what it works on, where it works on one after another."""
    _open.append(f"{name} {of}" if of else name)
    if _kept is None:
        try:
            yield
        finally:
            _open.pop()
        return
    before = dict(counts)
    made = Span(name, of, time.perf_counter(), len(_open) - 1)
    _kept.append(made)
    try:
        yield
    finally:
        _open.pop()
        made.end = time.perf_counter()
        made.grown = {k: n - before.get(k, 0) for k, n in counts.items() if n > before.get(k, 0)}


def keep_spans(is_asked: bool = True) -> None:
    """From now on spans are kept, none from before; or no more."""
    global _kept
    _kept = [] if is_asked else None


def now() -> tuple[str, ...]:
    """The open spans, from the outside in."""
    return tuple(_open)


def table(command: str) -> list[str]:
    """The kept spans as lines: the command, the step, its milliseconds, what was counted in it. Steps of one name
    inside one step are one line."""
    rows: list[list[str]] = []
    for path, taken in _merged().items():
        times, seconds, grown = taken
        step = "  " * (len(path) - 1) + path[-1] + (f" ({times})" if times > 1 else "")
        counted = ", ".join(f"{k} {n}" for k, n in grown.items())
        rows.append([command, step, f"{seconds * 1e3:.2f} ms", counted])
    return in_columns(rows, left=(0, 1, 3)) if rows else []


def trace() -> str:
    """The kept spans as a Chrome trace: JSON of complete events, in microseconds."""
    first = min((s.start for s in _kept or ()), default=0.0)
    events = [
        {
            "name": f"{s.name} {s.of}" if s.of else s.name,
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": round((s.start - first) * 1e6),
            "dur": round((s.end - s.start) * 1e6),
            "args": s.grown,
        }
        for s in _kept or ()
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _merged() -> dict[tuple[str, ...], tuple[int, float, Counter[str]]]:
    """(times, seconds, counts) of each path of names, in the order in which they began."""
    found: dict[tuple[str, ...], tuple[int, float, Counter[str]]] = {}
    path: list[str] = []
    for s in _kept or ():
        path[s.depth :] = [s.name]
        times, seconds, grown = found.get(tuple(path), (0, 0.0, Counter()))
        found[tuple(path)] = times + 1, seconds + s.end - s.start, grown + Counter(s.grown)
    return found
