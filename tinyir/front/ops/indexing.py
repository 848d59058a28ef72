"""Ops whose places are values: Gather, GatherElements, Scatter, OneHot, Embedding. Negative indices count from the end;
one out of range reads 0, and an update there is dropped (spec section 16)."""

from __future__ import annotations

from ...ir.expr import ZERO, Expr
from ...ir.rules import product
from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Literal, Operand, Ref
from .contraction import tensor
from .movement import axis_of
from .sinking import Sunk, is_sparse
from .table import Attr, Attrs, front_op


def check_constant(index: Ref, size: Expr, axis: int) -> None:
    """E1020 for a constant index that is out of range."""
    if index.op != "CONST" or size.constant is None:
        return
    pending = [dict(index.attrs)["value"]]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(item)
        elif isinstance(item, (int, float)) and not -size.constant <= item < size.constant:
            raise refuse("E1020", index=int(item), axis=axis, size=size, low=-size.constant, high=size.constant - 1)


def _operands(operands: tuple[Operand, ...], op: str) -> list[Ref]:
    refs = [tensor(o, op, i) for i, o in enumerate(operands)]
    if not refs[1].dtype.is_integer:
        raise refuse("E1002", fault=Phrase("{op} takes integer indices, not {dtype}", op=op, dtype=refs[1].dtype))
    return refs


@front_op("Gather", inputs=2, attrs=[Attr("axis", "int", 0)])
def gather(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """`x` read along `axis` at an index tensor, whose axes take the place of that axis. A negative index counts from
    the end, and one that is out of range reads 0."""
    if isinstance(operands[1], Literal):
        operands = (operands[0], b.const(operands[1].value, DTYPES["i64"]))
    x, index = _operands(operands, "Gather")
    axis = axis_of(attrs.axis, x.rank)
    check_constant(index, x.shape[axis], axis)
    return b.emit("GATHER", x, index, axis=axis)


@front_op("Embedding", inputs=2)
def embedding(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Rows of a table [V, D] at an index tensor. A negative index counts from the end, and one that is out of range
    reads 0."""
    table, index = _operands(operands, "Embedding")
    if table.rank != 2:
        raise refuse("E1012", op="Embedding", tensor=table.called, given=table.type, wanted=2)
    check_constant(index, table.shape[0], 0)
    return b.emit("GATHER", table, index, axis=0)


def _places(b: Builder, x: Ref, index: Ref, axis: int) -> tuple[Ref, Ref]:
    """The row-major place in x of each element of `index`, which counts along `axis` and is itself along the
    others, the number of elements of x where the index is out of range; and whether it is inside."""
    i64 = DTYPES["i64"]
    wide = b.cast(index, i64)

    def k(value: Expr | int) -> Ref:
        return b.const(value, i64, index.shape)

    size, total = x.shape[axis], product(x.shape)
    counted = b.emit("WHERE", b.emit("CMPLT", wide, k(0)), b.emit("ADD", wide, k(size)), wide, part="counted")
    is_inside = b.emit(
        "AND", b.emit("NOT", b.emit("CMPLT", counted, k(0))), b.emit("CMPLT", counted, k(size)), part="inside"
    )
    found = b.emit("MUL", counted, k(product(x.shape[axis + 1 :])))
    for a in range(x.rank):
        if a != axis:
            found = b.emit("ADD", found, b.emit("MUL", b.iota(i64, index.shape, a), k(product(x.shape[a + 1 :]))))
    return b.emit("WHERE", is_inside, found, k(total), part="place"), is_inside


def _check_shapes(x: Ref, index: Ref, axis: int) -> None:
    if x.rank != index.rank:
        raise refuse("E1012", op="GatherElements", tensor=index.called, given=index.type, wanted=x.rank)
    for a, (size, most) in enumerate(zip(index.shape, x.shape)):
        if a != axis and size != most and (None in (size.constant, most.constant) or size.constant > most.constant):
            raise refuse("E1304", left=f"{x.tensor}[{a}] = {most}", right=f"{index.tensor}[{a}] = {size}")


@front_op("GatherElements", inputs=2, attrs=[Attr("axis", "int", 0)])
def gather_elements(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """For each element of an index tensor of x's rank, the element of x at that index along `axis` and at its own place
    along the others. A negative index counts from the end, and one that is out of range reads 0."""
    x, index = _operands(operands, "GatherElements")
    axis = axis_of(attrs.axis, x.rank)
    _check_shapes(x, index, axis)
    check_constant(index, x.shape[axis], axis)
    if is_sparse(x, index.shape, axis):
        place, is_inside = _places(b, x, index, axis)
        found = Sunk(b, place, index.shape, axis).picked(x)
        return b.emit("WHERE", is_inside, found, b.const(0, x.dtype, index.shape))
    return elements_at(b, x, index, axis)


def elements_at(b: Builder, x: Ref, index: Ref, axis: int) -> Ref:
    """For each element of an index the element of x at that index along `axis`, and at its own place along the
    others."""
    return b.emit("GATHER", b.reshape(x, [product(x.shape)]), _places(b, x, index, axis)[0], axis=0)


_REDUCTIONS = {"none": "UPDATE", "add": "SUM", "mul": "PROD", "max": "MAX", "min": "MIN"}


@front_op(
    "Scatter", inputs=3, attrs=[Attr("axis", "int", 0), Attr("reduction", "word", "none", words=tuple(_REDUCTIONS))]
)
def scatter(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """A copy of x in which each element of `updates` is put, added, multiplied, or kept if greater or less, at its
    index along `axis` and at its own place along the others. A negative index counts from the end; an update at one
    that is out of range is left out."""
    x, index, update = _operands(operands, "Scatter")
    axis = axis_of(attrs.axis, x.rank)
    _check_shapes(x, index, axis)
    if update.shape != index.shape:
        raise refuse("E1304", left=f"{index.tensor} = {index.type}", right=f"{update.tensor} = {update.type}")
    check_constant(index, x.shape[axis], axis)
    if ZERO in index.shape:
        return x
    flat = b.reshape(x, [product(x.shape)])
    places = b.reshape(_places(b, x, index, axis)[0], [product(index.shape)])
    updates = b.reshape(b.cast(update, x.dtype), [product(index.shape)])
    return b.reshape(b.emit("SCATTER", flat, places, updates, axis=0, op=_REDUCTIONS[attrs.reduction]), x.shape)


@front_op(
    "OneHot",
    inputs=1,
    attrs=[
        Attr("depth", "dim"),
        Attr("axis", "int", -1),
        Attr("on", "number", 1),
        Attr("off", "number", 0),
        Attr("dtype", "dtype", DTYPES["fp32"]),
    ],
)
def one_hot(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """A new axis of size `depth` with `on` at the index and `off` elsewhere; all `off` where the index is out of
    range."""
    index = tensor(operands[0], "OneHot", 0)
    axis = axis_of(attrs.axis, index.rank + 1)
    shape = (*index.shape[:axis], attrs.depth, *index.shape[axis:])
    i64 = DTYPES["i64"]
    wide = b.cast(index, i64)
    counted = b.emit(
        "WHERE",
        b.emit("CMPLT", wide, b.const(0, i64, wide.shape)),
        b.emit("ADD", wide, b.const(attrs.depth, i64, wide.shape)),
        wide,
    )
    is_there = b.emit(
        "CMPEQ", b.spread(counted, shape, [a for a in range(len(shape)) if a != axis]), b.iota(i64, shape, axis)
    )
    return b.emit("WHERE", is_there, b.const(attrs.on, attrs.dtype, shape), b.const(attrs.off, attrs.dtype, shape))
