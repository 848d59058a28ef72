"""Ops that slide a window: Conv, ConvTranspose, Pool, in one to three dimensions or more. A window is a VIEW of the
padded operand (seed 000 section 5.2), so that no element is copied and the padding is a guard."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import ONE, ZERO, Expr
from ...ir.rules import product
from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Place, Ref, accumulator
from .contraction import acc_dtype, tensor
from .reduction import count
from .table import Attr, Attrs, front_op

_LAYOUTS = ("NCHW", "NHWC")
_AUTO = ("explicit", "same_upper", "same_lower", "valid")
_WINDOW = [
    Attr("stride", "ints", None, low=1),
    Attr("pad", "dims", None),
    Attr("dilation", "ints", None, low=1),
    Attr("auto_pad", "word", "explicit", words=_AUTO),
    Attr("layout", "word", "NCHW", words=_LAYOUTS),
]
MOST_AXES = 6  # of windows: each has letters of its own
Pairs = list[tuple[Expr, Expr]]


def per_axis(values: Sequence[int] | None, rank: int, what: str) -> tuple[int, ...]:
    """One integer for each spatial axis: all 1 for None, the one given for all. Raises Refused (E1101)."""
    if values is None:
        return (1,) * rank
    if len(values) not in (1, rank):
        raise refuse("E1101", what=what, given=len(values), rank=rank)
    return tuple(values) * (rank // len(values) if len(values) == 1 else 1)


def pads_of(
    attrs: Attrs, sizes: Sequence[Expr], kernel: Sequence[Expr], stride: Sequence[int], dilation: Sequence[int]
) -> Pairs:
    """What is put before and after each spatial axis. `pad` lists one number for all, one an axis, or all befores and
    then all afters."""
    rank = len(sizes)
    if attrs.auto_pad in ("same_upper", "same_lower"):
        found = []
        for axis, (size, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation)):
            reach = (k - 1) * d + 1
            total = reach - 1 if s == 1 else (size.ceildiv(s) - 1) * s + reach - size
            if total.constant is None:
                raise refuse("E1015", mode=attrs.auto_pad, axis=axis + 2)
            small = max(0, total.constant) // 2
            pair = (Expr.of(small), Expr.of(max(0, total.constant) - small))
            found.append(pair if attrs.auto_pad == "same_upper" else pair[::-1])
        return found
    pad = attrs.pad if attrs.pad is not None and attrs.auto_pad == "explicit" else (ZERO,)
    if len(pad) not in (1, rank, 2 * rank):
        raise refuse("E1101", what="pad", given=len(pad), rank=rank)
    if len(pad) == 2 * rank:
        return list(zip(pad[:rank], pad[rank:]))
    return [(p, p) for p in (pad if len(pad) == rank else tuple(pad) * rank)]


def windows(
    b: Builder,
    x: Ref,
    lead: int,
    kernel: Sequence[Expr],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int = 0,
) -> Ref:
    """`x` of [N, C, *S], padded, as [N, *O, C, *K]: element (o, k) of the window is at o*stride + k*dilation. With
    `groups` C is seen as [G, C/G] and the result is [N, G, *O, C/G, *K]. `lead` is 1 when the channels come last, [N,
    *S, C]."""
    rank = len(kernel)
    first = 1 if lead == 1 else 2
    sizes = x.shape[first : first + rank]
    channels = x.shape[-1] if lead == 1 else x.shape[1]
    out = []
    for axis, (size, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation)):
        out.append(room_for(first + axis, size, (k - 1) * d + 1) // s + 1)
    own = [channels] if not groups else [Expr.of(groups), channels // groups]
    shape = [x.shape[0], *own[:-1], *out, own[-1], *kernel]
    axes = [Expr.of(f"i{i}") for i in range(len(shape))]
    skip = len(own)
    place = [axes[skip + a] * stride[a] + axes[skip + rank + 1 + a] * dilation[a] for a in range(rank)]
    channel = axes[skip + rank] if not groups else axes[1] * own[-1] + axes[skip + rank]
    index = [axes[0], *place, channel] if lead == 1 else [axes[0], channel, *place]
    return b.view(x, shape, index, part="window")


def room_for(axis: int, size: Expr, reach: Expr) -> Expr:
    """How far a window that reaches so far can be moved along an axis of this size; -1 where there is none. Raises
    Refused (E1019)."""
    room = size - reach
    if room.constant is not None and room.constant < -1:
        raise refuse("E1019", axis=axis, size=size, reach=reach)
    return room


def with_pads(b: Builder, x: Ref, pads: Pairs, lead: int, value: float | int = 0) -> Ref:
    """`x` with this much of a value before and after each spatial axis."""
    own = [(ZERO, ZERO)]
    return b.pad(x, own + pads + own if lead == 1 else own + own + pads, value)


def spatial(x: Ref, op: str, layout: str) -> tuple[int, tuple[Expr, ...], int]:
    """`lead` (1 when channels come last), the spatial sizes, and the axis of the channels."""
    if x.rank < 3:
        raise refuse("E1012", op=op, tensor=x.called, given=x.type, wanted=Phrase("3 or more"))
    return (1, x.shape[1:-1], x.rank - 1) if layout == "NHWC" else (2, x.shape[2:], 1)


def check_channels(x: Ref, axis: int, size: Expr, w: Ref, w_axis: int) -> None:
    """Raises Refused (E1304) where an axis of x has not this size, which weights say along `w_axis`."""
    if x.shape[axis] != size:
        from ...kit.diag import Diag, Label, Refused

        facts = {
            "left": Phrase(
                "{operand}[{axis}] = {size}", operand=x.tensor or Phrase("the operand"), axis=axis, size=x.shape[axis]
            ),
            "right": Phrase(
                "{operand}[{axis}] * groups = {size}", operand=w.tensor or Phrase("the weight"), axis=w_axis, size=size
            ),
        }
        place: Place = x.place
        labels = (Label(place.dim(axis), facts["left"]),) if place.dim(axis) is not None else ()
        raise Refused([Diag("E1304", "", facts, w.place.dim(w_axis), labels)])


def with_bias(b: Builder, found: Ref, operands: Sequence[Operand], lead: int) -> Ref:
    """The bias, of shape [C], added along the channels."""
    if len(operands) < 3:
        return found
    bias = tensor(operands[2], "Conv", 2)
    axis = found.rank - 1 if lead == 1 else 1
    if bias.shape != (found.shape[axis],):
        raise refuse(
            "E1304",
            left=Phrase("output channels = {shape}", shape=found.shape[axis]),
            right=f"{bias.tensor} = {bias.type}",
        )
    return b.emit("ADD", found, b.spread(b.cast(bias, found.dtype), found.shape, [axis]))


CONV = [*_WINDOW, Attr("groups", "int", 1, low=1), Attr("acc_dtype", "dtype", None)]


@front_op("Conv", inputs=(2, 3), attrs=CONV)
def conv(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x of [N, C, *S] (NHWC: [N, *S, C]) with weights [Co, C/groups, *K] and a bias [Co]: the sum over channels and
    window, in the dtype that it accumulates in. `stride` and `dilation` are one number or one an axis; `pad` one, one
    an axis, or all befores then all afters."""
    x, w = (tensor(o, "Conv", i) for i, o in enumerate(operands[:2]))
    lead, sizes, axis = spatial(x, "Conv", attrs.layout)
    if w.rank != x.rank:
        raise refuse("E1012", op="Conv", tensor=w.called, given=w.type, wanted=x.rank)
    kernel, groups = w.shape[2:], attrs.groups
    stride, dilation = (per_axis(attrs[a], len(sizes), a) for a in ("stride", "dilation"))
    check_channels(x, axis, w.shape[1] * groups, w, 1)
    padded = with_pads(b, x, pads_of(attrs, sizes, kernel, stride, dilation), lead)
    return with_bias(
        b,
        window_sum(b, padded, w, lead, stride, dilation, groups, acc_dtype(b, x, w, attrs.acc_dtype)),
        operands,
        lead,
    )


