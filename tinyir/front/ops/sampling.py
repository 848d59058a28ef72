"""Resize, and the ops that draw random numbers."""

from __future__ import annotations

import math
from fractions import Fraction

from ...ir.expr import Expr
from ...ir.types import DTYPES, TensorType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref
from . import functions
from .contraction import tensor
from .movement import axes_of
from .table import Attr, Attrs, front_op

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "crop")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MAX_SIZE = 1 << 16  # of a resized axis: each place is worked out
Tap = tuple[list[int], list[float]]  # for each place of the result: which element, and its weight


@front_op(
    "Resize",
    inputs=1,
    attrs=[
        Attr("sizes", "ints", None, low=0),
        Attr("scales", "floats", None, low=0),
        Attr("axes", "ints", None),
        Attr("mode", "word", "nearest", words=("nearest", "linear", "cubic")),
        Attr("coordinates", "word", "half_pixel", words=_COORDINATES),
        Attr("rounding", "word", "round_prefer_floor", words=_ROUNDINGS),
        Attr("cubic_coeff", "float", -0.75),
        Attr("exclude_outside", "flag", False),
        Attr("antialias", "flag", False),
        Attr("roi", "floats", None),
        Attr("extrapolation", "float", 0.0),
    ],
)
def resize(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x sampled to other sizes along `axes` (default: all), an axis after the other, as ONNX defines it: the nearest
    element, or the two or four around the place, weighted; with `antialias` as many as one element of the result
    covers. Sizes must be numbers, but where each element is repeated a whole number of times. With `sizes` alone they
    give the scales, with `scales` alone these give the sizes. Elements beyond the border are those at the border;
    `crop` samples the part `roi` of x (all starts, then all ends, of 0..1) and gives `extrapolation` outside of x."""
    x = tensor(operands[0], "Resize", 0)
    axes = axes_of(attrs.axes, x.rank)
    if attrs.sizes is None and attrs.scales is None:
        raise refuse("E0104", key="sizes", kind=Phrase("or scales"))
    for what, wanted in (("sizes", len(axes)), ("scales", len(axes)), ("roi", 2 * len(axes))):
        if attrs[what] is not None and len(attrs[what]) != wanted:
            raise refuse("E1101", what=what, given=len(attrs[what]), rank=wanted)
    if attrs.coordinates == "crop" and (attrs.roi is None or not all(map(math.isfinite, attrs.roi))):
        raise refuse("E0104", key="roi", kind=Phrase("a list of finite numbers"))
    dtype = x.dtype
    for at, axis in enumerate(axes):
        x = _resized_along(b, x, axis, at, attrs)
    return b.cast(x, dtype)


def _resized_along(b: Builder, x: Ref, axis: int, at: int, attrs: Attrs) -> Ref:
    """x resized along one axis, which is number `at` of those that the attributes name."""
    size = x.shape[axis].constant
    times = _times(attrs, at) if size is None else None
    if times is not None:
        index = [Expr.of(f"i{a}") // times if a == axis else Expr.of(f"i{a}") for a in range(x.rank)]
        return b.view(x, [d * times if a == axis else d for a, d in enumerate(x.shape)], index)
    if not size:
        raise refuse("E1015", mode="Resize", axis=axis)
    stated = attrs.scales[at] if attrs.scales is not None else None
    if stated is not None and not math.isfinite(stated):
        raise refuse("E0107", key="scales", range=Phrase("finite"), given=stated)
    out = attrs.sizes[at] if attrs.sizes is not None else math.floor(size * stated)
    if out > MAX_SIZE:
        raise refuse("E0006", what=Phrase("the size of a resized axis (at most {most})", most=MAX_SIZE))
    if stated is not None and not stated and out:
        raise refuse("E0107", key="scales", range=Phrase("more than 0"), given=0)
    if not out:
        return b.const(0, x.dtype, [Expr.of(0) if a == axis else d for a, d in enumerate(x.shape)])
    scale = Fraction(stated) if stated is not None else Fraction(out, size)
    is_crop = attrs.coordinates == "crop"
    part = (attrs.roi[at], attrs.roi[at + len(attrs.roi) // 2]) if is_crop else (0.0, 1.0)
    if out == size and scale == 1 and part == (0.0, 1.0):
        return x
    places = [_place(i, size, out, scale, attrs.coordinates, part) for i in range(out)]
    taps = _taps(size, out, places, min(scale, 1) if attrs.antialias else 1, attrs)
    x = _sampled(b, x, axis, size, out, taps)
    if is_crop:
        x = _extrapolated(b, x, axis, [0 <= p <= size - 1 for p in places], attrs.extrapolation)
    return x


def _times(attrs: Attrs, at: int) -> int | None:
    """How often each element is repeated along an axis, whatever its size; None where the places depend on that."""
    scale = attrs.scales[at] if attrs.scales is not None else 0.0
    is_floor = attrs.coordinates == "asymmetric" and attrs.rounding == "floor"
    is_middle = attrs.coordinates in ("half_pixel", "half_pixel_symmetric") and attrs.rounding.startswith("round")
    return (
        int(scale)
        if attrs.mode == "nearest" and scale >= 1 and scale == int(scale) and (is_floor or is_middle)
        else None
    )


def _place(i: int, size: int, out: int, scale: Fraction, coordinates: str, part: tuple[float, float]) -> Fraction:
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "align_corners":
        return i * (size - 1) / (scale * size - 1) if scale * size != 1 else Fraction(0)
    if coordinates == "crop":
        start, end = map(Fraction, part)
        return (start + (end - start) * (Fraction(i, out - 1) if out > 1 else Fraction(1, 2))) * (size - 1)
    if coordinates == "pytorch_half_pixel" and out == 1:
        return Fraction(0)
    place = (i + Fraction(1, 2)) / scale - Fraction(1, 2)
    if coordinates == "half_pixel_symmetric":
        place += Fraction(size, 2) * (1 - out / (scale * size))
    return place


def _taps(size: int, out: int, places: list[Fraction], narrowing: Fraction | int, attrs: Attrs) -> list[Tap]:
    if attrs.mode == "nearest":
        half = Fraction(1, 2)
        rounded = {
            "floor": math.floor,
            "ceil": math.ceil,
            "round_prefer_floor": lambda p: math.ceil(p - half),
            "round_prefer_ceil": lambda p: math.floor(p + half),
        }
        return [([min(max(rounded[attrs.rounding](p), 0), size - 1) for p in places], [1.0] * out)]
    start = math.floor(-(1 if attrs.mode == "linear" else 2) / narrowing) + 1
    reach = range(start, 2 - start)
    found: list[Tap] = [([], []) for _ in reach]
    for p in places:
        base = math.floor(p)
        distances = [abs(float(narrowing * (t - (p - base)))) for t in reach]
        weights = [max(0.0, 1 - d) if attrs.mode == "linear" else _cubic(d, attrs.cubic_coeff) for d in distances]
        if attrs.exclude_outside:
            weights = [w if 0 <= base + t < size else 0.0 for w, t in zip(weights, reach)]
        if attrs.exclude_outside or narrowing != 1:
            weights = [w / sum(weights) for w in weights]
        for (index, weight), t, w in zip(found, reach, weights):
            index.append(min(max(base + t, 0), size - 1))
            weight.append(w)
    return found


def _cubic(d: float, a: float) -> float:
    """The weight of an element at distance d (Keys, 1981)."""
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def _extrapolated(b: Builder, x: Ref, axis: int, is_inside: list[bool], value: float) -> Ref:
    if all(is_inside):
        return x
    line = b.const(tuple(is_inside), DTYPES["bool"], (x.shape[axis],))
    return b.emit("WHERE", b.spread(line, x.shape, [axis]), x, b.const(value, x.dtype, x.shape))


def _sampled(b: Builder, x: Ref, axis: int, size: int, out: int, taps: list[Tap]) -> Ref:
    shape = tuple(Expr.of(out) if a == axis else d for a, d in enumerate(x.shape))
    if len(taps) == 1:
        return _picked(b, x, axis, size, out, taps[0][0], shape)
    wide = x if x.dtype.is_float and x.dtype.bits >= 32 else b.cast(x, DTYPES["fp32"])
    found = None
    for index, weight in taps:
        line = b.const(tuple(weight), wide.dtype, (Expr.of(out),))
        term = b.emit("MUL", _picked(b, wide, axis, size, out, index, shape), b.spread(line, shape, [axis]))
        found = term if found is None else b.emit("ADD", found, term)
    return found


def _picked(b: Builder, x: Ref, axis: int, size: int, out: int, index: list[int], shape: tuple[Expr, ...]) -> Ref:
    """The elements at a known list of indices: a VIEW where a floor of a line gives the list, else a GATHER."""
    i = Expr.of(f"i{axis}")
    for step, divisor in (
        (size, out),
        (2 * size, 2 * out),
        (size - 1, max(out - 1, 1)),
        (2 * (size - 1), 2 * max(out - 1, 1)),
    ):
        for shift in {index[0] * divisor, size, size - 1, out - 1, out}:
            if all((step * n + shift) // divisor == place for n, place in enumerate(index)):
                return b.view(
                    x, shape, [(i * step + shift) // divisor if a == axis else Expr.of(f"i{a}") for a in range(x.rank)]
                )
    return b.emit("GATHER", x, b.const(tuple(index), DTYPES["i64"], (Expr.of(out),)), axis=axis)


@front_op(
    "Random",
    inputs=0,
    attrs=[
        Attr("shape", "dims"),
        Attr("seed", "int"),
        Attr("dtype", "dtype", DTYPES["fp32"]),
        Attr("low", "float", 0.0),
        Attr("high", "float", 1.0),
    ],
)
def random(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Numbers uniform in [low, high), from Philox with `seed`: the same in every run."""
    return functions.in_wide(
        b, _uniform(b, attrs.seed, attrs.dtype, attrs.shape, 0), lambda u: _between(b, u, attrs.low, attrs.high)
    )


def _uniform(b: Builder, seed: int, dtype: object, shape: tuple[Expr, ...], offset: int) -> Ref:
    stated = {"offset": offset} if offset else {}
    return b.emit("RANDOM", type=TensorType(dtype, shape), seed=seed, **stated)


def _between(b: Builder, u: Ref, low: float, high: float) -> Ref:
    if high != 1.0 or low != 0.0:
        u = b.emit("MUL", u, b.const(high - low, u.dtype, u.shape))
    return b.emit("ADD", u, b.const(low, u.dtype, u.shape)) if low else u


@front_op(
    "RandomNormal",
    inputs=0,
    attrs=[
        Attr("shape", "dims"),
        Attr("seed", "int"),
        Attr("dtype", "dtype", DTYPES["fp32"]),
        Attr("mean", "float", 0.0),
        Attr("scale", "float", 1.0),
    ],
)
def random_normal(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Numbers of a normal distribution, from two uniform ones each: sqrt(-2 ln(1 - u)) cos(2 pi v) (Box and Muller,
    1958)."""
    wide = attrs.dtype if attrs.dtype.is_float and attrs.dtype.bits >= 32 else DTYPES["fp32"]
    u, v = _uniform(b, attrs.seed, wide, attrs.shape, 0), _uniform(b, attrs.seed, wide, attrs.shape, 1 << 40)
    log = functions.log(b, b.emit("SUB", b.const(1, wide, attrs.shape), u))
    radius = b.emit("SQRT", b.emit("MUL", log, b.const(-2, wide, attrs.shape)))
    drawn = b.emit("MUL", radius, functions.cos(b, b.emit("MUL", v, b.const(2 * math.pi, wide, attrs.shape))))
    scaled = b.emit("MUL", drawn, b.const(attrs.scale, wide, attrs.shape)) if attrs.scale != 1.0 else drawn
    return b.cast(b.emit("ADD", scaled, b.const(attrs.mean, wide, attrs.shape)) if attrs.mean else scaled, attrs.dtype)


@front_op(
    "Dropout",
    inputs=1,
    attrs=[Attr("ratio", "float", 0.5, low=0, high=1), Attr("training", "flag", False), Attr("seed", "int", 0)],
)
def dropout(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x itself, or in training x / (1 - ratio) where a random number is `ratio` or more, and 0 elsewhere."""
    x = tensor(operands[0], "Dropout", 0)
    if not attrs.training or attrs.ratio == 0:
        return x
    kept = b.emit(
        "NOT",
        b.emit(
            "CMPLT", _uniform(b, attrs.seed, DTYPES["fp32"], x.shape, 0), b.const(attrs.ratio, DTYPES["fp32"], x.shape)
        ),
        part="kept",
    )
    zero = b.const(0, x.dtype, x.shape)
    if attrs.ratio == 1:
        return zero
    return b.emit("WHERE", kept, b.emit("MUL", x, b.const(1 / (1 - attrs.ratio), x.dtype, x.shape)), zero)
