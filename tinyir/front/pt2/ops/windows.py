"""Ops that slide a window, and images in other sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....kit.phrase import Phrase
from ...program.grid import PADDINGS, sampled
from ...program.terms import Term
from ..call import Call
from ..table import aten

ALL_AT_ONE = 2.0**60  # a scale by which all elements of a result are within one of the operand


def each(value: Any, rank: int, default: int) -> list[Any]:
    """A number for each axis of an image, or one number for all."""
    found = [default] if value is None or value == [] else list(value) if isinstance(value, (list, tuple)) else [value]
    return found * rank if len(found) == 1 else found


def ends(pads: Sequence[Any]) -> list[Any] | None:
    """The same pad before and after each axis; None where there is none."""
    return [*pads, *pads] if any(p != 0 for p in pads) else None


@aten("convolution.default", *(f"conv{n}d.{overload}" for n in (1, 2, 3) for overload in ("default", "padding")))
def convolution(call: Call) -> Any:
    """Weights [Co, C/groups, *K] slid over an image, with one without a batch too."""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    rank = weight.rank - 2
    is_alone = x.rank == weight.rank - 1
    x = call.reshape(x, [1, *x.shape]) if is_alone else x
    stride, dilation = (each(call.get(key), rank, 1) for key in ("stride", "dilation"))
    padding = call.get("padding")
    attrs: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": call.get("groups", 1)}
    if isinstance(padding, str):
        attrs["pad"] = _same(weight, dilation) if padding == "same" else None
    else:
        attrs["pad"] = ends(each(padding, rank, 0))
    operands = [x, weight] if bias is None else [x, weight, bias]
    if call.get("transposed", False):
        found = _transposed(call, operands, rank, attrs)
    else:
        found = call.op("Conv", *operands, gives=x.dtype, **attrs)
    return call.reshape(found, found.shape[1:]) if is_alone else found


def _same(weight: Term, dilation: list[Any]) -> list[Any]:
    """The pads that keep the size: the odd one after."""
    total = [(k - 1) * d for k, d in zip(weight.shape[2:], dilation)]
    before = [t // 2 for t in total]
    return [*before, *(t - b for t, b in zip(total, before))]


def _transposed(call: Call, operands: list[Term], rank: int, attrs: dict[str, Any]) -> Term:
    grown = each(call.get("output_padding"), rank, 0)
    return call.op(
        "ConvTranspose", *operands, output_padding=grown if any(grown) else None, gives=operands[0].dtype, **attrs
    )


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(call: Call) -> Any:
    """The transpose of a convolution's map."""
    call.args["transposed"] = True
    return convolution(call)


def _window(call: Call, rank: int) -> dict[str, Any]:
    kernel = each(call.get("kernel_size"), rank, 1)
    return {
        "kernel": kernel,
        "stride": each(call.get("stride") or kernel, rank, 1),
        "pad": ends(each(call.get("padding"), rank, 0)),
        "ceil_mode": bool(call.get("ceil_mode", False)),
    }


_POOLS = [f"max_pool{n}d{end}" for n in (1, 2, 3) for end in ("", "_with_indices")]


@aten(*(f"{name}.default" for name in _POOLS))
def max_pool(call: Call) -> Any:
    """The greatest of each window, and its place in the image."""
    x = call.tensor("self")
    rank = 3 if "3d" in call.target else 2 if "2d" in call.target else 1
    image = call.reshape(x, [1, *x.shape]) if x.rank == rank + 1 else x
    found = call.op(
        "Pool",
        image,
        mode="max",
        dilation=each(call.get("dilation"), rank, 1),
        outputs=2 if call.wants(1) else 1,
        **_window(call, rank),
    )
    if not isinstance(found, tuple):
        return call.reshape(found, call.shape)
    size = 1
    for extent in image.shape[:2]:
        size = extent * size
    area = call.known(_product(image.shape[2:]), "i64")
    places = call.fn("rem", found[1], area)  # torch counts within an image, the op from the first one on
    return call.reshape(found[0], call.shape), call.reshape(places, call.shape)


