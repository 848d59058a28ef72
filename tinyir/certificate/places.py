"""What there is to show of a kernel's places, divisors and stores, with the facts that hold at each statement."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ir.body import Body, Read, Select, operands_of
from ..ir.expr import ONE, ZERO, Expr, Floor
from ..ir.gpu import nodes
from ..ir.gpu.across import Ticket
from ..ir.gpu.engines import Ldmatrix, Wgmma
from ..ir.gpu.extremes import EXTREMES, Least
from ..ir.gpu.nodes import Kernel, Place, Statement
from ..ir.gpu.verify import exprs_in
from ..ir.gpu.walk import bodies_in, places_in, tensors_of
from ..ir.intervals import Interval
from .known import CLAIMED, DEFINED, DERIVED, SPREAD, STORES, Known, Wanted
from .stores import once


def wanted_of(kernel: Kernel, module: Any) -> Iterator[Wanted]:
    """All that has to be shown of places, divisors and stores, by line."""
    model = module.plans.program.model
    known = Known()
    for symbol in model.symbols():
        found = model.range_of(symbol)
        known.between(symbol, Expr.of(found.low), Expr.of(found.high))
        if found.low > 0:
            known.hold(Expr.of(symbol))
    warps = -(-kernel.threads // 32)
    counts = {"thread.index": kernel.threads, "warp.index": warps, "lane": 32, "warpgroup.index": -(-warps // 4)}
    counts |= {"warpgroup.thread": 128, "cluster.rank": math.prod(kernel.cluster)}
    points = {"thread.index": kernel.threads, "cta.warpgroup": -(-warps // 4), "cta.warp": 4, "lane": 32}
    counts |= zip(("thread.x", "thread.y", "thread.z"), (*kernel.block, 1, 1))
    if len(kernel.block) > 1:
        points = {name: counts[name] for name in ("thread.x", "thread.y", "thread.z")}
    for axis, ctas in zip("xyz", (*kernel.grid, ONE, ONE)):
        known.run(f"cta.{axis}", ZERO, ctas - 1)
    for name, count in points.items():
        known.run(name, ZERO, Expr.of(count - 1))
    for name, count in counts.items():
        known.between(name, ZERO, Expr.of(count - 1), DERIVED)
    if len(kernel.cluster) == 1 and kernel.cluster[0] > 1:
        known.points.remove("cta.x")
        known.points.append("cta.cluster")
        known.lows["cta.cluster"], known.counts["cta.cluster"] = ZERO, kernel.grid[0] // kernel.cluster[0]
        known.run("cluster.rank", ZERO, Expr.of(kernel.cluster[0] - 1))
        known.set_apart("cta.x", kernel.cluster[0] * Expr.of("cta.cluster") + "cluster.rank")
    if len(kernel.block) == 1:
        known.points.remove("thread.index")
        known.set_apart("warpgroup.thread", 32 * Expr.of("cta.warp") + "lane")
        known.set_apart("warp.index", 4 * Expr.of("cta.warpgroup") + "cta.warp")
        known.set_apart("thread.index", 128 * Expr.of("cta.warpgroup") + "warpgroup.thread")
        known.set_apart("thread.x", Expr.of("thread.index"))
        if not any(isinstance(s, nodes.Role) for s in kernel.body):
            known.set_apart("warpgroup.index", Expr.of("cta.warpgroup"))
    yield from _divisors(kernel.span.line, kernel.grid, known)
    yield from _block(kernel.body, known, tensors_of(kernel, module))


def _block(body: Iterable[Statement], known: Known, tensors: Mapping[str, Any]) -> Iterator[Wanted]:
    for s in body:
        line = s.span.line
        inside = Known(known)
        for name, size in getattr(s, "over", ()):
            inside.run(name, ZERO, size - 1)
        for name, value in getattr(s, "lets", ()):
            inside.mean(name, value)
        yield from _divisors(line, exprs_in(s), inside)
        for place, where in _places(s, inside):
            yield from _inside(s, place, where, tensors)
        if isinstance(s, STORES):
            yield from once(s, inside, tensors)
        if isinstance(s, nodes.If):
            kind = DEFINED if s.otherwise and stored(s.body) == stored(s.otherwise) else CLAIMED
            yield from _block(s.body, known.under(s.guard, False, kind), tensors)
            yield from _block(s.otherwise, known.under(s.guard, True, kind), tensors)
        elif getattr(s, "body", ()):
            inner = Known(known)
            _declare(s, inner)
            yield from _block(s.body, inner, tensors)
        else:
            _declare(s, known)
            known.divided |= inside.divided


def stored(body: Iterable[Statement]) -> Counter[str]:
    """How many stores write each name; those in the two branches of an `if` are one where there is one in each."""
    found: Counter[str] = Counter()
    for s in body:
        if isinstance(s, STORES):
            found[s.to.name] += 1
        then, other = stored(getattr(s, "body", ())), stored(getattr(s, "otherwise", ()))
        found += then if then == other else then + other
    return found


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
        for fact, is_equal in known.under(s.guard).sums.facts.items():
            known.hold(fact, is_equal)
    elif isinstance(s, EXTREMES):
        for e in s.of:
            known.hold(e - s.name if isinstance(s, Least) else Expr.of(s.name) - e)
    elif isinstance(s, (nodes.Choose, Ticket)):
        low = Expr.of(-1) if isinstance(s, nodes.Choose) else ZERO
        known.between(s.name, low, s.extent - 1, by_data=True)
    elif isinstance(s, nodes.Order):
        total = ONE
        for name, extent in zip(s.names, s.extents):
            known.run(name, ZERO, extent - 1)
            total = total * extent
        tile = f"tile.{s.span.line}"
        known.tiles[tile] = s, total
    elif isinstance(s, nodes.Cursor):
        for part, last in (("slot", s.ring - 1), ("previous", s.ring - 1), ("phase", 1)):
            known.between(f"{s.name}.{part}", ZERO, Expr.of(last))
    elif isinstance(s, nodes.Role):
        width = 128 if s.unit == "warpgroups" else 32
        known.between("thread.index", Expr.of(width * s.first), Expr.of(width * s.last - 1), CLAIMED)
        if width == 128:
            known.between("cta.warpgroup", Expr.of(s.first), Expr.of(s.last - 1), CLAIMED)
            known.lows["cta.warpgroup"], known.counts["cta.warpgroup"] = Expr.of(s.first), Expr.of(s.last - s.first)
            known.between("warpgroup.index", ZERO, Expr.of(s.last - s.first - 1), DERIVED)
            known.set_apart("warpgroup.index", Expr.of("cta.warpgroup") - s.first)
    elif isinstance(s, nodes.For):
        if s.step == ONE:
            known.run(s.name, s.low, s.high - 1)
        else:
            turn = f"{s.name}.turn"
            known.points.append(turn)
            known.lows[turn], known.counts[turn] = ZERO, known.plain((s.high - s.low).ceildiv(s.step))
            known.hold(Expr.of(turn), False, CLAIMED)
            known.sums.ranges[turn] = Interval(0, None)
            known.between(s.name, s.low, s.high - 1, CLAIMED)
            value = s.low + s.step * turn
            known.hold(Expr.of(s.name) - value, True)
            known.hold(s.high - 1 - value, False, DERIVED)
            known.set_apart(s.name, value)
    elif isinstance(s, nodes.Each):
        array = known.arrays.get(s.of)
        sizes = map(Expr.of, s.size) if s.size else array.type.shape if array is not None else ()
        for name, size in zip(s.names, sizes):
            known.run(name, ZERO, size - 1)
        known.spread(SPREAD.get(getattr(array, "kind", ""), ()))


def _divisors(line: int, exprs: Iterable[Expr], known: Known) -> Iterator[Wanted]:
    for floor in dict.fromkeys(f for e in exprs for f in _floors(e)):
        if floor.den.constant is None and floor not in known.divided:
            known.divided.add(floor)
            yield Wanted(line, "divisor", (floor.den - 1,), known)


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
        yield Wanted(line, f"{called} slot low", (place.slot,), known)
        yield Wanted(line, f"{called} slot high", (ring - 1 - place.slot,), known)
    if not place.index or isinstance(array, nodes.TensorMap):
        return
    shape = tensors[picked].type.shape if array is None else array.type.shape
    rows: Sequence[int] = ()
    if isinstance(s, nodes.StoreRows) and place is s.to:
        shape, rows = s.dims or shape, s.sides
    piece = _piece(s, place, known)
    for axis, (e, size) in enumerate(zip(place.index, shape)):
        yield Wanted(line, f"{called} axis {axis} low", (e,), known)
        if axis not in rows:
            last = size - (piece[axis] if axis < len(piece) else ONE)
            yield Wanted(line, f"{called} axis {axis} high", (last - e,), known)


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
