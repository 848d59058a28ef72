"""Front-end JSON (seed 001 section 2.2): signature, tensors, graph.

    {"signature": {"inputs": [{"tensor": "A", "role": "data", ...}], "outputs": [{"tensor": "C2"}]},
     "tensors":   {"A": {"dtype": "fp16", "shape": ["M", "K"]}, ...},
     "graph":     [{"op": "GEMM", "name": "gemm", "inputs": ["A", "B"], "outputs": ["C0"], "attrs": {"acc_dtype": "fp32"}}, ...]}

Optional at the top: `name`, `shape_sets` {set: {symbol: size}}, `symbols` {symbol: [least, greatest]}. When there are symbols and no
shape set, a set `default` gives each of them 1024, the outputs' symbols first.

A tensor that the signature lists needs dtype and shape. One that an op gives may have them: another dtype than the op's means a
CAST, another shape is refused (E1306). A tensor that no op gives and no input is may hold `value` (a number or nested lists) or name
a file (`file`, `key`, `offset`, `bytes`, `sha256`); the latter becomes an input with role param. An op's operand is a tensor's
name, or a number. Attributes stand in `attrs`, or beside it. The ops of a graph may stand in any order.
"""

from __future__ import annotations

import heapq
import re
from typing import Any

from ..ir import tiny
from ..ir.model import CHOICES, TENSOR_ATTRS, Model, Origin, Range, Shapes, Tensor
from ..ir.rules import literal_shape
from ..ir.types import DTYPES, TensorType
from ..ir.verify import nearest
from ..kit.diag import Diag, Label, Refused
from ..kit.span import Span
from .builder import Builder, Literal, Operand, Place, Ref
from .jsontext import Member, Node, Places, parse_json
from .ops import ELEMENTWISE, FRONT_OPS, FrontOp, check_attrs
from .ops.table import read_dim

DEFAULT_SIZE = 1024
_TOP = ("signature", "tensors", "graph", "shape_sets", "symbols", "name")
_TENSOR_KEYS = ("dtype", "shape", "value", *TENSOR_ATTRS)
_SIGNATURE_KEYS = ("tensor", *TENSOR_ATTRS)
_KIND_WORDS = {dict: "an object", list: "a list", str: "a string", int: "an integer"}
_OP_KEYS = ("op", "name", "inputs", "outputs", "attrs", "fn")


def read(text: str, name: str = "model") -> tiny.Module:
    """The module of a front-end JSON text; `name` is the model's name unless the text states one. Raises Refused with every fault
    found: E0011 to E0013 JSON, E01xx words and attributes, E10xx and E11xx types, E13xx signature."""
    return _Reader(text).module(parse_json(text), name)