def window_sum(
    b: Builder, x: Ref, w: Ref, lead: int, stride: Sequence[int], dilation: Sequence[int], groups: int, acc: object
) -> Ref:
    """The convolution of a padded `x` with weights [M, C/groups, *K]. Raises Refused (E0006, E1018)."""
    rank = w.rank - 2
    kernel, outer, inner = w.shape[2:], "opqrst"[:rank], "uvwxyz"[:rank]
    if rank > MOST_AXES:
        raise refuse("E0006", what=Phrase("the number of spatial axes (at most 6)"))
    each = w.shape[0] // groups
    if each * groups != w.shape[0]:
        raise refuse("E1018", axis=0, size=w.shape[0], groups=groups)
    if groups == 1:
        seen = windows(b, x, lead, kernel, stride, dilation)
        out = f"n{outer}m" if lead == 1 else f"nm{outer}"
        return b.contract(seen, f"n{outer}c{inner}", w, f"mc{inner}", out, acc, ("v", "w"))
    seen = windows(b, x, lead, kernel, stride, dilation, groups)
    parted = b.reshape(w, [Expr.of(groups), each, *w.shape[1:]])
    out = f"n{outer}gm" if lead == 1 else f"ngm{outer}"
    found = b.contract(seen, f"ng{outer}c{inner}", parted, f"gmc{inner}", out, acc, ("v", "w"))
    sizes = [d for d, letter in zip(found.shape, out) if letter in outer]
    return b.reshape(found, [x.shape[0], *sizes, w.shape[0]] if lead == 1 else [x.shape[0], w.shape[0], *sizes])


