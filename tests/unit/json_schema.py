"""JSON Schema as far as `docs/report.schema.json` uses it: type, enum, required, properties, additionalProperties,
items, $ref."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
KNOWN = {
    *("$schema", "$defs", "$ref", "title", "description", "type", "enum", "required", "properties"),
    *("additionalProperties", "items"),
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
    if type(value) not in [TYPES[kind] for kind in kinds]:
        yield f"{at} is {value!r}, not {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is {value!r}, not one of {schema['enum']}"
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
