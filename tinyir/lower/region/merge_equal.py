"""Two values that compute the same of the same are one, whichever op of the model they came from.

before: in x : fp32[M, N]
        %a = TANH(x) : fp32[M, N]
        %b = TANH(x) : fp32[M, N]
        %y = MUL(%a, %b) : fp32[M, N]
after:  in x : fp32[M, N]
        %a = TANH(x) : fp32[M, N]
        %y = MUL(%a, %a) : fp32[M, N]

The first of the two stays. Everything here is pure, a random number included: it is its seed and its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...ir.index import Access, Fill, Piece, Read
from ...ir.ops import OPS
from ...kit.records import replace
from .graph import Graph, Node


def merge_equal(graph: Graph) -> tuple[Graph, tuple[tuple[str, str], ...]]:
    """The graph with each computation once, and the pairs (gone, kept)."""
    first: dict[Any, str] = {}
    names: dict[str, str] = {}
    for leaf in graph.leaves.values():
        kept = first.setdefault((leaf.op, repr(leaf.attrs), leaf.type), leaf.name)
        if kept != leaf.name:
            names[leaf.name] = kept
    nodes: dict[str, Node] = {}
    results = dict(graph.results)
    merged: list[tuple[str, str]] = []
    for node in graph.nodes.values():
        if any(s in names for s in (*node.sources, *node.leaves)):
            node = replace(
                node,
                reads=tuple(_renamed(a, names) for a in node.reads),
                leaves=frozenset(names.get(s, s) for s in node.leaves),
            )
        kept = first.setdefault(_likeness(node), node.name)
        if kept == node.name:
            nodes[kept] = node
            continue
        names[node.name] = kept
        merged.append((node.name, kept))
        if node.name in results:
            results[kept] = (*results.get(kept, ()), *results.pop(node.name))
    if len(nodes) == len(graph.nodes):
        return graph, ()
    return replace(graph, nodes=nodes, results=results), tuple(merged)


def _likeness(node: Node) -> Any:
    """What two nodes have in common exactly when they compute the same."""
    value = node.value
    if value.name in node.leaves:  # a leaf that is a result
        return value.name
    reads: Any = frozenset(Counter(node.reads).items()) if OPS[value.op].is_commutative else node.reads
    fills = tuple(
        repr(p.target.value) for a in node.reads for p in a.pieces if isinstance(p.target, Fill)
    )  # 0.0 equals -0.0, and is another
    return node.kind, value.op, repr(value.attrs), value.type, fills, reads


def _renamed(access: Access, names: Mapping[str, str]) -> Access:
    def put(piece: Piece) -> Piece:
        target = piece.target
        return (
            Piece(piece.guard, Read(names.get(target.source, target.source), target.index))
            if isinstance(target, Read)
            else piece
        )

    return Access(tuple(map(put, access.pieces)))
