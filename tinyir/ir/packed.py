"""The module of a CUDA text as a list that JSON can hold, which is read many times faster than the text: each node
once, behind those that it is made of.

    ["M", 0, ["tuple", 0], ...]      a leaf is itself; a list is what it is, and the places of its parts

Where things are in a text, and from which op they came, is left out. `LAYOUT` names all classes and their fields: a
list that was made with another one cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, get_args

from ..kit.records import fields
from ..target.dtypes import DTYPES, DType
from . import body, expr, manifest, model, region, types, windows

_LEFT_OUT = ("span", "origin", "places")
CLASSES: dict[str, type] = {
    f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}": kind
    for kind in (
        *(expr.Expr, expr.Floor, expr.Bound, types.TensorType),
        *(model.Tensor, model.Range, model.Shapes, model.Model),
        *(body.Axis, *get_args(body.Body)),
        *(region.Tensor, region.Let, region.Yield, region.Analysis, region.Region, region.Program, region.Module),
        *(windows.Windows, manifest.TensorMap, manifest.Launch, manifest.Module),
    )
}
_FIELDS = {
    name: tuple(f.name for f in fields(kind) if f.init and f.name not in _LEFT_OUT) for name, kind in CLASSES.items()
}
_NAMES = {kind: name for name, kind in CLASSES.items()}
LAYOUT = sha256(repr(sorted(_FIELDS.items())).encode()).hexdigest()[:16]
TUPLE, DTYPE = "tuple", "dtype"


def packed(module: manifest.Module) -> list[Any]:
    """The nodes of a module, itself the last. Raises TypeError for what no module holds."""
    nodes: list[Any] = []
    places: dict[Any, int] = {}

    def place(value: Any) -> int:
        key = (type(value), repr(value)) if isinstance(value, float) else (type(value), value)
        if key not in places:
            node = parts(value)
            places[key] = len(nodes)
            nodes.append(node)
        return places[key]

    def parts(value: Any) -> Any:
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        if isinstance(value, tuple):
            return [TUPLE, *map(place, value)]
        if isinstance(value, DType):
            return [DTYPE, place(value.name)]
        name = _NAMES.get(type(value))
        if name is None:
            raise TypeError(f"a module holds no {type(value).__name__}")
        return [name, *(place(getattr(value, f)) for f in _FIELDS[name])]

    place(module)
    return nodes


def unpacked(nodes: Sequence[Any]) -> manifest.Module:
    """The module of its nodes. Raises ValueError for a list that `packed` did not make."""
    made: list[Any] = []
    try:
        for node in nodes:
            if not isinstance(node, list):
                made.append(node)
                continue
            name, *places = node
            if any(not 0 <= at < len(made) for at in places):
                raise ValueError("later parts")
            found = [made[at] for at in places]
            if name == TUPLE:
                made.append(tuple(found))
            elif name == DTYPE:
                made.append(DTYPES[found[0]])
            elif len(found) != len(_FIELDS[name]):
                raise ValueError(f"{name}: {len(found)} fields")
            else:
                made.append(CLASSES[name](**dict(zip(_FIELDS[name], found))))
    except (AttributeError, IndexError, KeyError, TypeError) as fault:
        raise ValueError(f"unknown node: {fault}") from None
    if not made or not isinstance(made[-1], manifest.Module):
        raise ValueError(f"root: {type(made[-1] if made else None).__name__}")
    return made[-1]
