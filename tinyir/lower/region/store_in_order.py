"""A value and what is done to it after a movement: each element is written where the movement has it, and nothing is
moved.

before: region o yields o[i0, i1, i2]; region y yields y[i0, i1] = relu(o[floor(i1/64), i0, i1 - 64*floor(i1/64)])
after:  region o yields y[i1, 64*i0 + i2] = relu(%o)

The movement changes the order alone, so that each of its elements is written once. What the reader reads beside it is
read at the point where it is written. Of several values of the region the reader takes the same element: x * sigmoid(x)
of a value that has been moved.
"""

from __future__ import annotations

from ...analysis.access import simplify
from ...ir.expr import ONE, ZERO, Expr
from ...ir.index import Access, Piece, Read
from ...ir.scope import Scope
from ...kit.records import replace
from .cluster import Cluster, outside_of, reads_between
from .graph import Graph, Node
from .movements import written_at

MOST_MEMBERS = 8  # of the reader: they become one expression
KINDS = ("elementwise", "movement")
Stored = tuple[str, tuple[Expr, ...]]


def store_in_order(producer: Cluster, consumer: Cluster, graph: Graph) -> Cluster | None:
    """The producer with the consumer's one result among what it writes; None where it is not so."""
    if (
        producer.is_memory
        or len(consumer.members) > MOST_MEMBERS
        or any(n.kind not in KINDS for n in consumer.members.values())
    ):
        return None
    reads = {(reader.name, source.name, read) for reader, source, read in reads_between(producer, consumer, graph)}
    results = consumer.escaping(graph)
    if not reads or len(results) != 1:
        return None
    stored = {_stored_at(results[0], read, producer, consumer, graph) for read in reads}
    if len(stored) != 1 or None in stored:
        return None
    members = {**producer.members, **{n: node for n, node in consumer.members.items() if n not in producer.members}}
    copies = producer.copies | {n for n in consumer.copies if n not in producer.members}
    whole = replace(producer, members=members, copies=copies, stored={**producer.stored, results[0]: stored.pop()})
    whole.open = {n: None for n in (*producer.open, *consumer.open) if whole.is_read_outside(n, graph)}
    whole.sources = outside_of(members, iter({**producer.sources, **consumer.sources}), graph)
    return whole


def _stored_at(
    result: str, reads: tuple[str, str, Read], producer: Cluster, consumer: Cluster, graph: Graph
) -> Stored | None:
    """The producer's value at whose elements a result is written, and where, as one read has it; None where not each
    element is written once."""
    reader, source, read = reads
    placed = _places(graph.nodes[reader], source, read, producer, graph)
    index = _index_of(result, reader, placed, consumer) if placed is not None else None
    return None if index is None else (producer.stored.get(source, (source,))[0], index)


def _places(reader: Node, source: str, read: Read, producer: Cluster, graph: Graph) -> tuple[Expr, ...] | None:
    """For each axis of the reader, where it is when the current element of the value in its place is written; None
    unless the reader has each element once."""
    home, inner = producer.stored.get(source, (source, None))
    if home not in producer.place:
        return None
    scope = Scope(tuple((a.name, a.size) for a in producer.members[home].own), graph.ranges())
    tops = (reader.name,) if reader.kind == "movement" else reader.value.operands
    for top in tops:
        index = written_at(
            top,
            source,
            graph.values,
            graph.types,
            Scope(tuple((a.name, a.size) for a in graph.nodes[source].own), graph.ranges()),
        )
        if index is None:
            continue
        back = _simplified(
            [e.substitute({f"i{at}": x for at, x in enumerate(index)}) for e in read.index], source, graph
        )
        if all(e == Expr.of(a.name) or a.size == ONE for e, a in zip(back, graph.nodes[source].own)):
            if inner is None:
                return index
            moved = [e.substitute({f"i{at}": x for at, x in enumerate(inner)}) for e in index]
            return tuple(simplify(Access((Piece((), Read(source, tuple(moved))),)), scope).pieces[0].target.index)
    return None


def _simplified(index: list[Expr], source: str, graph: Graph) -> tuple[Expr, ...]:
    scope = Scope(tuple((a.name, a.size) for a in graph.nodes[source].own), graph.ranges())
    return simplify(Access((Piece((), Read(source, tuple(index))),)), scope).pieces[0].target.index


def _index_of(result: str, reader: str, placed: tuple[Expr, ...], consumer: Cluster) -> tuple[Expr, ...] | None:
    """The index at which the consumer's result is written; None when it has an axis that the reader has not."""
    here, there = consumer.place.get(reader), consumer.place.get(result)
    if here is None or there is None:
        return None
    at = {here[a.name]: e for a, e in zip(consumer.members[reader].own, placed) if a.name in here}
    if not set(there.values()) <= at.keys() or len(there) != len(here):
        return None
    return tuple(at[there[a.name]] if a.name in there else ZERO for a in consumer.members[result].own)
