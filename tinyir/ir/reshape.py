"""Which element of a row-major tensor a reshape reads: by linearising and splitting again, group by group (seed 001
section 4.4).

Dims are grouped where the running products of both shapes meet, as polynomials: a group of one dim on each side is the
identity, and a group whose inner sizes are integers becomes floors by integers. Only a merge or split by a symbolic
inner size stays non-affine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .expr import ONE, ZERO, Expr

Sizes = Sequence[tuple[int, Expr]]


def split(source: Sequence[Expr], result: Sequence[Expr]) -> list[Expr]:
    """For each axis of `source`, the index that the element at `i0, i1, ...` of `result` has there. Floors are not yet
    simplified."""
    index = [ZERO] * len(source)
    if ZERO in source or ZERO in result:
        return index
    for inner, outer in groups(source, result):
        linear, stride = ZERO, ONE
        for axis, size in reversed(outer):
            linear, stride = linear + Expr.of(f"i{axis}") * stride, stride * size
        stride = ONE
        for at, (axis, size) in reversed(list(enumerate(inner))):
            quotient = linear // stride
            stride = stride * size
            index[axis] = quotient if at == 0 else quotient - size * (linear // stride)
    return index


def groups(source: Sequence[Expr], result: Sequence[Expr]) -> Iterator[tuple[Sizes, Sizes]]:
    """The smallest runs of dims, other than those of size 1, with the same product on both sides: ((axis, size), ...)
    of each side."""
    left = [(axis, size) for axis, size in enumerate(source) if size != ONE]
    right = [(axis, size) for axis, size in enumerate(result) if size != ONE]
    cuts = {product: at for at, product in enumerate(_running(left), 1)}
    taken, start = 0, 0
    for at, product in enumerate(_running(right), 1):
        if cuts.get(product, 0) > taken:
            yield left[taken : cuts[product]], right[start:at]
            taken, start = cuts[product], at


def _running(dims: Sizes) -> Iterator[Expr]:
    total = ONE
    for _, size in dims:
        total = total * size
        yield total
