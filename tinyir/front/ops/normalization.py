"""Softmax and the normalisations. Each computes in fp32 where the operand is narrower and gives the operand's dtype,
rounded once."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import ONE, Expr
from ...ir.types import DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref, accumulator
from . import functions
from .contraction import tensor
from .elementwise import as_ref
from .movement import axis_of
from .reduction import keep, mean, variance
from .table import Attr, Attrs, front_op


def softmax(b: Builder, x: Ref, axis: int) -> Ref:
    """exp(x - max) / sum, along `axis`, in the dtype of x; a row of -inf gives NaN."""
    shifted, total = _shifted(b, x, axis)
    return b.emit("FDIV", shifted, keep(b, total, x, (axis,)))


def _shifted(b: Builder, x: Ref, axis: int) -> tuple[Ref, Ref]:
    top = b.reduce(x, "MAX", [axis])
    raised = functions.exp(b, b.emit("SUB", x, keep(b, top, x, (axis,))))
    return raised, b.reduce(raised, "SUM", [axis])


@front_op("Softmax", inputs=1, attrs=[Attr("axis", "int", -1)])
def softmax_op(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Positive numbers that sum to 1 along `axis`, in the proportions of exp x."""
    x = as_ref(b, operands[0])
    axis = axis_of(attrs.axis, x.rank)
    return functions.in_wide(b, x, lambda wide: softmax(b, wide, axis))


