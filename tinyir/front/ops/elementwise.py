"""Elementwise with `fn`: arithmetic, comparison, logic, and the choices among them. The functions of one variable that
are made of several tiny ops are in `functions`. Operands are promoted to one dtype and broadcast, aligned at the
right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.rules import broadcast_mismatch
from ...ir.types import DTYPES, TensorType, round_to
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Literal, Operand, Ref
from . import functions
from .table import MANY, Attr, Attrs, elementwise, front_op

_BINARY = {
    "sub": "SUB",
    "floordiv": "FLOORDIV",
    "mod": "MOD",
    "rem": "REM",
    "less": "CMPLT",
    "equal": "CMPEQ",
    "not_equal": "CMPNE",
    "shift_left": "SHL",
    "shift_right": "SHR",
}
_FOLDED = {"add": "ADD", "mul": "MUL", "max": "MAX", "min": "MIN", "and": "AND", "or": "OR", "xor": "XOR"}
_UNARY = {
    "neg": "NEG",
    "abs": "ABS",
    "sign": "SIGN",
    "reciprocal": "RECIP",
    "sqrt": "SQRT",
    "rsqrt": "RSQRT",
    "exp2": "EXP2",
    "log2": "LOG2",
    "sin": "SIN",
    "tanh": "TANH",
    "erf": "ERF",
    "floor": "FLOOR",
    "ceil": "CEIL",
    "trunc": "TRUNC",
    "round": "ROUND",
    "not": "NOT",
    "relu": "RELU",
}
TINY_OP_OF = {**_UNARY, **_BINARY, **_FOLDED}  # the functions that are one op of tiny text
_KEEP_INTEGERS = ("FLOOR", "CEIL", "TRUNC", "ROUND")


def as_ref(b: Builder, operand: Operand) -> Ref:
    """The operand as a value: a lone literal is a scalar of bool, i32 or fp32."""
    if isinstance(operand, Ref):
        return operand
    kind = {bool: "bool", int: "i32"}.get(type(operand.value), "fp32")
    return b.const(operand.value, DTYPES[kind])


def _unary(op: str) -> Callable[..., Ref]:
    def lower(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
        x = as_ref(b, operands[0])
        return x if op in _KEEP_INTEGERS and not x.dtype.is_float else b.emit(op, x)

    return lower


def _binary(op: str) -> Callable[..., Ref]:
    return lambda b, operands, attrs: b.apply(op, *operands)


def _folded(op: str) -> Callable[..., Ref]:
    def lower(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
        found, *rest = b.agree(*operands)
        for other in rest:
            found = b.emit(op, found, other)
        return found

    return lower


def _composed(fn: Callable[..., Ref]) -> Callable[..., Ref]:
    def lower(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
        return functions.in_wide(b, as_ref(b, operands[0]), lambda x: fn(b, x, **attrs))

    return lower


for _fn, _op in _UNARY.items():
    elementwise(_fn, 1)(_unary(_op))
for _fn, _op in _BINARY.items():
    elementwise(_fn, 2)(_binary(_op))
for _fn, _op in _FOLDED.items():
    elementwise(_fn, (2, MANY))(_folded(_op))
for _fn, (_lower, _attrs) in functions.TABLE.items():
    elementwise(_fn, 1, _attrs)(_composed(_lower))


@elementwise("identity", 1)
def identity(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The operand itself."""
    return as_ref(b, operands[0])


