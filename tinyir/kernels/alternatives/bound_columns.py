"""Attention whose mask compares data of a row with data of a column: documents, segments, positions. Two small kernels
find which columns the rows of each block may see, and that of attention walks these alone.

before: region s          for i0: B, i1: S, i2: S    ... where(cmpeq(D[i0, i1], D[i0, i2]), %x, -inf)
after:  region s.rows     for i0: B, j0: ceil(S/128)
                          yield s.low[i0, j0] = reduce min (r0: 128) { D[i0, 128*j0 + r0] }   s.high[i0, j0] = ... max
        region s.columns  for i0: B, j0: ceil(S/128)
                          %seen = D[i0, n0] is within s.low[i0, j0] and s.high[i0, j0]
                          yield s.first[i0, j0] = reduce min (n0: S) { where(%seen, n0, S) }
                                s.end[i0, j0] = reduce max (n0: S) { where(%seen, n0 + 1, 0) }
        region s          ... where(i2 >= s.first[i0, floor(i1/128)], where(i2 < s.end[i0, floor(i1/128)], where(...)))

A condition that holds at a row and a column holds of the block's least or greatest datum and the column: a < b of a row
a needs low < b, a row b needs a < high, and a = b needs low <= b <= high. So a column outside of first..end is one that
the mask leaves to no row of the block, whatever order the data are in, and the mask with these two ends is the mask
itself. Integers only: NaN has no order.

The ends are those of a block of rows, of which each tile is a part: `attention.limits` makes limits of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accumulate import literal, neutral_of
from ...ir.body import (
    Axis,
    Binary,
    Body,
    BroadcastInDim,
    Index,
    Literal,
    Read,
    Reduce,
    Ref,
    Select,
    Ternary,
    Unary,
    rebuild,
    substitute,
    walk,
)
from ...ir.expr import Bound, Expr
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.traits import axes_of
from ...ir.types import DTYPES, TensorType
from ...kit.records import dataclass
from ..attention import Streaming, streaming_of
from ..attention.masks import is_nothing
from ..attention.score import score_of
from ..attention.second import inlined
from ..attention.weights import No
from ..parts.point import axes_made_by, free_axes
from .parts import Names, free_name, numbered_name, region_of

BLOCKS = (128, 192)  # rows of a block, of which tiles are parts
TRUTH, PLACE = DTYPES["bool"], DTYPES["i32"]
Three = tuple[Region, Region, Region]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of a number of the row and one of the column that must hold: that they are equal, or where `is_less`
    that one is less, the row's where `is_row_left`; with `is_not` that it is not less."""

    is_less: bool
    of_row: Body
    of_column: Body
    is_row_left: bool
    is_not: bool

    def may_hold(self, low: Body, high: Body, at: Body) -> Body:
        """Whether it may hold of a column `at` and a row within `low` and `high`."""
        under, over = _less(at, low), _less(high, at)
        if not self.is_less:
            return Binary("and", _no(under), _no(over), TRUTH)
        if self.is_row_left:
            return _no(over) if self.is_not else _less(low, at)
        return _no(under) if self.is_not else _less(at, high)


def ways(pair: tuple[Region, Region], names: Names) -> Iterator[Three]:
    """The first of two regions of attention with the ends of its columns, after the two regions that find these, for
    each number of rows that a block may have; none where no mask compares data of a row with data of a column."""
    kernel = streaming_of(*pair)
    if isinstance(kernel, str) or any(limit.rows for limit in score_of(kernel).limits):
        return
    found = next(_choices(pair[0], kernel), None)
    for rows in BLOCKS if found is not None else ():
        yield _Bounded(pair[0], kernel, *found, rows, names).regions()


