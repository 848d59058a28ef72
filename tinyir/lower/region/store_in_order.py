"""A fold and a movement of its result: the fold writes each element where the movement has it, and nothing is moved.

before: region o yields o[i0, i1, i2]; region y yields y[i0, i1] = o[floor(i1/64), i0, i1 - 64*floor(i1/64)]
after:  region o yields y[i1, 64*i0 + i2] = %o

The movement changes the order alone, so that each of its elements is written once.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.scope import Scope
from .cluster import Cluster, outside_of
from .graph import Graph
from .movements import written_at


def store_in_order(producer: Cluster, consumer: Cluster, graph: Graph) -> Cluster | None:
    """The producer with the consumer's one value, a movement, among what it writes; None where it is not so."""
    if len(consumer.members) != 1 or producer.is_memory:
        return None
    (node,) = consumer.members.values()
    read = node.reads[0].read
    if node.kind != "movement" or read is None or read.source not in producer.place:
        return None
    source = producer.members[read.source]
    scope = Scope(tuple((a.name, a.size) for a in source.own), graph.ranges())
    index = written_at(node.name, source.name, graph.program.value_of(), graph.types, scope)
    if index is None:
        return None
    members = {**producer.members, node.name: node}
    whole = replace(producer, members=members, stored={**producer.stored, node.name: (source.name, index)})
    whole.open = {n: None for n in (*producer.open, *consumer.open) if whole.is_read_outside(n, graph)}
    whole.sources = outside_of(members, iter(producer.sources), graph)
    return whole


__all__ = ["store_in_order"]
