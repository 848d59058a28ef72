"""R2: what every term of a fold has in common is done once to its result (seed 001 section 6.6).

before: %m         = reduce max (k0: K) : fp32 { mul(A[i0, k0], 0.125) }
after:  %m         = mul(reduce max (k0: K) : fp32 { A[i0, k0] }, 0.125)

Done where it is exact: a factor out of a sum of integers; a positive number out of a greatest or least, or a change of
sign, since rounding keeps order. A factor out of a sum of floats rounds elsewhere: only when it is asked for.
"""

from __future__ import annotations

import functools
import math

from ...ir.body import Binary, Body, Literal, Reduce, Select, Unary, rebuild, walk
from ...ir.meet import meet, met
from ...ir.present import axes_of_values, present_axes
from ...ir.region import Region
from ...kit.diag import Diag
from ...kit.records import replace

TURNED = {"max": "min", "min": "max"}


def distribute(region: Region, is_asked: bool = False) -> Region:
    """The region with common factors and signs outside of its folds; `is_asked` takes factors out of sums of floats
    too."""
    iters = tuple(a.name for a in region.iters)
    axes_of = axes_of_values(region)

    def moved(body: Body) -> Body:
        if isinstance(body, Reduce):
            return _moved(body, iters, axes_of, is_asked)
        return body if isinstance(body, Select) else rebuild(body, moved)

    lets = tuple(replace(let, expr=moved(let.expr)) for let in region.lets)
    return replace(region, lets=lets, yields=tuple(replace(y, expr=moved(y.expr)) for y in region.yields))


def rounding(kept: Region, moved: Region) -> list[Diag]:
    """A warning (W2103) for each value of a region, and each output, that is not the same where factors leave sums of
    floats."""
    pairs = [(a.name, a.expr, b.expr) for a, b in zip(kept.lets, moved.lets)]
    pairs += [(a.output, a.expr, b.expr) for a, b in zip(kept.yields, moved.yields)]
    said = []
    for name, before, after in pairs:
        if before != after:
            fold = next(n for n in walk(before) if isinstance(n, Reduce) and n.op == "sum" and n.dtype.is_float)
            facts = {"option": "--distribute", "op": fold.op, "dtype": fold.dtype, "values": name, "region": kept.name}
            said.append(Diag("W2103", name, facts, kept.span))
    return said


def _moved(fold: Reduce, iters: tuple[str, ...], axes_of: dict[str, tuple[str, ...]], is_asked: bool) -> Body:
    body = fold.body
    if body.dtype != fold.dtype or fold.init is not None:
        return fold
    if fold.op in TURNED and isinstance(body, Unary) and body.op == "neg" and fold.dtype.is_float:
        return Unary("neg", replace(fold, op=TURNED[fold.op], body=body.x), fold.dtype)
    factors = _factors(body)
    along = {a.name for a in fold.axes}
    fixed = [f for f in factors if not present_axes(f, iters, axes_of) & along and _may_leave(f, fold, is_asked)]
    rest = [f for f in factors if not any(f is g for g in fixed)]
    if not fixed or not rest:
        return fold

    def times(left: Body, right: Body) -> Body:
        return Binary("mul", *meet([left, right], iters, axes_of), fold.dtype)

    inner = functools.reduce(lambda a, b: Binary("mul", a, b, fold.dtype), rest)
    return functools.reduce(times, (met(f, iters, axes_of) for f in fixed), replace(fold, body=inner))


def _factors(body: Body) -> list[Body]:
    """The factors of a product that is rounded as each of them is."""
    if isinstance(body, Binary) and body.op == "mul" and body.left.dtype == body.right.dtype == body.dtype:
        return [*_factors(body.left), *_factors(body.right)]
    return [body]


def _may_leave(factor: Body, fold: Reduce, is_asked: bool) -> bool:
    if fold.op in TURNED:
        return fold.dtype.is_float and isinstance(factor, Literal) and 0 < factor.value < math.inf
    return fold.op == "sum" and (fold.dtype.is_integer or fold.dtype.is_float and is_asked)
