"""R1: what does not vary along the axes of a fold is computed before it (seed 001 section 6.6).

before: %s         = reduce sum (k0: K) : fp32 { mul(A[i0, k0], exp2(S[i0])) }
after:  %s.fixed   = exp2(S[i0])
        %s         = reduce sum (k0: K) : fp32 { mul(A[i0, k0], %s.fixed) }

Only code moves, no op changes place with the fold, so every value stays the same to the bit. What is under a guard
stays there, and so do the factors of a contraction, which are computed once a tile (C-CON1: they read operands
directly).
"""

from __future__ import annotations

from ...ir.body import Body, Gather, Reduce, Ref, Scan, Scatter, Select, operands_of, rebuild
from ...ir.present import axes_of_values, is_scalar, is_whole, present_axes
from ...ir.region import Let, Region
from ...ir.traits import is_product_of_sides
from ...kit.records import replace
from .share_values import free_name


def hoist_invariant(region: Region) -> Region:
    """The region with the invariant parts of its folds as values of their own."""
    iters = tuple(a.name for a in region.iters)
    axes_of = axes_of_values(region)
    taken = {v.name for v in region.lets}
    lets: list[Let] = []

    def moved(body: Body, let: Let, along: frozenset[str]) -> Body:
        if isinstance(body, Reduce) and is_product_of_sides(body, region.iters):
            return body
        if isinstance(body, (Reduce, Scan)):
            along = along | ({a.name for a in body.axes} if isinstance(body, Reduce) else {body.axis})
        elif isinstance(body, (Select, Gather, Scatter)):
            return body
        elif along and _is_fixed(body, along, iters, axes_of):
            name = free_name(f"{let.name}.fixed", taken)
            present = present_axes(body, iters, axes_of)
            axes_of[name] = tuple(n for n in iters if n in present)
            lets.append(Let(name, body, let.origin))
            return Ref(name, body.dtype)
        return rebuild(body, lambda inner: moved(inner, let, along))

    for let in region.lets:
        lets.append(replace(let, expr=moved(let.expr, let, frozenset())))
    return replace(region, lets=tuple(lets)) if len(lets) > len(region.lets) else region


def _is_fixed(body: Body, along: frozenset[str], iters: tuple[str, ...], axes_of: dict[str, tuple[str, ...]]) -> bool:
    """True for work on what is read that does not vary along the axes of the fold."""
    is_work = bool(operands_of(body)) and not is_scalar(body)
    return is_work and not present_axes(body, iters, axes_of) & along and is_whole(body, iters, axes_of)
