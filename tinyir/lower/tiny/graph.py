"""What the rewrites of tiny share: a module with other values, names put in place of names, and the text that tells two
values apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...ir.attrs import show_attrs
from ...ir.ops import OPS
from ...ir.tiny import Module, Result, Value


def with_values(module: Module, values: Iterable[Value]) -> Module:
    """The module with these values."""
    return Module(module.model, tuple(values), module.results)


def with_operands(value: Value, names: Mapping[str, str]) -> Value:
    """The value with its operands renamed; itself when none is."""
    operands = tuple(names.get(o, o) for o in value.operands)
    return value if operands == value.operands else replace(value, operands=operands)


def with_results(module: Module, names: Mapping[str, str]) -> tuple[Result, ...]:
    """The results with their values renamed."""
    return tuple(Result(r.output, names.get(r.value, r.value)) for r in module.results)


def likeness(value: Value) -> str:
    """Op, attributes and type as text. Texts tell 0.0 from -0.0, and take a NaN for itself, which numbers do not."""
    return f"{value.op}{show_attrs(value.attrs, OPS[value.op].attrs or {}, value.type.dtype)} : {value.type}"
