"""The signature of NodeId JSON: symbols and what they are, INPUT nodes and declared tensors, outputs."""

from __future__ import annotations

from typing import Any

from ..ir.expr import Expr
from ..ir.model import Tensor
from ..ir.types import TensorType, is_below_zero
from ..kit.phrase import Phrase
from .builder import Place, Ref
from .jsonsignature import SignatureReader, near
from .jsontext import Member, Node, items_of
from .ops.table import put_in, read_dim


class NodeSignature(SignatureReader):
    """One text, in which `solved` says what symbols are."""

    def __init__(self, text: str, solved: dict[str, Expr]):
        super().__init__(text)
        self.solved = dict(solved)
        self.labels: dict[str, tuple[str, ...]] = {}
        self.inputs: list[Tensor] = []
        self.stores: dict[str, Ref] = {}
        self.users: dict[str, list[Node]] = {}

    # --- symbols and tensors

    def definitions(self, node: Node | None) -> Node | None:
        """Keep what each symbol of `symbols` is; what is left, as JSON, are ranges."""
        if node is None:
            return None
        limits = {}
        members = self.expect(node, dict, "symbols")
        for symbol, member in members.items():
            if type(member.node.value) not in (int, str):
                limits[symbol] = member
                continue
            try:
                size = read_dim(member.node.value)
            except ValueError:
                self.fault("E0111", member.node, symbol, tensor=symbol, given=member.node.plain)
                continue
            self.solved[symbol] = size
        for _ in self.solved:  # a definition may use another
            self.solved = {
                k: e if k in e.names() else put_in(e, self.solved, k, self.places.of(members.get(k, node)))
                for k, e in self.solved.items()
            }
        for symbol in [s for s, e in self.solved.items() if any(n in self.solved for n in e.names())]:
            member = node.value.get(symbol)
            self.fault("E0111", member, symbol, tensor=symbol, given=Phrase("an expression that comes back to itself"))
            del self.solved[symbol]
        return Node(limits, node.start, node.end)

    def declare(self, name: str, member: Member) -> None:
        """One tensor, its symbols put in."""
        super().declare(name, member)
        if name in self.declared:
            found = self.declared[name]
            span = self.places.of(member)
            shape = tuple(put_in(d, self.solved, name, span) for d in found.shape)
            below = [d for d in shape if d.terms and is_below_zero(d)]
            if below:
                self.fault("E0111", member.node.get("shape"), name, tensor=name, given=below[0])
            else:
                self.declared[name] = TensorType(found.dtype, shape)
            self.labels[name] = words_of(member.node.get("shape"))

    def signature(
        self, root: Node, tensors: dict[str, Member], nodes: list[Node], names: list[str]
    ) -> list[tuple[Tensor | None, Node]]:
        """The inputs that `tensors` declares, and the outputs of the signature."""
        signature = root.get("signature")
        if signature is not None and isinstance(signature.value, dict):
            self.only(signature, ("inputs", "outputs"), "signature")
            inputs, outputs = (self.listed(root, signature, side, tensors) for side in ("inputs", "outputs"))
        else:
            read = {n.value for node in nodes for n in items_of(node.get("src")) if isinstance(n.value, str)}
            given = set(names)
            entries = [
                n
                for n, m in tensors.items()
                if n in read and n not in given and n in self.declared and not {"value", "file"} & set(m.node.value)
            ]
            ready = [
                (Tensor(n, self.declared[n], tuple(self.attributes(tensors[n].node, n).items())), tensors[n].node)
                for n in entries
            ]
            inputs, outputs = ready, []
        for tensor, _ in inputs:
            if tensor is not None:
                self.adopt(tensor, self.places_of[tensor.name])
        return outputs

    def input(self, node: Node, id: str) -> None:
        """An INPUT node: a tensor, which its id and its `tensor_id` name."""
        arg = node.get("arg") or Node({}, node.start, node.end)
        members = self.expect(arg, dict, id)
        named = members.get("tensor_id")
        if named is None:
            self.fault(
                "E0104", self.places.span(node.start, node.start + 1), id, key="tensor_id", kind=Phrase("a string")
            )
        name = (self.expect(named.node, str, id) if named is not None else "") or id
        if any(t.name == name for t in self.inputs):
            self.fault("E1301", named.node if named is not None else node, name, name=name)
            return
        self.declare(
            name,
            Member(
                arg.start, arg.end, Node({k: m for k, m in members.items() if k != "tensor_id"}, arg.start, arg.end)
            ),
        )
        if name in self.declared:
            self.adopt(
                Tensor(name, self.declared[name], tuple(self.attributes(arg, name).items())), self.places_of[name]
            )
        self.refs[id] = self.refs.get(name)
        self.labels[id] = self.labels.get(name, ())

    def adopt(self, tensor: Tensor, place: Place) -> None:
        """Make a tensor an input of the model."""
        self.inputs.append(tensor)
        self.refs[tensor.name] = self.builder.input(tensor, place)

    def word(self, node: Node) -> str:
        """The uop, without the `OPS.` that dumps put before it."""
        uop = node.get("uop")
        return uop.value.removeprefix("OPS.") if uop is not None and isinstance(uop.value, str) else ""

    def put(self, item: Any) -> Any:
        """Words that mean an integer as that integer, so that a step may be one."""
        if isinstance(item, list):
            return [self.put(i) for i in item]
        known = self.solved.get(item) if isinstance(item, str) else None
        return known.constant if known is not None and known.constant is not None else item

    # --- outputs

    @staticmethod
    def stated_outputs(root: Node) -> list[Node]:
        """The words of `outputs`, in a list or by name."""
        stated = root.get("outputs")
        found = (
            [m.node for m in stated.value.values()]
            if stated is not None and isinstance(stated.value, dict)
            else items_of(stated)
        )
        return [n for n in found if isinstance(n.value, str)]

    def results(
        self, root: Node, nodes: list[Node], names: list[str], listed: list[tuple[Tensor | None, Node]]
    ) -> list[tuple[str, Ref]]:
        """The outputs by name: those that are asked for, else STOREs, else the signature's, else the nodes that none
        reads."""
        if root.get("outputs") is None and self.stores:
            return [(name, ref) for name, ref in self.stores.items() if ref is not None]
        found = []
        for output, name, node in self.wanted(root.get("outputs"), nodes, names, listed):
            if name not in self.refs:
                self.fault("E1312", node, output, tensor=name, near=near(name, self.refs))
                continue
            ref, declared = self.refs[name], self.declared.get(output)
            if ref is not None and declared is not None and declared != ref.type:
                span = self.places_of[output].span
                types = {"declared": declared, "inferred": ref.type, "fitting": ref.type}
                self.fault("E1306", span, output, tensor=output, op=name, **types)
            elif ref is not None:
                found.append((output, ref))
        return found

    def wanted(
        self, stated: Node | None, nodes: list[Node], names: list[str], listed: list[tuple[Tensor | None, Node]]
    ) -> list[tuple[str, str, Node]]:
        """Each output that is wanted, the node that gives it, and where that is said."""
        if stated is not None and isinstance(stated.value, dict):
            return [(name, self.expect(m.node, str, "outputs"), m.node) for name, m in stated.value.items()]
        if stated is not None:
            words = [n for n in self.expect(stated, list, "outputs") if self.expect(n, str, "outputs")]
            return [(n.value, n.value, n) for n in words]
        if listed:
            return [(t.name, t.name, n) for t, n in listed if t is not None]
        return [
            (name, name, n)
            for name, n in zip(names, nodes)
            if name not in self.users and self.word(n) != "INPUT" and (n.get("id") or n.get("out"))
        ]


def words_of(node: Node | None) -> tuple[str, ...]:
    """The words of a list, as the text spells them; numbers are none."""
    return tuple(n.value if isinstance(n.value, str) else "" for n in items_of(node))
