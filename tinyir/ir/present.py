"""Which axes a value varies along: the free axes of an expression, and those that each operand of it must have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .body import (
    Body,
    BroadcastInDim,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    operands_of,
)
from .expr import Bound, Expr

AxesOf = Mapping[str, tuple[str, ...]]


def present_axes(body: Body, iters: tuple[str, ...], axes_of: AxesOf) -> frozenset[str]:
    """The names that an expression varies along: axes, and whatever else its indices name (symbols are for the caller
    to take out). `axes_of` gives the axes of the values it refers to."""
    kind = body.__class__  # compared, which is quicker than to ask for each kind in turn
    if kind is Read:
        return names_in(body.index)
    if kind is Ref:
        return frozenset(axes_of[body.name]) if body.index is None else names_in(body.index)
    if kind is Index or kind is Random:
        return names_in((body.expr if kind is Index else body.index,))
    if kind is BroadcastInDim:
        return frozenset(iters if body.axes is None else body.axes)
    inner = frozenset().union(*[present_axes(o, iters, axes_of) for o in operands_of(body)])
    if kind is Select:
        return inner | guard_names(body.guard)
    if kind is Reduce:
        return inner - {a.name for a in body.axes}
    if kind is Scan:
        return inner | {body.axis}
    if kind is Gather:
        return present_axes(body.at, iters, axes_of) | (present_axes(body.body, iters, axes_of) - {body.axis.name})
    if kind is Scatter:
        return (inner - {a.name for a in body.axes}) | {body.axis}
    return inner


def names_in(exprs: Iterable[Expr]) -> frozenset[str]:
    """Every name in the expressions."""
    return frozenset().union(*[e.vocabulary for e in exprs])


def guard_names(guard: Iterable[Bound]) -> frozenset[str]:
    """Every name in a guard."""
    return names_in(e for b in guard for e in (b.expr, b.lower, b.upper, b.equals) if e is not None)


def is_scalar(body: Body) -> bool:
    """True when an expression reads nothing: literals, sizes, and what is computed of them; it needs no broadcast."""
    return not isinstance(body, (Read, Ref)) and all(is_scalar(o) for o in operands_of(body))


def is_whole(body: Body, iters: tuple[str, ...], axes_of: AxesOf) -> bool:
    """True when the operands of every op in an expression meet without a broadcast, so that it may be moved out of a
    fold as it is: inside of one operands are read directly, whatever they vary along."""
    operands, own = operands_of(body), frozenset(iters)
    met = {
        present_axes(o, iters, axes_of) & own
        for o in operands
        if not is_scalar(o) or present_axes(o, iters, axes_of) & own
    }
    return len(met) <= 1 and all(isinstance(o, (Read, Ref, Literal)) or is_whole(o, iters, axes_of) for o in operands)


def axes_of_values(region: Any) -> dict[str, tuple[str, ...]]:
    """The free axes of each value of a region, in the order of `for`."""
    iters = tuple(a.name for a in region.iters)
    found: dict[str, tuple[str, ...]] = {}
    for let in region.lets:
        present = present_axes(let.expr, iters, found)
        found[let.name] = tuple(n for n in iters if n in present)
    return found
