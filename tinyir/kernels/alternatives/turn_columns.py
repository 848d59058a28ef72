"""What turns pairs of columns of a product in the product's own kernel, which has both in one thread (`problem.Pair`):
rotary positions, and any map that reads a column and the one half a block further or before.

before: region q      for i0: M, i1: 2048       %q = reduce sum (k0: K) { mul(X[i0, k0], W[k0, i1]) }   yield q[i0, i1]
        region t      for i0: 32, i1: M, i2: 64
                      %other = where(i2 < 32, neg(q[i1, 64*i0 + i2 + 32]), q[i1, 64*i0 + i2 - 32])
                      yield t[i0, i1, i2] = add(mul(q[i1, 64*i0 + i2], C[i1, i2]), mul(%other, S[i1, i2]))
        region a      ... t[i0, i1, k0] ...
after:  region q      for i0: M, i1: 32, i2: 32
                      %q = reduce sum (k0: K) { mul(X[i0, k0], W[k0, 64*i1 + i2]) }
                      %q.high = reduce sum (k0: K) { mul(X[i0, k0], W[k0, 64*i1 + i2 + 32]) }
                      yield q[i0, 64*i1 + i2]      = add(mul(%q, C[i0, i2]), mul(neg(%q.high), S[i0, i2]))
                      yield q[i0, 64*i1 + i2 + 32] = add(mul(%q.high, C[i0, i2 + 32]), mul(%q, S[i0, i2 + 32]))
        region a      ... q[i1, 64*i0 + k0] ...

Several maps may turn columns of one product, each some blocks of them; the other columns stay, and may be read by
anything. What is turned is in the product's order of dims then, so that tiles leave as they are: who reads it reads it
there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from ...analysis.regions import analyse
from ...ir.body import (
    Axis,
    Body,
    Read,
    Ref,
    Select,
    Transpose,
    rebuild,
    substitute,
    walk,
)
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.intervals import Interval, interval_of
from ...ir.meet import met
from ...ir.present import axes_of_values
from ...ir.region import Let, Module, Region, Yield
from ...ir.traits import bodies_of, folds_of, scans_of
from ...kit.groups import lists_of
from ...kit.records import dataclass, replace
from ..problem import MOST_WIDTH, Contraction, kernel_of
from .choices import decided
from .inline import Tangled, written_out
from .parts import Names, free_name, numbered_name, refs_of, region_of
from .together import Together, Way, reading


@dataclass(frozen=True, slots=True)
class Turn:
    """What turns blocks of columns of a product, from number `first` on: a region that computes one output of the
    region `whole` alone, its axes that count blocks and columns of one, the product's axes for its others, and what it
    computes, written out."""

    whole: str
    region: Region
    first: int
    blocks: int
    heads: str
    inner: str
    rows: Mapping[str, Expr]
    value: Body


def turned_columns(module: Module) -> Iterator[Way]:
    """A way for each product whose columns a map may turn."""
    readers = lists_of(
        (tensor.name, one)
        for one in module.program.regions
        for tensor in (one.inputs if one.iters and not folds_of(one) else ())
    )
    for one in module.program.regions:
        kernel, several = kernel_of(one, "contraction"), readers.get(one.outputs[0].name, ())
        if several and isinstance(kernel, Contraction) and len(one.yields) == 1:
            at = column_of(one, kernel.right[-1])
            if at is not None and any(_width_in(r, one.outputs[0].name, at) for r in several):
                yield functools.partial(_turned, one.name)


def _turned(product: str, module: Module, names: Names) -> Together | None:
    """The module in which a product turns its own columns; None where nothing turns them."""
    one = module.program.region(product)
    kernel = kernel_of(one, "contraction")
    if not isinstance(kernel, Contraction) or not kernel.is_alone or kernel.pair or one.must_fuse:
        return None
    if len(one.yields) != 1 or len(kernel.right) != 1 or kernel.batch or one.yields[0].guard:
        return None
    made, at = one.outputs[0], column_of(one, kernel.right[0])
    inside = {b.name for b in module.program.buffers if not b.attrs}
    if at is None or made.name not in inside:
        return None
    readers = [
        (r.name, part)
        for r in module.program.regions
        if any(t.name == made.name for t in r.inputs)
        for part in _by_output(r)
        if any(t.name == made.name for t in part.inputs)
    ]
    width = next((w for _, r in readers for w in (_width_in(r, made.name, at),) if w), 0)
    size = kernel.right[0].size.constant or 1
    if not width or width > MOST_WIDTH or size % (2 * width):
        return None
    found = [_turn_of(module, whole, r, one, at, width, inside) for whole, r in readers]
    turns = [t for t in found if t is not None]
    taken = [Interval(2 * width * t.first, 2 * width * (t.first + t.blocks) - 1) for t in turns]
    rest = [r for (_, r), turn in zip(readers, found) if turn is None]
    if not turns or any(_meets(r, made.name, at, taken) for r in rest):
        return None
    try:
        product = _product(one, kernel, at, width, turns, names)
    except Tangled:
        return None
    return _without(module, one, product, turns, at, width)


def _by_output(one: Region) -> tuple[Region, ...]:
    """A region for each output, which computes nothing else; itself where it must stay whole."""
    if len(one.yields) == 1 or one.must_fuse or len({y.output for y in one.yields}) < len(one.yields):
        return (one,)
    return tuple(region_of(one.name, one, tuple(_used(one.lets, (y,))), (y,), ()) for y in one.yields)


def column_of(one: Region, axis: Axis) -> int | None:
    """The dim of the one output that the columns' axis counts, the last; None where the output is not written as it
    is."""
    (item,), shape = one.yields, one.outputs[0].type.shape
    sizes = {a.name: a.size for a in one.iters}
    is_plain = all(e.constant == 0 and s == ONE or sizes.get(e.name or "") == s for e, s in zip(item.index, shape))
    alone = [e.name for e in item.index if e.name]
    is_plain = is_plain and len(set(alone)) == len(alone) == len(one.iters)
    return len(shape) - 1 if is_plain and item.index[-1].name == axis.name else None


def _width_in(reader: Region, name: str, at: int) -> int:
    """How far apart the columns are that a map reads at a point: half a block; 0 where they are not."""
    if not reader.iters or folds_of(reader) or scans_of(reader):
        return 0
    places = {n.index[at] for body in bodies_of(reader) for n in walk(body) if isinstance(n, Read) and n.tensor == name}
    steps = {abs(c) for a in places for b in places for c in ((a - b).constant,) if c}
    size = reader.iters[-1].size.constant
    return size // 2 if size and size % 2 == 0 and size // 2 in steps and steps <= {size // 2, size} else 0


def _turn_of(
    module: Module, whole: str, reader: Region, one: Region, at: int, width: int, inside: set[str]
) -> Turn | None:
    """A reader as a map that turns columns of a product; None where it is none."""
    name = one.outputs[0].name
    if _width_in(reader, name, at) != width or len(reader.yields) != 1 or reader.must_fuse or reader.yields[0].guard:
        return None
    (item,), inner = reader.yields, reader.iters[-1]
    if item.output not in inside or sum(t.name == item.output for r in module.program.regions for t in r.outputs) > 1:
        return None
    if not all(e.name or e.constant == 0 for e in item.index) or {e.name for e in item.index if e.name} != {
        a.name for a in reader.iters
    }:
        return None
    reads = {n for body in bodies_of(reader) for n in walk(body) if isinstance(n, Read) and n.tensor == name}
    base = min(reads, key=lambda n: abs(n.index[at].offset - 0) if n.index[at].offset % (2 * width) == 0 else 1 << 60)
    rest = base.index[at] - inner.name
    heads = next((a for a in reader.iters[:-1] if a.name in rest.names()), None)
    first = rest - (2 * width * Expr.of(heads.name) if heads else ZERO)
    blocks = heads.size.constant if heads else 1
    if first.constant is None or first.constant % (2 * width) or not blocks or first.constant < 0:
        return None
    rows, own = {}, {a.name for a in reader.iters} - {inner.name, heads.name if heads else ""}
    for n, (e, wanted) in enumerate(zip(base.index, one.yields[0].index)):
        if n != at and e.constant != 0:
            if e.name not in own or not wanted.name:
                return None
            rows[e.name] = wanted
    try:
        value = written_out(reader, item.expr)
    except Tangled:
        return None
    is_near = all(r.index[:at] == base.index[:at] for r in reads)
    if set(rows) != own or not is_near or any(isinstance(n, (Ref, Transpose)) for n in walk(value)):
        return None
    return Turn(
        whole, reader, first.constant // (2 * width), blocks, heads.name if heads else "", inner.name, rows, value
    )


def _meets(reader: Region, name: str, at: int, taken: Iterable[Interval]) -> bool:
    """Whether a region may read columns that are turned."""
    axes = [*reader.iters, *(a for fold in folds_of(reader) for a in fold.axes if a.size is not None)]
    ranges = {a.name: Interval(0, a.size.constant - 1 if a.size.constant else None) for a in axes}
    for node in (n for body in bodies_of(reader) for n in walk(body)):
        if isinstance(node, Read) and node.tensor == name:
            own = interval_of(node.index[at], ranges)
            for each in taken:
                if own.low is None or own.high is None or own.low <= each.high and each.low <= own.high:
                    return True
    return False


def _product(one: Region, kernel: Contraction, at: int, width: int, turns: list[Turn], names: Names) -> Region:
    """The product with both halves of its columns, each turned. Raises Tangled where values are moved on their way."""
    axis = kernel.right[0]
    taken = {a.name for a in (*one.iters, *kernel.sum) if a != axis} | names.memory
    block = numbered_name("i", taken)
    inner = numbered_name("i", taken | {block})
    parts = Axis(block, axis.size // (2 * width)), Axis(inner, Expr.of(width))
    iters = tuple(b for a in one.iters for b in (parts if a == axis else (a,)))
    order, known = tuple(a.name for a in iters), {v.name for v in one.lets}
    lets: list[Let] = []
    halves: list[Body] = []
    for half in (0, 1):
        at_half = {axis.name: 2 * width * Expr.of(block) + inner + width * half}
        renamed = {v.name: free_name(f"{v.name}.high", known) if half else v.name for v in one.lets}
        for let in one.lets:
            is_sum = let.name == kernel.value
            body = let.expr if is_sum else _with_refs(written_out(one, let.expr), renamed)
            body = _placed(body, at_half, order, axes_of_values(replace(one, iters=iters, lets=tuple(lets))))
            lets.append(replace(let, name=renamed[let.name], expr=body))
        own = one.yields[0].expr
        value = _with_refs(own if isinstance(own, Ref) else written_out(one, own), renamed)
        halves.append(substitute(value, at_half))
    item, found = one.yields[0], []
    for half in (0, 1):
        value = halves[half]
        for turn in turns[::-1]:
            own = {turn.inner: Expr.of(inner) + width * half, **turn.rows}
            own |= {turn.heads: Expr.of(block) - turn.first} if turn.heads else {}
            ranges = {inner: Interval(0, width - 1), block: Interval(0, (axis.size // (2 * width)).constant - 1)}
            body = decided(substitute(turn.value, own), ranges)
            corner = 2 * width * (Expr.of(block) if turn.heads else Expr.of(turn.first)) + inner
            body = _with_halves(body, one.outputs[0].name, at, corner, width, halves)
            guard = (Bound(Expr.of(block), Expr.of(turn.first), Expr.of(turn.first + turn.blocks)),)
            is_whole = turn.first == 0 and turn.blocks == ranges[block].high + 1
            value = body if is_whole else _chosen(guard, body, value)
        name = free_name(f"{one.name}.turned" + (".high" if half else ""), known)
        axes_of = axes_of_values(replace(one, iters=iters, lets=tuple(lets)))
        lets.append(Let(name, _placed(value, {}, order, axes_of), turns[0].region.yields[0].origin))
        known.add(name)
        place = {axis.name: 2 * width * Expr.of(block) + inner + width * half}
        index = tuple(e.substitute(place) for e in item.index)
        found.append(Yield(item.output, index, Ref(name, value.dtype), (), item.origin))
    lets = _used(lets, found)
    tensors = {t.name: t for t in (*one.inputs, *(t for turn in turns for t in turn.region.inputs))}
    used = dict.fromkeys(n.tensor for let in lets for n in walk(let.expr) if isinstance(n, Read))
    made = replace(one, inputs=tuple(tensors[t] for t in used), iters=iters, lets=tuple(lets), yields=tuple(found))
    return replace(made, analysis=analyse(made))


def _used(lets: Iterable[Let], yields: Iterable[Yield]) -> list[Let]:
    """The values that what is written needs."""
    wanted, kept = {name for y in yields for name in refs_of(y.expr)}, []
    for let in reversed(tuple(lets)):
        if let.name in wanted:
            kept.insert(0, let)
            wanted.update(refs_of(let.expr))
    return kept


def _chosen(guard: tuple[Bound, ...], body: Body, other: Body) -> Body:
    """`body` where the guard holds; two neighbours that do the same are one."""
    (bound,) = guard
    if isinstance(other, Select) and other.then == body and other.guard[0].lower == bound.upper:
        whole = (Bound(bound.expr, bound.lower, other.guard[0].upper),)
        return Select(whole, body, other.other, body.dtype)
    return Select(guard, body, other, body.dtype)


def _with_refs(body: Body, renamed: Mapping[str, str]) -> Body:
    if isinstance(body, Ref):
        return replace(body, name=renamed[body.name])
    return rebuild(body, lambda inner: _with_refs(inner, renamed))


def _with_halves(body: Body, name: str, at: int, corner: Expr, width: int, halves: list[Body]) -> Body:
    """The expression with values of the product in the place of reads of its columns, of which the first is at
    `corner`. Raises Tangled where it reads others than both halves."""
    if isinstance(body, Read) and body.tensor == name:
        half = (body.index[at] - corner).constant
        if half not in (0, width):
            raise Tangled
        return halves[half // width]
    return rebuild(body, lambda b: _with_halves(b, name, at, corner, width, halves))


def _placed(body: Body, at: Mapping[str, Expr], order: tuple[str, ...], axes_of: Mapping[str, tuple[str, ...]]) -> Body:
    """A written out expression at another point, its operands broadcast to the axes of all."""
    return met(substitute(body, at), order, axes_of)


def _without(module: Module, one: Region, found: Region, turns: list[Turn], at: int, width: int) -> Together:
    """The module with the product that turns its columns, without the maps, and with their readers reading it."""
    gone = {t.region.outputs[0].name: t for t in turns}
    regions, changed = [], [found]
    for r in module.program.regions:
        rest = tuple(y for y in r.yields if y.output not in gone)
        if not rest:
            continue
        own = r if len(rest) == len(r.yields) else region_of(r.name, r, tuple(_used(r.lets, rest)), rest, ())
        other = (
            found
            if r is one
            else reading(own, gone, one.outputs[0], lambda read: _place(read, gone[read.tensor], one, at, width))
        )
        if other is not r and other is not found:
            changed.append(other)
        regions.append(other)
    buffers = tuple(b for b in module.program.buffers if b.name not in gone)
    program = replace(module.program, buffers=buffers, regions=tuple(regions))
    names = tuple(dict.fromkeys((one.name, *(t.whole for t in turns))))
    return Together(replace(module, program=program), one.name, names, tuple(changed))


def _place(read: Read, turn: Turn, one: Region, at: int, width: int) -> tuple[Expr, ...]:
    """Where in the product an element is that a map made of it."""
    place = {e.name: value for e, value in zip(turn.region.yields[0].index, read.index) if e.name}
    back = {str(wanted): place[name] for name, wanted in turn.rows.items()}
    column = 2 * width * ((place[turn.heads] if turn.heads else ZERO) + turn.first) + place[turn.inner]
    return tuple(column if n == at else back.get(e.name or "", ZERO) for n, e in enumerate(one.yields[0].index))
