"""Ops whose index is a tuple: the last axis of the index tensor lists places along the first axes of the operand.
GatherND, ScatterND."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, Expr
from ...ir.rules import product
from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref
from .contraction import tensor
from .indexing import check_constant
from .table import Attr, Attrs, front_op


def _depth(index: Ref, op: str, room: int) -> int:
    """How many axes a tuple names."""
    if not index.dtype.is_integer:
        raise refuse("E1002", fault=Phrase("{op} takes integer indices, not {dtype}", op=op, dtype=index.dtype))
    if index.rank < 1 or index.shape[-1].constant is None or not index.shape[-1].constant <= room:
        raise refuse(
            "E1012",
            op=op,
            tensor=index.called,
            given=index.type,
            wanted=Phrase("1 or more, the last of a known size up to {room}", room=room),
        )
    return index.shape[-1].constant


def _places(b: Builder, index: Ref, sizes: tuple[Expr, ...]) -> Ref:
    """For each tuple its row-major place among `sizes`, negative indices counted from the end; the number of all places
    when one of them is out of range."""
    i64 = DTYPES["i64"]
    shape = index.shape[:-1]
    wide = b.cast(index, i64)
    total = product(sizes)

    def k(value: Expr | int) -> Ref:
        return b.const(value, i64, shape)

    found, is_inside = k(0), None
    for at, size in enumerate(sizes):
        cut = b.shrink(wide, [ZERO] * len(shape) + [Expr.of(at)], [*shape, Expr.of(at + 1)])
        place = b.reshape(cut, shape)
        counted = b.emit("WHERE", b.emit("CMPLT", place, k(0)), b.emit("ADD", place, k(size)), place, part="counted")
        inside = b.emit(
            "AND", b.emit("NOT", b.emit("CMPLT", counted, k(0))), b.emit("CMPLT", counted, k(size)), part="inside"
        )
        is_inside = inside if is_inside is None else b.emit("AND", is_inside, inside)
        found = b.emit("ADD", found, b.emit("MUL", counted, k(product(sizes[at + 1 :]))))
    return found if is_inside is None else b.emit("WHERE", is_inside, found, k(total), part="place")


@front_op("GatherND", inputs=2, attrs=[Attr("batch", "int", 0, low=0)])
def gather_nd(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The elements, or slices, of x at tuples of indices; with `batch` the first `batch` axes of both go together."""
    x, index = (tensor(o, "GatherND", i) for i, o in enumerate(operands))
    batch = attrs.batch
    if batch >= min(x.rank, index.rank):
        raise refuse("E1006", axis=batch, rank=min(x.rank, index.rank))
    depth = _depth(index, "GatherND", x.rank - batch)
    if x.shape[:batch] != index.shape[:batch]:
        raise refuse("E1304", left=f"{x.tensor} = {x.type}", right=f"{index.tensor} = {index.type}")
    sizes, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    if depth == 1 and not batch:
        check_constant(index, sizes[0], 0)
    places = _places(b, index, sizes)
    if batch:
        whole, i64 = product(x.shape[:batch]), DTYPES["i64"]
        each = product(sizes)
        own = b.iota(i64, (whole,), 0)
        start = b.reshape(b.emit("MUL", own, b.const(each, i64, own.shape)), x.shape[:batch])
        is_outside = b.emit("CMPEQ", places, b.const(each, i64, places.shape))
        moved = b.emit("ADD", places, b.spread(start, places.shape, range(batch)))
        places = b.emit("WHERE", is_outside, b.const(whole * each, i64, places.shape), moved)
    flat = b.reshape(x, [product(x.shape[: batch + depth]), *rest])
    return b.emit("GATHER", flat, places, axis=0)


_REDUCTIONS = {"none": "UPDATE", "add": "SUM", "mul": "PROD", "max": "MAX", "min": "MIN"}


@front_op("ScatterND", inputs=3, attrs=[Attr("reduction", "word", "none", words=tuple(_REDUCTIONS))])
def scatter_nd(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """A copy of x in which elements, or slices, of `updates` are put, added, multiplied, or kept if greater or less, at
    tuples of indices. A negative index counts from the end; an update at one that is out of range is left out."""
    x, index, update = (tensor(o, "ScatterND", i) for i, o in enumerate(operands))
    depth = _depth(index, "ScatterND", x.rank)
    sizes, rest = x.shape[:depth], x.shape[depth:]
    if update.shape != (*index.shape[:-1], *rest):
        raise refuse("E1304", left=f"{index.tensor} = {index.type}", right=f"{update.tensor} = {update.type}")
    if ZERO in update.shape:
        return x
    count = product(index.shape[:-1])
    places = b.reshape(_places(b, index, sizes), [count])
    rows = b.reshape(b.cast(update, x.dtype), [count, *rest])
    flat = b.reshape(x, [product(sizes) if sizes else ONE, *rest])
    return b.reshape(b.emit("SCATTER", flat, places, rows, axis=0, op=_REDUCTIONS[attrs.reduction]), x.shape)
