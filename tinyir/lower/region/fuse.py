"""Which values share a kernel: legality first, then cost, never an op's name (seed 001 sections 6.7, 7 and 11).

Clusters start as single values and are joined along point reads, in the program's order. A join is legal when the two
have one iteration space, no path leads out of it and back in, and one kernel can do its folds:

- a fold is done once: every axis that values have is one that the fold keeps or folds (else it would be done
again); - folds of one kernel keep the same axes, so that one group of threads owns a row and sees all of it; - a
contraction is alone with what is done to its accumulator: no other fold but that of a sibling, which reads the same
operand and
  has the same axes, and nothing has the axis that it sums.

It is done when it saves more than it costs: a round trip through memory against work done again. Where a reader wants
other points, what it reads may be computed at each of them (`compute_at_reads`), or written where a movement has it
(`store_in_order`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.traffic import fills_card, points_of, recompute, round_trip, typical_sizes
from ...ir.expr import Expr
from ...ir.ops import OPS
from ...ir.scope import Scope
from ...kit.groups import sets_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from .cluster import MOST_VALUES, Cluster, is_free, joined, only_widens, reads_between, start_of
from .compute_at_reads import compute_at_reads
from .graph import Graph, point_map, targets
from .normalise import holding_fault
from .store_in_order import store_in_order
from .witness import WITNESSED, witness_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the edge from `source` to `reader` stays inside a region, the rule that decided, what shows it, the bytes
    of the value for the typical sizes, which a round trip moves twice, and the `numbers` that the rule compared.

    Rules of what is fused: same point, prologue, epilogue, rows, copy, compute at, stored, deferred, sibling. Of what
    is not: other point (the reader wants other elements), operand (a contraction reads what it multiplies, and what is
    not elementwise work is not computed there), axes (two axes of one value would be one), again (a fold would be done
    again along an axis), other rows (folds that keep other axes), two folds (beside a contraction), cycle (a path leads
    out and back in), no point (an output lacks an axis that may be of size 0), points (no result has all axes of both,
    so that one kernel would visit more points than it has results), wider (a cast of a fold's result takes more
    bytes than that), sunk (another kernel alone reads it, which computes it), cost (recomputing takes longer than the
    round trip), memory (a reshape or scatter is about memory itself), in memory (it
    is there for others, and the prologue of a contraction reads it there), size (the kernel would compute more than
    MOST_VALUES values, or a thread fold too much at once), family (no family of kernels holds both)."""

    source: str
    reader: str
    is_fused: bool
    rule: str
    saved: int
    witness: str = ""
    numbers: tuple[tuple[str, float], ...] = ()


