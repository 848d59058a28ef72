"""Two contractions with a softmax between them as one kernel, read off two regions alone (seed 001 sections 6.8.3 and
15.3).

    scores   X[r, n]   sum over depth of a factor of r and a factor of n, and any work on one element: scale, masks,
             bias
    top      M[r]      the greatest X along n
    weight   E[r, n]   exp2(c*(X - M)) with c > 0
    total    Z[r]      the sum of E along n
    handed   P[r, n]   E, E / H or E * H with H of the row alone
    output   O[r, e]   sum over n of P * V[n, e], and any work on one element

Then O = (sum of E*V) / H, and what was summed under an old M is right under a new one when it is scaled by exp2(c*(old
- new)): n is walked once, and no row is ever whole (Milakov and Gimelshein 2018; Rabe and Staats 2021; Dao et al.
2022). The weights are not rounded to P's dtype.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..ir.body import (
    Axis,
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Unary,
    walk,
)
from ..ir.expr import Bound, Expr
from ..ir.neighbours import ACCESS_BYTES
from ..ir.region import Region, Yield
from ..ir.traits import axes_of, bodies_of, extent_of
from ..ir.types import DType

WIDEST = 256  # elements of a row of either operand that a CTA keeps


@dataclass(frozen=True, slots=True)
class Streaming:
    """What the kernel is made of. `row` are the rows of X that a CTA shares among its threads, `column` the axis n,
    `outer` the other axes of the first region; `width` are the axes e of the second. `element`, `top`, `total` and
    `scores` are values of the first region, `output` the sum of the second. `weight` is E; `norm` is `fdiv` or `mul`,
    by `norm_by`, or empty. `meets` gives for each axis of the second region that P has the axis of the first."""

    kind: ClassVar[str] = "contraction"
    row: Axis
    column: Axis
    depth: tuple[Axis, ...]
    width: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    query: Body
    key: Body
    value: Body
    scores: str
    element: str
    top: str
    total: str
    weight: Body
    norm: str
    norm_by: Body | None
    output: str
    meets: tuple[tuple[str, str], ...]
    dtype: DType
    product: DType
    sum_of: DType

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that each number of the tile cuts."""
        return ((self.row,), (self.column,), self.depth)

    @property
    def access(self) -> int:
        """Elements of shared memory that a thread takes at once."""
        return max(1, ACCESS_BYTES // self.dtype.bytes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Elements along the depth and along the width."""
        return extent_of(self.depth).constant, extent_of(self.width).constant


class _No(Exception):
    """Why two regions are not this kernel."""


@functools.lru_cache(maxsize=256)
def streaming_of(first: Region, second: Region) -> Streaming | str:
    """The two regions as one streaming kernel, or why they are none, in words."""
    try:
        return _streaming(first, second)
    except _No as reason:
        return str(reason)


def two_regions(regions: tuple[Region, ...]) -> Streaming | str:
    """The regions of a plan as one streaming kernel, or why they are none."""
    return streaming_of(*regions) if len(regions) == 2 else "not two regions"


def _streaming(first: Region, second: Region) -> Streaming:
    for body in (*bodies_of(first), *bodies_of(second)):
        for node in walk(body):
            if isinstance(node, (Gather, Scan, Scatter, Random)) or isinstance(node, Ref) and node.index is not None:
                raise _No(f"a {type(node).__name__.lower()} beside the folds")
    scores, top, total = _folds(first)
    handed = _handed(first, second)
    column = first.let(top).expr.axes[0].name
    if column != first.let(total).expr.axes[0].name:
        raise _No(f"%{top} and %{total} fold different axes")
    element = first.let(top).expr.body
    weight = _value(first, first.let(total).expr.body)
    if not isinstance(element, Ref) or not _is_exponential(first, weight, element, top):
        raise _No(f"%{total} does not sum an exponential of what is under %{top}")
    norm, norm_by = _normalized(first, handed.expr, weight, column)
    query, key = _factors(first, scores, column)
    output, value, meets = _second(first, second, handed, column)
    axes = {a.name: a for a in first.iters}
    there = dict(meets)
    others = {there.get(n, n) for n in axes_of(value)} | axes_of(key)
    shared = [a for a in first.iters if a.name != column and a.name in axes_of(query) and a.name not in others]
    if not shared:
        raise _No("no rows that meet the same columns")
    fold, last = first.let(scores).expr, second.let(output).expr
    dtypes = {d.name for d in (fold.dtype, element.dtype, weight.dtype, first.let(total).expr.dtype, last.dtype)}
    if dtypes not in ({"fp32"}, {"fp64"}):
        raise _No(f"scores, weights and sums in {', '.join(sorted(dtypes))}")
    width = tuple(a for a in second.iters if a.name not in there)
    found = Streaming(
        shared[-1],
        axes[column],
        fold.axes,
        width,
        tuple(a for a in first.iters if a not in (shared[-1], axes[column])),
        query,
        key,
        value,
        scores,
        element.name,
        top,
        total,
        weight,
        norm,
        norm_by,
        output,
        meets,
        fold.dtype,
        fold.body.dtype,
        last.body.dtype,
    )
    for what, size in zip(("depth", "width"), (extent_of(fold.axes).constant, extent_of(width).constant)):
        if size is None or not 1 <= size <= WIDEST:
            raise _No(f"a {what} of {extent_of(fold.axes if what == 'depth' else width)}, where 1 to {WIDEST} fit")
    return found


def _folds(region: Region) -> tuple[str, str, str]:
    """The values that are a contraction, a row's maximum and a row's sum."""
    folds = [let for let in region.lets if isinstance(let.expr, Reduce)]
    count = sum(isinstance(n, Reduce) for body in bodies_of(region) for n in walk(body))
    if count != 3 or [f.expr.op for f in folds] != ["sum", "max", "sum"] or any(f.expr.init is not None for f in folds):
        raise _No("other folds than a sum, a maximum and a sum")
    scores, *rows = folds
    if any(a.size is None for a in scores.expr.axes) or any(
        len(f.expr.axes) != 1 or f.expr.axes[0].size is not None for f in rows
    ):
        raise _No("folds that do not run along one axis of the region")
    return tuple(f.name for f in folds)


def _handed(first: Region, second: Region) -> Yield:
    """The one write of the first region, which the second reads."""
    if len(first.yields) != 1 or first.yields[0].guard:
        raise _No("more than one write, or a guarded one")
    (item,) = first.yields
    names = [e.name or "" for e in item.index if e.constant is None]
    if not any(t.name == item.output for t in second.inputs) or sorted(names) != sorted(a.name for a in first.iters):
        raise _No(f"{item.output} is not handed on point by point")
    return item


def _value(region: Region, body: Body) -> Body:
    """The expression behind a value's name."""
    return region.let(body.name).expr if isinstance(body, Ref) else body


def _is_exponential(region: Region, weight: Body, element: Ref, top: str) -> bool:
    """Whether `weight` is exp2(c*(element - top)) with c > 0; where top is -inf something else may stand for it."""
    if not isinstance(weight, Unary) or weight.op != "exp2":
        return False
    inner, factor = _value(region, weight.x), 1.0
    if isinstance(inner, Binary) and inner.op == "mul":
        number, inner = (inner.left, inner.right) if isinstance(inner.left, Literal) else (inner.right, inner.left)
        factor = number.value if isinstance(number, Literal) else 0.0
        inner = _value(region, inner)
    if not isinstance(inner, Binary) or inner.op != "sub" or inner.left != element or not 0 < factor < math.inf:
        return False
    base = (
        _value(region, inner.right.x)
        if isinstance(inner.right, BroadcastInDim) and isinstance(inner.right.x, Ref)
        else getattr(inner.right, "x", None)
    )
    if isinstance(inner.right, BroadcastInDim) and inner.right.x == Ref(top, element.dtype):
        return True
    return (
        isinstance(base, Ternary)
        and base.op == "where"
        and _is_emptiness(base.first, top)
        and base.third == Ref(top, element.dtype)
    )


def _is_emptiness(body: Body, top: str) -> bool:
    """Whether the expression asks if top is -inf."""
    if not isinstance(body, Binary) or body.op != "cmpeq":
        return False
    sides = (body.left, body.right)
    return any(isinstance(s, Ref) and s.name == top for s in sides) and any(
        isinstance(s, Literal) and s.value == -math.inf for s in sides
    )


def _normalized(region: Region, handed: Body, weight: Body, column: str) -> tuple[str, Body | None]:
    """What P does to E: `div` or `mul` by a number of the row."""
    body = _value(region, handed)
    while isinstance(body, Unary) and body.op == "cast" and body.dtype.is_float:
        body = _value(region, body.x)
    if body == weight:
        return "", None
    if isinstance(body, Binary) and body.op in ("fdiv", "mul"):
        for scaled, by in ((body.left, body.right), (body.right, body.left))[: 1 if body.op == "fdiv" else 2]:
            if (
                _value(region, scaled) == weight
                and isinstance(by, BroadcastInDim)
                and column not in _reach(region, by.x)
            ):
                return body.op, by
    raise _No("a weight that is not the exponential over a number of its row")


def _reach(region: Region, body: Body) -> set[str]:
    """Axes that an expression varies along, folds taken off."""
    found: set[str] = set()
    for node in walk(body):
        if isinstance(node, Ref):
            expr = region.let(node.name).expr
            found |= (
                _reach(region, expr.body) - {a.name for a in expr.axes}
                if isinstance(expr, Reduce)
                else _reach(region, expr)
            )
    return found | axes_of(body)


def _factors(region: Region, scores: str, column: str) -> tuple[Body, Body]:
    """The factor that is the same for a whole row, and the one that varies along it."""
    product = region.let(scores).expr.body
    if not isinstance(product, Binary) or product.op != "mul":
        raise _No(f"%{scores} is no sum of products")
    left, right = product.left, product.right
    if column in axes_of(left):
        left, right = right, left
    depth = {a.name for a in region.let(scores).expr.axes}
    if (
        column in axes_of(left)
        or column not in axes_of(right)
        or any(isinstance(n, Ref) for f in (left, right) for n in walk(f))
    ):
        raise _No(f"%{scores} has not one factor along {column}")
    if not depth <= axes_of(left) or not depth <= axes_of(right):
        raise _No(f"%{scores} sums along an axis that one factor has not")
    return left, right


def _second(first: Region, second: Region, handed: Yield, column: str) -> tuple[str, Body, tuple[tuple[str, str], ...]]:
    """The second region's sum, its factor beside P, and how its axes meet the first region's."""
    folds = [let for let in second.lets if isinstance(let.expr, Reduce)]
    count = sum(isinstance(n, Reduce) for body in bodies_of(second) for n in walk(body))
    if (
        count != 1
        or not folds
        or folds[0].expr.op != "sum"
        or folds[0].expr.init is not None
        or len(folds[0].expr.axes) != 1
    ):
        raise _No("a reader that is not one sum")
    fold = folds[0].expr
    if not isinstance(fold.body, Binary) or fold.body.op != "mul" or fold.axes[0].size is None:
        raise _No("a reader that is no sum of products")
    for weights, value in ((fold.body.left, fold.body.right), (fold.body.right, fold.body.left)):  # noqa: B007
        read = weights.x if isinstance(weights, Unary) and weights.op == "cast" else weights
        if isinstance(read, Read) and read.tensor == handed.output:
            break
    else:
        raise _No(f"a factor that is more than {handed.output}")
    if sum(isinstance(n, Read) and n.tensor == handed.output for body in bodies_of(second) for n in walk(body)) != 1:
        raise _No(f"more than one read of {handed.output}")
    meets: list[tuple[str, str]] = []
    for written, there in zip(handed.index, read.index):
        if written.constant is not None and written != there or written.constant is None and there.name is None:
            raise _No(f"{handed.output} is not read point by point")
        if written.constant is None:
            meets.append((there.name, written.name))
    met = dict(meets)
    if met.get(fold.axes[0].name) != column or len(met) != len(meets) or any(isinstance(n, Ref) for n in walk(value)):
        raise _No(f"a sum along another axis than {column}")
    sizes = {a.name: a.size for a in (*second.iters, *fold.axes)}
    if any(sizes.get(here) != next(a.size for a in first.iters if a.name == there) for here, there in meets):
        raise _No("axes that meet and differ in size")
    return folds[0].name, value, tuple(meets)


def masks_of(kernel: Streaming, region: Region) -> Iterator[Bound]:
    """The guards outside which an element is -inf, and so weighs nothing."""
    body = _value(region, region.let(kernel.element).expr)
    while isinstance(body, Select) and isinstance(body.other, Literal) and body.other.value == -math.inf:
        yield from body.guard
        body = _value(region, body.then)


def tile_is_touched(
    kernel: Streaming, region: Region, tile: tuple[int, int], first: tuple[Expr, Expr]
) -> tuple[Bound, ...]:
    """What must hold for a tile of rows and columns, whose first are `first`, to have an element inside the masks;
    empty when nothing is known."""
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


__all__ = ["Streaming", "masks_of", "streaming_of", "tile_is_touched", "two_regions"]
