"""The order of the dims of buffers between kernels, where another one makes the program's kernels faster: that in which
copy engines fetch windows, with the channels innermost.

before: buffer t : fp16[N, C, L]; region t yields t[i0, i1, i2] for i0: N, i1: C, i2: L
        region y    %y = reduce sum (k0: C, k1: 3) { mul(t[i0, k0, i2 + k1], w[i1, k0, k1]) }
after:  buffer t : fp16[N, L, C]; region t yields t[i0, i2, i1] for i0: N, i2: L, i1: C
        region y    %y = reduce sum (k0: C, k1: 3) { mul(t[i0, i2 + k1, k0], w[i1, k0, k1]) }

A contraction that reads a buffer through windows asks for its channels innermost; attention asks so for the depth of
its queries and keys and for the width of its values and of what it writes, and a fold of rows for the dim that it
folds, where another dim is innermost. In a program that has one of these, each contraction that reads points alone asks
for the dim that it sums. Buffers that are read or written beside it along the same axis, such as residuals and results
of pools, are turned with it: a kernel reads and writes along one innermost axis. Buffers that hang together so are
turned together where the kernels of the regions that touch them take less then. Where that is not so, or some of these
lose much, what only the factors of contractions join to the rest is turned by itself, where that takes less. Signatures
are never turned: a kernel that reads an input or writes an output has it as the caller does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from ...analysis.regions import analyse
from ...ir.alike import Alike, form_of
from ...ir.body import (
    Body,
    BroadcastInDim,
    Gather,
    Read,
    Reduce,
    Scan,
    Scatter,
    Transpose,
    rebuild,
    walk,
)
from ...ir.meet import met
from ...ir.present import axes_of_values
from ...ir.region import Module, Region, Tensor
from ...ir.traits import bodies_of, sizes_of
from ...ir.types import TensorType
from ...kit.records import dataclass, replace
from ..attention import streaming_of
from ..problem import Contraction, Row, kernels_of
from .channels_innermost import channels_of

Orders = Mapping[str, tuple[int, ...]]
TimesOf = Callable[[Module, Container[str]], Mapping[str, float]]
LeastOf = Callable[[Module, Container[str]], Iterable[Mapping[str, float]]]

WORTH_US = 2.0  # that some kernels lose before others alone are tried: about what a launch takes


@dataclass(frozen=True, slots=True)
class Turned:
    """Buffers that were turned together, with their new orders of dims, and the microseconds of the kernels that touch
    them, before and after, estimated."""

    orders: Orders
    before: float
    after: float


def turn_buffers(
    module: Module, times_of: TimesOf, least_of: LeastOf | None = None
) -> tuple[Module, tuple[Turned, ...]]:
    """The module with the buffers turned for which that is faster by `times_of` (microseconds of the kernels of each of
    some regions of a module, by its name), and what was done. `least_of` gives times below which those are not, nearer
    and nearer; where these show that it is faster, they are `before` of what was done."""
    groups = _together(module, _orders(module, _innermost(module)))
    other, done = with_orders(module, {name: order for group in groups for name, order in group.items()}), []
    for group in groups:
        found, lost = _if_faster(module, other, group, times_of, least_of)
        parts = _together(module, group, is_apart_from_factors=True)
        is_asked = len(parts) > 1 and (found is None or lost() > WORTH_US)
        some = _parts_done(module, parts, times_of, least_of) if is_asked else []
        if found is not None and some:
            names = _touching(module, group)
            mixed = with_orders(module, {name: order for one in some for name, order in one.orders.items()})
            some = some if _sum(times_of(mixed, names), names) < found.after else []
        done += some or ([found] if found is not None else [])
    turned = {name: order for one in done for name, order in one.orders.items()}
    return with_orders(module, turned) if turned else module, tuple(done)


def _parts_done(module: Module, parts: Sequence[Orders], times_of: TimesOf, least_of: LeastOf | None) -> list[Turned]:
    """What is turned of buffers that are not turned all together: one after another those that only contractions join
    to the rest, which take their factors in any order."""
    turned, now, done = {}, module, []
    for part in parts:
        other = with_orders(module, turned | part)
        found, _ = _if_faster(now, other, part, times_of, least_of)
        if found is not None:
            turned, now = turned | part, other
            done.append(found)
    return done


def _if_faster(
    module: Module, other: Module, group: Orders, times_of: TimesOf, least_of: LeastOf | None
) -> tuple[Turned | None, Callable[[], float]]:
    """What is done where the kernels that touch these buffers take less in the other module, which has them turned; and
    the microseconds that those lose which take more, for who asks: it takes exact times."""
    names = _touching(module, group)
    after, exact = times_of(other, names), functools.partial(times_of, module)

    def lost(before: Mapping[str, float]) -> float:
        slower = {name: after[name] - before[name] for name in names if before[name] < after[name]}
        if before is least and sum(slower.values()) > WORTH_US:
            slower = {name: after[name] - us for name, us in exact(slower).items()}
        return sum(max(0.0, us) for us in slower.values())

    least: Mapping[str, float] = {}
    for least in least_of(module, names) if least_of is not None else ():
        if _sum(after, names) < _sum(least, names):
            return Turned(group, _sum(least, names), _sum(after, names)), functools.partial(lost, least)
    before = exact(names)
    found = Turned(group, _sum(before, names), _sum(after, names))
    return (found if found.after < found.before else None), functools.partial(lost, before)


def _touching(module: Module, group: Orders) -> list[str]:
    """The regions that read or write one of these buffers."""
    return [r.name for r in module.program.regions if any(t.name in group for t in (*r.inputs, *r.outputs))]


def _sum(times: Mapping[str, float], names: Iterable[str]) -> float:
    return sum(times[name] for name in names)


def with_orders(module: Module, orders: Orders) -> Module:
    """The module with each buffer's dims in its order, where it is written and where it is read."""
    buffers = {t.name: _turned(t, orders[t.name]) for t in module.program.buffers if t.name in orders}
    regions = tuple(_of_region(r, buffers, orders) for r in module.program.regions)
    kept = tuple(buffers.get(t.name, t) for t in module.program.buffers)
    return replace(module, program=replace(module.program, buffers=kept, regions=regions))


