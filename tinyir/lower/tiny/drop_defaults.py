"""What an attribute says is said once, in one way.

    in x : fp32[M, N]
    %p = PAD(x) {pad=[[1, 1], [0, 0]], value=0.0} : fp32[M + 2, N]
    %s = SHRINK(%p) {lo=[0, 0], hi=[M, N], step=[1, 1]} : fp32[M, N]
    %y = REDUCE(%s) {op=SUM, axes=[-1, 0], dtype=fp32} : fp32[]
->
    in x : fp32[M, N]
    %p = PAD(x) {pad=[[1, 1], [0, 0]]} : fp32[M + 2, N]
    %s = SHRINK(%p) {lo=[0, 0], hi=[M, N]} : fp32[M, N]
    %y = REDUCE(%s) {op=SUM, axes=[0, 1], dtype=fp32} : fp32[]

An attribute that states what holds without it is gone; an axis counts from 0; axes rise, where their order means
nothing.
"""

from __future__ import annotations

from typing import Any

from ...ir.tiny import Module, Value
from ...kit.records import replace
from .graph import with_values


def drop_defaults(module: Module) -> Module:
    """The same values with as few attributes as will do."""
    types = module.type_of()
    values = []
    for value in module.values:
        rank = types[value.operands[0]].rank if value.operands else value.type.rank
        attrs = tuple(
            (key, _said(value, key, item, rank))
            for key, item in value.attrs
            if value.op == "CONST" or not _is_default(key, item)
        )
        values.append(replace(value, attrs=attrs) if repr(attrs) != repr(value.attrs) else value)
    return with_values(module, values)


def _is_default(key: str, item: Any) -> bool:
    if key == "value":
        return str(item) in ("0", "0.0", "False") and not isinstance(item, tuple)
    if key == "step":
        return set(item) <= {1}
    return key in ("reverse", "exclusive") and item is False or key == "offset" and item == 0


def _said(value: Value, key: str, item: Any, rank: int) -> Any:
    if key == "axis":
        return item % rank
    if key == "axes" and value.op in ("REDUCE", "FLIP") and not str(value.attr("op")).startswith("ARG"):
        return tuple(sorted(a % rank for a in item))
    return tuple(a % rank for a in item) if key == "axes" else item
