"""What holds at a statement of a kernel, and at which points it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..ir.expr import ZERO, Bound, Expr, Floor
from ..ir.gpu import nodes
from ..ir.intervals import Interval, Ranges, interval_of
from ..ir.scope import halves_of
from ..kit.records import dataclass
from .sums import Proof, Sums, rounded

MOVING = (".slot", ".phase", ".previous")  # what `advance` changes: nothing said of it stays true
DEFINED, CLAIMED, DERIVED = range(3)  # a fact that defines a name; one that a point must meet to be one; neither
SPREAD = {"wgmma": ("cta.warp", "lane"), "mma": ("lane",)}  # what tells apart the threads that hold a matrix
STORES = (nodes.Store, nodes.TmaStore, nodes.StoreRows)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An obligation: that all `goals` >= 0 at a line. `points`: the names that tell executions of a store apart, in
    terms of the element that is written."""

    line: int
    what: str
    goals: tuple[Expr, ...]
    known: Known
    points: tuple[tuple[str, Expr], ...] = ()
    proof: Proof | None = None  # where it is found beforehand


class Known:
    """What holds in a block, and the points at which it runs."""

    def __init__(self, around: Known | None = None):
        self.around = around
        self.sums = Sums((), around.sums if around is not None else None)
        self.kinds: dict[Expr, int] = {}
        self.data: set[Expr] = set(around.data) if around is not None else set()
        self.arrays: dict[str, Any] = dict(around.arrays) if around is not None else {}
        self.divided: set[Floor] = set(around.divided) if around is not None else set()
        self.points: list[str] = list(around.points) if around is not None else []
        self.lows: dict[str, Expr] = dict(around.lows) if around is not None else {}  # the least value of a point
        self.counts: dict[str, Expr] = dict(around.counts) if around is not None else {}  # how many values it has
        self.tiles: dict[str, tuple[nodes.Order, Expr]] = dict(around.tiles) if around is not None else {}
        self.apart: list[tuple[str, Expr]] = list(around.apart) if around is not None else []  # meanings for stores
        self.means: dict[str, Expr] = dict(around.means) if around is not None else {}  # in terms of points and sizes

    def hold(self, fact: Expr, is_equal: bool = False, kind: int = DEFINED, by_data: bool = False) -> None:
        """fact >= 0, or = 0."""
        if fact.constant is None and not any(name.endswith(MOVING) for name in fact.vocabulary):
            self._put(fact, is_equal, kind, by_data)

    def _put(self, fact: Expr, is_equal: bool = False, kind: int = DEFINED, by_data: bool = False) -> None:
        fact = rounded(fact)
        self.sums.facts.setdefault(fact, is_equal)
        was = self.kinds.get(fact, kind)
        self.kinds[fact] = CLAIMED if CLAIMED in (kind, was) else min(kind, was)
        if by_data:
            self.data.add(fact)

    def between(self, name: str, low: Expr, last: Expr, kind: int = DEFINED, by_data: bool = False) -> None:
        """low <= name <= last."""
        for fact in (Expr.of(name) - low, last - name):
            self._put(fact, False, kind, by_data)
        self.sums.ranges[name] = Interval(self.range_of(low).low, self.range_of(last).high)

    def run(self, name: str, low: Expr, last: Expr) -> None:
        """There is a point for each low <= name <= last."""
        self.points.append(name)
        self.lows[name], self.counts[name] = self.plain(low), self.plain(last - low + 1)
        self.between(name, low, last, CLAIMED)

    def spread(self, names: Iterable[str]) -> None:
        """Of the threads that these names tell apart one is at work at each point, whichever it is."""
        self.points = [point for point in self.points if point not in names]
        for name in names:
            self.between(name, ZERO, self.counts[name] - 1)

    def mean(self, name: str, value: Expr) -> None:
        """name = value."""
        self.hold(Expr.of(name) - value, True)
        self.sums.ranges[name] = self.range_of(value)
        self.means[name] = self.plain(value)
        if Expr.of(name) - value in self.sums.facts:
            self.sums.lets[name] = Expr.of(name) - value

    def set_apart(self, name: str, value: Expr) -> None:
        """name = value, which nobody needs to know but for stores."""
        self.apart.append((name, value))
        self.means[name] = self.plain(value)

    def plain(self, e: Expr) -> Expr:
        """An integer in terms of points and sizes."""
        return e.substitute(self.means)

    def range_of(self, e: Expr) -> Interval:
        """The numbers between which an integer is."""
        return interval_of(e, Ranges(self.sums.ranges))

    def under(self, guard: Iterable[Bound], is_broken: bool = False, kind: int = CLAIMED) -> Known:
        """What holds besides where a guard does, or does not."""
        found = Known(self)
        if is_broken:
            broken = [-half - 1 for bound in guard for half in halves_of(bound)]
            for half in broken if len(broken) == 1 else ():
                found.hold(half, False, kind)
            return found
        for bound in guard:
            if bound.equals is not None:
                found.hold(bound.expr - bound.equals, True, kind)
            else:
                for half in halves_of(bound):
                    found.hold(half, False, kind)
                found.narrow(bound)
        return found

    def narrow(self, bound: Bound) -> None:
        """A name is between what a guard says of it."""
        name = bound.expr.name
        if name is not None:
            was = self.sums.ranges.get(name, Interval(None, None))
            low = None if bound.lower is None else self.range_of(bound.lower).low
            high = None if bound.upper is None else self.range_of(bound.upper - 1).high
            lows, highs = ([n for n in ends if n is not None] for ends in ((was.low, low), (was.high, high)))
            self.sums.ranges[name] = Interval(max(lows, default=None), min(highs, default=None))

    def facts_of(self, kind: int) -> Iterator[tuple[Expr, bool]]:
        """The facts of a kind in this block and around it."""
        block: Known | None = self
        while block is not None:
            yield from ((fact, block.sums.facts[fact]) for fact, found in block.kinds.items() if found == kind)
            block = block.around
