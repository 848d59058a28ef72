"""How operands with different axes meet: each is broadcast to the axes of all (seed 001 section 6.4)."""

from __future__ import annotations

from collections.abc import Mapping

from .body import Body, BroadcastInDim, Gather, Reduce, Scan, Scatter, operands_of, rebuild
from .present import is_scalar, present_axes


def meet(operands: list[Body], iters: tuple[str, ...], axes_of: Mapping[str, tuple[str, ...]]) -> list[Body]:
    """The operands with equal axes, in the order of the region's `iters`; what reads nothing needs none. `axes_of`
    gives the axes of values."""
    own = [present_axes(o, iters, axes_of) & set(iters) for o in operands]
    axes = tuple(n for n in iters if any(n in o for o in own))
    wide = None if axes == iters else axes
    found = []
    for operand, present in zip(operands, own):
        if len(present) == len(axes) or not present and is_scalar(operand):
            found.append(operand)
        else:
            found.append(
                BroadcastInDim(operand, tuple(at for at, n in enumerate(axes) if n in present), operand.dtype, wide)
            )
    return found


def met(body: Body, iters: tuple[str, ...], axes_of: Mapping[str, tuple[str, ...]]) -> Body:
    """An expression as it is written outside of a fold: the operands of each op in it meet. Inside of folds, scans,
    gathers and scatters operands are read directly."""
    if isinstance(body, (Reduce, Scan, Gather, Scatter)):
        return body
    inner = rebuild(body, lambda b: met(b, iters, axes_of))
    wide = iter(meet([*operands_of(inner)], iters, axes_of))
    return rebuild(inner, lambda _: next(wide))


__all__ = ["meet", "met"]
