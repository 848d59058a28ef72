"""Elementwise ops that are made of others, in fp32 where the operand is narrower: it is rounded once."""

from __future__ import annotations

import math
from typing import Any

from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call, greatest
from ..table import aten
from .elementwise import as_bool


def wide(call: Call, x: Any) -> Any:
    """An operand in the dtype that is computed in."""
    return call.cast(x, "fp64" if x.dtype.name == "fp64" else "fp32") if isinstance(x, Term) else float(x)


def wide_pair(call: Call, *keys: str) -> list[Any]:
    """Two operands in the dtype that is computed in, that of their sum."""
    given = [call.operand(key) for key in keys]
    dtype = call.joint_dtype(*given)
    kind = "fp64" if dtype.name == "fp64" else "fp32"
    return [call.cast(x, kind) if isinstance(x, Term) else call.known(float(x), kind) for x in given]


def rounded(call: Call, x: Term) -> Term:
    """A result in the dtype that the node has."""
    return call.cast(x, call.dtype)


@aten("addcdiv.default")
def addcdiv(call: Call) -> Any:
    """self + value * tensor1 / tensor2."""
    x, above, below = (wide(call, call.tensor(key)) for key in ("self", "tensor1", "tensor2"))
    quotient = call.fn("div", call.fn("mul", above, float(call.get("value", 1))), below)
    return rounded(call, call.fn("add", x, quotient))


@aten("fmax.default", "fmin.default")
def extreme_of_numbers(call: Call) -> Any:
    """The greater or the lesser; where one of them is NaN the other."""
    x, y = call.promoted(call.tensor("self"), call.tensor("other"))
    found = call.fn(call.target[1:4], x, y)
    if not call.dtype.is_float:
        return found
    x, y = (call.expand(term, call.shape) for term in (x, y))
    return call.fn("where", call.fn("isnan", x), y, call.fn("where", call.fn("isnan", y), x, found))


@aten("frac.default")
def frac(call: Call) -> Any:
    """What is behind the point."""
    x = call.tensor("self")
    return call.fn("sub", x, call.fn("trunc", x))


@aten("heaviside.default")
def heaviside(call: Call) -> Any:
    """1 above 0, 0 below, and a value of its own at 0."""
    x, at = call.promoted(call.tensor("self"), call.tensor("values"))
    step = call.cast(call.fn("greater", x, call.known(0, x.dtype)), call.dtype)
    is_zero = call.expand(call.fn("equal", x, call.known(0, x.dtype)), call.shape)
    return call.fn("where", is_zero, call.expand(at, call.shape), call.expand(step, call.shape))


@aten("logaddexp.default", "logaddexp2.default")
def logaddexp(call: Call) -> Any:
    """The logarithm of the sum of two powers."""
    x, y = wide_pair(call, "self", "other")
    large, apart = call.fn("max", x, y, part="large"), call.fn("abs", call.fn("sub", x, y), part="apart")
    if call.target.startswith("logaddexp2"):
        more = call.fn("log2", call.fn("add", call.fn("exp2", call.fn("neg", apart)), 1.0))
    else:
        more = call.fn("log1p", call.fn("exp", call.fn("neg", apart)))
    is_same = call.fn("and", call.fn("equal", x, y), call.fn("isinf", large), part="same")
    return rounded(call, call.fn("where", is_same, large, call.fn("add", large, more)))


@aten("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", "special_xlog1py.default",
      "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")  # fmt: skip
def xlogy(call: Call) -> Any:
    """x * log(y), or of y + 1: 0 where x is 0 and y is a number."""
    x, y = wide_pair(call, "self", "other")
    product = call.fn("mul", x, call.fn("log1p" if "1p" in call.target else "log", y))
    is_none = call.fn("and", call.fn("equal", x, 0.0), call.fn("not", call.fn("isnan", y)), part="none")
    return rounded(call, call.fn("where", is_none, 0.0, product))


