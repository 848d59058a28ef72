"""What the flash family needs of two regions beside what the rule asks: factors of 16 bits that the copy engine fetches
in boxes. `attention.score` says what a score is.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence

from ...ir.body import Axis, Body, Gather, Literal, Read, Select
from ...ir.expr import ONE, ZERO, Bound, Expr, Floor
from ...ir.model import Model
from ...ir.region import Region, Tensor, Yield
from ...ir.traits import axes_of
from ...ir.types import DType
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from ..attention import Streaming, two_regions
from ..attention.ahead import MOST, outer_of, reads_ahead, reads_beside
from ..attention.score import outgrown, score_of, weight_dtype
from ..parts.boxes import MOST_DIMS, STRIDE_BYTES, at_least, joined_dims, multiple_of
from .pages import Page, page_of

DTYPES = ("fp16", "bf16")  # of factors
WHOLE = ("fp32", "bool")  # of what scores meet in tiles, where each thread reads its own elements
STEP = 16  # columns of a left operand that one product takes; of 16-bit numbers
WIDEST = 256  # columns of a product
TILE = 64  # rows of a warpgroup


@dataclass(frozen=True, slots=True)
class Box:
    """How a tensor is fetched or written in boxes: which of its dims the tile's rows run along, the last dim having its
    columns, and where a tile begins along each dim, its own rows and columns taken off. `has_whole_rows`,
    `has_whole_columns`: what hangs over the tile's end there hangs over the tensor's, so that it is zero when fetched
    and dropped when written. Of packed rows `each` run along the dim `inner`, one after another. With a
    `page`, `first` has the block's first column in it. `shape` is how the engine sees the tensor: dims that one axis
    counts through are one."""

    tensor: Tensor
    shape: tuple[Expr, ...]
    row: int
    first: tuple[Expr, ...]
    has_whole_rows: bool
    has_whole_columns: bool
    inner: int = -1
    each: int = 1
    page: Page | None = None

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self.tensor.type.dtype

    def sides(self, rows: int, columns: int) -> tuple[Expr, ...]:
        """The box with this number of rows and columns."""
        rank = len(self.shape)
        along = {self.row: rows // self.each, rank - 1: columns} | ({self.inner: self.each} if self.inner >= 0 else {})
        return tuple(Expr.of(along.get(n, 1)) for n in range(rank))

    def at(self, row: Expr, column: Expr) -> tuple[Expr, ...]:
        """Where the box of this row and column begins."""
        last = len(self.first) - 1
        if self.page is not None:
            return tuple(
                e.substitute({self.page.column: row}) + (column if n == last else 0) for n, e in enumerate(self.first)
            )
        return tuple(e + {self.row: row, last: column}.get(n, ZERO) for n, e in enumerate(self.first))

    @property
    def needs(self) -> tuple[Bound, ...]:
        """What must hold of the symbols for strides to be whole 16 bytes."""
        return multiple_of(self.shape[-1], STRIDE_BYTES // self.dtype.bytes)

    @property
    def dims(self) -> tuple[Expr, ...]:
        """Those that the engine sees, where they are not the tensor's own."""
        return () if self.shape == self.tensor.type.shape else self.shape


@dataclass(frozen=True, slots=True)
class Packed:
    """Two axes as the rows of a tile: row r is the point r // each of `major` and r % each of `minor`. `each` is a
    power of two, so that a box has whole rows of it."""

    major: Axis
    minor: Axis
    each: int

    @property
    def rows(self) -> int:
        """Rows up to the last that counts."""
        return self.major.size.constant * self.each


