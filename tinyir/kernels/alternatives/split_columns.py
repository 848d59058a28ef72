"""Attention of few rows in two steps: many CTAs walk a chunk of the columns each, and a second kernel combines what
they found. `kernels.attention` has the algebra: sums under the maximum of a chunk are scaled to that of the row.

before: region s       for i0: H, i1: 4, i2: S      %s = reduce sum (k0: D) { mul(Q[i0, i1, k0], K[i0, i2, k0]) }
                       %m = reduce max (i2) { %s }  %e = exp2(sub(%s, %m))  %z = reduce sum (i2) { %e }
                       yield P[i0, i1, i2] = fdiv(%e, %z)
        region o       for i0: H, i1: 4, i2: D      %o = reduce sum (k0: S) { mul(P[i0, i1, k0], V[i0, k0, i2]) }
                       yield O[i0, i1, i2] = %o
after:  region s       for c0: 8, i0: H, i1: 4, i2: S/8   the same of the columns S/8*c0 + i2, but
                       yield P.part[c0, i0, i1, i2] = %e  m.part[c0, i0, i1] = %m  z.part[c0, i0, i1] = %z
        region o.part  for c0: 8, i0: H, i1: 4, i2: D     yield o.part[c0, i0, i1, i2] = %o
        region o       for i0: H, i1: 4, i2: D      %m = reduce max (c0: 8) { m.part[c0, i0, i1] }
                       %z = reduce sum (c0: 8) { mul(z.part[c0, i0, i1], exp2(sub(m.part[c0, i0, i1], %m))) }
                       %o.sum = reduce sum (c0: 8) { mul(o.part[c0, i0, i1, i2], exp2(...)) }
                       yield O[i0, i1, i2] = fdiv(%o.sum, %z)

Chunks are as many at every length, so that CTAs are as many as the card has SMs while a cache of keys grows. It is done
where the cost model finds that it is faster: where rows and heads are too few to fill the card, as where one query
meets a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ...ir.accumulate import literal, neutral_of
from ...ir.body import (
    Axis,
    Binary,
    Body,
    BroadcastInDim,
    Literal,
    Read,
    Reduce,
    Ref,
    Select,
    Ternary,
    Transpose,
    Unary,
    rebuild,
    substitute,
    walk,
)
from ...ir.expr import ZERO, Bound, Expr, Floor
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.traits import extent_of
from ...ir.types import DTYPES, TensorType
from ...kit.records import dataclass, replace
from ..attention import Streaming, streaming_of
from ..parts.point import axes_made_by, free_axes, needed
from .inline import Tangled, written_out
from .parts import Names, free_name, numbered_name, refs_of, region_of

STEPS = (128, 64)  # columns that a chunk is a multiple of: whole blocks of a CTA
LEAST_CHUNK = 64
MOST_ROWS = 64  # rows beyond which a head's rows have several CTAs
ROUNDS = (0.5, 1, 2)  # of CTAs on all SMs that are worth a try, the last where one leaves an eighth of them idle
OPEN_ROUNDS = (2,)  # where data say how many columns there are: half of the chunks may have none
Pair = tuple[Region, Region]


def parts_of(pair: Pair, sizes: Mapping[str, int], sms: int) -> tuple[int, ...]:
    """The numbers of chunks that are worth a try on a card with this number of SMs: for half a round of CTAs or a whole
    one, and for two where one leaves SMs idle; none where there are CTAs enough without. Measured on an H200, two full
    rounds are up to a fifth slower than one: what combines the chunks reads twice as many."""
    kernel = streaming_of(*pair)
    if isinstance(kernel, str) or not _is_split(kernel):
        return ()
    length, rows = (a.size.evaluate(sizes) for a in (kernel.column, kernel.row))
    heads, group = extent_of(kernel.outer).evaluate(sizes), kernel.group
    if group is not None and rows * group.size.evaluate(sizes) <= MOST_ROWS:  # they may be rows of one CTA
        rows, heads = rows * group.size.evaluate(sizes), heads // max(group.size.evaluate(sizes), 1)
    if not heads or not rows or rows > MOST_ROWS or heads >= 2 * sms:
        return ()
    most = -(-length // LEAST_CHUNK)
    found = (
        min(max(2, int(rounds * sms) // heads), most)
        for rounds in (OPEN_ROUNDS if _is_open(kernel) else ROUNDS[: 2 + (8 * (sms % heads) > sms)])
    )
    return tuple(dict.fromkeys(parts for parts in found if parts > 1))


def _is_open(kernel: Streaming) -> bool:
    """Whether integers of data, lengths perhaps, say which elements are -inf."""
    names = needed(kernel.first, (Ref(kernel.element, kernel.dtype),))
    chosen = (n for name in names for n in walk(kernel.first.let(name).expr) if isinstance(n, Ternary))
    conditions = [
        n.first for n in chosen if any(isinstance(x, Literal) and x.value == -math.inf for x in (n.second, n.third))
    ]
    lets = (kernel.first.let(name).expr for name in needed(kernel.first, conditions))
    return any(isinstance(n, Read) and n.dtype.kind in "iu" for body in (*conditions, *lets) for n in walk(body))


def _is_split(kernel: Streaming) -> bool:
    """Whether all that leaves the two regions is made of a row's sums and its maximum."""
    is_plain = kernel.summed is None and kernel.handed is None
    return bool(is_plain and kernel.top and kernel.total and not (kernel.folds or kernel.rows or kernel.writes))


