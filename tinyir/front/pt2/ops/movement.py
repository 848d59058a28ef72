"""Ops that only move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten

FAR = 1 << 31  # a bound beyond it is the end of the axis


@aten("view.default", "reshape.default", "_unsafe_view.default", "view_copy.default", "_reshape_copy.default",
      "reshape_as.default", "view_as.default")  # fmt: skip
def view(call: Call) -> Any:
    """Another shape: what the archive says."""
    return call.reshape(call.tensor("self"), call.shape)


@aten("flatten.using_ints", "unflatten.int", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default")
def regrouped(call: Call) -> Any:
    """Axes of size 1 gone or new, axes merged or split: the elements keep their order."""
    return call.reshape(call.tensor("self"), call.shape)


@aten("permute.default", "permute_copy.default")
def permute(call: Call) -> Any:
    """The axes in another order."""
    x = call.tensor("self")
    return call.transpose(x, [d % max(1, x.rank) for d in call.get("dims", [])])


_TURNED = ("mT.default", "mH.default", "matrix_H.default", "adjoint.default")


@aten("transpose.int", "t.default", "numpy_T.default", "swapaxes.default", *_TURNED)
def transpose(call: Call) -> Any:
    """Two axes exchanged."""
    x = call.tensor("self")
    perm = list(range(x.rank))
    if call.target == "numpy_T.default":
        return call.transpose(x, perm[::-1])
    if call.target in ("t.default", *_TURNED):
        if x.rank < 2:
            return x
        first, second = x.rank - 2, x.rank - 1
    else:
        keys = ("dim0", "dim1") if "dim0" in call.args else ("axis0", "axis1")
        first, second = (call.axis(key, x.rank) for key in keys)
    if x.rank:
        perm[first], perm[second] = second, first
    return call.transpose(x, perm)


@aten("movedim.int", "movedim.intlist")
def movedim(call: Call) -> Any:
    """Axes moved to other places; the others keep their order."""
    x = call.tensor("self")
    source, target = (call.axes(key, x.rank) or [] for key in ("source", "destination"))
    rest = iter(a for a in range(x.rank) if a not in source)
    perm = [source[target.index(a)] if a in target else next(rest) for a in range(x.rank)]
    return call.transpose(x, perm)


@aten("expand.default", "expand_copy.default", "broadcast_to.default", "expand_as.default")
def expand(call: Call) -> Any:
    """Repeated to a shape."""
    return call.expand(call.tensor("self"), call.shape)


@aten("repeat.default", "tile.default")
def repeat(call: Call) -> Any:
    """Repeated as a whole along each axis; new axes come first."""
    x, times = call.tensor("self"), list(call.get("repeats" if call.target.startswith("repeat") else "dims", []))
    times = [1] * (x.rank - len(times)) + times
    x = call.reshape(x, [*[1] * (len(times) - x.rank), *x.shape])
    return call.op("Tile", x, repeats=times)


@aten("repeat_interleave.self_int")
def repeat_interleave(call: Call) -> Any:
    """Each element repeated along an axis."""
    x, times = call.tensor("self"), call.get("repeats")
    if call.get("dim") is None:
        x = call.reshape(x, [-1])
    axis = call.axis("dim", x.rank, 0)
    wide = call.reshape(x, [*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]])
    wide = call.expand(wide, [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]])
    return call.reshape(wide, call.shape)


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_op(call: Call) -> Any:
    """x[start:end:step] along an axis."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank, 0)
    start, end, step = call.get("start", 0), call.get("end", FAR), call.get("step", 1)
    end = FAR - 1 if isinstance(end, int) and end >= FAR else end
    if start == 0 and step == 1 and (end == FAR - 1 or Expr.of(end) == x.shape[axis]):
        return x
    return call.op("Slice", x, starts=[start], ends=[end], axes=[axis], steps=None if step == 1 else [step])


