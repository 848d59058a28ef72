"""Elementwise ops and casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.types import DType
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..node import Node
from ..table import onnx_op

_UNARY = {
    "Abs": "abs",
    "Neg": "neg",
    "Sign": "sign",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Erf": "erf",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Mish": "mish",
    "HardSwish": "hard_swish",
    "Relu": "relu",
    "IsNaN": "isnan",
    "Not": "not",
    "BitwiseNot": "not",
}
_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Equal": "equal",
    "Greater": "greater",
    "Less": "less",
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
}
_VARIADIC = {"Max": "max", "Min": "min", "Sum": "add", "Mean": "mean"}
# ONNX attributes by the names that ours have; defaults are ONNX's.
_WITH_ATTRS: dict[str, tuple[str, dict[str, tuple[str, Any]]]] = {
    "Elu": ("elu", {"alpha": ("alpha", 1.0)}),
    "Celu": ("celu", {"alpha": ("alpha", 1.0)}),
    "LeakyRelu": ("leaky_relu", {"alpha": ("alpha", 0.01)}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": ("alpha", 1.0)}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "Gelu": ("gelu", {"approximate": ("approximate", "none")}),
    "Swish": ("silu", {"alpha": ("alpha", 1.0)}),
    "Shrink": ("shrink", {"lambd": ("lambd", 0.5), "bias": ("bias", 0.0)}),
    "IsInf": ("isinf", {"positive": ("detect_positive", 1), "negative": ("detect_negative", 1)}),
}


def operands(node: Node) -> list[Term]:
    """The inputs, which must be tensors of a dtype that arithmetic is done in."""
    return [plain(node, i) for i in range(len(node.inputs))]


def plain(node: Node, position: int) -> Term:
    """One input, which must be of a dtype that arithmetic is done in (E0126)."""
    term = node.input(position)
    if term.form:
        from ....kit.diag import refuse

        raise refuse(
            "E0126",
            node.name,
            type=Phrase("{form} as an operand of {op_type}", form=term.form, op_type=node.proto.op_type),
        )
    return term


def _unary(fn: str) -> Callable[[Node], Any]:
    return lambda node: node.fn(fn, plain(node, 0))


def _binary(fn: str) -> Callable[[Node], Any]:
    def translate(node: Node) -> Any:
        return node.fn(fn, *_pair(node))

    return translate


def _pair(node: Node) -> tuple[Term, Term]:
    """Two operands; in opset 6 and earlier the second one's axes begin at `axis` of the first."""
    x, y = operands(node)
    if node.attr("broadcast") and node.attr("axis") is not None and y.rank:
        y = node.reshape(y, [*y.shape, *[1] * (x.rank - node.axis(x.rank) - y.rank)])
    return x, y


def _variadic(fn: str) -> Callable[[Node], Any]:
    """The function of all operands, or the only one."""

    def lower(node: Node) -> Any:
        given = operands(node)
        return node.fn(fn, *given) if len(given) > 1 else node.fn("identity", *given)

    return lower


def _with_attrs(fn: str, attrs: dict[str, tuple[str, Any]]) -> Callable[[Node], Any]:
    return lambda node: node.fn(
        fn, plain(node, 0), **{ours: node.attr(theirs, default) for ours, (theirs, default) in attrs.items()}
    )


for _name, _fn in _UNARY.items():
    onnx_op(_name)(_unary(_fn))
for _name, _fn in _BINARY.items():
    onnx_op(_name)(_binary(_fn))
for _name, _fn in _VARIADIC.items():
    onnx_op(_name)(_variadic(_fn))
for _name, (_fn, _attrs) in _WITH_ATTRS.items():
    onnx_op(_name)(_with_attrs(_fn, _attrs))


@onnx_op("Selu")
def selu(node: Node) -> Any:
    """gamma * elu(x, alpha); opset 5 and earlier had shorter defaults."""
    alpha, gamma = (1.6732632423543772, 1.0507009873554805) if node.opset >= 6 else (1.6732, 1.0507)
    return node.fn("selu", plain(node, 0), alpha=node.attr("alpha", alpha), gamma=node.attr("gamma", gamma))


@onnx_op("Identity")
def identity(node: Node) -> Any:
    """The input itself."""
    return node.inputs[0]


@onnx_op("SwiGLU")
def swiglu(node: Node) -> Any:
    """silu(a) * b."""
    gate, linear = operands(node)
    return node.fn("mul", node.fn("silu", gate, alpha=node.attr("alpha", 1.0)), linear)


@onnx_op("Where")
def where(node: Node) -> Any:
    """The second operand where the first is true, else the third."""
    return node.fn("where", *operands(node))


@onnx_op("Pow")
def power(node: Node) -> Any:
    """x ** y, in the dtype of x."""
    x, y = _pair(node)
    return node.fn("pow", x, y, gives=x.dtype)


