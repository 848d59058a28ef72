"""What the copy engine makes of a contraction's operands: which are windows, and in how many steps they come."""

from __future__ import annotations

from ...ir.body import Select
from ...ir.expr import Expr
from ...ir.plan import Load, Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ..parts.boxes import View, misfit
from ..parts.windows import operand_views, windowed
from ..problem import Contraction


def product_fault(region: Region, kernel: Contraction, factors: tuple[str, ...]) -> str:
    """Why tensor cores that multiply `factors` cannot compute a contraction, in words; empty when they can. A guard may
    be around what is fetched as windows."""
    views = operand_views(region, kernel)
    is_bare = all(
        isinstance(v, View) and v.windows is not None or not isinstance(f, Select)
        for v, f in zip(views, kernel.factors)
    )
    return misfit(region, kernel, factors, is_gathered=is_bare)


def load_of(region: Region, kernel: Contraction, tensor: str, swizzle: int) -> Load:
    """How a plan brings a factor's tensor."""
    found = windowed(operand_views(region, kernel))
    is_of_windows = found is not None and found.tensor.name == tensor
    return Load(tensor, "windows", swizzle, "im2col") if is_of_windows else Load(tensor, "tma", swizzle)


def steps_of(plan: Plan, region: Region, kernel: Contraction) -> Expr:
    """Steps of a sum: of windows a number for each tap, whose channels begin a step of their own."""
    if windowed(operand_views(region, kernel)) is None:
        return extent_of(kernel.sum).ceildiv(plan.tile[2])
    *taps, channels = kernel.sum
    return extent_of(tuple(taps)) * channels.size.ceildiv(plan.tile[2])
