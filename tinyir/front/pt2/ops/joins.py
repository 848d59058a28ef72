"""Stacks, grids and parts by other names, and places that are filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten


def _with_axes(call: Call, x: Term, rank: int) -> Term:
    """The operand with `rank` axes at least, as NumPy adds them: before a line, behind a matrix."""
    if rank == 3 and 0 < x.rank < 3:
        return call.reshape(x, [1, x.shape[0], 1] if x.rank == 1 else [*x.shape, 1])
    return call.reshape(x, [*[1] * (rank - x.rank), *x.shape])


@aten(*(f"atleast_{n}d.{o}" for n in (1, 2, 3) for o in ("default", "Sequence")))
def atleast(call: Call) -> Any:
    """With as many axes at least."""
    rank = int(call.target[8])
    if call.target.endswith("Sequence"):
        return tuple(_with_axes(call, x, rank) for x in call.tensors("tensors"))
    return _with_axes(call, call.tensor("self"), rank)


@aten("hstack.default", "vstack.default", "dstack.default", "column_stack.default")
def stacks(call: Call) -> Any:
    """One after the other, or one beside the other."""
    word = call.target.partition(".")[0]
    given = call.promoted(*call.tensors("tensors"))
    if word == "column_stack":
        parts = [t if t.rank > 1 else call.reshape(t, [-1, 1]) for t in given]
    else:
        parts = [_with_axes(call, t, {"h": 1, "v": 2, "d": 3}[word[0]]) for t in given]
    axis = {"v": 0, "d": 2, "c": 1, "h": min(1, parts[0].rank - 1)}[word[0]]
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=axis)


@aten("hsplit.int", "hsplit.array", "vsplit.int", "vsplit.array", "dsplit.int", "dsplit.array",
      "tensor_split.indices")  # fmt: skip
def splits(call: Call) -> Any:
    """Parts along an axis that the name says, of the sizes that the archive states."""
    x = call.tensor("self")
    axis = call.axis_of_parts(x.rank)
    parts = zip(call.starts(axis, x.shape[axis]), call.types)
    return tuple(
        call.cut(x, axis, start, start + shape[axis]) if call.wants(n) else None
        for n, (start, (_, shape)) in enumerate(parts)
    )


@aten("meshgrid.default", "meshgrid.indexing")
def meshgrid(call: Call) -> Any:
    """Each line spread over the axes of the others."""
    lines, found = call.tensors("tensors"), []
    is_turned = call.get("indexing", "ij") == "xy" and len(lines) > 1
    for number, (line, (_, shape)) in enumerate(zip(lines, call.types)):
        axis = 1 - number if is_turned and number < 2 else number
        wide = [line.shape[0] if a == axis and line.rank else 1 for a in range(len(lines))]
        found.append(call.expand(call.reshape(line, wide), shape))
    return tuple(found)


@aten("cartesian_prod.default")
def cartesian_prod(call: Call) -> Any:
    """Every choice of one element of each line, as rows."""
    lines, columns = call.tensors("tensors"), []
    for number, line in enumerate(lines):
        wide = call.reshape(line, [-1 if a == number else 1 for a in range(len(lines))])
        columns.append(call.expand(wide, [other.shape[0] for other in lines]))
    return lines[0] if len(lines) == 1 else call.op("Concat", *(call.reshape(c, [-1, 1]) for c in columns), axis=1)


@aten("broadcast_tensors.default")
def broadcast_tensors(call: Call) -> Any:
    """All in one shape."""
    return tuple(call.expand(x, shape) for x, (_, shape) in zip(call.tensors("tensors"), call.types))


@aten("fliplr.default", "flipud.default")
def flip_one(call: Call) -> Any:
    """Read backwards along the first axis, or the second."""
    return call.op("Flip", call.tensor("self"), axes=[int(call.target.startswith("fliplr"))])


@aten("rot90.default")
def rot90(call: Call) -> Any:
    """Turned by quarters, from the first named axis to the second."""
    x = call.tensor("self")
    first, second = call.axes("dims", x.rank) or [0, 1]
    turns = call.get("k", 1) % 4
    if turns >= 2:
        x = call.op("Flip", x, axes=[first, second] if turns == 2 else [first])
    if turns in (0, 2):
        return x
    order = list(range(x.rank))
    order[first], order[second] = second, first
    x = call.op("Flip", x, axes=[second]) if turns == 1 else x
    return call.transpose(x, order)


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(call: Call) -> Any:
    """The channels of groups, one of each group after the other."""
    x, groups = call.tensor("self"), call.get("groups")
    batch, channels, *rest = x.shape
    apart = call.reshape(x, [batch, groups, channels // groups, *rest])
    return call.reshape(call.transpose(apart, [0, 2, 1, *range(3, apart.rank)]), x.shape)


@aten("narrow.Tensor")
def narrow_at(call: Call) -> Any:
    """A stretch of an axis from a known place."""
    x, start = call.tensor("self"), call.tensor("start").known
    if start is None:
        raise call.fault(Phrase("its start is data"))
    axis = call.axis("dim", x.rank)
    first = Expr.of(int(start)) if int(start) >= 0 else x.shape[axis] + int(start)
    return call.cut(x, axis, first, first + call.get("length"))


@aten("take.default")
def take(call: Call) -> Any:
    """Elements by their place among all."""
    return call.op("Gather", call.reshape(call.tensor("self"), [-1]), call.tensor("index"), axis=0)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(call: Call) -> Any:
    """One value at places of an axis."""
    x, value = call.tensor("self"), call.operand("value")
    axis = call.axis("dim", x.rank)
    size, index = x.shape[axis] if x.rank else Expr.of(1), call.reshape(call.tensor("index"), [-1])
    index = call.cast(index, "i64")
    index = call.fn("where", call.fn("less", index, 0), call.fn("add", index, call.known(size, "i64")), index)
    places = call.op("Iota", shape=[size, 1], axis=0, part="place")
    is_named = call.op("Reduce", call.fn("equal", places, index), op="any", axes=[1], part="named")
    is_named = call.reshape(is_named, [size, *[1] * (x.rank - axis - 1)]) if x.rank else call.reshape(is_named, [])
    value = call.cast(value, x.dtype) if isinstance(value, Term) else call.known(value, x.dtype)
    return call.fn("where", call.expand(is_named, x.shape), call.expand(value, x.shape), x)


@aten("sum_to_size.default")
def sum_to_size(call: Call) -> Any:
    """The sum over what was repeated."""
    x, shape = call.cast(call.tensor("self"), call.dtype), call.shape
    lead = x.rank - len(shape)
    axes = [a for a in range(x.rank) if a < lead or shape[a - lead] != x.shape[a]]
    found = call.op("Reduce", x, op="sum", axes=axes, gives=x.dtype) if axes else x
    return call.reshape(found, shape)


@aten("affine_grid_generator.default")
def affine_grid(call: Call) -> Any:
    """The places that an affine map reads, of an image whose sides are -1 and 1: of the middles of its elements, or
    with `align_corners` of all from side to side."""
    theta, size = call.tensor("theta"), list(call.get("size", []))
    if not all(isinstance(n, int) for n in size):
        raise call.fault(Phrase("its sizes are symbols"))
    extents, is_wide = size[2:], call.get("align_corners", False)
    lines = [_line(call, n, is_wide) for n in reversed(extents)]
    count = len(extents)
    axes: Sequence[Term] = [
        call.expand(call.reshape(line, [n if a == count - 1 - number else 1 for a, n in enumerate(extents)]), extents)
        for number, line in enumerate(lines)
    ]
    places = [call.cast(call.reshape(x, [-1, 1]), theta.dtype) for x in axes]
    ones = call.expand(call.known(1.0, theta.dtype), places[0].shape)
    base = call.op("Concat", *places, ones, axis=1)
    found = call.op("MatMul", base, call.transpose(theta, [0, 2, 1]), gives=theta.dtype)
    return call.reshape(found, call.shape)


def _line(call: Call, count: int, is_wide: bool) -> Term:
    place = call.cast(call.op("Iota", shape=[count], part="place"), "fp64")
    if is_wide:
        step = 2 / (count - 1) if count > 1 else 0.0
        return call.fn("add", call.fn("mul", place, step), -1.0 if count > 1 else 0.0)
    return call.fn("add", call.fn("mul", place, 2 / count), 1 / count - 1)
