"""A long fold in two steps: many CTAs fold a chunk each, and a second kernel folds what they found, always in the same
order.

before: region sum        for             %sum = reduce sum (k0: 16777216) { X[k0] }                yield Y[] = %sum
after:  region sum.part   for c0: 512     %sum.part = reduce sum (k0: 32768) { X[32768*c0 + k0] }   yield sum.part[c0] =
                          %sum.part
        region sum        for             %sum = reduce sum (c0: 512) { sum.part[c0] }              yield Y[] = %sum

A place is found so too: where in each chunk its best is, and in which chunk the best of all.

before: region top        for             %top = reduce argmax (k0: 16777216) { X[k0] }             yield Y[] = %top
after:  region top.part   for c0: 512     %top.best = reduce max (k0: 32768) { X[32768*c0 + k0] }   yield top.best[c0] =
                          %top.best
                                          %top.part = reduce argmax (k0: 32768) { ... }             yield top.part[c0] =
                                            add(32768*c0, %top.part)
        region top        for             %top.chunk = reduce argmax (c0: 512) { top.best[c0] }
                                          %top = gather (c0: 512 = %top.chunk) { top.part[c0] }     yield Y[] = %top

Folds that need one another, and what is written along the axis that they fold (softmax), become parts first, or are
done at once (`folds_at_once`). It is done where the cost model finds that it is faster: where there are too few rows,
or columns, to fill the card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...analysis.regions import fold_sizes
from ...ir.accumulate import cast, is_plain, wide
from ...ir.body import Axis, Binary, Gather, Index, Reduce, Ref, substitute
from ...ir.expr import Expr
from ...ir.region import Let, Region
from ...ir.traits import extent_of, reads_apart
from ...kit.records import replace
from ..problem import Map, Row, kernels_of
from .folds_at_once import at_once
from .handed import Handed, along, still_used
from .inline import Tangled, is_fold, padded, written_out
from .parts import Names, Parts, Surroundings, free_name, numbered_name, refs_of, region_of

LEAST = 1 << 15  # elements that are worth a second kernel
BEST = {"argmax": "max", "argmin": "min"}  # the fold that gives the element which the place is of
CHUNKS = tuple(1 << n for n in range(4, 18))  # points of the axis that is cut


def fold_in_steps(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The regions that a region becomes; itself alone where it folds nothing long, or is as fast alone."""
    names, sizes, time_of = around.names, around.sizes, around.time_of

    def time_of_all(way: tuple[Region, ...]) -> float:
        return sum(map(time_of, way))

    longest = max((_points(region, let.expr.axes).evaluate(sizes) for let in _folds(region)), default=0)
    rows = extent_of(tuple(a for a in region.iters if a.name not in _own(region))).evaluate(sizes)
    is_short = longest < 2 * CHUNKS[0] and not (_own(region) and reads_apart(region))
    if is_short or rows * longest < LEAST or not isinstance(next(iter(kernels_of(region, sizes)), None), (Row, Map)):
        return (region,)
    if time_of(region) <= around.least_of(region, 2):
        return (region,)
    parts = _by_level(region, names)
    taken = Names(names.memory | {t.name for p in parts for t in p.outputs}, names.regions | {p.name for p in parts})
    found: list[Region] = []
    for part in parts:
        found += min([(part,), *_ways(part, taken, sizes)], key=time_of_all)
    best = min([(region,), tuple(found)], key=time_of_all)
    if time_of_all(best) <= around.least_of(region, 3):
        return best
    return min([best, *at_once(region, names)], key=time_of_all)


def _folds(region: Region) -> tuple[Let, ...]:
    """The values that are folds."""
    return tuple(let for let in region.lets if isinstance(let.expr, Reduce))


def _own(region: Region) -> set[str]:
    """The region's axes that folds run along."""
    return {a.name for let in _folds(region) for a in let.expr.axes if a.size is None}


def _points(region: Region, axes: tuple[Axis, ...]) -> Expr:
    sizes, total = fold_sizes(region), Expr.of(1)
    for axis in axes:
        total = total * (axis.size if axis.size is not None else sizes[axis.name])
    return total


