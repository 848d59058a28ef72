"""What comes in a region twice becomes a value of its own.

before: %max = reduce max (i1) : fp32 { X[i0, i1] where i1 <= i0 else -inf }
        %d   = sub(X[i0, i1] where i1 <= i0 else -inf, broadcast_in_dim(%max, dims=[0]))
after:  %max.in = X[i0, i1] where i1 <= i0 else -inf
        %max = reduce max (i1) : fp32 { %max.in }
        %d   = sub(%max.in, broadcast_in_dim(%max, dims=[0]))

Bare reads, values and numbers stay as they are, and so does what names an axis of a fold's own, what a fold reads along
several axes without a broadcast, and what is under a guard that its reads need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...ir.body import (
    Body,
    BroadcastInDim,
    Gather,
    Literal,
    Read,
    Reduce,
    Ref,
    Scatter,
    Select,
    operands_of,
    rebuild,
    walk,
)
from ...ir.present import axes_of_values, is_scalar, is_whole, present_axes
from ...ir.region import Let, Region, Yield
from ...kit.records import replace


def share_values(region: Region) -> Region:
    """The region with its repeated expressions written once."""
    counts = Counter(
        node for item in (*region.lets, *region.yields) for node in _unguarded(item.expr) if _is_work(node)
    )
    if not any(n > 1 for n in counts.values()):
        return region
    iters = tuple(a.name for a in region.iters)
    axes_of = axes_of_values(region)
    known = set(iters) | _symbols(region)
    taken = {v.name for v in region.lets}
    shared: dict[Body, str] = {v.expr: v.name for v in region.lets if not is_scalar(v.expr)}
    done: set[str] = set()
    lets: list[Let] = []

    def shown(body: Body, item: Let | Yield, name: str, is_inside: bool) -> Body:
        if is_inside and body in shared and shared[body] in done:
            return Ref(shared[body], body.dtype)
        inner = body if isinstance(body, Select) else rebuild(body, lambda o: shown(o, item, name, True))
        if not is_inside or counts[body] < 2 or body in shared or not present_axes(body, iters, axes_of) <= known:
            return inner
        if not present_axes(body, iters, axes_of) & set(iters) or not is_whole(body, iters, axes_of):
            return inner
        new = shared[body] = free_name(f"{name}.in", taken)
        axes_of[new] = tuple(n for n in iters if n in present_axes(body, iters, axes_of))
        lets.append(Let(new, inner, item.origin))
        done.add(new)
        return Ref(new, body.dtype)

    for let in region.lets:
        lets.append(replace(let, expr=shown(let.expr, let, let.name, False)))
        done.add(let.name)
    yields = tuple(replace(y, expr=shown(y.expr, y, y.output, False)) for y in region.yields)
    return replace(region, lets=tuple(lets), yields=yields)


def _unguarded(body: Body) -> Iterator[Body]:
    """The expression and all inside it that no guard is around."""
    yield body
    if not isinstance(body, Select):
        for inner in operands_of(body):
            yield from _unguarded(inner)


def _is_work(node: Body) -> bool:
    """True for what is worth a value: an op, a choice, a fold; not a bare read, a number or a broadcast."""
    return (
        not isinstance(node, (Read, Ref, Literal, BroadcastInDim)) and bool(operands_of(node)) and not is_scalar(node)
    )


def _symbols(region: Region) -> set[str]:
    """Every name that is not an axis of a fold: the sizes of tensors and axes."""
    inner = {a.name for item in (*region.lets, *region.yields) for n in walk(item.expr) for a in _own_axes(n)}
    sizes = {n for t in region.inputs + region.outputs for d in t.type.shape for n in d.names()} | {
        n for a in region.iters for n in a.size.names()
    }
    return sizes - inner


def _own_axes(node: Body) -> tuple:
    axes = node.axes if isinstance(node, (Reduce, Scatter)) else (node.axis,) if isinstance(node, Gather) else ()
    return tuple(a for a in axes if a.size is not None)


def free_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or with a number behind when it is taken; taken from now on."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{count}"
    taken.add(name)
    return name
