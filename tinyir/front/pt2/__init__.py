"""torch.export archives (.pt2) in: a program as front-end JSON, without torch. Each node becomes ops of the front ends
(`pt2.ops`), which are lowered where all others are.

An archive is a zip: `NAME/models/model.json` holds the graph, the signature and the ranges of symbols in a published
schema (torch/_export/serde/schema.py of PyTorch), and each weight is a member of raw bytes. Weights stay in the
archive: a tensor of the JSON says where (`file`, `offset`, `bytes`, `sha256`). What comes from constants alone, such as
the index tensors of shifted windows, is folded.
"""

from __future__ import annotations

from ..program.ranges import without_ranges
from ..program.text import show
from .archive import PAIR_NUMBERS, SCALAR_NUMBERS, Archive, Stored
from .held import held_to_json
from .model import Words, program_of


def to_json(raw: bytes, file: str = "", shapes: Words | None = None) -> str:
    """The front-end JSON of an archive's bytes. `file` is how the text shall name the file that its weights are in;
    `shapes` gives sizes to inputs whose sizes are symbols, by name, and symbols their ranges (`L:1..512`). Raises
    Refused with every fault found (E0127, E0128, E0141 to E0146 and what lowering finds)."""
    from . import ops  # noqa: F401  (each file puts its rows into the table)

    sizes, ranges = without_ranges(shapes or {})
    return show(*program_of(Archive(raw, file), sizes, ranges))


def is_translated(target: str) -> bool:
    """Whether an op has a translation: `torch.ops.aten.mm.default`."""
    from . import ops  # noqa: F401
    from .nodes import functional, word_of
    from .results import is_translated

    return is_translated(functional(word_of(target)))


def is_check(target: str) -> bool:
    """Whether an op only checks, and gives nothing, so that it needs no translation."""
    from .nodes import functional, only_checks, word_of

    return only_checks(functional(word_of(target)))


__all__ = ["PAIR_NUMBERS", "SCALAR_NUMBERS", "Stored", "held_to_json", "is_check", "is_translated", "to_json"]
