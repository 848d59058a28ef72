"""What masks say of a tile of scores before it is computed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.body import Binary, Body, Literal, Ref, Select, Ternary, Unary
from ...ir.expr import Bound, Expr
from ...ir.region import Region
from .match import Streaming


def masks_of(kernel: Streaming, region: Region) -> Iterator[Bound]:
    """The guards outside which an element is -inf, and so weighs nothing."""
    body: Body | None = Ref(kernel.element, kernel.dtype)
    while body is not None:
        if isinstance(body, Select) and is_nothing(body.other):
            yield from body.guard
        body = _inner(region, body)


def _inner(region: Region, body: Body) -> Body | None:
    """What is -inf wherever the expression's operand is; None where no operand is known to be such."""
    if isinstance(body, Ref):
        return region.let(body.name).expr
    if isinstance(body, Unary) and body.op == "cast" and body.x.dtype.is_float:
        return body.x
    if isinstance(body, Select):
        return body.then if is_nothing(body.other) else None
    if isinstance(body, Ternary) and (is_nothing(body.second) or is_nothing(body.third)):
        return body.third if is_nothing(body.second) else body.second
    if isinstance(body, Binary) and body.op == "mul":
        for inner, by in ((body.left, body.right), (body.right, body.left)):
            if isinstance(by, Literal) and 0 < by.value < math.inf:
                return inner
    return None


def is_nothing(body: Body) -> bool:
    """Whether a score is -inf, whose weight is 0."""
    return isinstance(body, Literal) and body.value == -math.inf


def tile_is_touched(
    kernel: Streaming, region: Region, tile: tuple[int, int], first: tuple[Expr, Expr]
) -> tuple[Bound, ...]:
    """What must hold for a tile of rows and columns, whose first are `first`, to have an element inside the masks;
    empty when nothing is known, and where other folds of a row want all of it."""
    if kernel.folds:
        return ()
    names = (kernel.row.name, kernel.column.name)
    found = []
    for bound in masks_of(kernel, region):
        slope = [next((c for c, m in bound.expr.terms if m == (name,)), 0) for name in names]
        rest = bound.expr - slope[0] * Expr.of(names[0]) - slope[1] * Expr.of(names[1])
        ends = [e for e in (bound.lower, bound.upper) if e is not None]
        if bound.equals is not None or any(n in names for e in (rest, *ends) for n in e.names()):
            continue
        low, high = rest, rest
        for by, size, start in zip(slope, tile, first):
            low, high = low + by * start + min(by * (size - 1), 0), high + by * start + max(by * (size - 1), 0)
        found += [Bound(high, lower=bound.lower)] if bound.lower is not None else []
        found += [Bound(low, upper=bound.upper)] if bound.upper is not None else []
    return tuple(found)
