"""Clusters: values that are to share a kernel, and the iteration space that they share.

Each axis of each member is an axis of the cluster, an integer; what the members' axes have in common is found
by the point reads between them. Two axes of one value are never one axis of the cluster.

A join costs what the smaller of the two has: the larger one's numbers stay, and what it reads and is read of is kept,
not sought.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from ...analysis.traffic import SLOW
from ...ir.expr import ONE, Expr
from ...kit.records import dataclass, field
from .graph import Graph, Node, point_map, targets

T = TypeVar("T")
Place = dict[str, int]
MEMORY = ("reshape", "scatter")
FREE_OPS = frozenset(("CAST", "NEG", "ABS", "RELU", "ADD", "SUB", "MUL", "NOT"))
MOST_FREE = (
    4  # ops that take no longer than a load; without a limit a chain of them would be copied whole into each reader
)


MOST_VALUES = 128  # of one kernel: beyond, its text is long to read and compile


@dataclass(slots=True)
class Cluster:
    """Members by name. `copies` are members that other clusters compute for themselves as well. `place` gives the
    cluster's axis of each axis of a member; a copy that is computed wherever it is read has none. `sources` are the
    computed values that it reads from outside, `open` those of its own that others read. `folds` are the members that
    fold at their place. `stored` are movements of members, with the member and the index at which each element of it is
    written. `choosing` are the members, copies too, that fold, scan or take what data choose: not every family has a
    place for them. `is_memory` marks what is about memory itself, and is a kernel alone."""

    number: int
    members: dict[str, Node]
    copies: set[str]
    place: dict[str, Place]
    sizes: dict[int, Expr]
    sources: dict[str, None]
    open: dict[str, None]
    folds: tuple[str, ...]
    is_memory: bool = False
    stored: dict[str, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)
    is_streamed: bool = False
    choosing: frozenset[str] = frozenset()
    known: dict[str, tuple] = field(default_factory=dict, repr=False, compare=False)

    def own(self, name: str) -> frozenset[int]:
        """The axes of the shape of a member."""
        place = self.place.get(name, {})
        return frozenset(place[a.name] for a in self.members[name].own if a.name in place)

    def lying(self, name: str) -> frozenset[int]:
        """The axes that the elements of a result are written along, in whichever order."""
        return self.own(self.stored[name][0] if name in self.stored else name)

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

    def heavy(self) -> list[str]:
        """The members that are contractions with reuse."""
        return [n for n in self.folds if self.members[n].is_heavy]

    def computed(self) -> Iterator[str]:
        """The members that only this cluster computes."""
        return (n for n in self.members if n not in self.copies)

    def escaping(self, graph: Graph) -> list[str]:
        """The members that others read, or that are results."""
        return [n for n in self.computed() if n in self.open or graph.results_of(n)]

    def is_read_outside(self, name: str, graph: Graph) -> bool:
        """True when another cluster reads `name`: a product is also computed by each contraction that sums it."""
        return any(self._is_outside(u, graph) for u in graph.users.get(name, ()))

    def _is_outside(self, user: str, graph: Graph) -> bool:
        if user not in self.members:
            return True
        return graph.nodes[user].value.op == "MUL" and any(
            graph.nodes[u].is_heavy and u not in self.members for u in graph.users.get(user, ())
        )

    def keep(self, what: str, find: Callable[[], T]) -> T:
        """What is found of the cluster as it is; it is found again when the cluster has changed."""
        own = (self.members, self.place, self.open)
        known = self.known.get(what)
        if known is None or len(self.copies) != known[1] or any(a is not b for a, b in zip(own, known[0])):
            known = self.known[what] = (own, len(self.copies), find())
        return known[2]

    def iters(self, graph: Graph) -> frozenset[int]:
        """The axes that values and results are along: those of folds and of what is not only read by folds."""
        return self.keep("iters", lambda: self._iters(graph))

    def _iters(self, graph: Graph) -> frozenset[int]:
        found: set[int] = set()
        for name in (*self.folds, *self.open):  # most often these have all axes that there are
            place = self.place.get(name, {})
            found.update([place[a.name] for a in self.members[name].own if a.name in place])
        whole = len(self.sizes)
        for name, node in self.members.items() if len(found) < whole else ():
            place = self.place.get(name)
            own = [place[a.name] for a in node.own if a.name in place] if place is not None else []
            if found.issuperset(own):
                continue
            escapes = name not in self.copies and (name in self.open or name in graph.results)
            users = [] if node.is_fold or escapes else [u for u in graph.users.get(name, ()) if u in self.members]
            if not users or not all(map(self._folds_it, users)):
                found.update(own)
                if len(found) == whole:
                    break
        return frozenset(found)

    def _folds_it(self, user: str) -> bool:
        """True when a value that `user` reads is wanted along an axis that is folded there, directly or further on."""
        return self.members[user].is_fold or user in self.copies and user not in self.place

    def in_order(self, order: dict[str, int]) -> Cluster:
        """The cluster with its members in the program's order."""
        self.members = {n: self.members[n] for n in sorted(self.members, key=order.__getitem__)}
        return self


