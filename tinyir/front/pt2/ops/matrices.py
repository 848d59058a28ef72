"""Diagonals, and products that are sums of products of some axes."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten
from .movement import diagonal
from .pointwise import rounded, wide


@aten("trace.default")
def trace(call: Call) -> Any:
    """The sum of the diagonal."""
    x = call.cast(call.tensor("self"), call.dtype)
    rows, columns = (call.op("Iota", shape=list(x.shape), axis=a, part="place") for a in (0, 1))
    own = call.fn("where", call.fn("equal", rows, columns), x, call.known(0, x.dtype), part="own")
    return call.op("Reduce", own, op="sum", axes=[0, 1], gives=x.dtype)


@aten("diag.default", "diag_embed.default", "diagflat.default")
def diag(call: Call) -> Any:
    """The last axis on the diagonal of a matrix; of a matrix the diagonal (diag)."""
    x, word = call.tensor("self"), call.target.partition(".")[0]
    offset = call.get("diagonal" if word == "diag" else "offset", 0)
    if word == "diag" and x.rank == 2:
        call.args = {"self": x, "offset": offset}
        return diagonal(call)
    x = call.reshape(x, [-1]) if word == "diagflat" else x
    rank = x.rank + 1
    axes = [call.axis(key, rank, own) for key, own in (("dim1", -2), ("dim2", -1))]
    offset = offset if axes[0] < axes[1] else -offset
    rows, columns = sorted(axes)
    shape = [x.shape[-1], x.shape[-1]]
    row, column = (call.op("Iota", shape=shape, axis=a, part="place") for a in (0, 1))
    wide_x = call.reshape(x, [*x.shape[:-1], 1, x.shape[-1]])
    found = call.fn("where", call.fn("equal", row, column), wide_x, call.known(0, x.dtype), part="own")
    if offset:
        pads = [0, offset, offset, 0] if offset > 0 else [-offset, 0, 0, -offset]
        found = call.op("Pad", found, pads=pads, axes=[found.rank - 2, found.rank - 1], value=0)
    others = [a for a in range(rank) if a not in (rows, columns)]
    order = [*others, rows, columns]
    return call.transpose(found, [order.index(a) for a in range(rank)])


@aten("block_diag.default")
def block_diag(call: Call) -> Any:
    """Matrices along the diagonal of one."""
    parts = [call.reshape(t, [*[1] * (2 - t.rank), *t.shape]) for t in call.promoted(*call.tensors("tensors"))]
    width, start, rows = call.shape[1], Expr.of(0), []
    for part in parts:
        end = start + part.shape[1]
        rows.append(call.op("Pad", part, pads=[start, width - end], axes=[1], value=0, part="row"))
        start = end
    return rows[0] if len(rows) == 1 else call.op("Concat", *rows, axis=0)


@aten("inner.default")
def inner(call: Call) -> Any:
    """The sum of products of the last axes; of a number its product."""
    x, y = call.tensor("self"), call.tensor("other")
    return call.fn("mul", x, y) if not x.rank or not y.rank else _summed(call, x, y, [x.rank - 1], [y.rank - 1])


@aten("tensordot.default")
def tensordot(call: Call) -> Any:
    """The sum of products of the named axes."""
    x, y = call.tensor("self"), call.tensor("other")
    return _summed(call, x, y, call.axes("dims_self", x.rank) or [], call.axes("dims_other", y.rank) or [])


def _summed(call: Call, x: Term, y: Term, of_x: list[int], of_y: list[int]) -> Term:
    """A product of matrices, whose axes of the sum are of one size, or 1."""
    sizes = [x.shape[a] if y.shape[b].constant == 1 else y.shape[b] for a, b in zip(of_x, of_y)]
    sides = []
    for term, axes in ((x, of_x), (y, of_y)):
        shape = list(term.shape)
        for axis, size in zip(axes, sizes):
            shape[axis] = size
        rest = [a for a in range(term.rank) if a not in axes]
        turned = call.transpose(call.expand(term, shape), [*rest, *axes])
        count = _product(shape[a] for a in rest)
        sides.append((call.reshape(turned, [count, _product(sizes)]), [shape[a] for a in rest]))
    (left, rows), (right, columns) = sides
    found = call.op("MatMul", left, call.transpose(right, [1, 0]), gives=call.dtype)
    return call.reshape(found, [*rows, *columns])


def _product(sizes: Any) -> Expr:
    found = Expr.of(1)
    for size in sizes:
        found = found * size
    return found


@aten("kron.default")
def kron(call: Call) -> Any:
    """Each element of one times all of the other."""
    x, y = call.promoted(call.tensor("self"), call.tensor("other"))
    rank = max(x.rank, y.rank)
    wide_x, wide_y = ([1] * (rank - t.rank) + list(t.shape) for t in (x, y))
    one = call.reshape(x, [n for size in wide_x for n in (size, 1)])
    other = call.reshape(y, [n for size in wide_y for n in (1, size)])
    return call.reshape(call.fn("and" if call.dtype.kind == "b" else "mul", one, other), call.shape)


@aten("linalg_vecdot.default")
def vecdot(call: Call) -> Any:
    """The sum of products along an axis."""
    x, y = (wide(call, t) if t.dtype.is_float else t for t in (call.tensor("x"), call.tensor("y")))
    product = call.fn("mul", x, y)
    return rounded(call, call.op("Reduce", product, op="sum", axes=[call.axis("dim", product.rank, -1)]))


@aten("linalg_cross.default", "cross.default")
def cross(call: Call) -> Any:
    """The product of vectors in space."""
    x, y = call.promoted(call.tensor("self"), call.tensor("other"))
    x, y = (call.expand(t, call.shape) for t in (x, y))
    threes = [a for a, size in enumerate(call.shape) if size.constant == 3]
    if call.get("dim") is None and call.target.startswith("cross") and not threes:
        raise call.fault(Phrase("none of its axes has three places"))
    first = threes[0] if call.target.startswith("cross") and call.get("dim") is None else -1
    axis = call.axis("dim", x.rank, first)
    a, b = ([wide(call, t) if t.dtype.is_float else t] for t in (x, y))
    turned = [[call.op("Roll", t, shifts=[-n], axes=[axis]) for n in (1, 2)] for t in (*a, *b)]
    products = [call.fn("mul", turned[0][n], turned[1][1 - n], part=f"product{n}") for n in range(2)]
    return rounded(call, call.fn("sub", *products))


@aten("linalg_matrix_power.default", "matrix_power.default")
def matrix_power(call: Call) -> Any:
    """A matrix times itself; the power must be known and not below 0."""
    x, power = call.tensor("self"), call.get("n", 1)
    if not isinstance(power, int) or power < 0:
        raise call.fault(Phrase("its power is {power}", power=power))
    if power == 0:
        rows, columns = (call.op("Iota", shape=list(x.shape), axis=x.rank - n, part="place") for n in (2, 1))
        return call.cast(call.fn("equal", rows, columns), x.dtype)
    found, square = None, x
    while power:
        if power & 1:
            found = square if found is None else call.op("MatMul", found, square, gives=x.dtype)
        power >>= 1
        square = call.op("MatMul", square, square, gives=x.dtype) if power else square
    return found


@aten("linalg_multi_dot.default", "chain_matmul.default")
def chain(call: Call) -> Any:
    """A product of matrices in their order, whose ends may be vectors."""
    found, *others = call.tensors("tensors" if "tensors" in call.args else "matrices")
    for other in others:
        found = call.op("MatMul", found, other, gives=call.dtype)
    return found


@aten("vander.default", "linalg_vander.default")
def vander(call: Call) -> Any:
    """Powers of each element; the greatest first (vander) unless it is said otherwise."""
    x, count = call.tensor("x"), call.shape[-1]
    ones = call.expand(call.known(1, call.dtype), [*x.shape, 1])
    if count.constant is None or count.constant < 2:
        return call.expand(ones, call.shape)
    base = call.expand(call.reshape(call.cast(x, call.dtype), [*x.shape, 1]), [*x.shape, count - 1])
    found = call.op("CumProd", call.op("Concat", ones, base, axis=x.rank), axis=x.rank, gives=call.dtype)
    is_first_greatest = call.target.startswith("vander") and not call.get("increasing", False)
    return call.op("Flip", found, axes=[x.rank]) if is_first_greatest else found


@aten("bilinear.default")
def bilinear(call: Call) -> Any:
    """The sum of products of a vector, a matrix for each output, and another vector."""
    x, y, weight = (call.tensor(key) for key in ("input1", "input2", "weight"))
    rows = [call.reshape(t, [_product(t.shape[:-1]), t.shape[-1]]) for t in (x, y)]
    half = call.op("Einsum", rows[0], weight, equation="bi,oij->boj")
    found = call.reshape(call.op("Einsum", half, rows[1], equation="boj,bj->bo"), call.shape)
    bias = call.optional("bias")
    return rounded(call, found if bias is None else call.fn("add", found, call.cast(bias, found.dtype)))


@aten("_trilinear.default")
def trilinear(call: Call) -> Any:
    """The sum along axes of the products of three tensors, to each of which axes of 1 are added."""
    product = None
    for number in "123":
        x = wide(call, call.tensor(f"i{number}"))
        for axis in sorted(call.args.get(f"expand{number}") or []):
            x = call.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]])
        product = x if product is None else call.fn("mul", product, x)
    assert product is not None
    axes = call.axes("sumdim", product.rank)
    return rounded(call, product if axes is None else call.op("Reduce", product, op="sum", axes=axes))
