"""Types as Core IR and the graph DSL spell them, `f32[M, K]` where tiny text writes `fp32[M, K]`. Both spellings are
read."""

from __future__ import annotations

from typing import Any

from ..ir.read import read_at, read_type
from ..ir.types import DTYPES, DType, TensorType
from ..ir.unknown import unknown_dtype
from ..kit.diag import refuse
from ..kit.span import span_of

LONG = {d.name.replace("fp", "f", 1): d for d in DTYPES.values() if d.name.startswith("fp")}
SHORT = {d: name for name, d in LONG.items()}


def dtype_of(word: str) -> DType | None:
    """The dtype that a word names, in either spelling; None when it is not a dtype."""
    return LONG.get(word) or DTYPES.get(word)


def short(dtype: DType) -> str:
    """The short spelling of a dtype."""
    return SHORT.get(dtype, dtype.name)


def read_short(token: Any, whole: str) -> TensorType:
    """The type that a TYPE token spells. Raises Refused (E0002, E0101), with spans into `whole`."""
    text = str(token)
    word = text.partition("[")[0]
    if dtype_of(word) is None:
        start = token.start_pos
        facts = unknown_dtype(word, lambda name: short(DTYPES[name]))
        raise refuse("E0101", **facts, span=span_of(whole, start, start + len(word)))
    if word in LONG:
        text = LONG[word].name + text[len(word) :]
    return read_at(lambda _: read_type(text), token, whole)


def show_short(type: TensorType) -> str:
    """The short spelling of a type."""
    return f"{short(type.dtype)}[{', '.join(map(str, type.shape))}]"
