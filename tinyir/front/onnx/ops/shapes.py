"""Constants, shapes, and tensors that are made from sizes alone. A shape is known even where its sizes are symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.expr import Expr
from ....ir.rules import product
from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import MAX_KNOWN, known
from ..constants import array_of, term_of
from ..elements import element_of
from ..node import Node
from ..table import onnx_op


@onnx_op("Constant")
def constant(node: Node) -> Any:
    """The value that an attribute states."""
    for key, dtype in (("value_float", "fp32"), ("value_floats", "fp32"), ("value_int", "i64"), ("value_ints", "i64")):
        if key in node.attrs:
            return known(node.attrs[key], dtype)
    tensor = node.attr("value")
    if tensor is None:
        raise node.fault(Phrase("it states a string or a sparse tensor"))
    if not tensor.name:
        tensor.name = node.outputs[0]
    term = term_of(tensor)
    if term.known is None:
        tensor.name = node.outputs[0]
    return term


@onnx_op("Shape")
def shape(node: Node) -> Any:
    """The sizes of the axes `start` to `end`."""
    sizes = node.input(0).shape
    start, end = node.attr("start", 0), node.attr("end", len(sizes))
    start, end = (max(0, min(len(sizes), n + len(sizes) if n < 0 else n)) for n in (start, end))
    return known(_sizes(sizes[start:end]), "i64")


@onnx_op("Size")
def size(node: Node) -> Any:
    """The number of elements."""
    return known(_sizes([product(node.input(0).shape)]).reshape(()), "i64")


def _sizes(sizes: Sequence[Expr]) -> np.ndarray:
    found = np.empty(len(sizes), object)
    found[:] = list(sizes)
    return found if len(sizes) else found.astype(np.int64)


@onnx_op("ConstantOfShape")
def constant_of_shape(node: Node) -> Any:
    """One number everywhere."""
    sizes = node.ints(0)
    tensor = node.attr("value")
    dtype, form = element_of(tensor.data_type, node.name) if tensor is not None else (DTYPES["fp32"], "")
    value = array_of(tensor).reshape(-1)[:1] if tensor is not None else np.zeros(1, np.float32)
    if form or any(isinstance(n, int) and n < 0 for n in sizes):
        raise node.fault(
            Phrase("its value has the form {form}", form=form) if form else Phrase("its shape is {sizes}", sizes=sizes)
        )
    if all(isinstance(n, int) for n in sizes) and int(np.prod(sizes, dtype=np.float64)) <= MAX_KNOWN:
        return known(np.broadcast_to(value[0], sizes), dtype)
    return node.op("Expand", known(value[0], dtype), shape=sizes)


@onnx_op("EyeLike")
def eye_like(node: Node) -> Any:
    """Ones on the k-th diagonal of a matrix of the input's shape."""
    x = node.input(0)
    dtype, form = element_of(node.attr("dtype"), node.name) if "dtype" in node.attrs else (x.dtype, x.form)
    if x.rank != 2 or form:
        raise node.fault(
            Phrase("its input has {rank} axes", rank=x.rank)
            if x.rank != 2
            else Phrase("its result has the form {form}", form=form)
        )
    rows, columns = (node.op("Iota", shape=list(x.shape), axis=a) for a in (0, 1))
    diagonal = node.fn(
        "equal", node.fn("add", rows, node.known(node.attr("k", 0), "i64")) if node.attr("k", 0) else rows, columns
    )
    return node.fn("cast", diagonal, to=dtype)


@onnx_op("Range")
def range_op(node: Node) -> Any:
    """start, start + delta, ... before limit. The number of elements must be known; for floats it is counted as the
    standard counts it."""
    start, limit, delta = (node.scalar(i) for i in range(3))
    dtype = node.input(0).dtype
    if (
        isinstance(delta, Expr)
        or delta == 0
        or any(isinstance(n, float) and not math.isfinite(n) for n in (start, limit, delta))
    ):
        raise node.fault(Phrase("it goes from {start} to {limit} by {delta}", start=start, limit=limit, delta=delta))
    if isinstance(start, Expr) or isinstance(limit, Expr):
        if delta not in (1, -1):
            raise node.fault(Phrase("its limits are symbols and delta is not 1"))
        count = (Expr.of(limit) - start) * delta
    else:
        count = Expr.of(max(0, math.ceil((limit - start) / delta)))
        if dtype.is_integer and count.constant <= MAX_KNOWN:
            return known(start + delta * np.arange(count.constant), dtype)
    wide = dtype if dtype.bits >= 32 else DTYPES["fp32" if dtype.is_float else "i32"]
    found = node.cast(node.op("Iota", shape=[count]), wide)
    if delta != 1:
        found = node.fn("mul", found, known(delta, wide))
    if start != 0:
        found = node.fn("add", found, known(start, wide))
    return node.cast(found, dtype)
