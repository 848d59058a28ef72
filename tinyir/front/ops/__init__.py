"""Each op of the front ends, lowered to tiny in one place, whatever language it came in. The table is
`front.ops.table`."""

from . import (  # noqa: F401  (each file puts its rows into the table)
    attention,
    codes,
    contraction,
    einsum,
    elementwise,
    folding,
    indexing,
    movement,
    normalization,
    order,
    reduction,
    sampling,
    transposed,
    tuples,
    windows,
)
from .table import ELEMENTWISE, FRONT_OPS, Attr, Attrs, FrontOp, check_attrs

__all__ = ["ELEMENTWISE", "FRONT_OPS", "Attr", "Attrs", "FrontOp", "check_attrs"]
