"""Where a value came from is forgotten, so that texts of one program in two languages can be compared.

    in x : fp32[N]
    from act : Elementwise at 7:5
    %y = NEG(x) : fp32[N]
->
    in x : fp32[N]
    %y = NEG(x) : fp32[N]
"""

from __future__ import annotations

from ...ir.tiny import Module
from ...kit.records import replace
from .graph import with_values


def forget_origins(module: Module) -> Module:
    """The same values without their `from` lines."""
    return with_values(module, (replace(v, origin=None) for v in module.values))
