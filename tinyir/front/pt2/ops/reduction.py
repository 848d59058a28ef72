"""Reductions, scans and orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....kit.phrase import Phrase
from ...program.terms import MAX_KNOWN, Term
from ..call import Call
from ..table import aten
from .elementwise import as_bool

_REDUCTIONS = {
    "sum": ("sum", ("default", "dim_IntList")),
    "mean": ("mean", ("default", "dim")),
    "amax": ("max", ("default",)),
    "amin": ("min", ("default",)),
    "max": ("max", ("default",)),
    "min": ("min", ("default",)),
    "prod": ("prod", ("default", "dim_int")),
    "any": ("any", ("default", "dim", "dims")),
    "all": ("all", ("default", "dim", "dims")),
}


def _reduction(op: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x = call.tensor("self")
        x = as_bool(call, x) if op in ("any", "all") else x
        if op in ("sum", "mean", "prod"):
            x = call.cast(x, call.dtype)
        axes = call.axes("dim", x.rank)
        if not x.rank:
            return x
        return call.op("Reduce", x, op=op, axes=axes, keepdims=bool(call.get("keepdim", False)), gives=x.dtype)

    return translate


for _name, (_op, _overloads) in _REDUCTIONS.items():
    aten(*(f"{_name}.{o}" for o in _overloads))(_reduction(_op))


aten("_is_all_true.default")(_reduction("all"))
aten("_is_any_true.default")(_reduction("any"))


@aten("argmax.default", "argmin.default")
def arg(call: Call) -> Any:
    """The place of the greatest or the least; without an axis among all elements in their order."""
    x = call.tensor("self")
    op = call.target.removesuffix(".default")
    if call.get("dim") is None:
        found = call.op("Reduce", call.reshape(x, [-1]), op=op, axes=[0])
        return call.reshape(found, call.shape)
    return call.op("Reduce", x, op=op, axes=[call.axis("dim", x.rank)], keepdims=bool(call.get("keepdim", False)))


@aten("max.dim", "min.dim")
def extreme(call: Call) -> Any:
    """The greatest or least along an axis, and its place."""
    x, word = call.tensor("self"), call.target[:3]
    attrs = {"axes": [call.axis("dim", x.rank)], "keepdims": bool(call.get("keepdim", False))}
    value = call.op("Reduce", x, op=word, gives=x.dtype, **attrs)
    return value, call.op("Reduce", x, op=f"arg{word}", **attrs) if call.wants(1) else None


def spread(call: Call, x: Term, op: str) -> Term:
    """The variance or deviation, with torch's corrections."""
    correction = call.get("correction", 1 if call.get("unbiased", True) else 0)
    if correction != int(correction):
        raise call.fault(Phrase("its correction is {correction}", correction=correction))
    return call.op(
        "Reduce",
        x,
        op=op,
        axes=call.axes("dim", x.rank),
        keepdims=bool(call.get("keepdim", False)),
        ddof=int(correction) or None,
        gives=x.dtype,
    )


@aten("var.correction", "var.dim", "var.default", "std.correction", "std.dim", "std.default")
def variance(call: Call) -> Any:
    """The variance, or its root."""
    return spread(call, call.tensor("self"), call.target[:3])


@aten(*(f"{word}_mean.{overload}" for word in ("var", "std") for overload in ("correction", "dim", "default")))
def variance_and_mean(call: Call) -> Any:
    """The variance, or its root, and the mean."""
    x = call.tensor("self")
    attrs = {"axes": call.axes("dim", x.rank), "keepdims": bool(call.get("keepdim", False))}
    mean = call.op("Reduce", x, op="mean", gives=x.dtype, **attrs) if call.wants(1) else None
    return spread(call, x, call.target[:3]) if call.wants(0) else None, mean


@aten("logsumexp.default")
def logsumexp(call: Call) -> Any:
    """The logarithm of a sum of powers, of numbers less the greatest."""
    x = call.float_of(call.tensor("self"))
    axes = call.axes("dim", x.rank)
    if not x.rank:
        return x
    found = call.op("Reduce", x, op="log_sum_exp", axes=axes, keepdims=bool(call.get("keepdim", False)), gives=x.dtype)
    return found


