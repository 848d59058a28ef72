"""An ONNX graph, node by node, into a program of front-end ops.

Names live in scopes: the graph, the body of a function, a branch of an If. A node whose inputs are all known is folded;
one that an earlier fault touches is passed over, so that one fault is one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...ir.expr import Expr
from ...kit.diag import Diag, Refused, refuse
from ...kit.phrase import Phrase
from ..program.names import bare
from ..program.program import Program
from ..program.terms import MAX_KNOWN, Term
from . import constants
from .node import Node
from .table import FOLDS, ONNX_OPS

FAULTY = object()
_SIZES_DIFFER = {"E1001", "E1016", "E1304"}
MAX_DEPTH = 32  # of functions within functions
MAX_NODES = 50_000  # of the model once its functions and loops are written out


class Unequal(Exception):
    """An op needs a symbol to equal another size: the model is translated again with that size in its place. `note`
    says so where the op would broadcast a size of 1."""

    def __init__(self, symbol: str, size: Expr, note: Diag | None = None):
        self.symbol, self.size, self.note = symbol, size, note


class Scope:
    """The names of one body, and of those around it. `opsets` and `attrs` are those of the function whose body it
    is."""

    def __init__(self, parent: Scope | None, opsets: Mapping[str, int], attrs: Mapping[str, Any], prefix: str = ""):
        self.parent, self.opsets, self.attrs, self.prefix = parent, opsets, attrs, prefix
        self.terms: dict[str, Any] = {}
        self.depth = parent.depth + 1 if parent else 0

    def find(self, name: str) -> Any:
        """What the name means, here or around."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.terms:
                return scope.terms[name]
            scope = scope.parent
        raise refuse("E0121", name, reason=Phrase("{name} is read before any node gives it", name=name))


class TooMany(Refused):
    """The model does not end within MAX_NODES; no body goes on after it."""


