"""NodeId JSON (seed 000, and the dumps of seed 001 section 3.5): a flat list of tiny's ops that name one another.

    {"uops": [
      {"id": "n0", "uop": "INPUT", "arg": {"tensor_id": "A", "dtype": "fp16", "shape": ["M", "K"]}},
      {"id": "n8", "uop": "REDUCE", "src": ["n7"], "arg": {"op": "SUM", "axes": ["K"], "dtype": "fp32"}}, ...]}

A node's `src` holds ids, tensors of `tensors`, numbers, and short expressions such as {"gt": "C1,0"}. Nodes may come
in any order. What each means is front.nodeops. Optional at the top: `outputs` (ids; by default STOREs, else
signature.outputs, else the nodes that none reads), `name`, `tensors` and `signature` as in front-end JSON,
`shape_sets`, and `symbols`: a symbol's [least, greatest], its size, or an expression that it equals. A MUL whose
only reader is a REDUCE SUM of a wider dtype is the exact product.

A line may end with a `//` comment, as those of the seed do. A node may say `out` for `id`, as the dumps of seed 001 do;
these leave the dtype of a REDUCE out, which is then the usual one.

A symbol that no INPUT has is solved from the RESHAPE that uses it (seed 000 section 5.2): what both shapes have at
their ends falls away, and of the rest a bare symbol on one side is what is opposite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import tiny
from ..ir.expr import Expr
from ..ir.model import Model, Origin, Tensor
from ..ir.ops import OPS
from ..ir.types import DTYPES, DType
from ..ir.unknown import nearest, unknown_name
from ..ir.verify import reorders_symbols
from ..kit.diag import Diag, Label, Refused, refuse_all
from ..kit.phrase import Phrase
from ..kit.span import Span
from . import nodeops
from .builder import Literal, Operand, Place, Ref
from .jsontext import Member, Node, items_of, parse_json, without_comments
from .nodecorrections import missing_dtype, missing_reshape, solved_symbol, unpermuted
from .nodemaps import read_map
from .nodesignature import NodeSignature, words_of
from .ops import ELEMENTWISE, Attrs, check_attrs
from .ops.table import put_in
from .order import in_order

_TOP = ("uops", "outputs", "name", "signature", "tensors", "shape_sets", "symbols")
_NODE = ("id", "out", "uop", "src", "arg", "tag", "dtype")
MOST_SOLVED = 64  # symbols


class Solved(Exception):
    """A symbol has turned out to be an expression: the text is read again with it."""

    def __init__(self, symbol: str, expr: Expr):
        super().__init__(symbol)
        self.symbol, self.expr = symbol, expr


def read(text: str, name: str = "main", notes: list[Diag] | None = None) -> tiny.Module:
    """The module of a NodeId JSON text; `notes` gets the warnings (W2102) and remarks (R3005) on it. Raises Refused
    with every fault found: E0011 to E0013 JSON, E01xx words and attributes, E02xx names, E10xx and E11xx types, E13xx
    signature."""
    root = parse_json(without_comments(text))
    solved: dict[str, Expr] = {}
    while True:
        reader = _Reader(text, solved)
        try:
            return reader.module(root, name)
        except Solved as found:
            solved = {k: put_in(e, {found.symbol: found.expr}, k) for k, e in solved.items()} | {
                found.symbol: found.expr
            }
            if len(solved) > MOST_SOLVED:
                raise Refused(
                    [
                        Diag(
                            "E0006",
                            facts={"what": Phrase("the number of symbols to solve (at most {most})", most=MOST_SOLVED)},
                        )
                    ]
                ) from None
            reader.builder.notes.clear()  # the next reading has them again
        finally:
            if notes is not None:
                notes += reader.builder.notes


class _Reader(NodeSignature):
    """The inputs, then the nodes in an order in which each comes after those that it reads."""

    def __init__(self, text: str, solved: dict[str, Expr]):
        super().__init__(text, solved)
        self.text = text
        self.node_of: dict[str, Node] = {}

    def module(self, root: Node, name: str) -> tiny.Module:
        self.only(root, _TOP, Phrase("the model"))
        stated = root.get("name")
        name = (self.expect(stated, str, "name") if stated is not None else "") or name
        limits = self.definitions(root.get("symbols"))
        tensors = self.expect(root.get("tensors"), dict, "tensors") if root.get("tensors") is not None else {}
        for tensor, member in tensors.items():
            self.declare(tensor, member)
        uops = root.get("uops")
        nodes = [
            n for n in self.expect(uops, list, Phrase("the model")) if self.expect(n, dict, Phrase("a node of uops"))
        ]
        if uops.value == []:
            self.fault(
                "E0110",
                uops,
                Phrase("the model"),
                key="uops",
                expected=Phrase("a list of nodes"),
                given=Phrase("an empty one"),
            )
        names = self.names(nodes)
        self.node_of = {name: node for node, name in zip(nodes, names)}
        outputs = self.signature(root, tensors, nodes, names)
        self.asked = {n.value for n in self.stated_outputs(root)} | {
            tensor.name for tensor, _ in outputs if tensor is not None
        }
        for node, id in zip(nodes, names):
            if self.word(node) == "INPUT":
                self.input(node, id)
        filed = self.constants(tensors)
        self.graph(nodes, names)
        results = self.results(root, nodes, names, outputs)
        found = [Tensor(output, ref.type) for output, ref in results]
        symbols = self.symbols((*found, *self.inputs, *filed))
        ranges = self.ranges(limits)
        shape_sets = self.shape_sets(root.get("shape_sets"), symbols, ranges)
        if not self.faults:
            self.check_names(symbols)
        refuse_all(self.faults)
        model = Model(name, (*self.inputs, *filed), tuple(found), ranges, shape_sets)
        return self.builder.finish(model, results)

    def names(self, nodes: list[Node]) -> list[str]:
        """The id of each node (E0104 without one). A VIEW with neither id nor attributes, such as seed 001's dumps
        have, gives nothing that a node could read: it gets its place as a name."""
        names, first = [], {}
        for index, node in enumerate(nodes):
            self.only(node, _NODE, Phrase("a node of uops"))
            place = node.get("id") or node.get("out")
            if place is None and (self.word(node) != "VIEW" or node.get("arg") is not None):
                self.fault(
                    "E0104",
                    self.places.span(node.start, node.start + 1),
                    self.word(node) or Phrase("a node of uops"),
                    key="id",
                    kind=Phrase("a string"),
                )
            name = self.expect(place, str, "id") if place is not None else ""
            if name and name in first:
                self.fault("E0201", place, name, (Label(self.places.of(first[name]), Phrase("first here")),), name=name)
            first.setdefault(name, place)
            names.append(name or f"{self.word(node).lower() or 'node'}_{index}")
        return names

    # --- the graph

    def graph(self, nodes: list[Node], names: list[str]) -> None:
        """Every node but INPUTs, each after those that it reads."""
        index_of = {name: i for i, name in reversed(list(enumerate(names))) if self.word(nodes[i]) != "INPUT"}
        needs = []
        for node in nodes:
            read = set(_references(node.get("src")))
            for name in read:
                self.users.setdefault(name, []).append(node)
            needs.append({index_of[name] for name in read if name in index_of})
        ordered, circle = in_order(needs)
        for index in ordered:
            if self.word(nodes[index]) != "INPUT":
                self.node(nodes[index], names[index])
        for index in set(range(len(nodes))).difference(ordered):
            self.refs.setdefault(names[index], None)
        if circle:
            first, *others = circle
            labels = tuple(Label(self.places.of(nodes[i]), Phrase("and this one")) for i in others[:3])
            self.fault("E1310", nodes[first], names[first], labels, ops=", ".join(names[i] for i in circle[:8]))

    def node(self, node: Node, id: str) -> None:
        """One node: its row, its operands, its attributes, its value."""
        uop, count = self.word(node), len(self.faults)
        if not uop:
            self.expect(node.get("uop"), str, id, node, "uop")
        row = nodeops.row_of(uop if uop != "VIEW" or node.get("arg") is not None else "LOAD")
        if uop and row is None:
            known = [*nodeops.SHORTHAND, *OPS, "INPUT"]
            self.fault(
                "E0105", node.get("uop"), id, op=uop, near=", ".join(nearest(uop, known)) or Phrase("nothing like it")
            )
        place = self.places.of(node)
        self.builder.open(Origin(id, uop or "?", place.line, place.column))
        sources = items_of(node.get("src"))
        operands = [self.operand(n, id) for n in sources]
        if row is not None and len(sources) != row.inputs[0]:
            self.fault("E0204", node.get("src") or node, id, op=uop, given=len(sources), wanted=row.inputs[0])
        self.refs[id] = None
        if row is None or len(self.faults) > count or None in operands:
            self.builder.drop()
            return
        labels = [
            next((self.labels[name] for name in _references(Node([n], 0, 0)) if self.labels.get(name)), ())
            for n in sources
        ]
        attrs = self.attrs(node, uop, row, id, operands, labels)
        if len(self.faults) > count:
            self.builder.drop()
            return
        noted = len(self.builder.notes)
        try:
            given = self.give(node, id, uop, operands, attrs)
        except Refused as fault:
            self.builder.drop()
            named = tuple(
                Label(o.place.span, Phrase("{tensor} is {type}", tensor=o.tensor, type=o.type))
                for o in operands
                if isinstance(o, Ref) and o.place.span
            )
            span = self.places.of(node.get("src") or node)
            self.faults += [Diag(d.code, id, d.facts, d.span or span, d.labels or named, d.edit) for d in fault.diags]
            return
        (self.refs[id],) = self.builder.close([given], [id], [None], [Place(place)])
        self.builder.notes[noted:] = [
            Diag(d.code, id, d.facts, self.places.of(node.get("src"))) for d in self.builder.notes[noted:]
        ]
        if uop == "RESHAPE":
            self.warn_of_order(node, id, operands[0], given)
        arg = node.get("arg")
        words = (
            {k: words_of(m.node) for k, m in arg.value.items()}
            if arg is not None and isinstance(arg.value, dict)
            else {}
        )
        self.labels[id] = nodeops.axis_labels(uop, operands, words, attrs, labels, given.rank)
        if uop == "STORE":
            self.stores[attrs.tensor or id] = self.refs[id]

    def give(self, node: Node, id: str, uop: str, operands: list[Operand], attrs: Attrs) -> Ref:
        """The node's value. Where a RESHAPE would correct it, that is noted with the edit, and the value is the
        corrected one."""
        if uop == "RESHAPE":
            self.solve(operands[0], attrs.result_shape)
        try:
            given = nodeops.give(self.builder, uop, tuple(operands), attrs, self.wide(id) if uop == "MUL" else None)
        except Refused as fault:
            correction = (
                missing_reshape(self.text, self.places, node, operands, set(self.refs))
                if fault.diags[0].code == "E1001"
                else None
            )
            if correction is None:
                raise
            (d,) = fault.diags
            labels = tuple(
                Label(o.place.span, Phrase("{tensor} is {type}", tensor=o.tensor, type=o.type))
                for o in operands
                if isinstance(o, Ref) and o.place.span
            )
            self.faults.append(Diag(d.code, id, d.facts, self.places.of(node.get("src")), labels, correction.edit))
            corrected = [
                self.builder.reshape(o, correction.shape) if i == correction.position else o
                for i, o in enumerate(operands)
            ]
            return nodeops.give(self.builder, uop, tuple(corrected), attrs, None)
        init = node.get("arg").get("init") if uop == "REDUCE" else None
        if init is not None and init.value is not None:
            given = nodeops.folded_init(
                self.builder, given, attrs.op, float(init.value) if given.dtype.is_float else init.value
            )
        stated = node.get("dtype")
        if stated is not None and stated.value != given.dtype.name:
            raise Refused(
                [
                    Diag(
                        "E1002",
                        id,
                        {
                            "fault": Phrase(
                                "{id} is stated to be {plain}, but is {dtype}",
                                id=id,
                                plain=stated.plain,
                                dtype=given.dtype,
                            )
                        },
                        self.places.of(stated),
                    )
                ]
            )
        return given

    def warn_of_order(self, node: Node, id: str, x: Operand, given: Ref) -> None:
        """W2102 for a RESHAPE that writes symbols in another order; where a PERMUTE before it is the cause, with the
        edit that reads the value before the PERMUTE."""
        if not isinstance(x, Ref) or not reorders_symbols(x.shape, given.shape):
            return
        name = node.get("src").value[0].value
        producer = self.node_of.get(name) if isinstance(name, str) else None
        edit = None
        if producer is not None and self.word(producer) == "PERMUTE":
            before = self.refs.get(producer.get("src").value[0].value)
            if before is not None and not reorders_symbols(before.shape, given.shape):
                is_kept = len(self.users[name]) > 1 or name in self.asked
                edit = unpermuted(self.text, self.places, node, producer, is_kept)
        self.builder.notes.append(
            Diag("W2102", id, {"source": x.type, "result": given.type}, self.places.of(node.get("src")), edit=edit)
        )

    def wide(self, id: str) -> DType | None:
        """The dtype of the sum that alone reads a product."""
        users = self.users.get(id, [])
        arg = users[0].get("arg") if len(users) == 1 and self.word(users[0]) == "REDUCE" else None
        if arg is None or arg.get("op") is None or arg.get("op").value != "SUM" or arg.get("dtype") is None:
            return None
        return DTYPES.get(arg.get("dtype").value) if isinstance(arg.get("dtype").value, str) else None

    def solve(self, x: Operand, shape: tuple[Expr, ...]) -> None:
        """Raise Solved when a symbol of the shape, or of the inputs, must be something for the RESHAPE to hold."""
        if not isinstance(x, Ref):
            return
        known = {n for t in self.inputs for d in t.type.shape for n in d.names()}
        found = solved_symbol(x.shape, shape, known)
        if found is not None and found[0] not in self.solved:
            raise Solved(*found)

    # --- operands and attributes

    def operand(self, node: Node, id: str) -> Operand | None:
        """A value, a number, or a short expression in an operand's place."""
        if type(node.value) in (int, float, bool):
            return Literal(node.value)
        if isinstance(node.value, dict):
            return self.inline(node, id)
        name = self.expect(node, str, "src")
        if not name or name in self.refs:
            return self.refs.get(name) if name else None
        self.fault("E0202", node, id, **unknown_name(name, [n for n, ref in self.refs.items() if ref is not None]))
        self.refs[name] = None
        return None

    def inline(self, node: Node, id: str) -> Operand | None:
        """{"fn": operands}, the operands as a list, or in one string with commas (seed 001 section 3.5)."""
        if len(node.value) != 1:
            self.fault(
                "E0110",
                node,
                id,
                key=Phrase("an expression"),
                expected=Phrase('one function and its operands, {{"gt": ["C1", 0]}}'),
                given=node.kind,
            )
            return None
        ((fn, member),) = node.value.items()
        row = ELEMENTWISE.get(nodeops.INLINE.get(fn, ""))
        if row is None:
            self.fault(
                "E0105", member, id, op=fn, near=", ".join(nearest(fn, nodeops.INLINE)) or Phrase("nothing like it")
            )
            return None
        inner = _inner(member.node)
        operands = [self.operand(n, id) for n in inner]
        if None in operands or not row.inputs[0] <= len(operands) <= row.inputs[1]:
            if None not in operands:
                self.fault("E0204", member.node, id, op=fn, given=len(operands), wanted=row.inputs[0])
            return None
        try:
            return row.lower(self.builder, tuple(operands), check_attrs(row, {}, id)[0])
        except Refused as fault:
            self.faults += [Diag(d.code, id, d.facts, self.places.of(node), d.labels) for d in fault.diags]
            return None

    def attrs(
        self, node: Node, uop: str, row: Any, id: str, operands: list[Operand], labels: list[nodeops.Labels]
    ) -> Attrs:
        """The checked attributes of a node (E0102, E0103, E0104, E0107, E1005, E1022)."""
        arg = node.get("arg")
        members = dict(self.expect(arg, dict, id)) if arg is not None else {}
        if uop == "REDUCE":
            members.pop("init", None)
        plain = {k: self.put(m.node.plain) for k, m in members.items()}
        keys = {a.name for a in row.attrs}
        stated = node.get("dtype")
        if stated is not None and keys & {"to", "dtype"}:
            plain.setdefault("to" if uop == "CAST" else "dtype", stated.plain)
        x = operands[0] if operands and isinstance(operands[0], Ref) else None
        if x is not None:
            self.by_operand(plain, members, keys, x, labels[0], id)
            if uop == "REDUCE" and plain.get("dtype") is None and node.get("id") is None:
                plain["dtype"] = nodeops.default_acc(x, str(plain.get("op"))).name
        checked, faults = check_attrs(row, plain, id)
        for d in faults:
            key = d.facts["key"]
            member = members.get(key)
            if uop == "REDUCE" and key == "dtype" and d.code == "E0104":
                edit = missing_dtype(self.places, arg, x, str(plain.get("op")))
                self.faults.append(Diag("E1005", id, d.facts, self.places.of(arg or node), edit=edit))
                continue
            place = node if member is None else member if d.code == "E0102" else member.node
            self.faults.append(Diag(d.code, id, d.facts, self.places.of(place)))
        span = self.places.of(arg or node)
        return Attrs({k: _substituted(v, self.solved, id, span) for k, v in checked.items()})

    def by_operand(
        self,
        plain: dict[str, Any],
        members: Mapping[str, Member],
        keys: set[str],
        x: Ref,
        labels: nodeops.Labels,
        id: str,
    ) -> None:
        """What the first operand says of attributes: padding as pairs, maps in its axes, axes by their words."""
        if "pad" in plain:
            plain["pad"] = nodeops.pairs_of(plain["pad"], x.rank)
        for key in ("index_map", "map"):
            if key in keys and plain.get(key) is not None:
                shape = plain.get("result_shape")
                rank = len(shape) if isinstance(shape, list) else x.rank
                symbols = (*(n for t in self.inputs for d in t.type.shape for n in d.names()), *self.solved)
                plain[key], faults = read_map(
                    members[key].node, key, id, x.rank, rank, dict.fromkeys(symbols), self.places
                )
                self.faults += faults
        if isinstance(plain.get("axes"), list):
            written = members["axes"].node.value
            plain["axes"] = [self.axis(written[i], axis, x, labels, id) for i, axis in enumerate(plain["axes"])]

    def axis(self, node: Node, axis: Any, x: Ref, labels: nodeops.Labels, id: str) -> Any:
        """An axis as an integer: as written, or the one that its word names."""
        if not isinstance(node.value, str):
            return axis
        try:
            return nodeops.axis_of_word(node.value, x, labels)
        except Refused as fault:
            self.faults += [Diag(d.code, id, d.facts, self.places.of(node)) for d in fault.diags]
            return 0


def _inner(node: Node) -> list[Node]:
    """The operands of a short expression."""
    if not isinstance(node.value, str):
        return node.value if isinstance(node.value, list) else [node]
    found = []
    for word in node.value.split(","):
        word = word.strip()
        try:
            number: Any = int(word) if word.lstrip("-").isdigit() else float(word)
        except ValueError:
            number = word
        found.append(Node(number, node.start, node.end))
    return found


def _references(node: Node | None) -> list[str]:
    """Every name that a `src` reads, those inside short expressions too."""
    found = []
    for item in items_of(node):
        if isinstance(item.value, str):
            found.append(item.value)
        elif isinstance(item.value, dict):
            for member in item.value.values():
                found += _references(Node(_inner(member.node), item.start, item.end))
    return found


def _substituted(item: Any, solved: dict[str, Expr], at: str, span: Span | None) -> Any:
    if isinstance(item, Expr):
        return put_in(item, solved, at, span)
    return tuple(_substituted(i, solved, at, span) for i in item) if isinstance(item, tuple) else item