def _choices(region: Region, kernel: Streaming) -> Iterator[tuple[Ternary, tuple[Compared, ...]]]:
    """The choices of -inf for a score, each with the comparisons that must hold for another number."""
    for body in (n for let in region.lets for n in walk(let.expr) if isinstance(n, Ternary) and n.op == "where"):
        if is_nothing(body.third) != is_nothing(body.second):
            try:
                parts = _parts(inlined(region, body.first), is_nothing(body.second))
            except No:
                continue
            compared = tuple(c for part in parts if (c := _compared(*part, kernel)) is not None)
            if compared:
                yield body, compared


def _parts(condition: Body, is_not: bool) -> Iterator[tuple[Body, bool]]:
    """What must hold together, or not hold, for a condition to hold, or not to."""
    if isinstance(condition, Binary) and condition.op == ("or" if is_not else "and"):
        yield from _parts(condition.left, is_not)
        yield from _parts(condition.right, is_not)
    elif isinstance(condition, Unary) and condition.op == "not":
        yield from _parts(condition.x, not is_not)
    else:
        yield condition, is_not


def _compared(body: Body, is_not: bool, kernel: Streaming) -> Compared | None:
    if not isinstance(body, Binary) or body.op not in ("cmpne" if is_not else "cmpeq", "cmplt"):
        return None
    row, column = kernel.row.name, kernel.column.name
    sides = (body.left, body.right)
    meets = [{row, column} & axes_of(side) for side in sides]
    if meets not in ([{row}, {column}], [{column}, {row}]) or any(side.dtype.kind not in "iu" for side in sides):
        return None
    if not any(isinstance(n, Read) for side in sides for n in walk(side)) or any(map(_folds, sides)):
        return None
    is_left = meets[0] == {row}
    return Compared(body.op == "cmplt", *(sides if is_left else sides[::-1]), is_left, is_not)


def _folds(body: Body) -> bool:
    return any(not isinstance(n, (Read, Index, Literal, Unary, Binary)) for n in walk(body))


