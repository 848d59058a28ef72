"""Takes out the integers and the picked tensors that nothing uses: a pass over a row that takes everything from
registers has no use for its column, a role that splits every tile none for the tile's place."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.gpu import nodes
from ...ir.gpu.extremes import EXTREMES
from ...ir.gpu.nodes import Statement
from ...ir.gpu.walk import names_in
from ...kit.records import replace


def without_unused(body: Iterable[Statement]) -> tuple[Statement, ...]:
    """The block without each `let`, `least`, `most`, `pick` and `order` none of whose names a later
    statement of it has."""
    kept: list[Statement] = []
    used: set[str] = set()
    for s in reversed(tuple(body)):
        if (
            isinstance(s, (nodes.Let, nodes.Pick, *EXTREMES))
            and s.name not in used
            or isinstance(s, nodes.Order)
            and used.isdisjoint(s.names)
        ):
            continue
        inner = {
            block: without_unused(found)
            for block in ("body", "otherwise")
            if isinstance(found := getattr(s, block, None), tuple)
        }
        s = replace(s, **inner) if inner else s
        used.update(names_in(s))
        kept.append(s)
    return tuple(reversed(kept))
