"""Clusters that do not depend on each other but read one tensor at the same points: one pass over it does both.

before: region mean reads X[i0, k0]; region top reads X[i0, k0]
after:  region mean yields both, reading X once

Rows must be the same rows, and a map's points the same points; contractions keep to themselves.
"""

from __future__ import annotations

from .cluster import Cluster, joined
from .fuse import NEVER, Partition, Verdict
from .graph import Graph


def join_siblings(found: Partition) -> None:
    """Join, in place, what may be joined, the clusters taken in the program's order."""
    readers: dict[str, list[int]] = {}
    for number in sorted(found.clusters):
        for name in dict.fromkeys(s for m in found.clusters[number].members for s in found.graph.nodes[m].sources()):
            if name not in found.clusters[number].members:
                readers.setdefault(name, []).append(number)
    for name, numbers in readers.items():
        for at, number in enumerate(numbers):
            for other in numbers[at + 1 :]:
                left, right = found.clusters.get(number), found.clusters.get(other)
                if left is not None and right is not None and left.number != right.number:
                    _try(left, right, name, found)


def _try(left: Cluster, right: Cluster, name: str, found: Partition) -> None:
    graph = found.graph
    if left.heavy() or right.heavy() or any(n.kind in NEVER for c in (left, right) for n in c.members.values()):
        return
    if bool(left.folds()) != bool(right.folds()) or found.depends(left, right) or found.depends(right, left):
        return
    whole = joined(left, right, found.order, by_reads=True)
    if isinstance(whole, str) or found.family_fault(whole) or not _is_one_space(left, right, whole, graph):
        return
    found.replace(left, right, whole)
    for a in left.computed():
        for b in right.computed():
            if name in graph.nodes[a].sources() and name in graph.nodes[b].sources():
                found.verdicts[a, b] = Verdict(a, b, True, "sibling", found.bytes_of(name))


def _is_one_space(left: Cluster, right: Cluster, whole: Cluster, graph: Graph) -> bool:
    """True when both lie along the same axes, folded ones included."""
    def axes(cluster: Cluster) -> set[int]:
        return {i for m in cluster.computed() for i in whole.place.get(m, {}).values()}

    return bool(axes(left)) and axes(left) == axes(right)


__all__ = ["join_siblings"]
