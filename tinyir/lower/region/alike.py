"""Clusters without names: what those have in common whose regions are the same but for names. A network's layers make
the same clusters again and again, and what no name decides is asked of the first of them alone.

    members relu1(gemm1, ...), gemm1(h0, W1)   and   relu2(gemm2, ...), gemm2(h1, W2)   →   one form

A node's kind says all of it but names: op, type, axes, and its reads, their sources counted as they come.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ...ir.index import Read
from .cluster import Cluster
from .graph import Graph, Node


def form_of(cluster: Cluster, graph: Graph, order: Mapping[str, int]) -> Hashable:
    """The cluster with numbers for names: its members in the program's order, each with its kind, its axes and the
    numbers of what it reads; what leaves it, in the order in which it says so."""
    number = {name: at for at, name in enumerate(sorted(cluster.members, key=order.__getitem__))}
    outside: dict[str, int] = {}

    def place_of(source: str) -> Hashable:
        return number[source] if source in number else (outside.setdefault(source, len(outside)), graph.types[source])

    members = tuple(
        (
            kind_of(cluster.members[name], graph),
            tuple(map(place_of, _read_by(cluster.members[name], graph))),
            tuple(cluster.place[name].items()) if name in cluster.place else None,
            name in cluster.copies,
        )
        for name in number
    )
    return (
        members,
        tuple(cluster.sizes.items()),
        tuple(number[name] for name in cluster.folds),
        tuple(number[name] for name in cluster.escaping(graph)),
        tuple((number[name], number[source], index) for name, (source, index) in cluster.stored.items()),
        cluster.is_streamed,
    )


def kind_of(node: Node, graph: Graph) -> int:
    """A number that nodes share which are the same but for names, in this graph."""
    if node.name not in graph.kind_of:
        graph.kind_of[node.name] = graph.kinds.setdefault(_bare(node, graph), len(graph.kinds))
    return graph.kind_of[node.name]


def _bare(node: Node, graph: Graph) -> Hashable:
    """The node without names."""
    value = node.value
    number = {name: at for at, name in enumerate(_read_by(node, graph))}

    def source_of(name: str) -> Hashable:
        if name in number:
            return number[name]
        leaf = graph.leaves[name]
        return leaf.op, tuple((key, repr(what)) for key, what in leaf.attrs), leaf.type

    reads = tuple(
        tuple(
            (piece.guard, source_of(piece.target.source), piece.target.index)
            if isinstance(piece.target, Read)
            else (piece.guard, repr(piece.target))
            for piece in access.pieces
        )
        for access in node.reads
    )
    attrs = () if value.op == "CONST" else value.attrs
    is_named = value.origin is not None and value.origin.name == value.name
    operands = tuple(graph.types[name] for name in value.operands)
    return value.op, attrs, value.type, operands, node.kind, node.axes, reads, node.is_heavy, is_named


def _read_by(node: Node, graph: Graph) -> tuple[str, ...]:
    """What a node reads of memory: its sources, and the leaves that are numbers in memory."""
    held = (name for name in sorted(node.leaves) if isinstance(graph.leaves[name].attr("value"), tuple))
    return (*node.sources, *held) if node.leaves else node.sources
