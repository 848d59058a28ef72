"""The second region of attention: its sum, how its axes meet the first region's, what it reads of a row."""

from __future__ import annotations

import functools
import itertools

from ...ir.body import Binary, Body, BroadcastInDim, Gather, Read, Reduce, Ref, Unary, rebuild, substitute, walk
from ...ir.expr import ONE, ZERO
from ...ir.region import Let, Region, Yield
from ...ir.traits import bodies_of
from ...kit.phrase import Phrase
from ...kit.records import replace
from ..parts.point import free_axes
from .weights import No


def inlined(region: Region, body: Body, may_choose: bool = False) -> Body:
    """A factor of a contraction with its values written out. Raises No where one is a fold, or chosen by data where
    these may not."""
    if isinstance(body, Ref):
        return inlined(region, region.let(body.name).expr, may_choose)
    if isinstance(body, BroadcastInDim):
        axes = body.axes if body.axes is not None else tuple(a.name for a in region.iters)
        if free_axes(region, body.x) == tuple(axes[d] for d in body.dims):
            return inlined(region, body.x, may_choose)
    if isinstance(body, Reduce if may_choose else (Reduce, Gather)):
        raise No(Phrase("a {name} in a factor of a contraction", name=type(body).__name__.lower()))
    return rebuild(body, functools.partial(inlined, region, may_choose=may_choose))


def second_of(
    first: Region, second: Region, handed: Yield, column: str
) -> tuple[str, Body, tuple[tuple[str, str], ...]]:
    """The second region's sum, its factor beside P, and how its axes meet the first region's."""
    folds = [let for let in second.lets if isinstance(let.expr, Reduce)]
    if (
        sum(isinstance(n, Reduce) for body in bodies_of(second) for n in walk(body)) != 1
        or not folds
        or folds[0].expr.op != "sum"
        or folds[0].expr.init is not None
    ):
        raise No(Phrase("a reader that is not one sum"))
    fold = folds[0].expr
    if len(fold.axes) != 1 or fold.axes[0].size is None or not isinstance(fold.body, Binary) or fold.body.op != "mul":
        raise No(Phrase("a reader that is not a sum of products along one axis"))
    sides = [inlined(second, side, may_choose=True) for side in (fold.body.left, fold.body.right)]
    for weights, value in (sides, sides[::-1]):  # noqa: B007
        read = weights.x if isinstance(weights, Unary) and weights.op == "cast" else weights
        if isinstance(read, Read) and read.tensor == handed.output:
            break
    else:
        raise No(Phrase("a factor that is more than {output}", output=handed.output))
    if sum(isinstance(n, Read) and n.tensor == handed.output for body in bodies_of(second) for n in walk(body)) != 1:
        raise No(Phrase("more than one read of {output}", output=handed.output))
    meets: list[tuple[str, str]] = []
    single = {a.name for a in first.iters if a.size == ONE}
    for written, there in zip(handed.index, read.index):
        if written.name in single and there == ZERO:
            continue
        if written.constant is not None and written != there or written.constant is None and there.name is None:
            raise No(Phrase("{output} is not read point by point", output=handed.output))
        if written.constant is None:
            meets.append((there.name, written.name))
    met = dict(meets)
    if met.get(fold.axes[0].name) != column or len(met) != len(meets):
        raise No(Phrase("a sum along another axis than {column}", column=column))
    sizes = {a.name: a.size for a in (*second.iters, *fold.axes)}
    if any(sizes.get(here) != next(a.size for a in first.iters if a.name == there) for here, there in meets):
        raise No(Phrase("axes that meet and differ in size"))
    return folds[0].name, value, tuple(meets)


def rows_read(first: Region, second: Region, item: Yield) -> tuple[tuple[tuple[str, Body], ...], Region]:
    """For each number of a row that the second region reads, a name and the first region's expression of it; and the
    second region with values of these names. Raises No where one is read at another row than that of `item`."""
    written = {y.output: y for y in first.yields if y is not item}
    if not any(t.name in written for t in second.inputs):
        return (), second
    reads: dict[str, Read] = {}

    def put(body: Body) -> Body:
        if not isinstance(body, Read) or body.tensor not in written:
            return rebuild(body, put)
        if reads.setdefault(f"{body.tensor}.row", body) != body:
            raise No(Phrase("{tensor} is read at two points", tensor=body.tensor))
        return Ref(f"{body.tensor}.row", body.dtype)

    lets = tuple(replace(let, expr=put(let.expr)) for let in second.lets)
    yields = tuple(replace(y, expr=put(y.expr)) for y in second.yields)
    (weights,) = {n for b in bodies_of(second) for n in walk(b) if isinstance(n, Read) and n.tensor == item.output}
    met = {w.name: r for w, r in zip(item.index, weights.index) if w.constant is None}
    for read in reads.values():
        own = written[read.tensor]
        if any(w != r if w.constant is not None else met.get(w.name) != r for w, r in zip(own.index, read.index)):
            raise No(Phrase("{output} is read at another row", output=own.output))
    rows = tuple((name, written[read.tensor].expr) for name, read in reads.items())
    return rows, replace(second, lets=(*(Let(n, r) for n, r in reads.items()), *lets), yields=yields)


def clear_of(second: Region, taken: frozenset[str], kept: frozenset[str]) -> Region:
    """The second region with other names for its axes that are `taken`, but for those that are `kept`: the kernel names
    them beside the first region's."""
    folds = {a.name for b in bodies_of(second) for n in walk(b) if isinstance(n, Reduce) for a in n.axes}
    names = {a.name for a in second.iters} | folds
    free = (f"e{number}" for number in itertools.count())
    used = names | taken | {t.name for t in (*second.inputs, *second.outputs)}
    put = {name: next(f for f in free if f not in used) for name in sorted((names - kept) & taken)}
    if not put:
        return second

    def change(body: Body) -> Body:
        moved = substitute(rebuild(body, change), put)
        if isinstance(moved, Reduce):
            return replace(moved, axes=tuple(replace(a, name=put.get(a.name, a.name)) for a in moved.axes))
        if isinstance(moved, BroadcastInDim) and moved.axes is not None:
            return replace(moved, axes=tuple(put.get(a, a) for a in moved.axes))
        return moved

    return replace(
        second,
        iters=tuple(replace(a, name=put.get(a.name, a.name)) for a in second.iters),
        lets=tuple(replace(let, expr=change(let.expr)) for let in second.lets),
        yields=tuple(
            replace(
                y,
                index=tuple(e.substitute(put) for e in y.index),
                expr=change(y.expr),
                guard=tuple(b.substitute(put) for b in y.guard),
            )
            for y in second.yields
        ),
    )
