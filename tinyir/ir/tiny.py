"""Tiny IR: what is computed. A pure DAG of movement, elementwise and reduce (seeds 000 and 004).

    from gemm : GEMM at 17:5
      %gemm.a      = RESHAPE(A)                                        : fp16[M, 1, K]
      %gemm        = REDUCE(%gemm.mul) {op=SUM, axes=[2], dtype=fp32}  : fp32[M, N]
    outputs: C2=%C2
    must_fuse: %gemm, %relu

It has no implicit broadcast, no implicit cast, no memory and no order but that of need. The operands of an op have one
shape and one dtype; the result's shape and dtype are in its type. One op may widen: `MUL(fp16, fp16) : fp32` is the
exact product, which is how a contraction states that it rounds only when it accumulates. A value and an input never
share a name; an operand that is a value is written `%name`, one that is an input `name`. `must_fuse` names values that
one kernel must compute; a movement among them means the value that it moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kit.diag import Diag, Refused, collecting, refuse_all
from ..kit.held import once
from ..kit.records import dataclass, field
from ..kit.span import Spanned
from ..kit.text import Grammar, body_of, header, token_span
from . import verify
from .attrs import Attrs, show_attrs
from .model import Model, Origin, check_model, model_of, origin_of, read_schema, show_model, show_name
from .ops import OPS
from .read import name_of, read_at, read_attrs, read_type
from .types import TensorType, round_to
from .unknown import nearest

STAGE = "tiny"
GRAMMAR = Grammar("tiny")


@dataclass(frozen=True, slots=True)
class Value(Spanned):
    """One instruction, `%name = op(operands) {attrs} : type`. Operands are names of values or inputs. `origin` and
    `span` ride along and take no part in equality."""

    name: str
    op: str
    operands: tuple[str, ...]
    attrs: Attrs
    type: TensorType
    origin: Origin | None = field(default=None, compare=False)

    def attr(self, key: str) -> Any:
        """The attribute called `key`, or None when it is absent."""
        for name, value in self.attrs:
            if name == key:
                return value
        return None

    @property
    def fill(self) -> float | int | bool:
        """What PAD and VALID give outside, in the value's dtype: 0 unless stated."""
        stated = self.attr("value")
        return round_to(self.type.dtype, 0 if stated is None else stated)


@dataclass(frozen=True, slots=True)
class Result:
    """An output of the model and the value or input that it is."""

    output: str
    value: str


@dataclass(frozen=True, slots=True)
class MustFuse(Spanned):
    """Values that one kernel must compute, each by its name or by that of a movement of it."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A tiny text: the signature, the values in an order in which each comes after its operands, the results, and what
    must share a kernel."""

    model: Model
    values: tuple[Value, ...]
    results: tuple[Result, ...]
    must_fuse: tuple[MustFuse, ...] = ()

    def value_of(self) -> dict[str, Value]:
        """Every value by name."""
        return {v.name: v for v in self.values}

    def type_of(self) -> dict[str, TensorType]:
        """The type of every input and value by name."""
        types = {t.name: t.type for t in self.model.inputs}
        types.update((v.name, v.type) for v in self.values)
        return types


def parse(text: str) -> Module:
    """The Module of a tiny text. Raises Refused (E00xx text, E01xx words)."""
    body_of(text, STAGE)
    return program_of(GRAMMAR.parse(text).children[1], text)


def program_of(tree: Any, whole: str) -> Module:
    """The Module of a tree of rule `program`; `whole` is the text that the spans speak of."""
    model = model_of(tree.children[0], whole)
    values: list[Value] = []
    results: list[Result] = []
    must_fuse: list[MustFuse] = []
    faults: list[Diag] = []
    origin = None
    for part in tree.children[1:]:
        if part is None:
            continue
        if part.data == "origin":
            origin = origin_of(part)
        elif part.data == "value":
            with collecting(faults):
                values.append(_value_of(part.children, origin, whole))
        elif part.data == "must_fuse":
            must_fuse.append(MustFuse(tuple(map(ref_of, part.children)), span=token_span(_token_of(part.children[0]))))
        else:
            output, ref = part.children
            value = ref_of(ref)
            results.append(Result(name_of(output.children[0]) if output is not None else value, value))
    refuse_all(faults)
    return Module(model, tuple(values), tuple(results), tuple(must_fuse))


