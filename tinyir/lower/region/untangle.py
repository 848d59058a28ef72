"""Clusters that wait for one another are taken apart: a kernel starts when all that it reads is written.

before: cluster {a, d}, cluster {b, c}: b reads a, d reads c
after:  cluster {a}, cluster {d}, cluster {b, c}

A join looks for such a path before it is made; one that leads far behind the two and back through what siblings share
is found here, where all joins are known.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from .cluster import Cluster
from .fuse import Partition


def untangle(found: Partition, streams: dict[int, int]) -> None:
    """Dissolve clusters, in place, until there is an order in which each comes after all that it reads. What is
    streamed is so no longer when its cluster is dissolved. What must share a kernel goes last."""
    while tangled := _waiting_for_one_another(found, streams):
        joined = {*streams, *streams.values()}
        most = max(
            tangled,
            key=lambda c: (found.demanded.isdisjoint(c.members), c.number not in joined, len(c.members), c.number),
        )
        for first in [f for f, second in streams.items() if most.number in (f, second)]:
            del streams[first]
        found.dissolve(most, "cycle")


def _waiting_for_one_another(found: Partition, streams: dict[int, int]) -> list[Cluster]:
    """The clusters of one circle, each of which reads what the next one writes; none when there is an order."""
    after = {second: first for first, second in streams.items()}  # the second is computed with the first
    needs: dict[int, set[int]] = {}
    for cluster in found.clusters.values():
        number = after.get(cluster.number, cluster.number)
        sources = (found.cluster_of(s) for s in cluster.sources)
        needs.setdefault(number, set()).update(
            {after.get(c.number, c.number) for c in sources if c is not None} - {number}
        )
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as fault:
        return [c for c in found.clusters.values() if after.get(c.number, c.number) in fault.args[1]]
    return []
