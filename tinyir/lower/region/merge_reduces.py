"""R0: a fold of a fold by the same op is one fold over the axes of both (seed 001 section 6.6).

before: in x : fp32[M, N, K]
        %a = REDUCE(x) {op=SUM, axes=[2], dtype=fp32} : fp32[M, N]
        %b = REDUCE(%a) {op=SUM, axes=[1], dtype=fp32} : fp32[M]
after:  in x : fp32[M, N, K]
        %b = REDUCE(x) {op=SUM, axes=[1, 2], dtype=fp32} : fp32[M]

The inner fold must have no other reader and the accumulator of the outer one. Sums associate anew, as C-CON1 allows any
order.
"""

from __future__ import annotations

from ...analysis.access import compose
from ...ir.index import Axis
from ...ir.scope import Scope
from ...kit.records import replace
from .graph import Graph, Node
from .write import moved

MERGEABLE = ("SUM", "PROD", "MAX", "MIN")


def merge_reduces(graph: Graph) -> tuple[Graph, tuple[tuple[str, str], ...]]:
    """The graph with such folds merged, and the pairs (inner, outer) that were."""
    nodes = dict(graph.nodes)
    merged: list[tuple[str, str]] = []
    for name in graph.nodes:
        node = nodes[name]
        inner = _inner(node, nodes, graph)
        while inner is not None:
            node = nodes[name] = _joined(node, inner, graph)
            merged.append((inner.name, name))
            del nodes[inner.name]
            inner = _inner(node, nodes, graph)
    if not merged:
        return graph, ()
    return replace(graph, nodes=nodes), tuple(merged)


def _inner(node: Node, nodes: dict[str, Node], graph: Graph) -> Node | None:
    """The fold that `node` folds again, when they can be one."""
    if node.kind != "reduction" or node.value.attr("op") not in MERGEABLE or node.is_heavy:
        return None
    (access,) = node.reads
    read = access.read
    inner = nodes.get(read.source) if read is not None else None
    if inner is None or inner.kind != "reduction" or inner.is_heavy or inner.value.attr("op") != node.value.attr("op"):
        return None
    if inner.value.type.dtype != node.value.type.dtype or graph.results_of(inner.name):
        return None
    return inner if len(graph.users[inner.name]) == 1 else None


def _joined(outer: Node, inner: Node, graph: Graph) -> Node:
    extra = tuple(Axis(f"k{len(outer.extra) + at}", a.size, a.kind) for at, a in enumerate(inner.extra))
    rename = {a.name: new.name for a, new in zip(inner.extra, extra)}
    axes = (*outer.axes, *extra)
    scope = Scope(tuple((a.name, a.size) for a in axes), graph.ranges())
    value = replace(outer.value, operands=inner.value.operands)
    return replace(
        outer,
        value=value,
        axes=axes,
        reads=(compose(outer.reads[0], moved(inner.reads[0], rename), scope),),
        leaves=inner.leaves,
    )
