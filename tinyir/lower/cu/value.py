"""Body expressions as C. 16- and 8-bit floats are computed in float, small integers in int; both are rounded back where
the text says so.

`value` gives an expression in the arithmetic's type, `stored` one in the memory's type.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

from ...ir.body import Binary, Body, Index, Literal, Random, Read, Ref, Select, Ternary, Unary, operands_of
from ...ir.expr import Expr
from ...ir.ops import REGION_OPS
from ...ir.types import DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field
from ...target.dtypes import SMALL_FLOATS
from .index import Integers

NEAR = ("fp16", "bf16")  # for which there are shorter sequences
MATH = ("exp2", "log2", "sin", "tanh", "erf", "floor", "ceil", "trunc", "rint")  # in C with an `f` for float
WRAPPING = {
    "add": "wrap_add({0}, {1})",
    "sub": "wrap_sub({0}, {1})",
    "mul": "wrap_mul({0}, {1})",
    "neg": "wrap_sub(({t})0, {0})",
}
MOST_APART = 1 << 20  # numbers from which that of an integer of 16 bits is exact in fp32, raised too
ARGUMENT = re.compile(r"(?<=[(,])\s?\{(\d)\}(?=[,)])")  # an operand that is a whole argument needs no brackets
PICKS = ("neg", "abs", "relu", "max", "min", "where")  # of rounded floats, which give such
LOGIC = {"and": "{0} && {1}", "or": "{0} || {1}", "xor": "{0} != {1}"}


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory."""
    return dtype.cuda


def arithmetic_type(dtype: DType) -> str:
    """The C type in which values of the dtype are computed and held in registers."""
    return "float" if dtype.name in SMALL_FLOATS else dtype.cuda