@aten("narrow.default")
def narrow(call: Call) -> Any:
    """A stretch of an axis."""
    x, start = call.tensor("self"), call.get("start", 0)
    axis = call.axis("dim", x.rank)
    return call.cut(x, axis, start, Expr.of(start) + call.get("length"))


@aten("select.int", "select_copy.int")
def select(call: Call) -> Any:
    """One place of an axis, which goes."""
    x, index = call.tensor("self"), call.get("index", 0)
    axis = call.axis("dim", x.rank)
    end = FAR - 1 if index == -1 else Expr.of(index) + 1
    return call.reshape(call.cut(x, axis, index, end), call.shape)


@aten("cat.default", "concat.default", "concatenate.default")
def cat(call: Call) -> Any:
    """One after the other; an empty tensor of one axis is left out."""
    parts = [t for t in call.tensors("tensors") if not (t.rank == 1 and t.shape[0].constant == 0)]
    if not parts:
        return call.tensors("tensors")[0]
    parts = call.promoted(*parts)
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=call.axis("dim", parts[0].rank, 0))


@aten("stack.default")
def stack(call: Call) -> Any:
    """One after the other along a new axis."""
    parts = call.promoted(*call.tensors("tensors"))
    axis = call.axis("dim", parts[0].rank + 1, 0)
    wide = [call.reshape(p, [*p.shape[:axis], 1, *p.shape[axis:]]) for p in parts]
    return wide[0] if len(wide) == 1 else call.op("Concat", *wide, axis=axis)


@aten("split_with_sizes.default", "split.sizes", "split_with_sizes_copy.default")
def split_with_sizes(call: Call) -> Any:
    """Pieces of stated sizes."""
    return pieces(call, list(call.get("split_sizes", [])))


@aten("split.Tensor", "split_copy.Tensor", "chunk.default", "tensor_split.sections")
def split(call: Call) -> Any:
    """Pieces of one size; the archive says of which."""
    axis = call.axis("dim", call.tensor("self").rank, 0)
    return pieces(call, [shape[axis] for _, shape in call.types])


def pieces(call: Call, sizes: Sequence[Any]) -> Any:
    """Pieces along an axis, those that something reads."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank, 0)
    if len(sizes) == 1:
        return (x,)
    found: list[Term | None] = []
    start = Expr.of(0)
    for number, size in enumerate(sizes):
        end = start + size
        found.append(call.cut(x, axis, start, end) if call.wants(number) else None)
        start = end
    return tuple(found)


@aten("unbind.int")
def unbind(call: Call) -> Any:
    """Each place of an axis."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank, 0)
    return tuple(
        call.reshape(call.cut(x, axis, i, i + 1), shape) if call.wants(i) else None
        for i, (_, shape) in enumerate(call.types)
    )


@aten("flip.default")
def flip(call: Call) -> Any:
    """Read backwards along axes."""
    x = call.tensor("self")
    axes = call.axes("dims", x.rank)
    return call.op("Flip", x, axes=axes) if axes else x


@aten("roll.default")
def roll(call: Call) -> Any:
    """What falls off the end comes back at the front; without axes over all elements in their order."""
    x = call.tensor("self")
    shifts, axes = list(call.get("shifts", [])), call.axes("dims", x.rank)
    if axes is None:
        return call.reshape(call.op("Roll", call.reshape(x, [-1]), shifts=shifts, axes=[0]), x.shape)
    return call.op("Roll", x, shifts=shifts, axes=axes)


@aten("constant_pad_nd.default", "pad.default")
def constant_pad(call: Call) -> Any:
    """Grown at its ends, or cut where a pad is negative: the last axis comes first in the list."""
    x, pads = call.tensor("self"), list(call.get("pad", []))
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    value = call.get("value", 0)
    return padded(call, x, pads, modes.get(call.get("mode", "constant"), "constant"), value)


