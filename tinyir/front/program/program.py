"""The front-end JSON program that an imported model becomes, one op after the other.

Each op is written down and, beside it, lowered by the builder, which says what type it gives: so that sizes are known
exactly, symbols and all, and what cannot be lowered is found with the node that wants it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...ir.expr import Expr
from ...ir.model import Origin
from ...ir.model import Tensor as Input
from ...ir.types import DTYPES, DType, TensorType, show_number
from ...kit.diag import Refused, refuse_all
from ...kit.names import FreeNames
from ..builder import Builder, Literal, Place, Ref
from ..ops import ELEMENTWISE, FRONT_OPS, check_attrs
from .names import bare
from .terms import Term, known

Value = Term | float | int | bool


class Sources(Protocol):
    """Where the elements of a model's tensors are. Both raise Refused (E0127)."""

    def place(self, tensor: Any) -> dict[str, Any]:
        """The attributes file, offset, bytes and sha256 of a tensor; nothing where its elements are to be read."""
        ...

    def array(self, tensor: Any) -> np.ndarray:
        """The elements of a tensor."""
        ...


class Program:
    """Tensors and ops in the making. Inputs, outputs and weights keep their names in the model; others are made
    bare."""

    def __init__(self, taken: set[str], weights: Sources, reserved: set[str]):
        self.builder = Builder()
        self.reserved = set(reserved)  # names of weights, each for its own tensor
        self.weights = weights
        self.tensors: dict[str, dict[str, Any]] = {}
        self.ops: list[dict[str, Any]] = []
        self.made: dict[str, Term] = {}  # what each op of this program gives, by name
        self._names = FreeNames(taken, "{}_{}".format)
        self.taken = self._names.taken
        self.updates: dict[str, str] = {}  # outputs that are what an input becomes
        self.symbols: dict[str, None] = {}  # of the sizes of inputs
        self.planned: dict[str, int] = {}  # sizes that plans are to be made for, where they are not the usual ones

    def fresh(self, name: str) -> str:
        """`name`, or the first free `name_2`, `name_3`, ...; taken from now on."""
        return self._names.name(name, self.reserved)

    def own(self, name: str) -> str:
        """A weight's name for the weight itself."""
        self.reserved.discard(name)
        return self.fresh(name)

    def input(self, name: str, dtype: DType, shape: Sequence[Expr], form: str = "", **attrs: Any) -> Term:
        """A tensor that comes from outside, or from a file that `attrs` names."""
        self.tensors[name] = {"dtype": dtype.name, "shape": [d.plain for d in shape], **attrs}
        ref = self.builder.input(Input(name, TensorType(dtype, tuple(shape))))
        self.symbols.update((symbol, None) for size in shape for symbol in size.names())
        return Term(dtype, tuple(shape), name=name, ref=ref, form=form)

    def put(self, term: Term, name: str = "") -> Term:
        """The term as a tensor of the program: a value that is known becomes a constant of it."""
        if term.ref is None and term.tensor is not None:
            place = self.weights.place(term.tensor)
            if place:
                name = self.own(term.tensor.name)
                made = self.input(name, term.dtype, term.shape, **place)
                term.name, term.ref = made.name, made.ref
            else:
                term.known, term.label = self.weights.array(term.tensor), term.label or bare(term.tensor.name)
        if term.ref is None:
            name = name or term.label or "constant"
            value = term.known
            first = value.flat[0] if value.size else value.dtype.type(0)
            if value.dtype == object and any(v != first for v in value.flat):
                parts = [
                    self.put(known([v], term.dtype), f"{name}.{i}") for i, v in enumerate(value.reshape(-1).tolist())
                ]
                (joined,) = self.op("Concat", parts, f"{name}.sizes", axis=0)
                if term.rank != 1:
                    (joined,) = self.op("Reshape", [joined], f"{name}.shaped", shape=list(term.shape))
                self.rename(joined, self.own(name) if name == term.label else self.fresh(name))
                term.name, term.ref = joined.name, joined.ref
                return term
            term.name = self.own(name) if name == term.label else self.fresh(name)
            literal, plain = _literal(value, first, term.dtype)
            self.tensors[term.name] = {
                "dtype": term.dtype.name,
                "shape": [d.plain for d in term.shape],
                "value": plain,
            }
            self.builder.open(Origin(term.name, "Constant"))
            made = self.builder.const(literal, term.dtype, term.shape)
            (term.ref,) = self.builder.close([made], [term.name], [None], [Place()])
        return term

    def op(
        self,
        op: str,
        operands: Sequence[Value],
        base: str,
        /,
        outputs: int = 1,
        fn: str = "",
        dtypes: Sequence[DType | None] = (),
        **attrs: Any,
    ) -> list[Term]:
        """One op under a name made from `base`. `dtypes` are what its outputs shall be, where that differs from what
        the op gives. Raises Refused."""
        row = ELEMENTWISE[fn] if fn else FRONT_OPS[op]
        defaults = {a.name: _plain(a.default) for a in row.attrs if a.default is not None}
        plain = {k: _plain(v) for k, v in attrs.items() if v is not None}
        plain = {k: v for k, v in plain.items() if k not in defaults or v != defaults[k]}
        checked, faults = check_attrs(row, plain, base)
        refuse_all(faults)
        terms = self.terms_of(operands, base, is_elementwise=bool(fn))
        names = [self.fresh(base)] if outputs == 1 else [self.fresh(f"{base}.{i}") for i in range(outputs)]
        wanted = [*dtypes, *[None] * (outputs - len(dtypes))]
        self.builder.open(Origin(base, op))
        try:
            given = row.lower(self.builder, tuple(t.ref if isinstance(t, Term) else Literal(t) for t in terms), checked)
            given = (given if isinstance(given, tuple) else (given,))[:outputs]
            types = [ref.type for ref in given]
            refs = self.builder.close(given, names, wanted, [Place()] * outputs)
        except Refused:
            self.builder.drop()
            self.taken.difference_update(names)
            raise
        inputs = [t.name if isinstance(t, Term) else _plain(t) for t in terms]
        entry = {"op": op, "name": "", "inputs": inputs, "outputs": names}
        self.ops.append(entry | ({"fn": fn} if fn else {}) | ({"attrs": plain} if plain else {}))
        for name, ref, own, want in zip(names, refs, types, wanted):
            if want is not None and want != own.dtype:
                self.declare(name, ref)
            self.made[name] = Term(ref.dtype, ref.shape, name=name, ref=ref)
        return [self.made[name] for name in names]

    def terms_of(self, operands: Sequence[Value], base: str, is_elementwise: bool) -> list[Value]:
        """Operands as an op takes them: what is known becomes a constant; a number stays one where all may, but for one
        that JSON cannot spell."""
        dtype = next((o.dtype for o in operands if isinstance(o, Term)), None)
        operands = [
            known(o, dtype) if isinstance(o, float) and not math.isfinite(o) and dtype is not None else o
            for o in operands
        ]
        if is_elementwise and any(isinstance(o, Term) and o.known is None for o in operands):
            operands = [_spelled(o, operands) for o in operands]
        return [
            self.put(o, "" if o.label or o.tensor is not None else f"{base}.k") if isinstance(o, Term) else o
            for o in operands
        ]

    def declare(self, name: str, ref: Ref) -> None:
        """State the type of a tensor that an op gives."""
        self.tensors[name] = {"dtype": ref.dtype.name, "shape": [d.plain for d in ref.shape]}

    def rename(self, term: Term, name: str) -> None:
        """Give what an op made another name, which must be free."""
        old, term.name = term.name, name
        self.made[name] = self.made.pop(old)
        for entry in reversed(self.ops):
            for key in ("inputs", "outputs"):
                entry[key] = [name if n == old else n for n in entry[key]]
            if name in entry["outputs"]:
                break
        if old in self.tensors:
            self.tensors[name] = self.tensors.pop(old)