@dataclass(frozen=True, slots=True)
class Flash:
    """A streaming kernel as this family computes it. `outputs` are the boxes of the second region's writes, None of one
    that is written element by element. `block`: what the columns of a block must divide, so that none has values beyond
    the last column; 0 where the tensor ends there. `packed`: the query heads of a group as rows beside the queries.
    `tiles` are the reads of the work on scores that the engine may fetch, each with its box."""

    streaming: Streaming
    query: Box
    key: Box
    value: Box
    outputs: tuple[Box | None, ...]
    block: int
    packed: Packed | None
    tiles: tuple[tuple[Read, Box], ...] = ()

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes that no row has."""
        outer, group = outer_of(self.streaming), self.streaming.group
        return tuple(a for a in outer if a != group) if self.packed else outer

    @property
    def height(self) -> Expr:
        """Rows that a head has."""
        return Expr.of(self.packed.rows) if self.packed else self.streaming.row.size

    @property
    def fetched(self) -> dict[str, str]:
        """The tensors that the copy engine fetches, each with the axis that its tiles' rows are of."""
        streaming = self.streaming
        axes = (streaming.row, streaming.column, streaming.column)
        return {box.tensor.name: axis.name for box, axis in zip((self.query, self.key, self.value), axes)}

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Those that the copy engine moves."""
        return self.query, self.key, self.value, *(o for o in self.outputs if o is not None)

    def needs(self, model: Model) -> tuple[Bound, ...]:
        """What must hold of the symbols: strides of whole 16 bytes, and an element along each axis."""
        axes = (*self.streaming.outer, self.streaming.row, self.streaming.column)
        sizes = [a.size for a in axes] + [box.page.extent for box in self.boxes if box.page is not None]
        least = (b for size in sizes for b in at_least(size, 1, model))
        return tuple(dict.fromkeys((*(b for box in self.boxes for b in box.needs), *least)))


def two_regions_of_tensor_cores(regions: tuple[Region, ...]) -> Streaming | str:
    """The regions of a plan as one streaming kernel that this family computes, or why they are none."""
    kernel = two_regions(regions)
    found = kernel if isinstance(kernel, str) else flash_of(kernel)
    return found if isinstance(found, str) else kernel


class _No(Exception):
    """Why two regions are not this kernel."""


@functools.lru_cache(maxsize=256)
def flash_of(kernel: Streaming) -> Flash | str:
    """A streaming kernel as this family computes it, or why it does not, in words."""
    try:
        return _flash(kernel)
    except _No as reason:
        return str(reason)


def _flash(kernel: Streaming) -> Flash:
    first, second = kernel.first, kernel.second
    if kernel.folds:
        raise _No(Phrase("other folds of a row"))
    if outgrown(kernel):
        raise _No(outgrown(kernel))
    depth, width = (_only(axes, what) for axes, what in ((kernel.depth, "depth"), (kernel.width, "width")))
    if kernel.dtype.name != "fp32":
        raise _No(Phrase("scores in {dtype}", dtype=kernel.dtype))
    here = dict(kernel.meets)
    column = next(n for n, m in kernel.meets if m == kernel.column.name)
    query = _fetched(first, kernel.query, kernel.row, depth, {})
    packed = _packed(kernel, query)
    key = _fetched(first, kernel.key, kernel.column, depth, {})
    value = _fetched(second, kernel.value, Axis(column, kernel.column.size), width, here)
    pages = [box.page.size for box in (key, value) if box.page is not None]
    handed = weight_dtype(kernel)
    if query.dtype != key.dtype or value.dtype != handed:
        raise _No(
            Phrase(
                "factors of {dtype} and {dtype2}, and of {handed} and {dtype3}",
                dtype=query.dtype,
                dtype2=key.dtype,
                handed=handed,
                dtype3=value.dtype,
            )
        )
    block = 0 if value.has_whole_rows else math.gcd(*(c for c, _ in kernel.column.size.terms), *pages)
    block = math.gcd(block, *pages)
    if block % STEP:
        raise _No(Phrase("{tensor} goes on beyond the rows that are summed", tensor=value.tensor.name))
    deep, wide = kernel.sizes
    if deep % STEP and not (query.has_whole_columns and key.has_whole_columns):
        raise _No(
            Phrase("{deep} elements along the depth, which are not whole products, and not whole dims", deep=deep)
        )
    if max(_whole(deep), _whole(wide)) > WIDEST:
        raise _No(Phrase("a depth of {deep} and a width of {wide}", deep=deep, wide=wide))
    score = score_of(kernel)
    _check_guards(kernel, score.masks, key, value)
    told = {n for m in score.masks for e in (m.expr, m.lower, m.upper) if e is not None for n in e.names()}
    told = told.union(*(axes_of(limit.value) for limit in score.limits))
    if packed is not None and (kernel.group.name in told or any(limit.rows for limit in score.limits)):
        packed = None  # heads of a group that see other columns are no rows of one tile
    outputs = tuple(None if packed else _output(kernel, second, item, width) for item in second.yields)
    if packed is not None:
        first_of = tuple(e - (kernel.group.name if kernel.group.name in e.names() else 0) for e in query.first)
        major, minor = (_dim_of(axis, kernel) for axis in (packed.major, packed.minor))
        query = replace(query, row=major, inner=minor, each=packed.each, first=first_of)
    taken = [box.tensor.name for box in (query, key, value)]
    tiles = () if packed else tuple(_tiles(kernel, taken))
    return Flash(kernel, query, key, value, outputs, block, packed, tiles)


def _tiles(kernel: Streaming, taken: Sequence[str]) -> Iterator[tuple[Read, Box]]:
    """Reads of tensors that have the scores' rows and columns (`attention.ahead`), each at one place: those that
    registers may hold first."""
    ahead, names = reads_ahead(kernel), [*taken, *(read.tensor for read in reads_beside(kernel))]
    others = (read for read in reads_beside(kernel) if read not in ahead and read.dtype.name in WHOLE)
    for read in (*ahead, *others)[:MOST]:
        tensor = next(t for t in kernel.first.inputs if t.name == read.tensor)
        is_one = names.count(read.tensor) == 1 and read.dtype.name in (*DTYPES, *WHOLE)
        if is_one and kernel.row.name in axes_of(read):
            with contextlib.suppress(_No):
                yield read, _box(tensor, read.index, kernel.row, kernel.column, {})


def _packed(kernel: Streaming, query: Box) -> Packed | None:
    """The group beside the row as the rows of one tile; None where there is none, or where they are too many."""
    group, row = kernel.group, kernel.row
    if (
        query.dims
        or group is None
        or group.size.constant is None
        or row.size.constant is None
        or query.row != _dim_of(row, kernel)
    ):
        return None
    dim = _dim_of(group, kernel)
    index = kernel.query.index[dim] if dim is not None else ZERO
    if dim in (None, query.row, query.tensor.type.rank - 1) or group.name in (index - group.name).names():
        return None
    major, minor = (group, row) if dim < query.row else (row, group)
    each = 1 << (minor.size.constant - 1).bit_length()
    return Packed(major, minor, each) if 0 < major.size.constant * each <= TILE else None


def _dim_of(axis: Axis, kernel: Streaming) -> int | None:
    """The one dim of the query that an axis runs along."""
    dims = [n for n, e in enumerate(kernel.query.index) if axis.name in e.names()]
    return dims[0] if len(dims) == 1 else None


def _only(axes: Sequence[Axis], what: str) -> Axis:
    if len(axes) != 1:
        raise _No(Phrase("a {what} of {count} axes", what=what, count=len(axes)))
    return axes[0]


def _whole(size: int) -> int:
    return -(-size // STEP) * STEP


def _fetched(region: Region, factor: Body, row: Axis, column: Axis, here: dict[str, str]) -> Box:
    read = factor.then if isinstance(factor, Select) else factor
    if isinstance(read, Gather):
        return _paged(region, read, row, column, here)
    if not isinstance(read, Read):
        raise _No(Phrase("a factor that is more than a read"))
    if read.dtype.name not in DTYPES:
        raise _No(Phrase("a factor of {dtype}", dtype=read.dtype))
    tensor = next(t for t in region.inputs if t.name == read.tensor)
    if isinstance(factor, Select) and not _is_zero_outside(factor, tensor, read):
        raise _No(Phrase("a factor that is more than a read"))
    return _box(tensor, read.index, row, column, here)


def _paged(region: Region, gather: Gather, row: Axis, column: Axis, here: dict[str, str]) -> Box:
    """The box of a block of columns that is in a page."""
    found = page_of(gather, row, here)
    if isinstance(found, str):
        raise _No(found)
    (page, place), read = found, gather.body
    tensor, last = next(t for t in region.inputs if t.name == read.tensor), len(read.index) - 1
    if len(read.index) > MOST_DIMS or tensor.type.dtype.name not in DTYPES:
        kind = tensor.type.dtype
        raise _No(
            Phrase("{tensor} has more than {most} dims, or is {dtype}", tensor=tensor.name, most=MOST_DIMS, dtype=kind)
        )
    if read.index[last] != Expr.of(column.name) or any(column.name in e.names() for e in read.index[:last]):
        raise _No(Phrase("{tensor} does not have {column} along the last dim", tensor=tensor.name, column=column.name))
    given = {n: Expr.of(m) for n, m in here.items()} | {column.name: ZERO, gather.axis.name: ZERO}
    first = tuple(e.substitute(given) for e in read.index)
    shape = tensor.type.shape
    return Box(tensor, shape, place, first, False, shape[-1] == column.size, page=page)


def _check_guards(kernel: Streaming, masks: Sequence[Bound], key: Box, value: Box) -> None:
    """What guards a page's rows must be masked as well: the engine fetches them all the same. Raises _No."""
    there = {n: Expr.of(m) for n, m in kernel.meets}
    for factor, box, given in ((kernel.key, key, {}), (kernel.value, value, there)):
        for bound in factor.guard if box.page is not None and isinstance(factor, Select) else ():
            if not any(_says(mask, bound.substitute(given)) for mask in masks):
                raise _No(Phrase("a factor that is more than a read"))


