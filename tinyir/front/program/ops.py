"""The way to put ops into a program: what a translation of a node is written with, whatever the model's language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.expr import Expr
from ...ir.types import DTYPES, DType
from .program import Program, Value
from .terms import MAX_KNOWN, Term, known


class Ops:
    """Ops under names that begin with `name`."""

    def __init__(self, name: str, program: Program):
        self.name = name
        self.program = program

    def op(
        self, op: str, /, *operands: Value, outputs: int = 1, part: str = "", gives: DType | None = None, **attrs: Any
    ) -> Any:
        """One op of the front ends: its term, or a tuple of `outputs` terms. `gives` is what the first shall be, where
        the op has another dtype."""
        found = self.program.op(op, operands, f"{self.name}.{part or op.lower()}", outputs, dtypes=[gives], **attrs)
        return found[0] if outputs == 1 else tuple(found)

    def fn(self, fn: str, /, *operands: Value, part: str = "", gives: DType | None = None, **attrs: Any) -> Term:
        """One Elementwise op."""
        (found,) = self.program.op("Elementwise", operands, f"{self.name}.{part or fn}", fn=fn, dtypes=[gives], **attrs)
        return found

    def known(self, value: Any, dtype: DType | str, form: str = "") -> Term:
        """A value as a term."""
        return known(value, dtype, form)

    def cast(self, x: Term, dtype: DType | str) -> Term:
        """`x` as `dtype`; itself when it has it."""
        dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        if x.dtype == dtype:
            return x
        if (
            x.known is not None
            and x.known.dtype != object
            and x.known.size <= MAX_KNOWN
            and dtype.bits > 8
            and (x.dtype.kind in "iub" or dtype.is_float)
        ):
            return known(x.known, dtype)
        return self.fn("cast", x, to=dtype)

    def reshape(self, x: Term, shape: Sequence[Any]) -> Term:
        """`x` with another shape, which may hold symbols; itself when it has it."""
        wanted = tuple(Expr.of(d) for d in shape)
        return (
            x
            if x.shape == wanted
            else self.op("Reshape", x, shape=list(wanted), allowzero=any(d.constant == 0 for d in wanted) or None)
        )

    def transpose(self, x: Term, perm: Sequence[int]) -> Term:
        """`x` with its axes in the order `perm`."""
        return x if list(perm) == list(range(x.rank)) else self.op("Transpose", x, perm=list(perm))

    def cut(self, x: Term, axis: int, start: Any, end: Any) -> Term:
        """`x[start:end]` along one axis."""
        return self.op("Slice", x, starts=[start], ends=[end], axes=[axis])
