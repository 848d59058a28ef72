"""The flat template in vectors: a thread takes neighbours along a run, which move in one access a tensor
(`side_by_side`).

    let e = 128*cta.x + thread.x                      the number of a vector
    if e < 96*M
      let i0 = floor(e/96)
      let i1 = 8*e - 768*floor(e/96)                  its first element
      loads, the loop over the eight, stores

A run of all axes may be of any length. Then it is counted in elements:

    let e = 1024*cta.x + 8*thread.x                   the number of a vector's first element
    if e < M*N - 7
      loads of X[floor((e + v)/N), e + v - N*floor((e + v)/N)], which is at e + v; the loop, stores

What is only moved goes from tensor to tensor; what is the same for all neighbours comes before the loop. So does a
fold, whose sums are of all of them: columns of a matrix are folded several at once.

    reg y.acc : fp32[4] = 0.0
    for k0 in 0..R unroll 8
      X.v[v] over v: 4 = X[k0, i0 + v] vector 4
      for v in 0..4 unroll
        y.acc[v] = add(y.acc[v], X.v[v])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.accumulate import cast, fold_word, start_of
from ...ir.body import Axis, Binary, Body, Read, Ref, walk
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_multiple
from ...ir.region import Region
from ...ir.runs import Run
from ...ir.traits import axes_of, extent_of
from ...kit.records import dataclass, replace
from ..resources import ON_THEIR_WAY
from .fold import Accumulator, type_of
from .halves import halves_of
from .point import Fresh, Values, below, needed, split
from .side_by_side import SideBySide
from .statements import FEW, Statements


def vector_statements(region: Region, fresh: Fresh, run: Run, number: Expr, is_guarded: bool) -> tuple[Statement, ...]:
    """What a thread does with the vector of this number; `is_guarded` where there may be no such vector."""
    width, outer = run.width, region.iters[: len(region.iters) - len(run.axes)]
    name = Expr.of(fresh.of("e"))
    if run.is_whole:
        first, in_run = Expr.of(run.axes[0].name if len(run.axes) == 1 else fresh.of("r")), run.whole(ZERO)
        places = split(name, (*outer, Axis(str(first), in_run)))
        at = width * places.pop(str(first))
        let, lets = (
            nodes.Let(str(name), number),
            [*(nodes.Let(a.name, places[a.name]) for a in outer), nodes.Let(str(first), at)],
        )
        guard = below(name, extent_of(outer) * in_run) if is_guarded else ()
    else:
        first = name
        let, lets, at, guard = (
            nodes.Let(str(name), width * number),
            [],
            width * number,
            (Bound(first, upper=run.extent - (width - 1)),) if is_guarded else (),
        )
    inner = (*lets, *_neighbours(region, fresh, run, first, at))
    return (let, *((nodes.If(guard, inner),) if guard else inner))


def _neighbours(region: Region, fresh: Fresh, run: Run, first: Expr, at: Expr) -> tuple[Statement, ...]:
    """The values and stores at the neighbours from `first` on, whose value is `at`: on each side of a place at which
    the map becomes another, where it does, and one by one where they are on both. Along another axis than the run's
    all of them are on one side."""
    halves = halves_of(region, str(first), run.width) if len(run.axes) == 1 and run.is_whole else None
    if halves is not None:
        before, behind = (_neighbours(side, fresh, run, first, at) for side in (halves.before, halves.behind))
        if is_multiple(at, run.width) and halves.place % run.width == 0:
            return (nodes.If((Bound(first, upper=Expr.of(halves.place)),), before, behind),)
        last = Bound(first, upper=Expr.of(halves.place - (run.width - 1)))
        other = nodes.If((Bound(first, lower=Expr.of(halves.place)),), behind, _one_by_one(region, fresh, run, first))
        return (nodes.If((last,), before, (other,)),)
    apart = ((a.name, halves_of(region, a.name, 1)) for a in region.iters if a not in run.axes)
    for axis, halves in apart:
        if halves is not None:
            sides = [_neighbours(side, fresh, run, first, at) for side in (halves.before, halves.behind)]
            return (nodes.If((Bound(Expr.of(axis), upper=Expr.of(halves.place)),), *sides),)
    neighbours = SideBySide(region, fresh, run, first, {str(first): at})
    writer = _Beside(region, fresh, beside=lambda: SideBySide(region, fresh, run, first, {str(first): at}))
    return written_beside(writer, neighbours)


def written_beside(writer: Statements, neighbours: SideBySide) -> tuple[Statement, ...]:
    """The values and stores of a writer at neighbours, at the point that it has along the other axes."""
    region, run = writer.region, neighbours.run
    writer.point |= neighbours.point(run.axes)
    lines = writer.values(needed(region, (y.expr for y in region.yields)))
    written = []
    for item in region.yields:
        body, before = writer.body(item.expr)
        lines += before
        written.append((item, body))
    same, varying = parted(lines, neighbours.turn)
    for item, body in written:
        neighbours.store(item, body, writer.point, region.iters, varying)
    single = [nodes.Let(a.name, neighbours.point(run.axes)[a.name]) for a in run.axes] if len(run.axes) > 1 else []
    return (
        *same,
        *neighbours.loop(
            varying, one=[*single, *Statements(region, writer.fresh).at_point(region.yields)] if single else ()
        ),
    )


def _one_by_one(region: Region, fresh: Fresh, run: Run, first: Expr) -> tuple[Statement, ...]:
    """The values and stores at each neighbour by itself."""
    turn, writer = fresh.of("v"), Statements(region, fresh)
    writer.point[str(first)] = first + turn
    return (nodes.For(turn, ZERO, Expr.of(run.width), tuple(writer.at_point(region.yields)), unroll=1),)


@dataclass
class _Beside(Statements):
    """Statements at neighbours, whose folds come before the loop over them."""

    beside: Callable[[], SideBySide] | None = None

    def _thread_fold(self, accumulator: Accumulator, values: Values, before: list[Statement]) -> Body:
        fold, neighbours = accumulator.fold, self.beside()
        width, at = neighbours.run.width, Expr.of(neighbours.turn)
        names = {a.name: Expr.of(a.name) for a in fold.axes}
        element = values.shielded(replace(values, point={**values.point, **names}).at(fold.body))
        held = Read(accumulator.name, (at,), fold.dtype)
        step = nodes.Assign(
            Place(held.tensor, (at,)),
            Binary(fold_word(fold.op, fold.dtype), held, cast(element, fold.dtype), fold.dtype),
        )
        inside = neighbours.loop([step])
        for axis in reversed(fold.axes):
            is_few = axis.size.constant is not None and axis.size.constant <= FEW
            inside = [
                nodes.For(
                    axis.name, ZERO, axis.size, tuple(inside), unroll=0 if is_few else max(2, ON_THEIR_WAY // width)
                )
            ]
        start = start_of(fold.op, accumulator.stated.dtype)
        before += [nodes.Reg(held.tensor, type_of(fold.dtype, width), init=start), *inside]
        return cast(held, accumulator.stated.dtype)


def parted(lines: Iterable[Statement], turn: str) -> tuple[list[Statement], list[Statement]]:
    """The statements that are the same for all neighbours, and the others."""
    same, inside, varying, places = [], [], set(), {turn}
    for s in lines:
        if isinstance(s, (nodes.Reg, nodes.For)):
            same.append(s)
            continue
        is_inside = bool(places & axes_of(s.value)) or any(
            isinstance(n, Ref) and n.name in varying for n in walk(s.value)
        )
        (inside if is_inside else same).append(s)
        if is_inside:
            (places if isinstance(s, nodes.Choose) else varying).add(s.name)
    return same, inside