@aten("special_entr.default")
def entropy(call: Call) -> Any:
    """-x * log(x): 0 at 0, -inf below."""
    x = wide(call, call.tensor("self"))
    product = call.fn("neg", call.fn("mul", x, call.fn("log", x)))
    at_least = call.fn("where", call.fn("equal", x, 0.0), 0.0, product)
    return rounded(call, call.fn("where", call.fn("less", x, 0.0), call.known(-math.inf, x.dtype), at_least))


@aten("logit.default")
def logit(call: Call) -> Any:
    """log(x / (1 - x)), of numbers that are at least `eps` from 0 and from 1."""
    x, eps = wide(call, call.tensor("self")), call.get("eps")
    if eps is not None:
        x = call.fn("clip", x, min=float(eps), max=1 - float(eps))
    return rounded(call, call.fn("log", call.fn("div", x, call.fn("sub", 1.0, x))))


@aten("sinc.default")
def sinc(call: Call) -> Any:
    """sin(pi x) / (pi x), 1 at 0."""
    x = call.fn("mul", wide(call, call.tensor("self")), math.pi, part="angle")
    quotient = call.fn("div", call.fn("sin", x), x)
    return rounded(call, call.fn("where", call.fn("equal", x, 0.0), 1.0, quotient))


@aten("deg2rad.default", "rad2deg.default")
def angles(call: Call) -> Any:
    """An angle in the other unit."""
    factor = math.pi / 180 if call.target.startswith("deg") else 180 / math.pi
    return rounded(call, call.fn("mul", wide(call, call.tensor("self")), factor))


@aten("nan_to_num.default")
def nan_to_num(call: Call) -> Any:
    """Numbers in the place of NaN and of infinities: 0, the greatest and the least unless others are stated."""
    x = call.tensor("self")
    if not x.dtype.is_float:
        return x
    above, below = call.get("posinf"), call.get("neginf")
    most = greatest(x.dtype)
    for is_it, number in (
        (call.fn("isnan", x), call.get("nan", 0.0)),
        (call.fn("equal", x, math.inf), most if above is None else above),
        (call.fn("equal", x, -math.inf), -most if below is None else below),
    ):
        x = call.fn("where", is_it, call.known(float(number), x.dtype), x)
    return x


@aten("isposinf.default", "isneginf.default")
def is_infinity(call: Call) -> Any:
    """Whether it is that infinity; no integer is."""
    x = call.tensor("self")
    if not x.dtype.is_float:
        return call.expand(call.known(False, "bool"), x.shape)
    return call.fn("equal", x, math.inf if call.target.startswith("ispos") else -math.inf)


@aten("isreal.default")
def isreal(call: Call) -> Any:
    """True of real tensors."""
    return call.expand(call.known(True, "bool"), call.shape)


@aten("hypot.default")
def hypot(call: Call) -> Any:
    """The root of the sum of squares, of operands divided by the larger one: no square overflows or is lost. Beside an
    infinite one nothing else counts, not even NaN."""
    x, y = (call.fn("abs", term) for term in wide_pair(call, "self", "other"))
    large, small = call.fn("max", x, y, part="large"), call.fn("min", x, y, part="small")
    ratio = call.fn("where", call.fn("equal", small, large), 1.0, call.fn("div", small, large))
    length = call.fn("mul", large, call.fn("sqrt", call.fn("add", call.fn("mul", ratio, ratio), 1.0)))
    is_endless = call.fn("or", call.fn("isinf", x), call.fn("isinf", y))
    return rounded(call, call.fn("where", is_endless, call.known(math.inf, length.dtype), length))


@aten("glu.default")
def glu(call: Call) -> Any:
    """The first half of an axis times the sigmoid of the second."""
    x = wide(call, call.tensor("self"))
    axis = call.axis("dim", x.rank, -1)
    half = call.shape[axis]
    first, second = call.cut(x, axis, 0, half), call.cut(x, axis, half, 2 * half)
    return rounded(call, call.fn("mul", first, call.fn("sigmoid", second)))


