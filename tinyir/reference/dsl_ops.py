"""The example of an op in the graph DSL, made of the one in front-end JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..front.dslcalls import ROWS, SNAKE
from ..front.shorttypes import dtype_of, show_short
from ..ir.read import read_type
from ..ir.types import TensorType
from ..kit.text import show_list

Types = Mapping[str, TensorType]


def example(name: str, node: Mapping[str, Any], types: Mapping[str, str], results: int) -> str:
    """A graph with the op of a JSON node alone; `types` has what each of its tensors is, and all of its `results` have
    a name. Empty for a function whose name is another's in the graph DSL."""
    if node["op"] == "Elementwise" and name in ROWS and ROWS[name].fixed:
        return ""
    read = {t: read_type(text) for t, text in types.items()}
    symbols = dict.fromkeys(n for t in (*node["inputs"], *node["outputs"]) for d in read[t].shape for n in d.names())
    sizes = f"<{', '.join(f'{s}=8' for s in symbols)}>" if symbols else ""
    inputs, outputs = (", ".join(f"{t}: {show_short(read[t])}" for t in node[side]) for side in ("inputs", "outputs"))
    named = [*node["outputs"], *(f"r{number}" for number in range(len(node["outputs"]), results))]
    called = f"({', '.join(named)})" if len(named) > 1 else named[0]
    lines = [f"{called} = {_call(name, node, read)}", f"return {', '.join(node['outputs'])}"]
    return "\n    ".join([f"graph{sizes} main({inputs}) -> ({outputs}) {{", *lines]) + "\n}"


def _call(name: str, node: Mapping[str, Any], types: Types) -> str:
    attrs, operands = dict(node.get("attrs", {})), node["inputs"]
    if node["op"] in ("Elementwise", "Where"):
        shape = types[node["outputs"][0]].shape
        repeated = [_repeated(t, shape) if types[t].rank and types[t].shape != shape else t for t in operands]
        return _plain(name.lower(), repeated, attrs)
    if name in _OWN:
        return _OWN[name](operands, attrs, types[node["outputs"][0]], types[operands[0]] if operands else None)
    if name == "Reduce":
        return _plain(f"reduce_{attrs.pop('op')}", operands, attrs)
    if name == "Pool":
        return _plain(f"{'avg' if attrs.pop('mode') == 'average' else 'max'}_pool", operands, attrs)
    known = [word for word, row in ROWS.items() if row.op == name and not row.fixed]
    return _plain((known or [word for word, op in SNAKE.items() if op == name])[0], operands, attrs)


def _plain(word: str, operands: Sequence[str], attrs: Mapping[str, Any]) -> str:
    return f"{word}({', '.join([*operands, *(f'{key}={_shown(item)}' for key, item in attrs.items())])})"


def _repeated(operand: str, shape: Sequence[Any]) -> str:
    return f"expand({operand}, {show_list(shape)})"


def _shown(item: Any) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, (list, tuple)):
        return f"[{', '.join(map(_shown, item))}]"
    if isinstance(item, str):
        dtype = dtype_of(item)
        return f'"{item}"' if not re.fullmatch(r"[A-Za-z_]\w*", item) else item if dtype is None else dtype.name
    return str(item)


def _slice(operands: Sequence[str], attrs: Mapping[str, Any], found: TensorType, x: TensorType) -> str:
    ranges = {axis: (start, end, *([step] if step != 1 else [])) for axis, start, end, step in zip(
        attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"])}  # fmt: skip
    all_ranges = [ranges.get(axis, (0, size)) for axis, size in enumerate(x.shape[: max(ranges) + 1])]
    return f"slice({operands[0]}, [{', '.join(_tuple(r) for r in all_ranges)}])"


def _pad(operands: Sequence[str], attrs: Mapping[str, Any], found: TensorType, x: TensorType) -> str:
    count = len(attrs["axes"])
    pads = dict(zip(attrs["axes"], zip(attrs["pads"][:count], attrs["pads"][count:])))
    return f"pad({operands[0]}, [{', '.join(_tuple(pads.get(axis, (0, 0))) for axis in range(x.rank))}])"


def _conv(word: str) -> Callable[..., str]:
    def written(operands: Sequence[str], attrs: Mapping[str, Any], found: TensorType, x: TensorType) -> str:
        return _plain(word, operands[:2], {**attrs, **({"bias": operands[2]} if len(operands) == 3 else {})})

    return written


def _tuple(items: Sequence[Any]) -> str:
    return f"({', '.join(map(str, items))})"


def _leaf(word: str) -> Callable[..., str]:
    def written(operands: Sequence[str], attrs: Mapping[str, Any], found: TensorType, x: Any) -> str:
        return _plain(word, [show_short(found)], {k: item for k, item in attrs.items() if k not in ("shape", "dtype")})

    return written


# Ops whose functions take their arguments otherwise, of their operands and attributes and the types of the result and
# the first operand.
_OWN: dict[str, Callable[..., str]] = {
    "Reshape": lambda of, attrs, found, x: f"reshape({of[0]}, {show_list(found.shape)})",
    "Expand": lambda of, attrs, found, x: _repeated(of[0], found.shape),
    "Transpose": lambda of, attrs, found, x: f"transpose({of[0]}, {attrs['perm']})",
    "Slice": _slice,
    "Pad": _pad,
    "Concat": lambda of, attrs, found, x: f"concat([{', '.join(of)}], {attrs['axis']})",
    "Split": lambda of, attrs, found, x: f"split({of[0]}, {attrs['axis']}, {attrs['parts']})",
    "GatherElements": lambda of, attrs, found, x: f"gather({of[0]}, {attrs['axis']}, {of[1]})",
    "Scatter": lambda of, attrs, found, x: (
        f"scatter({of[0]}, {attrs['axis']}, {', '.join(of[1:])}, reduction={attrs['reduction']})"
    ),
    "Conv": _conv("conv"),
    "ConvTranspose": _conv("conv_transpose"),
    "Iota": _leaf("iota"),
    "Random": _leaf("random"),
}
