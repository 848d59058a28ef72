"""Tiny text as a program of the graph DSL (`tiny-front --to-dsl`), which reads back as the very same tiny text.

A value is a statement, in the words of the DSL where these give exactly that one op, else in tiny's own: `%p = MUL(a,
b, dtype=f32)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..ir import tiny
from ..ir.attrs import show_attr, show_attrs
from ..ir.expr import Expr, show_guard
from ..ir.model import TENSOR_ATTRS, Model, Shapes, Tensor, show_name
from ..ir.ops import OPS
from ..ir.types import TensorType, show_number
from ..kit.quote import quoted
from ..kit.text import show_list
from . import graphdsl
from .dslgraph import RESERVED
from .shorttypes import short, show_short

_INFIX = {
    "ADD": "+",
    "SUB": "-",
    "MUL": "*",
    "FDIV": "/",
    "CMPLT": "<",
    "CMPEQ": "==",
    "CMPNE": "!=",
    "AND": "&",
    "OR": "|",
    "XOR": "^",
}
_SAME = (
    "ABS",
    "SIGN",
    "SQRT",
    "RSQRT",
    "EXP2",
    "LOG2",
    "SIN",
    "TANH",
    "ERF",
    "RELU",
    "MAX",
    "MIN",
    "WHERE",
)  # functions that are one op on agreeing operands
_SHAPED = ("RESHAPE", "EXPAND", "VIEW")
_BARE = re.compile(r"[A-Za-z_]\w*")


def dsl_of(module: tiny.Module) -> str:
    """The program of a checked module. It is read back here, and anything but the same text is a fault of ours."""
    text = _Writer(module).program()
    if tiny.show(graphdsl.read(text)) != tiny.show(module):
        raise AssertionError("the DSL program does not read back as the same tiny text")
    return text


class _Writer:
    """One module as graph main."""

    def __init__(self, module: tiny.Module):
        self.module = module
        self.types = module.type_of()

    def program(self) -> str:
        """The text."""
        model = self.module.model
        names, defaults = self.symbols()
        stated = ", ".join(f"{s}={defaults[s]}" if s in defaults else f"{s}=none" for s in names)
        params = ", ".join(map(self.param, model.inputs))
        results = ", ".join(map(self.param, model.outputs))
        lines = [f"graph{'<' + stated + '>' if names else ''} main({params}) -> ({results}) {{"]
        origin: Any = graphdsl
        for value in self.module.values:
            if value.origin != origin and (value.origin is not None or origin is graphdsl):
                origin = value.origin
                lines.append(f"    {origin}" if origin is not None else "    from none")
            lines.append(f"    {self.ref(value.name)} = {self.value(value)}")
        given = {r.output: r.value for r in self.module.results}
        lines.append(f"    return {', '.join(self.ref(given[t.name]) for t in model.outputs)}")
        fused = [f"must_fuse {', '.join(map(self.ref, one.values))}" for one in self.module.must_fuse]
        return "\n".join([*lines, "}", *self.beside(model, defaults), *fused]) + "\n"

    def symbols(self) -> tuple[list[str], dict[str, int]]:
        """The shape variables, in the order of the default shape set, and their defaults."""
        first = self.module.model.shape_sets[:1]
        defaults = dict(first[0].sizes) if first and first[0].name == "default" else {}
        used = [*self.module.model.symbols(), *(n for v in self.module.values for n in _names_in(v))]
        return list(dict.fromkeys([*defaults, *used])), defaults

    @staticmethod
    def beside(model: Model, defaults: dict[str, int]) -> list[str]:
        """What a header cannot say: another name, ranges, further shape sets."""
        sets: tuple[Shapes, ...] = model.shape_sets[1:] if defaults else model.shape_sets
        return [
            *([f"model {show_name(model.name)}"] if model.name != graphdsl.ENTRY else []),
            *(f"sym {r.symbol} in {r.low}..{r.high}" for r in model.ranges),
            *(f"shapes {show_name(s.name)} {{{', '.join(f'{k}={v}' for k, v in s.sizes)}}}" for s in sets),
        ]

    def param(self, tensor: Tensor) -> str:
        return f"{self.ref(tensor.name)}: {show_short(tensor.type)}{show_attrs(tensor.attrs, TENSOR_ATTRS)}"

    @staticmethod
    def ref(name: str) -> str:
        """A name, bare where the DSL reads it so."""
        is_bare = _BARE.fullmatch(name) and name not in (*RESERVED, "inf", "nan", "from", "none")
        return name if is_bare else f"%{show_name(name)}"

    # --- values

    def value(self, value: tiny.Value) -> str:
        """The right side of a statement."""
        operands = [self.ref(o) for o in value.operands]
        if value.op in _WRITTEN:
            dtypes = [self.types[o].dtype for o in value.operands]
            first, dtype = next(zip(operands, dtypes), ("", None))
            written = _WRITTEN[value.op](value, first, dtype)
            if written is not None:
                return written
        if value.op in _INFIX and self.is_plain(value):
            return f"{operands[0]} {_INFIX[value.op]} {operands[1]}"
        if value.op in _SAME:
            return f"{value.op.lower()}({', '.join(operands)})"
        return f"{value.op}({', '.join([*operands, *self.attrs(value)])})"

    def is_plain(self, value: tiny.Value) -> bool:
        """Whether the DSL's operator is the op: no MUL that widens."""
        return value.op != "MUL" or value.type.dtype == self.types[value.operands[0]].dtype

    def attrs(self, value: tiny.Value) -> list[str]:
        """Attributes by name, those first that are in the type of tiny text."""
        dtype = value.type.dtype
        found = [f"result_shape={_dims(value.type)}"] if value.op in _SHAPED else []
        found += (
            [f"to={short(dtype)}"]
            if value.op in ("CAST", "BITCAST")
            else [f"dtype={short(dtype)}"]
            if value.op == "MUL" and not self.is_plain(value)
            else []
        )
        if OPS[value.op].group == "leaf":
            found += [f"dtype={short(dtype)}", f"shape={_dims(value.type)}"]
        schema = OPS[value.op].attrs or {}
        return found + [f"{key}={_attr(schema[key][0], item, value)}" for key, item in value.attrs]


