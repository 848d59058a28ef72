"""The arrays of a sum that ends in shared memory, cut by a cluster or not (`shared_sum` writes what fills them)."""

from __future__ import annotations

from ...ir.neighbours import ACCESS_BYTES
from ...ir.types import DType
from ...kit.numbers import Number, pick, uniform
from ..family import Array

SUMS, PARTS = "sums", "parts"
SUM_PAD = 4  # columns more of a CTA's sums, so that the rows of a fragment are in different banks


def share_of(rows: Number, columns: Number, parts: Number) -> tuple[Number, Number]:
    """Rows and columns of a tile that one of the CTAs ends: consecutive rows, or where there are
    fewer of them some of the columns."""
    is_whole = rows % parts == 0
    return pick(is_whole, rows // parts, rows), pick(is_whole, columns, columns // parts)


def can_end_in_parts(rows: int, columns: int, parts: int, bytes_each: int = 4) -> bool:
    """Whether the CTAs of a cluster can end a tile of sums together: its columns are dealt out evenly, and each sends
    rows of whole accesses."""
    return columns % parts == 0 and share_of(rows, columns, parts)[1] * bytes_each % ACCESS_BYTES == 0


def sum_arrays(dtype: DType, rows: Number, columns: Number, parts: Number) -> tuple[Array, ...]:
    """The CTA's tile of sums, and what the CTAs of a cluster send it of its share; rows apart by a few words more than
    they are long."""
    down, across = share_of(rows, columns, parts)
    sums = Array(SUMS, dtype, (rows, columns + SUM_PAD))
    return (sums, Array(PARTS, dtype, (down, across + SUM_PAD), parts - 1)) if uniform(parts > 1) else (sums,)
