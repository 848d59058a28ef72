"""Tensors from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import MAX_KNOWN, Term
from ..call import Call
from ..table import aten


def filled(call: Call, value: Any) -> Term:
    """A tensor of one number, of the type that the archive states."""
    dtype, shape = call.types[0]
    number = float(value) if dtype.is_float else bool(value) if dtype.kind == "b" else int(value)
    return call.expand(call.known(number, dtype), shape)


@aten("fill.Tensor")
def fill(call: Call) -> Any:
    """The number that a tensor without axes holds, everywhere."""
    return call.expand(call.cast(call.tensor("value"), call.dtype), call.shape)


@aten("full.default", "full_like.default", "new_full.default", "fill.Scalar")
def full(call: Call) -> Any:
    """One number everywhere."""
    return filled(call, call.get("value" if call.target.startswith("fill") else "fill_value", 0))


@aten("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default")
def zeros(call: Call) -> Any:
    """0 everywhere; what is empty may hold anything."""
    return filled(call, 0)


@aten(
    "new_empty.default", "new_empty_strided.default", "empty_strided.default", "empty_permuted.default", "zero.default"
)
def empty(call: Call) -> Any:
    """What is empty may hold anything: 0."""
    return filled(call, 0)


@aten("ones.default", "ones_like.default", "new_ones.default")
def ones(call: Call) -> Any:
    """1 everywhere."""
    return filled(call, 1)


@aten("scalar_tensor.default", "prims.scalar_tensor.default")
def scalar_tensor(call: Call) -> Any:
    """A tensor without axes."""
    return filled(call, call.get("s", 0))


@aten("arange.start_step", "arange.start", "arange.default")
def arange(call: Call) -> Any:
    """start, start + step, ..."""
    start, step, dtype = call.get("start", 0), call.get("step", 1), call.dtype
    line = call.op("Iota", shape=list(call.shape), dtype=dtype if dtype.is_integer else None)
    line = call.cast(line, dtype)
    if step != 1:
        line = call.fn("mul", line, float(step) if dtype.is_float else step)
    if isinstance(start, Expr):
        return call.fn("add", line, call.cast(call.known(start, "i64"), dtype))
    return line if start == 0 else call.fn("add", line, float(start) if dtype.is_float else start)


@aten("logspace.default")
def logspace(call: Call) -> Any:
    """The powers of a base with such numbers."""
    if call.dtype.is_integer:
        return _whole(call, np.power(float(call.get("base", 10)), _between(call)))
    return call.fn("pow", call.known(float(call.get("base", 10)), call.dtype), linspace(call))


@aten("linspace.default")
def linspace(call: Call) -> Any:
    """`steps` numbers from start to end, both included."""
    if call.dtype.is_integer:
        return _whole(call, _between(call))
    start, end, steps = float(call.get("start", 0)), float(call.get("end", 0)), call.get("steps", 1)
    if not isinstance(steps, int):
        raise call.fault(Phrase("its number of steps is a symbol"))
    line = call.cast(call.op("Iota", shape=[steps]), call.dtype)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return call.fn("add", call.fn("mul", line, step), start)


def _between(call: Call) -> np.ndarray:
    """Such numbers from an integer to another, in fp64: those of the second half from the end, as torch has them."""
    start, end, steps = int(call.get("start", 0)), int(call.get("end", 0)), call.get("steps", 1)
    if not isinstance(steps, int) or steps > MAX_KNOWN:
        raise call.fault(Phrase("its number of steps is a symbol, or too large"))
    place, step = np.arange(steps), (end - start) / max(steps - 1, 1)
    return np.where(place < steps // 2, start + step * place, end - step * (steps - 1 - place))


def _whole(call: Call, numbers: np.ndarray) -> Term:
    """Numbers without their fractions."""
    with np.errstate(invalid="ignore"):
        return call.known(numbers.astype(call.dtype.numpy), call.dtype)


@aten("eye.default", "eye.m")
def eye(call: Call) -> Any:
    """1 on the diagonal."""
    rows, columns = call.shape
    row = call.op("Iota", shape=[rows, 1], axis=0, part="row")
    column = call.op("Iota", shape=[1, columns], axis=1, part="column")
    return call.fn("equal", row, column)


@aten("tril_indices.default", "triu_indices.default")
def triangle_indices(call: Call) -> Any:
    """The rows and the columns of a triangle's elements."""
    rows, columns, offset = call.args["row"], call.args["col"], call.get("offset", 0)
    if not isinstance(rows, int) or not isinstance(columns, int) or rows * columns > MAX_KNOWN:
        raise call.fault(Phrase("its matrix has {rows} x {columns} elements", rows=rows, columns=columns))
    indices = np.tril_indices if call.target.startswith("tril") else np.triu_indices
    return call.known(np.stack(indices(rows, offset, columns)), call.dtype)