class Partition:
    """The clusters of a graph while they are joined, and the verdicts on its edges."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.order = {name: at for at, name in enumerate(graph.nodes)}
        self.typical = typical_sizes(graph.program.model)
        self.scope = Scope((), graph.ranges())
        self.zero: dict[Expr, bool] = {}  # whether a size may be 0
        self.points = {name: points_of(graph.types[name].shape, self.typical) for name in graph.nodes}
        ops: dict[str, int] = {}
        self.free = {n for n, node in graph.nodes.items() if is_free(node, graph, ops)}
        self.clusters: dict[int, Cluster] = {}
        self.home: dict[str, int] = {}
        for name, node in graph.nodes.items():
            number = self.order[name]
            self.clusters[number] = start_of(node, number, graph, self.free)
            self.home[name] = number
        self._drop_copied()
        self.holders: dict[str, set[int]] = {}  # the clusters in which each copy is computed
        for number, cluster in self.clusters.items():
            for name in cluster.copies:
                self.holders.setdefault(name, {self.home[name]} & self.clusters.keys()).add(number)
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self.demanded: set[str] = set()  # values that must share a kernel, whatever that costs
        self.attentions: dict[str, str] = {}  # filled by stream_rows
        self.waiting: set[str] | None = set()  # values that wait for a reader to compute them; None: wait no more

    def _drop_copied(self) -> None:
        """A value that all its readers compute for themselves needs no cluster of its own."""
        computing = sets_of(
            (member, cluster.number) for cluster in self.clusters.values() for member in cluster.members
        )
        for name in reversed(list(self.graph.nodes)):
            number = self.home[name]
            users = self.graph.users.get(name, ())
            alive = [
                self.clusters[n]
                for n in sorted(set().union(*(computing[u] for u in users)) - {number})
                if n in self.clusters
            ]
            if not self.graph.results_of(name) and users and all(name in c.copies for c in alive):
                del self.clusters[number]

    def cluster_of(self, name: str) -> Cluster | None:
        """The cluster that computes a value for others; None when nobody needs it so."""
        return self.clusters.get(self.home[name])

    def readers_of(self, names: Iterable[str]) -> list[Cluster]:
        """The clusters that read values from outside."""
        users = {user for name in names for user in self.graph.users.get(name, ())}
        found = {c.number: c for user in sorted(users, key=self.order.__getitem__) for c in self.computing(user)}
        return [c for c in found.values() if any(name in c.sources for name in names)]

    def in_order(self) -> list[Cluster]:
        """The clusters by their last members, in the program's order."""
        return sorted(self.clusters.values(), key=self._last)

    def _last(self, cluster: Cluster) -> int:
        return max(map(self.order.__getitem__, cluster.computed()))

    def run(self) -> Partition:
        """Join what may and should be joined; last what waited for a reader that would compute it."""
        for name in self.graph.nodes:
            self._join_into(name)
        waiting, self.waiting = sorted(self.waiting or (), key=self.order.__getitem__), None
        for name in waiting:
            self._join_into(name)
        return self

    def join_readers(self, name: str) -> None:
        """Join the kernel that computes a value, which has changed, with those that read it, where that may be."""
        cluster = self.cluster_of(name)
        for user in sorted(
            {u for n in cluster.open for u in self.graph.users[n]} if cluster else (), key=self.order.get
        ):
            self._join_into(user)

    def _join_into(self, name: str) -> None:
        tried: set[tuple[int, int, int]] = set()
        while True:
            consumer = self.cluster_of(name)
            if consumer is None:
                return
            ranked = sorted(consumer.sources, key=lambda s: (not self._is_heavy(s), -self.order[s]))
            for source in ranked:
                producer = self.cluster_of(source)
                if producer is None or (producer.number, len(producer.members), len(consumer.members)) in tried:
                    continue
                tried.add((producer.number, len(producer.members), len(consumer.members)))
                if self._is_known(source, consumer):
                    continue
                if self.join(producer, consumer, source):
                    break
            else:
                return

    def _is_known(self, source: str, consumer: Cluster) -> bool:
        """True when the two were too long together before, since clusters only grow, or are to be tried later."""
        known = [self.verdicts.get((source, user)) for user in self.graph.users[source] if user in consumer.members]
        rules = ("size",) if self.waiting is None else ("size", "later")
        return bool(known) and all(v is not None and v.rule in rules for v in known)

    def _is_read_elsewhere(self, producer: Cluster, consumer: Cluster) -> bool:
        """True when a third cluster reads what the producer computes: in a value, perhaps, that the consumer has a copy
        of."""
        own = (producer.number, consumer.number)
        return any(
            c.number not in own
            for name in producer.open
            for user in self.graph.users[name]
            for c in self.computing(user)
        )

    def _is_heavy(self, name: str) -> bool:
        cluster = self.cluster_of(name)
        return cluster is not None and bool(cluster.heavy())

    def join(self, producer: Cluster, consumer: Cluster, source: str, is_demanded: bool = False) -> bool:
        """Join the two, in place, where that is legal and pays, or whatever it costs where it `is_demanded`; the
        verdict on `source` tells the rule."""
        found: Cluster | str = "size"
        if len(producer.members) + len(consumer.members) <= MOST_VALUES:
            found = joined(producer, consumer, self.graph, self.order)
        rule = found if isinstance(found, str) else self.fault(producer, consumer, found, is_demanded)
        kind = self._kind(producer, consumer)
        if rule in ("other point", "axes"):
            copied = compute_at_reads(producer, consumer, self.graph, self.points, is_demanded)
            if isinstance(copied, Cluster) and self._is_read_elsewhere(producer, consumer):
                copied = "other point"
            stored = store_in_order(producer, consumer, self.graph)
            held = copied if isinstance(copied, str) else holding_fault(copied, self.graph, self.order)
            if not held:
                found, rule, kind = copied, "", "compute at"
            elif (
                stored is not None
                and not self.cycle(producer, consumer)
                and len(stored.members) <= MOST_VALUES
                and not holding_fault(stored, self.graph, self.order)
            ):
                found, rule, kind = stored, "", "stored"
            elif held != "other point":
                rule = held
        readers = [r.name for r, s, _ in reads_between(producer, consumer, self.graph) if s.name == source] or [
            next(consumer.computed())
        ]
        saved = self.bytes_of(source)
        for reader in readers:
            witness = self._witness(rule, source, reader, producer, consumer, found, is_demanded)
            self.verdicts[source, reader] = Verdict(source, reader, not rule, rule or kind, saved, witness)
        if rule:
            return False
        self.replace(producer, consumer, found)
        return True

    def _witness(
        self,
        rule: str,
        source: str,
        reader: str,
        producer: Cluster,
        consumer: Cluster,
        found: Cluster | str,
        is_demanded: bool,
    ) -> str:
        """What shows that a rule holds: the read of another point, the path out and back in, the axis of the fold done
        again; where the join was demanded, what a kernel has no room or no family for."""
        if is_demanded and rule in WITNESSED:
            return self.witness(rule, producer, consumer, found)
        if is_demanded and rule == "axes":
            reads = dict.fromkeys(t for a in self.graph.nodes[reader].reads for t in targets(a) if t.source == source)
            return ", ".join(f"%{source}[{', '.join(map(str, t.index))}]" for t in reads)
        if rule in ("other point", "operand", "cost"):
            node = self.graph.nodes[reader]
            reads = [t for a in node.reads for t in targets(a) if t.source == source]
            other = next(
                (t for t in reads if point_map(node, self.graph.nodes[source], t) is None), reads[0] if reads else None
            )
            return f"%{source}[{', '.join(map(str, other.index))}]" if other else ""
        if rule == "cycle":
            return " -> ".join(f"%{n}" for n in self.path(producer, consumer))
        if rule == "again" and isinstance(found, Cluster):
            loose = [
                (f, i) for f in found.folds for i in sorted(found.iters(self.graph) - found.own(f) - found.folded(f))
            ]
            return (
                Phrase("%{loose} along an axis of size {sizes}", loose=loose[0][0], sizes=found.sizes[loose[0][1]])
                if loose
                else ""
            )
        return ""

    def witness(self, rule: str, left: Cluster, right: Cluster, found: Cluster | str) -> str:
        """What shows that two clusters must not be `found`, the two as one where their axes are one space."""
        return witness_of(rule, left, right, found, self.graph, self.order, self.zero)

    def path(self, producer: Cluster, consumer: Cluster) -> list[str]:
        """Values along a shortest path from one cluster through others to another."""
        last = max(self.order[m] for m in consumer.members)
        pending = [(m,) for m in producer.computed()]
        seen: set[str] = set()
        for path in pending:
            for user in self.graph.users.get(path[-1], ()):
                if user in consumer.members:
                    if len(path) > 1:
                        return [*path, user]
                elif user not in seen and user not in producer.members and self.order[user] <= last:
                    seen.add(user)
                    pending.append((*path, user))
        return []

    def bytes_of(self, name: str) -> int:
        """The size of an input or value in bytes, for typical sizes."""
        return points_of(self.graph.types[name].shape, self.typical) * self.graph.types[name].dtype.bytes

    def replace(self, producer: Cluster, consumer: Cluster, found: Cluster) -> None:
        """Put the joined cluster in the place of the two."""
        gone = producer if found.number == consumer.number else consumer
        del self.clusters[gone.number]
        self.clusters[found.number] = found
        for member in gone.members:
            if member in self.holders or member not in gone.copies and member in found.copies:
                holders = self.holders.setdefault(member, set())
                holders.discard(gone.number)
                holders.add(found.number)
            if member not in gone.copies and member not in found.copies:
                self.home[member] = found.number

    def split(self, cluster: Cluster, kept: Cluster, rest: Cluster) -> None:
        """Put two parts in the place of a cluster, each under the number of a value of its own."""
        del self.clusters[cluster.number]
        for part in (kept, rest):
            own = [m for m in part.members if m not in part.copies]
            part.number = next(self.order[m] for m in (*part.heavy(), *own) if self.order[m] not in self.clusters)
            self.clusters[part.number] = part
            for member in part.members:
                if member in self.holders:
                    self.holders[member].discard(cluster.number)
                    self.holders[member].add(part.number)
                if member not in part.copies:
                    self.home[member] = part.number

    def dissolve(self, cluster: Cluster, rule: str) -> None:
        """Each value of a cluster as a cluster of its own again, and each copy that no other cluster computes for
        others; `rule` is the verdict on the edges between them."""
        del self.clusters[cluster.number]
        for holders in self.holders.values():
            holders.discard(cluster.number)
        names = [
            m
            for m in sorted(cluster.members, key=self.order.__getitem__)
            if m not in cluster.copies or self.cluster_of(m) is None
        ]
        for name in names:
            number = self.home[name] = self.order[name]
            self.clusters[number] = start_of(self.graph.nodes[name], number, self.graph, self.free)
        for number in map(self.order.__getitem__, names):
            for copy in self.clusters[number].copies:
                self.holders.setdefault(copy, {self.home[copy]} & self.clusters.keys()).add(number)
        for name in reversed(names):
            if name in self.holders:
                self.holders[name].add(self.order[name])
            readers = [
                c for u in self.graph.users.get(name, ()) for c in self.computing(u) if c.number != self.order[name]
            ]
            if readers and not self.graph.results_of(name) and all(name in c.copies for c in readers):
                del self.clusters[self.order[name]]
                self.holders[name].discard(self.order[name])
        for pair, verdict in self.verdicts.items():
            if verdict.is_fused and set(pair) <= cluster.members.keys():
                self.verdicts[pair] = replace(verdict, is_fused=False, rule=rule)

    @staticmethod
    def _kind(producer: Cluster, consumer: Cluster) -> str:
        if producer.folds:
            return "epilogue" if not consumer.folds else "sibling" if producer.heavy() and consumer.heavy() else "rows"
        return "prologue" if consumer.folds else "same point"

    def fault(self, producer: Cluster, consumer: Cluster, found: Cluster, is_demanded: bool = False) -> str:
        """Why the joined cluster is not to be; empty when it is. What `is_demanded` may cost anything."""
        if producer.is_memory or consumer.is_memory:
            return "memory"
        if not producer.folds and self._is_operand(producer, consumer):
            return "operand"
        if self.waiting is not None and not is_demanded and only_widens(producer, consumer, self.graph):
            self.waiting |= consumer.members.keys()
            return "wider"
        if self.waiting is not None and not is_demanded and self._is_again_for_others(producer, consumer):
            self.waiting |= consumer.members.keys()
            return "later"
        return (
            self.family_fault(found)
            or self.cycle(producer, consumer)
            or ("" if is_demanded else self._cost(producer, consumer, found))
            or holding_fault(found, self.graph, self.order)
        )

    def family_fault(self, found: Cluster) -> str:
        """Why no one kernel can write the results and do the folds of a cluster; empty when one can."""
        may_be_empty = frozenset(i for i, size in found.sizes.items() if self._may_be_zero(size))
        if (
            not found.folds
            and not may_be_empty
            and any(
                found.sizes.keys() <= found.lying(name)
                for name in (*found.open, *(self.graph.results.keys() & found.members.keys()))
            )
        ):
            return ""  # one result has all axes
        iters, heavy = found.iters(self.graph), found.heavy()
        may_be_empty &= iters
        if may_be_empty and self._may_leave_unwritten(found, may_be_empty):
            return "no point"
        if not found.folds:
            return "" if any(iters <= found.lying(name) for name in found.escaping(self.graph)) else "points"
        if heavy:
            if len(found.folds) > 1 and not self._are_siblings(found, heavy):
                return "two folds"
            return "" if iters <= found.own(heavy[0]) else "again"
        kept = {found.parallel(f) for f in found.folds}
        if len(kept) > 1:
            return "other rows"
        return "again" if any(not iters <= found.own(f) | found.folded(f) for f in found.folds) else ""

    def _may_be_zero(self, size: Expr) -> bool:
        if size not in self.zero:
            self.zero[size] = not self.scope.proves(size - 1)
        return self.zero[size]

    def _may_leave_unwritten(self, found: Cluster, may_be_empty: frozenset[int]) -> bool:
        """True when what leaves the cluster lacks an axis that may be of no point, and along which no reduction walks:
        nothing would run there, and nothing would write it."""
        walked = {i for f in found.folds if found.members[f].kind != "scan" for i in found.folded(f)}
        empty = may_be_empty - walked
        return bool(empty) and any(
            not empty <= found.own(name) for name in found.escaping(self.graph) if name in found.place
        )

    def _are_siblings(self, found: Cluster, heavy: list[str]) -> bool:
        """True for contractions over the same axes, none of which needs another; one alone would leave much of a card
        idle."""
        if len(heavy) < len(found.folds) or len({(found.own(h), found.folded(h)) for h in heavy}) > 1:
            return False
        if any(fills_card(self.points[h]) for h in heavy if h not in self.demanded):
            return False
        pending, seen = list(heavy), set()
        while pending:
            for user in self.graph.users.get(pending.pop(), ()):
                if user in found.members and user not in seen:
                    seen.add(user)
                    pending.append(user)
        return not seen & set(heavy)

    def depends(self, earlier: Cluster, later: Cluster) -> bool:
        """True when a path leads from one cluster to the other."""
        return self._reaches(earlier, later, [u for m in earlier.open for u in self.graph.users[m]], set())

    def cycle(self, producer: Cluster, consumer: Cluster, parts: tuple[Cluster, ...] = ()) -> str:
        """`cycle` when a path leads from the producer through a third cluster to the consumer. `parts` are those that
        it was joined of."""
        inside = consumer.members
        starts = [
            u for m in producer.open for u in self.graph.users[m] if u not in inside and u not in producer.members
        ]
        return "cycle" if self._reaches(producer, consumer, starts, {c.number for c in parts}) else ""

    def _reaches(self, earlier: Cluster, later: Cluster, pending: list[str], parts: set[int]) -> bool:
        """True when what is computed of the values `pending` leads to a cluster. A cluster is one kernel: what reads
        any of its values waits for all that any of its members reads, wherever in the program these are."""
        last = max(self.order[m] for m in later.members)
        seen, visited = set(pending), set(parts)
        while pending:
            for cluster in self.computing(pending.pop()):
                if cluster.number == later.number:
                    return True
                if cluster.number == earlier.number or cluster.number in visited:
                    continue
                visited.add(cluster.number)
                if min(map(self.order.__getitem__, cluster.members)) <= last:
                    users = {u for m in cluster.open for u in self.graph.users[m]} - seen
                    seen |= users
                    pending += users
        return False

    def computing(self, name: str) -> list[Cluster]:
        """The clusters in which a value is computed, as a copy or not."""
        if name in self.holders:
            return [self.clusters[n] for n in sorted(self.holders[name])]
        return [self.clusters[self.home[name]]]

    def _cost(self, producer: Cluster, consumer: Cluster, found: Cluster) -> str:
        """`cost` when the work that is done again takes longer than the round trip that is saved."""
        graph = self.graph
        if found.folds and not found.heavy() or producer.folds:
            return ""
        escaping = list(dict.fromkeys(s.name for _, s, _ in reads_between(producer, consumer, graph)))
        elements = max((self.points[m] for m in escaping), default=1)
        saved = sum(round_trip(self.points[m], graph.types[m].dtype.bytes) for m in escaping)
        target = self.points[max(consumer.computed(), key=self.points.__getitem__)]
        if target <= elements:
            return ""
        ops = sum(OPS[n.value.op].is_elementwise and n.value.op != "CAST" for n in producer.members.values())
        return "cost" if recompute(ops, elements, target / elements) > saved else ""

    def _is_again_for_others(self, producer: Cluster, consumer: Cluster) -> bool:
        """True where a consumer of more points would compute again what others read as well, so that it spares no
        kernel: what has the consumer's points is joined before it."""
        if producer.folds or not producer.open:
            return False
        least = max(self.points[m] for m in producer.open)
        return self.points[max(consumer.computed(), key=self.points.__getitem__)] > least and self._is_read_elsewhere(
            producer, consumer
        )

    def _is_operand(self, producer: Cluster, consumer: Cluster) -> bool:
        """True when a factor of a contraction is read from the producer."""
        products = {s for h in consumer.heavy() for s in consumer.members[h].sources}
        pending = [s for p in products for s in (p, *self.graph.nodes[p].sources)]
        while pending:
            name = pending.pop()
            if name in producer.open:
                return True
            if name in consumer.copies:
                pending += consumer.members[name].sources
        return False


def partition(graph: Graph) -> Partition:
    """The clusters of a graph."""
    return Partition(graph).run()
