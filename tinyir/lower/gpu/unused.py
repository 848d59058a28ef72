"""Takes out the integers and the picked tensors that nothing uses: a pass over a row that takes everything from registers has no use for its column,
a role that splits every tile none for the tile's place."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Iterable, Iterator

from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement


def without_unused(body: Iterable[Statement]) -> tuple[Statement, ...]:
    """The block without each `let`, `pick` and `order` none of whose names stands in a later statement of it."""
    kept: list[Statement] = []
    used: set[str] = set()
    for s in reversed(tuple(body)):
        if isinstance(s, (nodes.Let, nodes.Pick)) and s.name not in used or isinstance(s, nodes.Order) and used.isdisjoint(s.names):
            continue
        inner = {block: without_unused(found) for block in ("body", "otherwise") if isinstance(found := getattr(s, block, None), tuple)}
        s = replace(s, **inner) if inner else s
        used.update(_names_in(s))
        kept.append(s)
    return tuple(reversed(kept))


def _names_in(node: Any) -> Iterator[str]:
    if isinstance(node, nodes.Let):
        yield from node.value.names()
    elif isinstance(node, Expr):
        yield from node.names()
    elif isinstance(node, str):
        yield node
    elif isinstance(node, tuple) or is_dataclass(node):
        for item in node if isinstance(node, tuple) else (getattr(node, f.name) for f in fields(node) if f.compare):
            yield from _names_in(item)
