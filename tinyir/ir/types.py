"""Dtypes and tensor types, shared by every language.

Text: `fp16[M, K]`, `fp32[]`. A shape is a tuple of Expr (ir.expr): integers, symbols of the signature, and sums,
products and floors of them.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from ..kit.diag import refuse
from .expr import Expr

MOST_AXES = 32  # of a tensor: as many as NumPy has, so that all can be played back


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type. `kind` is f (float), i (signed), u (unsigned) or b (bool); `digits` counts a float's significand
    bits, the hidden one included; `numpy` is the NumPy or ml_dtypes name; `cuda` is the spelling in the emitted
    CUDA."""

    name: str
    kind: str
    bits: int
    digits: int
    numpy: str
    cuda: str

    @property
    def bytes(self) -> int:
        """Size of one element in memory, in bytes."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """Floating point."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is neither."""
        return self.kind in "iu"

    @property
    def lowest(self) -> float | int:
        """The neutral element of MAX: -inf for floats that have it, the smallest value otherwise."""
        if self.kind == "f":
            return -448.0 if self.name == "fp8e4m3" else -math.inf
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def highest(self) -> float | int:
        """The neutral element of MIN: inf for floats that have it, the largest value otherwise."""
        if self.kind == "f":
            return 448.0 if self.name == "fp8e4m3" else math.inf
        return (1 << (self.bits - (self.kind == "i"))) - 1 if self.kind != "b" else 1

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("fp64", "f", 64, 53, "float64", "double"),
        DType("fp32", "f", 32, 24, "float32", "float"),
        DType("fp16", "f", 16, 11, "float16", "fp16"),
        DType("bf16", "f", 16, 8, "bfloat16", "bf16"),
        DType("fp8e4m3", "f", 8, 4, "float8_e4m3fn", "fp8e4m3"),
        DType("fp8e5m2", "f", 8, 3, "float8_e5m2", "fp8e5m2"),
        DType("i64", "i", 64, 0, "int64", "long long"),
        DType("i32", "i", 32, 0, "int32", "int"),
        DType("i16", "i", 16, 0, "int16", "short"),
        DType("i8", "i", 8, 0, "int8", "signed char"),
        DType("u64", "u", 64, 0, "uint64", "unsigned long long"),
        DType("u32", "u", 32, 0, "uint32", "unsigned int"),
        DType("u16", "u", 16, 0, "uint16", "unsigned short"),
        DType("u8", "u", 8, 0, "uint8", "unsigned char"),
        DType("bool", "b", 8, 0, "bool", "bool"),
    )
}


def is_exact(source: DType, target: DType) -> bool:
    """True when every value of `source` is a value of `target`, so that a CAST loses nothing."""
    if source == target or source.kind == "b":
        return True
    if source.kind == "f":
        return target.name in _WIDER_FLOATS[source.name]
    if target.kind == "f":
        return source.bits - (source.kind == "i") <= target.digits
    if source.kind == target.kind:
        return target.bits >= source.bits
    return source.kind == "u" and target.kind == "i" and target.bits > source.bits


_WIDER_FLOATS = {
    "fp64": (),
    "fp32": ("fp64",),
    "fp16": ("fp32", "fp64"),
    "bf16": ("fp32", "fp64"),
    "fp8e4m3": ("fp16", "bf16", "fp32", "fp64"),
    "fp8e5m2": ("fp16", "bf16", "fp32", "fp64"),
}


def promote(left: DType, right: DType) -> DType:
    """The smallest dtype in the table that holds both exactly, an integer if one does; fp64 when none does. Front ends
    insert CAST to it."""
    if is_exact(left, right):
        return right
    if is_exact(right, left):
        return left
    fits = [d for d in DTYPES.values() if is_exact(left, d) and is_exact(right, d)]
    return min(fits, key=lambda d: (d.is_float, d.bits, d.kind)) if fits else DTYPES["fp64"]


