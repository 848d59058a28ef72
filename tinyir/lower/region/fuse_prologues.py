"""What a contraction multiplies is computed by the contraction, as it fills its tiles, where that takes less than a
round trip.

before: region a yields a[i0, i1] = relu(x[i0, i1]); region y has %y = reduce sum (k0: K) { mul(a[i0, k0], w[k0, i1]) }
after:  region y has %y = reduce sum (k0: K) { mul(relu(x[i0, k0]), w[k0, i1]) }

Elementwise work is legal wherever it is read, at any point and behind any movement: a pad gives the pad's own value,
since it is around the work. What it costs decides, never what it is:

    again    each element is computed once for every tile of the other operand that meets it, of a window once for every
             tap
    trip     the value is not written, and read no more by any reader; the launch, when nothing else is left to compute;
             what the work reads is read
             by each reader instead
    tensor   tensor cores take their operands as they are in memory: a product that they would compute takes so much
             longer without them

A value is moved into all that read it or into none, as it is either in memory or not. Where the work reads a value that
is in memory all the same, it reads it there. A value that others read as no operand, or that is a result, stays in
memory; one that all its readers have copies of goes.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ...analysis.traffic import FEW_ROWS, LAUNCH_SECONDS, TILE, points_of, recompute, transfer, without_tensor_cores
from .cluster import Cluster, outside_of
from .compute_at_reads import MOST_TERMS, Works, neighbours_at
from .fuse import MOST_VALUES, Partition, Verdict
from .graph import Node, targets

KINDS = ("elementwise", "movement")
MICROSECONDS = 1e6


def fuse_prologues(found: Partition, streamed: Collection[int]) -> None:
    """Move, in place, what pays, the last value first, so that a chain is moved as far as it goes. Clusters that are
    `streamed` hand their operands on as they are."""
    for name in reversed(list(found.graph.nodes)):
        home = found.cluster_of(name)
        if home is None or name not in home.open or home.is_memory or found.graph.results_of(name):
            continue
        if name in found.demanded:  # it is where it must be
            continue
        readers = sorted(found.readers_of([name]), key=lambda c: c.number)
        is_open = all(c.number not in streamed for c in readers)
        if is_open and (all(c.heavy() for c in readers) or _is_known(name, home, found)):
            _try(name, home, readers, found)


def _is_known(name: str, home: Cluster, found: Partition) -> bool:
    """Whether a value is numbers of a few places alone: any reader has them without an op."""
    work = _work_of(name, home, found)
    works = Works(work, found.graph) if work is not None else None
    return works is not None and works.ops(name) == works.loads(name) == 0 and works.terms(name) > 1


def move_into_readers(name: str, found: Partition) -> None:
    """Move a value, in place, into all that read it, whatever that costs; the verdicts on it tell the rule that forbids
    it: `operand` (it is not elementwise work), `in memory` (others need it there) or `size`."""
    home = found.cluster_of(name)
    readers = sorted(found.readers_of([name]), key=lambda c: c.number)
    elsewhere = [*found.graph.results_of(name), *(f"%{next(c.computed())}" for c in readers if not c.heavy())]
    if home is None or home.is_memory or elsewhere:
        for reader in (u for u in found.graph.users[name] if any(u in c.members for c in readers)):
            verdict = Verdict(name, reader, False, "in memory", found.bytes_of(name), ", ".join(elsewhere))
            found.verdicts[name, reader] = verdict
    else:
        _try(name, home, readers, found, is_demanded=True)


def _try(name: str, home: Cluster, readers: list[Cluster], found: Partition, is_demanded: bool = False) -> None:
    work = _work_of(name, home, found)
    if work is None:
        return
    works, sites = Works(work, found.graph), [_Sites(c, found) for c in readers]
    is_too_long = works.terms(name) * sum(s.count(name) for s in sites) > MOST_TERMS
    if is_too_long or any(len(c.members.keys() | work.keys()) > MOST_VALUES for c in readers):
        say(name, readers, found, "size", {})
        return
    is_last = home.escaping(found.graph) == [name]
    parts = _seconds(name, works, sites, is_last, found)
    numbers = {f"{part}_us": round(seconds * MICROSECONDS, 3) for part, seconds in parts.items()}
    if parts["again"] + parts["tensor"] > parts["trip"] and not is_demanded:
        say(name, readers, found, "cost", numbers)
        return
    say(name, readers, found, "prologue", numbers)
    for reader in readers:
        take_in(work, reader, found)
    forget(name, home, is_last, work, found)


def _work_of(name: str, home: Cluster, found: Partition) -> dict[str, Node] | None:
    """The members of a cluster that a value is computed by, down to what is in memory; None when not all are
    elementwise."""
    stored = set(home.escaping(found.graph)) - {name}
    work: dict[str, Node] = {}
    pending = [name]
    while pending:
        node = home.members[pending.pop()]
        if node.kind not in KINDS:
            return None
        work[node.name] = node
        pending += [s for s in node.sources if s in home.members and s not in stored and s not in work]
    return {n: home.members[n] for n in home.members if n in work}


def _seconds(name: str, works: Works, sites: list[_Sites], is_last: bool, found: Partition) -> dict[str, float]:
    """The parts of what moving costs (`again`, `tensor`) and saves (`trip`), in seconds."""
    times = sum(s.times(name) for s in sites)
    before = found.points[name] if is_last else 0
    sources = dict.fromkeys(s for n in works.members.values() for s in n.sources if s not in works.members)
    again = recompute(works.ops(name), 1, times - before + 1, max(0.0, works.loads(name) - 1))
    read = sum(map(found.bytes_of, sources))
    saved = (1 + len(sites)) * found.bytes_of(name) - (len(sites) - is_last) * read
    return {
        "again": again,
        "tensor": sum(s.lost(name) for s in sites),
        "trip": transfer(saved) + is_last * LAUNCH_SECONDS,
    }


class _Sites:
    """Where a contraction reads a value."""

    def __init__(self, cluster: Cluster, found: Partition):
        self.cluster, self.found = cluster, found
        self.products = {s: h for h in cluster.heavy() for s in cluster.members[h].sources if s in cluster.copies}

    def count(self, name: str) -> int:
        """How often it is in the text."""
        return sum(t.source == name for n in self.cluster.members.values() for a in n.reads for t in targets(a))

    def times(self, name: str) -> float:
        """How often an element of it is wanted: by a product once for every tile of the other operand."""
        total = 0.0
        for reader in self.cluster.members.values():
            for read in (t for access in reader.reads for t in targets(access) if t.source == name):
                if reader.name in self.products:
                    total += self._tiles(reader, {n for e in read.index for n in e.names()})
                elif reader.name in self.cluster.place:
                    total += self.found.points[reader.name]
                else:
                    total += self.times(reader.name) / (neighbours_at(read.index) if self._is_of_few else 1)
        return total

    @property
    def _is_of_few(self) -> bool:
        """Whether each product has few rows: a thread then computes what a run of weights shares once for them."""
        nodes, members = self.found.graph.nodes, self.cluster.members
        return all(
            any(
                self._others(nodes[product], s) <= FEW_ROWS
                for s in members[product].sources
                if s in self.cluster.copies
            )
            for product in self.products
        )

    def _tiles(self, product: Node, used: set[str]) -> int:
        own, other = (
            points_of((a.size for a in product.own if (a.name in used) == is_own), self.found.typical)
            for is_own in (True, False)
        )
        return own * math.ceil(other / TILE)

    def lost(self, name: str) -> float:
        """Seconds that the products longer take which tensor cores compute as long as both factors are in memory."""
        graph, total = self.found.graph, 0.0
        for product, fold in self.products.items():
            factors = [graph.types[o] for o in graph.nodes[product].value.operands]
            if (
                self._reads(product, name)
                and self._is_plain(product)
                and not self._meets_few(graph.nodes[product], name)
            ):
                moved = sum(
                    points_of(t.shape, self.found.typical) * t.dtype.bytes
                    for t in (*map(graph.types.get, graph.nodes[product].sources), graph.types[fold])
                )
                total += without_tensor_cores(
                    2.0 * self.found.points[product], moved, [t.dtype for t in factors], graph.types[fold].dtype
                )
        return total

    def _meets_few(self, product: Node, name: str) -> bool:
        """Whether a product of matrices reads a value for few rows of the other factor: tensor cores take it then as it
        is computed."""
        used = _used(product, name)
        is_of_matrices = bool(used) and len(product.own) == len(used) + 1 == 3
        return is_of_matrices and self._others(product, name) <= FEW_ROWS

    def _others(self, product: Node, name: str) -> int:
        """How many elements of a product each element of a factor meets."""
        used = _used(product, name)
        return points_of((a.size for a in product.own if a.name not in used), self.found.typical)

    def _reads(self, reader: str, name: str) -> bool:
        sources = self.cluster.members[reader].sources
        return name in sources or any(self._reads(s, name) for s in sources if s in self.cluster.copies)

    def _is_plain(self, product: str) -> bool:
        """True while both factors are read in place."""
        return not any(s in self.cluster.members for s in self.cluster.members[product].sources)


def _used(product: Node, name: str) -> set[str]:
    """The axes of a product along which a factor is read."""
    reads = [t for access in product.reads for t in targets(access) if t.source == name]
    return {n for t in reads for e in t.index for n in e.names()}


def say(name: str, readers: list[Cluster], found: Partition, rule: str, numbers: dict[str, float]) -> None:
    """The verdicts on the edges from a value to those that read it, by the numbers of a comparison."""
    for cluster in readers:
        for reader in cluster.members.values():
            for read in [t for access in reader.reads for t in targets(access) if t.source == name][:1]:
                compared = ", ".join(f"{part.removesuffix('_us')} {number} us" for part, number in numbers.items())
                witness = f"%{name}[{', '.join(map(str, read.index))}]" + (f", {compared}" if rule == "cost" else "")
                found.verdicts[name, reader.name] = Verdict(
                    name, reader.name, rule == "prologue", rule, found.bytes_of(name), witness, tuple(numbers.items())
                )


def take_in(work: dict[str, Node], reader: Cluster, found: Partition) -> None:
    """The work as copies in a reader, which has it wherever it is read."""
    reader.copies = reader.copies | (work.keys() - reader.members.keys())
    reader.members = {**work, **reader.members}
    reader.sources = outside_of(reader.members, (s for n in reader.members.values() for s in n.sources), found.graph)
    for name in work:
        found.holders.setdefault(name, {found.home[name]} & found.clusters.keys()).add(reader.number)


def forget(name: str, home: Cluster, is_last: bool, work: dict[str, Node], found: Partition) -> None:
    """What a cluster computes no longer for others leaves it; without anything else to compute the cluster is gone."""
    kept: set[str] = set()
    if is_last:
        del found.clusters[home.number]
    else:
        home.open = {n: None for n in home.open if n != name}
        pending = home.escaping(found.graph)
        while pending:
            kept.add(one := pending.pop())
            pending += [s for s in home.members[one].sources if s in home.members and s not in kept]
        home.members = {n: m for n, m in home.members.items() if n in kept}
        home.copies &= kept
        home.place = {n: p for n, p in home.place.items() if n in kept}
        home.stored = {n: at for n, at in home.stored.items() if n in kept}
        home.sources = outside_of(home.members, (s for n in home.members.values() for s in n.sources), found.graph)
    for member in work.keys() - kept:
        found.holders[member].discard(home.number)
    for member, source in ((m, s) for m in work.keys() - kept for s in work[m].sources if s in kept):
        found.verdicts[source, member] = Verdict(source, member, False, "in memory", found.bytes_of(source))
