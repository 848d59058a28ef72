"""Functions of probability: the error function's complement, its inverse, and the gamma function's logarithm. They are
computed in fp64: an exponent of a square, or a sum of logarithms, has no digits to spare in fp32."""

from __future__ import annotations

import math
from typing import Any

from ...program.terms import Term
from ..call import Call
from ..table import aten
from .pointwise import rounded

# (1 + 2x) erfcx(x) for x of 0 or more in Chebyshev polynomials of (x - 4) / (x + 4), and Stirling's series.
_ERFCX = (
    1.17748320053744869, -0.00726079662030192367, -0.0812651232361850157, 0.0600921280412222401,
    -0.0287539355802766608, 0.010595663363472869, -0.00313692729455424716, 0.000745649437253641043,
    -0.000136969650300980592, 1.71838616003242324e-05, -7.15836462326715411e-07, -2.42613994413851736e-07,
    5.57657093971291073e-08, -2.10578695933222619e-09, -1.1717889512739711e-09, 1.90983529956354786e-10,
    1.40886934781692795e-11, -6.9011312546783579e-12, 9.16612972291071828e-14, 2.14534142959759231e-13,
    -1.47185902613523718e-14, -6.66153853010310683e-15,
)  # fmt: skip
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_SHIFT = 10  # above this number Stirling's series is exact enough; below it is asked at a number as much greater


def _operand(call: Call) -> Term:
    return call.cast(call.tensor("self"), "fp64")


def _far(call: Call, size: Term) -> Term:
    """exp(x * x) * erfc(x) for x of 0 or more."""
    place = call.fn("sub", 1.0, call.fn("div", 8.0, call.fn("add", size, 4.0)), part="place")
    double, last, before = call.fn("mul", place, 2.0), call.known(0.0, "fp64"), call.known(0.0, "fp64")
    for factor in reversed(_ERFCX[1:]):
        last, before = call.fn("add", call.fn("sub", call.fn("mul", double, last), before), factor, part="series"), last
    found = call.fn("add", call.fn("sub", call.fn("mul", place, last), before), _ERFCX[0], part="series")
    return call.fn("div", found, call.fn("add", call.fn("mul", size, 2.0), 1.0), part="scaled")


def _complement(call: Call, x: Term) -> Term:
    """erfc(x)."""
    size = call.fn("abs", x)
    tail = call.fn("mul", _far(call, size), call.fn("exp", call.fn("neg", call.fn("mul", size, size))), part="tail")
    return call.fn("where", call.fn("less", x, 0.0), call.fn("sub", 2.0, tail), tail)


@aten("erfc.default")
def erfc(call: Call) -> Any:
    """1 - erf(x), with all its digits where that is small."""
    return rounded(call, _complement(call, _operand(call)))


@aten("special_erfcx.default")
def erfcx(call: Call) -> Any:
    """exp(x * x) * erfc(x)."""
    x = _operand(call)
    size = call.fn("abs", x)
    twice = call.fn("mul", call.fn("exp", call.fn("mul", x, x)), 2.0)
    far = _far(call, size)
    return rounded(call, call.fn("where", call.fn("less", x, 0.0), call.fn("sub", twice, far), far))


@aten("special_ndtr.default", "special_log_ndtr.default")
def normal(call: Call) -> Any:
    """The share of a normal distribution below a number, or its logarithm."""
    x = call.fn("mul", _operand(call), -math.sqrt(0.5), part="place")
    share = call.fn("mul", _complement(call, x), 0.5)
    if "log" not in call.target:
        return rounded(call, share)
    far = call.fn("log", call.fn("mul", _far(call, call.fn("max", x, 0.0)), 0.5))
    far = call.fn("sub", far, call.fn("mul", x, x))
    beyond = call.fn("mul", _complement(call, call.fn("neg", x)), 0.5)
    near = call.fn("log1p", call.fn("neg", beyond))
    return rounded(call, call.fn("where", call.fn("less", 0.5, x), far, near))


def _inverse(call: Call, y: Term, rest: Term) -> Term:
    """The x of 0 or more with erf(x) = y, where `rest` is 1 - y with all its digits: two steps of Halley's from a
    number that has two digits."""
    is_near = call.fn("less", y, 0.5)
    small = call.fn("log1p", call.fn("neg", call.fn("mul", y, y)))
    log = call.fn("where", is_near, small, call.fn("add", call.fn("log", rest), call.fn("log1p", y)), part="log")
    half = call.fn("add", call.fn("mul", log, 0.5), 2 / (math.pi * 0.147), part="half")
    more = call.fn("mul", log, -1 / 0.147, part="more")
    root = call.fn("sqrt", call.fn("add", call.fn("mul", half, half), more))
    below = call.fn("div", more, call.fn("add", root, half))
    x = call.fn("sqrt", call.fn("where", call.fn("less", half, 0.0), call.fn("sub", root, half), below))
    for _ in range(3 if call.dtype.bits == 64 else 2):
        apart = call.fn(
            "where", is_near, call.fn("sub", call.fn("erf", x), y), call.fn("sub", rest, _complement(call, x))
        )
        slope = call.fn("mul", call.fn("exp", call.fn("neg", call.fn("mul", x, x))), 2 / math.sqrt(math.pi))
        step = call.fn("div", apart, slope, part="step")
        x = call.fn("sub", x, call.fn("div", step, call.fn("add", call.fn("mul", x, step), 1.0)))
    return call.fn("where", call.fn("equal", rest, 0.0), call.known(math.inf, "fp64"), x)


