"""The nodes of ONNX graphs in an order in which each comes after those that it reads. The standard asks for one, and
some exporters do not keep it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..order import in_order


def sort_nodes(graph: Any) -> bool:
    """Put the nodes of a graph, and of the graphs in it, in order, in place; those that read one another in a circle
    stay as they are. Whether any has moved."""
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waits, has_moved = [], False
    for index, node in enumerate(graph.node):  # noqa: B007
        for body in graphs_of(node):
            has_moved = sort_nodes(body) or has_moved
        waits.append({maker[name] for name in _read(node) if name in maker})
    if all(max(w, default=-1) < index for index, w in enumerate(waits)):
        return has_moved
    ordered, circle = in_order(waits)
    if circle:
        return has_moved
    nodes = [type(graph.node[index])() for index in ordered]
    for copy, index in zip(nodes, ordered):
        copy.CopyFrom(graph.node[index])
    del graph.node[:]
    graph.node.extend(nodes)
    return True


def _read(node: Any) -> Iterator[str]:
    """The names that a node reads, those of its bodies included."""
    yield from node.input
    for body in graphs_of(node):
        for inner in body.node:
            yield from _read(inner)
        yield from (output.name for output in body.output)


def graphs_of(node: Any) -> Iterator[Any]:
    """The bodies that a node has among its attributes."""
    for a in node.attribute:
        if a.HasField("g"):
            yield a.g
        yield from a.graphs
