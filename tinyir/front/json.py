"""Front-end JSON (seed 001 section 2.2): signature, tensors, graph.

    {"signature": {"inputs": [{"tensor": "A", "role": "data", ...}], "outputs": [{"tensor": "C2"}]},
     "tensors":   {"A": {"dtype": "fp16", "shape": ["M", "K"]}, ...},
     "graph":     [{"op": "GEMM", "name": "gemm", "inputs": ["A", "B"], "outputs": ["C0"], "attrs": {"acc_dtype":
                  "fp32"}}, ...]}

Optional at the top: `name`, `shape_sets` {set: {symbol: size}}, `symbols` {symbol: [least, greatest]}, `fuse` [[name,
...], ...]. When there are symbols and no shape set, a set `default` gives each of them 1024, the outputs' symbols
first. Each list of `fuse` names tensors, or ops by the tensors that they give, which one kernel must compute.

A tensor that the signature lists needs dtype and shape. One that an op gives may have them: another dtype than the op's
means a CAST, another shape is refused (E1306). A tensor that no op gives and no input is may hold `value` (a number,
nested lists, or a size such as "2*N") or name a file (`file`, `key`, `offset`, `bytes`, `sha256`); the latter becomes
an input with role param. An op's operand is a tensor's name, or a number. Attributes come in `attrs`, or beside it.
The ops of a graph may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import tiny
from ..ir.model import Model, Origin, Tensor
from ..ir.types import TensorType
from ..ir.unknown import nearest, unknown_name
from ..ir.verify import values_of_op
from ..kit.diag import Diag, Label, Refused, refuse_all, used_at
from ..kit.phrase import Phrase
from ..kit.records import replace
from ..kit.span import Span
from .builder import Literal, Operand, Place, Ref
from .jsonsignature import SignatureReader, near
from .jsontext import Node, items_of, parse_json
from .ops import ELEMENTWISE, FRONT_OPS, FrontOp, check_attrs
from .order import in_order

TOP = ("signature", "tensors", "graph", "shape_sets", "symbols", "name", "fuse")
# What other languages call ops, where the spelling does not tell.
_POOLS = {"max": "max", "average": "average", "avg": "average"}
OTHERWISE: dict[str, str] = {
    "swish": "silu",
    "logistic": "sigmoid",
    "linear": "MatMul, GEMM",
    "dense": "MatMul, GEMM",
    "fullyconnected": "MatMul, GEMM",
    "dot": "MatMul, GEMM",
    "mm": "MatMul, GEMM",
    "bmm": "MatMul",
    **{f"conv{rank}d": "Conv" for rank in (1, 2, 3)},
    **{f"{name}pool": Phrase("Pool with mode {mode}", mode=mode) for name, mode in _POOLS.items()},
    **{f"global{name}pool": Phrase("Pool with mode {mode} and no kernel", mode=mode) for name, mode in _POOLS.items()},
    **{name: Phrase("Reduce with op {op}", op=name) for name in ("sum", "prod")},
    **{f"reduce{name}": Phrase("Reduce with op {op}", op=name) for name in ("sum", "max", "min", "mean", "prod")},
    **{f"{name}imum": Phrase("Elementwise with fn {op}", op=name) for name in ("max", "min")},
    "upsample": "Resize",
}
ABOUT = {"E1006": ("axis", "axes"), "E1018": ("groups",)}  # faults of an attribute, which do not name it
OP_KEYS = ("op", "name", "inputs", "outputs", "attrs", "fn")


def read(text: str, name: str = "main", notes: list[Diag] | None = None) -> tiny.Module:
    """The module of a front-end JSON text; `name` is the model's name unless the text states one; `notes` gets the
    warnings (W2107, W2108) on it. Raises Refused with every fault found: E0011 to E0013 JSON, E01xx words and
    attributes, E10xx and E11xx types, E13xx signature."""
    reader = _Reader(text)
    module = reader.module(parse_json(text), name)
    if notes is not None:
        notes += reader.builder.notes
    return module


class _Reader(SignatureReader):
    """The signature, then the graph op by op."""

    def __init__(self, text: str):
        super().__init__(text)
        self.given_by: dict[str, list[str]] = {}  # the tensors that each op gives, by the op's name
        self.read_names: set[str] = set()  # the tensors that some op reads
        self.named: dict[str, Node] = {}  # the first op of each name

    def module(self, root: Node, name: str) -> tiny.Module:
        if not isinstance(root.value, dict):
            self.expect(root, dict, Phrase("the model"))
            raise Refused(self.faults)
        self.only(root, TOP, Phrase("the model"))
        stated = root.get("name")
        name = (self.expect(stated, str, "name") if stated is not None else "") or name
        signature = root.get("signature") or self.meant(root, "signature") or Node({}, root.start, root.start + 1)
        sections = {
            k: self.expect(root.get(k) or self.meant(root, k), kind, k, root, k)
            for k, kind in (("signature", dict), ("tensors", dict), ("graph", list))
        }
        for tensor, member in sections["tensors"].items():
            self.declare(tensor, member)
        if isinstance(signature.value, dict):
            self.only(signature, ("inputs", "outputs"), "signature")
        self.builder.limits.state(self.ranges(root.get("symbols")))
        listed = [self.listed(root, signature, side, sections["tensors"]) for side in ("inputs", "outputs")]
        tensors = [[t for t, _ in side if t is not None] for side in listed]
        for tensor, _entry in listed[0]:
            if tensor is not None and tensor.name not in self.refs:
                self.refs[tensor.name] = self.builder.input(tensor, self.places_of[tensor.name])
        filed = self.constants(sections["tensors"])
        self.graph(sections["graph"])
        results = self.results(listed[1])
        must_fuse = self.must_fuse(root.get("fuse"))
        symbols = self.symbols(tuple(t for side in (tensors[1], [*tensors[0], *filed]) for t in side))
        ranges = self.builder.limits.ranges()
        shape_sets = self.shape_sets(root.get("shape_sets"), symbols, ranges)
        if not self.faults:
            self.check_names(symbols)
        refuse_all(self.faults)
        model = Model(name, (*tensors[0], *filed), tuple(tensors[1]), ranges, shape_sets)
        module = self.builder.finish(model, results)
        module = replace(module, must_fuse=tuple(self.demand(module, *group) for group in must_fuse))
        if not_needed := list(self.not_needed(module)):
            raise Refused(not_needed)
        return module

    @staticmethod
    def meant(node: Node, key: str, known: tuple[str, ...] = TOP) -> Node | None:
        """What is under a misspelt key that means this one: that it is misspelt is said elsewhere."""
        unknown = [other for other in node.value if other not in known]
        return next((node.get(other) for other in unknown if key in nearest(other, known)[:1]), None)

    # --- the graph

    def graph(self, ops: list[Node]) -> None:
        """Every op in an order in which it comes after those that it needs, else in the order of the text."""
        ops = [op for op in ops if self.expect(op, dict, Phrase("an op of graph"))]
        maker: dict[str, int] = {}
        for index, op in enumerate(ops):
            for output in self.expect(op.get("outputs"), list, Phrase("an op"), op, "outputs"):
                name = self.expect(output, str, "outputs")
                if not name:
                    continue
                if name in maker or name in self.refs:
                    first = (
                        self.places.of(ops[maker[name]])
                        if name in maker
                        else self.places_of[name].span
                        if name in self.places_of
                        else None
                    )
                    self.fault(
                        "E1309", output, name, (Label(first, Phrase("first here")),) if first else (), tensor=name
                    )
                else:
                    maker[name] = index
        waits = [{maker[n.value] for n in _operands(op) if isinstance(n.value, str) and n.value in maker} for op in ops]
        ordered, circle = in_order(waits)
        for index in ordered:
            self.op(ops[index])
        for index in set(range(len(ops))).difference(ordered):
            self.refs.update((n.value, None) for n in items_of(ops[index].get("outputs")) if isinstance(n.value, str))
        if circle:
            first, *others = (ops[i] for i in circle)
            labels = tuple(Label(self.places.of(o), Phrase("and this one")) for o in others[:3])
            self.fault("E1310", first, _name_of(first), labels, ops=", ".join(map(_name_of, (first, *others[:7]))))

    def op(self, node: Node) -> None:
        """One op: find its row, its operands and its attributes, and lower it."""
        name = _name_of(node)
        count = len(self.faults)
        outputs = [n.value for n in items_of(node.get("outputs")) if isinstance(n.value, str)]
        first = self.named.setdefault(name, node)
        if first is not node and "name" in node.value:
            labels = (Label(self.places.of(first), Phrase("first here")),)
            span = self.places.of(node.get("name") or node)
            self.builder.notes.append(Diag("W2108", name, {"name": name}, span, labels))
        self.given_by.setdefault(name, []).extend(outputs)
        row = self.row(node, name)
        inputs = node.get("inputs") or (self.meant(node, "inputs", OP_KEYS) if row is not None else None)
        operands = [self.operand(n, name) for n in self.expect(inputs, list, name, node, "inputs")]
        attrs = self.attrs(node, row, name) if row is not None else None
        if row is not None:
            for what, given, (low, high) in (
                ("inputs", len(operands), row.inputs),
                ("outputs", len(outputs), row.outputs),
            ):
                stated = node.get(what)
                if stated is not None and isinstance(stated.value, list) and not low <= given <= high:
                    wanted = (
                        str(low)
                        if low == high
                        else Phrase("{low} or more", low=low)
                        if high > 1000
                        else Phrase("{low} to {high}", low=low, high=high)
                    )
                    self.fault(
                        "E0204" if what == "inputs" else "E0205",
                        stated,
                        name,
                        op=row.name,
                        given=given,
                        wanted=wanted,
                    )
        if len(self.faults) == count and None not in operands:
            self.lower(node, name, row, operands, attrs, outputs)
        for output in outputs:
            self.refs.setdefault(output, self.stand_in(output))

    def row(self, node: Node, name: str) -> FrontOp | None:
        op_node, fn_node = node.get("op"), node.get("fn") or (node.get("attrs") or node).get("fn")
        op = self.expect(op_node, str, name, node, "op")
        if op != "Elementwise":
            if op and op not in FRONT_OPS:
                hint = (
                    Phrase("Elementwise with fn {op}", op=op.lower())
                    if op.lower() in ELEMENTWISE
                    else OTHERWISE.get(op.lower()) or ", ".join(nearest(op, FRONT_OPS)) or Phrase("nothing like it")
                )
                self.fault("E0105", op_node, name, op=op, near=hint)
            return FRONT_OPS.get(op)
        fn = self.expect(fn_node, str, name, node, "fn")
        if fn and fn not in ELEMENTWISE:
            self.fault(
                "E0105",
                fn_node,
                name,
                op=f"fn {fn}",
                near=OTHERWISE.get(fn.lower()) or ", ".join(nearest(fn, ELEMENTWISE)) or Phrase("nothing like it"),
            )
        return ELEMENTWISE.get(fn)

    def operand(self, node: Node, name: str) -> Operand | None:
        if type(node.value) in (int, float, bool):
            return Literal(node.value)
        tensor = self.expect(node, str, "inputs")
        self.read_names.add(tensor)
        if not tensor or tensor in self.refs:
            return self.refs.get(tensor) if tensor else None
        self.fault("E1308", node, name, tensor=tensor, op=name, near=near(tensor, self.refs))
        self.refs[tensor] = None
        return None

    def attrs(self, node: Node, row: FrontOp, name: str) -> Any:
        stated = node.get("attrs")
        inside = self.expect(stated, dict, "attrs") if stated is not None and stated.value is not None else {}
        beside = {k: m for k, m in node.value.items() if k not in OP_KEYS}
        for key, member in beside.items():
            if key in inside:
                self.fault("E0108", member, name, (Label(self.places.of(inside[key]), Phrase("and here")),), key=key)
        members = {
            k: m for k, m in {**beside, **inside}.items() if not (k == "fn" and row.name.startswith("Elementwise"))
        }
        checked, faults = check_attrs(row, {k: m.node.plain for k, m in members.items()}, name)
        for d in faults:
            member = members.get(d.facts["key"])
            if d.code == "E0102" and d.facts["key"] in beside:  # it may be a misspelt `inputs`
                from difflib import get_close_matches

                meant = get_close_matches(d.facts["key"], [*OP_KEYS, *(a.name for a in row.attrs)], 1, 0.7)
                d = Diag(d.code, d.at, {**d.facts, "known": ", ".join(meant) or d.facts["known"]})
            place = node if member is None else member if d.code == "E0102" else member.node
            self.faults.append(Diag(d.code, d.at, d.facts, self.places.of(place)))
        return checked

    def lower(self, node: Node, name: str, row: FrontOp, operands: list[Any], attrs: Any, outputs: list[str]) -> None:
        place = self.places.of(node)
        self.builder.open(Origin(name, node.get("op").value, place.line, place.column))
        try:
            given = row.lower(self.builder, tuple(operands), attrs)
            given = given if isinstance(given, tuple) else (given,)
            types = [ref.type for ref in given]
            wanted = [self.declared[o].dtype if o in self.declared else None for o in outputs]
            places = [Place(self.places.of(n)) for n in items_of(node.get("outputs")) if isinstance(n.value, str)]
            refs = self.builder.close(given[: len(outputs)], outputs, wanted, places)
        except Refused as fault:
            self.builder.drop()
            labels = tuple(
                Label(o.place.span, Phrase("{tensor} is {type}", tensor=o.tensor, type=o.type))
                for o in operands
                if isinstance(o, Ref) and o.place.span
            )
            span = self.places.of(node.get("inputs") or node)
            for d in (used_at(d, span) for d in fault.diags):
                place = d.span or self.attribute(node, d) or span
                told = d.labels or (() if d.span else labels)
                if d.code == "E1101" and attrs.get("axes", ()) is None:
                    words = Phrase("`axes`, which names the axes that are meant, is not stated: all are")
                    told = (*told, Label(self.places.of(node.get("op") or node), words))
                self.faults.append(Diag(d.code, name, d.facts, place, told, d.edit))
            return
        self.tell_of_widened(node, name, row, operands)
        for output, ref, inferred in zip(outputs, refs, types):
            declared = self.declared.get(output)
            if declared is not None and declared.shape != ref.shape:
                label = Label(place, Phrase("{name} gives {inferred}", name=name, inferred=inferred))
                self.fault(
                    "E1306",
                    self.differing(output, declared, ref),
                    name,
                    (label,),
                    tensor=output,
                    declared=declared,
                    inferred=inferred,
                    fitting=TensorType(declared.dtype, inferred.shape),
                    op=name if name != output else node.get("op").value,
                )
                ref = self.stand_in(output)
            self.refs[output] = ref

    def tell_of_widened(self, node: Node, name: str, row: FrontOp, operands: list[Any]) -> None:
        """Warn of a sum of products whose factors got the dtype of one that an op gave without being asked for it."""
        widened, self.builder.widened = self.builder.widened, []
        for narrow, wide in dict.fromkeys(widened):
            for at, o in zip(items_of(node.get("inputs")), operands):
                if isinstance(o, Ref) and o.dtype == wide and o.tensor not in self.declared:
                    facts = {"op": row.name, "tensor": o.tensor, "wide": wide, "narrow": narrow, "shape": o.type}
                    self.builder.notes.append(Diag("W2107", name, facts, self.places.of(at)))

    def attribute(self, node: Node, d: Diag) -> Span | None:
        """The value of the attribute that a fault is about, where it says so and the op states it."""
        keys = (str(d.facts.get("key", d.facts.get("what", ""))), *ABOUT.get(d.code, ()))
        stated = node.get("attrs")
        inside = stated.value if stated is not None and isinstance(stated.value, dict) else {}
        found = next((m for k in keys for m in (inside.get(k) or node.value.get(k),) if m is not None), None)
        return self.places.of(found.node) if found is not None else None

    def differing(self, tensor: str, declared: TensorType, ref: Ref) -> Span | None:
        """The span of the one dim that differs, or of the whole shape."""
        place = self.places_of[tensor]
        axes = [i for i, (a, b) in enumerate(zip(declared.shape, ref.shape)) if a != b]
        return place.dim(axes[0]) if declared.rank == ref.rank and len(axes) == 1 else place.span

    def stand_in(self, tensor: str) -> Ref | None:
        """What to read on with after a fault: a value of the declared type, or nothing."""
        declared = self.declared.get(tensor)
        return Ref("", tensor, declared, tensor=tensor, place=self.places_of[tensor]) if declared is not None else None

    # --- what must share a kernel

    def must_fuse(self, stated: Node | None) -> list[tuple[Node, list[str]]]:
        """The groups of `fuse`, each with the ops and tensors that it names."""
        found = []
        for group in self.expect(stated, list, "fuse") if stated is not None else []:
            names = []
            for node in self.expect(group, list, Phrase("a group of fuse")):
                name = self.expect(node, str, Phrase("a group of fuse"))
                if name and name not in self.refs and not self.given_by.get(name):
                    self.fault("E0202", node, name, **unknown_name(name, [*self.refs, *self.given_by]))
                names.append(name)
            if names:
                found.append((group, names))
        return found

    def demand(self, module: tiny.Module, group: Node, names: list[str]) -> tiny.MustFuse:
        """The values of a group of `fuse`: of an op all that came from it, of a tensor the tensor."""
        values = [v for n in names for v in values_of_op(module, n) or self.tensors_of(n)]
        return tiny.MustFuse(tuple(dict.fromkeys(values)), span=self.places.of(group))

    def tensors_of(self, name: str) -> list[str]:
        """The values of the tensors of an op, or of a tensor."""
        return [self.refs[t].name for t in (self.given_by.get(name) or [name]) if self.refs.get(t) is not None]

    @staticmethod
    def not_needed(module: tiny.Module) -> Iterator[Diag]:
        """A fault for each value that must share a kernel and that no output needs: the module is without it."""
        known = module.type_of()
        for one in module.must_fuse:
            for name in one.values:
                if name not in known:
                    yield Diag("E1421", name, {"name": name, "moved": name}, one.span)

    # --- the rest of the signature

    def results(self, outputs: list[tuple[Tensor | None, Node]]) -> list[tuple[str, Ref]]:
        found = []
        for tensor, node in outputs:
            if tensor is None:
                continue
            if tensor.name not in self.refs:
                self.fault(
                    "E1312",
                    node,
                    tensor.name,
                    tensor=tensor.name,
                    near=near(tensor.name, sorted(self.refs, key=self.read_names.__contains__)),
                )
            elif self.refs[tensor.name] is not None:
                found.append((tensor.name, self.refs[tensor.name]))
        return found


def _operands(op: Node) -> list[Node]:
    return items_of(op.get("inputs"))


def _name_of(op: Node) -> str:
    """The op's name, else that of the tensor that it gives, else its kind."""
    outputs = [n.value for n in items_of(op.get("outputs"))]
    for node in (op.get("name"), *items_of(op.get("outputs"))[:1], op.get("op")):
        if node is not None and isinstance(node.value, str) and node.value:
            return node.value
    return outputs[0] if outputs and isinstance(outputs[0], str) else "op"
