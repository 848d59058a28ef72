"""A value that no output needs is gone.

    in x : fp32[N]
    %a = NEG(x) : fp32[N]
    %y = ABS(x) : fp32[N]
->
    in x : fp32[N]
    %y = ABS(x) : fp32[N]

Inputs stay: they are the ABI.
"""

from __future__ import annotations

from ...ir.tiny import Module
from .graph import with_values


def remove_dead(module: Module) -> Module:
    """The values that a result is made of, in their order."""
    needed = {r.value for r in module.results}
    for value in reversed(module.values):
        if value.name in needed:
            needed.update(value.operands)
    return with_values(module, (v for v in module.values if v.name in needed))
