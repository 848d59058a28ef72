"""Products of the same rows with constants as one product of all their columns: queries, keys and values of attention
whose heads are not as many. Those with as many columns, of which one alone would leave much of the card idle, share a
launch as they are (`kernels.siblings`): no constants are laid side by side for them.

before: region q      for i0: M, i1: 2048      %q = reduce sum (k0: K) { mul(X[i0, k0], Q[k0, i1]) }    yield q[i0, i1]
        region k      for i0: M, i1: 512       %k = reduce sum (k0: K) { mul(X[i0, k0], W[k0, i1]) }    yield k[i0, i1]
        region a      ... q[i0, k0] ... k[i1, k0] ...
after:  region q.all  for i0: K, i1: 2560      yield q.all[i0, i1] = Q[i0, i1] where i1 < 2048 else W[i0, i1 - 2048]
        region q      for i0: M, i1: 2560      %q = reduce sum (k0: K) { mul(X[i0, k0], q.all[k0, i1]) }
                      yield q.wide[i0, i1]
        region a      ... q.wide[i0, k0] ... q.wide[i1, k0 + 2048] ...

What follows the sums must be the same of all but for constants along the columns, which become one as well. Tiles of
all fill the card together, and the rows are fetched once.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator

from ...analysis.regions import analyse
from ...analysis.traffic import fills_card
from ...ir.body import Axis, Body, Read, Ref, Select, operands_of, rebuild
from ...ir.expr import ZERO, Bound, Expr
from ...ir.region import Module, Region, Tensor, Yield
from ...ir.traits import extent_of, sizes_of
from ...ir.types import TensorType
from ...kit.records import replace
from ..problem import Contraction, kernel_of
from .parts import Names, free_name, point_of
from .together import Together, Way, reading
from .turn_columns import column_of

MOST = 8  # products that become one


def joined(module: Module) -> Iterator[Way]:
    """A way for each group of products of the same rows that do not share a launch as they are."""
    constants = module.model.constants()
    inside = {b.name for b in module.program.buffers if not b.attrs}
    groups: dict[Hashable, list[Region]] = {}
    for one in module.program.regions:
        kernel = kernel_of(one, "contraction")
        if not isinstance(kernel, Contraction) or not kernel.is_alone or kernel.pair or kernel.batch or one.must_fuse:
            continue
        if kernel.factors != (kernel.lhs, kernel.rhs) or len(kernel.right) != 1 or len(one.yields) != 1:
            continue
        is_own = one.outputs[0].name in inside and not one.yields[0].guard
        known = {t.name for t in one.inputs} - {kernel.lhs.tensor} <= constants
        if is_own and known and column_of(one, kernel.right[0]) is not None and kernel.right[0].size.constant:
            groups.setdefault((kernel.lhs, one.iters[:-1], kernel.sum, kernel.rhs.index), []).append(one)
    sizes = sizes_of(module.model)
    for several in groups.values():
        is_shared = len({one.iters[-1].size for one in several}) == 1 and not fills_card(
            extent_of(several[0].iters).evaluate(sizes)
        )
        if 1 < len(several) <= MOST and not is_shared:
            yield functools.partial(_joined, tuple(one.name for one in several))


def _joined(products: tuple[str, ...], module: Module, names: Names) -> Together | None:
    """The module with one product in the place of several; None where what follows their sums is not the same."""
    group = tuple(module.program.region(name) for name in products)
    first, axis = group[0], group[0].iters[-1]
    tensors: dict[str, tuple[str, ...]] = {}
    for one in group:
        found: dict[str, str] = {}
        if not _same(first, one, found):
            return None
        for name, other in found.items():
            tensors[name] = (*tensors.get(name, ()), other)
    sizes = [one.iters[-1].size.constant or 0 for one in group]
    total, known = sum(sizes), {t.name: t for one in group for t in one.inputs}
    made: list[Region] = []
    whole: dict[str, str] = {}
    for name, several in tensors.items():
        if len(set(several)) == 1:
            continue
        dims = {
            n for read in _reads(first) if read.tensor == name for n, e in enumerate(read.index) if e.name == axis.name
        }
        if len(dims) != 1:
            return None
        (at,) = dims
        types = [known[t].type for t in several]
        rest = {(t.dtype, t.shape[:at], t.shape[at + 1 :]) for t in types}
        if len(rest) != 1 or [t.shape[at] for t in types] != [Expr.of(s) for s in sizes]:
            return None
        made.append(_all_of(first, [known[t] for t in several], at, names, {r.name for r in made}))
        whole[name] = made[-1].name
    own = {name for name, several in tensors.items() if len(set(several)) == 1}
    if any(axis.name in {n for e in r.index for n in e.names()} for r in _reads(first) if r.tensor in own):
        return None
    output = first.outputs[0]
    shape = (*output.type.shape[:-1], Expr.of(total))
    wide = Tensor(free_name(f"{output.name}.wide", names.memory), TensorType(output.type.dtype, shape))

    def put(body: Body) -> Body:
        return (
            replace(body, tensor=whole[body.tensor])
            if isinstance(body, Read) and body.tensor in whole
            else rebuild(body, put)
        )

    copies = {one.name: one.outputs[0] for one in made}
    product = replace(
        first,
        inputs=tuple(copies[whole[t.name]] if t.name in whole else t for t in first.inputs),
        outputs=(wide,),
        iters=(*first.iters[:-1], Axis(axis.name, Expr.of(total))),
        lets=tuple(replace(let, expr=put(let.expr)) for let in first.lets),
        yields=tuple(replace(y, output=wide.name, expr=put(y.expr)) for y in first.yields),
    )
    product = replace(product, analysis=analyse(product))
    ahead = {one.outputs[0].name: sum(sizes[:n]) for n, one in enumerate(group)}
    regions: list[Region] = []
    changed = [product]
    for r in module.program.regions:
        if r in group:
            regions += (*made, product) if r is first else ()
            continue
        other = reading(r, ahead, wide, lambda read: (*read.index[:-1], read.index[-1] + ahead[read.tensor]))
        regions.append(other)
        changed += [other] if other is not r else []
    buffers = tuple(b for b in module.program.buffers if b.name not in ahead)
    program = replace(
        module.program, buffers=(*buffers, wide, *(one.outputs[0] for one in made)), regions=tuple(regions)
    )
    return Together(replace(module, program=program), first.name, products, (*changed, *made))


def _reads(one: Region) -> Iterator[Read]:
    pending = [item.expr for item in (*one.lets, *one.yields)]
    while pending:
        body = pending.pop()
        if isinstance(body, Read):
            yield body
        pending += operands_of(body)


_HOLE = Ref("", None)  # type: ignore[arg-type]


def _same(first: Region, one: Region, tensors: dict[str, str]) -> bool:
    """Whether two regions compute the same but for tensors, which `tensors` gives then, and for the length of the
    columns."""
    values: dict[str, str] = {}

    def alike(a: Body, b: Body) -> bool:
        if isinstance(a, Read) and isinstance(b, Read):
            tensors.setdefault(a.tensor, b.tensor)
            return (a.index, a.dtype, a.slot) == (b.index, b.dtype, b.slot) and tensors[a.tensor] == b.tensor
        if isinstance(a, Ref) and isinstance(b, Ref):
            return a.index is None and b.index is None and values.get(a.name) == b.name
        if type(a) is not type(b) or rebuild(a, lambda _: _HOLE) != rebuild(b, lambda _: _HOLE):
            return False
        return all(map(alike, operands_of(a), operands_of(b)))

    if len(first.lets) != len(one.lets) or first.iters[:-1] != one.iters[:-1]:
        return False
    if first.iters[-1].name != one.iters[-1].name or first.yields[0].index != one.yields[0].index:
        return False
    for a, b in zip(first.lets, one.lets):
        if not alike(a.expr, b.expr):
            return False
        values[a.name] = b.name
    dtypes = {r.outputs[0].type.dtype for r in (first, one)}
    return len(dtypes) == 1 and alike(first.yields[0].expr, one.yields[0].expr)


def _all_of(first: Region, tensors: list[Tensor], at: int, names: Names, taken: set[str]) -> Region:
    """The region that lays constants side by side along a dim."""
    dtype, shape = tensors[0].type.dtype, list(tensors[0].type.shape)
    sizes = [t.type.shape[at] for t in tensors]
    shape[at] = sum(sizes[1:], sizes[0])
    iters, index = point_of(shape)
    column, value = index[at], None
    for number in reversed(range(len(tensors))):
        before = sum(sizes[:number], ZERO)
        place = [column - before if n == at else e for n, e in enumerate(index)]
        own = Read(tensors[number].name, tuple(place), dtype)
        guard = (Bound(column, upper=before + sizes[number]),)
        value = own if value is None else Select(guard, own, value, dtype)
    wanted = f"{tensors[0].name}.all"
    name = free_name(wanted, names.memory | names.regions | taken)
    item = Yield(name, tuple(index), value, (), first.yields[0].origin)  # type: ignore[arg-type]
    made = Tensor(name, TensorType(dtype, tuple(shape)))
    one = Region(name, tuple(dict.fromkeys(tensors)), (made,), iters, (), (item,), span=first.span)
    return replace(one, analysis=analyse(one))
