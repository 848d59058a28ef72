"""What the tiles of the synchronous template hold: each operand's factor of the product, in the narrowest dtype that
holds every value of it, which is the operand's own where the factor is a read.

    cast(A[i0, k0]) : fp32                               ->  A[i0, k0], fp16
    cast(A[i0, k0]) : fp32 where i0 < 8 else 0.0         ->  A[i0, k0] where i0 < 8 else 0.0, fp16
    mul(cast(Q[k0, i1]) : fp32, scale[k0])               ->  itself, fp32
"""

from __future__ import annotations

from ...ir.accumulate import literal
from ...ir.body import Body, Literal, Select, Unary
from ...ir.types import DType, is_exact
from ...kit.records import replace
from ..problem import Contraction


def stored_factor(kernel: Contraction, side: int) -> Body:
    """What an operand's tile holds. Arithmetic widens it again as it is taken from the tile."""
    return _narrowed(kernel.factors[side])


def tile_dtype(kernel: Contraction, side: int) -> DType:
    """The dtype of an operand's tile."""
    return stored_factor(kernel, side).dtype


def _narrowed(factor: Body) -> Body:
    """The expression without casts that lose nothing."""
    if isinstance(factor, Unary) and factor.op == "cast" and _is_held_by(factor.x.dtype, factor.dtype):
        return _narrowed(factor.x)
    if isinstance(factor, Select) and isinstance(factor.other, Literal) and factor.other.value == 0:
        inner = _narrowed(factor.then)
        return replace(factor, then=inner, other=literal(0, inner.dtype), dtype=inner.dtype)
    return factor


def _is_held_by(narrow: DType, wide: DType) -> bool:
    return narrow.kind != "b" and narrow.bits <= wide.bits and is_exact(narrow, wide)
