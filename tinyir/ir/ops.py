"""The op table: one row an op, read by parser, checker, playback and the CUDA printer, so that they cannot drift apart.

`numpy` is a function of the NumPy module and the operands; `cuda` is a C expression in which `{0}`, `{1}`, `{2}` are
for the operands and `{t}` for the C type, on fp32, fp64, integers and bool (16- and 8-bit floats are widened to fp32
and rounded back). Spellings with a name, such as `max_nan(...)`, are device functions that the CUDA printer defines
where used. In tiny text an op is upper case (`ADD`), in region text lower case (`add`). NaN, infinities, wrap-around
and division follow NumPy (spec sections 5, 16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kit.records import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `accepts` is a string of dtype kinds (f, i, u, b); `gives` is `same`, `bool`, or `cast` or
    `bits` (the result type is stated; for `bits` it is as wide as the operand's);
    `attrs` maps an attribute's name to (kind, required); the kinds are those of `ir.attrs`."""

    name: str
    group: str  # movement, unary, binary, ternary, reduce, leaf, indirect
    arity: int
    accepts: str = "fiub"
    gives: str = "same"
    attrs: dict[str, tuple[str, bool]] | None = None
    is_commutative: bool = False
    numpy: Callable[..., Any] | None = None
    cuda: str = ""

    @property
    def is_elementwise(self) -> bool:
        """One result element from the elements at the same place."""
        return self.group in ("unary", "binary", "ternary")

    @property
    def is_movement(self) -> bool:
        """A view of its operand: no arithmetic, no memory traffic."""
        return self.group == "movement"


def _row(group: str, arity: int) -> Callable[..., Op]:
    return lambda name, **columns: Op(name, group, arity, **columns)


_unary, _binary, _ternary = _row("unary", 1), _row("binary", 2), _row("ternary", 3)


def _movement(name: str, **attrs: tuple[str, bool]) -> Op:
    return Op(name, "movement", 1, attrs=attrs)


