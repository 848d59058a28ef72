"""Fourier transforms: products with the matrices of cosines and sines, which are computed from indices, so that no
table is carried."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.expr import Expr
from ...ir.types import DTYPES, DType
from .ops import Ops
from .terms import Term, known

LONGEST = 1 << 14
WIDE = DTYPES["fp64"]  # waves cancel: what is left of them must not be the rounding of what was


def fourier(
    ops: Ops, parts: Sequence[Term], axis: int, length: int, is_inverse: bool, is_one_sided: bool, scale: float = 1.0
) -> list[Term]:
    """The transform of `length` places along an axis of known length, of a real part alone or of a real and an
    imaginary one, as its two parts, multiplied by `scale`. A shorter signal is followed by zeros, a longer one is cut.
    One-sided are the places up to the middle, of the others the results (the inverse: the operands) are conjugates; the
    inverse of these is real."""
    used = length // 2 + 1 if is_inverse and is_one_sided else length
    have = parts[0].shape[axis].constant
    assert have is not None
    if have > used:
        parts = [ops.cut(p, axis, 0, used) for p in parts]
    used, rank, dtype = min(have, used), parts[0].rank, parts[0].dtype
    order = [a for a in range(rank) if a != axis] + [axis]
    parts = [ops.cast(ops.transpose(p, order), WIDE) for p in parts]
    outputs = length // 2 + 1 if is_one_sided and not is_inverse else length
    cosine, sine = _waves(ops, used, outputs, length)

    def product(part: Term, wave: Term) -> Term:
        return ops.op("MatMul", part, wave, part="product")

    if is_inverse and is_one_sided:  # each place but the first, and the middle one, counts for two
        line = known([1.0 if k == 0 or 2 * k == length else 2.0 for k in range(used)], WIDE)
        parts = [ops.fn("mul", p, line) for p in parts]
        sides = [product(parts[0], cosine)]
        if len(parts) == 2:
            sides = [ops.fn("sub", sides[0], product(parts[1], sine))]
    else:
        real, imaginary = product(parts[0], cosine), product(parts[0], sine)
        imaginary = imaginary if is_inverse else ops.fn("neg", imaginary)
        if len(parts) == 2:
            real = ops.fn("sub" if is_inverse else "add", real, product(parts[1], sine))
            imaginary = ops.fn("add", imaginary, product(parts[1], cosine))
        sides = [real, imaginary]
    back = [order.index(a) for a in range(rank)]
    return [ops.transpose(_scaled(ops, side, scale, dtype), back) for side in sides]


def _scaled(ops: Ops, side: Term, scale: float, dtype: DType) -> Term:
    return ops.cast(side if scale == 1.0 else ops.fn("mul", side, scale), dtype)


def _waves(ops: Ops, rows: int, columns: int, length: int) -> Sequence[Term]:
    """cos and sin of 2 pi i k / length, [rows, columns]; the product is reduced first, so that the angle is exact."""
    i, k = (ops.op("Iota", shape=[Expr.of(rows), Expr.of(columns)], axis=a) for a in (0, 1))
    turn = ops.fn("mod", ops.fn("mul", i, k), known(length, "i64"), part="turn")
    angle = ops.fn("mul", ops.cast(turn, WIDE), known(2 * math.pi / length, WIDE), part="angle")
    return ops.fn("cos", angle), ops.fn("sin", angle)
