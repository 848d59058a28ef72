"""The page of front-end JSON, before its ops: what the file has at its top, in its tensors and its signature."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..front.json import OP_KEYS, TOP
from ..front.jsonsignature import SIGNATURE_KEYS, TENSOR_KEYS
from ..ir.model import CHOICES, MOST_ALIGNMENT
from ..ir.types import DTYPES
from .page import Section, block, fence, introduction, table, words

MODEL: dict[str, Any] = {
    "name": "layer",
    "signature": {
        "inputs": [{"tensor": "X"}, {"tensor": "W", "role": "param"}],
        "outputs": [{"tensor": "Y"}],
    },
    "tensors": {
        "X": {"dtype": "fp16", "shape": ["M", 64]},
        "W": {"dtype": "fp16", "shape": [64, 64]},
        "Y": {"dtype": "fp16", "shape": ["M", 64]},
    },
    "graph": [
        {"op": "MatMul", "name": "fc", "inputs": ["X", "W"], "outputs": ["H"]},
        {"op": "Elementwise", "name": "act", "fn": "relu", "inputs": ["H"], "outputs": ["Y"]},
    ],
    "symbols": {"M": [1, 4096]},
    "shape_sets": {"small": {"M": 16}, "large": {"M": 4096}},
    "fuse": [["fc", "act"]],
}
KEYS = {"top": TOP, "tensor": TENSOR_KEYS, "signature": SIGNATURE_KEYS, "op": OP_KEYS}
_TITLES = {
    "top": {"en": "At the top", "ja": "最上位"},
    "tensor": {"en": "A tensor", "ja": "テンソル"},
    "signature": {"en": "An entry of the signature", "ja": "シグネチャの項目"},
    "op": {"en": "An op of the graph", "ja": "グラフの op"},
}
_HEAD = {"en": ("key", "meaning"), "ja": ("キー", "意味")}


def sections(lang: str) -> Iterator[Section]:
    """What the page has before the ops."""
    first = introduction("json", "file", lang)
    yield Section(first.title, block(first.body, fence("json", laid_out(MODEL))), ("front-end JSON", "json"), 2)
    for part, keys in KEYS.items():
        said = words("json_keys")[part]
        rows = [(f"`{key}`", said[key][lang] + _choices(key)) for key in keys]
        yield Section(_TITLES[part][lang], table(_HEAD[lang], rows), tuple(f"{part}.{key}" for key in keys))
    yield Section("dtype", ", ".join(f"`{name}`" for name in DTYPES) + "\n", ("dtype",))


def laid_out(model: dict[str, Any]) -> str:
    """A model as JSON with a line for each tensor and each op."""
    lines = []
    for key, item in model.items():
        if key in ("tensors", "graph", "signature"):
            inner = (
                [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in item.items()]
                if isinstance(item, dict)
                else [f"    {json.dumps(v)}" for v in item]
            )
            begin, end = "{}" if isinstance(item, dict) else "[]"
            lines.append(f"  {json.dumps(key)}: {begin}\n" + ",\n".join(inner) + f"\n  {end}")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(item)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _choices(key: str) -> str:
    if key == "alignment":
        return f" (1 .. {MOST_ALIGNMENT})"
    return f" ({', '.join(f'`{word}`' for word in CHOICES[key])})" if key in CHOICES else ""
