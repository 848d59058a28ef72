"""The operands of a commutative op come in the order of their definitions, inputs first.

    in x : fp32[N]
    %a = NEG(x) : fp32[N]
    %b = ABS(x) : fp32[N]
    %c = ADD(%b, %a) : fp32[N]
    %y = SUB(%c, x) : fp32[N]
->
    in x : fp32[N]
    %a = NEG(x) : fp32[N]
    %b = ABS(x) : fp32[N]
    %c = ADD(%a, %b) : fp32[N]
    %y = SUB(%c, x) : fp32[N]

So seed 004 has it: "ordered by ascending ValueId".
"""

from __future__ import annotations

from ...ir.ops import OPS
from ...ir.tiny import Module
from ...kit.records import replace
from .graph import with_values


def order_operands(module: Module) -> Module:
    """Only the operands of commutative ops move."""
    place = {
        name: i for i, name in enumerate([*(t.name for t in module.model.inputs), *(v.name for v in module.values)])
    }
    return with_values(
        module,
        (
            replace(v, operands=tuple(sorted(v.operands, key=place.__getitem__))) if OPS[v.op].is_commutative else v
            for v in module.values
        ),
    )
