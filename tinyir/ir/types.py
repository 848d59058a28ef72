"""Dtypes and tensor types, shared by every language.

Text: `fp16[M, K]`, `fp32[]`. A shape is a tuple of Expr (ir.expr): integers, symbols of the signature, and sums,
products and floors of them.
"""

from __future__ import annotations

import functools
import math
import struct

from ..kit.diag import refuse
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..target.dtypes import DTYPES, DType
from .expr import Expr

PLACES = (DTYPES["i32"], DTYPES["i64"])  # hold every place along an axis; narrower integers wrap, floats round
MOST_AXES = 32  # of a tensor: as many as NumPy has, so that all can be played back


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
    is_zero = value.__class__ is float and value == 0.0  # 0.0 and -0.0 would be one key
    return _stated(dtype, value) if is_zero else _number_of(dtype, value)


def _stated(dtype: DType, value: float | int | bool) -> float | int | bool:
    if isinstance(value, bool) or dtype.kind == "b":
        is_value = dtype.kind == "b" and (isinstance(value, bool) or isinstance(value, int) and value in (0, 1))
    elif dtype.is_integer:
        is_value = (isinstance(value, int) or value.is_integer()) and dtype.lowest <= value <= dtype.highest
    else:
        is_value = _is_float_of(dtype, value)
    if not is_value:
        raise refuse("E1026", value=show_number(value), dtype=dtype, range=_range_of(dtype))
    return round_to(dtype, value)


_number_of = functools.lru_cache(maxsize=4096, typed=True)(_stated)  # tables have few numbers


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
    if not value:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    return _shortest(float(value), dtype)


@functools.lru_cache(maxsize=4096)
def _shortest(value: float, dtype: DType | None) -> str:
    """The spelling of a number other than 0, of which tables have few."""
    text = repr(value)
    if dtype is not None and dtype.is_float and dtype.bits < 64:
        for digits in range(1, 17):
            short = f"{value:.{digits}g}"
            if round_to(dtype, float(short)) == value:
                text = short if len(short) <= len(text) else text
                break
    return text if any(c in text for c in ".en") else text + ".0"


def is_below_zero(size: Expr) -> bool:
    """Whether no term of a size can be above 0: -4, -N, -2*N - 1."""
    return all(c < 0 and all(isinstance(atom, str) for atom in product) for c, product in size.terms)


@dataclass(frozen=True, slots=True, keeps_hash=True)
class TensorType:
    """dtype and shape of a value: `fp16[M, K]`. Raises Refused (E0006 too many axes, E0111 a size below 0)."""

    dtype: DType
    shape: tuple[Expr, ...]

    def __post_init__(self) -> None:
        for size in self.shape:
            if size.terms and size.terms[0][0] < 0 and is_below_zero(size):
                raise refuse("E0111", given=size)
        if len(self.shape) > MOST_AXES:
            raise refuse(
                "E0006", what=Phrase("a tensor of {count} axes (at most {most})", count=len(self.shape), most=MOST_AXES)
            )

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)
