"""ONNX in: a model as front-end JSON. Each node becomes ops of the front ends (`onnx.ops`), which are lowered where all
others are.

Weights stay in the model's file: a tensor of the JSON says which (`file`, `offset`, `bytes`, `sha256`). What is known
beforehand, such as the chains of Shape, Gather and Concat that exporters leave, is folded, sizes that are symbols
included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...kit.diag import refuse
from ...kit.quote import json_line
from .constants import Weights
from .model import Words, load, program_of
from .program import Program
from .ranges import without_ranges

MAGIC = b"\x08"  # the first field of a ModelProto is its ir_version


def to_json(
    raw: bytes, file: str = "", shapes: Words | None = None, values: Words | None = None, folder: Path | None = None
) -> str:
    """The front-end JSON of an ONNX file's bytes. `file` is how the text shall name the file that its weights are in;
    `shapes` gives sizes to inputs whose sizes are open, by name, and symbols their ranges (`ranges`); `values` makes
    constants of inputs, their elements in row-major order. `folder` is where the model's file is: small tensors that it
    keeps in files beside it are read. Raises Refused with every fault found (E0121 to E0128 and what lowering
    finds)."""
    from . import ops  # noqa: F401  (each file puts its rows into the table)

    try:
        import onnx  # noqa: F401
    except ImportError:
        raise refuse("E0121", reason="the package onnx is not installed: pip install 'tinyir[onnx]'") from None
    sizes, ranges = without_ranges(shapes or {})
    return _show(*program_of(load(raw), Weights(raw, file, folder), sizes, values or {}, ranges))


def _show(name: str, program: Program, inputs: list[str], outputs: list[str]) -> str:
    """A tensor and an op a line."""

    needed = set(outputs)
    entries = []
    for entry in reversed(program.ops):
        if needed & set(entry["outputs"]):
            needed.update(n for n in entry["inputs"] if isinstance(n, str))
            entries.append(entry)
    needed.update(inputs)
    tensors = [f"    {json_line(t)}: {json_line(entry)}" for t, entry in program.tensors.items() if t in needed]
    ops = [f"    {json_line(_ordered(entry))}" for entry in reversed(entries)]
    lists = [
        f"    {json_line(side)}: [{', '.join(json_line({'tensor': t}) for t in names)}]"
        for side, names in (("inputs", inputs), ("outputs", outputs))
    ]
    ranges = {r.symbol: [r.low, r.high] for r in program.builder.limits.ranges()}
    parts = [f'  "name": {json_line(name)}', '  "signature": {\n' + ",\n".join(lists) + "\n  }"]
    parts += [f'  "symbols": {json_line(ranges)}'] if ranges else []
    parts += ['  "tensors": {\n' + ",\n".join(tensors) + "\n  }", '  "graph": [\n' + ",\n".join(ops) + "\n  ]"]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _ordered(entry: dict[str, Any]) -> dict[str, Any]:
    keys = ("op", "name", "fn", "inputs", "outputs", "attrs")
    return {k: entry[k] for k in keys if entry.get(k) or k in ("inputs", "outputs")}


__all__ = ["MAGIC", "to_json"]
