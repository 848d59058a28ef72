"""Ops of complex tensors: which are done with each part, which multiply, which join parts and take them apart, and
Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from ....kit.phrase import Phrase
from ...program.fourier import LONGEST, fourier
from ...program.terms import Term
from ..call import Call
from ..complexes import SIDES, Complex, bilinear, multiplied, partwise
from ..table import ATEN_OPS, aten, of_complex

_MOVES = """
    view.default reshape.default _unsafe_view.default view_copy.default flatten.using_ints unflatten.int
    squeeze.default squeeze.dim squeeze.dims unsqueeze.default permute.default permute_copy.default transpose.int
    t.default mT.default numpy_T.default swapaxes.default movedim.int movedim.intlist expand.default
    expand_copy.default broadcast_to.default repeat.default tile.default slice.Tensor narrow.default select.int
    split_with_sizes.default split.sizes split.Tensor chunk.default unbind.int alias.default detach.default
    contiguous.default clone.default dropout.default lift_fresh.default lift_fresh_copy.default cat.default
    stack.default flip.default roll.default constant_pad_nd.default pad.default index.Tensor index_select.default
    gather.default
    where.self select_scatter.default slice_scatter.default index_put.default unfold.default as_strided.default
    masked_fill.Scalar masked_fill.Tensor expand_as.default diagonal.default copy.default repeat_interleave.self_int
    tril.default triu.default _to_copy.default to.dtype to.dtype_layout to.device