@dataclass
class Values:
    """Spells expressions. `element` gives the C of an element of a tensor or array, `ref` that of a value."""

    integers: Integers
    element: Callable[[str, tuple[Expr, ...], Expr | None], str]
    ref: Callable[[str], str]
    in_registers: Callable[[str], bool]
    at: str
    is_approx: bool = False  # inside an `each` that says so
    loops: int = 0  # around what is written
    loops_of: dict[str, int] = field(default_factory=dict)  # around each value that has a name
    divisors: set[Body] = field(default_factory=set)  # whose reciprocals loops have found

    def stored(self, body: Body, dtype: DType) -> str:
        """The expression as an element of `dtype` in memory."""
        if isinstance(body, Read) and not self.in_registers(body.tensor):
            return self._element(body)
        if isinstance(body, Select) and dtype.name in SMALL_FLOATS:
            return f"{self._guard(body)} ? {_closed(self.stored(body.then, dtype))} : {_closed(self.stored(body.other, dtype))}"  # noqa: E501
        if dtype.name not in SMALL_FLOATS:
            return self.value(body)
        if isinstance(body, Literal):
            return f"{dtype.cuda}{{{_bits(body.value, dtype)}}}"
        if isinstance(body, Unary) and body.op == "cast" and body.dtype == dtype:
            return _narrowed(self._converted(body.x, dtype.name), body.x.dtype, dtype)
        return f"{dtype.cuda}_of_float({self.value(body)})"

    def value(self, body: Body) -> str:
        """The expression in the arithmetic's type."""
        return _SPELL[type(body)](self, body) if type(body) in _SPELL else self._refuse(body)

    def near(self, body: Body, rounded: str) -> str:
        """The expression as a value that is only ever rounded to this dtype: as near as that asks."""
        gated = gelu_in(body) if rounded in NEAR else None
        return f"gelu_for_{rounded}({self.value(gated)})" if gated is not None else self.value(body)

    def before_rounding(self, body: Body, dtype: DType) -> str:
        """What is rounded to the dtype of 16 bits where the text casts a float to it, or may do so itself."""
        is_cast = isinstance(body, Unary) and body.op == "cast" and body.x.dtype.name == "fp32"
        return self.near(body.x if is_cast else body, dtype.name)

    def _refuse(self, body: Body) -> str:
        raise refuse(
            "E1620",
            self.at,
            body.span,
            what=Phrase("a {name} inside a kernel's value", name=type(body).__name__.lower()),
        )

    def _guard(self, body: Select) -> str:
        return self.integers.guard(body.guard)

    def _element(self, body: Read) -> str:
        return self.element(body.tensor, body.index, body.slot)

    def _read(self, body: Read) -> str:
        text = self._element(body)
        return (
            f"float_of_{body.dtype}({text})"
            if body.dtype.name in SMALL_FLOATS and not self.in_registers(body.tensor)
            else text
        )

    def _select(self, body: Select) -> str:
        guard, then = self._guard(body), _closed(self.value(body.then))
        return then if guard == "true" else f"{guard} ? {then} : {_closed(self.value(body.other))}"

    def _call(self, body: Unary | Binary | Ternary) -> str:
        inner = (
            [body.x]
            if isinstance(body, Unary)
            else [body.left, body.right]
            if isinstance(body, Binary)
            else [body.first, body.second, body.third]
        )
        if body.op == "cast":
            return self._cast(body.x, body.dtype)
        if body.op == "bitcast":
            text = f"bits_as<{body.dtype.cuda}, {body.x.dtype.cuda}>({self.stored(body.x, body.x.dtype)})"
            return f"float_of_{body.dtype}({text})" if body.dtype.name in SMALL_FLOATS else text
        found = (self._apart(body) or self._quotient(body) if isinstance(body, Binary) else "") or self._sigmoidal(body)
        if found:
            return found
        operands = [self.value(o) for o in inner]
        dtype = inner[-1].dtype
        if body.op == "mul" and body.dtype != dtype:  # the exact product, in the wider type
            is_wide = arithmetic_type(dtype) == arithmetic_type(body.dtype)
            dtype = body.dtype
            operands = [o if is_wide else f"({arithmetic_type(dtype)}){_closed(o)}" for o in operands]
        return self.applied(body.op, dtype, *operands, result=body.dtype, is_rounded=all(map(_is_rounded, inner)))

    def _quotient(self, body: Binary) -> str:
        """A division in a loop by what is the same in all of its turns, whose reciprocal is found once, and one by the
        same number after the loop, which has the same bits then; empty for another body."""
        if body.op != "fdiv" or body.dtype.name != "fp32":
            return ""
        if self._is_steady(body.right) and not self._is_steady(body.left):
            self.divisors.add(body.right)
        if body.right not in self.divisors:
            return ""
        return f"quotient_of({self.value(body.left)}, {self.value(body.right)})"

    def _is_steady(self, body: Body) -> bool:
        """Whether a value is one that was computed before the innermost loop, or an element that is always the same."""
        if isinstance(body, Ref):
            return self.loops_of.get(body.name, self.loops) < self.loops
        if isinstance(body, Read):
            is_of_memory = not self.in_registers(body.tensor) and body.slot is None
            return self.loops > 0 and is_of_memory and not any(e.names() for e in body.index)
        inner = operands_of(body) if isinstance(body, (Unary, Binary, Ternary)) else ()
        return any(map(self._is_steady, inner)) and all(isinstance(x, Literal) or self._is_steady(x) for x in inner)

    def _sigmoidal(self, body: Unary | Binary | Ternary) -> str:
        """What activations are made of, by the units for exponentials and reciprocals: x/2 * (1 + erf(x/sqrt(2))), 1 +
        erf(x), 1 + tanh(x) and 1/(1 + 2**x). Their errors are those of the sums, which floats near 1 and 2 have as
        well; empty for another body."""
        if body.dtype.name != "fp32":
            return ""
        if isinstance(body, Unary) and body.op == "recip":
            inner = _one_more(body.x)
            return f"logistic_of_exp2({self.value(inner.x)})" if _is(inner, "exp2") else ""
        gated = gelu_in(body)
        if gated is not None:
            return f"gelu_of({self.value(gated)})"
        inner = _one_more(body)
        if _is(inner, "erf"):
            return f"one_plus_erf({self.value(inner.x)})"
        if _is(inner, "tanh"):
            return f"2.0f * logistic_of_exp2({_closed(self.value(inner.x))} * {-2 * math.log2(math.e):.7g}f)"
        return ""

    def applied(
        self, op: str, dtype: DType, *operands: str, result: DType | None = None, is_rounded: bool = True
    ) -> str:
        """An op of the table on C expressions of `dtype`, which are such (`is_rounded`) or have more digits, as a value
        of `result` (default: the same)."""
        result = result or dtype
        if op == "exp2" and self.is_approx and dtype.name == "fp32":
            return f"exp2_approx({operands[0]})"
        template = WRAPPING.get(op) if dtype.is_integer else LOGIC.get(op) if dtype.kind == "b" else None
        template = template or REGION_OPS[op].cuda
        word = template.split("(", 1)[0]
        if word in MATH and arithmetic_type(dtype) == "float":
            template = template.replace(word, word + "f", 1)
        alone = {int(n) for n in ARGUMENT.findall(template)}
        text = template.format(
            *(o if n in alone else _closed(o) for n, o in enumerate(operands)), t=arithmetic_type(dtype)
        )
        is_exact = result.kind == "b" and (op in LOGIC or op.startswith("cmp")) or template.startswith("wrap_")
        return self._rounded(text, result, is_exact or is_rounded and dtype.is_float and op in PICKS)

    def _rounded(self, text: str, dtype: DType, is_exact: bool) -> str:
        if dtype.bits >= 32 or is_exact:
            return text
        is_float = dtype.name in SMALL_FLOATS
        return f"float_of_{dtype}({dtype.cuda}_of_float({text}))" if is_float else f"({dtype.cuda})({text})"

    def _converted(self, x: Body, rounded: str = "") -> str:
        """A value that becomes a float, and is rounded then: an integer of 8 or 16 bits is one."""
        return f"({self._raised(x)} - {_raise_of(x.dtype)}.0f)" if _is_small(x.dtype) else self.near(x, rounded)

    def _raised(self, x: Body) -> str:
        """An integer of 8 or 16 bits plus what `_raise_of` says, as a float."""
        return f"raised(({x.dtype.cuda}){_closed(self.value(x))})"

    def _apart(self, body: Binary) -> str:
        """The difference of two integers of 8 or 16 bits, or of one and a number, without a conversion of either; empty
        where it is none. Floats hold all of these numbers, so nothing is rounded."""
        left, right = (
            side.x if isinstance(side, Unary) and side.op == "cast" and _is_small(side.x.dtype) else None
            for side in (body.left, body.right)
        )
        if body.op != "sub" or body.dtype.name != "fp32" or left is None:
            return ""
        if right is not None and _raise_of(left.dtype) == _raise_of(right.dtype):
            return f"{self._raised(left)} - {self._raised(right)}"
        number = body.right.value if isinstance(body.right, Literal) else None
        if number is None or number != number or abs(number) > MOST_APART or number != int(number):
            return ""
        return f"{self._raised(left)} - {_raise_of(left.dtype) + int(number)}.0f"

    def _cast(self, x: Body, dtype: DType) -> str:
        text = self._converted(x, dtype.name) if arithmetic_type(dtype) == "float" else self.value(x)
        if x.dtype == dtype:
            return text
        if dtype.name in SMALL_FLOATS:
            return f"float_of_{dtype}({_narrowed(text, x.dtype, dtype)})"
        if dtype.kind == "b":
            return f"{_closed(text)} != 0"
        if x.dtype.is_float and dtype.is_integer:
            return f"{dtype}_of({text})"
        is_float = arithmetic_type(x.dtype) == dtype.cuda or text.startswith("(raised")
        return text if is_float else f"({dtype.cuda}){_closed(text)}"

    def of_word(self, word: str, dtype: DType) -> str:
        """The random number of a dtype that a word of 32 bits gives."""
        if dtype.is_float:  # 24 bits, exact in float
            number = f"(float)({word} >> 8) * 5.9604645e-08f"
            return f"({dtype.cuda})({number})" if dtype.name == "fp64" else self._rounded(number, dtype, False)
        return f"({dtype.cuda})({word} & 1u)" if dtype.kind == "b" else f"({dtype.cuda}){word}"

    def _literal(self, body: Literal) -> str:
        return _literal(body.value, body.dtype)

    def _index(self, body: Index) -> str:
        text = self.integers.c(body.expr, 0)
        if body.dtype.name in SMALL_FLOATS:
            return f"float_of_{body.dtype}({_narrowed(f'(double){_closed(text)}', None, body.dtype)})"
        return text if body.dtype.cuda == self.integers.type_of(body.expr) else f"({body.dtype.cuda}){_closed(text)}"


