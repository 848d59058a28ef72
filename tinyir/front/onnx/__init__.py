"""ONNX in: a model as front-end JSON. Each node becomes ops of the front ends (`onnx.ops`), which are lowered where all
others are.

Weights stay in the model's file: a tensor of the JSON says which (`file`, `offset`, `bytes`, `sha256`). What is known
beforehand, such as the chains of Shape, Gather and Concat that exporters leave, is folded, sizes that are symbols
included.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...kit.diag import Diag, refuse
from ...kit.phrase import Phrase
from ..program.ranges import without_ranges
from ..program.text import show
from .constants import Weights
from .model import Words, load, program_of
from .states import Wanted


def to_json(
    raw: bytes,
    file: str = "",
    shapes: Words | None = None,
    values: Words | None = None,
    folder: Path | None = None,
    states: Mapping[str, str] | None = None,
    room: int = 0,
    notes: list[Diag] | None = None,
) -> str:
    """The front-end JSON of an ONNX file's bytes. `file` is how the text shall name the file that its weights are in;
    `shapes` gives sizes to inputs whose sizes are open, by name, and symbols their ranges (`ranges`); `values` makes
    constants of inputs, their elements in row-major order. `folder` is where the model's file is: small tensors that it
    keeps in files beside it are read. `states` gives inputs the outputs that are their next values, beside those that
    are called so; `room` is for how many rows a cache that grows has room; `notes` gets the warnings. Raises Refused
    with every fault found (E0121 to E0128 and what lowering finds)."""
    from . import ops  # noqa: F401  (each file puts its rows into the table)

    try:
        import onnx  # noqa: F401
    except ImportError:
        raise refuse("E0121", reason=Phrase("the package onnx is not installed: pip install 'tinyir[onnx]'")) from None
    sizes, ranges = without_ranges(shapes or {})
    wanted = Wanted(states or {}, room)
    return show(*program_of(load(raw), Weights(raw, file, folder), sizes, values or {}, ranges, wanted, notes))
