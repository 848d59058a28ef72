"""The graphs of a DSL program as they are written: header, statements, and what can be told from their trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.attrs import Attrs
from ..ir.expr import Expr
from ..ir.model import RESERVED_SYMBOLS, TENSOR_ATTRS, read_schema
from ..ir.read import name_of, read_at, read_attrs
from ..ir.types import TensorType
from ..kit.diag import Diag, Label, Refused, collecting
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.span import Span
from ..kit.text import token_span
from .dslexpr import WORDS, bound
from .shorttypes import read_short

RESERVED = ("graph", "return", "fused", "fused_reduce", "fused_cumulative", "true", "false")


@dataclass(frozen=True, slots=True)
class Param:
    """An input or output of a graph."""

    name: str
    token: Any  # of its type
    type: TensorType
    attrs: Attrs
    span: Span | None


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph as it is written: shape variables with their defaults, inputs, outputs, statements."""

    name: str
    symbols: tuple[tuple[str, int | None], ...]
    params: tuple[Param, ...]
    results: tuple[Param, ...]
    body: tuple[Any, ...]
    span: Span
    broken: tuple[str, ...] = ()  # parameters with a fault that has been said


class GraphReader:
    """Headers read, with the faults in them."""

    def __init__(self, text: str):
        self.text = text
        self.faults: list[Diag] = []

    def fault(self, code: str, span: Span | None, at: str = "", labels: tuple[Label, ...] = (), **facts: Any) -> None:
        """Note a diagnostic."""
        self.faults.append(Diag(code, at, facts, span, labels))

    def graph(self, tree: Any) -> Graph:
        """A graph's header, checked for words that are reserved (E0131), symbols that are not declared (E0134) or say
        nothing of a default (E0136), names used twice (E1301)."""
        symbols, params, results, body, name = [], [], [], [], None
        for part in tree.children:
            if part is None:
                continue
            if not hasattr(part, "data"):
                if part.type in ("CALLEE", "IDENT"):
                    name = part
                else:
                    results = [(None, part, None)]
            elif part.data in ("symbol", "open_symbol", "bare_symbol"):
                symbols.append((str(part.children[0]), int(part.children[1]) if part.data == "symbol" else None))
                if part.data == "bare_symbol":
                    self.fault("E0136", token_span(part.children[0]), str(part.children[0]), symbol=part.children[0])
            elif part.data == "param":
                params.append(tuple(part.children))
            elif part.data == "results":
                results = [tuple(p.children) for p in part.children if p is not None]
            else:
                body.append(part)
        self.not_reserved(name, str(name))
        known = {s: Expr.of(s) for s, _ in symbols}
        for symbol in known:
            if RESERVED_SYMBOLS.match(symbol):
                self.fault("E1311", token_span(name), symbol, symbol=symbol)
        taken, given = self.params(params, known), self.params(results, known)
        broken = {name_of(i.children[0]) for i, _, _ in params} - {p.name for p in taken}
        broken |= {"->"} if len(given) < len(results) else set()
        return Graph(str(name), tuple(symbols), taken, given, tuple(body), token_span(name), tuple(broken))

    def params(self, parts: Sequence[tuple[Any, Any, Any]], known: dict[str, Expr]) -> tuple[Param, ...]:
        """Inputs or outputs (E0101, E0102, E0131, E0134, E1301); those that cannot be read are left out."""
        found: dict[str, Param] = {}
        for ident, type_token, attrs_token in parts:
            token = ident.children[0] if ident is not None else type_token
            name = name_of(token) if ident is not None else "output"
            self.not_reserved(token, name)
            try:
                type = read_short(type_token, self.text)
                type = TensorType(type.dtype, tuple(bound(d, known, type_token) for d in type.shape))
            except Refused as fault:
                self.faults += fault.diags
                continue
            attrs: Attrs = ()
            with collecting(self.faults):
                items = read_at(read_attrs, attrs_token, self.text) if attrs_token is not None else ()
                attrs = read_schema(
                    items, TENSOR_ATTRS, name, token_span(attrs_token) if attrs_token is not None else token_span(token)
                )
            if name in found:
                self.fault(
                    "E1301", token_span(token), name, (Label(found[name].span, Phrase("first here")),), name=name
                )
            found[name] = Param(name, type_token, type, attrs, token_span(token))
        return tuple(found.values())

    def not_reserved(self, token: Any, name: str) -> None:
        """E0131 for a name that is a word of the language."""
        if name in RESERVED and not str(token).startswith("%"):
            self.fault("E0131", token_span(token), name, name=name, words=", ".join(RESERVED))


def renamed(graph: Graph, targets: list[str], is_whole: bool) -> dict[str, str]:
    """Variables that a graph returns as written, and the names that the call gives them."""
    last = graph.body[-1] if graph.body and graph.body[-1].data == "give" else None
    if last is None or len(last.children) != len(targets) or not is_whole and len(targets) != 1:
        return {}
    returned = [name_of(t.children[0]) for t in last.children if t.data == "ident"]
    return dict(zip(returned, targets)) if len(returned) == len(targets) and len(set(returned)) == len(returned) else {}


def names_in(tree: Any) -> list[str]:
    """The variables that an expression reads."""
    found, pending = [], [tree]
    while pending:
        node = pending.pop()
        if hasattr(node, "data"):
            if node.data == "ident":
                found.append(name_of(node.children[0]))
            pending += node.children
    return found[::-1]


def word_of(tree: Any) -> str:
    """What a statement does, for where its values came from."""
    if tree.data in ("call", "fused"):
        return str(tree.children[0])
    if tree.data == "method":
        return str(tree.children[1])[1:]
    if tree.data == "binary":
        return WORDS.get(str(tree.children[1]), "matmul")
    return {"prefix": "neg", "ident": "variable"}.get(tree.data, tree.data)
