"""The haloed templates: of the other factor a ring of tiles (`ring`), or of few channels the windows expanded into a
matrix on the chip (`expanded`), or groups side by side (`packed`; `narrow` of few channels each)."""

from __future__ import annotations

from ...ir.gpu.nodes import Kernel
from ...ir.plan import Plan
from ..family import Problem
from ..parts.fresh import Fresh
from .declare import is_whole
from .expanded import Expanded
from .halo import halo_of
from .narrow import Narrow
from .packed import Packed
from .ring import Ring


def emit(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan."""
    halo = halo_of(problem.region, problem.kernel)
    packed = Narrow if halo.is_narrow else Packed
    template = packed if halo.groups else Expanded if is_whole(plan) else Ring
    return template(plan, problem, halo, Fresh(problem.model, problem.region)).kernel()
