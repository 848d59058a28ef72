"""Two products of the same rows as one kernel with both sums (`problem.Pair`), where what follows the one needs the
other: the columns of their operands take turns in one matrix, a copy that is made once of constants.

before: region gate    for i0: M, i1: N
                       %gate = reduce sum (k0: K) { mul(X[i0, k0], G[k0, i1]) }
                       yield S[i0, i1] = silu(%gate)
        region up      for i0: M, i1: N
                       %up = reduce sum (k0: K) { mul(X[i0, k0], U[k0, i1]) }
                       yield Y[i0, i1] = mul(S[i0, i1], %up)
after:  region up.both for i0: K, i1: N/64, i2: 2, i3: 64
                       yield up.both[i0, 128*i1 + 64*i2 + i3] = G[i0, 64*i1 + i3] where i2 < 1 else U[i0, 64*i1 + i3]
        region up      for i0: M, i1: N/64, i2: 64
                       %gate = reduce sum (k0: K) { mul(X[i0, k0], up.both[k0, 128*i1 + i2]) }
                       %up = reduce sum (k0: K) { mul(X[i0, k0], up.both[k0, 128*i1 + i2 + 64]) }
                       yield Y[i0, 64*i1 + i2] = mul(silu(%gate), %up)

X is fetched once, what the gate gives is never written, and one wave of larger tiles takes the place of two. One
product of both halves, of which a map reads column i1 and column i1 + N, is two of them first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from ...analysis.regions import analyse
from ...ir.body import Axis, Body, BroadcastInDim, Read, Ref, Select, Transpose, rebuild, substitute, walk
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.region import Let, Module, Region, Tensor, Yield
from ...ir.traits import folds_of, scans_of
from ...ir.types import TensorType
from ...kit.groups import lists_of
from ...kit.records import replace
from ..problem import Contraction, kernel_of
from .parts import Names, free_name, numbered_name, with_parts
from .together import Together, Way
from .turn_columns import column_of

WIDTHS = (64, 32, 16)  # columns of either that are side by side, the widest that divides them


def gated(module: Module) -> Iterator[Way]:
    """A way for each product that another one reads and nothing else does."""
    readers = lists_of((tensor.name, one) for one in module.program.regions for tensor in one.inputs)
    kept = {t.name for t in module.model.outputs} | set(module.model.states())
    for one in module.program.regions:
        if len(one.outputs) == 1 and one.outputs[0].name not in kept and not one.outputs[0].attrs:
            several = readers.get(one.outputs[0].name, [])
            if len(several) == 1 and not one.must_fuse and not several[0].must_fuse:
                yield functools.partial(_gated, one.name, several[0].name)


def _gated(first_name: str, second_name: str, module: Module, names: Names) -> Together | None:
    """The module with the matrix of both operands in the place of the first product, and both in that of the second;
    None where they are not two of the same rows."""
    gate, reader = module.program.region(first_name), module.program.region(second_name)
    way = _both_of(*(_parted(gate, reader) or (gate, reader)), names)
    if not way:
        return None
    gone = {t.name for t in gate.outputs}
    program = replace(module.program, buffers=tuple(b for b in module.program.buffers if b.name not in gone))
    parts = {one.name: (one,) for one in program.regions} | {gate.name: way[:1], reader.name: way[1:]}
    whole = with_parts(replace(module, program=program), parts)
    return Together(whole, reader.name, (gate.name, reader.name), way)


def _both_of(gate: Region, reader: Region, names: Names) -> tuple[Region, ...]:
    """The matrix of both operands, and both products as one; nothing where they are not two of the same rows."""
    first, second = (kernel_of(one, "contraction") for one in (gate, reader))
    if not _are_alike(gate, first, reader, second):
        return ()
    axis, width = second.right[0], _width_of(second.right[0])
    at = next(n for n, e in enumerate(second.rhs.index) if axis.name in e.names())
    operands = [next(t for t in one.inputs if t.name == k.rhs.tensor) for one, k in ((gate, first), (reader, second))]
    rest = {(t.type.dtype, t.type.shape[:at], t.type.shape[at + 1 :]) for t in operands}
    starts = [k.rhs.index[at] - axis.name for k in (first, second)]
    if not width or len(rest) > 1 or any(start.constant is None for start in starts):
        return ()
    body = _with_gate(gate, reader)
    if body is None or any(isinstance(n, Transpose) for item in (*body.lets, *body.yields) for n in walk(item.expr)):
        return ()
    both = _both(reader, list(zip(operands, starts)), at, axis.size, width, names)
    taken = {a.name for a in (*body.iters, *second.sum) if a != axis} | names.memory
    block = numbered_name("i", taken)
    inner = numbered_name("i", taken | {block})
    place = width * Expr.of(block) + inner
    split = _in_blocks(body, axis, (Axis(block, axis.size // width), Axis(inner, Expr.of(width))), place)
    sums = {first.rhs: 0, second.rhs: width}
    moved = {
        substitute(read, {axis.name: place}): replace(
            read,
            tensor=both.name,
            index=tuple(2 * width * Expr.of(block) + inner + ahead if n == at else e for n, e in enumerate(read.index)),
        )
        for read, ahead in sums.items()
    }
    found = _exchanged(split, moved, both.outputs[0], {t.name for t in operands})
    return both, replace(found, analysis=analyse(found))


def _are_alike(gate: Region, first: object, reader: Region, second: object) -> bool:
    """Whether two regions are products of the same rows with operands that are alike."""
    if not isinstance(first, Contraction) or not isinstance(second, Contraction):
        return False
    products = [one.let(k.value).expr.body for one, k in ((gate, first), (reader, second))]
    return (
        first.is_alone
        and second.is_alone
        and not first.pair
        and not second.pair
        and gate.iters == reader.iters
        and len(second.right) == 1
        and first.factors == (first.lhs, first.rhs)
        and second.factors == (second.lhs, second.rhs)
        and replace(second, value=first.value, rhs=first.rhs, factors=first.factors) == first
        and _differ_along(first.rhs, second.rhs, second.right[0].name) == 1
        and products[0].dtype == products[1].dtype
    )


def _differ_along(first: Read, second: Read, axis: str) -> int:
    """Along how many dims an axis counts the elements of both operands, which are read alike along all others; 0 where
    they are not."""
    pairs = list(zip(first.index, second.index))
    own = [(a, b) for a, b in pairs if axis in a.names() and axis in b.names()]
    is_alike = len(first.index) == len(second.index) and first.dtype == second.dtype
    return len(own) if is_alike and all(a == b for a, b in pairs if (a, b) not in own) else 0


def _parted(product: Region, reader: Region) -> tuple[Region, Region] | None:
    """The product of both halves of its columns as a gate, and another product that does what the reader does with
    both; None where the reader is not a map that reads both halves at its own point."""
    kernel, made = kernel_of(product, "contraction"), product.outputs[0]
    is_alone = isinstance(kernel, Contraction) and kernel.is_alone and not kernel.pair and len(product.yields) == 1
    if (
        not is_alone
        or not reader.iters
        or folds_of(reader)
        or scans_of(reader)
        or column_of(product, product.iters[-1]) is None
    ):
        return None
    axis, item = reader.iters[-1], product.yields[0]
    (half,) = (axis.size,)
    halves = (*product.iters[:-1], axis)
    if reader.iters != halves or product.iters[-1] != Axis(axis.name, 2 * half) or not half.constant:
        return None
    far = (*item.index[:-1], item.index[-1] + half)
    nodes = [n for own in (*reader.lets, *reader.yields) for n in walk(own.expr)]
    if {n.index for n in nodes if isinstance(n, Read) and n.tensor == made.name} != {item.index, far}:
        return None
    known = {let.name for let in (*product.lets, *reader.lets)}
    renamed = {let.name: free_name(f"{let.name}.high", known) for let in product.lets}

    def moved(body: Body) -> Body:
        if isinstance(body, Ref):
            return replace(body, name=renamed[body.name])
        return rebuild(body, moved)

    place = {axis.name: Expr.of(axis.name) + half}
    high = tuple(replace(v, name=renamed[v.name], expr=substitute(moved(v.expr), place)) for v in product.lets)
    value = substitute(moved(item.expr), place)
    name = free_name(f"{made.name}.high", {*known, *renamed.values()})
    own = () if isinstance(value, Ref) else (Let(name, value, item.origin),)
    value = value if isinstance(value, Ref) else Ref(name, value.dtype)

    def put(body: Body) -> Body:
        is_far = isinstance(body, Read) and body.tensor == made.name and body.index == far
        return value if is_far else rebuild(body, put)

    shape = (*made.type.shape[:-1], half)
    narrow = replace(made, type=TensorType(made.type.dtype, shape))
    gate = replace(product, iters=halves, outputs=(narrow,))
    inputs = {t.name: t for t in (*product.inputs, *reader.inputs)} | {made.name: narrow}
    other = replace(
        reader,
        inputs=tuple(inputs.values()),
        lets=(*high, *own, *(replace(let, expr=put(let.expr)) for let in reader.lets)),
        yields=tuple(replace(y, expr=put(y.expr)) for y in reader.yields),
    )
    return gate, other


def _width_of(axis: Axis) -> int:
    """Columns that are side by side: the widest blocks that divide the axis; 0 where there are none."""
    size = axis.size.constant or 1
    return next((width for width in WIDTHS if size % width == 0), 0)


def _with_gate(gate: Region, reader: Region) -> Region | None:
    """The reader with the values of the gate in the place of what it reads of it; None where that is at other points,
    or values have the same names."""
    (item,), (made,) = gate.yields, gate.outputs
    nodes = [n for own in (*reader.lets, *reader.yields) for n in walk(own.expr)]
    places = {n.index for n in nodes if isinstance(n, Read) and n.tensor == made.name}
    if places != {item.index} or item.guard or {v.name for v in gate.lets} & {v.name for v in reader.lets}:
        return None
    name = free_name(made.name, {v.name for v in (*gate.lets, *reader.lets)})
    value = item.expr if isinstance(item.expr, Ref) else Ref(name, item.expr.dtype)
    own = () if isinstance(item.expr, Ref) else (Let(name, item.expr, item.origin),)

    def put(body: Body) -> Body:
        return value if isinstance(body, Read) and body.tensor == made.name else rebuild(body, put)

    known = {t.name: t for t in (*gate.inputs, *reader.inputs) if t.name != made.name}
    return replace(
        reader,
        inputs=tuple(known.values()),
        lets=(*gate.lets, *own, *(replace(let, expr=put(let.expr)) for let in reader.lets)),
        yields=tuple(replace(y, expr=put(y.expr)) for y in reader.yields),
    )


def _both(
    reader: Region, operands: list[tuple[Tensor, Expr]], at: int, columns: Expr, width: int, names: Names
) -> Region:
    """The region that lays out columns of two operands, each from its own on, in one matrix, in which blocks of them
    take turns."""
    tensors = [tensor for tensor, _ in operands]
    dtype, shape = tensors[0].type.dtype, tensors[0].type.shape
    iters: list[Axis] = []
    index: list[Expr] = []
    source: list[Expr] = []
    for place, size in enumerate(shape):
        if place == at:
            block, side, inner = (f"i{len(iters) + n}" for n in range(3))
            iters += [Axis(block, columns // width), Axis(side, Expr.of(2)), Axis(inner, Expr.of(width))]
            index.append(2 * width * Expr.of(block) + width * Expr.of(side) + inner)
            source.append(width * Expr.of(block) + inner)
        elif size == ONE:
            index.append(ZERO)
            source.append(ZERO)
        else:
            iters.append(Axis(f"i{len(iters)}", size))
            index.append(Expr.of(iters[-1].name))
            source.append(Expr.of(iters[-1].name))
    first, second = (
        Read(t.name, tuple(e + start if n == at else e for n, e in enumerate(source)), dtype) for t, start in operands
    )
    name = free_name(f"{reader.name}.both", names.memory | names.regions)
    made = Tensor(name, TensorType(dtype, tuple(2 * columns if n == at else size for n, size in enumerate(shape))))
    value = Select((Bound(Expr.of(side), upper=ONE),), first, second, dtype)
    item = Yield(name, tuple(index), value, (), reader.yields[0].origin)
    one = Region(name, tuple(dict.fromkeys(tensors)), (made,), tuple(iters), (), (item,), span=reader.span)
    return replace(one, analysis=analyse(one))


def _in_blocks(region: Region, axis: Axis, parts: tuple[Axis, Axis], place: Expr) -> Region:
    """The region with two axes in the place of one, which they count."""
    at, names = region.iters.index(axis), tuple(a.name for a in parts)

    def put(body: Body) -> Body:
        if not isinstance(body, BroadcastInDim):
            return rebuild(body, put)
        wide = tuple(a.name for a in region.iters) if body.axes is None else body.axes
        if axis.name not in wide:
            return replace(body, x=put(body.x))
        own = wide.index(axis.name)
        dims = tuple(n for d in body.dims for n in ((d, d + 1) if d == own else (d + (d > own),)))
        axes = None if body.axes is None else (*wide[:own], *names, *wide[own + 1 :])
        return replace(body, x=put(body.x), dims=dims, axes=axes)

    def moved(body: Body) -> Body:
        return substitute(put(body), {axis.name: place})

    return replace(
        region,
        iters=(*region.iters[:at], *parts, *region.iters[at + 1 :]),
        lets=tuple(replace(let, expr=moved(let.expr)) for let in region.lets),
        yields=tuple(
            replace(
                y,
                index=tuple(e.substitute({axis.name: place}) for e in y.index),
                expr=moved(y.expr),
                guard=tuple(b.substitute({axis.name: place}) for b in y.guard),
            )
            for y in region.yields
        ),
    )


def _exchanged(region: Region, reads: Mapping[Body, Body], made: Tensor, gone: set[str]) -> Region:
    """The region with other reads, of a tensor that takes the place of some."""

    def put(body: Body) -> Body:
        return reads[body] if body in reads else rebuild(body, put)

    lets = tuple(replace(let, expr=put(let.expr)) for let in region.lets)
    yields = tuple(replace(y, expr=put(y.expr)) for y in region.yields)
    used = {n.tensor for item in (*lets, *yields) for n in walk(item.expr) if isinstance(n, Read)}
    inputs = tuple(t for t in region.inputs if t.name not in gone or t.name in used)
    return replace(region, inputs=(*inputs, made), lets=lets, yields=yields)
