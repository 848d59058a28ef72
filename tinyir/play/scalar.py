"""Ops on single numbers, without NumPy: floats are never rounded to their dtype, so that two ways to compute one number
differ by what fp64 loses alone; integers wrap as their dtype does."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from ..ir.types import DType, round_to

Number = float | int | bool


class Unsaid(Exception):
    """What single numbers do not say: the bits of a float of 8 bits, or more steps than were given."""


def cast(value: Number, dtype: DType) -> Number:
    """A number as another dtype has it, floats unrounded: a float becomes an integer by dropping its fraction, within
    the range of the integer, and NaN becomes 0."""
    if dtype.is_float:
        return float(value)
    if dtype.kind == "b":
        return bool(value)
    if value.__class__ is not float:
        return round_to(dtype, value)
    if value != value:
        return 0
    return int(max(min(value, float(dtype.highest)), float(dtype.lowest)))


def applied(op: str, dtype: DType, operands: list[Any], source: DType) -> Number:
    """An elementwise op (its name in lower case) that gives `dtype`, of operands the first of which is of dtype
    `source`. Raises Unsaid."""
    if op == "cast":
        return cast(operands[0], dtype)
    if op == "bitcast":
        return _bits(operands[0], source, dtype)
    if op == "where":
        return operands[1] if operands[0] else operands[2]
    if op in ("max", "min"):
        return folded(op, *operands)
    if op in _COMPARED:
        return _COMPARED[op](*operands)
    if not dtype.is_float:
        return round_to(dtype, _INTEGER[op](*operands, dtype)) if op in _INTEGER else _unsaid()
    try:
        return _FLOAT[op](*operands) if op in _FLOAT else _unsaid()
    except OverflowError:
        return math.inf if op != "pow" or operands[0] >= 0 or operands[1] % 2 == 0 else -math.inf
    except ValueError:
        return math.nan


_WORDS = {"fp64": ("d", "Q", 0), "fp32": ("f", "I", 0), "fp16": ("e", "H", 0), "bf16": ("f", "I", 16)}


def _bits(value: Number, source: DType, dtype: DType) -> Number:
    """A number of the same bits: a float is rounded to its dtype first, since only numbers of that dtype have bits.
    What has 8 bits is unsaid where one side is a float."""
    if source == dtype:
        return value
    if source.is_float:
        code, word, shift = _WORDS.get(source.name) or _unsaid()
        value = struct.unpack(word, struct.pack(code, round_to(source, value)))[0] >> shift
    if not dtype.is_float:
        return round_to(dtype, value)
    code, word, shift = _WORDS.get(dtype.name) or _unsaid()
    return struct.unpack(code, struct.pack(word, (int(value) & (1 << dtype.bits) - 1) << shift))[0]


def folded(op: str, a: Any, b: Any) -> Any:
    """Two numbers as one: max and min of floats give NaN where one is."""
    if op in ("max", "min"):
        if a != a or b != b:
            return math.nan
        return (max if op == "max" else min)(a, b)
    return a + b if op == "sum" else a * b


def _unsaid() -> Any:
    raise Unsaid


def _divided(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floored(a: float, b: float) -> float:
    return a // b if b else _divided(a, b)


def _whole(rounded: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: float(rounded(x)) if math.isfinite(x) else x


def _root(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _log2(x: float) -> float:
    return math.log2(x) if x > 0 else -math.inf if x == 0 else math.nan


def _sign(x: Any) -> Any:
    return x if x != x else x.__class__((x > 0) - (x < 0))


def _float_power(a: float, b: float) -> float:
    return math.pow(a, b) if a or b >= 0 else math.inf


_FLOAT: dict[str, Callable[..., float]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": _sign,
    "recip": lambda x: _divided(1.0, x),
    "sqrt": _root,
    "rsqrt": lambda x: _divided(1.0, _root(x)),
    "exp2": lambda x: math.pow(2.0, x),
    "log2": _log2,
    "sin": math.sin,
    "tanh": math.tanh,
    "erf": math.erf,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _whole(round),
    "relu": lambda x: x if x != x or x > 0 else 0.0,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: float(a) * b,
    "fdiv": _divided,
    "idiv": lambda a, b: _FLOAT["trunc"](_divided(a, b)),
    "floordiv": _floored,
    "mod": lambda a, b: a % b if b and math.isfinite(a) else math.nan,
    "rem": lambda a, b: math.fmod(a, b) if b else math.nan,
    "pow": _float_power,
}


def _quotient(a: int, b: int) -> int:
    """Towards 0; 0 of a division by 0."""
    return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _integer_power(a: int, b: int, dtype: DType) -> int:
    if b >= 0:
        return pow(a, b, 1 << dtype.bits)
    return (a if b % 2 else 1) if a in (1, -1) else 0


def _shifted(a: int, b: int, dtype: DType) -> int:
    """To the right; by as many bits as there are, or by a negative number, the sign alone stays."""
    return a >> (b if 0 <= b < dtype.bits else dtype.bits)


_INTEGER: dict[str, Callable[..., int]] = {  # each is given the dtype too
    "neg": lambda x, _: -x,
    "abs": lambda x, _: abs(x),
    "sign": lambda x, _: _sign(x),
    "not": lambda x, d: not x if d.kind == "b" else ~x,
    "relu": lambda x, _: max(x, 0),
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "idiv": lambda a, b, _: _quotient(a, b),
    "floordiv": lambda a, b, _: a // b if b else 0,
    "mod": lambda a, b, _: a % b if b else 0,
    "rem": lambda a, b, _: a - b * _quotient(a, b) if b else 0,
    "pow": _integer_power,
    "and": lambda a, b, _: a & b,
    "or": lambda a, b, _: a | b,
    "xor": lambda a, b, _: a ^ b,
    "shl": lambda a, b, d: a << b if 0 <= b < d.bits else 0,
    "shr": _shifted,
}
_COMPARED: dict[str, Callable[..., bool]] = {
    "cmplt": lambda a, b: a < b,
    "cmpeq": lambda a, b: a == b,
    "cmpne": lambda a, b: a != b,
}
