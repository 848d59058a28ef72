"""A producer that its reader wants at other points: computed at each of them, where that takes less than a round trip
through memory.

before: region blur yields blur[i0] = add(x[i0], x[i0 + 1]); region y yields y[i0] = add(blur[i0], blur[i0 + 1])
after:  region y yields y[i0] = add(add(x[i0], x[i0 + 1]), add(x[i0 + 1], x[i0 + 2]))

Neighbouring points of the reader share what is in the halo, and compute it again. The producer must have no other
reader, no fold but short windows. What a contraction multiplies has a cost of its own (`fuse_prologues`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...analysis.traffic import SLOW, SLOW_OPS, recompute, round_trip
from ...ir.expr import Expr, Floor
from ...kit.groups import lists_of
from .cluster import Cluster, outside_of, reads_between
from .graph import Graph, Node, targets

MOST_TAPS = 64  # points of a window that is folded at each point of its reader
MOST_TERMS = 64  # ops and reads of the text that one cluster may become in another: more cannot be read
FEW_PLACES = 64
RUN = 16  # elements along an axis that a thread of a fold has, at least
KINDS = ("elementwise", "movement", "reduction")


def compute_at_reads(
    producer: Cluster, consumer: Cluster, graph: Graph, points: Mapping[str, int], is_demanded: bool = False
) -> Cluster | str:
    """The consumer with the producer's members as copies without a place, or why not: `memory`, `operand`, `other
    point`, `size` or, unless it `is_demanded`, `cost`. `points` gives the points of each value, typically."""
    if producer.is_memory or consumer.is_memory:
        return "memory"
    if consumer.heavy() and any(
        r.is_heavy or r.name in consumer.copies for r, _, _ in reads_between(producer, consumer, graph)
    ):
        return "operand"
    if not _is_short(producer) or not _is_read_by(consumer, producer, graph):
        return "other point"
    works = Works(producer.members, graph)
    reads: dict[str, list[int]] = {}
    evaluated = _Evaluations(consumer, points)
    for reader, source, read in reads_between(producer, consumer, graph):
        shared = (
            neighbours_at(read.index) if consumer.folds else 1
        )  # what a run of a fold shares a thread has once for it
        reads.setdefault(source.name, []).append(evaluated.of(reader.name) * _taps(reader) / shared)
    if sum(works.terms(s) * len(r) for s, r in reads.items()) > MOST_TERMS:
        return "size"
    saved = math.inf if is_demanded else sum(round_trip(points[s], graph.types[s].dtype.bytes) for s in reads)
    if sum(recompute(works.ops(s), points[s], sum(r) / points[s], works.loads(s)) for s, r in reads.items()) > saved:
        return "cost"
    members = {**producer.members, **consumer.members}
    copies = consumer.copies | (producer.members.keys() - consumer.members.keys())
    whole = Cluster(
        consumer.number,
        members,
        copies,
        consumer.place,
        consumer.sizes,
        {},
        consumer.open,
        consumer.folds,
        stored=consumer.stored,
        choosing=producer.choosing | consumer.choosing,
    )
    whole.sources = outside_of(members, iter({**producer.sources, **consumer.sources}), graph)
    return whole


def neighbours_at(index: tuple[Expr, ...]) -> int:
    """How many elements that a thread has along an axis share what is read at this index."""
    atoms = (atom for e in index for _, monomial in e.terms for atom in monomial)
    return min(RUN, max((a.den.constant or 1 for a in atoms if isinstance(a, Floor)), default=1))


def _is_short(producer: Cluster) -> bool:
    """True when nothing but windows of a known, small size is folded in it."""
    return all(n.kind in KINDS and not n.is_heavy and _taps(n) <= MOST_TAPS for n in producer.members.values())


def _taps(node: Node) -> float:
    """How often a node reads its operand at each of its points."""
    return (
        math.prod(a.size.constant if a.size.constant is not None else math.inf for a in node.extra)
        if node.kind == "reduction"
        else 1
    )


def _is_read_by(consumer: Cluster, producer: Cluster, graph: Graph) -> bool:
    """True when nobody else reads what the producer computes."""
    if any(graph.results_of(n) for n in producer.computed()):
        return False
    return all(u in consumer.members or u in producer.members for n in producer.open for u in graph.users[n])


class Works:
    """What one element of a member takes when nothing of it is there yet: ops, loads and terms of text."""

    def __init__(self, members: Mapping[str, Node], graph: Graph):
        self.members, self.graph = members, graph
        self.known: dict[str, tuple[float, float, int]] = {}

    def ops(self, name: str) -> float:
        """Arithmetic ops."""
        return self._of(name)[0]

    def loads(self, name: str) -> float:
        """Elements read from outside."""
        return self._of(name)[1]

    def terms(self, name: str) -> int:
        """Ops and reads as text."""
        return self._of(name)[2]

    def _of(self, name: str) -> tuple[float, float, int]:
        if name not in self.known:
            node = self.members[name]
            ops, loads, terms = 0.0, 0.0, 1
            for read in (t for access in node.reads for t in targets(access)):
                inner = (
                    self._of(read.source)
                    if read.source in self.members
                    else (0.0, float(read.source not in node.leaves), 1)
                )
                ops, loads, terms = ops + inner[0], loads + inner[1], terms + inner[2]
            own = 0 if node.kind == "movement" else SLOW_OPS if node.value.op in SLOW else 1
            each = 0.0 if loads == 0 and self._is_of_few_places(name) else own + ops
            self.known[name] = each * _taps(node), loads * _taps(node), terms
        return self.known[name]

    def _is_of_few_places(self, name: str) -> bool:
        """Whether a value has few elements, integers: without a load each is known once its place is, which is when the
        kernel is compiled, or once for a step."""
        given = self.graph.types[name]
        return given.dtype.is_integer and math.prod(s.constant or FEW_PLACES + 1 for s in given.shape) <= FEW_PLACES


class _Evaluations:
    """How often each member of a cluster is computed: once a point at its place, a copy without a place wherever it is
    read."""

    def __init__(self, cluster: Cluster, points: Mapping[str, int]):
        self.cluster, self.points = cluster, points
        self.readers = lists_of(
            (read.source, node)
            for node in cluster.members.values()
            for read in (t for access in node.reads for t in targets(access))
        )

    def of(self, name: str) -> float:
        """The number of times."""
        if name in self.cluster.place or name in self.cluster.stored:
            return self.points[name]
        return sum(self.of(reader.name) * _taps(reader) for reader in self.readers.get(name, ()))