def _erf(np: Any, x: Any) -> Any:
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _floor_divide(np: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.floor_divide(a, b)
    return np.where(b == 0, np.zeros_like(a), np.floor_divide(a, np.where(b == 0, np.ones_like(b), b)))


def _truncated_divide(np: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    quotient = _floor_divide(np, a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return quotient + inexact.astype(a.dtype)


def _modulo(np: Any, a: Any, b: Any) -> Any:
    return (
        np.mod(a, b)
        if a.dtype.kind == "f"
        else np.where(b == 0, np.zeros_like(a), np.mod(a, np.where(b == 0, np.ones_like(b), b)))
    )


def _remainder(np: Any, a: Any, b: Any) -> Any:
    return (
        np.fmod(a, b)
        if a.dtype.kind == "f"
        else np.where(b == 0, np.zeros_like(a), np.fmod(a, np.where(b == 0, np.ones_like(b), b)))
    )


def _power(np: Any, a: Any, b: Any) -> Any:
    """Integers to negative integer powers drop the fraction of 1/a**n: 1 and -1 keep their powers, the rest give 0."""
    if a.dtype.kind != "i" or not (b < 0).any():
        return np.power(a, b)
    inverse = np.where(a == 1, a, np.where(a == -1, np.where(b % 2 == 0, -a, a), np.zeros_like(a)))
    return np.where(b < 0, inverse, np.power(a, np.where(b < 0, np.zeros_like(b), b)))


_TABLE = (
    # movement: no arithmetic, no memory traffic; the result shape is the value's type
    _movement("RESHAPE"),
    _movement("PERMUTE", perm=("ints", True)),
    _movement("EXPAND", broadcast_dimensions=("ints", False)),
    _movement("PAD", pad=("pairs", True), value=("number", False)),
    _movement("SHRINK", lo=("dims", True), hi=("dims", True), step=("ints", False)),
    _movement("FLIP", axes=("ints", True)),
    _movement("VIEW", index_map=("dims", True)),
    _movement("VALID", guard=("guard", True), value=("number", False)),
    # leaves
    Op("CONST", "leaf", 0, attrs={"value": ("literal", True)}),
    Op("IOTA", "leaf", 0, accepts="fiu", attrs={"axis": ("int", True)}),
    # unary
    _unary("NEG", accepts="fiu", numpy=lambda np, x: np.negative(x), cuda="-{0}"),
    _unary("ABS", accepts="fiu", numpy=lambda np, x: np.abs(x), cuda="absolute({0})"),
    _unary("SIGN", accepts="fiu", numpy=lambda np, x: np.sign(x), cuda="sign({0})"),
    _unary("RECIP", accepts="f", numpy=lambda np, x: np.reciprocal(x), cuda="({t})1 / {0}"),
    _unary("SQRT", accepts="f", numpy=lambda np, x: np.sqrt(x), cuda="square_root({0})"),
    _unary("RSQRT", accepts="f", numpy=lambda np, x: np.reciprocal(np.sqrt(x)), cuda="({t})1 / square_root({0})"),
    _unary("EXP2", accepts="f", numpy=lambda np, x: np.exp2(x), cuda="exp2({0})"),
    _unary("LOG2", accepts="f", numpy=lambda np, x: np.log2(x), cuda="log2({0})"),
    _unary("SIN", accepts="f", numpy=lambda np, x: np.sin(x), cuda="sin({0})"),
    _unary("TANH", accepts="f", numpy=lambda np, x: np.tanh(x), cuda="tanh({0})"),
    _unary("ERF", accepts="f", numpy=_erf, cuda="erf({0})"),
    _unary("FLOOR", accepts="f", numpy=lambda np, x: np.floor(x), cuda="floor({0})"),
    _unary("CEIL", accepts="f", numpy=lambda np, x: np.ceil(x), cuda="ceil({0})"),
    _unary("TRUNC", accepts="f", numpy=lambda np, x: np.trunc(x), cuda="trunc({0})"),
    _unary("ROUND", accepts="f", numpy=lambda np, x: np.rint(x), cuda="rint({0})"),
    _unary("NOT", accepts="iub", numpy=lambda np, x: np.invert(x), cuda="bit_not({0})"),
    _unary("RELU", accepts="fiu", numpy=lambda np, x: np.maximum(x, x.dtype.type(0)), cuda="max_nan({0}, ({t})0)"),
    _unary("CAST", gives="cast"),
    _unary("BITCAST", accepts="fiu", gives="bits"),
    # binary
    _binary("ADD", accepts="fiu", is_commutative=True, numpy=lambda np, a, b: np.add(a, b), cuda="{0} + {1}"),
    _binary("SUB", accepts="fiu", numpy=lambda np, a, b: np.subtract(a, b), cuda="{0} - {1}"),
    _binary("MUL", accepts="fiu", is_commutative=True, numpy=lambda np, a, b: np.multiply(a, b), cuda="{0} * {1}"),
    _binary("FDIV", accepts="f", numpy=lambda np, a, b: np.divide(a, b), cuda="{0} / {1}"),
    _binary("IDIV", accepts="fiu", numpy=_truncated_divide, cuda="truncated_divide({0}, {1})"),
    _binary("FLOORDIV", accepts="fiu", numpy=_floor_divide, cuda="floor_divide({0}, {1})"),
    _binary("MOD", accepts="fiu", numpy=_modulo, cuda="modulo({0}, {1})"),
    _binary("REM", accepts="fiu", numpy=_remainder, cuda="remainder_of({0}, {1})"),
    _binary("MAX", is_commutative=True, numpy=lambda np, a, b: np.maximum(a, b), cuda="max_nan({0}, {1})"),
    _binary("MIN", is_commutative=True, numpy=lambda np, a, b: np.minimum(a, b), cuda="min_nan({0}, {1})"),
    _binary("POW", accepts="fiu", numpy=_power, cuda="power({0}, {1})"),
    _binary("CMPLT", gives="bool", numpy=lambda np, a, b: np.less(a, b), cuda="{0} < {1}"),
    _binary("CMPEQ", gives="bool", is_commutative=True, numpy=lambda np, a, b: np.equal(a, b), cuda="{0} == {1}"),
    _binary("CMPNE", gives="bool", is_commutative=True, numpy=lambda np, a, b: np.not_equal(a, b), cuda="{0} != {1}"),
    _binary("AND", accepts="iub", is_commutative=True, numpy=lambda np, a, b: np.bitwise_and(a, b), cuda="{0} & {1}"),
    _binary("OR", accepts="iub", is_commutative=True, numpy=lambda np, a, b: np.bitwise_or(a, b), cuda="{0} | {1}"),
    _binary("XOR", accepts="iub", is_commutative=True, numpy=lambda np, a, b: np.bitwise_xor(a, b), cuda="{0} ^ {1}"),
    _binary("SHL", accepts="iu", numpy=lambda np, a, b: np.left_shift(a, b), cuda="shift_left({0}, {1})"),
    _binary("SHR", accepts="iu", numpy=lambda np, a, b: np.right_shift(a, b), cuda="shift_right({0}, {1})"),
    # ternary
    _ternary("WHERE", numpy=lambda np, c, a, b: np.where(c, a, b), cuda="{0} ? {1} : {2}"),
    # reduction and what is beyond the affine core
    Op("REDUCE", "reduce", 1, attrs={"op": ("name", True), "axes": ("ints", True), "dtype": ("dtype", True)}),
    Op("GATHER", "indirect", 2, attrs={"axis": ("int", True)}),
    Op("SCATTER", "indirect", 3, attrs={"axis": ("int", True), "op": ("name", True)}),
    Op(
        "SCAN",
        "indirect",
        1,
        attrs={
            "op": ("name", True),
            "axis": ("int", True),
            "dtype": ("dtype", True),
            "reverse": ("flag", False),
            "exclusive": ("flag", False),
        },
    ),
    Op("RANDOM", "leaf", 0, accepts="fiu", attrs={"seed": ("int", True), "offset": ("int", False)}),
)

OPS: dict[str, Op] = {op.name: op for op in _TABLE}
REGION_OPS: dict[str, Op] = {op.name.lower(): op for op in _TABLE if op.is_elementwise}


@dataclass(frozen=True, slots=True)
class Reducer:
    """A reduction operator: the binary op that folds two elements (None for ARGMAX, ARGMIN) and its neutral element,
    which is a number, or `lowest` or `highest` of the dtype. `logic` folds two bools, which have no arithmetic."""

    name: str
    fold: str | None
    neutral: int | str
    numpy: str
    logic: str | None = None

    def fold_of(self, kind: str) -> str | None:
        """The binary op that folds two elements of a dtype of this kind (f, i, u, b)."""
        return self.logic if kind == "b" and self.logic else self.fold


REDUCERS: dict[str, Reducer] = {
    r.name: r
    for r in (
        Reducer("SUM", "ADD", 0, "sum", logic="OR"),
        Reducer("PROD", "MUL", 1, "prod", logic="AND"),
        Reducer("MAX", "MAX", "lowest", "max"),
        Reducer("MIN", "MIN", "highest", "min"),
        Reducer("ARGMAX", None, "lowest", "argmax"),
        Reducer("ARGMIN", None, "highest", "argmin"),
    )
}
UPDATES = ("UPDATE", "SUM", "PROD", "MAX", "MIN")  # what SCATTER does to an element: the last update stays, or a fold