@aten("erfinv.default", "special_erfinv.default")
def erfinv(call: Call) -> Any:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    x = _operand(call)
    size = call.fn("abs", x)
    found = _inverse(call, size, call.fn("sub", 1.0, size))
    found = call.fn("where", call.fn("equal", x, 0.0), x, found)
    return rounded(call, call.fn("where", call.fn("less", x, 0.0), call.fn("neg", found), found))


@aten("special_ndtri.default")
def quantile_of_normal(call: Call) -> Any:
    """The number below which a share of a normal distribution is."""
    x = _operand(call)
    is_low = call.fn("less", x, 0.5)
    rest = call.fn("mul", call.fn("where", is_low, x, call.fn("sub", 1.0, x)), 2.0, part="rest")
    found = call.fn("mul", _inverse(call, call.fn("sub", 1.0, rest), rest), math.sqrt(2))
    return rounded(call, call.fn("where", is_low, call.fn("neg", found), found))


@aten("lgamma.default", "special_gammaln.default")
def lgamma(call: Call) -> Any:
    """The logarithm of the gamma function's size: infinite at 0 and whole numbers below."""
    x = _operand(call)
    is_low = call.fn("less", x, 0.5)
    own = call.fn("where", is_low, call.fn("sub", 1.0, x), x, part="own")
    is_small = call.fn("less", own, float(_SHIFT))
    product = own
    for number in range(1, _SHIFT):
        product = call.fn("mul", product, call.fn("add", own, float(number)))
    large = call.fn("where", is_small, call.fn("add", own, float(_SHIFT)), own, part="large")
    inverse = call.fn("reciprocal", large)
    square, series = call.fn("mul", inverse, inverse, part="square"), call.known(0.0, "fp64")
    for factor in reversed(_STIRLING):
        series = call.fn("add", call.fn("mul", series, square), factor, part="series")
    log = call.fn("mul", call.fn("sub", large, 0.5), call.fn("sub", call.fn("log", large), 1.0))
    found = call.fn("add", call.fn("add", log, math.log(2 * math.pi) / 2 - 0.5), call.fn("mul", series, inverse))
    found = call.fn("sub", found, call.fn("where", is_small, call.fn("log", product), 0.0))
    part = call.fn("sub", x, call.fn("round", x))  # what is less than 0 by little keeps its digits
    sine = call.fn("abs", call.fn("sin", call.fn("mul", part, math.pi)))
    mirrored = call.fn("sub", math.log(math.pi), call.fn("add", call.fn("log", sine), found))
    is_pole = call.fn("and", is_low, call.fn("equal", part, 0.0), part="pole")
    is_endless = call.fn("or", call.fn("isinf", x), is_pole)
    found = call.fn("where", is_low, mirrored, found)
    return rounded(call, call.fn("where", is_endless, call.known(math.inf, "fp64"), found))


@aten("digamma.default", "special_psi.default")
def digamma(call: Call) -> Any:
    """The slope of lgamma: NaN at whole numbers below 0, infinite at 0."""
    x = _operand(call)
    is_low = call.fn("less", x, 0.5)
    own = call.fn("where", is_low, call.fn("sub", 1.0, x), x, part="own")
    is_small = call.fn("less", own, float(_SHIFT))
    before = call.fn("reciprocal", own)
    for number in range(1, _SHIFT):
        before = call.fn("add", before, call.fn("reciprocal", call.fn("add", own, float(number))))
    large = call.fn("where", is_small, call.fn("add", own, float(_SHIFT)), own, part="large")
    inverse = call.fn("reciprocal", large)
    square, series = call.fn("mul", inverse, inverse, part="square"), call.known(0.0, "fp64")
    for power, factor in reversed(list(enumerate(_STIRLING))):
        series = call.fn("add", call.fn("mul", series, square), (2 * power + 1) * factor, part="series")
    found = call.fn("sub", call.fn("log", large), call.fn("mul", inverse, 0.5))
    found = call.fn("sub", found, call.fn("mul", series, square))
    found = call.fn("sub", found, call.fn("where", is_small, before, 0.0))
    part = call.fn("sub", x, call.fn("round", x))  # what is less than 0 by little keeps its digits
    angle = call.fn("mul", part, math.pi)
    mirrored = call.fn("sub", found, call.fn("div", math.pi, call.fn("tan", angle)))
    is_whole = call.fn("and", call.fn("less", x, 0.0), call.fn("equal", part, 0.0), part="whole")
    found = call.fn("where", is_low, mirrored, found)
    at_zero = call.fn("neg", call.fn("reciprocal", x))
    found = call.fn("where", call.fn("equal", x, 0.0), at_zero, found)
    return rounded(call, call.fn("where", is_whole, call.known(math.nan, "fp64"), found))
