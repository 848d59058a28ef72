"""What the flash family needs of two regions beside what `streaming` asks: factors that the copy engine fetches in
boxes of 16-bit numbers, and a weight that is one exponential of a multiple of the first product."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.body import Axis, Body, Read
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.model import Model
from ...ir.region import Region, Tensor, Yield
from ...ir.types import DType
from ...kit.phrase import Phrase
from ..attention import Streaming, two_regions
from ..attention.score import outgrown, weight_dtype
from ..parts.boxes import MOST_DIMS, STRIDE_BYTES, at_least, multiple_of

DTYPES = ("fp16", "bf16")  # of factors
STEP = 16  # columns of a left operand that one product takes; of 16-bit numbers
WIDEST = 256  # columns of a product


@dataclass(frozen=True, slots=True)
class Box:
    """How a tensor is fetched or written in boxes: which of its dims the tile's rows lie along, the last dim having its
    columns, and where a tile begins along each dim, its own rows and columns taken off. `has_whole_rows`,
    `has_whole_columns`: what hangs over the tile's end there hangs over the tensor's, so that it is zero when fetched
    and dropped when written."""

    tensor: Tensor
    row: int
    first: tuple[Expr, ...]
    has_whole_rows: bool
    has_whole_columns: bool

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self.tensor.type.dtype

    def sides(self, rows: int, columns: int) -> tuple[Expr, ...]:
        """The box of so many rows and columns."""
        rank = self.tensor.type.rank
        return tuple(Expr.of({self.row: rows, rank - 1: columns}.get(n, 1)) for n in range(rank))

    def at(self, row: Expr, column: Expr) -> tuple[Expr, ...]:
        """Where the box of this row and column begins."""
        last = len(self.first) - 1
        return tuple(e + {self.row: row, last: column}.get(n, ZERO) for n, e in enumerate(self.first))

    @property
    def needs(self) -> tuple[Bound, ...]:
        """What must hold of the symbols for strides to be whole 16 bytes."""
        return multiple_of(self.tensor.type.shape[-1], STRIDE_BYTES // self.dtype.bytes)


@dataclass(frozen=True, slots=True)
class Flash:
    """A streaming kernel as this family computes it. `outputs` are the boxes of the second region's writes, None of one
    that is written element by element."""

    streaming: Streaming
    query: Box
    key: Box
    value: Box
    outputs: tuple[Box | None, ...]

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Those that the copy engine moves."""
        return self.query, self.key, self.value, *(o for o in self.outputs if o is not None)

    def needs(self, model: Model) -> tuple[Bound, ...]:
        """What must hold of the symbols: strides of whole 16 bytes, and an element along each axis."""
        axes = (*self.streaming.outer, self.streaming.row, self.streaming.column)
        least = (b for a in axes for b in at_least(a.size, 1, model))
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
    for what, is_there in (
        (Phrase("other folds of a row"), bool(kernel.folds)),
        (outgrown(kernel), bool(outgrown(kernel))),
    ):
        if is_there:
            raise _No(what)
    depth, width = (_only(axes, what) for axes, what in ((kernel.depth, "depth"), (kernel.width, "width")))
    if kernel.dtype.name != "fp32":
        raise _No(Phrase("scores in {dtype}", dtype=kernel.dtype))
    here = dict(kernel.meets)
    column = next(n for n, m in kernel.meets if m == kernel.column.name)
    query = _fetched(first, kernel.query, kernel.row, depth, {})
    key = _fetched(first, kernel.key, kernel.column, depth, {})
    value = _fetched(second, kernel.value, Axis(column, kernel.column.size), width, here)
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
    if not value.has_whole_rows:
        raise _No(Phrase("{tensor} goes on beyond the rows that are summed", tensor=value.tensor.name))
    deep, wide = kernel.sizes
    if deep % STEP and not (query.has_whole_columns and key.has_whole_columns):
        raise _No(
            Phrase("{deep} elements along the depth, which are not whole products, and not whole dims", deep=deep)
        )
    if max(_whole(deep), _whole(wide)) > WIDEST:
        raise _No(Phrase("a depth of {deep} and a width of {wide}", deep=deep, wide=wide))
    outputs = tuple(_output(kernel, second, item, width) for item in second.yields)
    return Flash(kernel, query, key, value, outputs)


def _only(axes: Sequence[Axis], what: str) -> Axis:
    if len(axes) != 1:
        raise _No(Phrase("a {what} of {count} axes", what=what, count=len(axes)))
    return axes[0]


def _whole(size: int) -> int:
    return -(-size // STEP) * STEP


def _fetched(region: Region, factor: Body, row: Axis, column: Axis, here: dict[str, str]) -> Box:
    if not isinstance(factor, Read):
        raise _No(Phrase("a factor that is more than a read"))
    if factor.dtype.name not in DTYPES:
        raise _No(Phrase("a factor of {dtype}", dtype=factor.dtype))
    tensor = next(t for t in region.inputs if t.name == factor.tensor)
    return _box(tensor, factor.index, row, column, here)


def _box(tensor: Tensor, index: Sequence[Expr], row: Axis, column: Axis, here: dict[str, str]) -> Box:
    """The tensor in boxes of rows along one of its dims and of columns along the last. `here` renames axes."""
    if len(index) > MOST_DIMS:
        raise _No(Phrase("{tensor} has more than {most} dims", tensor=tensor.name, most=MOST_DIMS))
    along = {axis.name: [n for n, e in enumerate(index) if axis.name in e.names()] for axis in (row, column)}
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
    first = [e - {place: row.name, len(index) - 1: column.name}.get(n, ZERO) for n, e in enumerate(index)]
    if any(name in e.names() for e in first for name in (row.name, column.name)):
        raise _No(
            Phrase(
                "{tensor} is not read element by element along {row} and {column}",
                tensor=tensor.name,
                row=row.name,
                column=column.name,
            )
        )
    whole = (first[n] == ZERO and tensor.type.shape[n] == axis.size for n, axis in ((place, row), (-1, column)))
    return Box(tensor, place, tuple(e.substitute({n: Expr.of(m) for n, m in here.items()}) for e in first), *whole)


def _output(kernel: Streaming, second: Region, item: Yield, width: Axis) -> Box | None:
    """The box by which an output leaves; None where the copy engine cannot write it."""
    there = {m: n for n, m in kernel.meets}
    tensor = next(t for t in second.outputs if t.name == item.output)
    try:
        box = _box(tensor, item.index, Axis(there[kernel.row.name], kernel.row.size), width, dict(kernel.meets))
    except _No:
        return None
    named = {n for e in item.index for n in e.names()}
    lacks = any(a.name not in named and a.size != ONE for a in second.iters)
    is_moved = box.dtype.name in DTYPES and not item.guard and box.has_whole_rows
    return None if lacks or not is_moved or not box.has_whole_columns and kernel.sizes[1] % STEP else box


__all__ = ["Box", "Flash", "STEP", "WIDEST", "flash_of", "two_regions_of_tensor_cores"]