class Translator:
    """One model. `outputs` are the names that must stay as they are; `unsupported` lists ops that nothing translates,
    with their nodes, and more are added to it."""

    def __init__(
        self,
        program: Program,
        functions: Mapping[tuple[str, str], Any],
        outputs: Iterable[str],
        unsupported: dict[str, list[str]],
    ):
        self.program = program
        self.functions = functions
        self.kept = set(outputs)
        self.unsupported = unsupported
        self.faults: list[Diag] = []
        self.count = 0  # of the nodes so far

    def body(self, nodes: Iterable[Any], scope: Scope) -> None:
        """Every node of one body, in its order. Faults are collected. Raises Refused (E0006) where there are too many,
        whatever body is too many."""
        for proto in nodes:
            self.count += 1
            if self.count > MAX_NODES:
                raise TooMany(
                    refuse(
                        "E0006",
                        node_word(proto),
                        what=Phrase(
                            "the model with its functions and loops written out (at most {most} nodes)", most=MAX_NODES
                        ),
                    ).diags
                )
            try:
                self.node(proto, scope)
            except TooMany:
                raise
            except Refused as fault:
                at = node_word(proto)
                self.faults += [Diag(d.code, d.at if d.code == "E0125" else at, d.facts) for d in fault.diags]
                for output in proto.output:
                    scope.terms[output] = FAULTY

    def node(self, proto: Any, scope: Scope) -> None:
        """One node."""
        inputs = [scope.find(name) if name else None for name in proto.input]
        if any(i is FAULTY for i in inputs):
            scope.terms.update((output, FAULTY) for output in proto.output)
            return
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        first = next((o for o in proto.output if o), proto.op_type)
        name = bare(scope.prefix + (proto.name or first))
        node = Node(
            proto,
            inputs,
            name,
            scope.opsets.get(domain, 1),
            constants.attributes(proto, scope.attrs, first),
            self.program,
            self,
            scope,
        )
        start = len(self.program.ops)
        try:
            given = self.given(node, domain)
        except Refused as fault:
            if {d.code for d in fault.diags} & _SIZES_DIFFER:
                raise_unequal(node)
            raise
        results = given if isinstance(given, tuple) else (given,)
        self.settle(node, results, start)

    def given(self, node: Node, domain: str) -> Any:
        """What the node gives: folded, translated, or by the body of its function."""
        op = node.proto.op_type
        if domain == "" and op in FOLDS:
            arrays = [i.known if isinstance(i, Term) else None for i in node.inputs]
            if all(
                a is not None and a.size <= MAX_KNOWN for i, a in zip(node.inputs, arrays) if i is not None
            ) and not any(isinstance(i, Term) and i.form for i in node.inputs):
                try:
                    found = FOLDS[op](node, *arrays)
                except (ValueError, IndexError, TypeError, OverflowError, AttributeError) as fault:
                    raise node.fault(str(fault).split("\n", 1)[0][:120]) from None
                if found is not None:
                    return found
        local = self.functions.get((domain, op))
        if local is not None:
            return self.call(node, local)
        translate = ONNX_OPS.get((domain, op))
        if translate is not None:
            return translate(node)
        body = constants.function_of(node, domain)
        if body is None:
            nodes = self.unsupported.setdefault(word_of(node.proto), [])
            if node_word(node.proto) not in nodes:
                nodes.append(node_word(node.proto))
            raise Refused([])
        return self.call(node, body)

    def call(self, node: Node, function: Any) -> tuple[Any, ...]:
        """What the body of a function gives, its names in a scope of their own."""
        if node.scope.depth >= MAX_DEPTH:
            raise refuse("E0006", node.name, what=Phrase("functions within functions (at most {most})", most=MAX_DEPTH))
        attrs = {a.name: a for a in function.attribute_proto} | {
            a.name: a for a in constants.stated(node.proto, node.scope.attrs)
        }
        opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import}
        inner = Scope(None, opsets or node.scope.opsets, attrs, f"{node.name}/")
        inner.depth = node.scope.depth + 1
        for position, name in enumerate(function.input):
            inner.terms[name] = node.inputs[position] if position < len(node.inputs) else None
        count = len(self.faults)
        self.body(function.node, inner)
        if len(self.faults) > count:
            raise Refused(
                [Diag(d.code, node.name, d.facts) for d in self.faults[count:] if self.faults.remove(d) is None]
            )
        return tuple(_sound([inner.find(name) if node.wants(i) else None for i, name in enumerate(function.output)]))

    def settle(self, node: Node, results: tuple[Any, ...], start: int) -> None:
        """Give the results the names of the node's outputs. One that some other name has already is the same tensor
        under two names."""
        program, top = self.program, node.scope.parent is None and not node.scope.prefix
        own = {name for entry in program.ops[start:] for name in entry["outputs"]}
        main = None
        for output, result in zip(node.outputs, results):
            if not output:
                continue
            node.scope.terms[output] = result
            if not isinstance(result, Term):
                continue
            is_kept = top and output in self.kept
            if result.ref is None and not result.label:
                result.label = bare(node.scope.prefix + output)
            if result.name in own:
                own.discard(result.name)
                program.rename(result, output if is_kept else program.fresh(bare(node.scope.prefix + output)))
                main = main or result.name
            elif is_kept:
                node.scope.terms[output] = self.alias(result, output)
        for entry in program.ops[start:]:
            if not entry["name"]:
                entry["name"] = node.name if main in entry["outputs"] and node.name != main else ""

    def alias(self, term: Term, name: str) -> Term:
        """The same tensor under the name of an output of the model."""
        if term.ref is None and (term.tensor is None or not self.program.weights.file):
            self.program.taken.discard(name)
            term = self.program.put(term, name)
            if term.name == name:
                return term
        term = self.program.put(term)
        self.program.taken.add(name)
        (same,) = self.program.op("Elementwise", [term], f"{bare(name)}.same", fn="identity")
        self.program.rename(same, name)
        same.form, same.known = term.form, term.known
        return same

    def output(self, term: Any, name: str) -> None:
        """State the type of an output of the model. Raises Refused (E0126 for a sequence)."""
        if term is FAULTY:
            return
        if not isinstance(term, Term):
            raise refuse(
                "E0126", name, type=Phrase("a sequence") if isinstance(term, tuple) else Phrase("not a tensor")
            )
        if term.name != name:
            term = self.alias(term, name)
        if "value" not in self.program.tensors.get(name, {}):
            self.program.declare(name, term.ref)

    def value_of(self, term: Term) -> np.ndarray | None:
        """The value of a term, read from the model where it has not been yet; None when it is not known."""
        if term.known is None and term.tensor is not None:
            term.known = self.program.weights.value(term.tensor)
        return term.known

    def subgraph(self, graph: Any, scope: Scope, bound: Mapping[str, Any], prefix: str) -> list[Any]:
        """What the outputs of a body give, its inputs bound. Raises Refused."""
        inner = Scope(scope, scope.opsets, scope.attrs, prefix)
        if inner.depth >= MAX_DEPTH:
            raise refuse("E0006", prefix, what=Phrase("graphs within graphs (at most {most})", most=MAX_DEPTH))
        inner.terms.update(bound)
        for tensor in graph.initializer:
            inner.terms[tensor.name] = constants.term_of(tensor)
        count = len(self.faults)
        self.body(graph.node, inner)
        if len(self.faults) > count:
            found, self.faults[count:] = self.faults[count:], []
            raise Refused(found)
        return _sound([inner.find(output.name) for output in graph.output])