def _is_rounded(body: Body) -> bool:
    """Whether a register has the body's value as its dtype does: a literal may have more digits."""
    return not isinstance(body, Literal) or body.value == 0 or math.isinf(body.value)


def gelu_in(body: Body) -> Body | None:
    """The x of x/2 * (1 + erf(x/sqrt(2)))."""
    if not isinstance(body, Binary) or body.op != "mul":
        return None
    for half, sum_of in ((body.left, body.right), (body.right, body.left)):
        erf = _one_more(sum_of)
        x = _times(half, 0.5)
        if x is not None and _is(erf, "erf") and _times(erf.x, math.sqrt(0.5)) == x:
            return x
    return None


def _one_more(body: Body) -> Body | None:
    """What a sum with 1 adds it to."""
    if not isinstance(body, Binary) or body.op != "add" or body.dtype.name != "fp32":
        return None
    sides = (body.left, body.right)
    return next((x for x, one in (sides, sides[::-1]) if isinstance(one, Literal) and one.value == 1), None)


def _times(body: Body, factor: float) -> Body | None:
    """What is multiplied by a number of fp32."""
    if not isinstance(body, Binary) or body.op != "mul" or body.dtype != body.left.dtype:
        return None
    sides = ((body.left, body.right), (body.right, body.left))
    return next((x for x, n in sides if isinstance(n, Literal) and abs(n.value - factor) < 1e-7 * factor), None)


