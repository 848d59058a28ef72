"""Names for what a kernel defines, kept apart from those of the model."""

from __future__ import annotations

from ...ir.expr import Expr
from ...ir.model import Model
from ...ir.region import Region


class Fresh:
    """`name("k")` is k, or k_ where the model has a symbol or a tensor called k; the same word gives the same name."""

    def __init__(self, model: Model, region: Region):
        symbols = model.symbols()
        self._taken = {*symbols, *(t.name for t in (*region.inputs, *region.outputs))}

    def __call__(self, word: str) -> str:
        while word in self._taken:
            word += "_"
        return word

    def expr(self, word: str, field: str = "") -> Expr:
        """The name as an integer; `field` is a cursor's: `p.slot`."""
        return Expr.of(f"{self(word)}.{field}" if field else self(word))
