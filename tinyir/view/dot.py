"""A graph as Graphviz DOT, without Graphviz."""

from __future__ import annotations

import json

from ..kit.groups import lists_of
from .graph import Graph

_STYLES = {
    "input": 'shape=ellipse, style=filled, fillcolor="#dbe9f6"',
    "output": 'shape=ellipse, style=filled, fillcolor="#d9f0dc"',
    "value": "shape=box",
    "movement": 'shape=box, style=dashed, color="#888888", fontcolor="#555555"',
    "constant": 'shape=box, style=dotted, color="#888888"',
    "block": "shape=box, style=rounded",
    "region": "shape=box, style=rounded",
    "kernel": 'shape=box, style=filled, fillcolor="#f6ecd9"',
    "buffer": 'shape=cylinder, style=filled, fillcolor="#eeeeee"',
}


def dot_of(graph: Graph) -> str:
    """The text of a graph; nodes of one group are in a cluster."""
    lines = [f"digraph {_quoted(graph.name or 'program')} {{"]
    lines += [
        "  rankdir=TB;",
        '  node [fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=8];',
    ]
    groups = lists_of((node.group, node) for node in graph.nodes)
    for number, (group, nodes) in enumerate(groups.items()):
        inner = "  " if group and len(nodes) > 1 else ""
        if inner:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(group)};", '    color="#bbbbbb";']
        lines += [f"  {inner}{_quoted(n.id)} [label={_quoted(n.label)}, {_STYLES[n.kind]}];" for n in nodes]
        lines += ["  }"] if inner else []
    for edge in graph.edges:
        label = f" [label={_quoted(edge.label)}]" if edge.label else ""
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{label};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """A string of DOT: of the escapes of JSON it has those for quotes, backslashes and line feeds."""
    return json.dumps(text, ensure_ascii=False)