def split_columns(pair: Pair, parts: int, step: int, names: Names) -> tuple[Region, Region, Region] | None:
    """The regions of two steps, the columns in this number of chunks, each a multiple of `step`; None where a value is
    moved on its way."""
    kernel = streaming_of(*pair)
    if isinstance(kernel, str) or not _is_split(kernel):
        return None
    try:
        return _Split(kernel, pair, parts, step, names).regions()
    except Tangled:
        return None


@dataclass
class _Split:
    """One split of two regions."""

    kernel: Streaming
    pair: Pair
    parts: int
    step: int
    names: Names

    def __post_init__(self) -> None:
        kernel = self.kernel
        self.first, self.second, self.dtype = kernel.first, kernel.second, kernel.dtype
        self.column, self.size = kernel.column, kernel.column.size
        self.across = Axis(numbered_name("c", self._axes() | self.names.memory), Expr.of(self.parts))
        self.chunk = self.step * self.size.ceildiv(self.step * self.parts)
        self.place = self.chunk * Expr.of(self.across.name) + self.column.name
        self.inside = () if self.chunk * self.parts == self.size else (Bound(self.place, upper=self.size),)
        # the prover of region text multiplies no axis by what depends on a symbol, and is told of the lower end
        self.least = None if self.chunk.constant else ZERO
        self.rows = tuple(a for a in self.first.iters if a.name != self.column.name)
        # axis of the first region -> of the second, 0 of one of one point that the second has not
        self.there = dict.fromkeys((a.name for a in self.rows), ZERO) | {m: Expr.of(n) for n, m in kernel.meets}
        taken = set(self.names.memory)
        self.part: dict[str, Tensor] = {}
        handed = next(t for t in self.second.inputs if t.name in {y.output for y in self.first.yields})
        self.handed = next(y for y in self.first.yields if y.output == handed.name)
        shape = (self.chunk if e.name == self.column.name else s for e, s in
                 zip(self.handed.index, handed.type.shape))  # fmt: skip
        for word, base, dims, attrs in (
            ("handed", self.handed.output, tuple(shape), handed.attrs),
            ("top", kernel.top, tuple(a.size for a in self.rows), ()),
            ("total", kernel.total, tuple(a.size for a in self.rows), ()),
            ("output", kernel.output, tuple(a.size for a in self.second.iters), ()),
        ):
            name = free_name(f"{base}.part", taken)
            taken.add(name)
            dtype = handed.type.dtype if word == "handed" else self.dtype
            self.part[word] = Tensor(name, TensorType(dtype, (self.across.size, *dims)), attrs)

    def _axes(self) -> set[str]:
        return {a.name for r in (self.first, self.second) for a in r.iters} | {
            a.name for r in (self.first, self.second) for let in r.lets for a in axes_made_by(let.expr)
        }

    def regions(self) -> tuple[Region, Region, Region]:
        """The two that walk a chunk, and the one that combines."""
        return self._scores(), self._sums(), self._combined()

    # --- the first region of a chunk

    def _scores(self) -> Region:
        kernel, dtype, origin = self.kernel, self.dtype, self.first.let(self.kernel.scores).origin
        column = self.column.name
        score = self.first.let(kernel.scores).expr
        body = rebuild(written_out(self.first, score.body), lambda side: _guarded(self._ends(side, column), side))
        lets = [Let(kernel.scores, replace(score, body=substitute(body, {column: self.place})), origin)]
        lets += [replace(let, expr=self._moved(let.expr)) for let in self._work()]
        element: Body = Ref(kernel.element, dtype)
        if self.inside:
            name = free_name(f"{kernel.scores}.in", {let.name for let in self.first.lets})
            lets.append(Let(name, Select(self.inside, element, neutral_of("max", dtype), dtype), origin))
            element = Ref(name, dtype)
        axis = (Axis(column),)
        top, total = Ref(kernel.top, dtype), Ref(kernel.total, dtype)
        lets.append(Let(kernel.top, Reduce("max", axis, element, dtype), origin))
        base = free_name(f"{kernel.top}.base", {let.name for let in self.first.lets})
        lets.append(Let(base, _base(top), origin))
        whole = replace(self.first, iters=(self.across, *self.rows_and_column()))
        own = {self.across.name, *free_axes(self.first, Ref(kernel.element, dtype))}
        axes = tuple(a.name for a in whole.iters if a.name in own)
        wide = tuple(n for n, name in enumerate(axes) if name != column)
        over = BroadcastInDim(Ref(base, dtype), wide, dtype, None if len(axes) == len(whole.iters) else axes)
        weight = _weight(kernel, element, over)
        lets.append(Let(kernel.weighed, weight, origin))
        weight = Ref(kernel.weighed, dtype)
        lets.append(Let(kernel.total, Reduce("sum", axis, weight, dtype), origin))
        handed = self.part["handed"]
        rounded = weight if handed.type.dtype == dtype else Unary("cast", weight, handed.type.dtype)
        at, rows = Expr.of(self.across.name), tuple(Expr.of(a.name) for a in self.rows)
        yields = (
            Yield(handed.name, (at, *self.handed.index), rounded, (), self.handed.origin),
            Yield(self.part["top"].name, (at, *rows), top, (), self.handed.origin),
            Yield(self.part["total"].name, (at, *rows), total, (), self.handed.origin),
        )
        return region_of(self.pair[0].name, whole, tuple(lets), yields, tuple(self.part.values()))

    def rows_and_column(self) -> tuple[Axis, ...]:
        """The first region's axes, the column having a chunk's points."""
        return tuple(Axis(a.name, self.chunk) if a.name == self.column.name else a for a in self.first.iters)

    def _work(self) -> tuple[Let, ...]:
        """The values that an element is made of, but for the scores."""
        wanted, pending = set(), [self.kernel.element]
        while pending:
            name = pending.pop()
            if name not in wanted and name != self.kernel.scores:
                wanted.add(name)
                pending += refs_of(self.first.let(name).expr)
        return tuple(let for let in self.first.lets if let.name in wanted)

    def _moved(self, body: Body) -> Body:
        """An expression of the first region at a column of the chunk: what varies along the column varies along the
        chunks too. Raises Tangled where a value is moved on its way."""

        def put(inner: Body) -> Body:
            if isinstance(inner, Transpose) or isinstance(inner, Ref) and inner.index is not None:
                raise Tangled
            if isinstance(inner, Read):
                return _guarded(self._ends(inner, self.column.name), inner)
            if not isinstance(inner, BroadcastInDim):
                return rebuild(inner, put)
            wide = inner.axes is None or self.column.name in inner.axes
            dims = tuple(d + wide for d in inner.dims)
            if self.column.name in free_axes(self.first, inner.x):
                dims = (0, *dims)
            axes = (self.across.name, *inner.axes) if inner.axes is not None and wide else inner.axes
            return replace(inner, x=put(inner.x), dims=dims, axes=axes)

        return substitute(put(body), {self.column.name: self.place})

    def _ends(self, body: Body, column: str) -> tuple[Bound, ...]:
        """What keeps the reads of an expression from going beyond what they read along an axis `column`; nothing where
        chunks end with the columns."""
        shapes = {t.name: t.type.shape for t in (*self.first.inputs, *self.second.inputs)}
        reads = (n for n in walk(body) if isinstance(n, Read) and n.tensor != self.handed.output)
        places = ((e, size) for n in reads for e, size in zip(n.index, shapes[n.tensor]) if column in e.names())
        found = (Bound(e, self.least, size) for e, size in places if not _is_remainder(e, size))
        return tuple(dict.fromkeys(found)) if self.inside else ()

    # --- the second region of a chunk

    def _sums(self) -> Region:
        kernel, second = self.kernel, self.second
        let = second.let(kernel.output)
        (axis,) = let.expr.axes
        place = self.place.substitute({self.column.name: Expr.of(axis.name)})

        def put(body: Body) -> Body:
            if isinstance(body, Read) and body.tensor == self.handed.output:
                return replace(body, tensor=self.part["handed"].name, index=(Expr.of(self.across.name), *body.index))
            return rebuild(body, put)

        def side(body: Body) -> Body:
            marked = put(body)
            if marked != body:
                return marked
            return substitute(_guarded(self._ends(body, axis.name), body), {axis.name: place})

        body = rebuild(written_out(second, let.expr.body), side)
        fold = replace(let.expr, axes=(Axis(axis.name, self.chunk),), body=body)
        part = self.part["output"]
        index = tuple(Expr.of(a.name) for a in (self.across, *second.iters))
        whole = replace(second, iters=(self.across, *second.iters))
        item = Yield(part.name, index, Ref(let.name, self.dtype), (), let.origin)
        name = free_name(f"{self.pair[1].name}.part", self.names.regions)
        return region_of(name, whole, (Let(let.name, fold, let.origin),), (item,), tuple(self.part.values()))

    # --- what combines the chunks

    def _combined(self) -> Region:
        kernel, second, dtype = self.kernel, self.second, self.dtype
        origin = second.let(kernel.output).origin
        taken = {let.name for let in second.lets}

        def name(wanted: str) -> str:
            found = free_name(wanted, taken)
            taken.add(found)
            return found

        at = Expr.of(self.across.name)
        rows = tuple(self.there[a.name] for a in self.rows)
        axes = (self.across,)
        tops, totals = (Read(self.part[word].name, (at, *rows), dtype) for word in ("top", "total"))
        sums = Read(self.part["output"].name, (at, *(Expr.of(a.name) for a in second.iters)), dtype)
        top, base, total, whole = (
            name(n) for n in (kernel.top, f"{kernel.top}.base", kernel.total, f"{kernel.output}.sum")
        )
        scale = _weight(kernel, tops, Ref(base, dtype))
        lets = [
            Let(top, Reduce("max", axes, tops, dtype), origin),
            Let(base, _base(Ref(top, dtype)), origin),
            Let(total, Reduce("sum", axes, Binary("mul", totals, scale, dtype), dtype), origin),
            Let(whole, Reduce("sum", axes, Binary("mul", sums, scale, dtype), dtype), origin),
        ]
        known = {kernel.top: Ref(top, dtype), kernel.total: Ref(total, dtype)}
        is_over = kernel.norm == "fdiv" and kernel.norm_by == Ref(kernel.total, dtype)
        if not kernel.is_guarded and not is_over:
            # the total of a row of -inf is 0 here, and NaN in the text: over 0 both are
            empty = Binary("cmpeq", Ref(top, dtype), neutral_of("max", dtype), DTYPES["bool"])
            real = name(f"{total}.real")
            lets.append(Let(real, Ternary("where", empty, literal(math.nan, dtype), Ref(total, dtype), dtype), origin))
            known[kernel.total] = Ref(real, dtype)
        own = tuple(n for n, a in enumerate(second.iters) if a.name in dict(kernel.meets))
        value: Body = Ref(whole, dtype)
        if kernel.norm:
            by = name(f"{kernel.output}.norm")
            lets.append(Let(by, self._of_row(kernel.norm_by, known), origin))
            value = Binary(kernel.norm, value, BroadcastInDim(Ref(by, dtype), own, dtype), dtype)
        if kernel.zero is not None:
            zero, truth = name(f"{kernel.output}.zero"), DTYPES["bool"]
            lets.append(Let(zero, self._of_row(kernel.zero, known), origin))
            value = Ternary("where", BroadcastInDim(Ref(zero, truth), own, truth), literal(0, dtype), value, dtype)
        kept = needed(second, (y.expr for y in second.yields))
        for let in second.lets:
            if let.name == kernel.output:
                lets.append(Let(let.name, value, let.origin))
            elif let.name in kept:
                lets.append(let)
        return region_of(self.pair[1].name, second, tuple(lets), second.yields, tuple(self.part.values()))

    def _of_row(self, body: Body, known: Mapping[str, Body]) -> Body:
        """A number of a row of the first region, in the second one's axes."""

        def put(inner: Body) -> Body:
            if isinstance(inner, Ref):
                return known[inner.name]
            return rebuild(inner, put)

        moved = substitute(written_out(self.first, body), {m: Expr.of(n) for m, n in self.there.items()})
        return put(moved)