@front_op("LogSoftmax", inputs=1, attrs=[Attr("axis", "int", -1)])
def log_softmax(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The logarithm of Softmax, as x - max - ln sum exp(x - max)."""
    x = as_ref(b, operands[0])
    axis = axis_of(attrs.axis, x.rank)

    def compute(wide: Ref) -> Ref:
        top = b.reduce(wide, "MAX", [axis])
        centred = b.emit("SUB", wide, keep(b, top, wide, (axis,)))
        total = b.reduce(functions.exp(b, centred), "SUM", [axis])
        return b.emit("SUB", centred, keep(b, functions.log(b, total), wide, (axis,)))

    return functions.in_wide(b, x, compute)


def _rsqrt(b: Builder, x: Ref, epsilon: float) -> Ref:
    return b.emit("RSQRT", b.emit("ADD", x, b.const(epsilon, x.dtype, x.shape)), part="rstd")


def _scaled(
    b: Builder, x: Ref, operands: Sequence[Operand], axes: Sequence[int], shape: Sequence[Expr] | None = None
) -> Ref:
    """x * scale + bias, each of which has the axes `axes` of x, or broadcasts to x when it has not that shape."""
    for op, operand in zip(("MUL", "ADD"), operands):
        ref = b.cast(tensor(operand, op, 1), x.dtype)
        wanted = tuple(x.shape[a] for a in axes) if shape is None else tuple(shape)
        x = b.emit(op, x, b.spread(ref, x.shape, axes) if ref.shape == wanted else _broadcast(b, ref, x))
    return x


def _broadcast(b: Builder, ref: Ref, x: Ref) -> Ref:
    from ...ir.rules import broadcast_mismatch

    if b.broadcast_shape(x, ref) != x.shape:
        raise broadcast_mismatch(x.type, ref.type, "")
    return b.expand(ref, x.shape)


_EPS = Attr("eps", "float", 1e-5, low=0)


@front_op("LayerNorm", inputs=(1, 3), outputs=(1, 3), attrs=[Attr("axis", "int", -1), _EPS])
def layer_norm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> tuple[Ref, ...]:
    """(x - mean) / sqrt(variance + eps) over the axes from `axis` on, times the second operand, plus the third. Gives
    the result, and the mean and the reciprocal deviation, which keep those axes with size 1."""
    x = tensor(operands[0], "LayerNorm", 0)
    axes = tuple(range(axis_of(attrs.axis, x.rank), x.rank))
    acc = _wide(x)
    wide = b.cast(x, acc)
    average = mean(b, wide, axes, acc)
    centred = b.emit("SUB", wide, keep(b, average, wide, axes), part="centred")
    spread = _rsqrt(b, mean(b, b.emit("MUL", centred, centred, part="square"), axes, acc), attrs.eps)
    found = _scaled(b, b.emit("MUL", centred, keep(b, spread, wide, axes), part="normed"), operands[1:], axes)
    kept = [ONE if a in axes else d for a, d in enumerate(x.shape)]
    return b.cast(found, x.dtype), b.reshape(average, kept), b.reshape(spread, kept)


@front_op("RMSNorm", inputs=(1, 2), attrs=[Attr("axis", "int", -1), _EPS])
def rms_norm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x / sqrt(mean of squares + eps) over the axes from `axis` on, times the second operand."""
    x = tensor(operands[0], "RMSNorm", 0)
    axes = tuple(range(axis_of(attrs.axis, x.rank), x.rank))
    acc = _wide(x)
    wide = b.cast(x, acc)
    spread = _rsqrt(b, mean(b, b.emit("MUL", wide, wide, part="square"), axes, acc), attrs.eps)
    return b.cast(
        _scaled(b, b.emit("MUL", wide, keep(b, spread, wide, axes), part="normed"), operands[1:], axes), x.dtype
    )


@front_op("GroupNorm", inputs=(1, 3), attrs=[Attr("groups", "int", low=1), _EPS])
def group_norm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x of [N, C, ...] normalised over each of `groups` groups of channels with all that follows; scale and bias have
    shape [C]."""
    x = tensor(operands[0], "GroupNorm", 0)
    if x.rank < 2:
        raise refuse("E1012", op="GroupNorm", tensor=x.called, given=x.type, wanted=Phrase("2 or more"))
    each = x.shape[1] // attrs.groups
    if each * attrs.groups != x.shape[1]:
        raise refuse("E1018", axis=1, size=x.shape[1], groups=attrs.groups)
    acc = _wide(x)
    parted = b.reshape(b.cast(x, acc), [x.shape[0], Expr.of(attrs.groups), each, *x.shape[2:]])
    axes = tuple(range(2, parted.rank))
    square, centred = variance(b, parted, axes, acc)
    normed = b.emit("MUL", centred, keep(b, _rsqrt(b, square, attrs.eps), parted, axes), part="normed")
    return b.cast(_scaled(b, b.reshape(normed, x.shape), operands[1:], [1]), x.dtype)


@front_op("InstanceNorm", inputs=(1, 3), attrs=[_EPS])
def instance_norm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x of [N, C, ...] normalised over what follows the channels; scale and bias have shape [C]."""
    x = tensor(operands[0], "InstanceNorm", 0)
    if x.rank < 3:
        raise refuse("E1012", op="InstanceNorm", tensor=x.called, given=x.type, wanted=Phrase("3 or more"))
    acc, axes = _wide(x), tuple(range(2, x.rank))
    square, centred = variance(b, x, axes, acc)
    normed = b.emit("MUL", centred, keep(b, _rsqrt(b, square, attrs.eps), x, axes), part="normed")
    return b.cast(_scaled(b, normed, operands[1:], [1]), x.dtype)


@front_op("BatchNorm", inputs=5, attrs=[Attr("axis", "int", 1), _EPS])
def batch_norm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """Inference: (x - mean) / sqrt(variance + eps) * scale + bias; operands x, scale, bias, mean, variance, the last
    four of shape [C]."""
    x, scale, bias, average, square = (tensor(o, "BatchNorm", i) for i, o in enumerate(operands))
    axis = axis_of(attrs.axis, x.rank)
    for ref in (scale, bias, average, square):
        if ref.shape != (x.shape[axis],):
            raise refuse("E1304", left=f"{x.tensor}[{axis}] = {x.shape[axis]}", right=f"{ref.tensor} = {ref.type}")
    acc = _wide(x)
    scale, bias, average, square = (b.cast(r, acc) for r in (scale, bias, average, square))
    factor = b.emit("MUL", scale, _rsqrt(b, square, attrs.eps), part="factor")
    centred = b.emit("SUB", b.cast(x, acc), b.spread(average, x.shape, [axis]), part="centred")
    scaled = b.emit("MUL", centred, b.spread(factor, x.shape, [axis]), part="scaled")
    return b.cast(b.emit("ADD", scaled, b.spread(bias, x.shape, [axis]), part="shifted"), x.dtype)


@front_op("LpNorm", inputs=1, attrs=[Attr("axis", "int", -1), Attr("p", "int", 2, low=1, high=2)])
def lp_norm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x by its 1- or 2-norm along `axis`; 0 where the norm is 0."""
    x = tensor(operands[0], "LpNorm", 0)
    axis = axis_of(attrs.axis, x.rank)
    acc = _wide(x)
    wide = b.cast(x, acc)
    size = b.reduce(b.emit("ABS", wide) if attrs.p == 1 else b.emit("MUL", wide, wide, part="square"), "SUM", [axis])
    size = keep(b, size if attrs.p == 1 else b.emit("SQRT", size), wide, (axis,))
    zero = b.const(0, acc, wide.shape)
    return b.cast(b.emit("WHERE", b.emit("CMPEQ", size, zero), zero, b.emit("FDIV", wide, size)), x.dtype)


def _wide(x: Ref) -> DType:
    if not x.dtype.is_float:
        raise refuse("E1002", fault=Phrase("a normalisation takes floats, not {dtype}", dtype=x.dtype))
    return accumulator(x.dtype)