class _Reader:
    """One text. Faults are collected; what stands after a fault is read as far as it makes sense."""

    def __init__(self, text: str):
        self.places = Places(text)
        self.faults: list[Diag] = []
        self.builder = Builder()
        self.declared: dict[str, TensorType] = {}
        self.places_of: dict[str, Place] = {}
        self.refs: dict[str, Ref | None] = {}  # None: something was wrong with it, and that has been said

    # --- reading JSON by kind

    def fault(self, code: str, place: Node | Member | Span | None, at: str = "", labels: tuple[Label, ...] = (), **facts: Any) -> None:
        span = place if isinstance(place, Span) or place is None else self.places.of(place)
        self.faults.append(Diag(code, at, facts, span, labels))

    def expect(self, node: Node | None, kind: type, what: str, parent: Node | None = None, key: str = "") -> Any:
        """The value of `node` when it is of `kind`; else its empty value, and a fault: E0110 another kind, E0104 missing from `parent`."""
        if node is None:
            if parent is not None:
                self.fault("E0104", self.places.span(parent.start, parent.start + 1), what, key=key, kind=_KIND_WORDS[kind])
        elif type(node.value) is kind:
            return node.value
        else:
            self.fault("E0110", node, what, key=key or what, expected=_KIND_WORDS[kind], given=node.kind)
        return kind()

    def only(self, node: Node, known: tuple[str, ...], what: str) -> None:
        """E0102 for every key that is not known."""
        for key, member in node.value.items():
            if key not in known:
                self.fault("E0102", member, what, key=key, known=", ".join(nearest(key, known) or known))

    # --- the parts

    def module(self, root: Node, name: str) -> tiny.Module:
        if not isinstance(root.value, dict):
            self.expect(root, dict, "the model")
            raise Refused(self.faults)
        self.only(root, _TOP, "the model")
        stated = root.get("name")
        name = (self.expect(stated, str, "name") if stated is not None else "") or name
        signature = root.get("signature") or Node({}, root.start, root.start + 1)
        sections = {k: self.expect(root.get(k), kind, k, root, k) for k, kind in (("signature", dict), ("tensors", dict), ("graph", list))}
        for tensor, member in sections["tensors"].items():
            self.declare(tensor, member)
        if isinstance(signature.value, dict):
            self.only(signature, ("inputs", "outputs"), "signature")
        listed = [self.listed(root, signature, side, sections["tensors"]) for side in ("inputs", "outputs")]
        tensors = [[t for t, _ in side if t is not None] for side in listed]
        for tensor, entry in listed[0]:
            if tensor is not None and tensor.name not in self.refs:
                self.refs[tensor.name] = self.builder.input(tensor, self.places_of[tensor.name])
        filed = self.constants(sections["tensors"])
        self.graph(sections["graph"])
        results = self.results(listed[1])
        symbols = self.symbols(tuple(t for side in (tensors[1], [*tensors[0], *filed]) for t in side))
        ranges, shape_sets = self.ranges(root.get("symbols")), self.shape_sets(root.get("shape_sets"), symbols)
        if not self.faults:
            self.check_names(symbols)
        if self.faults:
            raise Refused(self.faults)
        model = Model(name, (*tensors[0], *filed), tuple(tensors[1]), ranges, shape_sets)
        return self.builder.finish(model, results)

    def declare(self, name: str, member: Member) -> None:
        """One entry of `tensors`. A fault in it leaves the tensor known and undeclared."""
        entry = member.node
        self.refs.setdefault("", None)
        if not isinstance(entry.value, dict):
            self.expect(entry, dict, f"tensor {name}")
            return
        self.only(entry, _TENSOR_KEYS, f"tensor {name}")
        dtype_node, shape_node = entry.get("dtype"), entry.get("shape")
        count = len(self.faults)
        word = self.expect(dtype_node, str, f"tensor {name}", entry, "dtype")
        shape = self.expect(shape_node, list, f"tensor {name}", entry, "shape")
        if word and word not in DTYPES:
            near = nearest(word, DTYPES)
            self.fault("E0101", dtype_node, name, given=word, known=", ".join(near or DTYPES))
        dims = []
        for dim in shape:
            size = None
            if type(dim.value) in (int, str):
                try:
                    size = read_dim(dim.value)
                except ValueError:
                    pass
            if size is None or size.constant is not None and size.constant < 0:
                self.fault("E0111", dim, name, tensor=name, given=dim.plain)
            else:
                dims.append(size)
        self.places_of[name] = Place(self.places.of(shape_node or member), tuple(self.places.of(d) for d in shape))
        if len(self.faults) == count:
            self.declared[name] = TensorType(DTYPES[word], tuple(dims))

    def listed(self, root: Node, signature: Node, side: str, tensors: dict[str, Member]) -> list[tuple[Tensor | None, Node]]:
        """The tensors of one side of the signature, each with the node that names it; None for a faulty one."""
        found: list[tuple[Tensor | None, Node]] = []
        seen: dict[str, Node] = {}
        parent = signature if isinstance(signature.value, dict) and root.get("signature") is not None else None
        for entry in self.expect(signature.get(side), list, "signature", parent, side):
            if not isinstance(entry.value, dict):
                self.expect(entry, dict, f"signature.{side}")
                continue
            self.only(entry, _SIGNATURE_KEYS, f"signature.{side}")
            name_node = entry.get("tensor")
            name = self.expect(name_node, str, f"signature.{side}", entry, "tensor")
            if not name:
                continue
            if name in seen:
                label = Label(self.places.of(seen[name]), "first here")
                self.fault("E1301", name_node, name, (label,), name=name)
                continue
            seen[name] = name_node
            if name not in self.declared:
                if name not in tensors:
                    near = ", ".join(nearest(name, tensors)) or "nothing like it"
                    self.fault("E1307", name_node, name, tensor=name, side=side, near=near)
                if side == "inputs":
                    self.refs[name] = None
                found.append((None, name_node))
                continue
            attrs = {**self.attributes(tensors[name].node, name), **self.attributes(entry, name)}
            ordered = tuple((k, attrs[k]) for k in TENSOR_ATTRS if k in attrs and attrs[k] != CHOICES.get(k, (None,))[0])
            found.append((Tensor(name, self.declared[name], ordered), name_node))
        return found

    def attributes(self, entry: Node, name: str) -> dict[str, Any]:
        """The ABI attributes in one entry (E0103 of another kind, E1302 of other words)."""
        found = {}
        for key, (kind, _) in TENSOR_ATTRS.items():
            node = entry.get(key)
            if node is None or node.value is None:
                continue
            if type(node.value) is not (int if kind == "int" else str):
                self.fault("E0103", node, name, key=key, expected="an integer" if kind == "int" else "a string")
            elif key in CHOICES and node.value not in CHOICES[key]:
                self.fault("E1302", node, name, key=key, given=node.value, known=", ".join(CHOICES[key]))
            elif kind == "int" and node.value < 0:
                self.fault("E0107", node, name, key=key, range="0 or more", given=node.value)
            else:
                found[key] = node.value
        return found

    def constants(self, tensors: dict[str, Member]) -> list[Tensor]:
        """Tensors that hold their value become CONSTs where they are used; those in a file become inputs, which are returned."""
        filed = []
        for name, member in tensors.items():
            entry = member.node
            if name in self.refs or not isinstance(entry.value, dict) or name not in self.declared:
                continue
            value = entry.get("value")
            if entry.get("file") is not None:
                attrs: dict[str, Any] = {"role": "param", "storage": "const_pool", **self.attributes(entry, name)}
                tensor = Tensor(name, self.declared[name], tuple((k, attrs[k]) for k in TENSOR_ATTRS if k in attrs and attrs[k] != CHOICES.get(k, (None,))[0]))
                filed.append(tensor)
                self.refs[name] = self.builder.input(tensor, self.places_of[name])
            elif value is not None:
                self.refs[name] = self.constant(name, member, value)
        return filed

    def constant(self, name: str, member: Member, node: Node) -> Ref | None:
        wanted = self.declared[name]
        literal = _literal(node.plain)
        shape = literal_shape(literal) if literal is not None else ()
        sizes = tuple(d.constant for d in wanted.shape)
        if literal is None or isinstance(literal, tuple) and shape != sizes:
            self.fault("E1009", node, name, (Label(self.places_of[name].span, f"declared {wanted}"),), given=list(shape), result=wanted)
            return None
        place = self.places.of(member)
        self.builder.open(Origin(name, "Constant", place.line, place.column))
        try:
            made = self.builder.const(literal, wanted.dtype, wanted.shape)
        except Refused as fault:
            self.builder.drop()
            self.faults += [Diag(d.code, name, d.facts, self.places.of(node)) for d in fault.diags]
            return None
        return self.builder.close([made], [name], [None], self.places_of[name])[0]

    # --- the graph

    def graph(self, ops: list[Node]) -> None:
        """Every op in an order in which it comes after those that it needs, else in the order of the text."""
        ops = [op for op in ops if self.expect(op, dict, "an op of graph")]
        maker: dict[str, int] = {}
        for index, op in enumerate(ops):
            for output in self.expect(op.get("outputs"), list, "an op", op, "outputs"):
                name = self.expect(output, str, "outputs")
                if not name:
                    continue
                if name in maker or name in self.refs:
                    first = self.places.of(ops[maker[name]]) if name in maker else self.places_of[name].span if name in self.places_of else None
                    self.fault("E1309", output, name, (Label(first, "first here"),) if first else (), tensor=name)
                else:
                    maker[name] = index
        waits = [{maker[n.value] for n in _operands(op) if isinstance(n.value, str) and n.value in maker} for op in ops]
        users: dict[int, list[int]] = {}
        for index, needed in enumerate(waits):
            for other in needed:
                users.setdefault(other, []).append(index)
        ready = [i for i, needed in enumerate(waits) if not needed]
        done = 0
        while ready:
            index = heapq.heappop(ready)
            self.op(ops[index])
            done += 1
            for user in users.get(index, ()):
                waits[user].discard(index)
                if not waits[user]:
                    heapq.heappush(ready, user)
        if done < len(ops):
            stuck = [op for op, needed in zip(ops, waits) if needed]
            names = [_name_of(op) for op in stuck]
            self.fault("E1310", stuck[0], names[0], tuple(Label(self.places.of(o), "and this one") for o in stuck[1:4]), ops=", ".join(names[:8]))

    def op(self, node: Node) -> None:
        """One op: find its row, its operands and its attributes, and lower it."""
        name = _name_of(node)
        count = len(self.faults)
        outputs = [n.value for n in _list(node.get("outputs")) if isinstance(n.value, str)]
        row = self.row(node, name)
        operands = [self.operand(n, name) for n in self.expect(node.get("inputs"), list, "an op", node, "inputs")]
        attrs = self.attrs(node, row, name) if row is not None else None
        if row is not None:
            for what, given, (low, high) in (("inputs", len(operands), row.inputs), ("outputs", len(outputs), row.outputs)):
                if not low <= given <= high:
                    wanted = str(low) if low == high else f"{low} or more" if high > 1000 else f"{low} to {high}"
                    self.fault("E0204" if what == "inputs" else "E0205", node.get(what) or node, name, op=row.name, given=given, wanted=wanted)
        if len(self.faults) == count and None not in operands:
            self.lower(node, name, row, operands, attrs, outputs)
        for output in outputs:
            self.refs.setdefault(output, self.stand_in(output))

    def row(self, node: Node, name: str) -> FrontOp | None:
        op_node, fn_node = node.get("op"), node.get("fn") or (node.get("attrs") or node).get("fn")
        op = self.expect(op_node, str, "an op", node, "op")
        if op != "Elementwise":
            if op and op not in FRONT_OPS:
                hint = f"Elementwise with fn {op.lower()}" if op.lower() in ELEMENTWISE else ", ".join(nearest(op, FRONT_OPS)) or "nothing like it"
                self.fault("E0105", op_node, name, op=op, near=hint)
            return FRONT_OPS.get(op)
        fn = self.expect(fn_node, str, "Elementwise", node, "fn")
        if fn and fn not in ELEMENTWISE:
            self.fault("E0105", fn_node, name, op=f"fn {fn}", near=", ".join(nearest(fn, ELEMENTWISE)) or "nothing like it")
        return ELEMENTWISE.get(fn)

    def operand(self, node: Node, name: str) -> Operand | None:
        if type(node.value) in (int, float, bool):
            return Literal(node.value)
        tensor = self.expect(node, str, "inputs")
        if not tensor or tensor in self.refs:
            return self.refs.get(tensor) if tensor else None
        hint = "it is in `tensors`; list it in signature.inputs" if tensor in self.declared else ", ".join(nearest(tensor, self.refs)) or "nothing like it"
        self.fault("E1308", node, name, tensor=tensor, op=name, near=hint)
        self.refs[tensor] = None
        return None

    def attrs(self, node: Node, row: FrontOp, name: str) -> Any:
        stated = node.get("attrs")
        inside = self.expect(stated, dict, "attrs") if stated is not None and stated.value is not None else {}
        beside = {k: m for k, m in node.value.items() if k not in _OP_KEYS}
        for key, member in beside.items():
            if key in inside:
                self.fault("E0108", member, name, (Label(self.places.of(inside[key]), "and here"),), key=key)
        members = {k: m for k, m in {**beside, **inside}.items() if not (k == "fn" and row.name.startswith("Elementwise"))}
        checked, faults = check_attrs(row, {k: m.node.plain for k, m in members.items()}, name)
        for d in faults:
            member = members.get(d.facts["key"])
            place = node if member is None else member if d.code == "E0102" else member.node
            self.faults.append(Diag(d.code, d.at, d.facts, self.places.of(place)))
        return checked

    def lower(self, node: Node, name: str, row: FrontOp, operands: list[Any], attrs: Any, outputs: list[str]) -> None:
        place = self.places.of(node)
        self.builder.open(Origin(name, node.get("op").value, place.line, place.column))
        try:
            given = row.lower(self.builder, tuple(operands), attrs)
            given = given if isinstance(given, tuple) else (given,)
            wanted = [self.declared[o].dtype if o in self.declared else None for o in outputs]
            refs = self.builder.close(given[: len(outputs)], outputs, wanted, Place(place))
        except Refused as fault:
            self.builder.drop()
            labels = tuple(Label(o.place.span, f"{o.tensor} is {o.type}") for o in operands if isinstance(o, Ref) and o.place.span)
            span = self.places.of(node.get("inputs") or node)
            for d in fault.diags:
                self.faults.append(Diag(d.code, name, d.facts, d.span or span, d.labels or (() if d.span else labels), d.edit))
            return
        for output, ref in zip(outputs, refs):
            declared = self.declared.get(output)
            if declared is not None and declared.shape != ref.shape:
                label = Label(place, f"{name} gives {ref.type}")
                self.fault("E1306", self.differing(output, declared, ref), name, (label,), tensor=output, declared=declared, inferred=ref.type, op=name)
                ref = self.stand_in(output)
            self.refs[output] = ref

    def differing(self, tensor: str, declared: TensorType, ref: Ref) -> Span | None:
        """The span of the one dim that differs, or of the whole shape."""
        place = self.places_of[tensor]
        axes = [i for i, (a, b) in enumerate(zip(declared.shape, ref.shape)) if a != b]
        return place.dim(axes[0]) if declared.rank == ref.rank and len(axes) == 1 else place.span

    def stand_in(self, tensor: str) -> Ref | None:
        """What to read on with after a fault: a value of the declared type, or nothing."""
        declared = self.declared.get(tensor)
        return Ref("", tensor, declared, tensor=tensor, place=self.places_of[tensor]) if declared is not None else None

    # --- the rest of the signature

    def results(self, outputs: list[tuple[Tensor | None, Node]]) -> list[tuple[str, Ref]]:
        found = []
        for tensor, node in outputs:
            if tensor is None:
                continue
            if tensor.name not in self.refs:
                near = ", ".join(nearest(tensor.name, [n for n in self.refs if n])) or "nothing like it"
                self.fault("E1312", node, tensor.name, tensor=tensor.name, near=near)
            elif self.refs[tensor.name] is not None:
                found.append((tensor.name, self.refs[tensor.name]))
        return found

    def symbols(self, tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for t in tensors for d in t.type.shape for n in d.names()))

    def check_names(self, symbols: tuple[str, ...]) -> None:
        """E1311 for a symbol that the later texts cannot spell: one with a prime, an axis name such as i0, a word of isl."""
        for symbol in symbols:
            if not re.fullmatch(r"(?!(?:[ik]\d+|and|or|not|mod|floor|ceil|exists|min|max|true|false|inf|nan|infty)$)[A-Za-z_]\w*", symbol):
                places = [p.dim(i) for t, p in self.places_of.items() if t in self.declared
                          for i, d in enumerate(self.declared[t].shape) if symbol in d.names()]
                self.fault("E1311", places[0] if places else None, symbol, symbol=symbol)

    def ranges(self, node: Node | None) -> tuple[Range, ...]:
        found = []
        for symbol, member in (self.expect(node, dict, "symbols") if node is not None else {}).items():
            limits = member.node.plain
            if isinstance(limits, list) and len(limits) == 2 and all(type(n) is int for n in limits) and 0 <= limits[0] <= limits[1]:
                found.append(Range(symbol, *limits))
            else:
                self.fault("E0103", member.node, symbol, key=symbol, expected="[least, greatest]")
        return tuple(found)

    def shape_sets(self, node: Node | None, symbols: tuple[str, ...]) -> tuple[Shapes, ...]:
        if node is None:
            return (Shapes("default", tuple((s, DEFAULT_SIZE) for s in symbols)),) if symbols else ()
        found = []
        for name, member in self.expect(node, dict, "shape_sets").items():
            sizes = self.expect(member.node, dict, f"shape set {name}")
            faulty = [m for m in sizes.values() if type(m.node.value) is not int]
            for size in faulty:
                self.fault("E0110", size.node, name, key=f"shape set {name}", expected="an integer", given=size.node.kind)
            if sizes and not faulty:
                given = {k: m.node.value for k, m in sizes.items()}
                missing = [s for s in symbols if s not in given]
                for symbol in missing:
                    self.fault("E1303", member, name, set=name, symbol=symbol, fault="has no size")
                for symbol in [s for s in given if s not in symbols]:
                    self.fault("E1303", sizes[symbol], name, set=name, symbol=symbol, fault="is not a symbol of the signature")
                found.append(Shapes(name, tuple(given.items())))
        return tuple(found)


def _list(node: Node | None) -> list[Node]:
    return node.value if node is not None and isinstance(node.value, list) else []


def _operands(op: Node) -> list[Node]:
    return _list(op.get("inputs"))


def _name_of(op: Node) -> str:
    """The op's name, else that of the tensor that it gives, else its kind."""
    outputs = [n.value for n in _list(op.get("outputs"))]
    for node in (op.get("name"), *_list(op.get("outputs"))[:1], op.get("op")):
        if node is not None and isinstance(node.value, str) and node.value:
            return node.value
    return outputs[0] if outputs and isinstance(outputs[0], str) else "op"


def _literal(item: Any) -> Any:
    """Nested lists of numbers as tuples, or None; "inf", "-inf" and "nan" are numbers too."""
    if isinstance(item, list):
        inner = [_literal(i) for i in item]
        return None if None in inner else tuple(inner)
    if isinstance(item, str):
        return float(item) if item in ("inf", "-inf", "nan") else None
    return item if isinstance(item, (bool, int, float)) else None


__all__ = ["read"]