@aten(*(f"{kind}_pad{n}d.default" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def edge_pad(call: Call) -> Any:
    """Grown at its ends by what is there."""
    mode = "reflect" if call.target.startswith("reflection") else "edge"
    return padded(call, call.tensor("self"), list(call.get("padding", [])), mode, 0)


def padded(call: Call, x: Term, pads: Sequence[Any], mode: str, value: Any) -> Term:
    """`x` with pads as torch lists them."""
    if not any(p != 0 for p in pads):
        return x
    count = len(pads) // 2
    axes = list(range(x.rank - count, x.rank))
    before, after = pads[::2][::-1], pads[1::2][::-1]
    number = float(value) if x.dtype.is_float else value
    return call.op("Pad", x, pads=[*before, *after], axes=axes, mode=mode, value=number)


@aten("tril.default", "triu.default")
def triangle(call: Call) -> Any:
    """A triangle of the last two axes."""
    return call.op(
        "Trilu", call.tensor("self"), upper=call.target.startswith("triu"), k=call.get("diagonal", 0) or None
    )


@aten("pixel_shuffle.default")
def pixel_shuffle(call: Call) -> Any:
    """Blocks of channels become blocks of the image."""
    x, block = call.tensor("self"), call.get("upscale_factor")
    *batch, channels, height, width = x.shape
    each, n = channels // (block * block), len(batch)
    split = call.reshape(x, [*batch, each, block, block, height, width])
    turned = call.transpose(split, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return call.reshape(turned, call.shape)


@aten("pixel_unshuffle.default")
def pixel_unshuffle(call: Call) -> Any:
    """Blocks of the image become blocks of channels."""
    x, block = call.tensor("self"), call.get("downscale_factor")
    *batch, channels, height, width = x.shape
    n = len(batch)
    split = call.reshape(x, [*batch, channels, height // block, block, width // block, block])
    turned = call.transpose(split, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return call.reshape(turned, call.shape)


@aten("slice_scatter.default")
def slice_scatter(call: Call) -> Any:
    """`self` with a stretch of an axis taken from `src`."""
    x, source = call.tensor("self"), call.cast(call.tensor("src"), call.dtype)
    axis = call.axis("dim", x.rank, 0)
    start, step = Expr.of(call.get("start", 0)), call.get("step", 1)
    if start.constant is None:
        raise call.fault(Phrase("its start is a symbol"))
    start = start + x.shape[axis] if start.constant < 0 else start
    if step != 1:
        return _put_in_steps(call, x, source, axis, start, step)
    end = start + source.shape[axis]
    parts = [source]
    if start.constant != 0:
        parts.insert(0, call.cut(x, axis, 0, start))
    if end != x.shape[axis]:
        parts.append(call.cut(x, axis, end, FAR - 1))
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=axis)


def _put_in_steps(call: Call, x: Term, source: Term, axis: int, start: Expr, step: int) -> Term:
    """`source` at places of an axis that are `step` apart: each place knows which of them it is."""
    line = call.fn("sub", call.op("Iota", shape=[x.shape[axis]]), call.known(start, "i64"), part="far")
    number = call.fn("floordiv", line, step, part="number")
    count = call.known(source.shape[axis], "i64")
    is_met = call.fn("and", call.fn("equal", call.fn("mul", number, step), line), call.fn("less", number, count))
    is_met = call.fn("and", is_met, call.fn("greater_equal", line, 0), part="met")
    number = call.fn("max", call.fn("min", number, call.fn("sub", count, 1)), 0, part="number")
    spread = call.op("Gather", source, number, axis=axis)
    is_met = call.reshape(is_met, [x.shape[axis], *[1] * (x.rank - axis - 1)])
    return call.fn("where", call.expand(is_met, x.shape), spread, x)


@aten("select_scatter.default")
def select_scatter(call: Call) -> Any:
    """`self` with one place of an axis taken from `src`."""
    x = call.tensor("self")
    axis, index = call.axis("dim", x.rank), call.get("index", 0)
    if not isinstance(index, int):
        raise call.fault(Phrase("its index is a symbol"))
    start = Expr.of(index) if index >= 0 else x.shape[axis] + index
    shape = list(x.shape)
    shape[axis] = Expr.of(1)
    parts = [call.reshape(call.cast(call.tensor("src"), call.dtype), shape)]
    if start.constant != 0:
        parts.insert(0, call.cut(x, axis, 0, start))
    if start + 1 != x.shape[axis]:
        parts.append(call.cut(x, axis, start + 1, FAR - 1))
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=axis)


@aten("copy.default")
def copy(call: Call) -> Any:
    """`src` in the shape and dtype of `self`."""
    return call.expand(call.cast(call.tensor("src"), call.dtype), call.shape)


@aten("diagonal.default", "diagonal_copy.default", "linalg_diagonal.default")
def diagonal(call: Call) -> Any:
    """The elements of two axes, the first ones or (linalg) the last ones, whose places are `offset` apart, along a new
    last axis."""
    is_last = "A" in call.args
    x, offset = call.tensor("A" if is_last else "self"), call.get("offset", 0)
    rows, columns = (call.axis(key, x.rank, n - 2 * is_last) for n, key in enumerate(("dim1", "dim2")))
    others = [a for a in range(x.rank) if a not in (rows, columns)]
    turned = call.transpose(x, [*others, rows, columns])
    height, width = (x.shape[a].constant for a in (rows, columns))
    if height is None or width is None:
        raise call.fault(Phrase("its sizes are symbols"))
    down, along = max(0, -offset), max(0, offset)
    count = max(0, min(height - down, width - along))
    places = (down + np.arange(count)) * width + along + np.arange(count)
    flat = call.reshape(turned, [*(x.shape[a] for a in others), height * width])
    return call.op("Gather", flat, call.known(places, "i64"), axis=len(others))


@aten("as_strided.default", "as_strided_copy.default")
def as_strided(call: Call) -> Any:
    """Elements by strides over memory, where the operand's elements are one piece of it, in whatever order of its axes:
    the same elements in the same order are a view, others are read at computed places."""
    x = call.tensor("self")
    sizes, strides = list(call.get("size", [])), list(call.get("stride", []))
    placed, first = call.strides("self") or ([], 0)
    start = call.get("storage_offset", first)
    if any(Expr.of(s).constant is None for s in (*sizes, *strides, *x.shape, start)):
        raise call.fault(Phrase("its sizes are symbols"))
    x, start = _in_memory(call, x, placed), start - first
    step, is_view = 1, start == 0
    for size, stride in zip(reversed(sizes), reversed(strides)):
        is_view = is_view and (size == 1 or stride == step)
        step *= size
    total = 1
    for size in x.shape:
        total *= size.constant or 0
    if is_view and step == total:
        return call.reshape(x, sizes)
    ends = [start + sum(f((s - 1) * t, 0) for s, t in zip(sizes, strides)) for f in (min, max)]
    if min(sizes, default=1) and not 0 <= ends[0] <= ends[1] < total:
        raise call.fault(Phrase("it reads what is beside its operand in memory"))
    place: Any = call.known(start, "i64")
    for axis, (size, stride) in enumerate(zip(sizes, strides)):
        line = call.fn("mul", call.op("Iota", shape=[size], part="line"), stride)
        place = call.fn("add", place, call.reshape(line, [size, *[1] * (len(sizes) - axis - 1)]))
    return call.op("Gather", call.reshape(x, [-1]), call.expand(place, sizes), axis=0)


def _in_memory(call: Call, x: Term, strides: Sequence[int]) -> Term:
    """A tensor with its axes in the order of memory, which these strides say. Raises Refused (E0144) where its elements
    are not one piece."""
    sizes = [size.constant or 0 for size in x.shape]
    wide = [a for a, size in enumerate(sizes) if strides and size != 1]
    order, step = sorted(wide, key=lambda a: -strides[a]), 1
    for axis in reversed(order):
        if step != strides[axis]:
            raise call.fault(Phrase("its operand is not one piece of memory"))
        step *= sizes[axis]
    return x if order == wide else call.transpose(x, [*(a for a in range(x.rank) if a not in wide), *order])