def _says(mask: Bound, bound: Bound) -> bool:
    """Whether a mask leaves no column outside of a bound: it is that bound, or that of the place which a page's number
    is made of."""
    if mask.upper is None or bound.upper is None or mask.lower is not None:
        return False
    floors = (m[0] for _, m in bound.expr.terms if len(m) == 1 and isinstance(m[0], Floor))
    sizes = [1, *(floor.den.constant for floor in floors if floor.den.constant)]
    return any(mask.expr // size == bound.expr and mask.upper == size * bound.upper for size in sizes)


def _is_zero_outside(factor: Select, tensor: Tensor, read: Read) -> bool:
    """Whether the factor is 0 outside of the tensor and nowhere else, as the copy engine has it."""
    places = tuple(zip(read.index, tensor.type.shape))

    def holds_inside(bound: Bound) -> bool:
        low, high = bound.lower, bound.upper
        return bound.equals is None and any(
            (low is None or bound.expr - low == e) and (high is None or high - bound.expr == size - e)
            for e, size in places
        )

    return isinstance(factor.other, Literal) and factor.other.value == 0 and all(map(holds_inside, factor.guard))


def _box(tensor: Tensor, index: Sequence[Expr], row: Axis, column: Axis, here: dict[str, str]) -> Box:
    """The tensor in boxes of rows along one of its dims and of columns along the last. A row axis of one point may be
    none of its axes: its box then has rows along a dim of size 1, or along another whose other rows nobody stores.
    `here` renames axes."""
    shape, index = joined_dims(tensor.type.shape, index)
    if len(index) > MOST_DIMS:
        raise _No(Phrase("{tensor} has more than {most} dims", tensor=tensor.name, most=MOST_DIMS))
    along = {axis.name: [n for n, e in enumerate(index) if axis.name in e.names()] for axis in (row, column)}
    if not along[row.name] and row.size == ONE and len(index) > 1:
        along[row.name] = [max(range(len(index) - 1), key=lambda n: (shape[n] == ONE, n))]
    if len(along[row.name]) != 1 or along[column.name] != [len(index) - 1] or along[row.name] == along[column.name]:
        raise _No(
            Phrase(
                "{tensor} does not have {row} along one dim and {column} along the last",
                tensor=tensor.name,
                row=row.name,
                column=column.name,
            )
        )
    place = along[row.name][0]
    own = {n: name for n, name in ((place, row.name), (len(index) - 1, column.name)) if name in index[n].names()}
    first = [e - own.get(n, ZERO) for n, e in enumerate(index)]
    if any(name in e.names() for e in first for name in (row.name, column.name)):
        raise _No(
            Phrase(
                "{tensor} is not read element by element along {row} and {column}",
                tensor=tensor.name,
                row=row.name,
                column=column.name,
            )
        )
    whole = (first[n] == ZERO and shape[n] == axis.size for n, axis in ((place, row), (-1, column)))
    first = tuple(e.substitute({n: Expr.of(m) for n, m in here.items()}) for e in first)
    return Box(tensor, shape, place, first, *whole)


def _output(kernel: Streaming, second: Region, item: Yield, width: Axis) -> Box | None:
    """The box by which an output leaves; None where the copy engine cannot write it."""
    there = {m: n for n, m in kernel.meets}
    tensor = next(t for t in second.outputs if t.name == item.output)
    try:
        row = Axis(there.get(kernel.row.name, kernel.row.name), kernel.row.size)
        box = _box(tensor, item.index, row, width, dict(kernel.meets))
    except _No:
        return None
    named = {n for e in item.index for n in e.names()}
    lacks = any(a.name not in named and a.size != ONE for a in second.iters)
    is_moved = box.dtype.name in DTYPES and not item.guard and box.has_whole_rows
    return None if lacks or not is_moved or not box.has_whole_columns and kernel.sizes[1] % STEP else box
