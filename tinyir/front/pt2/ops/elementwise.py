"""Elementwise ops, casts, and ops that give their operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.types import DType
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten

_UNARY = (
    "neg abs reciprocal sqrt rsqrt exp2 log2 sin tanh erf floor ceil trunc round relu exp expm1 log log1p log10 "
    "cos tan asin acos atan sinh cosh asinh acosh atanh sigmoid silu mish square isnan"
).split()
_KEEPS_INTEGERS = {"neg", "abs", "floor", "ceil", "trunc", "round", "relu", "square", "isnan"}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_BINARY = {
    "mul": "mul",
    "maximum": "max",
    "minimum": "min",
    "fmod": "rem",
    "remainder": "mod",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "shift_left",
    "bitwise_right_shift": "shift_right",
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_SAME = (
    "alias detach clone contiguous lift_fresh lift_fresh_copy dropout feature_dropout alpha_dropout positive"
).split()


def _unary(fn: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x = call.tensor("self")
        if fn == "square" and x.dtype.kind == "b":
            return x
        return call.fn(fn, x if fn in _KEEPS_INTEGERS else call.float_of(x))

    return translate


@aten("atan2.default")
def atan2(call: Call) -> Any:
    """The angle of (other, self)."""
    x, y = call.promoted(call.tensor("self"), call.tensor("other"))
    return call.fn("atan2", call.float_of(x), call.float_of(y))


@aten("sign.default", "sgn.default")
def sign(call: Call) -> Any:
    """-1, 0 or 1; 0 for NaN."""
    x = call.tensor("self")
    if x.dtype.kind == "b":
        return x
    found = call.fn("sign", x)
    return call.fn("where", call.fn("isnan", x), 0.0, found) if x.dtype.is_float else found


def _comparison(fn: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x, y = call.promoted(call.tensor("self"), call.operand("other"))
        return call.fn(fn, x, y)

    return translate


def _binary(fn: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        x, y = call.in_range(call.operand("self"), call.operand("other"))
        own = {"mul": "and", "max": "or", "min": "and"}.get(fn, fn) if call.dtype.kind == "b" else fn
        return call.cast(call.fn(own, x, y), call.dtype)

    return translate


def _logical(fn: str) -> Callable[[Call], Any]:
    def translate(call: Call) -> Any:
        return call.fn(fn, as_bool(call, call.tensor("self")), as_bool(call, call.tensor("other")))

    return translate


def as_bool(call: Call, x: Term) -> Term:
    """Whether each element is not 0."""
    return x if x.dtype.kind == "b" else call.fn("not_equal", x, 0.0 if x.dtype.is_float else 0)


for _name in _UNARY:
    aten(f"{_name}.default")(_unary(_name))
for _name, _fn in _COMPARISONS.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_fn))
for _name, _fn in _BINARY.items():
    overloads = ("Tensor", "Scalar", "default", "Scalar_Tensor", "Tensor_Scalar")
    aten(*(f"{_name}.{overload}" for overload in overloads))(_binary(_fn))
for _name, _fn in (("__and__", "and"), ("__or__", "or"), ("__xor__", "xor")):
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_binary(_fn))
for _name, _fn in (("__lshift__", "shift_left"), ("__rshift__", "shift_right")):
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_binary(_fn))
for _name, _fn in _LOGICAL.items():
    aten(f"{_name}.default")(_logical(_fn))


@aten(*(f"{name}.default" for name in _SAME), "lift.default", "to.layout")
def same(call: Call) -> Any:
    """The operand: what sets only memory's order, or draws nothing outside of training, changes no value."""
    if call.get("train", False) and call.get("p", 0.0):
        raise call.fault(Phrase("it trains, and draws its mask from a generator of its own"))
    return call.tensor("self") if call.args.get("self") is not None else call.tensor("input")


@aten("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Scalar", "rsub.Tensor")
def add(call: Call) -> Any:
    """self + alpha * other, or the difference."""
    x, y = call.in_range(call.operand("self"), call.operand("other"))
    alpha = call.get("alpha", 1)
    if alpha != 1:
        y = y * alpha if not isinstance(y, Term) else call.fn("mul", y, float(alpha) if y.dtype.is_float else alpha)
    if call.target.startswith("rsub"):
        x, y = y, x
    if call.dtype.kind == "b":
        return call.fn("or", x, y)
    return call.cast(call.fn("add" if call.target.startswith("add") else "sub", x, y), call.dtype)


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "div.Tensor_mode", "div.Scalar_mode")
def div(call: Call) -> Any:
    """The quotient, a float unless it is rounded to a whole number."""
    x, y = call.in_range(call.operand("self"), call.operand("other"))
    mode = call.get("rounding_mode")
    if mode == "floor":
        return call.cast(_floored(call, x, y), call.dtype)
    if mode is None and not call.dtype.is_float:
        raise call.fault(Phrase("its result is {dtype}", dtype=call.dtype))
    if mode is None:
        kind = call.joint_dtype(x, y)
        kind = kind if kind.is_float else call.dtype
        x, y = (call.cast(o, kind) if isinstance(o, Term) else float(o) for o in (x, y))
        return call.cast(call.fn("div", x, y), call.dtype)
    quotient = call.fn("div", x, y)  # of integers towards 0
    return call.cast(call.fn("trunc", quotient) if call.dtype.is_float else quotient, call.dtype)


