"""Tiny's own ops as ops of a front end, for the languages that speak them: NodeId JSON and the graph DSL. Derived from
the op table.

A row gives exactly one value of tiny. Beside the attributes that tiny text writes it takes what is there in the
type: `result_shape` of a RESHAPE, EXPAND or VIEW; `shape` and `dtype` of a CONST, IOTA or RANDOM; `to` of a CAST or
BITCAST; `dtype` of a MUL that widens. The operands of an elementwise op must agree already: how they are brought to is
each language's own rule.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.expr import Expr
from ..ir.ops import OPS, REDUCERS, UPDATES, Op
from ..ir.types import TensorType
from .builder import Builder, Operand, Ref, rounded
from .ops.contraction import tensor
from .ops.table import REQUIRED, Attr, Attrs, FrontOp

_KINDS = {
    "number": "number",
    "literal": "literal",
    "ints": "ints",
    "int": "int",
    "dims": "dims",
    "pairs": "pairs",
    "guard": "guard",
    "dtype": "dtype",
    "flag": "flag",
    "string": "string",
}
_SHAPED = ("RESHAPE", "EXPAND", "VIEW")
_CAST = ("CAST", "BITCAST")


def _attrs_of(op: Op) -> tuple[Attr, ...]:
    found = [Attr("result_shape", "dims", low=0)] if op.name in _SHAPED else []
    found += [Attr("to", "dtype")] if op.name in _CAST else []
    found += [Attr("dtype", "dtype", None)] if op.name == "MUL" else []
    if op.group == "leaf":
        found += [Attr("dtype", "dtype"), Attr("shape", "dims", (), low=0)]
    for name, (kind, is_required) in (op.attrs or {}).items():
        default = REQUIRED if is_required else None
        if kind == "name":
            found.append(Attr(name, "word", default, words=tuple(REDUCERS) if op.name != "SCATTER" else UPDATES))
        else:
            found.append(Attr(name, _KINDS[kind], default))
    return tuple(found)


def _lowering(op: Op) -> Callable[..., Ref]:
    def lower(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
        refs = [tensor(o, op.name, i) for i, o in enumerate(operands)]
        stated = {key: attrs[key] for key in op.attrs or () if attrs[key] is not None}
        type = _type_of(op, refs, attrs)
        if "value" in stated:
            value = stated["value"]
            is_number = isinstance(value, Expr) and value.constant is not None
            stated["value"] = rounded(
                type.dtype if type is not None else refs[0].dtype, value.constant if is_number else value
            )
        return b.emit(op.name, *refs, type=type, **stated)

    return lower


def _type_of(op: Op, refs: list[Ref], attrs: Attrs) -> TensorType | None:
    """The type that must be stated; None where it follows."""
    if op.group == "leaf":
        return TensorType(attrs.dtype, attrs.shape)
    if op.name in _SHAPED:
        return TensorType(refs[0].dtype, attrs.result_shape)
    if op.name in _CAST:
        return TensorType(attrs.to, refs[0].shape)
    return TensorType(attrs.dtype, refs[0].shape) if op.name == "MUL" and attrs.dtype is not None else None


UOPS: dict[str, FrontOp] = {
    op.name: FrontOp(op.name, (op.arity, op.arity), (1, 1), _attrs_of(op), _lowering(op)) for op in OPS.values()
}