def _is(body: Body | None, op: str) -> bool:
    return isinstance(body, Unary) and body.op == op


def _is_small(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits < 32


def _raise_of(dtype: DType) -> int:
    """By how much an integer of 8 or 16 bits is greater as the fraction of a float (`raised`)."""
    return (1 << 23) + (1 << 15) * (dtype.kind == "i")


def _narrowed(text: str, source: DType | None, target: DType) -> str:
    """C of a value of `source` (None: double) as bits of a small float; wider sources are rounded once, not twice."""
    if source is None or source.name == "fp64" or source.is_integer and source.bits > 16:
        return f"{target.cuda}_of_float(odd_float_of({text}))"
    return f"{target.cuda}_of_float({text})"


def _closed(text: str) -> str:
    """The expression in brackets, unless nothing around it could tear it apart."""
    depth = 0
    for position, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0 and (char == " " or position == 0 and char in "-(" and not _is_bracketed(text)):
            return f"({text})"
    return text


def _is_bracketed(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def _bits(value: float | int | bool, dtype: DType) -> str:
    """The bits of a value of the dtype, in hex."""
    value = float(value)
    if dtype.name == "fp16":
        return f"0x{struct.unpack('H', struct.pack('e', value))[0]:04x}"
    if dtype.name == "bf16":
        return f"0x{struct.unpack('I', struct.pack('f', value))[0] >> 16:04x}"
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    digits, bias, infinity = (3, 7, 0x7F) if dtype.name == "fp8e4m3" else (2, 15, 0x7C)
    if value != value or math.isinf(value):
        return f"0x{sign | (0x7F if value != value else infinity):02x}"
    exponent = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
    fraction = round(abs(value) / math.ldexp(1.0, exponent - digits))
    return f"0x{sign | (fraction + ((exponent + bias - 1) << digits)):02x}"


def _literal(value: float | int | bool, dtype: DType) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_integer:
        return _integer(int(value), dtype)
    value = float(value)
    if value != value or math.isinf(value):
        if dtype.name == "fp64":
            word = "7ff8" if value != value else "7ff0" if value > 0 else "fff0"
            return f"__longlong_as_double(0x{word}000000000000ull)"
        word = "7fc0" if value != value else "7f80" if value > 0 else "ff80"
        return f"__uint_as_float(0x{word}0000u)"
    if dtype.name == "fp64":
        return repr(value)
    single = struct.unpack("f", struct.pack("f", value))[0]
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            break
    return text + ("f" if any(c in text for c in ".e") else ".0f")


def _integer(value: int, dtype: DType) -> str:
    if dtype.bits < 32:
        return f"({dtype.cuda}){value}"
    suffix = {"i64": "ll", "u64": "ull", "u32": "u"}.get(dtype.name, "")
    if value == dtype.lowest and dtype.kind == "i":
        return f"(-{-(value + 1)}{suffix} - 1)"
    return f"{value}{suffix}"


def stream_of(body: Random) -> tuple[str, str]:
    """The key of a stream of random numbers, and the block at which it starts."""
    seed, offset = (n & ((1 << 64) - 1) for n in (body.seed, body.offset))
    return f"{seed}ull", f"{offset}ull"


def _random(self: Values, body: Random) -> str:
    return self.of_word(f"philox_word({', '.join(stream_of(body))}, {self.integers.c(body.index)})", body.dtype)


_SPELL = {
    Random: _random,
    Read: Values._read,
    Ref: lambda self, body: self.ref(body.name),
    Literal: Values._literal,
    Index: Values._index,
    Unary: Values._call,
    Binary: Values._call,
    Ternary: Values._call,
    Select: Values._select,
}