def round_to(dtype: DType, value: float | int | bool) -> float | int | bool:
    """`value` as the nearest (ties to even) value of `dtype`; integers wrap as NumPy's do."""
    if dtype.kind == "b":
        return bool(value)
    if dtype.is_integer:
        wrapped = int(value) & ((1 << dtype.bits) - 1)
        return wrapped - (1 << dtype.bits) if dtype.kind == "i" and wrapped >> (dtype.bits - 1) else wrapped
    value = float(value)
    if (
        value != value or value in (math.inf, -math.inf) and dtype.name == "fp8e4m3"
    ):  # the one float without an infinity
        return math.nan  # always this object, so that programs with NaN compare equal
    if dtype.bits == 64 or value in (math.inf, -math.inf) or value == 0.0:
        return value
    if dtype.name in ("fp32", "fp16"):
        try:
            code = "f" if dtype.bits == 32 else "e"
            return struct.unpack(code, struct.pack(code, value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    lowest_exponent, top = {"bf16": -126, "fp8e4m3": -6, "fp8e5m2": -14}[dtype.name], _GREATEST[dtype.name]
    exponent = max(math.frexp(value)[1] - 1, lowest_exponent)
    quantum = math.ldexp(1.0, exponent - (dtype.digits - 1))
    rounded = round(value / quantum) * quantum
    if abs(rounded) > top:
        return math.nan if dtype.name == "fp8e4m3" else math.copysign(math.inf, value)
    return math.copysign(rounded, value)


def number_of(dtype: DType, value: float | int | bool) -> float | int | bool:
    """A number that a text states, as the nearest value of `dtype`: the one rule for constants of every language.
    Raises Refused (E1026) for a number out of the dtype's range, and for one of another kind: true or a fraction as an
    integer, true as a float, anything but true, false, 0 and 1 as a bool. A whole float is an integer, since JSON has
    one kind of number."""
    if isinstance(value, bool) or dtype.kind == "b":
        is_value = dtype.kind == "b" and (isinstance(value, bool) or isinstance(value, int) and value in (0, 1))
    elif dtype.is_integer:
        is_value = (isinstance(value, int) or value.is_integer()) and dtype.lowest <= value <= dtype.highest
    else:
        is_value = _is_float_of(dtype, value)
    if not is_value:
        from ..kit.diag import refuse

        raise refuse("E1026", value=show_number(value), dtype=dtype, range=_range_of(dtype))
    return round_to(dtype, value)


def _is_float_of(dtype: DType, value: float | int) -> bool:
    try:
        wide = float(value)
    except OverflowError:
        return False
    if not math.isfinite(wide):
        return wide != wide or dtype.lowest == -math.inf
    return math.isfinite(round_to(dtype, wide))


def _range_of(dtype: DType) -> str:
    if dtype.kind == "b":
        return "true, false"
    if dtype.is_integer:
        return f"{dtype.lowest}..{dtype.highest}"
    top = show_number(_GREATEST[dtype.name], dtype)
    return f"-{top}..{top}, {'inf, ' if dtype.lowest == -math.inf else ''}nan"


_GREATEST = {
    "fp64": 1.7976931348623157e308, "fp32": 3.4028234663852886e38, "fp16": 65504.0,
    "bf16": 3.3895313892515355e38, "fp8e4m3": 448.0, "fp8e5m2": 57344.0,
}  # fmt: skip


def show_number(value: float | int | bool, dtype: DType | None = None) -> str:
    """The shortest spelling that reads back as the same value of `dtype` (default: as the same Python number)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value != value:
        return "nan"
    if value in (math.inf, -math.inf):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    if dtype is not None and dtype.is_float and dtype.bits < 64:
        for digits in range(1, 17):
            short = f"{value:.{digits}g}"
            if round_to(dtype, float(short)) == value:
                text = short if len(short) <= len(text) else text
                break
    return text if any(c in text for c in ".en") else text + ".0"


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape of a value: `fp16[M, K]`."""

    dtype: DType
    shape: tuple[Expr, ...]

    def __post_init__(self) -> None:
        if len(self.shape) > MOST_AXES:
            raise refuse("E0006", what=f"a tensor of {len(self.shape)} axes (at most {MOST_AXES})")

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)
