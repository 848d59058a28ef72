"""Losses, in fp32 where the operand is narrower: rounded once."""

from __future__ import annotations

import math
from typing import Any

from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten
from .pointwise import rounded, wide, wide_pair
from .reduction import norm

NONE, MEAN = 0, 1  # values of `reduction`; the third is a sum


def reduced(call: Call, x: Term) -> Any:
    """Of each element in the shape of the output (one row's loss may have an axis), their mean, or their sum."""
    how = call.get("reduction", MEAN)
    if how == NONE:
        x = call.reshape(x, call.shape)
    elif x.rank:
        x = call.op("Reduce", x, op="mean" if how == MEAN else "sum", axes=list(range(x.rank)))
    return rounded(call, x)


@aten("mse_loss.default", "l1_loss.default", "smooth_l1_loss.default", "huber_loss.default")
def of_distance(call: Call) -> Any:
    """The square of the distance, the distance itself, or one that goes over into the other."""
    x, y = wide_pair(call, "self", "target")
    apart, word = call.fn("sub", x, y, part="apart"), call.target.partition(".")[0]
    square, size = call.fn("mul", apart, apart, part="square"), call.fn("abs", apart, part="size")
    edge = float(call.get("delta" if word == "huber_loss" else "beta", 1.0))
    if word == "mse_loss":
        return reduced(call, square)
    if word == "l1_loss" or word == "smooth_l1_loss" and edge == 0:
        return reduced(call, size)
    near = call.fn("mul", square, 0.5 if word == "huber_loss" else 0.5 / edge)
    far = call.fn("sub", size, 0.5 * edge)
    far = call.fn("mul", far, edge) if word == "huber_loss" else far
    return reduced(call, call.fn("where", call.fn("less", size, edge), near, far))


@aten("binary_cross_entropy.default")
def binary_cross_entropy(call: Call) -> Any:
    """-(y log x + (1 - y) log(1 - x)), of logarithms of -100 at least."""
    x, y = wide_pair(call, "self", "target")
    logs = [call.fn("max", call.fn("log", x), -100.0), call.fn("max", call.fn("log1p", call.fn("neg", x)), -100.0)]
    sides = call.fn("mul", y, logs[0]), call.fn("mul", call.fn("sub", 1.0, y), logs[1])
    return reduced(call, _weighed(call, call.fn("neg", call.fn("add", *sides))))