# --- which buffers, in which order


def _innermost(module: Module) -> dict[str, int]:
    """The dim that is to be innermost, of each buffer for which there is one."""
    free, sizes = _turnable(module), sizes_of(module.model)
    asked = [
        (form_of(region).tensors[tensor], dim_of, dim)
        for region in module.program.regions
        for tensor, dim_of, dim in _asked_by(Alike.of(region), tuple(sizes.items()))
    ]
    found = {name: dim for name, dim in _attended(module) if name in free}
    for way in (channels_of, _folded, _summed):
        for name, dim_of, dim in asked if found or way is not _summed else ():
            if dim_of is way and name in free:
                found.setdefault(name, dim)
    touching: dict[str, list[_Touched]] = {}
    for region in module.program.regions if found else ():
        touched = _Touched.of(region)
        for name in dict.fromkeys(name for name, _ in touched.places):
            touching.setdefault(name, []).append(touched)
    waiting = [*found]
    while waiting:
        name = waiting.pop()
        for touched in touching[name]:
            for axis in touched.axes_of(name, found[name]):
                for other, dim in touched.along(axis, free[name]):
                    if other in free and other not in found and free[other] == free[name]:
                        found[other] = dim
                        waiting.append(other)
    return found


@functools.lru_cache(maxsize=4096)
def _asked_by(alike: Alike, sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[int, Callable[..., object], int], ...]:
    """The dims of what it reads that a region asks to be innermost: the number of the tensor in its form, why, the
    dim."""
    (region,) = alike.regions
    kernel = next(iter(kernels_of(region, dict(sizes))), None)
    tensors = form_of(region).tensors
    if isinstance(kernel, Row):
        return tuple((tensors.index(name), _folded, dim) for name, dim in _folded(region, kernel))
    if not isinstance(kernel, Contraction):
        return ()
    return tuple(
        (tensors.index((kernel.lhs, kernel.rhs)[side].tensor), dim_of, dim)
        for dim_of in (channels_of, _summed)
        for side in (0, 1)
        if (dim := dim_of(region, kernel, side)) is not None
    )


def _folded(region: Region, kernel: Row) -> Iterator[tuple[str, int]]:
    """The tensors that rows are folded of across what is contiguous, each with the dim of its row."""
    for read in (n for body in bodies_of(region) for n in walk(body) if isinstance(n, Read)):
        found = [at for at, e in enumerate(read.index) if len(kernel.row) == 1 and e.name == kernel.row[0].name]
        if len(found) == 1 and found[0] < len(read.index) - 1:
            yield read.tensor, found[0]


