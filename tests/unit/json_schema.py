"""JSON Schema as far as the schemas of `docs/` use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPES = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {
    *("$schema", "$defs", "$ref", "title", "description", "type", "enum", "required", "properties"),
    *("additionalProperties", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "const"),
    *("anyOf", "oneOf", "allOf", "default"),
}


def faults_of(value: Any, schema: Any, whole: Any, at: str = "$") -> Iterator[str]:
    """What of a value is not as the schema says. Raises AssertionError for a word of JSON Schema that is not known
    here."""
    assert set(schema) <= KNOWN, f"{at}: {set(schema) - KNOWN}"
    if "$ref" in schema:
        target = whole
        for word in schema["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        yield from faults_of(value, target, whole, at)
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if type(value) not in [of for kind in kinds for of in TYPES[kind]]:
        yield f"{at} is {value!r}, not {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is {value!r}, not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is {value!r}, not {schema['const']!r}"
    yield from _out_of_bounds(value, schema, at)
    yield from _fits_none(value, schema, whole, at)
    if isinstance(value, list):
        for n, (item, inner) in enumerate(zip(value, schema.get("prefixItems", ()))):
            yield from faults_of(item, inner, whole, f"{at}[{n}]")
    if isinstance(value, list) and "items" in schema:
        for n, item in enumerate(value):
            yield from faults_of(item, schema["items"], whole, f"{at}[{n}]")
    if isinstance(value, dict):
        yield from (f"{at} lacks {key}" for key in schema.get("required", ()) if key not in value)
        more = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in schema.get("properties", {}):
                yield from faults_of(item, schema["properties"][key], whole, f"{at}.{key}")
            elif isinstance(more, dict):
                yield from faults_of(item, more, whole, f"{at}.{key}")
            elif not more:
                yield f"{at} has {key}, which the schema has not"


def _out_of_bounds(value: Any, schema: Any, at: str) -> Iterator[str]:
    """A number, or a number of items, that is too small or too great."""
    size = len(value) if isinstance(value, list) else None
    number = value if type(value) in (int, float) else None
    for word, given, is_least in (
        ("minItems", size, True),
        ("maxItems", size, False),
        ("minimum", number, True),
        ("maximum", number, False),
    ):
        if word in schema and given is not None and (given < schema[word] if is_least else given > schema[word]):
            yield f"{at} breaks {word} {schema[word]}"


def _fits_none(value: Any, schema: Any, whole: Any, at: str) -> Iterator[str]:
    """Where of several schemas too few, or too many, fit."""
    for word in ("anyOf", "oneOf", "allOf"):
        if word not in schema:
            continue
        fits = sum(not any(True for _ in faults_of(value, one, whole, at)) for one in schema[word])
        wanted = {"anyOf": fits >= 1, "oneOf": fits == 1, "allOf": fits == len(schema[word])}[word]
        if not wanted:
            yield f"{at} is {value!r}, which fits {fits} of {word}"
