"""Number formats that tiny has no dtype for, kept in u8 or i8: Encode and Decode.

Integers of 4 and 2 bits are kept as the number itself. A narrow float is kept as its bits: its value is looked up, and
its code is counted: a code is the number of its format's rounding thresholds that the operand reaches.
"""

from __future__ import annotations

import math

from ...ir.expr import Expr
from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ..builder import Builder, Operand, Ref
from .contraction import tensor
from .table import Attr, Attrs, front_op

_INTEGERS = {"i4": (4, True), "u4": (4, False), "i2": (2, True), "u2": (2, False)}


@dataclass(frozen=True, slots=True)
class Format:
    """A narrow float: `values` of its codes without a sign; `sign` is the sign bit (0: it has none), `nan` the code
    that NaN gets, and `has_minus_zero` says whether the sign bit alone is a zero."""

    values: tuple[float, ...]
    sign: int
    nan: int
    has_minus_zero: bool


def _scale(exponent_bits: int, digits: int, bias: int) -> tuple[float, ...]:
    """The values of the codes of a format: subnormals, then exponents from 1 on, `digits` bits of fraction each."""
    fraction = 1 << digits
    low = [math.ldexp(m / fraction, 1 - bias) for m in range(fraction)]
    return (
        *low,
        *(math.ldexp(1 + m / fraction, e - bias) for e in range(1, 1 << exponent_bits) for m in range(fraction)),
    )


FORMATS = {
    "fp8e4m3fnuz": Format(_scale(4, 3, 8), 128, 128, False),
    "fp8e5m2fnuz": Format(_scale(5, 2, 16), 128, 128, False),
    "fp4e2m1": Format(_scale(2, 1, 1), 8, 8, True),
    "fp8e8m0": Format(tuple(math.ldexp(1.0, e - 127) for e in range(255)), 0, 255, False),
}
_WORDS = (*FORMATS, *_INTEGERS)


@front_op("Decode", inputs=1, attrs=[Attr("format", "word", words=_WORDS)])
def decode(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The numbers that codes of a format are, as fp32; numbers of 4 and 2 bits as they are kept."""
    x = tensor(operands[0], "Decode", 0)
    if attrs.format in _INTEGERS:
        return x
    if x.dtype.name != "u8":
        raise refuse("E1002", fault=Phrase("codes are kept as u8, not {dtype}", dtype=x.dtype))
    form = FORMATS[attrs.format]
    table = [*form.values, *([math.nan] if not form.sign else [-v for v in form.values])]
    if form.sign and not form.has_minus_zero:
        table[form.nan] = math.nan
    lookup = b.const(tuple(table), DTYPES["fp32"], (Expr.of(len(table)),), part="table")
    return b.emit("GATHER", lookup, x, axis=0)


_ENCODE = [
    Attr("format", "word", words=_WORDS),
    Attr("saturate", "flag", True),
    Attr("rounding", "word", "nearest", words=("nearest", "up", "down")),
]


@front_op("Encode", inputs=1, attrs=_ENCODE)
def encode(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The codes of numbers: rounded to nearest even (fp8e8m0: as `rounding` says, ties up), beyond the greatest to that
    if `saturate`, else to NaN. Integers of 4 and 2 bits wrap."""
    x = tensor(operands[0], "Encode", 0)
    if attrs.format in _INTEGERS:
        return _wrapped(b, x, *_INTEGERS[attrs.format])
    form = FORMATS[attrs.format]
    wide = x if x.dtype.is_float and x.dtype.bits >= 32 else b.cast(x, DTYPES["fp32"])
    i32, shape = DTYPES["i32"], x.shape
    size = b.emit("ABS", wide) if form.sign else wide
    limits = _thresholds(form, attrs.saturate or attrs.format == "fp4e2m1", attrs.rounding, wide.dtype.bits)
    whole = (*shape, Expr.of(len(limits)))
    line = b.const(tuple(limits), wide.dtype, (Expr.of(len(limits)),), part="thresholds")
    reached = b.emit(
        "NOT", b.emit("CMPLT", b.spread(size, whole, range(len(shape))), b.spread(line, whole, [len(shape)]))
    )
    code = b.reduce(b.cast(reached, i32), "SUM", [len(shape)], i32)

    def k(value: int) -> Ref:
        return b.const(value, i32, shape)

    zero = b.const(0, wide.dtype, shape)
    if form.sign:
        is_negative = b.emit("OR", b.emit("CMPLT", wide, zero), b.emit("CMPLT", b.emit("RECIP", wide), zero))
        if not form.has_minus_zero:
            is_negative = b.emit("AND", is_negative, b.emit("CMPLT", k(0), code))
        code = b.emit(
            "WHERE",
            b.emit("CMPEQ", code, k(len(form.values))),
            k(form.nan),
            b.emit("ADD", code, b.emit("WHERE", is_negative, k(form.sign), k(0))),
        )
    elif not attrs.saturate:
        is_below = b.emit("CMPLT", wide, b.const(form.values[0], wide.dtype, shape))
        code = b.emit("WHERE", is_below, k(form.nan), code)
    return b.cast(b.emit("WHERE", b.emit("CMPNE", wide, wide), k(form.nan), code), DTYPES["u8"])


def _wrapped(b: Builder, x: Ref, bits: int, is_signed: bool) -> Ref:
    wide = b.cast(x, DTYPES["i32"])
    low = b.emit("AND", wide, b.const((1 << bits) - 1, wide.dtype, x.shape))
    if is_signed:
        half = b.const(1 << (bits - 1), wide.dtype, x.shape)
        low = b.emit("SUB", b.emit("XOR", low, half), half)
    return b.cast(low, DTYPES["i8" if is_signed else "u8"])


def _thresholds(form: Format, saturates: bool, rounding: str, bits: int) -> list[float]:
    """The least number that rounds to code 1, to code 2, ...; and, unless it saturates, to one beyond the last."""
    values = [*form.values] + (
        [] if saturates else [2 * form.values[-1] - form.values[-2] if form.sign else 2 * form.values[-1]]
    )
    found = []
    for code, (low, high) in enumerate(zip(values, values[1:]), 1):
        if not form.sign:
            found.append(high if rounding == "down" else _next(low, bits) if rounding == "up" else (low + high) / 2)
        else:
            middle = (low + high) / 2
            found.append(middle if code % 2 == 0 else _next(middle, bits))
    return found


def _next(number: float, bits: int) -> float:
    """The next greater positive number of 32 or 64 bits."""
    import struct

    code, whole = ("f", "I") if bits == 32 else ("d", "Q")
    (found,) = struct.unpack(code, struct.pack(whole, struct.unpack(whole, struct.pack(code, number))[0] + 1))
    return found