@aten("hardshrink.default", "softshrink.default")
def shrink(call: Call) -> Any:
    """0 within limits; beyond them the operand, or how far it is beyond. NaN stays."""
    x, limit = call.tensor("self"), float(call.get("lambd", 0.5))
    above, below = call.fn("greater", x, limit), call.fn("less", x, -limit)
    beyond = x
    if call.target.startswith("soft"):
        beyond = call.fn("where", above, call.fn("sub", x, limit), call.fn("add", x, limit))
    is_kept = call.fn("or", call.fn("or", above, below), call.fn("isnan", x))
    return call.fn("where", is_kept, beyond, 0.0)


@aten("threshold.default")
def threshold(call: Call) -> Any:
    """The operand above a number, another number up to it."""
    x, limit, value = call.tensor("self"), call.get("threshold", 0), call.get("value", 0)
    limit, value = (float(n) if x.dtype.is_float else n for n in (limit, value))
    return call.fn("where", call.fn("less_equal", x, limit), call.known(value, x.dtype), x)


@aten("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def float_power(call: Call) -> Any:
    """self ** exponent in fp64."""
    x, y = (call.operand(key) for key in ("self", "exponent"))
    return call.fn("pow", *(call.cast(o, "fp64") if isinstance(o, Term) else call.known(o, "fp64") for o in (x, y)))


@aten("isclose.default")
def isclose(call: Call) -> Any:
    """Whether two numbers are equal, or near one another; where that is asked for NaN equals NaN."""
    x, y = call.promoted(call.tensor("self"), call.tensor("other"))
    found = call.fn("equal", x, y, part="same")
    if call.get("equal_nan", False) and x.dtype.is_float:
        found = call.fn("or", found, call.fn("and", call.fn("isnan", x), call.fn("isnan", y)))
    x, y = (call.cast(o, "fp64" if o.dtype.name in ("fp64", "i64") else "fp32") for o in (x, y))
    room = call.fn("mul", call.fn("abs", y), float(call.get("rtol", 1e-5)))
    apart = call.fn("abs", call.fn("sub", x, y), part="apart")
    is_near = call.fn("less_equal", apart, call.fn("add", room, float(call.get("atol", 1e-8))), part="near")
    is_near = call.fn("and", is_near, call.fn("not", call.fn("isinf", y)))  # an infinity is near nothing
    return call.fn("or", found, is_near)


@aten("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(call: Call) -> Any:
    """Whether an element is one of others."""
    keys = [next(k for k in call.args if k.startswith(word)) for word in ("element", "test_element")]
    x, among = (call.operand(key) for key in keys)
    x, among = (o if isinstance(o, Term) else call.known(o, call.joint_dtype(x, among)) for o in (x, among))
    x, among = call.promoted(call.reshape(x, [*x.shape, 1]), call.reshape(among, [-1]))
    found = call.op("Reduce", call.fn("equal", x, among), op="any", axes=[x.rank - 1])
    return call.fn("not", found) if call.get("invert", False) else found


@aten("round.decimals")
def round_decimals(call: Call) -> Any:
    """Rounded to a number of digits behind the point, or before it."""
    x, digits = call.tensor("self"), call.get("decimals", 0)
    if not x.dtype.is_float:
        raise call.fault(Phrase("its result is {dtype}", dtype=call.dtype))
    scale, how = 10.0 ** abs(digits), ("mul", "div") if digits >= 0 else ("div", "mul")
    return rounded(call, call.fn(how[1], call.fn("round", call.fn(how[0], wide(call, x), scale)), scale))


@aten("ldexp.Tensor")
def ldexp(call: Call) -> Any:
    """x * 2 ** other."""
    x, y = wide_pair(call, "self", "other")
    return rounded(call, call.fn("mul", x, call.fn("exp2", y)))


@aten("view.dtype", "view_copy.dtype")
def bits(call: Call) -> Any:
    """The same bits as another dtype of the same size."""
    x = call.tensor("self")
    if x.dtype.bits != call.dtype.bits or "b" in (x.dtype.kind, call.dtype.kind):
        raise call.fault(Phrase("it reads {dtype} as {other}", dtype=x.dtype, other=call.dtype))
    return call.fn("bitcast", x, to=call.dtype)


@aten("masked_scatter.default")
def masked_scatter(call: Call) -> Any:
    """Where the mask is true the elements of `source`, one after the other."""
    x, mask, source = call.tensor("self"), as_bool(call, call.tensor("mask")), call.tensor("source")
    mask = call.expand(mask, x.shape)
    return call.fn("where", mask, in_turn(call, mask, call.reshape(source, [-1])), x)


def in_turn(call: Call, mask: Term, source: Term) -> Term:
    """Where the mask is true the parts along the first axis of `source`, one after the other; anything elsewhere."""
    number = call.op("CumSum", call.cast(call.reshape(mask, [-1]), "i64"), axis=0, gives=DTYPES["i64"])
    place = call.fn("max", call.fn("sub", number, 1), 0, part="place")
    found = call.op("Gather", source, place, axis=0)
    return call.reshape(found, [*mask.shape, *source.shape[1:]])


@aten("signbit.default")
def signbit(call: Call) -> Any:
    """Whether there is a minus, before 0 and NaN too."""
    x = call.tensor("self")
    return call.expand(call.known(False, "bool"), x.shape) if x.dtype.kind in "bu" else _has_minus(call, x)


def _has_minus(call: Call, x: Term) -> Term:
    own = call.fn("bitcast", x, to=DTYPES[f"i{x.dtype.bits}"]) if x.dtype.is_float else x
    return call.fn("less", own, 0, part="minus")


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(call: Call) -> Any:
    """The size of one with the sign of the other."""
    x, y = (call.operand(key) for key in ("self", "other"))
    x, y = (call.cast(o, call.dtype) if isinstance(o, Term) else call.known(float(o), call.dtype) for o in (x, y))
    size = call.fn("abs", x)
    return call.fn("where", _has_minus(call, y), call.fn("neg", size), size)


@aten("nextafter.default")
def nextafter(call: Call) -> Any:
    """The number beside one on the way to the other: the bits of a float are in the order of its size."""
    x, y = call.promoted(call.tensor("self"), call.tensor("other"))
    whole, zero = DTYPES[f"i{x.dtype.bits}"], call.known(0.0, x.dtype)
    is_up = call.fn("less", x, y, part="up")
    grows = call.fn("equal", is_up, call.fn("less", zero, x), part="grows")
    bits = call.fn("add", call.fn("bitcast", x, to=whole), call.fn("where", grows, call.known(1, whole), -1))
    least = call.fn("bitcast", call.known(1, whole), to=x.dtype)
    least = call.fn("where", is_up, least, call.fn("neg", least), part="least")
    found = call.fn("where", call.fn("equal", x, zero), least, call.fn("bitcast", bits, to=x.dtype))
    found = call.fn("where", call.fn("equal", x, y), y, found)
    is_none = call.fn("or", call.fn("isnan", x), call.fn("isnan", y))
    return call.fn("where", is_none, call.known(math.nan, x.dtype), found)


@aten("rrelu.default", "rrelu_with_noise_functional.default", "rrelu_with_noise.default")
def rrelu(call: Call) -> Any:
    """x, or below 0 the mean slope times x, as outside of training."""
    if call.get("training", False) or call.wants(1):
        raise call.fault(Phrase("it trains, and draws its mask from a generator of its own"))
    slope = (float(call.get("lower", 1 / 8)) + float(call.get("upper", 1 / 3))) / 2
    found = call.fn("leaky_relu", call.tensor("self"), alpha=slope)
    return (found, None) if "noise" in call.target else found
