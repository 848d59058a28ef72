"""The JSON Schema of front-end JSON, made of the tables that its reader reads. It says of each op what its attributes
are; that shapes agree only the reader can say."""

from __future__ import annotations

import json
from typing import Any

from ..front.ops import ELEMENTWISE, FRONT_OPS, FrontOp
from ..front.ops.table import MANY, REQUIRED, Attr
from ..ir.model import CHOICES, MOST_ALIGNMENT, TENSOR_ATTRS
from ..ir.types import DTYPES
from .json_file import KEYS
from .json_ops import meaning
from .page import words

_SIZE = {"$ref": "#/$defs/size"}
_NUMBER = {"$ref": "#/$defs/number"}
_KINDS: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": _NUMBER,
    "number": {"anyOf": [_NUMBER, {"type": "boolean"}]},
    "flag": {"enum": [True, False, 0, 1]},
    "string": {"type": "string"},
    "guard": {"type": "string"},
    "dtype": {"$ref": "#/$defs/dtype"},
    "dim": _SIZE,
    "literal": {"$ref": "#/$defs/literal"},
}
_LISTS = {"ints": {"type": "integer"}, "floats": _NUMBER, "dims": _SIZE, "strings": {"type": "string"}}
_DEFINED = {
    "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "a number, a symbol, or an expression"},
    "number": {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]},
    "dtype": {"enum": list(DTYPES)},
    "literal": {
        "anyOf": [
            _SIZE,
            _NUMBER,
            {"type": "boolean"},
            {"type": "array", "items": {"$ref": "#/$defs/literal"}},
        ]
    },
}


def schema() -> dict[str, Any]:
    """The schema as an object."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tinyir front-end JSON",
        "type": "object",
        "required": ["signature", "tensors", "graph"],
        "additionalProperties": False,
        "properties": {key: {**_TOP[key], "description": words("json_keys")["top"][key]["en"]} for key in KEYS["top"]},
        "$defs": {**_DEFINED, "tensor": _tensor(), "entry": _entry(), "op": _op()},
    }


def text() -> str:
    """The schema as `docs/frontend.schema.json` has it."""
    return json.dumps(schema(), indent=1) + "\n"


_TOP: dict[str, dict[str, Any]] = {
    "signature": {
        "type": "object",
        "required": ["inputs", "outputs"],
        "additionalProperties": False,
        "properties": {side: {"type": "array", "items": {"$ref": "#/$defs/entry"}} for side in ("inputs", "outputs")},
    },
    "tensors": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tensor"}},
    "graph": {"type": "array", "items": {"$ref": "#/$defs/op"}},
    "shape_sets": {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    },
    "symbols": {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 0}] * 2,
            "minItems": 2,
            "maxItems": 2,
        },
    },
    "name": {"type": "string"},
    "fuse": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
}


def _attributes_of_memory() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, (kind, _) in TENSOR_ATTRS.items():
        said = {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string"}
        found[key] = {"anyOf": [{"enum": list(CHOICES[key])} if key in CHOICES else said, {"type": "null"}]}
    found["layout"]["anyOf"].append({"type": "object"})
    found["alignment"]["anyOf"][0]["maximum"] = MOST_ALIGNMENT
    return found


def _tensor() -> dict[str, Any]:
    shape = {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}}
    properties = {"dtype": {"$ref": "#/$defs/dtype"}, "shape": shape, "value": _DEFINED["literal"]}
    return _object(properties | _attributes_of_memory(), ("dtype", "shape"), "tensor")


def _entry() -> dict[str, Any]:
    return _object({"tensor": {"type": "string"}} | _attributes_of_memory(), ("tensor",), "signature")


def _object(properties: dict[str, Any], required: tuple[str, ...], part: str) -> dict[str, Any]:
    said = words("json_keys")[part]
    described = {key: {**properties[key], "description": said[key]["en"]} for key in KEYS[part]}
    return {"type": "object", "required": list(required), "additionalProperties": False, "properties": described}


def _op() -> dict[str, Any]:
    rows = [
        *(_row(op, {"op": {"const": name}}, name) for name, op in FRONT_OPS.items()),
        *(_row(op, {"op": {"const": "Elementwise"}, "fn": {"const": name}}, name) for name, op in ELEMENTWISE.items()),
    ]
    return {"type": "object", "required": ["op", "inputs", "outputs"], "oneOf": rows}


def _row(op: FrontOp, named: dict[str, Any], name: str) -> dict[str, Any]:
    """One op. Attributes are in `attrs` or beside it, but for those that are called as a key of every op is."""
    attrs = {a.name: _attribute(a) for a in op.attrs}
    count = {"minItems": op.inputs[0], **({"maxItems": op.inputs[1]} if op.inputs[1] < MANY else {})}
    results = {"minItems": op.outputs[0], **({"maxItems": op.outputs[1]} if op.outputs[1] < MANY else {})}
    operand = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
    word = {k: v for k, v in named.items() if k == "fn"}  # which may be among the attributes as well
    must = [*word, *(a.name for a in op.attrs if a.default is REQUIRED)]
    inner = {"type": ["object", "null"], "additionalProperties": False, "properties": word | attrs}
    found: dict[str, Any] = {
        "description": meaning(op, name, "en"),
        "required": ["op"],
        "additionalProperties": False,
        "properties": {
            **attrs,
            **named,
            "name": {"type": "string"},
            "inputs": {"type": "array", "items": operand, **count},
            "outputs": {"type": "array", "items": {"type": "string"}, **results},
            "attrs": inner,
        },
    }
    if must:
        inside = [{"required": ["attrs"], "properties": {"attrs": {"type": "object", "required": [m]}}} for m in must]
        found["allOf"] = [
            {"anyOf": [one, *([] if m in KEYS["op"] and m not in word else [{"required": [m]}])]}
            for one, m in zip(inside, must)
        ]
    return found


def _attribute(attr: Attr) -> dict[str, Any]:
    """What an attribute takes; null is as if it were not there."""
    limits = {k: v for k, v in (("minimum", attr.low), ("maximum", attr.high)) if v is not None}
    if attr.kind == "word":
        said: dict[str, Any] = {"enum": list(attr.words)}
    elif attr.kind in _LISTS:
        item = {**_LISTS[attr.kind], **(limits if attr.kind == "ints" else {})}
        said = {"type": "array", "items": item}
    elif attr.kind == "pairs":
        said = {"type": "array", "items": {"type": "array", "items": _SIZE, "minItems": 2, "maxItems": 2}}
    else:
        said = {**_KINDS[attr.kind], **(limits if attr.kind == "int" else {})}
    default = (
        {}
        if attr.default in (REQUIRED, None) or not isinstance(attr.default, (bool, int, float, str))
        else {"default": attr.default}
    )
    return {"anyOf": [said, {"type": "null"}], **default}
