"""What a name of a model is while it is translated: a tensor of the program, or a value that is known
beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.expr import Expr
from ...ir.types import DTYPES, DType
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ..builder import Ref

MAX_KNOWN = 1 << 16  # elements of a value that is still folded


@dataclass(slots=True, eq=False)
class Term:
    """A tensor. `known` is its value where that is known: a NumPy array, of Exprs (dtype object) when sizes are
    symbols. `name` and `ref` are its word in the program and its twin in the builder, empty until it is put there.
    `form` says how elements that no dtype has are kept: `i4`, `u4`, `i2`, `u2` as the same number, the narrow floats as
    their bits."""

    dtype: DType
    shape: tuple[Expr, ...]
    known: np.ndarray | None = None
    name: str = ""
    ref: Ref | None = None
    form: str = ""
    tensor: Any = None  # of the model, where its elements have not been read yet: what `Sources` knows
    label: str = ""  # what the model calls a value that is known

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.shape)


def known(value: Any, dtype: DType | str, form: str = "") -> Term:
    """The term of a value: an array, a number, an Expr, or nested lists of them. Exprs without symbols become
    numbers."""
    dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
    array = value if isinstance(value, np.ndarray) else _array(value)
    if array.dtype == object:
        sizes = [Expr.of(e) for e in array.reshape(-1).tolist()]
        if all(e.constant is not None for e in sizes):
            array = np.array([e.constant for e in sizes], np.int64).reshape(array.shape)
        elif not dtype.is_integer:
            raise ValueError(Phrase("a size that is not an integer"))
        else:
            whole = np.empty(len(sizes), object)
            whole[:] = sizes
            array = whole.reshape(array.shape)
    if array.dtype != object:
        array = array.astype(array_dtype(dtype), copy=False)
    return Term(dtype, tuple(Expr.of(n) for n in array.shape), array, form=form)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Expr):
        found = np.empty((), object)
        found[()] = value
        return found
    if isinstance(value, (list, tuple)) and any(isinstance(v, Expr) for v in value):
        found = np.empty(len(value), object)
        found[:] = [Expr.of(v) for v in value]
        return found
    return np.asarray(value)


def array_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype of a known value."""
    if dtype.numpy in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, dtype.numpy))
    return np.dtype(dtype.numpy)
