"""The sizes that a caller gives to a model whose own are open."""

from __future__ import annotations

from ...ir.expr import Expr
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..ops.table import read_dim


def size_given(name: str, word: str) -> Expr:
    """The size that a caller gives to an axis of `name`. Raises Refused (E0128)."""
    try:
        size = read_dim(int(word) if word.lstrip("-").isdigit() else word)
    except ValueError:
        size = Expr.of(-1)
    if size.constant is not None and size.constant < 0:
        raise refuse("E0128", name, tensor=name, fault=Phrase("{word} is not a size", word=word))
    return size