def _fill(value: tiny.Value) -> str:
    fill = value.attr("value")
    return "" if fill is None else ", " + show_number(fill, value.type.dtype)


def _expanded(value: tiny.Value) -> str:
    dims = value.attr("broadcast_dimensions")
    return f"{_dims(value.type)}{f', dims={list(dims)}' if dims is not None else ''}"


# Ops that the DSL spells otherwise, of the value, its first operand and that one's dtype; None where it does not.
_WRITTEN: dict[str, Callable[[tiny.Value, str, Any], str | None]] = {
    "RESHAPE": lambda v, x, dtype: f"reshape({x}, {_dims(v.type)})",
    "PERMUTE": lambda v, x, dtype: f"permute({x}, {list(v.attr('perm'))})" if v.type.rank and v.attr("perm") else None,
    "EXPAND": lambda v, x, dtype: f"expand({x}, {_expanded(v)})",
    "PAD": lambda v, x, dtype: f"pad({x}, [{', '.join(f'({low}, {high})' for low, high in v.attr('pad'))}]{_fill(v)})",
    "VIEW": lambda v, x, dtype: f"view({x}, {_dims(v.type)}, [{', '.join(map(str, v.attr('index_map')))}])",
    "VALID": lambda v, x, dtype: f"valid({x}, {quoted(show_guard(v.attr('guard')))}{_fill(v)})",
    "CONST": lambda v, x, dtype: f"const({show_attr('literal', v.attr('value'), v.type.dtype)}, {show_short(v.type)})",
    "IOTA": lambda v, x, dtype: f"iota({show_short(v.type)}, axis={v.attr('axis')})",
    "CAST": lambda v, x, dtype: f"cast({x}, {short(v.type.dtype)})" if v.type.dtype != dtype else None,
    "NEG": lambda v, x, dtype: f"-{x}",
}


def _attr(kind: str, item: Any, value: tiny.Value) -> str:
    return short(item) if kind == "dtype" else show_attr(kind, item, value.type.dtype)


def _dims(type: TensorType) -> str:
    return show_list(type.shape)


def _names_in(value: tiny.Value) -> list[str]:
    """Every symbol in a value's type and attributes; not the axes i0, i1, ..."""
    found = [n for d in value.type.shape for n in d.names()]
    pending = [item for _, item in value.attrs]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending += item
        elif isinstance(item, Expr):
            found += item.names()
        elif hasattr(item, "equals"):
            pending += [e for e in (item.expr, item.lower, item.upper, item.equals) if e is not None]
    return [n for n in found if not re.fullmatch(r"i\d+", n)]
