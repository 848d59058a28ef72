"""Two contractions with row-wise work between them, one kernel: the first hands its rows to the second without leaving
the chip.

before: region s (contraction) -> buffer; region max (rows of it: softmax) -> buffer P; region o (contraction that sums
along P's rows) after:  region s (contraction and the work on its rows) -> P {materialize=deferred}; region o

The second contraction consumes P along the very axis along which its rows are folded, so a row never needs to be whole:
the folds are carried along as the axis is walked (online softmax). It pays when the second contraction's other side is
narrow, since each group of its columns walks the row again.
"""

from __future__ import annotations

from ...ir.expr import ONE
from .cluster import Cluster, joined
from .fuse import Partition, Verdict
from .graph import point_map, targets

WIDEST = 256  # columns of the second contraction that one group of threads can keep


def stream_rows(found: Partition, apart: frozenset[str] = frozenset()) -> dict[int, int]:
    """Join what can be streamed, but for the values that are `apart`; the number of each streaming cluster with that of
    its reader, which must follow it at once."""
    streams: dict[int, int] = {}
    for rows in found.in_order():
        if found.clusters.get(rows.number) is not rows or rows.heavy() or not rows.folds:
            continue
        reader = _reader_of(rows, found)
        if reader is None or reader.number in streams.values() or apart.intersection(rows.escaping(found.graph)):
            continue
        first = _first_of(rows, found)
        if first is None or first.number in streams or first.number == reader.number:
            continue
        whole = joined(first, rows, found.graph, found.order)
        if (
            isinstance(whole, str)
            or found.cycle(first, rows)
            or any(not whole.iters(found.graph) <= whole.own(f) for f in whole.heavy())
        ):
            continue
        if found.cycle(whole, reader, parts=(first, rows)):
            continue
        whole.is_streamed = True
        found.replace(first, rows, whole)
        streams[whole.number] = reader.number
        (value,) = whole.escaping(found.graph)
        saved = found.bytes_of(value)
        for user in found.graph.users[value]:
            found.verdicts[value, user] = Verdict(value, user, True, "deferred", saved)
    return streams


def _reader_of(rows: Cluster, found: Partition) -> Cluster | None:
    """The contraction that alone reads the cluster's one result, summing along the axis that the cluster folds; None
    without one."""
    graph = found.graph
    escaping = rows.escaping(graph)
    if len(escaping) != 1 or graph.results_of(escaping[0]):
        return None
    (value,) = escaping
    readers = [
        c
        for c in found.clusters.values()
        if c.number != rows.number and any(u in c.members for u in graph.users[value])
    ]
    if len(readers) != 1 or len(readers[0].heavy()) != 1:
        return None
    (reader,) = readers
    (fold,) = reader.heavy()
    folded = rows.folded(rows.folds[0])
    place = rows.place.get(value)
    if place is None:  # it is written in the order of a movement: its rows are no rows of memory
        return None
    for user in (u for u in graph.users[value] if u in reader.members):
        reads = [t for a in graph.nodes[user].reads for t in targets(a) if t.source == value]
        for read in reads:
            point = point_map(graph.nodes[user], graph.nodes[value], read)
            there = reader.place.get(user)
            if (
                point is None
                or user not in reader.copies
                or there is None
                or not place.keys() >= point.keys()
                or not there.keys() >= set(point.values())
            ):
                return None
            met = {place[own]: there[axis] for own, axis in point.items()}
            if {met[i] for i in folded if i in met} != set(reader.folded(fold)):
                return None
            wide = [reader.sizes[i] for i in reader.own(fold) - set(met.values())]
            total = ONE
            for size in wide:
                total = total * size
            if total.constant is None or total.constant > WIDEST:
                return None
    return reader


def _first_of(rows: Cluster, found: Partition) -> Cluster | None:
    """The one contraction whose results only this cluster reads; None without one."""
    graph = found.graph
    heavy = {c.number: c for c in map(found.cluster_of, rows.sources) if c is not None and c.heavy()}
    if len(heavy) != 1:
        return None
    (first,) = heavy.values()
    outside = [c for c in found.clusters.values() if c.number not in (first.number, rows.number)]
    escaping = first.escaping(graph)
    if any(graph.results_of(n) for n in escaping) or any(
        u in c.members for n in escaping for u in graph.users.get(n, ()) for c in outside
    ):
        return None
    return first


__all__ = ["WIDEST", "stream_rows"]