def is_free(node: Node, graph: Graph, known: dict[str, int]) -> bool:
    """True when computing the value again costs no more than loading it: a few ops on inputs that are no larger than it
    is, or on nothing that is read. `known` gives the ops of each value seen so far that is free, else 0."""
    if node.name not in known:
        known[node.name] = _ops_if_free(node, graph, known)
    return known[node.name] > 0


def _ops_if_free(node: Node, graph: Graph, known: dict[str, int]) -> int:
    if node.kind != "elementwise" or graph.results_of(node.name):
        return 0
    if node.value.op not in FREE_OPS and (node.sources or node.value.op in SLOW):
        return 0
    elements = _elements(graph.types[node.name].shape)
    read = 0
    for source in node.sources:
        if source in graph.nodes and not known.get(source):
            return 0
        read += _elements(graph.types[source].shape) == elements
    ops = 1 + sum(
        known.get(t.source, 0) for access in node.reads for t in targets(access)
    )  # each operand is computed for itself
    return ops if read <= 1 and ops <= MOST_FREE else 0


def _elements(shape: tuple[Expr, ...]) -> Expr:
    total = ONE
    for size in shape:
        total = total * size
    return total


def only_widens(producer: Cluster, consumer: Cluster, graph: Graph) -> bool:
    """True for what takes more bytes than the one result of a fold that it is made of, and no longer than its load: to
    hand it on would take more memory."""
    sources = tuple(consumer.sources)
    if not producer.folds or len(sources) != 1:
        return False
    of = graph.types[sources[0]]
    return all(
        node.kind == "elementwise"
        and node.value.op in FREE_OPS
        and _elements(graph.types[name].shape) == _elements(of.shape)
        and graph.types[name].dtype.bytes > of.dtype.bytes
        and not graph.results_of(name)
        for name, node in consumer.members.items()
    )


def start_of(node: Node, number: int, graph: Graph, free: set[str]) -> Cluster:
    """The cluster of one node, with copies of what it reads that is free, and of the product that it contracts; of a
    factor of it only casts, so that what a contraction multiplies is read in place."""
    cluster = Cluster(number, {}, set(), {}, {}, {}, {}, (node.name,) if node.is_fold else (), node.kind in MEMORY)
    _add(cluster, node, {a.name: None for a in node.axes if a.name not in node.still})
    pending = [node]
    while pending:
        reader = pending.pop()
        for source in reader.sources:
            inner = graph.nodes.get(source)
            if inner is None or source in cluster.members or reader.kind == "reshape":
                continue
            is_product = reader.is_heavy and inner.kind == "elementwise" and inner.value.op == "MUL"
            if is_product or source in free and (not node.is_heavy or inner.value.op == "CAST"):
                cluster.copies.add(source)
                maps = [point_map(reader, inner, t) for a in reader.reads for t in targets(a) if t.source == source]
                place = cluster.place.get(reader.name)
                if place is not None and None not in maps and all(m == maps[0] for m in maps):
                    _add(cluster, inner, {own: place[there] for own, there in maps[0].items()})
                else:
                    cluster.members[source] = inner
                pending.append(inner)
    cluster.choosing = frozenset(n.name for n in cluster.members.values() if n.kind not in ("elementwise", "movement"))
    cluster.sources = outside_of(cluster.members, (s for n in cluster.members.values() for s in n.sources), graph)
    cluster.open = {node.name: None} if cluster.is_read_outside(node.name, graph) else {}
    return cluster


