"""The one builder of tiny that every front end uses.

A front end declares the inputs, opens a step for each op of its model, lets the op's lowering (front.ops) emit values,
and closes the step with the tensors that the op gives. The builder infers each type by `ir.rules`, inserts EXPAND and
CAST where the front end's language leaves them out, names the values and keeps where they came from:

    %gemm.mul   a value inside the step `gemm`
    %gemm       what the step gives; when it gives several tensors, each has the tensor's own name
    %C2         the CAST that brings what a step gives to the dtype that the model declares for tensor C2
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from ..ir import tiny
from ..ir.expr import ONE, Bound, Expr
from ..ir.model import Model, Origin, Tensor
from ..ir.ops import OPS, REDUCERS
from ..ir.rules import broadcast_mismatch, fills, holds_product, infer
from ..ir.types import DTYPES, DType, TensorType, is_exact, number_of, promote, round_to
from ..kit.diag import Diag, Label, Refused, refuse
from ..kit.names import FreeNames
from ..kit.phrase import Phrase
from ..kit.records import dataclass, replace
from ..kit.span import Span
from .limits import Limits

MAX_NAME = 64  # characters; a longer one keeps its head and gets a digest
MAX_VALUES = 1_000_000

_NUMBERS = frozenset((int, float, bool))
_PART = {"RESHAPE": "r", "PERMUTE": "t", "EXPAND": "x", "CAST": "c", "CONST": "k"}


def _numbered(name: str, number: int) -> str:
    return f"{name}{'_' if name[-1:].isdigit() else ''}{number}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is declared or made in the front end's text: the whole, and each dim where the text states
    them."""

    span: Span | None = None
    dims: tuple[Span, ...] = ()

    def dim(self, axis: int) -> Span | None:
        """The span of one dim, or of the whole where dims have none."""
        return self.dims[axis] if axis < len(self.dims) else self.span


NOWHERE = Place()