@aten("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(call: Call) -> Any:
    """The same of the sigmoid, with a weight for what is true."""
    x, y = wide_pair(call, "self", "target")
    log = call.fn("neg", call.fn("softplus", call.fn("neg", x)))  # of the sigmoid
    if call.args.get("pos_weight") is not None:
        more = call.fn("mul", y, call.fn("sub", wide(call, call.tensor("pos_weight")), 1.0))
        log = call.fn("mul", log, call.fn("add", more, 1.0))
    found = call.fn("sub", call.fn("mul", call.fn("sub", 1.0, y), x), log)
    return reduced(call, _weighed(call, found))


def _weighed(call: Call, x: Term) -> Term:
    weight = call.optional("weight")
    return x if weight is None else call.fn("mul", x, wide(call, weight))


@aten("kl_div.default")
def kl_div(call: Call) -> Any:
    """y (log y - x), where x is a logarithm, and y where that is said."""
    x, y = wide_pair(call, "self", "target")
    if call.get("log_target", False):
        return reduced(call, call.fn("mul", call.fn("exp", y), call.fn("sub", y, x)))
    own = call.fn("where", call.fn("equal", y, 0.0), 0.0, call.fn("mul", y, call.fn("log", y)), part="own")
    return reduced(call, call.fn("sub", own, call.fn("mul", y, x)))


@aten("nll_loss.default", "nll_loss2d.default", "nll_loss_nd.default", "nll_loss_forward.default",
      "nll_loss2d_forward.default")  # fmt: skip
def nll_loss(call: Call) -> Any:
    """The logarithm of each target's probability, negated; the mean is that of weights. Beside it the sum of these."""
    found, total = _likelihood(call, wide(call, call.tensor("self")), call.tensor("target"))
    return (found, call.cast(total, found.dtype)) if "forward" in call.target else found


@aten("cross_entropy_loss.default")
def cross_entropy(call: Call) -> Any:
    """nll_loss of the logarithms of a softmax over the classes; targets may be shares of the classes, and be spread."""
    x, target = wide(call, call.tensor("self")), call.tensor("target")
    axis, spread = int(x.rank > 1), float(call.get("label_smoothing", 0.0))
    logs = call.op("LogSoftmax", x, axis=axis)
    if not target.dtype.is_float:
        return _likelihood(call, logs, target, spread)[0]
    shares, classes = wide(call, target), call.known(x.shape[axis], "i64")
    if spread:
        even = call.fn("div", spread, call.cast(classes, logs.dtype))
        shares = call.fn("add", call.fn("mul", shares, 1 - spread), even)
    weight = call.optional("weight")
    if weight is not None:
        shares = call.fn("mul", shares, _along(call, wide(call, weight), shares, axis))
    each = call.fn("neg", call.op("Reduce", call.fn("mul", logs, shares), op="sum", axes=[axis]))
    return reduced(call, each)


def _along(call: Call, weight: Term, x: Term, axis: int) -> Term:
    return call.reshape(weight, [weight.shape[0], *[1] * (x.rank - axis - 1)])


def _likelihood(call: Call, logs: Term, target: Term, spread: float = 0.0) -> tuple[Term, Term]:
    axis, ignored = int(logs.rank > 1), call.get("ignore_index", -100)
    if not isinstance(ignored, int):
        raise call.fault(Phrase("its ignore_index is a symbol"))
    is_counted = call.fn("not_equal", target, ignored)
    place = call.cast(call.fn("where", is_counted, target, 0, part="place"), "i64")
    shape = [*logs.shape[:axis], 1, *logs.shape[axis + 1 :]]
    own = call.reshape(call.op("GatherElements", logs, call.reshape(place, shape), axis=axis), target.shape)
    weight = call.optional("weight")
    weights = call.cast(is_counted, logs.dtype)
    if weight is not None:
        of_each = call.op("Gather", wide(call, weight), place, axis=0, part="weight")
        weights = call.fn("where", is_counted, of_each, 0.0)
    each = call.fn("where", is_counted, call.fn("neg", call.fn("mul", own, weights)), 0.0, part="each")
    if spread:
        all_logs = logs if weight is None else call.fn("mul", logs, _along(call, wide(call, weight), logs, axis))
        even = call.fn("neg", call.op("Reduce", all_logs, op="sum", axes=[axis]))
        even = call.fn("where", is_counted, even, 0.0)
        share = call.fn("div", spread, call.cast(call.known(logs.shape[axis], "i64"), logs.dtype))
        each = call.fn("add", call.fn("mul", each, 1 - spread), call.fn("mul", even, share))
    axes = list(range(target.rank))
    total = call.op("Reduce", weights, op="sum", axes=axes, part="total") if axes else weights
    how = call.get("reduction", MEAN)
    if how != NONE and axes:
        each = call.op("Reduce", each, op="sum", axes=axes)
    if how == MEAN:
        each = call.fn("div", each, total)
    return rounded(call, each), total


@aten("soft_margin_loss.default", "hinge_embedding_loss.default")
def of_labels(call: Call) -> Any:
    """Of labels 1 and -1: log(1 + exp(-y x)), or x of the ones and how far x is below a margin of the others."""
    x, y = wide_pair(call, "self", "target")
    if call.target.startswith("soft"):
        return reduced(call, call.fn("softplus", call.fn("neg", call.fn("mul", x, y))))
    below = call.fn("max", call.fn("sub", float(call.get("margin", 1.0)), x), 0.0, part="below")
    others = call.fn("where", call.fn("equal", y, 1.0), 0.0, below)
    return reduced(call, call.fn("add", others, call.fn("where", call.fn("equal", y, -1.0), 0.0, x)))


@aten("margin_ranking_loss.default")
def margin_ranking_loss(call: Call) -> Any:
    """How far the first operand is from being a margin above the second, or below it where the label is -1."""
    x, y = wide_pair(call, "input1", "input2")
    label = wide(call, call.tensor("target"))
    above = call.fn("mul", label, call.fn("sub", x, y))
    return reduced(call, call.fn("max", call.fn("sub", float(call.get("margin", 0.0)), above), 0.0))


@aten("cosine_embedding_loss.default")
def cosine_embedding_loss(call: Call) -> Any:
    """1 less the cosine where the label is 1, how far the cosine is above a margin where it is -1."""
    x, y = wide_pair(call, "input1", "input2")
    label, axis = call.tensor("target"), x.rank - 1
    products = {"xy": (x, y), "xx": (x, x), "yy": (y, y)}
    sums = {name: call.op("Reduce", call.fn("mul", *pair), op="sum", axes=[axis], part=name)
            for name, pair in products.items()}  # fmt: skip
    squares = call.fn("mul", *(call.fn("add", sums[name], 1e-12) for name in ("xx", "yy")))
    cosine = call.fn("div", sums["xy"], call.fn("sqrt", squares), part="cosine")
    above = call.fn("max", call.fn("sub", cosine, float(call.get("margin", 0.0))), 0.0)
    zero = call.fn("where", call.fn("equal", label, -1), above, 0.0)
    return reduced(call, call.fn("where", call.fn("equal", label, 1), call.fn("sub", 1.0, cosine), zero))


@aten("triplet_margin_loss.default")
def triplet_margin_loss(call: Call) -> Any:
    """How far a negative example is from being a margin further away than a positive one."""
    anchor, near, far = (wide(call, call.tensor(key)) for key in ("anchor", "positive", "negative"))
    power, eps = float(call.get("p", 2.0)), float(call.get("eps", 1e-6))

    def length(x: Term, y: Term) -> Term:
        apart = call.fn("add", call.fn("sub", x, y), eps, part="apart")
        return norm(call, apart, power, axes=[apart.rank - 1])

    own, other = length(anchor, near), length(anchor, far)
    if call.get("swap", False):
        other = call.fn("min", other, length(near, far))
    found = call.fn("add", call.fn("sub", own, other), float(call.get("margin", 1.0)))
    return reduced(call, call.fn("max", found, 0.0))


@aten("poisson_nll_loss.default")
def poisson_nll_loss(call: Call) -> Any:
    """exp(x) - y x, or x - y log x; in full with the approximation of log(y!) where y is more than 1."""
    x, y = wide_pair(call, "input", "target")
    if call.get("log_input", True):
        found = call.fn("sub", call.fn("exp", x), call.fn("mul", y, x))
    else:
        found = call.fn("sub", x, call.fn("mul", y, call.fn("log", call.fn("add", x, float(call.get("eps", 1e-8))))))
    if call.get("full", False):
        log = call.fn("mul", call.fn("log", call.fn("mul", y, 2 * math.pi)), 0.5)
        more = call.fn("add", call.fn("sub", call.fn("mul", y, call.fn("log", y)), y), log, part="more")
        found = call.fn("add", found, call.fn("where", call.fn("less_equal", y, 1.0), 0.0, more))
    return reduced(call, found)


@aten("multi_margin_loss.default")
def multi_margin_loss(call: Call) -> Any:
    """How far each class is above a margin below the target's, to a power, divided by the number of classes."""
    x, target = wide(call, call.tensor("self")), call.tensor("target")
    axis, classes = x.rank - 1, x.shape[-1]
    place = call.reshape(target, [*x.shape[:-1], 1])
    own = call.op("GatherElements", x, place, axis=axis)
    above = call.fn("max", call.fn("add", call.fn("sub", x, own), float(call.get("margin", 1))), 0.0, part="above")
    power = call.get("p", 1)
    above = call.fn("mul", above, above) if power == 2 else above
    weight = call.optional("weight")
    if weight is not None:
        above = call.fn("mul", above, call.reshape(call.op("Gather", wide(call, weight), target, axis=0), place.shape))
    others = call.fn("not_equal", call.op("Iota", shape=list(x.shape), axis=axis), place, part="others")
    total = call.op("Reduce", call.fn("where", others, above, 0.0), op="sum", axes=[axis])
    return reduced(call, call.fn("div", total, call.cast(call.known(classes, "i64"), total.dtype)))


@aten("multilabel_margin_loss.default", "multilabel_margin_loss_forward.default")
def multilabel_margin_loss(call: Call) -> Any:
    """How far classes that are not targets are above a margin of 1 below each target, divided by the number of classes.
    The targets of a row end before the first -1. Beside it which classes are targets."""
    x, target = wide(call, call.tensor("self")), call.tensor("target")
    axis, classes = x.rank - 1, x.shape[-1]
    ended = call.cast(call.fn("less", target, 0), "i64")
    is_one = call.fn("equal", call.op("CumSum", ended, axis=axis, gives=ended.dtype), 0, part="one")
    place = call.fn("where", is_one, target, 0, part="place")
    by_target = [*x.shape[:-1], classes, 1]
    own = call.reshape(call.op("GatherElements", x, place, axis=axis), by_target)
    rows, each = (call.reshape(t, by_target) for t in (is_one, place))
    columns = call.op("Iota", shape=[classes], axis=0)
    hits = call.fn("and", call.fn("equal", each, columns), rows, part="hits")
    is_target = call.op("Reduce", hits, op="any", axes=[axis], part="target")
    near = call.fn("max", call.fn("add", call.fn("sub", call.reshape(x, [*x.shape[:-1], 1, classes]), own), 1.0), 0.0)
    others = call.fn("not", call.reshape(is_target, [*x.shape[:-1], 1, classes]))
    near = call.fn("where", call.fn("and", rows, others), near, 0.0, part="near")
    total = call.op("Reduce", near, op="sum", axes=[axis, axis + 1])
    found = reduced(call, call.fn("div", total, call.cast(call.known(classes, "i64"), total.dtype)))
    return (found, call.cast(is_target, x.dtype)) if "forward" in call.target else found