@elementwise("div", 2)
def div(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The quotient: of floats as IEEE has it, of integers with the fraction dropped."""
    x, y = b.agree(*operands)
    return b.emit("FDIV" if x.dtype.is_float else "IDIV", x, y)


@elementwise("pow", 2)
def power(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x ** y in the dtype of x, or in the promoted one when x is an integer and y is not."""
    x, y = operands
    if isinstance(x, Ref) and isinstance(y, Ref) and (x.dtype.is_float or not y.dtype.is_float):
        x, y = b.agree(x, y, dtype=x.dtype)
    else:
        x, y = b.agree(x, y)
    return functions.in_wide(b, x, lambda wide: b.emit("POW", wide, b.cast(y, wide.dtype)))


@elementwise("mean", (2, MANY))
def mean(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The mean of the operands, element by element."""
    first, *rest = b.agree(*operands)

    def average(x: Ref) -> Ref:
        for other in rest:
            x = b.emit("ADD", x, b.cast(other, x.dtype))
        return b.emit("FDIV", x, b.const(len(operands), x.dtype, x.shape))

    return functions.in_wide(b, first, average)


def _greater(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    x, y = b.agree(*operands)
    return b.emit("CMPLT", y, x)


def _or_equal(is_less: bool) -> Callable[..., Ref]:
    def lower(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
        x, y = b.agree(*operands)
        low, high = (x, y) if is_less else (y, x)
        if not x.dtype.is_float:
            return b.emit("NOT", b.emit("CMPLT", high, low))
        return b.emit(
            "OR", b.emit("CMPLT", low, high), b.emit("CMPEQ", low, high)
        )  # not the NOT of the opposite: NaN is neither

    return lower


elementwise("greater", 2)(_greater)
elementwise("less_equal", 2)(_or_equal(True))
elementwise("greater_equal", 2)(_or_equal(False))


@elementwise("prelu", 2)
def prelu(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x where x >= 0, slope * x where x < 0."""
    x, slope = b.agree(*operands)
    return b.emit("WHERE", b.emit("CMPLT", x, b.const(0, x.dtype, x.shape)), b.emit("MUL", x, slope), x)


@elementwise("atan2", 2)
def atan2(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The angle of (x, y), the first operand being y."""
    y, x = b.agree(*operands)
    return functions.in_wide(b, y, lambda wide: functions.atan2(b, wide, b.cast(x, wide.dtype)))


@front_op("Where", inputs=3)
@elementwise("where", 3)
def where(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The second operand where the first, of bool, is true, else the third."""
    condition, *branches = operands
    condition = as_ref(b, condition)
    if condition.dtype.kind != "b":
        raise refuse("E1002", fault=Phrase("Where chooses by bool, not by {dtype}", dtype=condition.dtype))
    if all(isinstance(o, Literal) for o in branches):
        branches[0] = as_ref(b, branches[0])
    return b.apply("WHERE", condition, *branches)


_CLIP = [Attr("min", "number", None), Attr("max", "number", None)]


@front_op("Clip", inputs=(1, 3), attrs=_CLIP)
@elementwise("clip", (1, 3), _CLIP)
def clip(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """min(max(x, low), high); the limits are attributes, or the second and third operand. NaN stays NaN."""
    found = as_ref(b, operands[0])
    for position, (op, limit) in enumerate((("MAX", attrs.min), ("MIN", attrs.max)), 1):
        if position < len(operands):
            if limit is not None:
                raise refuse("E0108", key="min" if op == "MAX" else "max")
            bound = operands[position]
        elif limit is None:
            continue
        else:
            bound = Literal(limit)
        if isinstance(bound, Literal) and found.dtype.kind != "b" and bound.value == bound.value:
            bound = Literal(_within(bound.value, found.dtype, op))
        limits = b.agree(found, bound, dtype=found.dtype)
        if limits[0].shape != found.shape:
            raise broadcast_mismatch(found.type, bound.type, "")
        found = b.emit(op, *limits)
    return found


def _within(limit: float, dtype: Any, op: str) -> int | float:
    """The limit as a value of the dtype that clips to the same values: infinities and far limits are the dtype's
    ends."""
    import math

    if limit <= dtype.lowest:
        return dtype.lowest
    if limit >= dtype.highest:
        return dtype.highest
    if dtype.is_float:
        rounded = round_to(dtype, limit)
        return limit if math.isfinite(rounded) else dtype.lowest if limit < 0 else dtype.highest
    return math.ceil(limit) if op == "MAX" else math.floor(limit)


@elementwise("bitcast", 1, [Attr("to", "dtype")])
def bitcast(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The operand's bits as dtype `to`, which is as wide."""
    x = as_ref(b, operands[0])
    return x if x.dtype == attrs.to else b.emit("BITCAST", x, type=TensorType(attrs.to, x.shape))


@front_op("Cast", inputs=1, attrs=[Attr("to", "dtype")])
@elementwise("cast", 1, [Attr("to", "dtype")])
def cast(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The operand as dtype `to`."""
    return b.cast(as_ref(b, operands[0]), attrs.to)
