"""That a store writes every element of a tensor, and none twice: the points at which it runs, in terms of the element.

Nothing here is relied on: that these are the points is shown by sums, which `tinyir.verifier` adds up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..ir.expr import ONE, ZERO, Expr
from ..ir.gpu import nodes
from .known import CLAIMED, DEFINED, DERIVED, SPREAD, Known, Wanted
from .points import Points, points_of
from .shown import Shown, floors_of
from .sums import Proof


def once(s: Any, around: Known, tensors: Mapping[str, Any]) -> Iterator[Wanted]:
    """That a store writes no element twice, and every element."""
    box = around.arrays.get(s.to.name)
    if isinstance(box, nodes.Shared):
        return
    what, line = nodes.Place(s.to.name), s.span.line
    known, every, goals = Known(around), Known(), list[Expr]()
    index, sizes, sides = _written(s, box, around, tensors)
    for name, value in around.apart:
        known.mean(name, value)
    for tile, (order, _) in around.tiles.items():
        known.hold(order.tile - tile, True, CLAIMED)
    for axis, side in enumerate(sides):
        known.run(f"box.{axis}", ZERO, side - 1)
        index[axis] = index[axis] + f"box.{axis}"
    if isinstance(box, nodes.Pick):
        index, sizes = [box.at, *index], [Expr.of(len(box.of)), *sizes]
    if isinstance(s, nodes.StoreRows):
        known.spread(SPREAD["wgmma"])
    for symbol, within in around.sums.ranges.items():
        every.sums.ranges.setdefault(symbol, within)
    for axis, (e, size) in enumerate(zip(index, sizes)):
        at = f"at.{axis}"
        known.hold(Expr.of(at) - e, True, DERIVED)
        known.sums.ranges[at] = known.range_of(e)
        every.between(at, ZERO, size - 1)
        goals += [e - at, Expr.of(at) - e]
    search = points_of(known, index, sizes)
    points, alone = [] if search is None else search.so_far, list[Expr]()
    for name, value in points:
        every.mean(name, value)
        if name in known.points:
            alone += [Expr.of(name) - value, value - name]
        else:
            known.mean(name, value)
    for tile, (_, count) in known.tiles.items():
        every.between(tile, ZERO, count - 1)
    for fact, is_equal in known.facts_of(DEFINED):
        every.hold(fact, is_equal, by_data=fact in known.data)
    every.sums.lets = known.sums.lets | every.sums.lets
    for fact, is_equal in known.facts_of(CLAIMED):
        goals += [fact, -fact] if is_equal else [fact]
    first = then = None
    if search is not None and search.so_far:
        first = _alone(known, alone, index, search)
        then = _every(every, goals, index, sizes, search)
    yield Wanted(line, f"no element twice {what}", tuple(alone), known, tuple(points), first)
    yield Wanted(line, f"every element {what}", tuple(goals), every, (), then)


def _alone(known: Known, goals: Sequence[Expr], index: Sequence[Expr], search: Points) -> Proof | None:
    """The sums that show that the element tells the points."""
    facts = [*known.facts_of(CLAIMED), *known.facts_of(DERIVED)]
    facts = [(fact, is_equal) for fact, is_equal in facts if not any(n.startswith("at.") for n in fact.vocabulary)]
    lets = {name: let for name, let in known.sums.lets.items() if name not in {*search.flat, *dict(search.cuts)}}
    elements = {f"at.{axis}": Expr.of(f"at.{axis}") - e for axis, e in enumerate(index)}
    elements |= {tile: Expr.of(tile) - order.tile for tile, (order, _) in known.tiles.items()}
    facts += [(Expr.of(name) - value, True) for name, value in search.so_far if name not in known.points]
    shown = Shown(facts, known.sums.ranges)
    shown.write_out(facts, lets)
    for e, value, _ in search.equations:
        if not shown.is_written(value - e, known.sums.lets | elements):
            for axis in index:
                shown.mean_floors(axis, lets, lambda quotient: quotient)
        if not shown.is_equal(value, e, known.sums.lets | elements):
            return None
        shown.bound_floors(e)
    meant = dict[str, Expr]()  # of points, without parts of which there are parts
    for part, meaning in search.cuts:
        meant[part] = meaning.substitute(meant)
    for part in [name for name, _ in search.so_far if name in meant]:  # each rests on those before it
        shown.is_equal(Expr.of(part), meant[part], lets)
    return shown.proof_of(goals) if all(shown.is_shown(goal, lets) for goal in goals) else None


def _every(
    every: Known, goals: Sequence[Expr], index: Sequence[Expr], sizes: Sequence[Expr], search: Points
) -> Proof | None:
    """The sums that show that the points of an element are points of the store, and write it."""
    facts = [(f, is_equal) for f, is_equal in every.facts_of(DEFINED) if f not in every.sums.lets.values()]
    lets = {name: let for name, let in every.sums.lets.items() if name not in search.flat}
    found = {name for name, _ in search.so_far}
    to_points = {name: let for name, let in lets.items() if name not in found or name in search.means}
    shown = Shown(facts, every.sums.ranges)
    shown.write_out(facts, lets)
    flats: list[Expr] = []  # numbers of elements along several axes
    for name, axes in search.flat.items():
        whole, value, terms = ONE, ZERO, []
        for axis in reversed(axes):
            at = Expr.of(f"at.{axis}")
            terms.append((sizes[axis] - 1 - at, at, whole))
            value, whole = value + whole * at, whole * sizes[axis]
            shown.is_summed(value, [(at, stride) for _, at, stride in terms])
            shown.is_summed(whole - 1 - value, [(last, stride) for last, _, stride in terms])
        shown.is_equal(Expr.of(name), value, every.sums.lets)
        meant = [(Expr.of(name) - value, ONE)]
        shown.is_summed(Expr.of(name), [*meant, *((at, stride) for _, at, stride in terms)])
        flats.append(value)
        meant = [(value - name, ONE)]
        shown.is_summed(whole - 1 - name, [*meant, *((last, stride) for last, _, stride in terms)])
    shown.compare_floors([*sizes, *search.counts.values()])
    digits = [search.counts[name] for name, _ in search.cuts]
    for name, _ in search.cuts:
        shown.is_shown(Expr.of(name), lets)
        shown.is_shown(search.counts[name] - 1 - name, lets)
    own = [goal for goal in goals if goal.vocabulary & found]
    left = [goal for goal in goals if goal not in own or not shown.is_shown(goal, lets)]
    for value in flats:
        for floor in dict.fromkeys(f for e in index for f in floors_of(shown.written_out(e, lets)[0])):
            shown.mean_digits(floor, value, lets)
    for e in (*left, *(one.e for one in search.equations)):
        shown.mean_floors(e, to_points, search.plain)
    for e, value, _ in search.equations:
        shown.is_written(value - e, every.sums.lets)
        shown.is_written(e - value, every.sums.lets)
    for floor in [f for goal in left for f in floors_of(shown.written_out(goal, lets)[0])]:
        plain, _ = shown.written_out(floor.num, lets)
        if plain != floor.num:
            shown.is_equal(floor.num, plain, lets)
        shown.is_positive(floor.den, lets)
    left = [goal for goal in left if not shown.is_of_digits(goal, to_points, lets, digits)]
    left = [goal for goal in left if not shown.is_shown(goal, lets)]
    return None if any(not shown.is_shown(goal, to_points) for goal in left) else shown.proof_of(goals)


def _written(
    s: Any, box: Any, known: Known, tensors: Mapping[str, Any]
) -> tuple[list[Expr], Sequence[Expr], Sequence[Expr]]:
    """The index of what a store writes, the sizes of the tensor along it, and those of a tile that it writes."""
    name = box.of[0] if isinstance(box, nodes.Pick) else s.to.name
    box = known.arrays.get(name)
    if isinstance(box, nodes.TensorMap):
        return list(s.to.index), box.dims or tensors[box.tensor].type.shape, box.box
    sizes = tensors[name].type.shape if name in tensors else ()
    if isinstance(s, nodes.StoreRows):
        return list(s.to.index), s.dims or sizes, s.box
    return list(s.to.index), sizes, ()
