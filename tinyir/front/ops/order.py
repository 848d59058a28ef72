"""Ops that put elements in order: TopK."""

from __future__ import annotations

from ...ir.expr import ONE, Expr
from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref
from .contraction import tensor
from .movement import axis_of
from .table import Attr, Attrs, front_op


@front_op(
    "TopK",
    inputs=1,
    outputs=(1, 2),
    attrs=[Attr("k", "int", low=0), Attr("axis", "int", -1), Attr("largest", "flag", True)],
)
def top_k(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> tuple[Ref, ...]:
    """The k greatest (or least) elements along `axis`, in order, and where they are, of i64. Of equal ones the first
    comes first; NaN counts as the greatest. Each element's rank is counted, by comparison with all of its line: work
    that grows with the square of the axis."""
    x = tensor(operands[0], "TopK", 0)
    axis = axis_of(attrs.axis, x.rank)
    size = x.shape[axis]
    if not b.limits.suppose(size - attrs.k):
        raise refuse("E0107", key="k", range=Phrase("at most {size}", size=size), given=attrs.k)
    i64 = DTYPES["i64"]
    pairs = (*x.shape[: axis + 1], size, *x.shape[axis + 1 :])  # an axis of the others after the element's own
    own = b.spread(x, pairs, [a for a in range(x.rank + 1) if a != axis + 1])
    other = b.spread(x, pairs, [a for a in range(x.rank + 1) if a != axis])
    before = _comes_before(b, other, own, attrs.largest)
    same = b.emit("NOT", b.emit("OR", before, _comes_before(b, own, other, attrs.largest)))
    earlier = b.emit("CMPLT", b.iota(i64, pairs, axis + 1), b.iota(i64, pairs, axis))
    ahead = b.emit("OR", before, b.emit("AND", same, earlier))
    rank = b.reduce(b.cast(ahead, i64), "SUM", [axis + 1], i64, part="rank")
    shape = tuple(Expr.of(attrs.k) if a == axis else d for a, d in enumerate(x.shape))
    wide = (*shape[: axis + 1], size, *shape[axis + 1 :])
    is_it = b.emit("CMPEQ", b.spread(rank, wide, [a for a in range(x.rank + 1) if a != axis]), b.iota(i64, wide, axis))
    index = b.reduce(b.cast(is_it, i64), "ARGMAX", [axis + 1], i64, part="index")
    lines = b.reshape(x, [*x.shape[:axis], ONE, *x.shape[axis:]])
    spread = b.emit("EXPAND", lines, type=type(x.type)(x.dtype, wide))
    return b.reduce(
        b.emit("WHERE", is_it, spread, b.const(x.dtype.lowest, x.dtype, wide)), "MAX", [axis + 1], part="value"
    ), index


def _comes_before(b: Builder, x: Ref, y: Ref, is_largest: bool) -> Ref:
    """Whether x comes before y."""
    less = b.emit("CMPLT", *((y, x) if is_largest else (x, y)))
    if not x.dtype.is_float:
        return less
    is_nan = b.emit("CMPNE", *((x, x) if is_largest else (y, y)))
    is_number = b.emit("CMPEQ", *((y, y) if is_largest else (x, x)))
    return b.emit("OR", less, b.emit("AND", is_nan, is_number))