@aten("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(call: Call) -> Any:
    """How many elements are not 0."""
    x = call.cast(as_bool(call, call.tensor("self")), "i64")
    return call.op("Reduce", x, op="sum", axes=call.axes("dim", x.rank)) if x.rank else x


@aten("aminmax.default")
def extremes(call: Call) -> Any:
    """The least and the greatest."""
    x = call.tensor("self")
    attrs = {"axes": call.axes("dim", x.rank), "keepdims": bool(call.get("keepdim", False))}
    return tuple(call.op("Reduce", x, op=op, gives=x.dtype, **attrs) if x.rank else x for op in ("min", "max"))


@aten("nansum.default", "nanmean.default")
def of_numbers(call: Call) -> Any:
    """The sum or the mean of what is not NaN."""
    x = call.tensor("self")
    attrs = {"axes": call.axes("dim", x.rank), "keepdims": bool(call.get("keepdim", False))}
    if not x.dtype.is_float:
        return call.op("Reduce", call.cast(x, call.dtype), op="sum", gives=call.dtype, **attrs)
    is_none, own = call.fn("isnan", x), call.cast(x, "fp64" if x.dtype.name == "fp64" else "fp32")
    found = call.fn("where", is_none, 0.0, own, part="numbers")
    found = call.op("Reduce", found, op="sum", **attrs) if x.rank else found
    if call.target.startswith("nanmean"):
        count = call.cast(call.fn("not", is_none), "i64")
        count = call.op("Reduce", count, op="sum", part="count", **attrs) if x.rank else count
        found = call.fn("div", found, call.cast(count, found.dtype))
    return call.cast(found, call.dtype)


@aten("linalg_vector_norm.default", *(f"norm.{word}" for word in (
      "Scalar", "ScalarOpt_dim", "ScalarOpt_dtype", "ScalarOpt_dim_dtype")), "linalg_norm.default")  # fmt: skip
def vector_norm(call: Call) -> Any:
    """A norm over axes: the root of a sum of powers, the greatest or the least, or how many are not 0. A dtype that is
    asked for is what it is computed in, too: it may be out of the range of the operand's."""
    x, order = call.cast(call.tensor("self"), call.dtype), call.get("ord", call.get("p", 2))
    named = call.axes("dim", x.rank)
    if call.target.startswith("linalg_norm") and call.get("ord") is not None and len(named or range(x.rank)) != 1:
        return _matrix_norm(call, x, order, named or [0, 1])
    attrs = {"axes": call.axes("dim", x.rank), "keepdims": bool(call.get("keepdim", False))}
    return call.cast(norm(call, x, order, **attrs), call.dtype)


def norm(call: Call, x: Term, order: float, **attrs: Any) -> Term:
    """The norm of that order, in fp32 where x is narrower: powers go out of the range of fp16."""
    wide = x if x.dtype.name == "fp64" else call.cast(x, "fp32")
    if order == 2:
        return call.fn("sqrt", call.op("Reduce", call.fn("mul", wide, wide), op="sum", **attrs))
    size = call.fn("abs", wide, part="size")
    if math.isinf(order):
        return call.op("Reduce", size, op="max" if order > 0 else "min", **attrs)
    if order == 0:
        return call.op("Reduce", call.cast(call.fn("not_equal", size, 0.0), size.dtype), op="sum", **attrs)
    if order == 1:
        return call.op("Reduce", size, op="sum", **attrs)
    total = call.op("Reduce", call.fn("pow", size, float(order), part="power"), op="sum", part="total", **attrs)
    return call.fn("pow", total, 1 / order)


@aten("frobenius_norm.dim", "linalg_norm.ord_str", "linalg_matrix_norm.default", "linalg_matrix_norm.str_ord")
def matrix_norm(call: Call) -> Any:
    """A norm of matrices: the root of the sum of squares, or the greatest or least sum of a column or a row."""
    x = call.cast(call.tensor("self" if "self" in call.args else "A"), call.dtype)
    own = [x.rank - 2, x.rank - 1]
    return _matrix_norm(call, x, call.get("ord", "fro"), call.axes("dim", x.rank) or own)


def _matrix_norm(call: Call, x: Term, order: Any, axes: list[int]) -> Any:
    keeps = bool(call.get("keepdim", False))
    if order == "fro":
        return call.cast(norm(call, x, 2, axes=axes, keepdims=keeps), call.dtype)
    if not isinstance(order, (int, float)) or abs(order) != 1 and not math.isinf(order):
        raise call.fault(Phrase("its order is {order}, which singular values say", order=order))
    summed = axes[0] if abs(order) == 1 else axes[1]
    (other,) = {*axes} - {summed}
    sums = call.op("Reduce", call.fn("abs", x), op="sum", axes=[summed], keepdims=True, part="sums")
    found = call.op("Reduce", sums, op="max" if order > 0 else "min", axes=[other], keepdims=True)
    return call.cast(call.reshape(found, call.shape), call.dtype)


@aten("dist.default", "pairwise_distance.default")
def distance(call: Call) -> Any:
    """The norm of a difference: of all of it, or of its last axis, to each of which a little is added."""
    is_all = call.target.startswith("dist")
    x, y = call.promoted(*(call.tensor(k) for k in (("self", "other") if is_all else ("x1", "x2"))))
    apart = call.fn("sub", *(call.cast(t, "fp64" if t.dtype.name == "fp64" else "fp32") for t in (x, y)), part="apart")
    apart = apart if is_all else call.fn("add", apart, float(call.get("eps", 1e-6)))
    axes = list(range(apart.rank)) if is_all else [apart.rank - 1]
    keeps = bool(call.get("keepdim", False))
    return call.cast(norm(call, apart, call.get("p", 2), axes=axes, keepdims=keeps), call.dtype)


@aten("cosine_similarity.default")
def cosine_similarity(call: Call) -> Any:
    """The sum of products along an axis, of operands divided by their norms, which are `eps` at least."""
    x, y = (call.cast(t, "fp64" if t.dtype.name == "fp64" else "fp32") for t in call.promoted(
        call.tensor("x1"), call.tensor("x2")))  # fmt: skip
    axis, eps = call.axis("dim", max(x.rank, y.rank), 1), float(call.get("eps", 1e-8))
    shape = call.fn("mul", x, y, part="shape").shape
    sides = []
    for side in (call.expand(x, shape), call.expand(y, shape)):
        size = norm(call, side, 2, axes=[axis], keepdims=True)
        sides.append(call.fn("div", side, call.fn("max", size, eps)))
    return call.cast(call.op("Reduce", call.fn("mul", *sides), op="sum", axes=[axis]), call.dtype)


@aten("renorm.default")
def renorm(call: Call) -> Any:
    """What is at each place of an axis, made smaller where its norm is above a limit."""
    x = call.tensor("self")
    own, most, axis = (
        call.cast(x, "fp64" if x.dtype.name == "fp64" else "fp32"),
        float(call.get("maxnorm", 0)),
        call.axis("dim", x.rank),
    )
    size = norm(call, own, call.get("p", 2), axes=[a for a in range(x.rank) if a != axis], keepdims=True)
    factor = call.fn("div", most, call.fn("add", size, 1e-7), part="factor")
    factor = call.fn("where", call.fn("greater", size, most), factor, 1.0, part="factor")
    return call.cast(call.fn("mul", own, factor), x.dtype)


@aten("pdist.default", "_pdist_forward.default")
def distances_of_pairs(call: Call) -> Any:
    """The norm of each row less each one after it."""
    x = call.tensor("self")
    count = x.shape[0].constant
    if count is None or count * count > MAX_KNOWN:
        raise call.fault(Phrase("it has {rows} rows", rows=x.shape[0]))
    if count < 2:
        return call.expand(call.known(0.0, x.dtype), [0])
    sides = (call.op("Gather", x, call.known(side, "i64"), axis=0) for side in np.triu_indices(count, 1))
    apart = call.fn("sub", *sides, part="apart")
    return call.cast(norm(call, apart, call.get("p", 2.0), axes=[1]), x.dtype)


@aten("_cdist_forward.default", "cdist.default")
def distances(call: Call) -> Any:
    """The norm of each row of one matrix less each row of another."""
    x, y = call.tensor("x1"), call.tensor("x2")
    one, other = (call.reshape(t, [*t.shape[:-2], *own]) for t, own in (
        (x, (x.shape[-2], 1, x.shape[-1])), (y, (1, y.shape[-2], y.shape[-1]))))  # fmt: skip
    apart = call.fn("sub", one, other, part="apart")
    return call.cast(norm(call, apart, call.get("p", 2.0), axes=[apart.rank - 1]), x.dtype)


@aten("bucketize.Tensor", "bucketize.Scalar", "searchsorted.Tensor", "searchsorted.Scalar")
def places_among(call: Call) -> Any:
    """How many of the sorted numbers along the last axis are before a value: with `right` those that equal it too.
    NaN is behind all."""
    is_own = call.target.startswith("searchsorted")
    ends, x = call.tensor("sorted_sequence" if is_own else "boundaries"), call.operand("self")
    order = call.optional("sorter")
    ends = ends if order is None else call.op("GatherElements", ends, order, axis=ends.rank - 1)
    x = x if isinstance(x, Term) else call.known(x, call.joint_dtype(ends, x))
    is_right = call.get("right", False) or call.get("side", "left") == "right"
    sides = call.promoted(ends, x)
    wide = call.reshape(sides[0], [*ends.shape[:-1], *[1] * (x.rank - ends.rank + 1), ends.shape[-1]])
    is_behind = call.fn("greater" if is_right else "greater_equal", wide, call.reshape(sides[1], [*x.shape, 1]))
    before = call.cast(call.fn("not", is_behind), "i64")
    return call.cast(call.op("Reduce", before, op="sum", axes=[x.rank]), call.dtype)


@aten("cumsum.default", "cumprod.default")
def cumulative(call: Call) -> Any:
    """Running sums or products."""
    x = call.cast(call.tensor("self"), call.dtype)
    if not x.rank:
        return x
    op = "CumSum" if call.target.startswith("cumsum") else "CumProd"
    return call.op(op, x, axis=call.axis("dim", x.rank), gives=x.dtype)


@aten("topk.default")
def top_k(call: Call) -> Any:
    """The k greatest or least along an axis, in order, and their places."""
    x = call.tensor("self")
    return call.op(
        "TopK",
        x,
        outputs=2,
        k=call.get("k"),
        axis=call.axis("dim", x.rank, -1),
        largest=bool(call.get("largest", True)),
    )


@aten("sort.default", "sort.stable")
def sort(call: Call) -> Any:
    """All elements along an axis, in order, and their places."""
    x = call.tensor("self")
    axis, falls = call.axis("dim", x.rank, -1), bool(call.get("descending", False))
    if x.rank and x.shape[axis].constant is None:
        return _by_rank(call, x, axis, falls)
    count = x.shape[axis].constant if x.rank else 1
    return call.op("TopK", x, outputs=2, k=count, axis=axis, largest=falls)


def _by_rank(call: Call, x: Term, axis: int, falls: bool) -> tuple[Term, Term]:
    """The same of as many elements as a symbol says: each at the place that counts those before it, of equal ones the
    earlier, NaN as the greatest."""
    rows, columns = ([*x.shape[: axis + 1 - n], 1, *x.shape[axis + 1 - n :]] for n in range(2))
    own, other = call.reshape(x, rows), call.reshape(x, columns)
    is_before = call.fn("greater" if falls else "less", other, own)
    is_same = call.fn("equal", other, own, part="same")
    if x.dtype.is_float:
        nones = [call.fn("isnan", t) for t in (own, other)]
        last, first = nones if not falls else reversed(nones)
        is_before = call.fn("or", is_before, call.fn("and", last, call.fn("not", first)))
        is_same = call.fn("or", is_same, call.fn("and", *nones))
    places = [call.op("Iota", shape=list(is_same.shape), axis=axis + n, part="place") for n in range(2)]
    is_earlier = call.fn("and", is_same, call.fn("less", places[1], places[0]))
    counted = call.cast(call.fn("or", is_before, is_earlier), "i64")
    rank = call.op("Reduce", counted, op="sum", axes=[axis + 1], part="rank")
    none, line = call.expand(call.known(0, "i64"), x.shape), call.op("Iota", shape=list(x.shape), axis=axis)
    index = call.op("Scatter", none, rank, line, axis=axis, reduction="none")
    return call.op("GatherElements", x, index, axis=axis), index


@aten("argsort.default", "argsort.stable")
def argsort(call: Call) -> Any:
    """The places of all elements along an axis, in order."""
    return sort(call)[1]


@aten("diff.default")
def diff(call: Call) -> Any:
    """What neighbours along an axis differ by, `n` times; of truth values whether they do. No times are the operand
    alone, whatever is joined to it."""
    x = call.tensor("self")
    if call.get("n", 1) == 0:
        return call.fn("identity", x)
    axis = call.axis("dim", x.rank, -1)
    ends = [call.optional(key) for key in ("prepend", "append")]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    found = call.op("Concat", *parts, axis=axis, part="joined") if len(parts) > 1 else x
    for _ in range(call.get("n", 1)):
        size = found.shape[axis]
        later, earlier = call.cut(found, axis, 1, size), call.cut(found, axis, 0, size - 1)
        found = call.fn("not_equal" if found.dtype.kind == "b" else "sub", later, earlier)
    return found
