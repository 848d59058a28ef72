"""Ops that put elements in order: TopK."""

from __future__ import annotations

from ...ir.expr import ONE, Expr
from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref
from .contraction import tensor
from .indexing import elements_at
from .movement import axis_of, concat
from .table import Attr, Attrs, front_op

FEW = 16  # elements of an order that are found one by one


@front_op(
    "TopK",
    inputs=1,
    outputs=(1, 2),
    attrs=[Attr("k", "int", low=0), Attr("axis", "int", -1), Attr("largest", "flag", True)],
)
def top_k(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> tuple[Ref, ...]:
    """The k greatest (or least) elements along `axis`, in order, and where they are, of i64. Of equal ones the first
    comes first; NaN counts as the greatest. A few of them are found one after the other; of more each element's rank is
    counted, by comparison with all of its line: work that grows with the square of the axis."""
    x = tensor(operands[0], "TopK", 0)
    axis = axis_of(attrs.axis, x.rank)
    size = x.shape[axis]
    if not b.limits.suppose(size - attrs.k):
        raise refuse("E0107", key="k", range=Phrase("at most {size}", size=size), given=attrs.k)
    if 0 < attrs.k <= FEW and x.dtype.bits <= 32:
        return _one_by_one(b, x, axis, attrs.k, attrs.largest)
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


def _one_by_one(b: Builder, x: Ref, axis: int, k: int, is_largest: bool) -> tuple[Ref, Ref]:
    """The elements that come first as numbers of which each is greater than all that come after it: the greatest of
    them, then the greatest of those below that, and so on."""
    numbers, room = _in_order(b, x, axis, is_largest)
    least = b.const(numbers.dtype.lowest, numbers.dtype, x.shape)
    every = list(range(x.rank))
    line = tuple(ONE if a == axis else d for a, d in enumerate(x.shape))
    left, found = numbers, []
    for number in range(k):
        if number:
            before = b.spread(b.reshape(found[-1], line), x.shape, every)
            left = b.emit("WHERE", b.emit("CMPLT", numbers, before), numbers, least)
        found.append(b.reduce(left, "MAX", [axis], part=f"best{number}"))
    places = []
    for best in found:
        low = b.emit("AND", best, b.const(room - 1, best.dtype, best.shape))
        place = b.emit("SUB", b.const(room - 1, best.dtype, best.shape), low)
        places.append(b.reshape(b.cast(place, DTYPES["i64"]), line))
    index = concat(b, places, axis)
    return elements_at(b, x, index, axis), index


def _in_order(b: Builder, x: Ref, axis: int, is_largest: bool) -> tuple[Ref, int]:
    """Each element as an integer, greater where it comes before: its key, then how far it is from the end. The second
    is below the number that is given beside."""
    size = x.shape[axis].constant
    is_short = x.dtype.bits + (x.dtype.kind == "u") <= 16 and size is not None and size <= 1 << 16
    dtype, room = (DTYPES["i32"], 1 << 16) if is_short else (DTYPES["i64"], 1 << 31)
    key = b.cast(_key_of(b, x), dtype)
    key = key if is_largest else b.emit("NOT", key)
    last = b.const(room - 1, dtype, x.shape)
    from_end = b.emit("SUB", last, b.iota(dtype, x.shape, axis))
    return b.emit("ADD", b.emit("MUL", key, b.const(room, dtype, x.shape)), from_end), room


def _key_of(b: Builder, x: Ref) -> Ref:
    """An integer in the order of x: the bits of a float, of negative ones those below the sign turned around; of NaN
    the greatest, of zeros the same."""
    if not x.dtype.is_float:
        return x
    signed = DTYPES[f"i{x.dtype.bits}"]
    bits = b.emit("BITCAST", b.emit("ADD", x, b.const(0, x.dtype, x.shape)), type=type(x.type)(signed, x.shape))
    most = b.const(signed.highest, signed, x.shape)
    key = b.emit("WHERE", b.emit("CMPLT", bits, b.const(0, signed, x.shape)), b.emit("XOR", bits, most), bits)
    return b.emit("WHERE", b.emit("CMPNE", x, x), most, key)


def _comes_before(b: Builder, x: Ref, y: Ref, is_largest: bool) -> Ref:
    """Whether x comes before y."""
    less = b.emit("CMPLT", *((y, x) if is_largest else (x, y)))
    if not x.dtype.is_float:
        return less
    is_nan = b.emit("CMPNE", *((x, x) if is_largest else (y, y)))
    is_number = b.emit("CMPEQ", *((y, y) if is_largest else (x, x)))
    return b.emit("OR", less, b.emit("AND", is_nan, is_number))