def _value_of(parts: list[Any], origin: Origin | None, whole: str) -> Value:
    token, op_token, type_token, attrs_token = parts[0], parts[1], parts[-1], parts[-2]
    name = name_of(token)
    span = token_span(token)
    op = OPS.get(op_token)
    if op is None:
        raise Refused(
            [
                Diag(
                    "E0105",
                    name,
                    {"op": str(op_token), "near": ", ".join(nearest(str(op_token), OPS))},
                    token_span(op_token),
                )
            ]
        )
    operands = tuple(ref_of(r) for r in parts[2:-2] if r is not None)
    read = read_at(read_type, type_token, whole)
    attrs: Attrs = ()
    if attrs_token is not None or op.attrs:
        items = read_at(read_attrs, attrs_token, whole) if attrs_token is not None else ()
        attrs = read_schema(
            items,
            op.attrs or {},
            name,
            token_span(attrs_token) if attrs_token is not None else span,
            read.dtype,
            op.name,
        )
    return Value(name, op.name, operands, attrs, read, origin, span=span)


def ref_of(tree: Any) -> str:
    """The name that a tree of rule `ref` spells."""
    return name_of(_token_of(tree))


def _token_of(tree: Any) -> Any:
    inner = tree.children[0]
    return inner.children[0] if hasattr(inner, "children") else inner


def likeness(value: Value) -> str:
    """Op, attributes and type as text. Texts tell 0.0 from -0.0, and take a NaN for itself, which numbers do not."""
    return f"{value.op}{show_attrs(value.attrs, OPS[value.op].attrs or {}, value.type.dtype)} : {value.type}"


def show(module: Module) -> str:
    """The canonical text of a module."""
    return header(STAGE) + "\n" + show_program(module)


def show_program(module: Module) -> str:
    """The signature, values and outputs, without the header; later stages print it too."""
    value_names = {v.name for v in module.values}
    lines = [show_model(module.model)]
    origin = None
    for value in module.values:
        if value.origin != origin and value.origin is not None:
            origin = value.origin
            lines.append(f"\n{origin}" if len(lines) > 1 else str(origin))
        lines.append(show_value(value, value_names))
    results = ", ".join(
        show_ref(r.value, value_names)
        if r.output == r.value
        else f"{show_name(r.output)}={show_ref(r.value, value_names)}"
        for r in module.results
    )
    lines += ["", f"outputs: {results}".rstrip()]
    lines += [f"must_fuse: {', '.join(show_ref(n, value_names) for n in one.values)}" for one in module.must_fuse]
    return "\n".join(lines) + "\n"


def show_ref(name: str, value_names: Iterable[str]) -> str:
    """An operand as text: `%name` for a value, `name` for an input."""
    return f"%{show_name(name)}" if name in value_names else show_name(name)


def show_value(value: Value, value_names: Iterable[str]) -> str:
    """One value's line. Columns are at fixed stops, so that an edit never moves its neighbours."""
    schema = OPS[value.op].attrs or {}
    operands = ", ".join(show_ref(o, value_names) for o in value.operands)
    left = f"  %{show_name(value.name):<13} = {value.op}({operands}){show_attrs(value.attrs, schema, value.type.dtype)}"
    return f"{left:<71} : {value.type}"


@once
def check(module: Module) -> list[Diag]:
    """Invariants of tiny text, one function each in `ir.verify`, in this order:

    1. the signature holds its own invariants                                     (E13xx)
    2. a name is defined once, and never both as an input and as a value          (E0201)
    3. every operand and every result is defined, and before its use              (E0202, E0203)
    4. each op has its number of operands, of dtypes that it accepts              (E0204, E1002)
    5. operands agree in shape and dtype                                          (E1001, E1002)
    6. the stated type follows from op, operands and attributes                   (E1003, E10xx, E11xx)
    7. sizes are made of the signature's symbols, and maps of the value's axes    (E1304, E1205)
    8. every output has exactly one result, of its type                           (E1305)
    9. what must share a kernel is computed, and an output needs it               (E0202, E1421)
    10. every input is used                                                       (W2001)
    11. no RESHAPE only changes the order of symbols                              (W2102)
    """
    return [*check_model(module.model), *verify.check_tiny(module)]
