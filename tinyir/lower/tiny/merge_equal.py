"""Two values that compute the same are one.

    in x : fp32[N]
    in z : fp32[N]
    %a = ADD(x, z) : fp32[N]
    %b = ADD(z, x) : fp32[N]
    %y = MUL(%a, %b) : fp32[N]
->
    in x : fp32[N]
    in z : fp32[N]
    %a = ADD(x, z) : fp32[N]
    %y = MUL(%a, %a) : fp32[N]

Every op of tiny is pure, RANDOM included: it is its seed and offset. The first of the two stays.
"""

from __future__ import annotations

from ...ir.ops import OPS
from ...ir.tiny import Module, likeness
from .graph import with_operands, with_values


def merge_equal(module: Module) -> Module:
    """Each distinct computation once."""
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    names: dict[str, str] = {}
    kept = []
    for value in module.values:
        value = with_operands(value, names)
        operands = tuple(sorted(value.operands)) if OPS[value.op].is_commutative else value.operands
        name = first.setdefault((likeness(value), operands), value.name)
        if name == value.name:
            kept.append(value)
        else:
            names[value.name] = name
    return with_values(module, kept, names)
