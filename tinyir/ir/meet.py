"""How operands with different axes meet: each is broadcast to the axes of all (seed 001 section 6.4)."""

from __future__ import annotations

from collections.abc import Mapping

from .body import Body, BroadcastInDim, Gather, Reduce, Scan, Scatter, Select, operands_of, rebuild
from .present import AxesOf, guard_names, is_scalar, present_axes


def meet(operands: list[Body], iters: tuple[str, ...], axes_of: Mapping[str, tuple[str, ...]]) -> list[Body]:
    """The operands with equal axes, in the order of the region's `iters`; what reads nothing needs none. `axes_of`
    gives the axes of values."""
    return _wide(operands, [present_axes(o, iters, axes_of) & frozenset(iters) for o in operands], iters)


def _wide(operands: list[Body], own: list[frozenset[str]], iters: tuple[str, ...]) -> list[Body]:
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
    return _met(body, iters, axes_of)[0]


def _met(body: Body, iters: tuple[str, ...], axes_of: AxesOf) -> tuple[Body, frozenset[str]]:
    """The same, with the axes that it varies along, which are not looked for again in each expression around it."""
    operands = operands_of(body)
    if not operands or isinstance(body, (Reduce, Scan, Gather, Scatter)):
        return body, present_axes(body, iters, axes_of) & frozenset(iters)
    inner, own = zip(*(_met(operand, iters, axes_of) for operand in operands))
    wide = iter(_wide([*inner], [*own], iters))
    made, along = rebuild(body, lambda _: next(wide)), frozenset().union(*own)
    if isinstance(made, Select):
        along |= guard_names(made.guard)
    elif isinstance(made, BroadcastInDim):
        along = frozenset(iters if made.axes is None else made.axes)
    return made, along & frozenset(iters)