@front_op(
    "Pool",
    inputs=1,
    outputs=(1, 2),
    attrs=[
        Attr("mode", "word", words=("max", "average", "lp")),
        Attr("kernel", "ints", None, low=1),
        *_WINDOW,
        Attr("ceil_mode", "flag", False),
        Attr("count_include_pad", "flag", False),
        Attr("p", "int", 2, low=1),
        Attr("column_major", "flag", False),
    ],
)
def pool(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref | tuple[Ref, ...]:
    """The maximum, mean or p-norm of each window, in the operand's dtype; of the whole image, with size 1 left, when
    there is no `kernel`. The mean counts what is padded only if `count_include_pad`. A second output of max is where in
    x, flattened, the maximum is."""
    x = tensor(operands[0], "Pool", 0)
    lead, sizes, _ = spatial(x, "Pool", attrs.layout)
    rank, first = len(sizes), 1 if lead == 1 else 2
    acc = accumulator(x.dtype) if x.dtype.is_float else DTYPES["fp32"]
    if attrs.kernel is None:
        axes = tuple(range(first, first + rank))
        return b.reshape(
            _folded(b, x, axes, attrs, acc, None), [ONE if a in axes else d for a, d in enumerate(x.shape)]
        )
    if len(attrs.kernel) not in (1, rank):
        raise refuse("E1101", what="kernel", given=len(attrs.kernel), rank=rank)
    kernel = [Expr.of(k) for k in per_axis(attrs.kernel, rank, "kernel")]
    stride, dilation = (per_axis(attrs[a], rank, a) for a in ("stride", "dilation"))
    pads = pads_of(attrs, sizes, kernel, stride, dilation)
    more = [
        _ceiling(size, pair, k, s, d, axis) if attrs.ceil_mode else ZERO
        for axis, (size, pair, k, s, d) in enumerate(zip(sizes, pads, kernel, stride, dilation))
    ]
    wide = [(low, high + extra) for (low, high), extra in zip(pads, more)]
    seen = windows(
        b, with_pads(b, x, wide, lead, x.dtype.lowest if attrs.mode == "max" else 0), lead, kernel, stride, dilation
    )
    axes = tuple(range(seen.rank - rank, seen.rank))
    number = (
        _window_count(b, sizes, pads, more, kernel, stride, dilation, attrs.count_include_pad, acc)
        if attrs.mode == "average"
        else None
    )
    found = _channels_back(b, _folded(b, seen, axes, attrs, acc, number), rank, lead)
    if attrs.mode != "max":
        return found
    return found, _channels_back(
        b, _position(b, x, seen, wide, stride, dilation, kernel, lead, attrs.column_major), rank, lead
    )


def _channels_back(b: Builder, x: Ref, rank: int, lead: int) -> Ref:
    return x if lead == 1 else b.permute(x, [0, rank + 1, *range(1, rank + 1)])


def _folded(b: Builder, seen: Ref, axes: tuple[int, ...], attrs: Attrs, acc: object, number: Ref | None) -> Ref:
    if attrs.mode == "max":
        return b.reduce(seen, "MAX", axes)
    if attrs.mode == "lp":
        wide = b.cast(seen, acc)
        size = wide if attrs.p == 2 else b.emit("ABS", wide)
        if attrs.p > 1:
            size = (
                b.emit("MUL", size, size, part="square")
                if attrs.p == 2
                else b.emit("POW", size, b.const(attrs.p, acc, size.shape))
            )
        total = b.reduce(size, "SUM", axes, acc)
        if attrs.p > 1:
            total = (
                b.emit("SQRT", total) if attrs.p == 2 else b.emit("POW", total, b.const(1 / attrs.p, acc, total.shape))
            )
        return b.cast(total, seen.dtype)
    total = b.reduce(seen, "SUM", axes, acc)
    if number is None:
        divisor = b.const(count(seen, axes), acc, total.shape)
    else:
        divisor = b.spread(number, total.shape, range(1, 1 + number.rank))
    return b.cast(b.emit("FDIV", total, divisor, part="mean"), seen.dtype)


def _ceiling(size: Expr, pair: tuple[Expr, Expr], kernel: Expr, stride: int, dilation: int, axis: int) -> Expr:
    """How much more to pad so that the last, partial window counts; it must begin within x or what is put before it,
    which it does for any size where no more than a window is left to its end."""
    room = size + pair[0] + pair[1] - (kernel - 1) * dilation - 1
    if room.constant is None:
        spare = (kernel - 1) * dilation - pair[1] - (stride - 1)
        if spare.constant is None or spare.constant < 0:
            raise refuse("E1015", mode="ceil_mode", axis=axis + 2)
        return stride * room.ceildiv(stride) - room
    more = -room.constant % stride
    begin = room.constant + more
    return Expr.of(more) if more and begin < (size + pair[0]).constant else ZERO


def _window_count(
    b: Builder,
    sizes: Sequence[Expr],
    pads: Pairs,
    more: Sequence[Expr],
    kernel: Sequence[Expr],
    stride: Sequence[int],
    dilation: Sequence[int],
    is_padding_counted: bool,
    acc: object,
) -> Ref | None:
    """How many elements each window holds, [*O]; None when all hold the whole window."""
    around = [(ZERO, m) if is_padding_counted else (low, high + m) for (low, high), m in zip(pads, more)]
    if all(low == ZERO and high == ZERO for low, high in around):
        return None
    own = [size + low + high if is_padding_counted else size for size, (low, high) in zip(sizes, pads)]
    ones = b.pad(b.const(1, acc, [ONE, *own, ONE]), [(0, 0), *around, (0, 0)])
    seen = windows(b, ones, 1, kernel, stride, dilation)
    total = b.reduce(seen, "SUM", range(seen.rank - len(sizes), seen.rank), acc)
    return b.reshape(total, total.shape[1:-1])


def _position(
    b: Builder,
    x: Ref,
    seen: Ref,
    pads: Pairs,
    stride: Sequence[int],
    dilation: Sequence[int],
    kernel: Sequence[Expr],
    lead: int,
    is_column_major: bool,
) -> Ref:
    """The place in x, flattened, of the first maximum of each window: [N, *O, C] of i64. Padding is the least number:
    it is the first maximum where all of x in the window is that too, and then the first place in x is."""
    i64, rank = DTYPES["i64"], len(kernel)
    rest = b.reduce(seen, "ARGMAX", range(seen.rank - rank, seen.rank), i64)
    first = 1 if lead == 1 else 2
    strides = [product(x.shape[a + 1 :]) for a in range(x.rank)]
    if is_column_major:
        strides[first : first + rank] = [
            product(x.shape[first:a]) * (strides[first + rank - 1]) for a in range(first, first + rank)
        ]

    def k(value: Expr | int) -> Ref:
        return b.const(value, i64, rest.shape)

    def scaled(value: Ref, factor: Expr) -> Ref:
        return b.emit("MUL", value, k(factor))

    found = b.emit(
        "ADD",
        scaled(b.iota(i64, rest.shape, 0), strides[0]),
        scaled(b.iota(i64, rest.shape, rank + 1), strides[x.rank - 1 if lead == 1 else 1]),
    )
    for a in reversed(range(rank)):
        within = b.emit("MOD", rest, k(kernel[a])) if a else rest
        rest = b.emit("FLOORDIV", rest, k(kernel[a])) if a else rest
        start = b.emit("SUB", scaled(b.iota(i64, rest.shape, 1 + a), Expr.of(stride[a])), k(pads[a][0]))
        if pads[a][0] != ZERO:  # the first element of the window in x
            before = b.emit("FLOORDIV", start, k(dilation[a])) if dilation[a] > 1 else start
            within = b.emit("MAX", within, b.emit("NEG", before))
        place = b.emit("ADD", start, scaled(within, Expr.of(dilation[a])))
        found = b.emit("ADD", found, scaled(place, strides[first + a]))
    return found
