"""Functions of one variable made of tiny's unary and binary ops, each near 1 ulp of fp32 where the argument allows.

16- and 8-bit floats compute in fp32 and round once at the end (`in_wide`). `TABLE` lists the `fn` words with their
attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.types import DTYPES
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Ref
from .table import Attr

Function = Callable[..., Ref]


def in_wide(b: Builder, x: Ref, compute: Callable[[Ref], Ref]) -> Ref:
    """`compute(x)`, in fp32 when x is narrower, rounded back to the dtype of x (a bool stays a bool)."""
    if not x.dtype.is_float or x.dtype.bits >= 32:
        return compute(x)
    found = compute(b.cast(x, DTYPES["fp32"]))
    return found if found.dtype.kind == "b" else b.cast(found, x.dtype)


def _k(b: Builder, x: Ref, value: float) -> Ref:
    if x.dtype.is_integer and not float(value).is_integer():
        raise refuse("E1002", fault=Phrase("the function takes floats, not {dtype}", dtype=x.dtype))
    return b.const(value, x.dtype, x.shape)


def _add(b: Builder, x: Ref, y: Ref | float) -> Ref:
    return b.emit("ADD", x, y if isinstance(y, Ref) else _k(b, x, y))


def _sub(b: Builder, x: Ref | float, y: Ref) -> Ref:
    return b.emit("SUB", x if isinstance(x, Ref) else _k(b, y, x), y)


def _mul(b: Builder, x: Ref, y: Ref | float) -> Ref:
    return b.emit("MUL", x, y if isinstance(y, Ref) else _k(b, x, y))


def _div(b: Builder, x: Ref | float, y: Ref) -> Ref:
    return b.emit("FDIV", x if isinstance(x, Ref) else _k(b, y, x), y)


def _max(b: Builder, x: Ref, y: float) -> Ref:
    return b.emit("MAX", x, _k(b, x, y))


def _min(b: Builder, x: Ref, y: float) -> Ref:
    return b.emit("MIN", x, _k(b, x, y))


def _less(b: Builder, x: Ref | float, y: Ref | float) -> Ref:
    some = x if isinstance(x, Ref) else y
    return b.emit("CMPLT", *(o if isinstance(o, Ref) else _k(b, some, o) for o in (x, y)))


def _where(b: Builder, condition: Ref, x: Ref, y: Ref) -> Ref:
    return b.emit("WHERE", condition, x, y)


def _with_sign(b: Builder, size: Ref, x: Ref) -> Ref:
    """`size` with the sign of x; x = 0 keeps its own zero."""
    negative = _where(b, _less(b, x, 0.0), b.emit("NEG", size), size)
    return _where(b, b.emit("CMPEQ", x, _k(b, x, 0.0)), x, negative)


def exp(b: Builder, x: Ref) -> Ref:
    """e ** x = 2 ** (x * log2 e) (seed 001 section 3.5.3)."""
    return b.emit("EXP2", _mul(b, x, math.log2(math.e)))


def log(b: Builder, x: Ref) -> Ref:
    """ln x = log2 x * ln 2."""
    return _mul(b, b.emit("LOG2", x), math.log(2))


def expm1(b: Builder, x: Ref) -> Ref:
    """e ** x - 1 without cancellation: (u - 1) * x / ln u with u = e ** x (Kahan), which is x where u = 1 and u - 1
    where u is far from 1."""
    u = exp(b, x)
    less_one = _add(b, u, -1.0)
    near = _div(b, _mul(b, less_one, x), log(b, u))
    is_far = _less(b, 1.0, b.emit("ABS", x))
    found = _where(b, is_far, less_one, near)
    return _where(b, b.emit("CMPEQ", u, _k(b, x, 1.0)), x, found)


def log1p(b: Builder, x: Ref) -> Ref:
    """ln(1 + x) without cancellation: x * ln u / (u - 1) with u = 1 + x (Kahan), which is x where u = 1, and ln u where
    u is infinite."""
    u = _add(b, x, 1.0)
    near = _mul(b, x, _div(b, log(b, u), _add(b, u, -1.0)))
    is_far = _less(b, 1.0, b.emit("ABS", x))
    found = _where(b, is_far, log(b, u), near)
    return _where(b, b.emit("CMPEQ", u, _k(b, x, 1.0)), x, found)


def cos(b: Builder, x: Ref) -> Ref:
    """1 - 2 sin(x/2)**2: halving x is exact, where adding pi/2 to it is not."""
    half = b.emit("SIN", _mul(b, x, 0.5))
    return _sub(b, 1.0, _mul(b, _mul(b, half, half), 2.0))


def tan(b: Builder, x: Ref) -> Ref:
    """sin x / cos x."""
    return _div(b, b.emit("SIN", x), cos(b, x))


def atan(b: Builder, x: Ref) -> Ref:
    """For |x| > 1 pi/2 - atan(1/|x|); then twice atan x = 2 atan(x / (1 + sqrt(1 + x*x))); then the odd series on |x| <
    0.2."""
    size = b.emit("ABS", x)
    is_big = _less(b, 1.0, size)
    t = _where(b, is_big, b.emit("RECIP", size), size)
    for _ in range(2):
        t = _div(b, t, _add(b, b.emit("SQRT", _add(b, _mul(b, t, t), 1.0)), 1.0))
    square = _mul(b, t, t)
    degree = 10 if x.dtype.bits == 64 else 5
    series = _k(b, x, (-1) ** degree / (2 * degree + 1))
    for n in reversed(range(degree)):
        series = _add(b, _mul(b, series, square), (-1) ** n / (2 * n + 1))
    angle = _mul(b, _mul(b, t, series), 4.0)
    return _with_sign(b, _where(b, is_big, _sub(b, math.pi / 2, angle), angle), x)


def atan2(b: Builder, y: Ref, x: Ref) -> Ref:
    """The angle of (x, y) in -pi..pi. Zeros have their signs; two infinities make 45 degrees."""
    both = b.emit("AND", isinf(b, x), isinf(b, y))
    zero = _k(b, x, 0.0)
    is_left, is_low = (b.emit("OR", _less(b, o, 0.0), _less(b, b.emit("RECIP", o), 0.0)) for o in (x, y))
    wide, high = (_where(b, both, _with_sign(b, _k(b, x, 1.0), o), o) for o in (x, y))
    is_origin = b.emit("AND", b.emit("CMPEQ", x, zero), b.emit("CMPEQ", y, zero))
    angle = atan(b, _where(b, is_origin, y, _div(b, high, wide)))
    turn = _where(b, is_low, _k(b, x, -math.pi), _k(b, x, math.pi))
    return _where(b, is_left, _add(b, angle, turn), angle)


def asin(b: Builder, x: Ref) -> Ref:
    """2 atan(x / (1 + sqrt((1 - x)(1 + x)))); NaN outside -1..1."""
    root = b.emit("SQRT", _mul(b, _sub(b, 1.0, x), _add(b, x, 1.0)))
    return _mul(b, atan(b, _div(b, x, _add(b, root, 1.0))), 2.0)


def acos(b: Builder, x: Ref) -> Ref:
    """2 atan(sqrt((1 - x) / (1 + x))); NaN outside -1..1."""
    return _mul(b, atan(b, b.emit("SQRT", _div(b, _sub(b, 1.0, x), _add(b, x, 1.0)))), 2.0)


def sinh(b: Builder, x: Ref) -> Ref:
    """(u + u / (u + 1)) / 2 with u = expm1 |x|, with the sign of x; half of e ** |x| where that is large."""
    size = b.emit("ABS", x)
    u = expm1(b, size)
    near = _mul(b, _add(b, u, _div(b, u, _add(b, u, 1.0))), 0.5)
    return _with_sign(b, _where(b, _less(b, 20.0, size), _half_exp(b, size), near), x)


def cosh(b: Builder, x: Ref) -> Ref:
    """(u + 1/u) / 2 with u = e ** |x|; half of it where it is large."""
    size = b.emit("ABS", x)
    u = exp(b, size)
    near = _mul(b, _add(b, u, b.emit("RECIP", u)), 0.5)
    return _where(b, _less(b, 20.0, size), _half_exp(b, size), near)


def _half_exp(b: Builder, x: Ref) -> Ref:
    root = exp(b, _mul(b, x, 0.5))  # the root, twice: e ** x overflows one octave before its half does
    return _mul(b, _mul(b, root, 0.5), root)


def asinh(b: Builder, x: Ref) -> Ref:
    """log1p(s + s*s / (1 + sqrt(s*s + 1))) with s = |x|, with the sign of x; ln s + ln 2 where s*s would overflow."""
    size = b.emit("ABS", x)
    square = _mul(b, size, size)
    near = log1p(b, _add(b, size, _div(b, square, _add(b, b.emit("SQRT", _add(b, square, 1.0)), 1.0))))
    far = _add(b, log(b, size), math.log(2))
    return _with_sign(b, _where(b, _less(b, 1e8, size), far, near), x)


def acosh(b: Builder, x: Ref) -> Ref:
    """log1p(t + sqrt(2t + t*t)) with t = x - 1; ln x + ln 2 where t*t would overflow; NaN below 1."""
    t = _add(b, x, -1.0)
    near = log1p(b, _add(b, t, b.emit("SQRT", _add(b, _mul(b, t, 2.0), _mul(b, t, t)))))
    return _where(b, _less(b, 1e8, x), _add(b, log(b, x), math.log(2)), near)


def atanh(b: Builder, x: Ref) -> Ref:
    """log1p(2x / (1 - x)) / 2, on |x| and with the sign of x; NaN outside -1..1."""
    size = b.emit("ABS", x)
    return _with_sign(b, _mul(b, log1p(b, _div(b, _mul(b, size, 2.0), _sub(b, 1.0, size))), 0.5), x)


def sigmoid(b: Builder, x: Ref) -> Ref:
    """1 / (1 + e ** -x)."""
    return b.emit("RECIP", _add(b, exp(b, b.emit("NEG", x)), 1.0))


def silu(b: Builder, x: Ref, alpha: float) -> Ref:
    """x * sigmoid(alpha * x)."""
    return _mul(b, x, sigmoid(b, x if alpha == 1.0 else _mul(b, x, alpha)))


def softplus(b: Builder, x: Ref) -> Ref:
    """ln(1 + e ** x) as max(x, 0) + log1p(e ** -|x|), which cannot overflow."""
    return _add(b, _max(b, x, 0.0), log1p(b, exp(b, b.emit("NEG", b.emit("ABS", x)))))


def softsign(b: Builder, x: Ref) -> Ref:
    """x / (1 + |x|)."""
    return _div(b, x, _add(b, b.emit("ABS", x), 1.0))


def mish(b: Builder, x: Ref) -> Ref:
    """x * tanh(softplus x)."""
    return _mul(b, x, b.emit("TANH", softplus(b, x)))


def gelu(b: Builder, x: Ref, approximate: str) -> Ref:
    """x/2 * (1 + erf(x / sqrt 2)), or with tanh(sqrt(2/pi) * (x + 0.044715 x**3)) in place of erf."""
    if approximate == "tanh":
        cube = _mul(b, _mul(b, x, x), x)
        inner = b.emit("TANH", _mul(b, _add(b, x, _mul(b, cube, 0.044715)), math.sqrt(2 / math.pi)))
    else:
        inner = b.emit("ERF", _mul(b, x, math.sqrt(0.5)))
    return _mul(b, _mul(b, x, 0.5), _add(b, inner, 1.0))


def elu(b: Builder, x: Ref, alpha: float) -> Ref:
    """x where x >= 0, else alpha * expm1 x."""
    return _where(b, _less(b, x, 0.0), _mul(b, expm1(b, x), alpha), x)


def selu(b: Builder, x: Ref, alpha: float, gamma: float) -> Ref:
    """gamma * elu(x, alpha)."""
    return _mul(b, elu(b, x, alpha), gamma)


def celu(b: Builder, x: Ref, alpha: float) -> Ref:
    """x where x >= 0, else alpha * expm1(x / alpha)."""
    return _where(b, _less(b, x, 0.0), _mul(b, expm1(b, _div(b, x, _k(b, x, alpha))), alpha), x)


def leaky_relu(b: Builder, x: Ref, alpha: float) -> Ref:
    """x where x >= 0, else alpha * x."""
    return _where(b, _less(b, x, 0.0), _mul(b, x, alpha), x)


def thresholded_relu(b: Builder, x: Ref, alpha: float) -> Ref:
    """x where x > alpha, else 0."""
    return _where(b, _less(b, alpha, x), x, _k(b, x, 0.0))


def shrink(b: Builder, x: Ref, lambd: float, bias: float) -> Ref:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    low = _where(b, _less(b, x, -lambd), _add(b, x, bias), _k(b, x, 0.0))
    return _where(b, _less(b, lambd, x), _add(b, x, -bias), low)


def hard_sigmoid(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    """alpha * x + beta, within 0..1."""
    return _min(b, _max(b, _add(b, _mul(b, x, alpha), beta), 0.0), 1.0)


def hard_swish(b: Builder, x: Ref) -> Ref:
    """x * hard_sigmoid(x) with alpha 1/6 and beta 1/2."""
    return _mul(b, x, hard_sigmoid(b, x, 1 / 6, 0.5))


def square(b: Builder, x: Ref) -> Ref:
    """x * x."""
    return _mul(b, x, x)


def isnan(b: Builder, x: Ref) -> Ref:
    """Whether x is NaN: whether it differs from itself."""
    return b.emit("CMPNE", x, x)


def isinf(b: Builder, x: Ref, positive: bool = True, negative: bool = True) -> Ref:
    """Whether x is inf (if `positive`) or -inf (if `negative`)."""
    if positive and negative:
        return b.emit("CMPEQ", b.emit("ABS", x), _k(b, x, math.inf))
    if not positive and not negative:
        return b.const(False, DTYPES["bool"], x.shape)
    return b.emit("CMPEQ", x, _k(b, x, math.inf if positive else -math.inf))


TABLE: dict[str, tuple[Function, tuple[Attr, ...]]] = {
    "exp": (exp, ()),
    "expm1": (expm1, ()),
    "log": (log, ()),
    "log1p": (log1p, ()),
    "log10": (lambda b, x: _mul(b, b.emit("LOG2", x), math.log10(2)), ()),
    "cos": (cos, ()),
    "tan": (tan, ()),
    "asin": (asin, ()),
    "acos": (acos, ()),
    "atan": (atan, ()),
    "sinh": (sinh, ()),
    "cosh": (cosh, ()),
    "asinh": (asinh, ()),
    "acosh": (acosh, ()),
    "atanh": (atanh, ()),
    "sigmoid": (sigmoid, ()),
    "silu": (silu, (Attr("alpha", "float", 1.0),)),
    "softplus": (softplus, ()),
    "softsign": (softsign, ()),
    "mish": (mish, ()),
    "gelu": (gelu, (Attr("approximate", "word", "none", words=("none", "tanh")),)),
    "elu": (elu, (Attr("alpha", "float", 1.0),)),
    "selu": (selu, (Attr("alpha", "float", 1.6732632423543772), Attr("gamma", "float", 1.0507009873554805))),
    "celu": (celu, (Attr("alpha", "float", 1.0),)),
    "leaky_relu": (leaky_relu, (Attr("alpha", "float", 0.01),)),
    "thresholded_relu": (thresholded_relu, (Attr("alpha", "float", 1.0),)),
    "shrink": (shrink, (Attr("lambd", "float", 0.5), Attr("bias", "float", 0.0))),
    "hard_sigmoid": (hard_sigmoid, (Attr("alpha", "float", 0.2), Attr("beta", "float", 0.5))),
    "hard_swish": (hard_swish, ()),
    "square": (square, ()),
    "isnan": (isnan, ()),
    "isinf": (isinf, (Attr("positive", "flag", True), Attr("negative", "flag", True))),
}