@aten("floor_divide.default", "floor_divide.Scalar")
def floor_divide(call: Call) -> Any:
    """The quotient rounded down."""
    return call.cast(_floored(call, *call.in_range(call.operand("self"), call.operand("other"))), call.dtype)


def _floored(call: Call, x: Any, y: Any) -> Term:
    """The quotient without the remainder, one less where the signs of remainder and divisor differ, as in Python: what
    is divided by infinity is -1 or 0, and infinity divided has a remainder, and so a quotient, that is not a number."""
    dtype = call.joint_dtype(x, y)
    if not dtype.is_float:
        return call.fn("floordiv", x, y)
    x, y = (o if isinstance(o, Term) else call.known(o, dtype) for o in (x, y))
    rest, zero = call.fn("rem", x, y), call.known(0.0, dtype)
    quotient = call.fn("div", x, y)
    whole = call.fn("round", call.fn("div", call.fn("sub", x, rest, part="whole"), y, part="whole"), part="whole")
    differs = call.fn("not_equal", call.fn("less", rest, zero), call.fn("less", y, zero), part="differs")
    is_below = call.fn("and", call.fn("not_equal", rest, zero), differs, part="below")
    whole = call.fn("where", is_below, call.fn("sub", whole, 1.0), whole, part="whole")
    signed = call.fn("mul", quotient, zero, part="zero")  # a zero has the sign of the quotient
    whole = call.fn("where", call.fn("equal", whole, zero), signed, whole)
    return call.fn("where", call.fn("equal", y, zero), quotient, whole)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(call: Call) -> Any:
    """self ** exponent."""
    x, y = call.promoted(call.operand("self"), call.operand("exponent"))
    if isinstance(x, Term) and y in (2, 2.0):
        return call.fn("mul", x, x)
    if isinstance(x, Term) and y in (0.5, -0.5):
        return call.fn("sqrt" if y == 0.5 else "rsqrt", x)
    return call.fn("pow", x, y)


@aten("logical_not.default", "bitwise_not.default")
def logical_not(call: Call) -> Any:
    """Whether an element is 0; of integers each bit."""
    x = call.tensor("self")
    return call.fn("not", as_bool(call, x) if call.target.startswith("logical") else x)


@aten("isinf.default")
def isinf(call: Call) -> Any:
    """Whether an element is infinite; no integer is."""
    x = call.tensor("self")
    return call.fn("isinf", x) if x.dtype.is_float else call.expand(call.known(False, "bool"), x.shape)


@aten("isfinite.default")
def isfinite(call: Call) -> Any:
    """Whether an element is neither infinite nor NaN."""
    x = call.tensor("self")
    if not x.dtype.is_float:
        return call.expand(call.known(True, "bool"), x.shape)
    return call.fn("not", call.fn("or", call.fn("isinf", x), call.fn("isnan", x)))


@aten("gelu.default")
def gelu(call: Call) -> Any:
    """x * P(normal <= x), or its approximation by tanh."""
    return call.fn("gelu", call.tensor("self"), approximate=call.get("approximate", "none"))


@aten("leaky_relu.default")
def leaky_relu(call: Call) -> Any:
    """x, or slope * x below 0."""
    return call.fn("leaky_relu", call.tensor("self"), alpha=float(call.get("negative_slope", 0.01)))


@aten("elu.default")
def elu(call: Call) -> Any:
    """scale * x, or scale * alpha * (exp(input_scale * x) - 1) below 0."""
    x, alpha = call.tensor("self"), float(call.get("alpha", 1))
    scale, inner = float(call.get("scale", 1)), float(call.get("input_scale", 1))
    if inner == 1:
        found = call.fn("elu", x, alpha=alpha)
        return found if scale == 1 else call.fn("mul", found, scale)
    below = call.fn("mul", call.fn("expm1", call.fn("mul", x, inner)), scale * alpha)
    return call.fn("where", call.fn("greater", x, 0.0), call.fn("mul", x, scale), below)


@aten("celu.default", "selu.default")
def celu(call: Call) -> Any:
    """x, or alpha * (exp(x / alpha) - 1) below 0; the self-normalising one with its own factors."""
    if call.target.startswith("selu"):
        return call.fn("selu", call.tensor("self"))
    return call.fn("celu", call.tensor("self"), alpha=float(call.get("alpha", 1)))


