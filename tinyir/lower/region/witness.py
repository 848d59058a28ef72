"""What shows that two clusters must not be one kernel, for who demanded it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.expr import Expr
from ...kit.phrase import Listing, Phrase
from .cluster import MOST_VALUES, Cluster
from .compute_at_reads import MOST_TERMS
from .graph import Graph
from .normalise import MOST_FOLDED, drafted, why_several

WITNESSED = ("size", "family", "memory", "two folds", "other rows", "points", "no point")


def witness_of(
    rule: str,
    left: Cluster,
    right: Cluster,
    found: Cluster | str,
    graph: Graph,
    order: Mapping[str, int],
    zero: Mapping[Expr, bool],
) -> str:
    """The numbers, folds, axes or ops that a rule is about. `found` is both clusters as one where their axes are one
    space; `zero` tells of sizes whether they may be 0."""
    if rule == "memory":
        return ", ".join(f"{n.value.op} %{n.name}" for c in (left, right) if c.is_memory for n in c.members.values())
    count = len(left.members.keys() | right.members.keys())
    if rule == "size" and count > MOST_VALUES:
        return Phrase("{count} values > {most}", count=count, most=MOST_VALUES)
    if isinstance(found, str):
        return Phrase("terms > {most}", most=MOST_TERMS) if rule == "size" else ""
    if rule == "size":
        return Phrase("folds of a thread > {most}", most=MOST_FOLDED)
    if rule == "family":
        return why_several(drafted(found, graph, order))
    if rule in ("two folds", "other rows"):
        return Listing(
            Phrase("%{value} along {axes}", value=f, axes=_sizes(found, found.parallel(f))) for f in found.folds
        )
    if rule == "again":
        loose = {f: found.iters(graph) - found.own(f) - found.folded(f) for f in found.folds}
        return Listing(
            Phrase("%{value} again along {axes}", value=f, axes=_sizes(found, axes))
            for f, axes in loose.items()
            if axes
        )
    if rule == "no point":
        return ", ".join(f"{size} = 0" for size in dict.fromkeys(found.sizes.values()) if zero.get(size))
    if rule == "points":
        return Listing(
            Phrase("%{value} along {axes}", value=n, axes=_sizes(found, found.lying(n)))
            for n in found.escaping(graph)
            if n in found.place
        )
    return ""


def _sizes(found: Cluster, axes: Iterable[int]) -> str:
    return f"[{', '.join(str(found.sizes[i]) for i in sorted(axes))}]"
