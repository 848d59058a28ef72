"""Sizes for a dry run: at which the loops of a kernel turn often enough to come round its rings, and not much more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...expr import Bound, Expr
from ...model import Range, Shapes
from .. import nodes
from ..extremes import EXTREMES, Most
from ..nodes import Kernel
from ..walk import PLACE_NAMES, statements
from .integers import value
from .steps import ORDERING, Step, inside

MOST_DOUBLED = 16  # times
COUNTED = (nodes.Let, *EXTREMES, nodes.Order, nodes.For)


def sizes_to_run(
    kernel: Kernel, steps: Iterable[Step], ranges: Iterable[Range], sets: Iterable[Shapes]
) -> list[dict[str, int]]:
    """Sizes of all symbols, as the kernel assumes them: some for which its innermost loops turn often and others for
    which those around them do, one of the shape sets where it assumes what these are not, or none."""
    guards = [b for s in statements(kernel.body) if isinstance(s, nodes.Assume) for b in s.guard]
    smallest = {r.symbol: min(_least(r.symbol, r.low, guards), r.high) for r in ranges}
    often = often_of(statements(kernel.body))
    counted = [step for step in inside(steps) if isinstance(step.statement, COUNTED)]
    own = [
        _grown(
            [(step.statement, _wanted(step, *turns)) for step in counted], smallest, {r.symbol: r.high for r in ranges}
        )
        for turns in ((2, often), (often, 1))
    ]
    if all(own[1][name] >= size for name, size in own[0].items()):
        own.pop()  # the innermost loops turn as often as before
    stated = [dict(s.sizes) for s in sets]
    for found in (own, stated):
        if assumed := [g for g in found if g.keys() >= smallest.keys() and _holds(guards, g)]:
            return assumed[: len(own)]
    return []


def often_of(every: Iterable[nodes.Statement]) -> int:
    """How often a loop turns that comes round all rings."""
    return 2 + max((s.ring for s in every if isinstance(s, nodes.Cursor)), default=1)


def _holds(guards: Iterable[Bound], sizes: Mapping[str, int]) -> bool:
    try:
        return all(b.holds(sizes) for b in guards)
    except ZeroDivisionError:
        return False


def _grown(counted: list[tuple[Any, int]], smallest: dict[str, int], highest: Mapping[str, int]) -> dict[str, int]:
    """From the smallest sizes on, a symbol is doubled as long as a loop turns too seldom, and turns more often for
    it."""
    moving = {n for s, _ in counted for e in _exprs_of(s) for n in e.names()} & smallest.keys()
    sizes, least = smallest, sum(_missing(counted, smallest))
    while least > 0:
        wider = (
            {**sizes, name: sizes[name] << doubled}
            for doubled in range(1, MOST_DOUBLED)
            for name in sizes
            if name in moving and sizes[name] << doubled <= highest[name]
        )
        better = next((w for w in wider if sum(_missing(counted, w)) < least), None)
        if better is None:
            break
        sizes, least = better, sum(_missing(counted, better))
    for name, low in smallest.items():  # what was too small before others grew
        while sizes[name] > low and sum(_missing(counted, half := {**sizes, name: sizes[name] // 2})) <= least:
            sizes = half
    return sizes


def _least(name: str, low: int, guards: Iterable[Bound]) -> int:
    """The smallest size to try, for which the guards hold that ask for nothing else."""
    own = [b for b in guards if {n for e in b.exprs for n in e.names()} == {name}]
    sizes = (max(low, 1 << doubled) for doubled in range(MOST_DOUBLED))
    return next((size for size in sizes if _holds(own, {name: size})), max(low, 1))


def _missing(counted: Iterable[tuple[Any, int]], sizes: Mapping[str, int]) -> Iterator[float]:
    """How many turns each loop lacks for thread 0 of CTA 0 when it first comes there."""
    names: dict[str, Any] = {**dict.fromkeys(PLACE_NAMES, 0), **sizes}
    for s, wanted in counted:
        found = [value(e, names) for e in _exprs_of(s)]
        is_known = None not in found
        if isinstance(s, nodes.For):
            low, high, by = found
            if is_known and by > 0:
                yield max(0.0, wanted - (high - low) / by)
            names[s.name] = low
        elif isinstance(s, nodes.Order):
            names |= dict.fromkeys(s.names, 0)
        else:
            fold = max if isinstance(s, Most) else min
            names[s.name] = fold(found) if is_known else None


def _wanted(step: Step, outer: int, inner: int) -> int:
    """How often a loop has to turn that orders something: one around others, or an innermost one. How often others turn
    is a number, or does not matter."""
    held = [one.statement for one in inside(step.body)]
    if not any(isinstance(s, ORDERING) for s in held):
        return 0
    return outer if any(isinstance(s, nodes.For) and (s.high - s.low).constant is None for s in held) else inner


def _exprs_of(s: Any) -> tuple[Expr, ...]:
    if isinstance(s, nodes.For):
        return s.low, s.high, s.step
    if isinstance(s, nodes.Order):
        return (s.tile, *s.extents)
    return (s.value,) if isinstance(s, nodes.Let) else s.of