@onnx_op("PRelu")
def prelu(node: Node) -> Any:
    """x where it is not negative, else slope * x; in opset 6 and earlier a slope of one axis goes with the channels."""
    x, slope = operands(node)
    if slope.rank == 1 and x.rank > 2 and (node.opset < 7 or slope.shape[0] == x.shape[1] != x.shape[-1]):
        slope = node.reshape(slope, [slope.shape[0], *[1] * (x.rank - 2)])
    return node.fn("prelu", x, slope)


@onnx_op("Mod")
def mod(node: Node) -> Any:
    """The remainder with the divisor's sign, or with the dividend's (`fmod`)."""
    return node.fn("rem" if node.attr("fmod", 0) else "mod", *operands(node))


@onnx_op("BitShift")
def bit_shift(node: Node) -> Any:
    """Shifted left or right; all bits are gone beyond the width."""
    direction = node.attr("direction", "LEFT")
    if direction not in ("LEFT", "RIGHT"):
        raise node.fault(Phrase("direction is {direction}", direction=direction))
    return node.fn("shift_left" if direction == "LEFT" else "shift_right", *operands(node))


@onnx_op("Clip")
def clip(node: Node) -> Any:
    """Within limits: attributes up to opset 6, then inputs, which are numbers where they are known."""
    x = plain(node, 0)
    limits: dict[str, Any] = {}
    found = x
    for position, (name, fn) in enumerate((("min", "max"), ("max", "min")), 1):
        if name in node.attrs:
            limits[name] = node.attr(name)
        elif node.has(position):
            term = node.input(position)
            if term.known is not None and term.known.size == 1 and term.known.dtype != object:
                limits[name] = (
                    term.known.reshape(-1)[0].item() if x.dtype.is_integer else float(term.known.reshape(-1)[0])
                )
            else:
                found = node.fn(fn, found, term, part=f"at_{name}")
    return node.fn("clip", found, **limits) if limits or found is x else found


@onnx_op("Cast")
def cast(node: Node) -> Any:
    """Another dtype, by number or (opset 5 and earlier) by name."""
    to = node.attr("to")
    if isinstance(to, str):
        from onnx import TensorProto

        if to not in TensorProto.DataType.keys():
            raise node.fault(Phrase("{to} is not an element type", to=to))
        to = TensorProto.DataType.Value(to)
    return converted(node, node.input(0), *node.element(to))


@onnx_op("CastLike")
def cast_like(node: Node) -> Any:
    """The dtype of the second input."""
    like = node.input(1)
    return converted(node, node.input(0), like.dtype, like.form)


def converted(node: Node, x: Term, dtype: DType, form: str) -> Term:
    """`x` as another ONNX element type, the narrow ones that tiny has not included."""
    saturates = bool(node.attr("saturate", 1))
    if (x.dtype, x.form) == (dtype, form):
        return x
    if x.form:
        x = node.op("Decode", x, format=x.form, part="decode")
    if form:
        found = node.op(
            "Encode",
            x,
            format=form,
            saturate=saturates,
            rounding=node.attr("round_mode", "up") if form == "fp8e8m0" else None,
            part="encode",
        )
        found.form = form
        return found
    if dtype.is_float and dtype.bits == 8 and saturates and x.dtype.is_float:
        top = 448.0 if dtype.name == "fp8e4m3" else 57344.0
        x = node.fn("clip", x, min=-top, max=top, part="saturate")
    return node.cast(x, dtype)


@onnx_op("BitCast")
def bit_cast(node: Node) -> Any:
    """The same bits seen as another dtype of the same width."""
    dtype, form = node.element(node.attr("to"))
    x = plain(node, 0)
    if form or dtype.kind == "b":
        raise node.fault(
            Phrase("its result has the form {form}", form=form)
            if form
            else Phrase("its result is bool, which has no bits but 0 and 1")
        )
    return node.fn("bitcast", node.cast(x, "u8") if x.dtype.kind == "b" else x, to=dtype)


@onnx_op("Dropout")
def dropout(node: Node) -> Any:
    """Its input, and a mask of true: a model that runs does not train."""
    x = plain(node, 0)
    ratio = node.scalar(1, "ratio", 0.5)
    is_training = bool(node.scalar(2, "", False)) or node.attr("is_test", 1) == 0 and node.opset < 7
    if is_training and ratio:
        raise node.fault(
            Phrase("it draws its mask from a generator of its own (training_mode is true and ratio is not 0)")
        )
    if not node.wants(1):
        return x
    mask = node.op("Expand", node.known(True, "bool"), shape=list(x.shape), part="mask")
    return x, mask if node.opset >= 10 else node.cast(mask, x.dtype)
