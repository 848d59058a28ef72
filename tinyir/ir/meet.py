"""How operands with different axes meet: each is broadcast to the axes of all (seed 001 section 6.4)."""

from __future__ import annotations

from collections.abc import Mapping

from .body import Body, BroadcastInDim
from .present import is_scalar, present_axes


def meet(operands: list[Body], iters: tuple[str, ...], axes_of: Mapping[str, tuple[str, ...]]) -> list[Body]:
    """The operands with equal axes, in the order of the region's `iters`; what reads nothing needs none. `axes_of`
    gives the axes of values."""
    own = [present_axes(o, iters, axes_of) & set(iters) for o in operands]
    axes = tuple(n for n in iters if any(n in o for o in own))
    wide = None if axes == iters else axes
    met = []
    for operand, present in zip(operands, own):
        if len(present) == len(axes) or not present and is_scalar(operand):
            met.append(operand)
        else:
            met.append(
                BroadcastInDim(operand, tuple(at for at, n in enumerate(axes) if n in present), operand.dtype, wide)
            )
    return met


__all__ = ["meet"]