def _attended(module: Module) -> Iterator[tuple[str, int]]:
    """The tensors of two regions that are one attention whose innermost dim is not that of its rows, with that."""
    makers = {t.name: r for r in module.program.regions for t in r.outputs if _is_handed_on(t)}
    pairs = [(makers[t.name], r) for r in module.program.regions for t in r.inputs if t.name in makers]
    for first, second in pairs:
        kernel = streaming_of(first, second)
        if isinstance(kernel, str):
            continue
        factors = ((kernel.query, kernel.depth), (kernel.key, kernel.depth), (kernel.value, kernel.width))
        places = [(f.tensor, f.index, axes[-1].name) for f, axes in factors if isinstance(f, Read)]
        places += [(y.output, y.index, kernel.width[-1].name) for y in second.yields if kernel.width]
        for name, index, axis in places:
            dims = [at for at, e in enumerate(index) if axis in e.names()]
            if len(dims) == 1 and dims[0] < len(index) - 1:
                yield name, dims[0]


def _is_handed_on(tensor: Tensor) -> bool:
    """Whether one kernel makes it and reads it, so that no memory has it."""
    return tensor.attr("materialize") == "deferred"


def _summed(_: Region, kernel: Contraction, side: int) -> int | None:
    """The dim along which a factor is summed; None where that is not one alone."""
    index = (kernel.lhs, kernel.rhs)[side].index
    found = [at for at, e in enumerate(index) if e.name in {a.name for a in kernel.sum}]
    return found[0] if len(found) == len(kernel.sum) == 1 else None


def _turnable(module: Module) -> dict[str, int]:
    """The buffers whose order is nobody else's business, with their ranks: those of no attributes that are written
    whole, at places that are a region's own axes; of what attention writes, at any places."""
    aliased = {t.attr("alias") for t in module.program.buffers}
    ranks = {t.name: t.type.rank for t in module.program.buffers if not t.attrs and t.name not in aliased}
    for region in module.program.regions:
        if any(map(_is_handed_on, region.inputs)) and not any(item.guard for item in region.yields):
            continue  # the axes of attention have roles, whatever their order is
        first = region.outputs[0].name if region.outputs else ""
        for item in region.yields:
            names = [e.name for e in item.index if e.constant is None]
            is_plain = None not in names and len(set(names)) == len(names)
            is_whole = item.output != first or set(names) == {a.name for a in region.iters}
            if not is_plain or not is_whole or item.guard or not _can_be_reordered(region):
                ranks.pop(item.output, None)
    return {name: rank for name, rank in ranks.items() if rank > 2}


def _can_be_reordered(region: Region) -> bool:
    """Whether the region's axes may be in another order: what is broadcast is told by their places, which is only
    worked out anew outside of folds."""
    inner = (
        n
        for body in bodies_of(region)
        for f in walk(body)
        if isinstance(f, (Gather, Reduce, Scan, Scatter))
        for n in walk(f)
    )
    return not any(isinstance(n, Transpose) for body in bodies_of(region) for n in walk(body)) and not any(
        isinstance(n, BroadcastInDim) for n in inner
    )


@dataclass(frozen=True, slots=True)
class _Touched:
    """The indices at which a region reads and writes."""

    places: tuple[tuple[str, tuple], ...]

    @classmethod
    def of(cls, region: Region) -> _Touched:
        reads = [(n.tensor, n.index) for body in bodies_of(region) for n in walk(body) if isinstance(n, Read)]
        return cls(tuple(dict.fromkeys((*reads, *((y.output, y.index) for y in region.yields)))))

    def axes_of(self, name: str, dim: int) -> Iterable[str]:
        """The axes that are that dim of the buffer by themselves."""
        return {index[dim].name for tensor, index in self.places if tensor == name and index[dim].name}

    def along(self, axis: str, rank: int) -> Iterable[tuple[str, int]]:
        """Tensors of a rank with the dim that is this axis by itself."""
        for tensor, index in self.places:
            found = [at for at, e in enumerate(index) if e.name == axis]
            if len(index) == rank and len(found) == 1:
                yield tensor, found[0]