@aten("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def avg_pool(call: Call) -> Any:
    """The mean of each window."""
    x = call.tensor("self")
    rank = int(call.target[len("avg_pool")])
    divisor, window = call.get("divisor_override"), _window(call, rank)
    if divisor is not None and window["ceil_mode"]:
        raise call.fault(Phrase("its divisor is stated"))
    image = call.reshape(x, [1, *x.shape]) if x.rank == rank + 1 else x
    found = call.op(
        "Pool",
        image,
        mode="average",
        count_include_pad=bool(call.get("count_include_pad", True)) or divisor is not None,
        **window,
    )
    if divisor is not None:
        found = call.fn("mul", found, math.prod(window["kernel"]) / divisor)
    return call.reshape(found, call.shape)


@aten("max_unpool2d.default", "max_unpool3d.default")
def max_unpool(call: Call) -> Any:
    """Each element at its place in an image, where all others are 0."""
    x, places = call.tensor("self"), call.tensor("indices")
    rank = int(call.target[len("max_unpool")])
    flat = [*x.shape[:-rank], _product(x.shape[-rank:])]
    none = call.expand(call.known(0, x.dtype), [*flat[:-1], _product(call.shape[-rank:])])
    found = call.op("Scatter", none, call.reshape(places, flat), call.reshape(x, flat), axis=len(flat) - 1)
    return call.reshape(found, call.shape)


@aten("conv_tbc.default")
def conv_tbc(call: Call) -> Any:
    """A convolution over the first axis of [times, batch, channels]."""
    x, weight = call.transpose(call.tensor("self"), [1, 2, 0]), call.transpose(call.tensor("weight"), [2, 1, 0])
    pad = call.get("pad", 0)
    found = call.op("Conv", x, weight, call.tensor("bias"), pad=ends([pad]), gives=call.dtype)
    return call.transpose(found, [2, 0, 1])


@aten(*(f"adaptive_max_pool{n}d.default" for n in (1, 2, 3)))
def adaptive_max_pool(call: Call) -> Any:
    """The greatest of each part, and its place in the image: the first one, as rows are read."""
    if not call.wants(1):
        return adaptive_pool(call), None
    value, place, inner = call.tensor("self"), None, 1
    sizes = call.get("output_size")
    for axis, size in zip(reversed(range(value.rank)), reversed(sizes)):
        extent, found = value.shape[axis].constant, []
        if extent is None or not isinstance(size, int):
            raise call.fault(Phrase("its sizes are symbols"))
        for start, end in _parts(extent, size):
            piece = call.cut(value, axis, start, end)
            at = call.op("Reduce", piece, op="argmax", axes=[axis], keepdims=True)
            own = call.fn("mul", call.fn("add", at, start), inner, part="place")
            if place is not None:
                before = call.op("GatherElements", call.cut(place, axis, start, end), at, axis=axis)
                own = call.fn("add", own, before, part="place")
            found.append((call.op("Reduce", piece, op="max", axes=[axis], keepdims=True, gives=value.dtype), own))
        value, place = (parts[0] if size == 1 else call.op("Concat", *parts, axis=axis) for parts in zip(*found))
        inner *= extent
    return value, place


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """Where the parts of an axis begin and end: part i goes from floor(i*n/size) to ceil((i+1)*n/size)."""
    return [(i * extent // size, -(-(i + 1) * extent // size)) for i in range(size)]


@aten(*(f"{p}adaptive_avg_pool{n}d.default" for p in ("", "_") for n in (1, 2, 3)))
def adaptive_pool(call: Call) -> Any:
    """Windows that share the image in equal parts, or in parts that overlap by one where they do not divide it."""
    x, sizes = call.tensor("self"), list(call.get("output_size", []))
    mode = "max" if "max" in call.target else "average"
    count = len(sizes)
    axes = list(range(x.rank - count, x.rank))
    if all(s == 1 for s in sizes):
        return call.op("Reduce", x, op="max" if mode == "max" else "mean", axes=axes, keepdims=True, gives=x.dtype)
    extents = [x.shape[a].constant for a in axes]
    if any(e is None or not isinstance(s, int) for e, s in zip(extents, sizes)):
        raise call.fault(Phrase("its sizes are symbols"))
    kernel = [e // s for e, s in zip(extents, sizes) if e is not None]
    if all(e == k * s for e, k, s in zip(extents, kernel, sizes)):
        image = call.reshape(x, [1, *x.shape]) if x.rank == count + 1 else x
        return call.reshape(call.op("Pool", image, mode=mode, kernel=kernel, stride=kernel), call.shape)
    for axis, size in zip(axes, sizes):
        x = _in_parts(call, x, axis, size, mode)
    return x


def _in_parts(call: Call, x: Term, axis: int, size: int, mode: str) -> Term:
    """The mean, or the greatest, of each of `size` parts of an axis."""
    parts = []
    for start, end in _parts(x.shape[axis].constant or 0, size):
        piece = call.cut(x, axis, start, end)
        parts.append(
            call.op("Reduce", piece, op="max" if mode == "max" else "mean", axes=[axis], keepdims=True, gives=x.dtype)
        )
    return parts[0] if size == 1 else call.op("Concat", *parts, axis=axis)


@aten(
    *(f"upsample_nearest{n}d.{o}" for n in (1, 2, 3) for o in ("vec", "default")),
    *(f"_upsample_nearest_exact{n}d.{o}" for n in (1, 2, 3) for o in ("vec", "default")),
)
def upsample_nearest(call: Call) -> Any:
    """Each element repeated: torch takes the element before a place, the exact one the nearest."""
    is_exact = "exact" in call.target
    return _resized(
        call,
        "nearest",
        coordinates="half_pixel" if is_exact else "asymmetric",
        rounding="round_prefer_ceil" if is_exact else "floor",
    )


@aten(
    *(
        f"upsample_{kind}.{o}"
        for kind in ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
        for o in ("vec", "default")
    ),
    *(f"_upsample_{kind}2d_aa.{o}" for kind in ("bilinear", "bicubic") for o in ("vec", "default")),
)
def upsample_linear(call: Call) -> Any:
    """Lines, or cubics, between elements; with `aa` over as many elements as one of the result has."""
    mode = "cubic" if "cubic" in call.target else "linear"
    is_aligned = bool(call.get("align_corners", False))
    if "_aa." not in call.target:
        coordinates = "align_corners" if is_aligned else "half_pixel"
        coefficient = -0.75 if mode == "cubic" else None
        return _resized(call, mode, is_aligned, coordinates=coordinates, cubic_coeff=coefficient)
    attrs = {"antialias": True, "exclude_outside": True, "cubic_coeff": -0.5 if mode == "cubic" else None}
    if is_aligned:  # the middles of elements are still where they are, but their distance is that of aligned corners
        x = call.tensor("input" if "input" in call.args else "self")
        spans = [(x.shape[a].constant, call.shape[a].constant) for a in range(2, x.rank)]
        if any(None in span for span in spans):
            raise call.fault(Phrase("its sizes are symbols"))
        attrs["scales"] = [(out - 1) / (size - 1) if out > 1 < size else ALL_AT_ONE for size, out in spans]
    return _resized(call, mode, is_aligned, coordinates="half_pixel", **attrs)


def _resized(call: Call, mode: str, is_aligned: bool = False, **attrs: Any) -> Term:
    """Sampled to the size of the result. Aligned corners make its sizes the scale, whatever scale is stated."""
    x = call.tensor("input" if "input" in call.args else "self")
    count = x.rank - 2
    axes = list(range(2, x.rank))
    factors = call.get("scale_factors") or [
        f for f in (call.get(k) for k in ("scales_d", "scales_h", "scales_w", "scales")) if f is not None
    ]
    sizes = [call.shape[a].constant for a in axes]
    if len(factors) == count and not is_aligned:
        return call.op("Resize", x, scales=[float(f) for f in factors], axes=axes, mode=mode, **attrs)
    if any(s is None for s in sizes):
        raise call.fault(Phrase("its sizes are symbols"))
    return call.op("Resize", x, sizes=sizes, axes=axes, mode=mode, **attrs)


@aten("im2col.default", "unfold.default")
def unfold(call: Call) -> Any:
    """The windows of an image as columns, or (`unfold`) those of an axis, their elements along a new last axis."""
    x = call.tensor("self")
    if call.target.startswith("unfold"):
        axis = call.axis("dimension", x.rank)
        last = call.transpose(x, [*(a for a in range(x.rank) if a != axis), axis])
        wide = call.op("Unfold", last, kernel=[call.get("size")], stride=[call.get("step")])
        perm = list(range(wide.rank - 2))
        return call.transpose(wide, [*perm[:axis], wide.rank - 1, *perm[axis:], wide.rank - 2])
    pads = each(call.get("padding"), 2, 0)
    image = x if not any(pads) else call.op("Pad", x, pads=[*pads, *pads], axes=[x.rank - 2, x.rank - 1])
    wide = call.op(
        "Unfold",
        image,
        kernel=each(call.get("kernel_size"), 2, 1),
        stride=each(call.get("stride"), 2, 1),
        dilation=each(call.get("dilation"), 2, 1),
    )
    return call.reshape(wide, call.shape)


@aten("col2im.default")
def fold(call: Call) -> Any:
    """Columns [*N, C * windows' elements, positions] added up in an image, each element where it was read from."""
    x, image = call.tensor("self"), [*call.get("output_size")]
    kernel, dilation, pads, stride = (
        each(call.get(key), 2, default)
        for key, default in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))
    )
    wide = [size + 2 * p for size, p in zip(image, pads)]
    seen = [(w - d * (k - 1) - 1) // s + 1 for w, k, d, s in zip(wide, kernel, dilation, stride)]
    apart = call.reshape(x, [*call.shape[:-2], *kernel, *seen])
    found = call.op("Fold", apart, size=wide, stride=stride, dilation=dilation, gives=x.dtype)
    for axis, size, pad in zip((found.rank - 2, found.rank - 1), image, pads):
        found = call.cut(found, axis, pad, pad + size) if pad else found
    return found


_SAMPLING = ("linear", "nearest", "cubic")


@aten("grid_sampler_2d.default", "grid_sampler_3d.default", "grid_sampler.default")
def grid_sampler(call: Call) -> Any:
    """Elements at places that are computed."""
    x, grid = call.tensor("input"), call.tensor("grid")
    for axis in range(2, x.rank):
        if not x.shape[axis].constant:
            raise call.fault(Phrase("axis {axis} has the size {shape}", axis=axis, shape=x.shape[axis]))
    mode, padding = _SAMPLING[call.get("interpolation_mode", 0)], PADDINGS[call.get("padding_mode", 0)]
    is_aligned = bool(call.get("align_corners", False))
    return sampled(call, x, grid, mode, padding, is_aligned, by_tap=mode == "cubic", inside=True)


def _product(sizes: Sequence[Any]) -> Any:
    found: Any = 1
    for size in sizes:
        found = size * found
    return found