def outside_of(members: dict[str, Node], names: Iterator[str], graph: Graph) -> dict[str, None]:
    """Those of the names that are computed values and no members."""
    return {n: None for n in names if n in graph.nodes and n not in members}


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


def reads_between(producer: Cluster, consumer: Cluster, graph: Graph) -> Iterator[tuple[Node, Node, object]]:
    """(reader, source, read) of everything in `consumer` that `producer` alone computes."""
    for source in producer.open:
        if source in consumer.sources:
            for user in graph.users[source]:
                if user in consumer.members:
                    for access in graph.nodes[user].reads:
                        for target in targets(access):
                            if target.source == source:
                                yield graph.nodes[user], producer.members[source], target


def joined(
    producer: Cluster,
    consumer: Cluster,
    graph: Graph,
    order: dict[str, int],
    is_sibling: bool = False,
    alike: tuple[str, str] | None = None,
) -> Cluster | str:
    """Both as one cluster, under the number of the larger, or why their axes cannot be one space: `other point` or
    `axes`. `is_sibling` lets what both read tell which axes are one even where neither folds, and pairs the rest of two
    contractions, or of the members that are `alike`, by their positions."""
    pairs: list[tuple[int, int]] = []
    for reader, source, target in reads_between(producer, consumer, graph):
        point = point_map(reader, source, target)
        place = consumer.place.get(reader.name)
        if point is None or place is None or source.name not in producer.place:
            return "other point"
        pairs += [(producer.place[source.name][own], place[there]) for own, there in point.items()]
    forced = len(pairs)
    for name in (producer.copies & consumer.members.keys()) | (consumer.copies & producer.members.keys()):
        if name in producer.place and name in consumer.place:
            pairs += [(producer.place[name][a], consumer.place[name][a]) for a in producer.place[name]]
    if is_sibling or producer.folds or consumer.folds:
        pairs += _shared_reads(producer, consumer)
    if is_sibling:
        pairs += _same_position(producer, consumer, pairs, alike or _contractions(producer, consumer))
    renamed = _unified(producer, consumer, pairs)
    if renamed is None and forced < len(
        pairs
    ):  # what both compute need not be at one point: the copy is then computed twice
        renamed = _unified(producer, consumer, pairs[:forced])
    if renamed is None:
        return "axes"
    return _union(producer, consumer, *renamed, graph, order)


def _union(
    producer: Cluster,
    consumer: Cluster,
    rename: dict[int, int],
    sizes: dict[int, Expr],
    graph: Graph,
    order: dict[str, int],
) -> Cluster:
    """Both as one cluster; `rename` gives the smaller one's axes by the larger one's numbers."""
    base, moved = _by_size(producer, consumer)
    members = {**base.members, **moved.members}
    place = dict(base.place)
    for name, own in moved.place.items():
        there = {a: rename[i] for a, i in own.items()}
        if place.get(name, there) != there and name not in moved.copies:
            place[name] = there
        elif place.setdefault(name, there) != there and name in base.copies:
            del place[name]
    copies = (producer.copies - (consumer.members.keys() - consumer.copies)) | (
        consumer.copies - (producer.members.keys() - producer.copies)
    )
    folds = (
        tuple(sorted({*producer.folds, *consumer.folds}, key=order.__getitem__))
        if producer.folds or consumer.folds
        else ()
    )
    choosing = producer.choosing | consumer.choosing
    whole = Cluster(
        base.number,
        members,
        copies,
        place,
        sizes,
        {},
        {},
        folds,
        stored={**producer.stored, **consumer.stored},
        choosing=choosing,
    )
    whole.sources = outside_of(members, iter({**producer.sources, **consumer.sources}), graph)
    whole.open = {n: None for n in (*producer.open, *consumer.open) if whole.is_read_outside(n, graph)}
    return whole


def part_of(cluster: Cluster, names: set[str], graph: Graph) -> Cluster:
    """A cluster of some members of another, under the number of the same cluster."""
    members = {n: node for n, node in cluster.members.items() if n in names}
    place = {n: p for n, p in cluster.place.items() if n in names}
    used = {i for p in place.values() for i in p.values()}
    found = Cluster(
        cluster.number,
        members,
        cluster.copies & names,
        place,
        {i: size for i, size in cluster.sizes.items() if i in used},
        {},
        {},
        tuple(n for n in cluster.folds if n in names),
        stored={n: at for n, at in cluster.stored.items() if n in names},
        choosing=cluster.choosing & names,
    )
    found.sources = outside_of(members, (s for n in members.values() for s in n.sources), graph)
    found.open = {n: None for n in members if n not in found.copies and found.is_read_outside(n, graph)}
    return found