@aten("hardtanh.default", "relu6.default")
def hardtanh(call: Call) -> Any:
    """Within limits."""
    low, high = (0.0, 6.0) if call.target.startswith("relu6") else (-1.0, 1.0)
    return call.fn(
        "clip", call.tensor("self"), min=float(call.get("min_val", low)), max=float(call.get("max_val", high))
    )


@aten("hardsigmoid.default")
def hardsigmoid(call: Call) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    return call.fn("hard_sigmoid", call.tensor("self"), alpha=1 / 6, beta=0.5)


@aten("hardswish.default")
def hardswish(call: Call) -> Any:
    """x * hardsigmoid(x)."""
    return call.fn("hard_swish", call.tensor("self"))


@aten("softplus.default")
def softplus(call: Call) -> Any:
    """ln(1 + exp(beta * x)) / beta, and x itself where beta * x is beyond the threshold."""
    x, beta, limit = call.tensor("self"), float(call.get("beta", 1)), float(call.get("threshold", 20))
    scaled = x if beta == 1 else call.fn("mul", x, beta)
    soft = call.fn("softplus", scaled)
    soft = soft if beta == 1 else call.fn("mul", soft, 1 / beta)
    return call.fn("where", call.fn("greater", scaled, limit), x, soft)


@aten("log_sigmoid.default", "log_sigmoid_forward.default")
def log_sigmoid(call: Call) -> Any:
    """-softplus(-x)."""
    return call.fn("neg", call.fn("softplus", call.fn("neg", call.tensor("self"))))


@aten("clamp.default", "clamp_min.default", "clamp_max.default", "clip.default")
def clamp(call: Call) -> Any:
    """Within limits that are numbers."""
    limits = {key: call.get(key) for key in ("min", "max") if call.get(key) is not None}
    x, *_ = call.promoted(call.tensor("self"), *limits.values())
    return call.fn("clip", x, **{k: float(v) if x.dtype.is_float else v for k, v in limits.items()})


@aten("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensor(call: Call) -> Any:
    """Within limits that are tensors."""
    found = call.tensor("self")
    for key, fn in (("min", "max"), ("max", "min")):
        limit = call.optional(key)
        if limit is not None:
            found = call.fn(fn, *call.promoted(found, limit), part=f"at_{key}")
    return found


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: Call) -> Any:
    """The second operand where the first is true, else the third."""
    x, y = call.promoted(call.operand("self"), call.operand("other"))
    given = [o if isinstance(o, Term) else call.known(o, call.dtype) for o in (x, y)]
    return call.fn("where", as_bool(call, call.tensor("condition")), *given)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: Call) -> Any:
    """The value where the mask is true."""
    x, value = call.tensor("self"), call.operand("value")
    value = call.cast(value, x.dtype) if isinstance(value, Term) else call.known(value, x.dtype)
    return call.fn("where", as_bool(call, call.tensor("mask")), value, x)


@aten("addcmul.default")
def addcmul(call: Call) -> Any:
    """self + value * tensor1 * tensor2."""
    product = call.fn("mul", call.tensor("tensor1"), call.tensor("tensor2"))
    value = float(call.get("value", 1))
    return call.fn("add", call.tensor("self"), product if value == 1 else call.fn("mul", product, value))


@aten("lerp.Scalar", "lerp.Tensor")
def lerp(call: Call) -> Any:
    """self + weight * (end - self)."""
    x, end, weight = call.tensor("self"), call.tensor("end"), call.operand("weight")
    return call.fn("add", x, call.fn("mul", call.fn("sub", end, x), weight))


@aten("prelu.default", "_prelu_kernel.default")
def prelu(call: Call) -> Any:
    """x, or weight * x below 0; a weight of one axis goes with the channels."""
    x, slope = call.tensor("self"), call.tensor("weight")
    if slope.rank == 1 and x.rank > 1:
        slope = call.reshape(slope, [1, slope.shape[0], *[1] * (x.rank - 2)])
    return call.fn("prelu", x, slope)


@aten("_to_copy.default", "to.dtype", "to.device", "to.dtype_layout", "prims.convert_element_type.default")
def to_copy(call: Call) -> Any:
    """The operand as another dtype."""
    return converted(call, call.tensor("self" if call.args.get("self") is not None else "a"), call.dtype)


@aten("type_as.default", "to.other")
def type_as(call: Call) -> Any:
    """The operand as the dtype of another tensor."""
    return converted(call, call.tensor("self"), call.dtype)


def converted(call: Call, x: Term, dtype: DType) -> Term:
    """`x` as another dtype: a bool says whether an element is not 0."""
    return as_bool(call, x) if dtype.kind == "b" and x.dtype.kind != "b" else call.cast(x, dtype)
