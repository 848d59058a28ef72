"""Clusters: values that are to share a kernel, and the iteration space that they share.

Each axis of each member stands for an axis of the cluster, an integer; what the members' axes have in common is found by the point
reads between them. Two axes of one value are never one axis of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Iterator

from ...ir.expr import ONE, Expr
from ...ir.ops import OPS
from .graph import Graph, Node, point_map, targets

Place = dict[str, int]
FREE_OPS = frozenset(("CAST", "NEG", "ABS", "RELU", "ADD", "SUB", "MUL", "NOT"))
MOST_FREE = 4  # ops that take no longer than a load; without a limit a chain of them would be copied whole into each reader


@dataclass(slots=True)
class Cluster:
    """Members by name, in the program's order. `copies` are members that other clusters compute for themselves as well. `place` gives
    the cluster's axis of each axis of a member; a copy that is only read at other points has none."""

    number: int
    members: dict[str, Node]
    copies: set[str]
    place: dict[str, Place]
    sizes: dict[int, Expr]
    is_streamed: bool = False
    merged: set[int] = field(default_factory=set)

    def own(self, name: str) -> frozenset[int]:
        """The axes of the shape of a member."""
        place = self.place.get(name, {})
        return frozenset(place[a.name] for a in self.members[name].own if a.name in place)

    def folded(self, name: str) -> frozenset[int]:
        """The axes that a fold of the cluster folds along."""
        node, place = self.members[name], self.place.get(name, {})
        if node.kind == "scan":
            axis = f"i{node.value.attr('axis') % node.value.type.rank}"
            return frozenset((place[axis],) if axis in place else ())
        return frozenset(place[a.name] for a in node.extra if a.name in place)

    def parallel(self, name: str) -> frozenset[int]:
        """The axes of a fold along which its results are independent."""
        return self.own(name) - self.folded(name)

    def folds(self) -> list[str]:
        """The members that fold."""
        return [n for n, node in self.members.items() if node.is_fold]

    def heavy(self) -> list[str]:
        """The members that are contractions with reuse."""
        return [n for n, node in self.members.items() if node.is_heavy]

    def computed(self) -> Iterator[str]:
        """The members that only this cluster computes."""
        return (n for n in self.members if n not in self.copies)

    def escaping(self, graph: Graph) -> list[str]:
        """The members that others read, or that are results."""
        return [n for n in self.computed() if graph.results_of(n) or any(self._is_outside(u, graph) for u in graph.users.get(n, ()))]

    def _is_outside(self, user: str, graph: Graph) -> bool:
        """True when another cluster computes `user`: a product is also computed by each contraction that sums it."""
        if user not in self.members:
            return True
        return graph.nodes[user].value.op == "MUL" and any(graph.nodes[u].is_heavy and u not in self.members for u in graph.users.get(user, ()))

    def iters(self, graph: Graph) -> frozenset[int]:
        """The axes that values and results lie along: those of folds and of what is not only read by folds."""
        found: set[int] = set()
        escaping = set(self.escaping(graph))
        for name, node in self.members.items():
            users = [u for u in graph.users.get(name, ()) if u in self.members]
            is_inner = bool(users) and all(self._folds_it(u) for u in users) and name not in escaping and not node.is_fold
            if not is_inner and (name in self.place):
                found |= self.own(name)
        return frozenset(found)

    def _folds_it(self, user: str) -> bool:
        """True when a value that `user` reads is wanted along an axis that is folded there, directly or further on."""
        node = self.members[user]
        if node.is_fold:
            return True
        return user in self.copies and user not in self.place

    def ops(self) -> int:
        """Arithmetic ops an element, folds left out."""
        return sum(OPS[node.value.op].is_elementwise and node.value.op != "CAST" for node in self.members.values())


def is_free(node: Node, graph: Graph, known: dict[str, int]) -> bool:
    """True when computing the value again costs no more than loading it: a few ops on inputs that are no larger than it is. `known`
    gives the ops of each value seen so far that is free, else 0."""
    if node.name not in known:
        known[node.name] = _ops_if_free(node, graph, known)
    return known[node.name] > 0


def _ops_if_free(node: Node, graph: Graph, known: dict[str, int]) -> int:
    if node.kind != "elementwise" or graph.results_of(node.name) or node.value.op not in FREE_OPS:
        return 0
    elements = _elements(graph.types[node.name].shape)
    read = 0
    for source in node.sources():
        if source in graph.leaves:
            continue
        if source in graph.nodes and not known.get(source):
            return 0
        read += _elements(graph.types[source].shape) == elements
    ops = 1 + sum(known.get(t.source, 0) for access in node.reads for t in targets(access))  # each operand is computed for itself
    return ops if read <= 1 and ops <= MOST_FREE else 0


def _elements(shape: tuple[Expr, ...]) -> Expr:
    total = ONE
    for size in shape:
        total = total * size
    return total