def _base(top: Body) -> Body:
    """What is subtracted from a row's elements: its maximum, or 0 from a row of -inf."""
    lowest = neutral_of("max", top.dtype)
    is_empty = Binary("cmpeq", top, lowest, DTYPES["bool"])
    return Ternary("where", is_empty, literal(0, top.dtype), top, top.dtype)


def _weight(kernel: Streaming, element: Body, base: Body) -> Body:
    """The exponential of an element under a maximum."""
    dtype = kernel.dtype
    difference: Body = Binary("sub", element, base, dtype)
    if kernel.factor != 1:
        difference = Binary("mul", difference, Literal(kernel.factor, dtype), dtype)
    return Unary("exp2", difference, dtype)


def _is_remainder(e: Expr, size: Expr) -> bool:
    """Whether an index is the rest of a division by the size, which is inside."""
    floors = (m[0] for _, m in e.terms if len(m) == 1 and isinstance(m[0], Floor))
    return any(floor.den == size and e == floor.num - size * (floor.num // size) for floor in floors)


def _guarded(guard: tuple[Bound, ...], body: Body) -> Body:
    return Select(guard, body, literal(0, body.dtype), body.dtype) if guard else body


def ways(pair: Pair, sizes: Mapping[str, int], sms: int, names: Names) -> Iterator[tuple[Region, Region, Region]]:
    """The two regions in two steps, in each number of chunks that is worth a try."""
    for parts in parts_of(pair, sizes, sms):
        length = streaming_of(*pair).column.size.evaluate(sizes)
        step = next((s for s in STEPS if length >= s * parts), STEPS[-1])
        found = split_columns(pair, parts, step, names)
        if found is not None:
            yield found