def raise_unequal(node: Node) -> None:
    """Raises Unequal where two sizes of the node's inputs must be equal and one is a symbol."""
    first, *others = [i.shape for i in node.inputs if isinstance(i, Term)] or [()]
    op = node.proto.op_type
    for shape in others:
        pairs = list(zip(reversed(first), reversed(shape)))
        if op == "Concat" and len(shape) == len(first):
            pairs = [p for a, p in enumerate(zip(first, shape)) if a != node.axis(len(first), 1)]
        elif op in ("MatMul", "Gemm") and first and shape:
            is_turned = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
            pairs = [
                (first[-2 if is_turned[0] else -1], shape[-1 if is_turned[1] or len(shape) == 1 else -2]),
                *pairs[2:],
            ]
        is_broadcast = op not in ("Concat", "MatMul", "Gemm")
        for x, y in pairs:
            if 1 not in (x.constant, y.constant):
                _raise_where_solved(x - y, node if is_broadcast and x.name and y.name else None)


def _raise_where_solved(difference: Expr, node: Node | None) -> None:
    """Raises Unequal with what makes the difference 0, where one symbol does: the later operand's, if both have one.
    `node`: that would broadcast either symbol if it were 1."""
    for sign in (-1, 1):
        for coefficient, monomial in difference.terms:
            if coefficient == sign and len(monomial) == 1 and isinstance(monomial[0], str):
                size = Expr.of(monomial[0]) - sign * difference
                if monomial[0] not in size.names() and (size.constant is None or size.constant >= 0):
                    facts = {"symbol": monomial[0], "size": size}
                    note = Diag("W2106", node_word(node.proto), {"op": word_of(node.proto), **facts}) if node else None
                    raise Unequal(monomial[0], size, note)


def word_of(node: Any) -> str:
    """An op as messages name it."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def node_word(node: Any) -> str:
    """A node as messages name it: by its name, else by what it gives."""
    return node.name or next((o for o in node.output if o), node.op_type)


def _sound(results: list[Any]) -> list[Any]:
    """The results of a body. Where one hangs on an earlier fault that has been said, the node around gives nothing
    either."""
    if any(r is FAULTY for r in results):
        raise Refused([])
    return results