def start_of(node: Node, number: int, graph: Graph, free: dict[str, bool]) -> Cluster:
    """The cluster of one node, with copies of what it reads that is free, and of the product that it contracts."""
    sizes: dict[int, Expr] = {}
    cluster = Cluster(number, {}, set(), {}, sizes)
    _add(cluster, node, {a.name: None for a in node.axes if a.name not in node.still})
    pending = [node]
    while pending:
        reader = pending.pop()
        for source in reader.sources():
            inner = graph.nodes.get(source)
            if inner is None or source in cluster.members or reader.kind == "reshape":
                continue
            if free.get(source) or reader.is_heavy and inner.kind == "elementwise" and inner.value.op == "MUL":
                cluster.copies.add(source)
                maps = [point_map(reader, inner, t) for a in reader.reads for t in targets(a) if t.source == source]
                place = cluster.place.get(reader.name)
                if place is not None and None not in maps and all(m == maps[0] for m in maps):
                    _add(cluster, inner, {own: place[there] for own, there in maps[0].items()})
                else:
                    cluster.members[source] = inner
                pending.append(inner)
    cluster.members = {n: cluster.members[n] for n in graph.nodes if n in cluster.members} if len(cluster.members) > 1 else cluster.members
    return cluster


def _add(cluster: Cluster, node: Node, place: dict[str, int | None]) -> None:
    size_of = {a.name: a.size for a in node.axes}
    cluster.members[node.name] = node
    placed: Place = {}
    for axis, number in place.items():
        if number is None:
            number = len(cluster.sizes)
            cluster.sizes[number] = size_of[axis]
        placed[axis] = number
    cluster.place[node.name] = placed


def reads_between(producer: Cluster, consumer: Cluster) -> Iterator[tuple[Node, Node, object]]:
    """(reader, source, read) of everything in `consumer` that `producer` alone computes."""
    for reader in consumer.members.values():
        for access in reader.reads:
            for target in targets(access):
                if target.source in producer.members and target.source not in producer.copies and target.source not in consumer.members:
                    yield reader, producer.members[target.source], target


def shared_copies(left: Cluster, right: Cluster) -> Iterable[str]:
    """Members of both, with a place in both."""
    return [n for n in left.members if n in right.members and n in left.place and n in right.place]


def joined(producer: Cluster, consumer: Cluster, order: dict[str, int], by_reads: bool = False) -> Cluster | str:
    """Both as one cluster, or why their axes cannot be one space: `other point` or `axes`. `by_reads` lets what both read tell which
    axes are one even where neither folds."""
    pairs: list[tuple[int, int]] = []
    for reader, source, target in reads_between(producer, consumer):
        point = point_map(reader, source, target)
        place = consumer.place.get(reader.name)
        if point is None or place is None:
            return "other point"
        pairs += [(producer.place[source.name][own], place[there]) for own, there in point.items()]
    forced = len(pairs)
    for name in shared_copies(producer, consumer):
        pairs += [(producer.place[name][a], consumer.place[name][a]) for a in producer.place[name]]
    if by_reads or producer.folds() or consumer.folds():
        pairs += _shared_reads(producer, consumer)
    moved = _unified(producer, consumer, pairs)
    if moved is None and forced < len(pairs):  # what both compute need not be at one point: the copy is then computed twice
        moved = _unified(producer, consumer, pairs[:forced])
    if moved is None:
        return "axes"
    rename, sizes = moved
    members = {**producer.members, **consumer.members}
    members = {n: members[n] for n in sorted(members, key=order.__getitem__)}
    place = {n: dict(p) for n, p in producer.place.items()}
    for name, own in consumer.place.items():
        moved_place = {a: rename[i] for a, i in own.items()}
        if name in place and place[name] != moved_place:
            del place[name]
        else:
            place[name] = moved_place
    copies = (producer.copies | consumer.copies) - {n for c in (producer, consumer) for n in c.computed()}
    return Cluster(consumer.number, members, copies, place, sizes, False, producer.merged | consumer.merged | {producer.number})


def _shared_reads(left: Cluster, right: Cluster) -> list[tuple[int, int]]:
    """Axes of two clusters along which both read the same dim of the same outer tensor: a fold over it and what its result meets again
    lie in one row."""
    def dims(cluster: Cluster) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for node in cluster.members.values():
            place = cluster.place.get(node.name, {})
            for read in (t for access in node.reads for t in targets(access)):
                if read.source not in left.members and read.source not in right.members:
                    for dim, index in enumerate(read.index):
                        if index.name in place:
                            found.setdefault((read.source, dim), place[index.name])
        return found

    here, there = dims(left), dims(right)
    return [(here[key], there[key]) for key in here if key in there and left.sizes[here[key]] == right.sizes[there[key]]]


def _unified(producer: Cluster, consumer: Cluster, pairs: list[tuple[int, int]]) -> tuple[dict[int, int], dict[int, Expr]] | None:
    """The consumer's axes by the producer's numbers, and the sizes of all; None when two axes of one value would be one."""
    rename: dict[int, int] = {}
    for there, here in pairs:
        if rename.setdefault(here, there) != there:
            return None
    if len(set(rename.values())) != len(rename):
        return None
    sizes = dict(producer.sizes)
    for number, size in consumer.sizes.items():
        if number not in rename:
            rename[number] = max(sizes, default=-1) + 1
            sizes[rename[number]] = size
        elif sizes[rename[number]] != size:
            return None
    for place in (*producer.place.values(), *({a: rename[i] for a, i in p.items()} for p in consumer.place.values())):
        if len(set(place.values())) != len(place):
            return None
    return rename, sizes


__all__ = ["Cluster", "is_free", "joined", "reads_between", "start_of"]
