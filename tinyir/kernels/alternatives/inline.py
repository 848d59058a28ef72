"""What a fold folds, written out: the values in it that fold nothing are put in their places, so that its axes may
become others.

before: %c = cast(X[i0, i1]) : fp32    %z = reduce sum (i1) : fp32 { exp2(sub(%c, broadcast_in_dim(%m, dims=[0]))) }
after:  exp2(sub(cast(X[i0, i1]) : fp32, %m))
"""

from __future__ import annotations

from ...ir.accumulate import neutral_of
from ...ir.body import Body, BroadcastInDim, Reduce, Ref, Scan, Scatter, Select, Transpose, rebuild, walk
from ...ir.expr import Bound, Expr
from ...ir.neighbours import is_multiple
from ...ir.present import axes_of_values
from ...ir.region import Region


class Tangled(Exception):
    """An expression moves a value, so that it cannot be written out."""


def written_out(region: Region, body: Body) -> Body:
    """The expression with every value that folds nothing in its place. Raises Tangled where a value is moved on its
    way."""
    axes_of = axes_of_values(region)

    def put(inner: Body) -> Body:
        if isinstance(inner, Transpose) or isinstance(inner, Ref) and inner.index is not None:
            raise Tangled
        if isinstance(inner, BroadcastInDim):
            wide = tuple(a.name for a in region.iters) if inner.axes is None else inner.axes
            if isinstance(inner.x, Ref) and axes_of[inner.x.name] != tuple(wide[d] for d in inner.dims):
                raise Tangled
            return put(inner.x)
        if isinstance(inner, Ref) and not is_fold(expr := region.let(inner.name).expr):
            return put(expr)
        return rebuild(inner, put)

    return put(body)


def is_fold(body: Body) -> bool:
    """Whether an expression folds anything."""
    return any(isinstance(n, (Reduce, Scan, Scatter)) for n in walk(body))


def padded(body: Body, op: str, place: Expr, size: Expr, chunk: int) -> Body:
    """The expression where its place is below the size, else what the reducer leaves as it is; chunks that divide the
    size leave no rest."""
    if is_multiple(size, chunk):
        return body
    return Select((Bound(place, upper=size),), body, neutral_of(op, body.dtype), body.dtype)
