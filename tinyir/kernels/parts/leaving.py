"""How the outputs of warpgroups leave through shared memory: in which pieces, how many of them at once."""

from __future__ import annotations

import math

from ...ir.body import Axis
from ...ir.expr import Expr
from ...ir.neighbours import ACCESS_BYTES, is_multiple
from ...ir.plan.fields import Plan, Store
from ...ir.region import Region, Tensor
from ...ir.runs import start_of
from ...ir.traits import extent_of
from ...ir.types import DType
from ...kit.numbers import Number, gcd, least, most, pick
from ...kit.records import dataclass
from ...target.arch import ARCHS
from ...target.hopper import SPANS, SWIZZLE_BYTES, WARPGROUP, WARPGROUP_ROWS
from ..family import Array
from .boxes import STAGED_DTYPES, Vector
from .sum_arrays import SUM_PAD, SUMS

STAGED_STORES = ("tma", "rows")  # through shared memory
PIECE = 16  # columns of the accumulator that a warp stores at once
STAGED = 2  # pieces of an output that a warpgroup has on their way out by the copy engine
LEAST_SWIZZLE = 32  # bytes of a row of a swizzled tile
BY_COLUMNS = "columns"  # by neighbours along the columns (`leave_in_columns`)
WIDTHS = (4, 2)  # neighbours that a thread takes at once: four words of shared memory are one access


def leave_in_columns(plan: Plan, region: Region) -> bool:
    """Whether the outputs leave so: all of them, or none."""
    return bool(region.outputs) and all(plan.store_of(t.name).by == BY_COLUMNS for t in region.outputs)


def sums_array(plan: Plan, dtype: DType, chunk: Number) -> Array:
    """A piece of each warpgroup's sums, as the output has its rows and columns."""
    rows, columns = turned(plan, (WARPGROUP_ROWS, chunk))
    return Array(SUMS, dtype, (rows, columns + SUM_PAD), plan.consumers.count if plan.consumers else 1)


@dataclass(frozen=True, slots=True)
class Beside:
    """The last axes of an output's columns, which are contiguous in all outputs, and how many neighbours a thread
    takes at once."""

    inner: tuple[Axis, ...]
    width: int


def columns_beside(region: Region, axes: tuple[Axis, ...]) -> Beside | None:
    """How outputs leave so whose columns these axes count; None where no neighbours along them are contiguous in all
    outputs."""
    tensors = {t.name: t for t in (*region.inputs, *region.outputs)}
    for first in range(len(axes)):
        inner = axes[first:]
        starts = [start_of(tensors[y.output], y.index, (inner,)) for y in region.yields]
        if None in starts or any(y.guard for y in region.yields):
            continue
        widest = max(t.type.dtype.bytes for t in tensors.values())
        width = next((w for w in WIDTHS if w * widest <= ACCESS_BYTES and _fits(inner, starts, w)), 1)
        return Beside(inner, width)
    return None


def column_stores(region: Region, axes: tuple[Axis, ...]) -> tuple[Store, ...]:
    """All outputs so, where they can leave so."""
    return tuple(Store(t.name, BY_COLUMNS) for t in region.outputs) if columns_beside(region, axes) is not None else ()


def _fits(inner: tuple[Axis, ...], starts: list[Expr], width: int) -> bool:
    """Whether this number of neighbours are never of two rows, and always one access."""
    return is_multiple(extent_of(inner), width) and all(is_multiple(at, width) for at in starts)


def staged_outputs(plan: Plan, region: Region) -> list[Tensor]:
    """The outputs that leave through shared memory, one as often as it is written."""
    return [
        t
        for t in region.outputs
        if plan.store_of(t.name).by in STAGED_STORES
        for y in region.yields
        if y.output == t.name
    ]


def leave_by_rows(plan: Plan, region: Region) -> bool:
    """Whether threads write all outputs that leave through shared memory, of which there are some."""
    return {plan.store_of(t.name).by for t in staged_outputs(plan, region)} == {"rows"}