@dataclass(slots=True, eq=False)
class Ref:
    """An input or a value while the program is being built. `op` is empty for an input. `tensor` is the model's word
    for it."""

    op: str
    name: str
    type: TensorType
    operands: tuple[Ref, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()
    origin: Origin | None = None
    tensor: str = ""
    place: Place = NOWHERE
    part: str = ""

    @property
    def called(self) -> str:
        """What a message calls it: the model's word, or its name, which a value in the making has not."""
        return self.tensor or self.name or Phrase("an operand")

    @property
    def dtype(self) -> DType:
        """Its dtype."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Its size along each axis."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return self.type.rank


@dataclass(slots=True, eq=False)
class Literal:
    """A number in an operand's place. It takes the dtype of its partner (`Builder.agree`)."""

    value: float | int | bool


Operand = Ref | Literal


class Builder:
    """Values in the making. One step is open at a time; a step that fails leaves nothing behind."""

    def __init__(self) -> None:
        self.inputs: list[Ref] = []
        self.limits = Limits()  # what is known of the symbols
        self._values: list[Ref] = []
        self._names = FreeNames(numbered=_numbered)
        self._step: list[Ref] = []
        self._origin: Origin | None = None
        self._base = ""
        self._returned: list[tuple[Ref, ...]] = []  # what each closed step gave
        self.notes: list[Diag] = []  # warnings and remarks on what was built
        self.widened: list[tuple[DType, DType]] = []  # of sums of products: a factor's dtype, and the wider other's

    # --- steps

    def input(self, tensor: Tensor, place: Place = NOWHERE) -> Ref:
        """Declare an input of the model."""
        ref = Ref("", tensor.name, tensor.type, tensor=tensor.name, place=place)
        self._names.taken.add(tensor.name)
        self.inputs.append(ref)
        return ref

    def open(self, origin: Origin | None, name: str = "") -> None:
        """Start the step of one op, called `name`, or as its origin is."""
        self._origin, self._base, self._step = origin, name or (origin.name if origin is not None else ""), []

    def drop(self) -> None:
        """Forget the open step."""
        self._step = []

    def close(
        self, given: Sequence[Ref], tensors: Sequence[str], declared: Sequence[DType | None], places: Sequence[Place]
    ) -> tuple[Ref, ...]:
        """End the step: name its values, and bring what it gives to the dtypes that are declared for its tensors, which
        are at `places`."""
        base = self._base
        casts = [want is not None and want != ref.dtype for ref, want in zip(given, declared)]
        own = {id(ref) for ref in self._step}
        wanted: dict[int, str] = {}
        for ref, tensor, is_cast in zip(given, tensors, casts):
            if id(ref) in own and id(ref) not in wanted:
                name = base if len(given) == 1 else tensor
                wanted[id(ref)] = f"{base}.{ref.part}" if is_cast and name == tensor else name
        finals = set(wanted.values()) | {tensor for tensor, is_cast in zip(tensors, casts) if is_cast}
        for ref in self._step:
            if id(ref) in wanted:
                ref.name = self._claim(wanted[id(ref)])
            else:
                ref.name = self._claim(f"{base}.{ref.part}", finals)
        self._values += self._step
        results = []
        for ref, tensor, is_cast, want, place in zip(given, tensors, casts, declared, places):
            if is_cast:
                self._step = []
                ref = self.cast(ref, want)
                ref.name = self._claim(tensor)
                self._values += self._step
            if not ref.tensor:
                ref.tensor, ref.place = tensor, place
            results.append(ref)
        self._step = []
        self._returned.append(tuple(results))
        return tuple(results)

    def _claim(self, name: str, reserved: Container[str] = ()) -> str:
        """`name`, or the first free `name2`, `name3`, ..., never longer than MAX_NAME."""
        if len(name) > MAX_NAME:
            from hashlib import sha256

            name = f"{name[: MAX_NAME - 13]}_{sha256(name.encode()).hexdigest()[:8]}"
        return self._names.name(name, reserved)

    def finish(self, model: Model, results: Sequence[tuple[str, Ref]]) -> tiny.Module:
        """The module, with the ranges that are known by now. Of a step that gives several tensors, what nobody needs is
        left out."""
        needed = {id(ref) for _, ref in results}
        for ref in reversed(self._values):
            self._need(ref, needed)
        for given in reversed(self._returned):
            if not any(id(ref) in needed for ref in given):
                needed |= {id(ref) for ref in given}
        for ref in reversed(self._values):
            self._need(ref, needed)
        values = tuple(
            tiny.Value(r.name, r.op, tuple(o.name for o in r.operands), r.attrs, r.type, r.origin)
            for r in self._values
            if id(r) in needed
        )
        known = {r.symbol: r for r in model.ranges}
        for r in self.limits.ranges():
            if r.symbol in known:
                r = replace(r, low=max(r.low, known[r.symbol].low), high=min(r.high, known[r.symbol].high))
            if r.symbol in known or r.symbol in model.symbols():
                known[r.symbol] = r
        model = replace(model, ranges=tuple(known.values()))
        return tiny.Module(model, values, tuple(tiny.Result(name, ref.name) for name, ref in results))

    @staticmethod
    def _need(ref: Ref, needed: set[int]) -> None:
        if id(ref) in needed:
            needed.update(id(o) for o in ref.operands)

    # --- single values

    def emit(self, op: str, /, *operands: Ref, part: str = "", type: TensorType | None = None, **attrs: Any) -> Ref:
        """One instruction of tiny; `type` is the stated type where the op needs one. Raises Refused by the type
        rules."""
        row = OPS[op]
        ordered = tuple((key, attrs[key]) for key in row.attrs or () if key in attrs)
        at = self._base
        found = infer(row, [o.type for o in operands], dict(ordered), type, at)
        if len(self._values) + len(self._step) >= MAX_VALUES:
            raise refuse("E0006", at, what=Phrase("the number of values (at most {most})", most=MAX_VALUES))
        ref = Ref(op, "", found, operands, ordered, self._origin, part=part or _PART.get(op, op.lower()))
        self._step.append(ref)
        return ref

    def const(self, value: Any, dtype: DType, shape: Sequence[Expr] = (), part: str = "") -> Ref:
        """A splat of one number or size, or the nested tuples of a whole literal."""
        if isinstance(value, Expr):
            value = value if value.constant is None else value.constant
        if isinstance(value, tuple) and any(d.constant == 0 for d in shape) and fills(value, shape):
            value = ()
        return self.emit("CONST", part=part, type=TensorType(dtype, tuple(shape)), value=rounded(dtype, value))

    def cast(self, x: Ref, dtype: DType, part: str = "") -> Ref:
        """`x` as `dtype`; `x` itself when it has it."""
        return x if x.dtype == dtype else self.emit("CAST", x, part=part, type=TensorType(dtype, x.shape))

    def reshape(self, x: Ref, shape: Sequence[Expr | int], part: str = "") -> Ref:
        """`x` with another shape of as many elements; `x` itself when it has it."""
        wanted = tuple(Expr.of(d) for d in shape)
        return x if x.shape == wanted else self.emit("RESHAPE", x, part=part, type=TensorType(x.dtype, wanted))

    def permute(self, x: Ref, perm: Sequence[int], part: str = "") -> Ref:
        """`x` with its axes in the order `perm`; `x` itself when that is its order."""
        return x if tuple(perm) == tuple(range(x.rank)) else self.emit("PERMUTE", x, part=part, perm=tuple(perm))

    def expand(self, x: Ref, shape: Sequence[Expr | int], part: str = "") -> Ref:
        """`x` repeated to `shape`, aligned at the right; `x` itself when it has it."""
        wanted = tuple(Expr.of(d) for d in shape)
        return x if x.shape == wanted else self.emit("EXPAND", x, part=part, type=TensorType(x.dtype, wanted))

    def spread(self, x: Ref, shape: Sequence[Expr | int], axes: Sequence[int], part: str = "") -> Ref:
        """`x` repeated to `shape`, its axes at `axes` of the result, in rising order."""
        wanted = tuple(Expr.of(d) for d in shape)
        if tuple(axes) == tuple(range(len(wanted) - x.rank, len(wanted))):
            return self.expand(x, wanted, part)
        return self.emit("EXPAND", x, part=part, type=TensorType(x.dtype, wanted), broadcast_dimensions=tuple(axes))

    def view(self, x: Ref, shape: Sequence[Expr | int], index_map: Sequence[Expr], part: str = "") -> Ref:
        """`x` read at `index_map`, an expression of i0, i1, ... for each of its axes."""
        return self.emit(
            "VIEW",
            x,
            part=part,
            type=TensorType(x.dtype, tuple(Expr.of(d) for d in shape)),
            index_map=tuple(map(Expr.of, index_map)),
        )

    def valid(self, x: Ref, guard: Sequence[Bound], value: float | int = 0, part: str = "") -> Ref:
        """`x` where every bound on i0, i1, ... holds, `value` elsewhere."""
        stated = {} if str(value) in ("0", "0.0") else {"value": rounded(x.dtype, value)}
        return self.emit("VALID", x, part=part, guard=tuple(guard), **stated)

    def pad(self, x: Ref, pad: Sequence[tuple[Any, Any]], value: float | int = 0, part: str = "") -> Ref:
        """`x` with `value` before and after each axis."""
        pairs = tuple((Expr.of(low), Expr.of(high)) for low, high in pad)
        if all(low.constant == 0 and high.constant == 0 for low, high in pairs):
            return x
        stated = {} if str(value) in ("0", "0.0") else {"value": rounded(x.dtype, value)}
        return self.emit("PAD", x, part=part, pad=pairs, **stated)

    def shrink(
        self, x: Ref, low: Sequence[Any], high: Sequence[Any], step: Sequence[int] | None = None, part: str = ""
    ) -> Ref:
        """`x[low:high:step]` on each axis, step positive."""
        lows, highs = tuple(map(Expr.of, low)), tuple(map(Expr.of, high))
        steps = tuple(step or (1,) * x.rank)
        if highs == x.shape and all(e.constant == 0 for e in lows) and set(steps) <= {1}:
            return x
        stated = {"step": steps} if set(steps) - {1} else {}
        return self.emit("SHRINK", x, part=part, lo=lows, hi=highs, **stated)

    def flip(self, x: Ref, axes: Sequence[int], part: str = "") -> Ref:
        """`x` read backwards along `axes`."""
        return self.emit("FLIP", x, part=part, axes=tuple(axes)) if axes else x

    def iota(self, dtype: DType, shape: Sequence[Expr | int], axis: int, part: str = "") -> Ref:
        """The index along `axis`, as `dtype`."""
        return self.emit("IOTA", part=part, type=TensorType(dtype, tuple(Expr.of(d) for d in shape)), axis=axis)

    def reduce(
        self, x: Ref, op: str, axes: Sequence[int], dtype: DType | None = None, keep: bool = False, part: str = ""
    ) -> Ref:
        """`x` reduced over `axes` by SUM, PROD, MAX, MIN, ARGMAX or ARGMIN, in `dtype` (default: that of `x`); with
        `keep` the axes stay with size 1. Over no axis at all it is `x`."""
        axes = tuple(sorted(a % x.rank for a in axes))
        if not axes and REDUCERS[op].fold is not None:
            return self.cast(x, dtype or x.dtype)
        found = self.emit("REDUCE", x, part=part or op.lower(), op=op, axes=axes, dtype=dtype or x.dtype)
        return self.reshape(found, [ONE if a in axes else d for a, d in enumerate(x.shape)]) if keep else found

    # --- values together

    def agree(self, *operands: Operand, dtype: DType | None = None) -> tuple[Ref, ...]:
        """The operands with one dtype and one shape: CAST to the promoted dtype, EXPAND aligned at the right, literals
        as splats. Raises Refused (E1001)."""
        refs = [o for o in operands if isinstance(o, Ref)]
        wanted = dtype
        if wanted is None:
            wanted = refs[0].dtype if refs else DTYPES["fp32"]
            for ref in refs[1:]:
                wanted = promote(wanted, ref.dtype)
            for o in operands:
                if isinstance(o, Literal):
                    wanted = _room_for(o.value, wanted)
        shape = self.broadcast_shape(*refs)
        return tuple(
            self.const(o.value, wanted, shape) if isinstance(o, Literal) else self.expand(self.cast(o, wanted), shape)
            for o in operands
        )

    def broadcast_shape(self, *refs: Ref) -> tuple[Expr, ...]:
        """The common shape of the operands, aligned at the right. Raises Refused (E1001)."""
        shape: tuple[Expr, ...] = ()
        for ref in refs:
            shape = broadcast(TensorType(refs[0].dtype, shape), ref.type, self._base)
        return shape

    def apply(self, op: str, *operands: Operand, part: str = "") -> Ref:
        """An elementwise op on operands that are brought to agree first. WHERE's condition keeps its dtype."""
        if op == "WHERE":
            condition, *branches = operands
            shape = self.broadcast_shape(*(o for o in operands if isinstance(o, Ref)))
            chosen = [self.expand(o, shape) for o in self.agree(*branches)]
            return self.emit("WHERE", self.expand(condition, shape), *chosen, part=part)
        return self.emit(op, *self.agree(*operands), part=part)

    def contract(
        self, x: Ref, x_axes: str, y: Ref, y_axes: str, out: str, acc: DType, parts: tuple[str, str] = ("a", "b")
    ) -> Ref:
        """The sum of products over every axis that `out` lacks, as MUL and REDUCE, in `acc`: `contract(A, "mk", B,
        "kn", "mn", fp32)`. A letter is an axis; sizes of one letter agree, or one is 1 where the letter is not summed
        over. The MUL widens to `acc` where that is exact, so that nothing is rounded before it is added; integers whose
        product `acc` does not hold whatever they are become `acc` before. Raises Refused (E1304 with both places)."""
        narrow = promote(x.dtype, y.dtype)
        self.widened += [(o.dtype, narrow) for o in (x, y) if o.dtype.is_float and o.dtype != narrow]
        summed = "".join(dict.fromkeys(c for c in x_axes + y_axes if c not in out))
        order = out + summed
        sizes = self._aligned(x, x_axes, y, y_axes, out)
        wide = [self._spread(o, axes, order, part) for o, axes, part in ((x, x_axes, parts[0]), (y, y_axes, parts[1]))]
        shape = [sizes[c] for c in order]
        is_widened = acc != narrow and holds_product(acc, narrow)
        if narrow.is_integer and not is_widened and is_exact(narrow, acc):
            narrow = acc
        factors = [self.expand(self.cast(o, narrow), shape, part=part + "x") for o, part in zip(wide, parts)]
        product = self.emit("MUL", *factors, part="mul", type=TensorType(acc if is_widened else narrow, tuple(shape)))
        if not summed:
            return self.cast(product, acc)
        return self.reduce(product, "SUM", range(len(out), len(order)), acc)

    def _aligned(self, x: Ref, x_axes: str, y: Ref, y_axes: str, out: str) -> dict[str, Expr]:
        sizes = dict(zip(x_axes, x.shape))
        for axis, (letter, size) in enumerate(zip(y_axes, y.shape)):
            known = sizes.setdefault(letter, size)
            if known == ONE and letter in out:
                sizes[letter] = size
            elif size != known and not (size == ONE and letter in out):
                other = x_axes.index(letter)
                facts = {"left": f"{_word(x)}[{other}] = {known}", "right": f"{_word(y)}[{axis}] = {size}"}
                place = x.place.dim(other)
                labels = (Label(place, facts["left"]),) if place is not None else ()
                raise Refused([Diag("E1304", self._base, facts, y.place.dim(axis), labels)])
        return sizes

    def _spread(self, x: Ref, axes: str, order: str, part: str) -> Ref:
        """`x` with its axes in the order of `order`, and size 1 for those that it lacks."""
        perm = sorted(range(len(axes)), key=lambda a: order.index(axes[a]))
        turned = self.permute(x, perm, part=part + "t")
        sizes = dict(zip((axes[p] for p in perm), turned.shape))
        return self.reshape(turned, [sizes.get(c, ONE) for c in order], part=part)


def broadcast(left: TensorType, right: TensorType, at: str = "") -> tuple[Expr, ...]:
    """The common shape of two types, aligned at the right. Raises Refused (E1001)."""
    rank = max(left.rank, right.rank)
    shape = []
    for axis in range(-rank, 0):
        a = left.shape[axis] if -axis <= left.rank else ONE
        b = right.shape[axis] if -axis <= right.rank else ONE
        if a != b and ONE not in (a, b):
            raise broadcast_mismatch(left, right, at)
        shape.append(b if a == ONE else a)
    return tuple(shape)


def accumulator(*dtypes: DType) -> DType:
    """The dtype that sums of products accumulate in unless the model says otherwise: fp32 for floats up to 32 bits, i32
    for integers of 8 and 16 bits, else their own."""
    common = dtypes[0]
    for dtype in dtypes[1:]:
        common = promote(common, dtype)
    if common.is_float and common.bits < 32:
        return DTYPES["fp32"]
    return DTYPES["i32"] if common.kind == "b" or common.is_integer and common.bits < 32 else common


def rounded(dtype: DType, value: Any) -> Any:
    """A number, or nested lists of numbers, as values of `dtype`; a size stays one. Raises Refused (E1026 a number that
    is not a value of `dtype`)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (tuple, list)):
        return tuple([number_of(dtype, v) if v.__class__ in _NUMBERS else rounded(dtype, v) for v in value])
    return number_of(dtype, value)


def _word(ref: Ref) -> str:
    return ref.tensor or ref.name or "it"


def _room_for(value: float | int | bool, dtype: DType) -> DType:
    """`dtype`, or the next one that can hold a literal: 0.5 beside i32 makes fp32 of both, 3 beside bool makes i32."""
    if isinstance(value, bool) or dtype.is_float:
        return dtype
    if isinstance(value, float):
        return DTYPES["fp32"] if is_exact(dtype, DTYPES["fp32"]) else DTYPES["fp64"]
    if dtype.kind == "b":
        return DTYPES["i32"]
    wide = [d for d in DTYPES.values() if d.is_integer and is_exact(dtype, d) and round_to(d, value) == value]
    return min(wide, key=lambda d: (d.bits, d.kind)) if wide else dtype
