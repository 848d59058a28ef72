"""What folds accumulate in: the wider dtype, the element that changes nothing, and the casts to and from it."""

from __future__ import annotations

from ..kit.records import replace
from .body import Body, Literal, Reduce, Select, Unary
from .ops import REDUCERS
from .types import DTYPES, DType

WIDE = {
    "fp16": "fp32",
    "bf16": "fp32",
    "fp8e4m3": "fp32",
    "fp8e5m2": "fp32",
    "i8": "i32",
    "i16": "i32",
    "u8": "u32",
    "u16": "u32",
}


def wide(dtype: DType) -> DType:
    """The dtype that arithmetic on `dtype` is done in: every value of `dtype` is one of it."""
    return DTYPES[WIDE.get(dtype.name, dtype.name)]


def cast(body: Body, dtype: DType) -> Body:
    """The expression in another dtype; inside a guard the read alone is cast."""
    if body.dtype == dtype:
        return body
    if isinstance(body, Select) and isinstance(body.other, Literal) and body.other.value == 0:
        return Select(body.guard, cast(body.then, dtype), literal(0, dtype), dtype)
    return Unary("cast", body, dtype)


def literal(value: float | int | bool, dtype: DType) -> Literal:
    """A number as the dtype has it."""
    return Literal(float(value) if dtype.is_float else bool(value) if dtype.kind == "b" else int(value), dtype)


def neutral_of(op: str, dtype: DType) -> Literal:
    """What leaves every value of the dtype as it is under the reducer."""
    neutral = REDUCERS[op.upper()].neutral
    return literal(getattr(dtype, neutral) if isinstance(neutral, str) else neutral, dtype)


def start_of(op: str, dtype: DType) -> Literal:
    """What a fold of elements of `dtype` starts from, in the wider dtype that it is computed in: the neutral element of
    `dtype`, which a fold of no element leaves. That of the wider one would be rounded to another number."""
    return literal(neutral_of(op, dtype).value, wide(dtype))


def widened(fold: Reduce) -> Reduce:
    """A fold as it is computed: sums of 16 and 8 bits in 32, so that they are rounded once; argmax gives places, which
    are not rounded."""
    return replace(fold, dtype=wide(fold.dtype)) if is_plain(fold.op) else fold


def is_plain(op: str) -> bool:
    """Whether one binary op folds; argmax and argmin need a value and a place."""
    return REDUCERS[op.upper()].fold is not None


def fold_word(op: str, dtype: DType) -> str:
    """The binary op of a plain reducer of elements of `dtype`, as bodies spell it."""
    return REDUCERS[op.upper()].fold_of(dtype.kind).lower()