def staged_pieces(plan: Plan, region: Region) -> int:
    """Pieces of an output that a warpgroup has in shared memory: two for the copy engine, which takes its time; threads
    read one before they write the next."""
    return 1 if leave_by_rows(plan, region) else STAGED


def turned(plan: Plan, pair: tuple) -> tuple:
    """Of a row's and a column's of the accumulator: the output's row's and column's, which a transposed product
    (`swap_ab`) exchanges."""
    return (pair[1], pair[0]) if plan.swap_ab else (pair[0], pair[1])


def vector_array(plan: Plan, vector: Vector) -> Array:
    """Where a vector of the epilogue is brought: along the side that the warpgroups share each has its part, along the
    other each the whole."""
    length = (plan.tile[0] // plan.sharers, plan.tile[1])[vector.side]
    return Array("vector", vector.body.dtype, (length,), plan.consumers.count)


def output_array(plan: Plan, region: Region, output: Tensor, sides: tuple[Number, Number]) -> Array:
    """The pieces of an output that are on their way out, each some rows and columns of the accumulator, in swizzled
    rows."""
    dtype, shape = output.type.dtype, turned(plan, sides)
    slots = staged_pieces(plan, region) * plan.consumers.count
    return Array("out", dtype, shape, slots, least(shape[1] * dtype.bytes, SWIZZLE_BYTES))


def piece_beside(plan: Plan, region: Region, taken: Number, width: int = 0) -> tuple[Number, Number]:
    """Rows and columns of a warpgroup's accumulator that leave together where this number of bytes of shared memory is
    taken: 64 rows, and as many columns as make one swizzled row of the widest output that leaves through shared memory,
    or in a transposed product, whose columns are the output's rows, 64 at most. The copy engine takes boxes of one
    size, and of a pair's results those of one block, which has `width`. Where threads write all rows (`leave_by_rows`)
    what is left of the columns leaves behind the others, and the output's rows are as long as shared memory has room
    for, since their ends are dear."""
    rows, columns = (*plan.tile, 1, 1)[:2][:: -1 if plan.swap_ab else 1]
    sizes, count = (
        [t.type.dtype.bytes for t in staged_outputs(plan, region)] or [2],
        plan.consumers.count if plan.consumers else 1,
    )
    if not leave_by_rows(plan, region):
        turned: Number = PIECE
        for several in range(2 * PIECE, WARPGROUP_ROWS + 1, PIECE):
            turned = pick(columns % several == 0, several, turned)
        return WARPGROUP_ROWS, turned if plan.swap_ab else gcd(math.gcd(SWIZZLE_BYTES // max(sizes), width), columns)
    if plan.swap_ab:
        blocks = most(1, rows // plan.sharers // WARPGROUP_ROWS)  # of a tile that no template takes there may be none
        return WARPGROUP_ROWS * blocks, least(most(1, WARPGROUP_ROWS // blocks), columns)
    one: Number = SPANS[-1] // max(sizes)
    for span in sorted(SPANS):
        one = pick(span // max(sizes) <= columns, span // max(sizes), one)
    room = (ARCHS[plan.arch].smem_per_cta - taken) // (count * WARPGROUP_ROWS * sum(sizes))
    is_wide = (one * min(sizes) == SWIZZLE_BYTES) & (2 * one <= least(columns, room))
    return WARPGROUP_ROWS, pick(is_wide, 2 * one, one)


def rows_fit(plan: Plan, dtype: DType, by: str, sides: tuple[int, int], columns: int) -> bool:
    """Whether an output leaves through shared memory in pieces of these rows and columns of an accumulator that has
    `columns`: a row of the output's is whole swizzled rows, of which the copy engine takes one; threads take as many
    elements as they are."""
    elements = sides[0 if plan.swap_ab else 1]
    row = elements * dtype.bytes
    span = min(row, SWIZZLE_BYTES)
    is_whole = span in SPANS and row % span == 0 and (row == span if by == "tma" else elements <= WARPGROUP)
    return dtype.name in STAGED_DTYPES and is_whole and sides[1] <= columns