""".split()
_LINEAR = "add.Tensor sub.Tensor neg.default sum.default sum.dim_IntList mean.default mean.dim cumsum.default".split()
of_complex(*_MOVES, *_LINEAR)(partwise)


@of_complex("mul.Tensor", "mul.Scalar", "matmul.default")
def product(call: Call) -> Any:
    """A product of elements, or of matrices."""
    return bilinear(call, "other")


@of_complex("mm.default", "bmm.default")
def product_of_matrices(call: Call) -> Any:
    """A product of matrices."""
    return bilinear(call, "mat2")


@of_complex("einsum.default")
def einsum(call: Call) -> Any:
    """A sum of products of one operand or two."""
    terms = call.args["tensors"]
    if len(terms) > 2:
        raise call.fault(Phrase("it has {count} operands, and one is complex", count=len(terms)))
    return (
        partwise(call) if len(terms) == 1 else multiplied(call, *terms, lambda *pair: {**call.args, "tensors": [*pair]})
    )


@of_complex("square.default", "pow.Tensor_Scalar")
def square(call: Call) -> Any:
    """The product with itself."""
    if call.get("exponent", 2) != 2:
        raise call.fault(Phrase("its operand is complex"))
    x = call.args["self"]
    real = call.fn("sub", *(call.fn("mul", part, part) for part in x.parts), part="real")
    return Complex(real, call.fn("mul", call.fn("mul", *x.parts), 2.0, part="imag"))


@of_complex("zeros_like.default", "ones_like.default", "full_like.default", "empty_like.default", "new_zeros.default",
            "new_ones.default", "new_full.default", "new_empty.default", "zero.default", "fill.Scalar", "full.default",
            "scalar_tensor.default")  # fmt: skip
def filled_with(call: Call) -> Any:
    """A number everywhere."""
    value = call.get("fill_value", call.get("value", call.get("s")))
    if not isinstance(value, Complex):
        return ATEN_OPS[call.target](call)
    return Complex(*(call.expand(call.cast(part, call.dtype), call.shape) for part in value.parts))


@of_complex("div.Tensor", "div.Scalar", "true_divide.Tensor")
def quotient(call: Call) -> Any:
    """A quotient: by a complex number, the product with its conjugate, divided by its square."""
    y = call.args["other"]
    if not isinstance(y, Complex):
        return bilinear(call, "other")
    x = call.args["self"]
    a, b = x.parts if isinstance(x, Complex) else (x, None)
    y, large = _scaled(call, y)
    real, imag = call.fn("mul", a, y.real), call.fn("neg", call.fn("mul", a, y.imag))
    if b is not None:
        real = call.fn("add", real, call.fn("mul", b, y.imag))
        imag = call.fn("add", imag, call.fn("mul", b, y.real))
    return _over_square(call, Complex(real, imag), y, large)


@aten("view_as_complex.default")
def view_as_complex(call: Call) -> Any:
    """The parts are the last axis."""
    x = call.tensor("self")
    return Complex(*(call.reshape(call.cut(x, x.rank - 1, p, p + 1), x.shape[:-1]) for p in range(2)))


@aten("complex.default")
def complex_(call: Call) -> Any:
    """Of its parts."""
    real, imag = (call.expand(call.tensor(key), call.shape) for key in ("real", "imag"))
    return Complex(real, imag)


@aten("polar.default")
def polar(call: Call) -> Any:
    """Of its length and its angle."""
    size, angle = call.tensor("abs"), call.tensor("angle")
    return Complex(*(call.expand(call.fn("mul", size, call.fn(fn, angle)), call.shape) for fn in ("cos", "sin")))


@of_complex("view_as_real.default")
def view_as_real(call: Call) -> Any:
    """The parts as a last axis."""
    sides = [call.op("Unsqueeze", part, axes=[-1], part="side") for part in call.args["self"].parts]
    return call.op("Concat", *sides, axis=sides[0].rank - 1)


@of_complex("real.default")
def real(call: Call) -> Any:
    """The real part."""
    return call.args["self"].real


@of_complex("imag.default")
def imag(call: Call) -> Any:
    """The imaginary part."""
    return call.args["self"].imag


@of_complex("abs.default")
def absolute(call: Call) -> Any:
    """The length, of parts that are divided by the larger one first, so that no square overflows or is lost."""
    x = call.args["self"]
    a, b = (call.fn("abs", part) for part in x.parts)
    large, small = call.fn("max", a, b), call.fn("min", a, b)
    ratio = call.fn("where", call.fn("equal", small, large), 1.0, call.fn("div", small, large))
    return call.fn("mul", large, call.fn("sqrt", call.fn("add", call.fn("mul", ratio, ratio), 1.0)))


@of_complex("angle.default")
def angle(call: Call) -> Any:
    """Between the axis of real numbers and the number."""
    x = call.args["self"]
    return call.fn("atan2", x.imag, x.real)


@of_complex("conj.default", "_conj.default", "conj_physical.default", "_conj_physical.default")
def conjugate(call: Call) -> Any:
    """With the other sign of the imaginary part."""
    x = call.args["self"]
    return Complex(x.real, call.fn("neg", x.imag))


@of_complex("adjoint.default", "mH.default", "matrix_H.default")
def adjoint(call: Call) -> Any:
    """The conjugate, transposed."""
    x = partwise(call)
    return Complex(x.real, call.fn("neg", x.imag))


@of_complex("resolve_conj.default", "resolve_neg.default")
def resolved(call: Call) -> Any:
    """The same."""
    return call.args["self"]


@aten("conj.default", "_conj.default", "conj_physical.default", "_conj_physical.default", "resolve_conj.default",
      "resolve_neg.default", "real.default")  # fmt: skip
def of_real(call: Call) -> Any:
    """A real number is its own conjugate."""
    return call.tensor("self")


@aten("angle.default")
def angle_of_real(call: Call) -> Any:
    """0, or pi of a negative number."""
    x = call.float_of(call.tensor("self"))
    zero = call.expand(call.known(0.0, x.dtype), x.shape)
    return call.fn("where", call.fn("isnan", x), x, call.fn("where", call.fn("less", x, 0.0), math.pi, zero))


@of_complex("exp.default")
def exponential(call: Call) -> Any:
    """e^real, at the angle of the imaginary part."""
    x = call.args["self"]
    size = call.fn("exp", x.real)
    return Complex(*(call.fn("mul", size, call.fn(fn, x.imag)) for fn in ("cos", "sin")))


@of_complex("reciprocal.default")
def reciprocal(call: Call) -> Any:
    """The conjugate, divided by the square."""
    x, large = _scaled(call, call.args["self"])
    return _over_square(call, Complex(x.real, call.fn("neg", x.imag)), x, large)


def _scaled(call: Call, x: Complex) -> tuple[Complex, Term]:
    """A number divided by the larger of its parts, and that one: its square neither overflows nor is lost."""
    large = call.fn("max", *(call.fn("abs", part) for part in x.parts), part="large")
    return Complex(*(call.fn("div", part, large) for part in x.parts)), large


def _over_square(call: Call, x: Complex, y: Complex, large: Term) -> Complex:
    """A number divided by the square of a scaled one, and by the scale."""
    square = call.fn("add", call.fn("mul", y.real, y.real), call.fn("mul", y.imag, y.imag), part="square")
    return Complex(*(call.fn("div", call.fn("div", p, square), large, part=n) for p, n in zip(x.parts, SIDES)))


@of_complex("_fft_c2c.default")
def complex_transform(call: Call) -> Any:
    """Along each axis in turn."""
    parts = call.args["self"].parts
    for axis in _axes(call, parts[0].rank):
        length = _length(call, parts[0], axis)
        parts = fourier(call, parts, axis, length, not call.args["forward"], False, _scale(call, length))
    return Complex(*parts)


@aten("_fft_r2c.default")
def real_transform(call: Call) -> Any:
    """Of real numbers: along the last named axis, which may give one side, then as complex ones along the others."""
    x = call.tensor("self")
    *others, last = _axes(call, x.rank)
    length = _length(call, x, last)
    parts = fourier(call, [x], last, length, False, bool(call.args["onesided"]), _scale(call, length))
    for axis in reversed(others):
        length = _length(call, x, axis)
        parts = fourier(call, parts, axis, length, False, False, _scale(call, length))
    return Complex(*parts)


@of_complex("_fft_c2r.default")
def transform_to_real(call: Call) -> Any:
    """The inverse, of one side along the last named axis."""
    parts, size = call.args["self"].parts, call.args["last_dim_size"]
    *others, last = _axes(call, parts[0].rank)
    for axis in others:
        length = _length(call, parts[0], axis)
        parts = fourier(call, parts, axis, length, True, False, _scale(call, length))
    if not isinstance(size, int) or size > LONGEST:
        raise _too_long(call, size)
    _length(call, parts[0], last)
    (found,) = fourier(call, parts, last, size, True, True, _scale(call, size))
    return found


def _axes(call: Call, rank: int) -> list[int]:
    return call.axes("dim", rank) or []


def _length(call: Call, x: Term, axis: int) -> int:
    """The length of an axis, which must be known. Raises Refused (E0144)."""
    length = x.shape[axis].constant
    if length is None or not 0 < length <= LONGEST:
        raise _too_long(call, x.shape[axis])
    return length


def _too_long(call: Call, length: Any) -> Exception:
    fault = Phrase("it has {length} places; known lengths up to {most} are supported", length=length, most=LONGEST)
    return call.fault(fault)


def _scale(call: Call, length: int) -> float:
    """By the mode: 0 nothing, 1 the root of the length, 2 the length."""
    return {0: 1.0, 1: 1 / math.sqrt(length), 2: 1 / length}[call.get("normalization", 0)]