def _spelled(operand: Value, beside: Sequence[Value]) -> Value:
    """A known number without axes as a number, where an operand beside it is of its dtype."""
    if (
        not isinstance(operand, Term)
        or operand.known is None
        or operand.rank
        or operand.ref is not None
        or operand.known.dtype == object
    ):
        return operand
    if not any(isinstance(o, Term) and o.known is None and o.dtype == operand.dtype for o in beside):
        return operand
    number = operand.known[()]
    return (
        float(number)
        if operand.dtype.is_float and math.isfinite(number)
        else operand
        if operand.dtype.is_float
        else number.item()
    )


def _plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, Expr):
        return value.plain
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return _number(value) if isinstance(value, float) else value


def _number(value: float, dtype: DType | None = None) -> float | str:
    text = show_number(value, dtype or DTYPES["fp32"])
    return text if text in ("inf", "-inf", "nan") else float(text)


def _literal(value: np.ndarray, first: Any, dtype: DType) -> tuple[Any, Any]:
    """A known value for the builder and for JSON: one number where all elements are the same, or there is none."""
    if value.dtype == object:
        return first, first.plain
    if value.tobytes() == value.dtype.type(first).tobytes() * value.size:
        return first.item() if dtype.kind != "f" else float(first), _scalar(first, dtype)

    numbers = value.astype(np.float64) if dtype.is_float else value
    return _rows(numbers.tolist()), _spelt(value, dtype)


def _rows(value: Any) -> Any:
    """Nested lists as tuples."""
    return tuple(map(_rows, value)) if value and isinstance(value[0], list) else tuple(value)


def _spelt(value: np.ndarray, dtype: DType) -> list:
    """An array as JSON has it; each number is spelt once."""
    if not dtype.is_float:
        return value.tolist()
    distinct, places = np.unique(value.view(f"u{value.itemsize}"), return_inverse=True)
    spelt = np.array([_scalar(number, dtype) for number in distinct.view(value.dtype)], object)
    return spelt[places.reshape(value.shape)].tolist()


def _scalar(value: Any, dtype: DType) -> Any:
    if not dtype.is_float:
        return value.item()
    return _number(float(value), dtype)