def _by_size(left: Cluster, right: Cluster) -> tuple[Cluster, Cluster]:
    return (left, right) if len(left.members) >= len(right.members) else (right, left)


def _shared_reads(left: Cluster, right: Cluster) -> list[tuple[int, int]]:
    """Axes of two clusters along which both read the same dim of the same outer tensor: a fold over it and what its
    result meets again are in one row."""
    here, there = _read_along(left), _read_along(right)
    pairs = []
    for source in here.keys() & there.keys():
        if source not in left.members and source not in right.members:
            places = there[source]
            pairs += [(axis, places[key]) for key, axis in here[source].items() if key in places]
    return [(a, b) for a, b in pairs if left.sizes[a] == right.sizes[b]]


def _read_along(cluster: Cluster) -> dict[str, dict[tuple[int, Expr, int], int]]:
    """The cluster's axes along which each tensor is read: by the dim, the form of its index, and which of the axes in
    that."""
    return cluster.keep("read along", lambda: _found_along(cluster))


def _found_along(cluster: Cluster) -> dict[str, dict[tuple[int, Expr, int], int]]:
    found: dict[str, dict[tuple[int, Expr, int], int]] = {}
    for name, node in cluster.members.items():
        place = cluster.place.get(name, {})
        for source, dim, index, axes in node.linear_dims:
            if source not in cluster.members:
                axes = tuple([axis for axis in axes if axis in place])
                form = _form_of(index, axes)
                dims = found.setdefault(source, {})
                for at, axis in enumerate(axes):
                    dims.setdefault((dim, form, at), place[axis])
    return found


@functools.lru_cache(maxsize=65536)
def _form_of(index: Expr, axes: tuple[str, ...]) -> Expr:
    """The index with its axes counted, so that it is the same for readers that call them otherwise."""
    return index.substitute({axis: f"@{at}" for at, axis in enumerate(axes)})


def _contractions(left: Cluster, right: Cluster) -> tuple[str, str] | None:
    """A contraction of each cluster; None where one has none."""
    heavy = (left.heavy()[:1], right.heavy()[:1])
    return (heavy[0][0], heavy[1][0]) if all(heavy) else None


def _same_position(
    left: Cluster, right: Cluster, pairs: list[tuple[int, int]], alike: tuple[str, str] | None
) -> list[tuple[int, int]]:
    """The axes of a member of each cluster that nothing pairs yet, paired by their positions, where the two have one
    shape: any point of one may be computed beside any point of the other."""
    if alike is None or not (alike[0] in left.place and alike[1] in right.place):
        return []
    here, there = left.members[alike[0]], right.members[alike[1]]
    folded = (here.extra, there.extra) if here.is_fold and there.is_fold else ((), ())
    ours, theirs = (*here.own, *folded[0]), (*there.own, *folded[1])
    if [a.size for a in ours] != [a.size for a in theirs]:
        return []
    places = [(left.place[here.name].get(a.name), right.place[there.name].get(b.name)) for a, b in zip(ours, theirs)]
    known = ({a for a, _ in pairs}, {b for _, b in pairs})
    return [(a, b) for a, b in places if a is not None and b is not None and a not in known[0] and b not in known[1]]


def _unified(
    producer: Cluster, consumer: Cluster, pairs: list[tuple[int, int]]
) -> tuple[dict[int, int], dict[int, Expr]] | None:
    """The smaller one's axes by the larger one's numbers, and the sizes of all; None when two axes of one cluster would
    be one."""
    base, moved = _by_size(producer, consumer)
    rename: dict[int, int] = {}
    for there, here in pairs if base is producer else ((b, a) for a, b in pairs):
        if rename.setdefault(here, there) != there:
            return None
    if len(set(rename.values())) != len(rename):
        return None
    sizes = dict(base.sizes)
    for number, size in moved.sizes.items():
        if number not in rename:
            rename[number] = max(sizes, default=-1) + 1
            sizes[rename[number]] = size
        elif sizes[rename[number]] != size:
            return None
    return rename, sizes
