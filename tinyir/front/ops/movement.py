"""Ops that only move: each is a chain of tiny's movement ops, and where pieces meet (Concat, Roll, Pad by copies) a
choice between them."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import ONE, ZERO, Expr
from ...ir.rules import product
from ...ir.types import DTYPES, promote
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ...kit.text import show_list
from ..builder import Builder, Operand, Ref
from .elementwise import as_ref
from .table import MANY, REQUIRED, Attr, Attrs, front_op

FAR = 1 << 30  # a slice bound beyond this is the end of the axis, as ONNX spells it


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from 0. Raises Refused (E1006)."""
    if not -rank <= axis < rank:
        raise refuse("E1006", axis=axis, rank=rank)
    return axis % rank


def axes_of(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes counted from 0, all of them for None. Raises Refused (E1006, E1007 one named twice)."""
    if axes is None:
        return tuple(range(rank))
    found = tuple(axis_of(a, rank) for a in axes)
    if len(set(found)) < len(found):
        raise refuse("E1007", axes=list(axes))
    return found


def concat(b: Builder, parts: Sequence[Ref], axis: int) -> Ref:
    """The parts one after the other along `axis`: each padded to the whole, and chosen by the index."""
    if len(parts) == 1:
        return parts[0]
    starts = [ZERO]
    for part in parts:
        starts.append(starts[-1] + part.shape[axis])
    shape = tuple(starts[-1] if a == axis else d for a, d in enumerate(parts[0].shape))
    placed = [
        b.pad(p, [(starts[i], starts[-1] - starts[i + 1]) if a == axis else (0, 0) for a in range(p.rank)])
        for i, p in enumerate(parts)
    ]
    index = b.iota(DTYPES["i64"], shape, axis)
    found = placed[-1]
    for start, part in reversed(list(zip(starts[1:-1], placed))):
        found = b.emit("WHERE", b.emit("CMPLT", index, b.const(start, DTYPES["i64"], shape)), part, found, part="join")
    return found


def cut(b: Builder, x: Ref, axis: int, low: Expr | int, high: Expr | int, step: int = 1) -> Ref:
    """`x[low:high:step]` along one axis, whose size is supposed to have room for it."""
    for fact in (low, high, x.shape[axis] - high):
        b.limits.suppose(Expr.of(fact))
    lows, highs, steps = [ZERO] * x.rank, list(x.shape), [1] * x.rank
    lows[axis], highs[axis], steps[axis] = Expr.of(low), Expr.of(high), step
    return b.shrink(x, lows, highs, steps)


@front_op("Reshape", inputs=1, attrs=[Attr("shape", "dims"), Attr("allowzero", "flag", False)])
def reshape(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Another shape of as many elements; -1 is what is left, 0 for the operand's own size there unless
    `allowzero`."""
    x = as_ref(b, operands[0])
    shape = list(attrs.shape)
    for i, size in enumerate(shape):
        if size == ZERO and not attrs.allowzero:
            if i >= x.rank:
                raise refuse("E1006", axis=i, rank=x.rank)
            shape[i] = x.shape[i]
    free = [i for i, size in enumerate(shape) if size.constant is not None and size.constant < 0]
    if len(free) == 1 and shape[free[0]].constant == -1:
        shape[free[0]] = _left(x.shape, [d for i, d in enumerate(shape) if i != free[0]])
    elif free:
        raise refuse("E1013", shape=attrs.shape)
    return b.reshape(x, shape)


def _left(have: Sequence[Expr], known: Sequence[Expr]) -> Expr:
    """The size that is left of `have` beside those that are known. A size of 0 on both sides cancels as a symbol does:
    [0, 3] as [0, -1] is [0, 3]."""
    left = list(have)
    for size in known:
        if size == ZERO:
            if ZERO not in left:
                return ZERO
            left.remove(ZERO)
    return product(left) // product([d for d in known if d != ZERO])


@front_op("Flatten", inputs=1, attrs=[Attr("axis", "int", 1)])
def flatten(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Two axes: those before `axis` merged, and the rest merged."""
    x = as_ref(b, operands[0])
    axis = attrs.axis if attrs.axis == x.rank else axis_of(attrs.axis, x.rank)
    return b.reshape(x, [product(x.shape[:axis]), product(x.shape[axis:])])


@front_op("Transpose", inputs=1, attrs=[Attr("perm", "ints", None)])
def transpose(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The axes in the order `perm` (default: reversed)."""
    x = as_ref(b, operands[0])
    perm = tuple(reversed(range(x.rank))) if attrs.perm is None else attrs.perm
    if sorted(p + x.rank if p < 0 else p for p in perm) != list(range(x.rank)):
        raise refuse("E1004", perm=list(perm), rank=x.rank)
    return b.permute(x, [p % x.rank for p in perm])


@front_op("Expand", inputs=1, attrs=[Attr("shape", "dims")])
def expand(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Repeated to the common shape of the operand and `shape`, aligned at the right; -1 keeps the operand's size."""
    x = as_ref(b, operands[0])
    missing = max(0, len(attrs.shape) - x.rank)
    own = (ONE,) * missing + x.shape
    wanted = (ONE,) * (len(own) - len(attrs.shape)) + tuple(attrs.shape)
    shape = []
    for size, want in zip(own, wanted):
        if size != want and size != ONE and want not in (ONE, Expr.of(-1)):
            raise refuse(
                "E1008",
                source=x.type,
                result=show_list(attrs.shape),
                dims=list(range(missing, len(own))),
            )
        shape.append(size if want in (ONE, Expr.of(-1)) else want)
    return b.expand(x, shape)


@front_op("Tile", inputs=1, attrs=[Attr("repeats", "dims", low=0)])
def tile(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The operand repeated as a whole, `repeats` times along each axis."""
    x = as_ref(b, operands[0])
    if len(attrs.repeats) < x.rank:
        raise refuse("E1101", what="repeats", given=len(attrs.repeats), rank=x.rank)
    own = (ONE,) * (len(attrs.repeats) - x.rank) + x.shape
    inner, wide = [], []
    for size, count in zip(own, attrs.repeats):
        inner += [size] if count == ONE else [ONE, size]
        wide += [size] if count == ONE else [count, size]
    return b.reshape(b.expand(b.reshape(x, inner), wide), [size * count for size, count in zip(own, attrs.repeats)])


@front_op("Flip", inputs=1, attrs=[Attr("axes", "ints", None)])
def flip(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Read backwards along `axes` (default: all)."""
    x = as_ref(b, operands[0])
    return b.flip(x, axes_of(attrs.axes, x.rank))


@front_op("Roll", inputs=1, attrs=[Attr("shifts", "ints"), Attr("axes", "ints")])
def roll(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Element i moves to i + shift, what falls off the end comes back at the front. An axis whose size is a symbol may
    be shorter than the shift, or have no element: its places are computed."""
    x = as_ref(b, operands[0])
    if len(attrs.shifts) != len(attrs.axes):
        raise refuse("E1101", what="shifts", given=len(attrs.shifts), rank=len(attrs.axes))
    for shift, axis in zip(attrs.shifts, (axis_of(a, x.rank) for a in attrs.axes)):
        size = x.shape[axis]
        if size.constant is None and shift:
            line = [size]
            ahead = b.emit("SUB", b.iota(DTYPES["i64"], line, 0), b.const(shift, DTYPES["i64"], line))
            x = b.emit("GATHER", x, b.emit("MOD", ahead, b.const(size, DTYPES["i64"], line), part="place"), axis=axis)
            continue
        shift = shift % size.constant if size.constant else 0
        if shift == 0:
            continue
        middle = size - shift
        x = concat(b, [cut(b, x, axis, middle, size), cut(b, x, axis, 0, middle)], axis)
    return x


@front_op("Squeeze", inputs=1, attrs=[Attr("axes", "ints", None)])
def squeeze(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Without the axes of size 1 (default: all that are)."""
    x = as_ref(b, operands[0])
    axes = [a for a, d in enumerate(x.shape) if d == ONE] if attrs.axes is None else axes_of(attrs.axes, x.rank)
    for axis in axes:
        if x.shape[axis] != ONE:
            raise refuse("E1014", axis=axis, size=x.shape[axis])
    return b.reshape(x, [d for a, d in enumerate(x.shape) if a not in axes])


@front_op("Unsqueeze", inputs=1, attrs=[Attr("axes", "ints")])
def unsqueeze(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """With an axis of size 1 at each of `axes` of the result."""
    x = as_ref(b, operands[0])
    rank = x.rank + len(attrs.axes)
    axes = axes_of(attrs.axes, rank)
    own = iter(x.shape)
    return b.reshape(x, [ONE if a in axes else next(own) for a in range(rank)])


@front_op(
    "Slice",
    inputs=1,
    attrs=[Attr("starts", "dims"), Attr("ends", "dims"), Attr("axes", "ints", None), Attr("steps", "ints", None)],
)
def slice_op(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x[start:end:step] along each of `axes` as Python has it: negative bounds count from the end, far ones are
    clamped, a negative step walks backwards. Where symbols leave open whether a bound is clamped, it is supposed not to
    be, and the signature states the range of the symbol that this takes. Raises Refused (E1106 no range says it)."""
    x = as_ref(b, operands[0])
    axes = axes_of(attrs.axes if attrs.axes is not None else range(len(attrs.starts)), x.rank)
    steps = attrs.steps if attrs.steps is not None else (1,) * len(axes)
    for what, given in (("starts", attrs.starts), ("ends", attrs.ends), ("steps", steps)):
        if len(given) != len(axes):
            raise refuse("E1101", what=what, given=len(given), rank=len(axes))
    for axis, start, end, step in zip(axes, attrs.starts, attrs.ends, steps):
        if step == 0:
            raise refuse("E1104", axis=axis, step=step)
        size = x.shape[axis]
        places = tuple(_place(b, bound, size, step < 0, axis) for bound in (start, end))
        if step < 0:
            x = b.flip(x, [axis])
        low, high = _span(b, places, size, axis, (start, end))
        x = cut(b, x, axis, low, high, abs(step))
    return x


def _place(b: Builder, bound: Expr, size: Expr, is_backward: bool, axis: int) -> Expr:
    """Where a slice's bound is, counted from the end that the slice begins at; it may be beyond either end. Raises
    Refused (E1106)."""
    limits = b.limits
    if bound.constant is not None and abs(bound.constant) >= FAR:
        return size if (bound.constant > 0) != is_backward else ZERO
    from_start, from_end = ((size - 1 - p if is_backward else p) for p in (bound, bound + size))
    if limits.shows(bound):
        return from_start
    if limits.shows(-bound - 1):
        return from_end
    settled = _settled(b, from_start, size)
    if settled is not None and settled == _settled(b, from_end, size):
        return settled
    if limits.shows(-bound) and limits.suppose(-bound - 1):
        return from_end
    if not limits.suppose(bound):
        raise _unknown(bound, size, axis)
    return from_start


def _settled(b: Builder, place: Expr, size: Expr) -> Expr | None:
    """The place clamped to 0..size, or None where that depends on symbols."""
    if b.limits.shows(place - size):
        return size
    if b.limits.shows(-place):
        return ZERO
    return place if b.limits.shows(place) and b.limits.shows(size - place) else None


def _span(b: Builder, places: tuple[Expr, Expr], size: Expr, axis: int, bounds: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """The part of an axis between two places, each clamped to 0..size. Raises Refused (E1106)."""
    limits = b.limits
    if limits.shows(places[0] - places[1]):
        low = _settled(b, places[0], size) or ZERO
        return low, low
    clamped = []
    for place, bound, is_end in zip(places, bounds, (False, True)):
        settled = _settled(b, place, size)
        if settled is None and (not limits.suppose(place) or not limits.suppose(size - place) and is_end):
            raise _unknown(bound, size, axis)
        clamped.append(place if settled is None else settled)
    low, high = clamped
    if limits.shows(low - high):
        return low, low
    limits.suppose(high - low)
    return low, high


def _unknown(bound: Expr, size: Expr, axis: int) -> Refused:
    return refuse(
        "E1106", axis=axis, size=size, bound=bound, symbols=", ".join(dict.fromkeys((*bound.names(), *size.names())))
    )


_MODES = ("constant", "reflect", "edge", "wrap")


@front_op(
    "Pad",
    inputs=1,
    attrs=[
        Attr("pads", "dims"),
        Attr("axes", "ints", None),
        Attr("mode", "word", "constant", words=_MODES),
        Attr("value", "number", 0),
    ],
)
def pad(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """`pads` lists what goes before each of `axes`, then what goes after each; a negative one takes away. What is put
    there: `value`, the mirror image without the edge itself (reflect), the edge again (edge), or the other end
    (wrap)."""
    x = as_ref(b, operands[0])
    axes = axes_of(attrs.axes, x.rank)
    if len(attrs.pads) != 2 * len(axes):
        raise refuse("E1101", what="pads", given=len(attrs.pads), rank=2 * len(axes))
    for axis, low, high in zip(axes, attrs.pads, attrs.pads[len(axes) :]):
        if attrs.mode == "constant":
            pairs = [(low, high) if a == axis else (0, 0) for a in range(x.rank)]
            for amount in (low, high, low + high):
                b.limits.suppose(x.shape[axis] + amount)
            x = b.pad(x, pairs, attrs.value)
            continue
        sizes = [low.constant, high.constant]
        if None in sizes:
            raise refuse("E1015", mode=attrs.mode, axis=axis)
        x = cut(b, x, axis, max(0, -sizes[0]), x.shape[axis] - max(0, -sizes[1]))
        x = _grown(b, x, axis, max(0, sizes[0]), max(0, sizes[1]), attrs.mode)
    return x


def _grown(b: Builder, x: Ref, axis: int, before: int, after: int, mode: str) -> Ref:
    """x between copies of its own elements. Where more is wanted than x has, its period is read round and round."""
    if not before and not after:
        return x
    size = x.shape[axis]
    if size == ZERO:
        raise refuse("E1015", mode=mode, axis=axis)
    if mode == "edge" or mode == "reflect" and size == ONE:
        ends = [
            b.expand(cut(b, x, axis, low, low + 1), [Expr.of(n) if a == axis else d for a, d in enumerate(x.shape)])
            if n
            else None
            for low, n in ((ZERO, before), (size - 1, after))
        ]
        return concat(b, [p for p in (ends[0], x, ends[1]) if p is not None], axis)
    is_mirror = mode == "reflect"
    if size.constant is not None and max(before, after) > size.constant - is_mirror:
        period = (
            concat(b, [x, b.flip(cut(b, x, axis, 1, size - 1), [axis])], axis) if is_mirror and size.constant > 2 else x
        )
        index = [Expr.of(f"i{a}") for a in range(x.rank)]
        place = index[axis] - before
        index[axis] = place - period.shape[axis] * (place // period.shape[axis])
        return b.view(period, [d + before + after if a == axis else d for a, d in enumerate(x.shape)], index)
    if is_mirror:
        front, back = (
            b.flip(cut(b, x, axis, 1, before + 1), [axis]),
            b.flip(cut(b, x, axis, size - 1 - after, size - 1), [axis]),
        )
    else:
        front, back = cut(b, x, axis, size - before, size), cut(b, x, axis, 0, after)
    return concat(b, [p for p, n in ((front, before), (x, 1), (back, after)) if n], axis)


@front_op("Concat", inputs=(1, MANY), attrs=[Attr("axis", "int", REQUIRED)])
def concat_op(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The operands one after the other along `axis`, in their promoted dtype; the other axes agree."""
    parts = [as_ref(b, o) for o in operands]
    axis = axis_of(attrs.axis, parts[0].rank)
    dtype = parts[0].dtype
    for part in parts[1:]:
        dtype = promote(dtype, part.dtype)
        if part.rank != parts[0].rank or any(
            d != e for a, (d, e) in enumerate(zip(part.shape, parts[0].shape)) if a != axis
        ):
            raise refuse("E1016", axis=axis, left=parts[0].type, right=part.type)
    return concat(b, [b.cast(p, dtype) for p in parts], axis)


@front_op(
    "Split",
    inputs=1,
    outputs=(1, MANY),
    attrs=[Attr("axis", "int", 0), Attr("sizes", "dims", None), Attr("parts", "int", None, low=1)],
)
def split(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> tuple[Ref, ...]:
    """Pieces along `axis`: of the stated `sizes`, or `parts` of one size, the last one smaller if need be."""
    x = as_ref(b, operands[0])
    axis = axis_of(attrs.axis, x.rank)
    size = x.shape[axis]
    sizes = attrs.sizes
    if sizes is None:
        parts = attrs.parts or 1
        if size.constant is None:
            sizes = (size // parts,) * parts
        else:
            each = -(-size.constant // parts)
            sizes = tuple(Expr.of(max(0, min(each, size.constant - i * each))) for i in range(parts))
    total = sum(sizes, ZERO)
    if total != size:
        raise refuse("E1017", axis=axis, sizes=list(sizes), total=total, size=size)
    found, start = [], ZERO
    for piece in sizes:
        found.append(cut(b, x, axis, start, start + piece))
        start = start + piece
    return tuple(found)


@front_op(
    "Iota", inputs=0, attrs=[Attr("shape", "dims"), Attr("axis", "int", 0), Attr("dtype", "dtype", DTYPES["i64"])]
)
def iota(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The index along `axis`."""
    return b.iota(attrs.dtype, attrs.shape, axis_of(attrs.axis, len(attrs.shape)))


@front_op("Trilu", inputs=1, attrs=[Attr("upper", "flag", True), Attr("k", "int", 0)])
def trilu(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The upper (or lower) triangle of the last two axes from the k-th diagonal on, 0 elsewhere."""
    from ...ir.expr import Bound

    x = as_ref(b, operands[0])
    if x.rank < 2:
        raise refuse("E1012", op="Trilu", tensor=x.called, given=x.type, wanted=Phrase("2 or more"))
    row, column = Expr.of(f"i{x.rank - 2}"), Expr.of(f"i{x.rank - 1}")
    distance = column - row - attrs.k if attrs.upper else row + attrs.k - column
    return b.valid(x, [Bound(distance, ZERO)])
