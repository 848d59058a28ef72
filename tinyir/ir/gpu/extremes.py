"""Integers that are the least or the most of several: where a walk ends that a mask or a tensor's end cuts short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.records import dataclass
from ...kit.span import Spanned
from ..expr import Bound, Expr
from ..intervals import Interval


@dataclass(frozen=True, slots=True)
class Least(Spanned):
    """`least end = [S, m0 + 192]`: an integer of the thread, the least of these."""

    name: str
    of: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Most(Spanned):
    """`most first = [0, m0 - W]`: an integer of the thread, the most of these."""

    name: str
    of: tuple[Expr, ...]


EXTREMES = (Least, Most)


def bounds_of(s: Least | Most) -> Iterator[Bound]:
    """What is known of the integer: on which side of each of the others it is."""
    own = Expr.of(s.name)
    for e in s.of:
        yield Bound(own, upper=e + 1) if isinstance(s, Least) else Bound(own, lower=e)


def interval_of(s: Least | Most, ends: Iterable[Interval]) -> Interval:
    """The range of the integer, from those of what it is the extreme of."""
    ends = tuple(ends)
    lows, highs = [e.low for e in ends], [e.high for e in ends]
    known_lows, known_highs = ([x for x in side if x is not None] for side in (lows, highs))
    if isinstance(s, Least):
        return Interval(None if None in lows else min(lows), min(known_highs, default=None))
    return Interval(max(known_lows, default=None), None if None in highs else max(highs))


def as_name(s: Any, of: tuple[Expr, ...]) -> Expr:
    """One name for all integers that are the same extreme of the same expressions: two roles may call it as they
    like."""
    return Expr.of(f"{type(s).__name__.lower()} of {sorted(map(str, of))}")
