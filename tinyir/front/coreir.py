"""Core IR (seed 004): a verified, canonical list of instructions.

    %0 = Input() {name="x"} : f32[2, 3]
    %1 = ConstF32() {value=0.5} : f32[]
    %2 = BinOp(%0, %1) {op=Mul} : f32[2, 3]
    outputs: %2

What each instruction means is front.coreops; the canonical form is front.coreform. Beyond the seed: an output may have
a name, `outputs: y=%2`, else it is called v2; a size may be a symbol; any dtype of tiny text is read, f32 or fp32; an
axis of a Sum or Mean, and a bound of a Slice, may be negative and counts from the end; a Slice may step backwards.
"""

from __future__ import annotations

from typing import Any

from ..ir import tiny
from ..ir.attrs import show_attr
from ..ir.model import Model, Origin, Tensor, show_name
from ..ir.read import name_of, read_at, read_attrs
from ..ir.types import DType, TensorType
from ..ir.unknown import nearest, unknown_name
from ..kit.diag import Diag, Label, Refused, refuse_all
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.span import Spanned
from ..kit.text import Grammar, token_span
from .builder import Builder, Place, Ref
from .coreops import CORE, from_attrs
from .jsonsignature import default_shapes
from .shorttypes import read_short, short, show_short

GRAMMAR = Grammar("coreir")


@dataclass(frozen=True, slots=True)
class Instruction(Spanned):
    """One instruction (the seed's CoreOperation): `%id = opcode(operands) {attrs} : type`. An attribute is an Expr, a
    float, a string or a tuple of these, as `ir.read.read_attrs` gives it."""

    id: int
    opcode: str
    operands: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...]
    type: TensorType

    def attr(self, key: str) -> Any:
        """The attribute called `key`, or None."""
        return dict(self.attrs).get(key)


@dataclass(frozen=True, slots=True)
class Output(Spanned):
    """An output: the id of a value, and its name, empty when it has none."""

    id: int
    name: str = ""

    @property
    def called(self) -> str:
        """Its name in a model's signature."""
        return self.name or f"v{self.id}"


