"""What there is to show of a kernel's places and divisors, with the facts that hold at each statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ir.body import Body, Read, Select, operands_of
from ..ir.expr import ONE, ZERO, Bound, Expr, Floor
from ..ir.gpu import nodes
from ..ir.gpu.across import Ticket
from ..ir.gpu.engines import Ldmatrix, Wgmma
from ..ir.gpu.extremes import EXTREMES, Least
from ..ir.gpu.nodes import Kernel, Place, Statement
from ..ir.gpu.verify import exprs_in
from ..ir.gpu.walk import bodies_in, end_of, places_in, tensors_of
from ..ir.intervals import Interval, Ranges, interval_of
from ..ir.scope import halves_of
from ..kit.records import dataclass
from .sums import Sums, rounded

MOVING = (".slot", ".phase", ".previous")  # what `advance` changes: nothing said of it stays true


@dataclass(frozen=True, slots=True)
class Wanted:
    """An obligation: that `goal` >= 0 at a line."""

    line: int
    what: str
    goal: Expr
    known: Known


class Known:
    """What holds in a block."""

    def __init__(self, around: Known | None = None):
        self.sums = Sums((), around.sums if around is not None else None)
        self.data: set[Expr] = set(around.data) if around is not None else set()
        self.arrays: dict[str, Any] = dict(around.arrays) if around is not None else {}
        self.divided: set[Floor] = set(around.divided) if around is not None else set()

    def hold(self, fact: Expr, is_equal: bool = False, by_data: bool = False) -> None:
        """fact >= 0, or = 0."""
        if fact.constant is None and not any(name.endswith(MOVING) for name in fact.vocabulary):
            self._put(fact, is_equal, by_data)

    def _put(self, fact: Expr, is_equal: bool = False, by_data: bool = False) -> None:
        fact = rounded(fact)
        self.sums.facts.setdefault(fact, is_equal)
        if by_data:
            self.data.add(fact)

    def between(self, name: str, low: Expr, last: Expr, by_data: bool = False) -> None:
        """low <= name <= last."""
        for fact in (Expr.of(name) - low, last - name):
            self._put(fact, by_data=by_data)
        self.sums.ranges[name] = Interval(self.range_of(low).low, self.range_of(last).high)

    def mean(self, name: str, value: Expr) -> None:
        """name = value."""
        self.hold(Expr.of(name) - value, True)
        self.sums.ranges[name] = self.range_of(value)
        if Expr.of(name) - value in self.sums.facts:
            self.sums.lets[name] = Expr.of(name) - value

    def range_of(self, e: Expr) -> Interval:
        """The numbers between which an integer is."""
        return interval_of(e, Ranges(self.sums.ranges))

    def under(self, guard: Iterable[Bound], is_broken: bool = False) -> Known:
        """What holds besides where a guard does, or does not."""
        found = Known(self)
        if is_broken:
            broken = [-half - 1 for bound in guard for half in halves_of(bound)]
            for half in broken if len(broken) == 1 else ():
                found.hold(half)
            return found
        for bound in guard:
            if bound.equals is not None:
                found.hold(bound.expr - bound.equals, True)
            else:
                for half in halves_of(bound):
                    found.hold(half)
        return found


def wanted_of(kernel: Kernel, module: Any) -> Iterator[Wanted]:
    """All that has to be shown of places and divisors, by line."""
    model = module.plans.program.model
    known = Known()
    for symbol in model.symbols():
        found = model.range_of(symbol)
        known.between(symbol, Expr.of(found.low), Expr.of(found.high))
        if found.low > 0:
            known.hold(Expr.of(symbol))
    warps = -(-kernel.threads // 32)
    counts = {"thread.index": kernel.threads, "warp.index": warps, "lane": 32, "warpgroup.index": -(-warps // 4)}
    counts |= {"warpgroup.thread": 128, "cluster.rank": 1}
    for size in kernel.cluster:
        counts["cluster.rank"] *= size
    for axis, ctas, size in zip("xyz", (*kernel.grid, ONE, ONE), (*kernel.block, 1, 1)):
        known.between(f"cta.{axis}", ZERO, ctas - 1)
        counts[f"thread.{axis}"] = size
    for name, count in counts.items():
        known.between(name, ZERO, Expr.of(count - 1))
    yield from _divisors(kernel.span.line, kernel.grid, known)
    yield from _block(kernel.body, known, tensors_of(kernel, module))


def _block(body: Iterable[Statement], known: Known, tensors: Mapping[str, Any]) -> Iterator[Wanted]:
    for s in body:
        line = s.span.line
        inside = Known(known)
        for name, size in getattr(s, "over", ()):
            inside.between(name, ZERO, size - 1)
        for name, value in getattr(s, "lets", ()):
            inside.mean(name, value)
        yield from _divisors(line, exprs_in(s), inside)
        for place, where in _places(s, inside):
            yield from _inside(s, place, where, tensors)
        if isinstance(s, nodes.If):
            yield from _block(s.body, known.under(s.guard), tensors)
            yield from _block(s.otherwise, known.under(s.guard, True), tensors)
        elif getattr(s, "body", ()):
            inner = Known(known)
            _declare(s, inner)
            yield from _block(s.body, inner, tensors)
        else:
            _declare(s, known)
            known.divided |= inside.divided


def _places(s: Statement, known: Known) -> Iterator[tuple[Place, Known]]:
    """The places that a statement names, each with what holds there."""
    if isinstance(s, nodes.Each) and s.at:
        yield Place(s.of, s.at), known
    for _, place in places_in(s):
        yield place, known
    for body in bodies_in(s):
        yield from _reads(body, known)


def _reads(body: Body, known: Known) -> Iterator[tuple[Place, Known]]:
    if isinstance(body, Select):
        yield from _reads(body.then, known.under(body.guard))
        yield from _reads(body.other, known.under(body.guard, True))
        return
    if isinstance(body, Read):
        yield Place(body.tensor, body.index, body.slot), known
    for inner in operands_of(body):
        yield from _reads(inner, known)


def _declare(s: Statement, known: Known) -> None:
    if isinstance(s, (nodes.Shared, nodes.Reg, nodes.Mbarrier, nodes.TensorMap, nodes.Pick)):
        known.arrays[s.name] = s
    elif isinstance(s, nodes.Let):
        known.mean(s.name, s.value)
    elif isinstance(s, nodes.Assume):
        known.sums.facts |= known.under(s.guard).sums.facts
    elif isinstance(s, EXTREMES):
        for e in s.of:
            known.hold(e - s.name if isinstance(s, Least) else Expr.of(s.name) - e)
    elif isinstance(s, (nodes.Choose, Ticket)):
        low = Expr.of(-1) if isinstance(s, nodes.Choose) else ZERO
        known.between(s.name, low, s.extent - 1, by_data=True)
    elif isinstance(s, nodes.Order):
        for name, extent in zip(s.names, s.extents):
            known.between(name, ZERO, extent - 1)
    elif isinstance(s, nodes.Cursor):
        for part, last in (("slot", s.ring - 1), ("previous", s.ring - 1), ("phase", 1)):
            known.between(f"{s.name}.{part}", ZERO, Expr.of(last))
    elif isinstance(s, nodes.Role) and s.unit == "warpgroups":
        known.between("warpgroup.index", ZERO, Expr.of(s.last - s.first - 1))
    elif isinstance(s, nodes.For):
        known.between(s.name, s.low, end_of(s) - 1)
    elif isinstance(s, nodes.Each):
        array = known.arrays.get(s.of)
        sizes = map(Expr.of, s.size) if s.size else array.type.shape if array is not None else ()
        for name, size in zip(s.names, sizes):
            known.between(name, ZERO, size - 1)


def _divisors(line: int, exprs: Iterable[Expr], known: Known) -> Iterator[Wanted]:
    for floor in dict.fromkeys(f for e in exprs for f in _floors(e)):
        if floor.den.constant is None and floor not in known.divided:
            known.divided.add(floor)
            yield Wanted(line, "divisor", floor.den - 1, known)


def _floors(e: Expr) -> Iterator[Floor]:
    for _, monomial in e.terms:
        for atom in monomial:
            if isinstance(atom, Floor):
                yield atom
                yield from _floors(atom.num)
                yield from _floors(atom.den)


def _inside(s: Statement, place: Place, known: Known, tensors: Mapping[str, Any]) -> Iterator[Wanted]:
    array = known.arrays.get(place.name)
    picked = array.of[0] if isinstance(array, nodes.Pick) else place.name
    array = known.arrays.get(picked)
    line, called = s.span.line, f"inside {nodes.Place(place.name)}"
    if place.slot is not None:
        ring = max(getattr(array, "ring", 1), getattr(array, "cluster", 0))
        yield Wanted(line, f"{called} slot low", place.slot, known)
        yield Wanted(line, f"{called} slot high", ring - 1 - place.slot, known)
    if not place.index or isinstance(array, nodes.TensorMap):
        return
    shape = tensors[picked].type.shape if array is None else array.type.shape
    rows: Sequence[int] = ()
    if isinstance(s, nodes.StoreRows) and place is s.to:
        shape, rows = s.dims or shape, s.sides
    piece = _piece(s, place, known)
    for axis, (e, size) in enumerate(zip(place.index, shape)):
        yield Wanted(line, f"{called} axis {axis} low", e, known)
        if axis not in rows:
            last = size - (piece[axis] if axis < len(piece) else ONE)
            yield Wanted(line, f"{called} axis {axis} high", last - e, known)


def _piece(s: Statement, place: Place, known: Known) -> Sequence[Expr]:
    """How far a place reaches along each axis."""
    if isinstance(s, nodes.Each) or isinstance(s, nodes.Send) and place is s.source:
        return [Expr.of(n) for n in s.size]
    if isinstance(s, Ldmatrix) and place is s.source:
        shape = known.arrays[s.to.name].type.shape
        return shape[::-1] if s.is_transposed else shape
    if isinstance(s, Wgmma) and place in (s.a, s.b):
        m, n, k = map(int, s.shape[1:].replace("n", " ").replace("k", " ").split())
        side = (m, k * s.steps) if place is s.a else (k * s.steps, n)
        is_turned = s.a_transposed if place is s.a else s.b_transposed
        return [Expr.of(n) for n in (side[::-1] if is_turned else side)]
    return ()


__all__ = ["Wanted", "wanted_of"]