def _by_level(region: Region, names: Names) -> tuple[Region, ...]:
    """The region in parts, each with folds that do not need one another; what is written along the folded axes comes
    last."""
    level: dict[str, int] = {}
    home: dict[str, int] = {}
    for let in region.lets:
        below = max((level[r] for r in refs_of(let.expr)), default=-1)
        level[let.name] = below + is_fold(let.expr)
        if is_fold(let.expr):
            home[let.name] = level[let.name]
    own = _own(region)
    last = max(home.values())
    written = [
        last + 1
        if own & {n for e in y.index for n in e.names()}
        else max((level[r] for r in refs_of(y.expr)), default=last)
        for y in region.yields
    ]
    firsts = [next(name for name, n in home.items() if n == number) for number in range(last + 1)]
    wanted = [(name, f"{name}.fold") for name in firsts][: max((last, *written))]
    return Parts(region, home, [max(n, 0) for n in written], names).regions([*wanted, (region.name,)])


def _ways(region: Region, names: Names, sizes: Mapping[str, int]) -> Iterator[tuple[Region, ...]]:
    """The region in two steps, by each chunk that leaves several."""
    folds = _folds(region)
    axes = {tuple(_points(region, (a,)) for a in let.expr.axes) for let in folds}
    is_only_folds = sum(is_fold(item.expr) for item in (*region.lets, *region.yields)) == len(folds)
    if (
        not is_only_folds
        or len(axes) != 1
        or any(not is_plain(let.expr.op) and let.expr.body.dtype.kind == "b" for let in folds)
    ):
        return
    extents = [e.evaluate(sizes) for e in next(iter(axes))]
    cut = extents.index(max(extents))
    if cut and not all(is_plain(let.expr.op) for let in folds):
        return  # the elements of a chunk do not follow one another
    try:
        if _own(region):
            yield (_over_new_axes(region, folds),)
        for chunk in CHUNKS:
            if 2 * chunk <= extents[cut]:
                yield two_steps(region, folds, cut, chunk, names, reads_apart(region))
    except Tangled:
        return


def _over_new_axes(region: Region, folds: tuple[Let, ...]) -> Region:
    """The region with its folds over axes of their own, so that a thread may take a column."""
    changed = {}
    for let in folds:
        axes = tuple(Axis(a.name, _points(region, (a,))) for a in let.expr.axes)
        changed[let.name] = (replace(let, expr=replace(let.expr, axes=axes, body=written_out(region, let.expr.body))),)
    whole = replace(region, iters=tuple(a for a in region.iters if a.name not in _own(region)))
    return region_of(region.name, whole, still_used(region, changed), region.yields, ())


def two_steps(
    region: Region, folds: tuple[Let, ...], cut: int, chunk: int, names: Names, is_outermost: bool
) -> tuple[Region, Region]:
    """The region that folds chunks of the fold's axis number `cut`, and the one that folds what is left. The chunks are
    counted by the outermost axis of the first, or by its innermost. Raises Tangled where a value is moved on its
    way."""
    own = _own(region)
    number = numbered_name("c", {*fold_sizes(region), *names.memory})
    size = _points(region, (folds[0].expr.axes[cut],))
    across = Axis(number, size.ceildiv(chunk))
    rows = tuple(a for a in region.iters if a.name not in own)
    iters = (across, *rows) if is_outermost else (*rows, across)
    handed, second = Handed(iters, across, names), {}

    for let in folds:
        fold, axis = let.expr, let.expr.axes[cut].name
        inner = tuple(
            Axis(a.name, Expr.of(chunk) if n == cut else _points(region, (a,))) for n, a in enumerate(fold.axes)
        )
        place = chunk * Expr.of(number) + axis
        body = padded(substitute(written_out(region, fold.body), {axis: place}), fold.op, place, size, chunk)
        if is_plain(fold.op):
            read = handed.read(f"{let.name}.part", Reduce(fold.op, inner, body, wide(fold.dtype)), let.origin)
            second[let.name] = (replace(let, expr=cast(Reduce(fold.op, (across,), read, read.dtype), fold.dtype)),)
            continue
        best = handed.read(f"{let.name}.best", Reduce(BEST[fold.op], inner, body, body.dtype), let.origin)
        first = Index(extent_of(inner) * Expr.of(number), fold.dtype)  # of the chunk, in the order of the fold
        part = handed.read(
            f"{let.name}.part",
            Reduce(fold.op, inner, body, fold.dtype),
            let.origin,
            value=lambda at, axes: Binary("add", along(first, axes, number), at, at.dtype),  # noqa: B023
        )
        chosen = Let(f"{let.name}.chunk", Reduce(fold.op, (across,), best, fold.dtype), let.origin)
        second[let.name] = (chosen, replace(let, expr=Gather(across, Ref(chosen.name, fold.dtype), part, fold.dtype)))
    name = free_name(f"{folds[0].name}.part", names.regions)
    return handed.region(name, region), handed.reader(region, second)
