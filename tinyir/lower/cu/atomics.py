"""Folds into global memory, one element at a time, whatever other threads fold in there meanwhile."""

from __future__ import annotations

from typing import Any

from ...ir.gpu import nodes
from ...ir.types import DType

WORD = {4: "unsigned int", 8: "unsigned long long"}  # that is compared and swapped, by bytes


class Atomics:
    """Part of the printer of a kernel (`kernel._Printer`), which keeps the names, the values and the lines."""

    def _atomic(self: Any, s: nodes.Atomic) -> None:
        dtype = self._dtype(s.to.name)
        self.say(
            f"{_function(s.op, dtype)}(&{self._element(s.to.name, s.to.index, None)}, {self.values.value(s.value)});"
        )


def _function(op: str, dtype: DType) -> str:
    """What folds: the hardware's atomic where it has one that folds as the op table says, else its compare and swap."""
    if op == "sum":
        return "atomic_sum"
    if op in ("max", "min") and dtype.is_integer:
        return f"atomic{op.title()}"
    fold = f"{op}_nan" if op in ("max", "min") else f"{'wrap_mul' if dtype.is_integer else 'product_of'}<{dtype.cuda}>"
    return f"atomic_fold<{dtype.cuda}, {WORD[dtype.bytes]}, {fold}>"