@dataclass(frozen=True, slots=True)
class CoreModule:
    """Instructions in their order, and outputs."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[Output, ...]


def parse(text: str) -> CoreModule:
    """The module that `text` spells. Raises Refused (E0002, E01xx)."""
    text = text if text.endswith("\n") else text + "\n"
    instructions, outputs = [], []
    for part in GRAMMAR.parse(text).children:
        if part is None or not hasattr(part, "data"):
            continue
        if part.data == "instruction":
            id, opcode, *operands, attrs, type = part.children
            items = read_at(read_attrs, attrs, text) if attrs is not None else ()
            ids = tuple(int(o[1:]) for o in operands if o is not None)
            instructions.append(
                Instruction(int(id[1:]), str(opcode), ids, items, read_short(type, text), span=token_span(id))
            )
        else:
            for result in part.children:
                if result is not None:
                    name, id = result.children
                    outputs.append(
                        Output(int(id[1:]), name_of(name.children[0]) if name is not None else "", span=token_span(id))
                    )
    return CoreModule(tuple(instructions), tuple(outputs))


def show(module: CoreModule) -> str:
    """The text of a module."""
    lines = []
    for i in module.instructions:
        operands = ", ".join(f"%{o}" for o in i.operands)
        attrs = ", ".join(f"{k}={_item(v, i.type.dtype)}" for k, v in i.attrs)
        lines.append(f"%{i.id} = {i.opcode}({operands}){' {' + attrs + '}' if attrs else ''} : {show_short(i.type)}\n")
    outputs = ", ".join(
        f"{show_name(o.name)}=%{o.id}" if o.name and o.name != f"v{o.id}" else f"%{o.id}" for o in module.outputs
    )
    return "".join(lines) + f"outputs: {outputs}".rstrip() + "\n"


def _item(item: Any, dtype: DType) -> str:
    if isinstance(item, tuple):
        return "[" + ", ".join(_item(i, dtype) for i in item) + "]"
    if isinstance(item, DType):
        return short(item)
    return show_attr("string" if isinstance(item, str) else "literal", item, dtype)


def check(module: CoreModule) -> list[Diag]:
    """The verifier's rules (seed 004, "Verification"):

    1. every operand is defined before its use, every id once           (E0201, E0202, E0203)
    2. every output is a value                                          (E0202, E1301)
    3. shapes and dtypes follow each instruction's rules, sizes are positive   (E0105, E01xx, E0204, E10xx, E11xx,
      E1304)
    4. a Conv2d is NHWC by [H, W, C, F], its channels agree              (E1012, E1304)
    """
    return _Reader(module).faults


def read(text: str, name: str = "main") -> tiny.Module:
    """The tiny module of a Core IR text. Raises Refused with every fault that the verifier finds."""
    reader = _Reader(parse(text))
    refuse_all(reader.faults)
    return reader.module(name)


class _Reader:
    """One module, verified by building it: an instruction that holds gives a value of its stated type."""

    def __init__(self, source: CoreModule):
        self.source = source
        self.builder = Builder()
        self.faults: list[Diag] = []
        self.refs: dict[int, Ref | None] = {}
        self.inputs: list[Tensor] = []
        first: dict[int, Instruction] = {}
        later = {i.id: i for i in reversed(source.instructions)}
        for i in source.instructions:
            if i.id in first:
                self.fault(
                    "E0201",
                    i,
                    (Label(first[i.id].span, Phrase("first defined here")),) if first[i.id].span else (),
                    name=f"%{i.id}",
                )
                continue
            first[i.id] = i
            self.refs[i.id] = self.value(i, later)
        self.check_outputs()

    def fault(self, code: str, i: Instruction, labels: tuple[Label, ...] = (), **facts: Any) -> None:
        self.faults.append(Diag(code, f"%{i.id}", facts, i.span, labels))

    def value(self, i: Instruction, later: dict[int, Instruction]) -> Ref | None:
        """The value of one instruction; None where a fault has been noted."""
        count = len(self.faults)
        row = CORE.get(i.opcode)
        if row is None:
            self.fault("E0105", i, op=i.opcode, near=", ".join(nearest(i.opcode, CORE)) or Phrase("nothing like it"))
        for operand in i.operands:
            if operand in self.refs:
                continue
            if operand in later:
                self.fault(
                    "E0203",
                    i,
                    (Label(later[operand].span, Phrase("defined here")),) if later[operand].span else (),
                    name=f"%{operand}",
                )
            else:
                self.fault("E0202", i, **unknown_name(f"%{operand}", [f"%{n}" for n in list(self.refs)[-3:]]))
        if row is not None and len(i.operands) != row.inputs[0]:
            self.fault("E0204", i, op=i.opcode, given=len(i.operands), wanted=row.inputs[0])
        operands = [self.refs.get(o) for o in i.operands]
        if len(self.faults) > count or None in operands:
            return None
        attrs, faults = from_attrs(row, i.attrs, f"%{i.id}")
        self.faults += [Diag(d.code, d.at, d.facts, i.span) for d in faults]
        if any(d.constant is not None and d.constant < 1 for d in i.type.shape) and i.opcode in (
            "Input",
            "ConstTensor",
            "Reshape",
        ):
            self.fault("E0111", i, tensor=f"%{i.id}", given=show_short(i.type))
        if len(self.faults) > count:
            return None
        if i.opcode == "Input":
            return self.input(i, attrs.name)
        self.builder.open(Origin(f"v{i.id}", i.opcode, *((i.span.line, i.span.column) if i.span else ())))
        try:
            given = row.lower(self.builder, *operands, attrs)
        except Refused as fault:
            self.builder.drop()
            labels = tuple(
                Label(o.place.span, Phrase("{tensor} is {type}", tensor=o.tensor, type=show_short(o.type)))
                for o in operands
                if o.place.span
            )
            self.faults += [Diag(d.code, f"%{i.id}", d.facts, i.span, d.labels or labels) for d in fault.diags]
            return None
        if given.type != i.type:
            self.builder.drop()
            self.fault("E1010", i, stated=show_short(i.type), wanted=show_short(given.type))
            return None
        return self.builder.close([given], [f"v{i.id}"], [None], [Place(i.span)])[0]

    def input(self, i: Instruction, name: str) -> Ref | None:
        if any(t.name == name for t in self.inputs):
            self.fault("E1301", i, name=name)
            return None
        self.inputs.append(Tensor(name, i.type, span=i.span))
        return self.builder.input(self.inputs[-1], Place(i.span))

    def check_outputs(self) -> None:
        seen: set[str] = set()
        for o in self.source.outputs:
            if o.id not in self.refs:
                facts = unknown_name(f"%{o.id}", [f"%{n}" for n in list(self.refs)[-3:]])
                self.faults.append(Diag("E0202", "outputs", facts, o.span))
            if o.called in seen:
                self.faults.append(Diag("E1301", "outputs", {"name": o.called}, o.span))
            seen.add(o.called)

    def module(self, name: str) -> tiny.Module:
        """The tiny module of what was built."""
        results = [(o.called, self.refs[o.id]) for o in self.source.outputs]
        outputs = tuple(Tensor(output, ref.type) for output, ref in results)
        symbols = dict.fromkeys(n for t in (*outputs, *self.inputs) for d in t.type.shape for n in d.names())
        return self.builder.finish(
            Model(name, tuple(self.inputs), outputs, (), default_shapes(symbols, self.builder.limits.ranges())), results
        )
