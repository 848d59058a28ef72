"""An imported program as front-end JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...kit.quote import json_line
from ..jsonsignature import default_shapes
from .program import Program


def show(
    name: str,
    program: Program,
    inputs: list[str],
    outputs: list[str],
    sets: Mapping[str, Mapping[str, int]] | None = None,
) -> str:
    """The front-end JSON of a program, with what its outputs need: a tensor and an op per line; `sets` are its shape
    sets, by default one of the sizes that plans are to be made for, where the program says some."""
    needed = set(outputs)
    kept = []
    for entry in reversed(program.ops):
        if needed & set(entry["outputs"]):
            needed.update(n for n in entry["inputs"] if isinstance(n, str))
            kept.append(entry)
    needed.update(inputs)
    tensors = [f"    {json_line(t)}: {json_line(entry)}" for t, entry in program.tensors.items() if t in needed]
    ops = [f"    {json_line(_ordered(entry))}" for entry in reversed(kept)]
    told = {t: {"tensor": t, **({"updates": program.updates[t]} if t in program.updates else {})} for t in outputs}
    lists = [
        f"    {json_line(side)}: [{', '.join(map(json_line, entries))}]"
        for side, entries in (("inputs", [{"tensor": t} for t in inputs]), ("outputs", list(told.values())))
    ]
    ranges = {r.symbol: [r.low, r.high] for r in program.builder.limits.ranges()}
    parts = [f'  "name": {json_line(name)}', '  "signature": {\n' + ",\n".join(lists) + "\n  }"]
    parts += [f'  "symbols": {json_line(ranges)}'] if ranges else []
    sets = sets or _planned(program, inputs)
    parts += [f'  "shape_sets": {json_line(sets)}'] if sets else []
    parts += ['  "tensors": {\n' + ",\n".join(tensors) + "\n  }", '  "graph": [\n' + ",\n".join(ops) + "\n  ]"]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _planned(program: Program, inputs: list[str]) -> dict[str, dict[str, int]]:
    """A shape set of the sizes that the program says, the usual ones for other symbols."""
    shapes = " ".join(str(size) for t in inputs for size in program.tensors[t]["shape"])
    symbols = [s for s in program.symbols if re.search(rf"(?<![\w.]){re.escape(s)}(?![\w.])", shapes)]
    sizes = {s: n for s, n in program.planned.items() if s in symbols}
    usual = default_shapes(symbols, program.builder.limits.ranges())
    return {one.name: dict(one.sizes) | sizes for one in usual} if sizes else {}


def _ordered(entry: dict[str, Any]) -> dict[str, Any]:
    keys = ("op", "name", "fn", "inputs", "outputs", "attrs")
    return {k: entry[k] for k in keys if entry.get(k) or k in ("inputs", "outputs")}
