"""What is computed from constants alone is a constant.

    in x : fp32[N]
    %two = CONST() {value=2.0} : fp32[]
    %half = RECIP(%two) : fp32[]
    %wide = EXPAND(%half) : fp32[N]
    %y = MUL(x, %wide) : fp32[N]
->
    in x : fp32[N]
    %two = CONST() {value=2.0} : fp32[]
    %half = CONST() {value=0.5} : fp32[]
    %wide = CONST() {value=0.5} : fp32[N]
    %y = MUL(x, %wide) : fp32[N]

A splat folds to a splat of any size. Literals fold to literals of at most MOST_ELEMENTS, from at most MOST_WORK
elements, so that a text never grows. What is undefined stays: integer division by zero, a shift by more bits than there
are.
"""

from __future__ import annotations

from typing import Any

from ...ir.attrs import flat, show_attr
from ...ir.expr import Expr
from ...ir.ops import OPS
from ...ir.tiny import Module, Value
from ...ir.types import DType, TensorType
from ...kit.records import replace
from .graph import with_operands, with_values

MOST_ELEMENTS = 64
MOST_WORK = 4096
_REPEATED = ("RESHAPE", "PERMUTE", "EXPAND", "FLIP")  # of a splat they give a splat, whatever the sizes
_BOUNDED = ("SHRINK", "PAD", "VALID", "VIEW", "REDUCE")


def fold_constants(module: Module) -> Module:
    """The module in which what constants settle is a CONST, and a WHERE by a constant is its branch."""
    constants: dict[str, Value] = {}
    names: dict[str, str] = {}
    kept = []
    for value in module.values:
        value = with_operands(value, names)
        value = _folded(value, [constants.get(o) for o in value.operands])
        if value.op == "CONST":
            constants[value.name] = value
        if (
            value.op == "WHERE"
            and value.operands[0] in constants
            and isinstance(constants[value.operands[0]].attr("value"), bool)
        ):
            names[value.name] = value.operands[1 if constants[value.operands[0]].attr("value") else 2]
            continue
        kept.append(value)
    return with_values(module, kept, names)


def _folded(value: Value, operands: list[Value | None]) -> Value:
    """The value as a CONST where its operands settle it; else itself."""
    if value.op == "CONST":
        return _constant(value, value.attr("value"))
    if not operands or None in operands or any(isinstance(o.attr("value"), Expr) for o in operands):
        return _resized(value, operands)
    stated = [o.attr("value") for o in operands]
    is_splat = not any(isinstance(s, tuple) for s in stated)
    if is_splat and value.op in _REPEATED:
        return _constant(value, stated[0])
    if (
        is_splat
        and value.op in ("PAD", "VALID")
        and _text(stated[0], value.type.dtype) == _text(value.fill, value.type.dtype)
    ):
        return _constant(value, stated[0])
    if OPS[value.op].is_elementwise:
        if _is_undefined(value.op, operands):
            return value
        return (
            _constant(value, _evaluated(value, operands, () if is_splat else None))
            if is_splat or _is_small(value.type)
            else value
        )
    if (
        value.op in _REPEATED + _BOUNDED
        and _is_small(value.type)
        and all(_count(o.type) is not None and _count(o.type) <= MOST_WORK for o in operands)
    ):
        return _constant(value, _evaluated(value, operands, None))
    return value


def _resized(value: Value, operands: list[Value | None]) -> Value:
    """A constant that is a size, `3*N + 1`, repeated to another shape; else the value itself."""
    if value.op in _REPEATED and operands[0] is not None:
        return _constant(value, operands[0].attr("value"))
    return value


def _constant(value: Value, number: Any) -> Value:
    """A CONST in the value's place; a literal of one number all over is that number."""
    if isinstance(number, tuple):
        elements = flat(number)
        texts = {_text(n, value.type.dtype) for n in elements}
        number = elements[0] if len(texts) == 1 else number
    if value.op == "CONST" and number is value.attr("value"):
        return value
    return replace(value, op="CONST", operands=(), attrs=(("value", number),))


def _text(number: Any, dtype: DType) -> str:
    from ...ir.types import round_to

    return show_attr("literal", number if isinstance(number, Expr) else round_to(dtype, number), dtype)


def _is_undefined(op: str, operands: list[Value]) -> bool:
    dtype = operands[0].type.dtype
    if op not in ("IDIV", "FLOORDIV", "MOD", "REM", "SHL", "SHR", "POW") or dtype.is_float:
        return False
    numbers = [int(n) for n in flat(operands[1].attr("value"))]
    if op in ("SHL", "SHR"):
        return not all(0 <= n < dtype.bits for n in numbers)
    return any(n < 0 for n in numbers) if op == "POW" else 0 in numbers


def _count(type: TensorType) -> int | None:
    """The number of elements; None where a size is a symbol."""
    total = 1
    for size in type.shape:
        if size.constant is None:
            return None
        total *= size.constant
    return total


def _is_small(type: TensorType) -> bool:
    count = _count(type)
    return count is not None and 0 < count <= MOST_ELEMENTS


def _evaluated(value: Value, operands: list[Value], shape: tuple[()] | None) -> Any:
    """What NumPy gives, as numbers and nested tuples. With `shape` every splat is one element."""
    import numpy as np

    from ...ir.evaluate import evaluate, literal

    arrays = []
    for operand in operands:
        array = literal(operand.attr("value"), operand.type.dtype)
        sizes = () if shape is not None else tuple(d.constant for d in operand.type.shape)
        arrays.append(np.broadcast_to(array, sizes))
    return _plain(evaluate(value, arrays, {}).tolist())


def _plain(item: Any) -> Any:
    return tuple(_plain(i) for i in item) if isinstance(item, list) else item