@dataclass
class _Bounded:
    """One rewrite."""

    region: Region
    kernel: Streaming
    choice: Ternary
    compared: tuple[Compared, ...]
    rows: int
    names: Names

    def __post_init__(self) -> None:
        region, own = self.region, {self.kernel.row.name, self.kernel.column.name}
        met = {n for c in self.compared for side in (c.of_row, c.of_column) for n in axes_of(side)} - own
        self.outer = tuple(a for a in region.iters if a.name in met)
        taken = {a.name for a in region.iters} | {a.name for let in region.lets for a in axes_made_by(let.expr)}
        taken |= self.names.memory
        self.block = Axis(numbered_name("j", taken), self.kernel.row.size.ceildiv(self.rows))
        self.of_block = Axis(numbered_name("r", taken), Expr.of(self.rows))
        self.along = Axis(numbered_name("n", taken), self.kernel.column.size)
        self.origin = next(let.origin for let in region.lets if any(n is self.choice for n in walk(let.expr)))
        self.index = tuple(Expr.of(a.name) for a in (*self.outer, self.block))

    def regions(self) -> Three:
        """The two that find the ends, and the region of attention that has them."""
        rows, bounds = self._rows()
        columns, ends = self._columns(bounds)
        return rows, columns, self._with(ends)

    def _region(self, word: str, lets: list[Let], buffers: tuple[Tensor, ...], read: tuple[Tensor, ...] = ()) -> Region:
        """A region of the blocks of rows, each of whose last values is written to a buffer."""
        iters = (*self.outer, self.block)
        whole = Region("", (*self.region.inputs, *read), (), iters, (), (), span=self.region.span)
        name = free_name(f"{self.region.name}.{word}", self.names.regions)
        yields = tuple(
            Yield(buffer.name, self.index, Ref(let.name, let.expr.dtype), (), let.origin)
            for buffer, let in zip(buffers, lets[len(lets) - len(buffers) :])
        )
        return region_of(name, whole, tuple(lets), yields, buffers)

    def _buffers(self, *words: tuple[str, object]) -> tuple[Tensor, ...]:
        shape, taken, found = tuple(a.size for a in (*self.outer, self.block)), set(self.names.memory), []
        for word, dtype in words:
            name = free_name(f"{self.region.name}.{word}", taken)
            taken.add(name)
            found.append(Tensor(name, TensorType(dtype, shape)))
        return tuple(found)

    def _rows(self) -> tuple[Region, tuple[Tensor, ...]]:
        """The least and the greatest number of a block's rows, for each comparison."""
        place = self.rows * Expr.of(self.block.name) + self.of_block.name
        size, lets = self.kernel.row.size, []
        guard = () if (size // self.rows * self.rows) == size else (Bound(place, upper=size),)
        for number, one in enumerate(self.compared):
            body = substitute(one.of_row, {self.kernel.row.name: place})
            for word, op in (("low", "min"), ("high", "max")):
                inside = Select(guard, body, neutral_of(op, body.dtype), body.dtype) if guard else body
                fold = Reduce(op, (self.of_block,), inside, body.dtype)
                lets.append(Let(f"{word}{number}", fold, self.origin))
        buffers = self._buffers(*((let.name, let.expr.dtype) for let in lets))
        return self._region("rows", lets, buffers), buffers

    def _columns(self, bounds: tuple[Tensor, ...]) -> tuple[Region, tuple[Tensor, ...]]:
        """The first column that a block's rows may see, and the one after the last."""
        at, seen = Expr.of(self.along.name), None
        for number, one in enumerate(self.compared):
            low, high = (Read(b.name, self.index, b.type.dtype) for b in bounds[2 * number : 2 * number + 2])
            may = one.may_hold(low, high, substitute(one.of_column, {self.kernel.column.name: at}))
            seen = may if seen is None else Binary("and", seen, may, TRUTH)
        lets = []
        for word, op, place, none in (
            ("first", "min", Index(at, PLACE), Index(self.along.size, PLACE)),
            ("end", "max", Index(at + 1, PLACE), literal(0, PLACE)),
        ):
            body = Ternary("where", seen, place, none, PLACE)
            lets.append(Let(word, Reduce(op, (self.along,), body, PLACE), self.origin))
        buffers = self._buffers(("first", PLACE), ("end", PLACE))
        return self._region("columns", lets, buffers, bounds), buffers

    def _with(self, ends: tuple[Tensor, ...]) -> Region:
        """The region whose choice has the ends before it."""
        row, column = self.kernel.row.name, self.kernel.column.name
        index = (*(Expr.of(a.name) for a in self.outer), Expr.of(row) // self.rows)
        axes = free_axes(self.region, self.choice)
        here = self._spread(Index(Expr.of(column), PLACE), (column,), axes)
        of_rows = tuple(a.name for a in self.region.iters if a in self.outer or a.name == row)
        first, end = (self._spread(Read(t.name, index, PLACE), of_rows, axes) for t in ends)
        choice: Body = self.choice
        for holds in (_less(here, end), _no(_less(here, first))):
            choice = Ternary("where", holds, choice, neutral_of("max", choice.dtype), choice.dtype)

        def put(body: Body) -> Body:
            return choice if body is self.choice else rebuild(body, put)

        lets = tuple(Let(let.name, put(let.expr), let.origin) for let in self.region.lets)
        return region_of(self.region.name, self.region, lets, self.region.yields, ends)

    def _spread(self, body: Body, own: tuple[str, ...], axes: tuple[str, ...]) -> Body:
        """A number of some axes at all points of `axes`."""
        whole = None if axes == tuple(a.name for a in self.region.iters) else axes
        return BroadcastInDim(body, tuple(axes.index(name) for name in own), body.dtype, whole)


def _less(left: Body, right: Body) -> Body:
    return Binary("cmplt", left, right, TRUTH)


def _no(body: Body) -> Body:
    return Unary("not", body, TRUTH)
