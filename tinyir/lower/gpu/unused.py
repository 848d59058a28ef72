"""Takes out the integers and the picked tensors that nothing uses: a pass over a row that takes everything from
registers has no use for its column, a role that splits every tile none for the tile's place."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.gpu import nodes
from ...ir.gpu.extremes import EXTREMES
from ...ir.gpu.nodes import Statement
from ...ir.gpu.walk import own_names_in, words_held
from ...kit.records import replace


def without_unused(body: Iterable[Statement]) -> tuple[tuple[Statement, ...], set[str]]:
    """The block without each `let`, `least`, `most`, `pick` and `order` none of whose names a later
    statement of it has, and every name in what is left."""
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
        blocks = words_held(type(s), ("body", "otherwise"))
        inner = {block: without_unused(getattr(s, block)) for block in blocks}
        if any(_differ(found, getattr(s, block)) for block, (found, _) in inner.items()):
            s = replace(s, **{block: found for block, (found, _) in inner.items()})
        used.update(own_names_in(s), *(names for _, names in inner.values()))
        kept.append(s)
    return tuple(reversed(kept)), used


def _differ(found: tuple[Statement, ...], given: tuple[Statement, ...]) -> bool:
    """Whether a statement is gone, or is another one now."""
    return len(found) < len(given) or any(one is not other for one, other in zip(found, given))
