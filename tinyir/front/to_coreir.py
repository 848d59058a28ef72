"""Tiny text as Core IR, where it can be said (`tiny-front --to-coreir`).

An instruction is recognised by lowering it: for each value, instructions that may give it are built from values below
it, with attributes read off the ops there, and the first whose lowering is the very same ops is taken. So a MatMul is
told by what a MatMul becomes, and what is printed reads back as the same values. What no instruction gives, and an
output needs, is named, all of it at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..ir import tiny
from ..ir.expr import ONE, ZERO, Expr
from ..ir.model import Model, Origin, Tensor
from ..ir.ops import OPS
from ..ir.rules import broadcast_dims
from ..ir.types import TensorType
from ..kit.diag import Diag, Refused
from ..kit.phrase import Phrase
from ..kit.records import dataclass, replace
from .builder import Builder, Place
from .coreform import canonical, constant
from .coreir import CoreModule, Instruction, Output, show
from .coreops import CORE, from_attrs

MOST_DEPTH = 8  # ops between an instruction's value and its operands
_UNARY = {
    "NEG": ("Neg", ""),
    "RELU": ("Relu", ""),
    "EXP2": ("Exp", "MUL"),
    "MUL": ("Log", "LOG2"),
}  # each with the op below it
_FOLDED = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul"}
Items = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Cover:
    """An instruction for a value: its opcode, the names of its operands, its attributes."""

    opcode: str
    operands: tuple[str, ...]
    attrs: Items = ()


def coreir_of(module: tiny.Module) -> str:
    """The Core IR text of a checked module, in canonical form. Raises Refused (E1024) with every value that cannot be
    said."""
    return show(canonical(_Writer(module).module()))


class _Writer:
    """One module, with EXPANDs and splats in the form in which instructions give them."""

    def __init__(self, source: tiny.Module):
        self.source = _plain(source)
        self.values = self.source.value_of()
        self.types = self.source.type_of()

    def module(self) -> CoreModule:
        covers: dict[str, Cover | None] = {}
        needed = {r.value for r in self.source.results}
        faults = [
            Diag("E1024", t.name, {"op": Phrase("an input of {type}", type=t.type)}, t.span)
            for t in self.source.model.inputs
            if _is_empty(t.type)
        ][::-1]
        faults += [
            Diag("E1024", one.values[0], {"op": "must_fuse"}, one.span) for one in reversed(self.source.must_fuse)
        ]
        for value in reversed(self.source.values):
            if value.name not in needed:
                continue
            cover = covers[value.name] = self.cover(value)
            if cover is None:
                faults.append(Diag("E1024", value.name, {"op": _said(value)}, value.span))
            needed.update(cover.operands if cover is not None else self.spread(value))
        if faults:
            raise Refused(faults[::-1])
        ids: dict[str, int] = {}
        instructions = []
        for t in self.source.model.inputs:
            ids[t.name] = len(ids)
            instructions.append(Instruction(ids[t.name], "Input", (), (("name", t.name),), t.type))
        for value in self.source.values:
            cover = covers.get(value.name)
            if cover is not None:
                ids[value.name] = len(ids)
                instruction = Instruction(
                    ids[value.name], cover.opcode, tuple(ids[o] for o in cover.operands), cover.attrs, value.type
                )
                instructions.append(
                    constant(instruction, value.attr("value")) if cover.opcode.startswith("Const") else instruction
                )
        # an output of an input's name is its new value: the language has no other word for a state
        state_of = {output: state for state, output in self.source.model.states().items()}
        outputs = (Output(ids[r.value], state_of.get(r.output, r.output)) for r in self.source.results)
        return CoreModule(tuple(instructions), tuple(outputs))

    def spread(self, value: tiny.Value) -> list[str]:
        """What a value that cannot be said reads; of an EXPAND, which is not a fault by itself, what that reads."""
        return [
            self.values[o].operands[0] if o in self.values and self.values[o].op == "EXPAND" else o
            for o in value.operands
        ]

    def cover(self, value: tiny.Value) -> Cover | None:
        """The instruction that gives the value; None where there is none."""
        if value.op == "CONST":
            literal = value.attr("value")
            is_said = (
                not isinstance(literal, Expr)
                and not _is_empty(value.type)
                and (isinstance(literal, tuple) or not value.type.shape)
            )
            return Cover("ConstTensor", ()) if is_said else None
        return next((cover for cover in self.candidates(value) if self.is_same(cover, value)), None)

    # --- instructions that may give a value

    def candidates(self, value: tiny.Value) -> Iterator[Cover]:
        yield from self.products(value)
        yield from self.slices(value)
        yield from self.reductions(value)
        yield from self.functions(value)
        yield from self.plain(value)

    def plain(self, value: tiny.Value) -> Iterator[Cover]:
        """Instructions of one op, and BinOps, whose broadcast is implicit."""
        shape = value.type.shape
        if value.op == "RESHAPE" and all(d.constant != 0 for d in shape):
            yield Cover("Reshape", value.operands, (("new_shape", shape),))
        elif value.op == "PERMUTE":
            yield Cover("Transpose", value.operands, (("permutation", _ints(value.attr("perm"))),))
        elif value.op == "GATHER":
            yield Cover("Gather", value.operands)
        elif value.op in _FOLDED:
            sides = [
                [o, *self.values[o].operands] if o in self.values and self.values[o].op == "EXPAND" else [o]
                for o in value.operands
            ]
            for left in reversed(sides[0]):
                for right in reversed(sides[1]):
                    yield Cover("BinOp", (left, right), (("op", Expr.of(_FOLDED[value.op])),))

    def slices(self, value: tiny.Value) -> Iterator[Cover]:
        """One Slice for as long a run of SHRINKs and FLIPs as there is, an Index for one that leaves a single
        element."""
        is_index = value.op == "RESHAPE" and not value.type.shape
        top = self.values.get(value.operands[0]) if is_index else value
        run: list[tiny.Value] = []
        while top is not None and top.op in ("SHRINK", "FLIP"):
            run.append(top)
            top = self.values.get(top.operands[0])
        for length in range(len(run), 0, -1):
            source = run[length - 1].operands[0]
            shape = self.types[source].shape
            read = [
                (ZERO, size, 1) for size in shape
            ]  # of each axis: the first element, the one past the last, the step
            for step in reversed(run[:length]):
                for axis in range(len(shape)):
                    read[axis] = _stepped(read[axis], step, axis)
            starts, ends, steps = ([r[i] for r in read] for i in range(3))
            if is_index:
                yield Cover("Index", (source,), (("indices", tuple(starts)),))
            else:
                ends = [-size - 1 if s < 0 and end.constant == -1 else end for end, s, size in zip(ends, steps, shape)]
                yield Cover(
                    "Slice", (source,), (("starts", tuple(starts)), ("ends", tuple(ends)), ("steps", _ints(steps)))
                )

    def functions(self, value: tiny.Value) -> Iterator[Cover]:
        inner = value
        while inner.op == "CAST" and inner.operands[0] in self.values:
            inner = self.values[inner.operands[0]]
        opcode, lower = _UNARY.get(inner.op, ("", ""))
        if opcode and (not lower or any(o in self.values and self.values[o].op == lower for o in inner.operands)):
            for name in itertools.islice(self.below(value), 12):
                if self.types[name] == value.type:
                    yield Cover(opcode, (name,))

    def reductions(self, value: tiny.Value) -> Iterator[Cover]:
        total = self.first(value, "REDUCE")
        if total is None or total.attr("op") != "SUM" or not total.attr("axes"):
            return
        for name in self.below(value):
            if self.types[name].dtype == value.type.dtype and self.types[name].rank > value.type.rank - len(
                total.attr("axes")
            ):
                for opcode in ("Sum", "Mean"):
                    for keeps in ("false", "true"):
                        yield Cover(
                            opcode, (name,), (("axes", _ints(total.attr("axes"))), ("keepdims", Expr.of(keeps)))
                        )

    def products(self, value: tiny.Value) -> Iterator[Cover]:
        total = self.first(value, "REDUCE")
        product = self.values.get(total.operands[0]) if total is not None else None
        if product is None or product.op != "MUL" or total.attr("op") != "SUM":
            return
        left, right = (self.chain(o) for o in product.operands)
        for x in left:
            for y in right:
                if self.types[x].dtype == self.types[y].dtype == value.type.dtype:
                    yield from self.product(x, y, total)

    def product(self, x: str, y: str, total: tiny.Value) -> Iterator[Cover]:
        ranks = self.types[x].rank, self.types[y].rank
        if min(ranks) >= 2:
            yield Cover("MatMul", (x, y))
        if max(ranks) <= 2 and min(ranks) >= 1:
            yield Cover("Dot", (x, y))
        if ranks != (4, 4):
            return
        view = self.first(total, "VIEW")
        padded = self.first(total, "PAD")
        if view is None or view.type.rank != 6:
            return
        strides = tuple(
            next((Expr.of(c) for c, m in view.attr("index_map")[1 + a].terms if m == (f"i{1 + a}",)), ONE)
            for a in range(2)
        )
        pads = padded.attr("pad")[1:3] if padded is not None and padded.type.rank == 4 else ()
        yield Cover("Conv2d", (x, y), (("strides", strides), ("padding", pads if pads else Expr.of("Valid"))))

    # --- what is below a value

    def below(self, value: tiny.Value) -> Iterator[str]:
        """Names of values and inputs below it, nearest first."""
        level = list(value.operands)
        seen: set[str] = set()
        for _ in range(MOST_DEPTH):
            yield from (name for name in level if name not in seen)
            seen.update(level)
            level = list(
                dict.fromkeys(
                    o for name in level if name in self.values for o in self.values[name].operands if o not in seen
                )
            )[:16]

    def first(self, value: tiny.Value, op: str) -> tiny.Value | None:
        """The nearest op of that name at or below a value."""
        if value.op == op:
            return value
        return next(
            (self.values[name] for name in self.below(value) if name in self.values and self.values[name].op == op),
            None,
        )

    def chain(self, name: str) -> list[str]:
        """A value and those that it is a movement of, the farthest first."""
        found = [name]
        while name in self.values and OPS[self.values[name].op].is_movement and len(found) < MOST_DEPTH:
            name = self.values[name].operands[0]
            found.append(name)
        return found[::-1]

    # --- whether an instruction gives a value

    def is_same(self, cover: Cover, value: tiny.Value) -> bool:
        """Whether the instruction becomes the very ops that give the value."""
        b = Builder()
        names = list(dict.fromkeys(cover.operands))
        refs = {name: b.input(Tensor(name, self.types[name])) for name in names}
        row = CORE[cover.opcode]
        attrs, faults = from_attrs(row, cover.attrs, "")
        if faults:
            return False
        b.open(Origin("v", cover.opcode))
        try:
            given = row.lower(b, *(refs[o] for o in cover.operands), attrs)
        except Refused:
            return False
        if given.type != value.type:
            return False
        (made,) = b.close([given], ["v"], [None], [Place()])
        inputs = tuple(Tensor(name, self.types[name]) for name in names)
        built = _plain(b.finish(Model("m", inputs, (Tensor("y", made.type),)), [("y", made)]))
        return self.is_alike(built.results[0].value, value.name, built.value_of())

    def is_alike(self, made: str, name: str, built: dict[str, tiny.Value]) -> bool:
        if made not in built:
            return made == name
        ours, theirs = built[made], self.values.get(name)
        if theirs is None or tiny.likeness(ours) != tiny.likeness(theirs):
            return False
        return all(self.is_alike(a, b, built) for a, b in zip(ours.operands, theirs.operands))


def _plain(module: tiny.Module) -> tiny.Module:
    """Every EXPAND aligned at the right, by a RESHAPE before it, and every splat the EXPAND of a scalar."""
    types = module.type_of()
    taken = set(types)
    values = []

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    for value in module.values:
        if value.op == "CONST" and value.type.shape and not isinstance(value.attr("value"), (tuple, Expr)):
            name = fresh(f"{value.name}.scalar")
            values.append(replace(value, name=name, type=TensorType(value.type.dtype, ())))
            values.append(replace(value, op="EXPAND", operands=(name,), attrs=()))
            continue
        if value.op == "EXPAND" and value.attr("broadcast_dimensions") is not None:
            source = types[value.operands[0]]
            dims = broadcast_dims(source, value.type, dict(value.attrs))
            shape = [ONE] * value.type.rank
            for d, size in zip(dims, source.shape):
                shape[d] = size
            name = fresh(f"{value.name}.r")
            values.append(
                replace(value, op="RESHAPE", name=name, attrs=(), type=TensorType(source.dtype, tuple(shape)))
            )
            value = replace(value, operands=(name,), attrs=())
        if value.op in ("SHRINK", "FLIP"):
            *steps, value = _one_axis_each(value, types[value.operands[0]], fresh)
            values += steps
        values.append(value)
    return replace(module, values=tuple(values))


def _one_axis_each(value: tiny.Value, source: TensorType, fresh: Callable[[str], str]) -> list[tiny.Value]:
    """A SHRINK or FLIP axis by axis, as a Slice is lowered; the last has the value's name."""
    found: list[tiny.Value] = []
    read, shape = value.operands[0], list(source.shape)
    if value.op == "FLIP":
        parts: list[tuple[int, Items]] = [
            (a, (("axes", (a,)),)) for a in sorted(a % source.rank for a in value.attr("axes"))
        ]
    else:
        steps = value.attr("step") or (1,) * source.rank
        moved = [
            a for a in range(source.rank) if (value.attr("lo")[a], value.attr("hi")[a], steps[a]) != (ZERO, shape[a], 1)
        ]
        parts = []
        for a in moved:
            low, high = [ZERO] * source.rank, [*value.type.shape[:a], *source.shape[a:]]
            low[a], high[a] = value.attr("lo")[a], value.attr("hi")[a]
            step = (("step", tuple(steps[a] if b == a else 1 for b in range(source.rank))),) if steps[a] != 1 else ()
            parts.append((a, (("lo", tuple(low)), ("hi", tuple(high)), *step)))
    if not parts:
        return [value]
    for n, (axis, attrs) in enumerate(parts):
        shape[axis] = value.type.shape[axis]
        name = value.name if n == len(parts) - 1 else fresh(f"{value.name}.{axis}")
        found.append(
            replace(value, name=name, operands=(read,), attrs=attrs, type=TensorType(source.dtype, tuple(shape)))
        )
        read = name
    return found


def _stepped(read: tuple[Expr, Expr, int], value: tiny.Value, axis: int) -> tuple[Expr, Expr, int]:
    """What a further SHRINK or FLIP reads along an axis, of what has been read so far; only steps of 1 and -1 go before
    others."""
    start, end, step = read
    if value.op == "FLIP":
        return (end - 1, start - 1, -1) if axis in value.attr("axes") and step == 1 else read
    low, high, more = value.attr("lo")[axis], value.attr("hi")[axis], (value.attr("step") or (1,) * (axis + 1))[axis]
    if abs(step) != 1:
        return read
    return start + low * step, start + high * step, step * more


def _is_empty(type: TensorType) -> bool:
    return any(d.constant == 0 for d in type.shape)


def _ints(numbers: Any) -> tuple[Expr, ...]:
    return tuple(Expr.of(n) for n in numbers)


def _said(value: tiny.Value) -> str:
    return (
        Phrase("{op} to {dtype}", op=value.op, dtype=value.type.dtype)
        if value.op in ("CAST", "REDUCE", "MUL")
        else value.op
    )
