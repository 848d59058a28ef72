"""Softmax and the normalisations."""

from __future__ import annotations

from typing import Any

from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten


@aten("_softmax.default", "softmax.int", "_log_softmax.default", "log_softmax.int", "_safe_softmax.default")
def softmax(call: Call) -> Any:
    """Along an axis; the safe one gives 0 where a row is -inf throughout."""
    x = call.cast(call.tensor("self"), call.dtype)
    if not x.rank:
        return call.fn("mul", x, 0.0) if "log" in call.target else call.fn("add", call.fn("mul", x, 0.0), 1.0)
    axis = call.axis("dim", x.rank)
    if "log" in call.target:
        return call.op("LogSoftmax", x, axis=axis)
    found = call.op("Softmax", x, axis=axis)
    if call.target != "_safe_softmax.default":
        return found
    is_hidden = call.fn("equal", x, float("-inf"))
    is_empty = call.op("Reduce", is_hidden, op="all", axes=[axis], keepdims=True)
    return call.fn("where", is_empty, call.known(0.0, x.dtype), found)


@aten(
    "_native_batch_norm_legit_no_training.default",
    "_native_batch_norm_legit.default",
    "_native_batch_norm_legit_functional.default",
    "batch_norm.default",
    "native_batch_norm.default",
)
def batch_norm(call: Call) -> Any:
    """By stored statistics, or in training by those of the batch, with what the stored ones become behind the
    others."""
    trains = call.get("training", call.get("train", False))
    if call.optional("running_mean") is None and not trains:
        raise call.fault(Phrase("it has no stored statistics"))
    if trains:
        found = batch_norm_of_itself(call)
        return (*(found if call.target != "batch_norm.default" else found[:1]), *_statistics(call))
    x = call.tensor("input")
    average, square = call.tensor("running_mean"), call.tensor("running_var")
    scale, bias = (
        call.optional(key) or call.expand(call.known(value, average.dtype), average.shape)
        for key, value in (("weight", 1.0), ("bias", 0.0))
    )
    found = call.op("BatchNorm", x, scale, bias, average, square, eps=float(call.get("eps", 1e-5)))
    return (found, None, None, average, square) if call.target.startswith("_native_batch_norm_legit_func") else found


def _statistics(call: Call) -> tuple[Term, ...]:
    """The running mean and variance after a batch; the variance without bias."""
    x, kept = call.tensor("input"), call.optional("running_mean")
    if kept is None:
        return ()
    axes, momentum = [a for a in range(x.rank) if a != 1], float(call.get("momentum", 0.1))
    wide = call.cast(x, kept.dtype)
    made = []
    for key, op, more in (("running_mean", "mean", {}), ("running_var", "var", {"ddof": 1})):
        old = call.fn("mul", call.tensor(key), 1.0 - momentum)
        made.append(call.fn("add", old, call.fn("mul", call.op("Reduce", wide, op=op, axes=axes, **more), momentum)))
    return tuple(made)


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_itself(call: Call) -> Any:
    """By the statistics of the batch itself, which it gives as well."""
    x, eps = call.tensor("input"), float(call.get("eps", 1e-5))
    axes = [a for a in range(x.rank) if a != 1]
    mean, var = (call.op("Reduce", x, op=op, axes=axes) for op in ("mean", "var"))
    scale, bias = (
        call.optional(key) or call.expand(call.known(value, mean.dtype), mean.shape)
        for key, value in (("weight", 1.0), ("bias", 0.0))
    )
    found = call.op("BatchNorm", x, scale, bias, mean, var, eps=eps)
    return found, mean, call.fn("rsqrt", call.fn("add", var, eps)) if call.wants(2) else None


@aten("native_layer_norm.default", "layer_norm.default")
def layer_norm(call: Call) -> Any:
    """Over the last axes; with the mean and the reciprocal deviation where something reads them."""
    x = call.tensor("input")
    shape = list(call.get("normalized_shape", []))
    weight, bias = _affine(call, x, shape)
    operands = [x, *([weight] if weight is not None else []), *([bias] if bias is not None else [])]
    count = 3 if call.wants(2) else 2 if call.wants(1) else 1
    if weight is None:
        operands = [x, call.expand(call.known(1.0, x.dtype), shape)]
    return call.op("LayerNorm", *operands, axis=x.rank - len(shape), eps=float(call.get("eps", 1e-5)), outputs=count)


def _affine(call: Call, x: Term, shape: list[Any]) -> tuple[Term | None, Term | None]:
    """Scale and bias; a bias alone has a scale of 1."""
    weight, bias = call.optional("weight"), call.optional("bias")
    if weight is None and bias is not None:
        weight = call.expand(call.known(1.0, x.dtype), shape)
    return weight, bias


@aten("rms_norm.default", "_fused_rms_norm.default")
def rms_norm(call: Call) -> Any:
    """By the root of the mean square over the last axes."""
    x, weight = call.tensor("input"), call.optional("weight")
    shape = list(call.get("normalized_shape", []))
    eps = call.get("eps", 2.0 ** -(x.dtype.digits - 1))
    weight = weight if weight is not None else call.expand(call.known(1.0, x.dtype), shape)
    return call.op("RMSNorm", x, weight, axis=x.rank - len(shape), eps=float(eps))


@aten("native_group_norm.default", "group_norm.default")
def group_norm(call: Call) -> Any:
    """Over groups of channels; with the mean and the reciprocal deviation of each group where something reads them."""
    x = call.tensor("input")
    groups = call.get("group", call.get("num_groups"))
    weight, bias = (
        call.optional(key) or call.expand(call.known(value, x.dtype), [x.shape[1]])
        for key, value in (("weight", 1.0), ("bias", 0.0))
    )
    eps = float(call.get("eps", 1e-5))
    found = call.op("GroupNorm", x, weight, bias, groups=groups, eps=eps)
    if not call.wants(1) and not call.wants(2):
        return found
    rows = call.reshape(call.cast(x, DTYPES["fp32"]), [x.shape[0], groups, -1])
    mean, var = (call.op("Reduce", rows, op=op, axes=[2]) for op in ("mean", "var"))
    return found, mean, call.fn("rsqrt", call.fn("add", var, eps))


@aten("instance_norm.default")
def instance_norm(call: Call) -> Any:
    """Over each channel of each image."""
    if not call.get("use_input_stats", True):
        raise call.fault(Phrase("it uses stored statistics"))
    x = call.tensor("input")
    weight, bias = (
        call.optional(key) or call.expand(call.known(value, x.dtype), [x.shape[1]])
        for key, value in (("weight", 1.0), ("bias", 0.0))
    )
    return call.op("InstanceNorm", x, weight, bias, eps=float(call.get("eps", 1e-5)))


@aten("_weight_norm.default", "_weight_norm_interface.default")
def weight_norm(call: Call) -> Any:
    """v * g / |v|, the root of the sum of squares over all axes but `dim`; that norm as well, by `_interface`."""
    v, g = call.tensor("v"), call.tensor("g")
    dim = call.get("dim", 0)
    axes = [a for a in range(v.rank) if dim == -1 or a != dim % v.rank]
    norm = call.op("Reduce", v, op="l2", axes=axes, keepdims=True, gives=v.dtype, part="norm")
    found = call.fn("mul", v, call.fn("div", call.reshape(g, norm.shape), norm, part="scale"))
    return (found, call.reshape(norm, g.shape)) if "interface" in call.target else found
