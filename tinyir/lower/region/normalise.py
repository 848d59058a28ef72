"""The normal form of a region, and the region that a cluster would become: what a family of kernels is asked about
before clusters are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.body import Gather, Reduce, Scan, Scatter, walk
from ...ir.region import Region, Tensor
from ...ir.traits import bodies_of
from ...kernels import can_hold
from ...kernels.alternatives.parts import Names, Surroundings
from ...kernels.alternatives.split_siblings import split_siblings
from ...kernels.problem import why_none
from ...kernels.siblings import siblings_of
from ...kit.records import replace
from ...kit.work import count
from .alike import form_of
from .apply_epilogue import apply_epilogue
from .cluster import Cluster
from .distribute import distribute
from .graph import Graph
from .hoist_invariant import hoist_invariant
from .keep_barriers import keep_barriers
from .share_values import share_values
from .write import Writer

PASSES: tuple[Callable[[Region], Region], ...] = (  # rewrites of one region, in this order
    share_values,  # first: what is shared is seen before it is hoisted
    hoist_invariant,
    distribute,  # after hoisting: a common factor is a value by then
    apply_epilogue,  # after it, which leaves folds inside of expressions
    keep_barriers,  # last: every fold is a line by then
)
MOST_FOLDED = 64  # folds and places that data choose, in one thread: each keeps registers of its own


def drafted(cluster: Cluster, graph: Graph, order: Mapping[str, int]) -> Region:
    """The region of a cluster in normal form, all that it reads and writes under its values' own names."""
    outputs = {name: (name,) for name in cluster.escaping(graph)}
    tensors = _Memory(graph)
    region = Writer(graph, replace(cluster).in_order(order), outputs, tensors.__getitem__, tensors).region("draft")
    for rewrite in PASSES:
        region = rewrite(region)
    return region


class _Memory(dict[str, Tensor]):
    """Each value of a graph as memory of its own name, made when it is asked for: a draft names few of them."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def __missing__(self, name: str) -> Tensor:
        return self.setdefault(name, Tensor(name, self.graph.types[name]))


def holding_fault(cluster: Cluster, graph: Graph, order: Mapping[str, int]) -> str:
    """`family` when no family of kernels holds the region of a cluster, `size` when a thread would fold too much at
    once; else empty. One fold or none, with elementwise work, is always held, and so are places that data choose beside
    elementwise work."""
    chosen = [name for name in cluster.choosing if name in cluster.members]
    if len(chosen) < 2:
        return ""
    if all(cluster.members[name].kind == "gather" and name in cluster.place for name in chosen):
        return "size" if len(chosen) > MOST_FOLDED else ""
    form = form_of(cluster, graph, order)
    if form not in graph.faults:
        graph.faults[form] = _fault_of(drafted(cluster, graph, order))
    return graph.faults[form]


def _fault_of(region: Region) -> str:
    count("regions drafted")
    if not can_hold((region,)):
        return "family"
    held = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, (Reduce, Gather, Scan, Scatter))]
    return "size" if len(held) > MOST_FOLDED else ""


def why_several(region: Region) -> str:
    """Why no family of kernels computes a region as it is, nor the contractions in it as siblings of one launch, in
    words; empty where one does."""
    if can_hold((region,)):
        return ""
    parts = split_siblings(region, Surroundings(Names(set(), set()), lambda _: 0.0, {}))
    found = siblings_of(parts) if len(parts) > 1 else why_none(region)
    return found if isinstance(found, str) else ""
