"""A value that one other kernel alone reads is computed there, where what it is made of is in memory all the same and
takes fewer bytes: one tensor less goes through memory.

before: region q yields q and cos = q*c; region turned reads cos[i] and q[i + 1]
after:  region q yields q; region turned computes cos = q[i]*c[i], and reads q[i] and q[i + 1]

The joins go through the program in order, so that a value finds its maker before its reader. Where the reader has it at
other points than its own axes (a reshape), it is computed at each read. What reads that reader is tried again: a sum of
squares that were made by the product before them did not read the row that the norm behind it reads.
"""

from __future__ import annotations

from ...kit.records import replace
from .cluster import Cluster, joined, part_of, start_of
from .fuse import MOST_VALUES, Partition
from .fuse_prologues import forget, say, take_in


def sink_values(found: Partition) -> None:
    """Move, in place, what takes fewer bytes at its reader."""
    for name, node in found.graph.nodes.items():
        maker = found.cluster_of(name)
        if maker is None or node.kind != "elementwise" or name not in maker.open or found.graph.results_of(name):
            continue
        reader = _only_reader(name, maker, found)
        if reader is not None and _takes_fewer_bytes(name, maker, reader, found) and _move(name, maker, reader, found):
            found.join_readers(name)


def _only_reader(name: str, maker: Cluster, found: Partition) -> Cluster | None:
    """The one cluster that reads a value, which is another than its maker; None where there are several, or one that
    multiplies on tensor cores."""
    readers = {c.number: c for user in found.graph.users[name] for c in found.computing(user)}
    if len(readers) != 1 or maker.number in readers:
        return None
    (reader,) = readers.values()
    return None if reader.is_memory or reader.heavy() or reader.is_streamed else reader


def _takes_fewer_bytes(name: str, maker: Cluster, reader: Cluster, found: Partition) -> bool:
    """Whether what a value is made of is in memory without it, and to read that takes less than the value's round
    trip."""
    graph = found.graph
    alone = start_of(graph.nodes[name], maker.number, graph, found.free)
    sources = {s for node in alone.members.values() for s in node.sources if s not in alone.members}
    read = {s for node in reader.members.values() for s in node.sources}
    if not sources & maker.members.keys():
        return False
    if not all(_is_in_memory(s, name, maker, found) for s in sources & maker.members.keys()):
        return False
    return sum(found.bytes_of(s) for s in sources - read) < 2 * found.bytes_of(name)


def _is_in_memory(source: str, name: str, maker: Cluster, found: Partition) -> bool:
    """Whether a value goes to memory for others than the value `name`."""
    users = (user for user in found.graph.users[source] if user != name)
    return bool(found.graph.results_of(source)) or any(
        c.number != maker.number for user in users for c in found.computing(user)
    )


def _move(name: str, maker: Cluster, reader: Cluster, found: Partition) -> bool:
    """Whether it has been moved."""
    graph = found.graph
    alone = start_of(graph.nodes[name], maker.number, graph, found.free)
    kept = part_of(maker, _needed(maker, name), graph)
    if not kept.members.keys() - kept.copies or found.family_fault(kept):
        return False
    whole = joined(alone, reader, graph, found.order)
    if whole == "other point":
        _compute_at_reads(name, alone, maker, reader, found)
        return False
    if isinstance(whole, str) or found.fault(alone, reader, whole):
        return False
    found.split(maker, kept, alone)
    if not found.join(alone, reader, name):
        return False
    for pair, verdict in found.verdicts.items():
        if pair[1] == name and pair[0] in kept.members and verdict.is_fused:
            found.verdicts[pair] = replace(verdict, is_fused=False, rule="sunk")
    return True


def _compute_at_reads(name: str, alone: Cluster, maker: Cluster, reader: Cluster, found: Partition) -> None:
    """Move a value whose reader has it at other points, with the copies that it is `alone` made of, where a family
    holds the reader then."""
    work = alone.members
    before = reader.copies, reader.members, reader.sources
    take_in(work, reader, found)
    if len(reader.members) > MOST_VALUES or found.family_fault(reader):
        for taken in work.keys() - before[1].keys():
            found.holders[taken].discard(reader.number)
        reader.copies, reader.members, reader.sources = before
        return
    say(name, [reader], found, "prologue", {})
    forget(name, maker, False, work, found)
    for edge in ((s, n) for n, node in work.items() for s in node.sources if s not in work):
        if edge in found.verdicts:
            found.verdicts[edge] = replace(found.verdicts[edge], is_fused=False, rule="sunk")


def _needed(maker: Cluster, name: str) -> set[str]:
    """The members without a value, and without the copies that it alone reads."""
    names = set(maker.members) - {name}
    while True:
        read = {s for n in names for s in maker.members[n].sources}
        loose = {n for n in names & maker.copies if n not in read}
        if not loose:
            return names
        names -= loose
