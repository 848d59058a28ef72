"""Complex tensors: two real ones, the real part and the imaginary one. What only moves, and what is linear, is done
with each part; a product of two has four real ones.

    view_as_complex(x) * y    ->    x[..., 0] * y.real - x[..., 1] * y.imag,  x[..., 0] * y.imag + x[..., 1] * y.real

They are between nodes alone: an input or an output of a model is real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.expr import Expr
from ...ir.types import DType
from ...kit.records import dataclass
from ..program.terms import Term
from .call import Call
from .table import ATEN_OPS

# Arguments that are values, whose imaginary part is zero where they are real; the others say what is done.
VALUES = frozenset(("self", "other", "tensors", "src", "source", "values", "value", "input"))
SIDES = ("real", "imag")


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex tensor by its parts."""

    real: Term
    imag: Term

    @property
    def dtype(self) -> DType:
        """That of each part."""
        return self.real.dtype

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Its extents."""
        return self.real.shape

    @property
    def parts(self) -> tuple[Term, Term]:
        """Both."""
        return self.real, self.imag


def has_complex(call: Call) -> bool:
    """Whether an operand of a node is complex."""
    return any(isinstance(v, Complex) for a in call.args.values() for v in (a if isinstance(a, list) else [a]))


def complex_of(call: Call, found: Any) -> Any:
    """What a node gives whose result is complex: a real value has an imaginary part of zeros."""
    return found if isinstance(found, Complex) else Complex(found, _zeros(call, found))


def partwise(call: Call) -> Any:
    """The op of each part alone."""
    found = [_part(call, number) for number in range(2)]
    if isinstance(found[0], tuple):
        return tuple(Complex(*pair) for pair in zip(*found))
    return Complex(*found)


def _part(call: Call, number: int) -> Any:
    """The op of the parts of its operands."""

    def of(value: Any, is_value: bool) -> Any:
        if isinstance(value, list):
            return [of(v, is_value) for v in value]
        if isinstance(value, Complex):
            return value.parts[number]
        if number == 0 or not is_value or value is None:
            return value
        return _zeros(call, value) if isinstance(value, Term) else 0

    return _with(call, SIDES[number], {key: of(value, key in VALUES) for key, value in call.args.items()})


def _with(call: Call, part: str, args: dict[str, Any]) -> Any:
    """The same op with other operands."""
    wanted = [call.wants(number) for number in range(len(call.types))]
    inner = Call(call.target, f"{call.name}.{part}", args, call.types, wanted, call.program, call.memory)
    return inner.translated(ATEN_OPS[call.target])


def _zeros(call: Call, like: Term) -> Term:
    return call.expand(call.known(0.0, call.dtype if call.types else like.dtype), like.shape)


def bilinear(call: Call, second: str) -> Any:
    """An op that is linear in `self` and in `second`."""
    return multiplied(call, call.args["self"], call.args[second], lambda x, y: {**call.args, "self": x, second: y})


def multiplied(call: Call, x: Any, y: Any, args: Callable[[Any, Any], dict[str, Any]]) -> Any:
    """An op that is linear in two operands, one of them complex at least; `args` are the node's for parts of them."""

    def of(a: Any, b: Any, part: str) -> Term:
        return _with(call, part, args(a, b))

    if not isinstance(y, Complex):
        return Complex(*(of(part, y, side) for part, side in zip(x.parts, SIDES)))
    if not isinstance(x, Complex):
        return Complex(*(of(x, part, side) for part, side in zip(y.parts, SIDES)))
    real = call.fn("sub", of(x.real, y.real, "rr"), of(x.imag, y.imag, "ii"), part="real")
    return Complex(real, call.fn("add", of(x.real, y.imag, "ri"), of(x.imag, y.real, "ir"), part="imag"))