def _orders(module: Module, innermost: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The orders of buffers whose innermost dim is another one."""
    ranks = {t.name: t.type.rank for t in module.program.buffers}
    return {
        name: (*(at for at in range(ranks[name]) if at != dim), dim)
        for name, dim in innermost.items()
        if dim != ranks[name] - 1
    }


def _together(module: Module, orders: Orders, is_apart_from_factors: bool = False) -> list[dict[str, tuple[int, ...]]]:
    """The orders in groups that no region touches two of; or, `is_apart_from_factors`, none but as the factors of a
    contraction."""
    groups: list[set[str]] = []
    sizes = tuple(sizes_of(module.model).items())
    for region in module.program.regions:
        own = {t.name for t in (*region.inputs, *region.outputs) if t.name in orders}
        factors = own & {*_factors_of(region, sizes)} if own and is_apart_from_factors else set()
        for several in (own - factors, *({name} for name in factors)):
            if several:
                joined = [g for g in groups if g & several]
                groups = [g for g in groups if not g & several] + [several.union(*joined)]
    return [{name: orders[name] for name in orders if name in group} for group in groups]


def _factors_of(region: Region, sizes: tuple[tuple[str, int], ...]) -> Iterator[str]:
    """The tensors that a contraction reads as its factors alone."""
    tensors = form_of(region).tensors
    return (tensors[number] for number in _numbers_of_factors(Alike.of(region), sizes))


@functools.lru_cache(maxsize=4096)
def _numbers_of_factors(alike: Alike, sizes: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    (region,) = alike.regions
    kernel = next(iter(kernels_of(region, dict(sizes))), None)
    if not isinstance(kernel, Contraction):
        return ()
    tensors = form_of(region).tensors
    beside = [let.expr for let in region.lets if let.name != kernel.value] + [y.expr for y in region.yields]
    others = {n.tensor for body in beside for n in walk(body) if isinstance(n, Read)}
    return tuple(tensors.index(read.tensor) for read in (kernel.lhs, kernel.rhs) if read.tensor not in others)


# --- a region with its buffers in their orders


def _turned(tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    shape = tuple(tensor.type.shape[at] for at in order)
    return replace(tensor, type=TensorType(tensor.type.dtype, shape))


def _of_region(region: Region, buffers: Mapping[str, Tensor], orders: Orders) -> Region:
    if not any(t.name in orders for t in (*region.inputs, *region.outputs)):
        return region

    def put(body: Body) -> Body:
        if isinstance(body, Read) and body.tensor in orders:
            return replace(body, index=tuple(body.index[at] for at in orders[body.tensor]))
        return rebuild(body, put)

    yields = tuple(
        replace(
            y,
            expr=put(y.expr),
            index=tuple(y.index[at] for at in orders[y.output]) if y.output in orders else y.index,
        )
        for y in region.yields
    )
    made = replace(
        region,
        inputs=tuple(buffers.get(t.name, t) for t in region.inputs),
        outputs=tuple(buffers.get(t.name, t) for t in region.outputs),
        lets=tuple(replace(let, expr=put(let.expr)) for let in region.lets),
        yields=yields,
    )
    first = region.outputs[0].name
    if first in orders and not any(map(_is_handed_on, region.inputs)):
        names = [e.name for y in yields if y.output == first for e in y.index if e.name]
        made = _reordered(made, tuple(dict.fromkeys(names)))
    return replace(made, analysis=analyse(made))


def _reordered(region: Region, names: tuple[str, ...]) -> Region:
    """The region with its axes in this order, and what is broadcast told anew."""
    axes = {a.name: a for a in region.iters}
    made = replace(region, iters=tuple(axes[name] for name in names))
    axes_of = axes_of_values(replace(made, lets=tuple(replace(let, expr=_bare(let.expr)) for let in made.lets)))
    return replace(
        made,
        lets=tuple(replace(let, expr=met(_bare(let.expr), names, axes_of)) for let in made.lets),
        yields=tuple(replace(y, expr=met(_bare(y.expr), names, axes_of)) for y in made.yields),
    )


def _bare(body: Body) -> Body:
    """The expression without what says how operands are broadcast."""
    return _bare(body.x) if isinstance(body, BroadcastInDim) else rebuild(body, _bare)
