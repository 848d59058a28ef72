"""Values that must share a kernel (`must_fuse` of tiny text): joined before all others, whatever that costs, or refused
with what forbids it.

before: must_fuse: %relu, %sum    %relu is read by a long sum, and goes through memory: its rows are too few
after:  region sum, `must_fuse sum`, has both

What is on a path between two of the values must be in their kernel too, as else the kernel would wait for itself.
Joins are asked for the same legality as ever; only cost is left aside. A cut that holds the demands as it is stays as
it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...analysis.compute_at import Witness
from ...ir import poly
from ...ir.verify import chain_of
from ...kit.diag import Diag
from ...kit.phrase import Listing
from ...kit.records import dataclass, replace
from ...kit.span import Span
from .cluster import Cluster
from .fuse import Partition, Verdict
from .fuse_prologues import move_into_readers
from .graph import Graph
from .join_siblings import join_demanded_siblings
from .verdicts import Needs

Merged = Mapping[str, tuple[tuple[str, str], ...]]
DEPENDENCE = ("other point", "axes", "again", "other rows", "cycle", "memory")
RESOURCE = ("size",)


@dataclass(frozen=True, slots=True)
class Demand:
    """Values of the graph that one kernel must compute: those `named`, and `values`, with all that is on a path
    between two of them, in the program's order."""

    named: tuple[str, ...]
    values: tuple[str, ...]
    span: Span | None


def demands_of(module: poly.Module, graph: Graph, merged: Merged) -> tuple[Demand, ...]:
    """What the tiny text demands, by the values that the graph computes: a movement that it does not compute means what
    it moves, a value that became another means that one. What turned out constant is left out."""
    values = module.index.tiny.value_of()
    now = dict(merged["merge_equal"]) | dict(merged["merge_reduces"])
    found = []
    for one in module.index.tiny.must_fuse:
        named = set()
        for name in one.values:
            chain = (_last(n, now) for n in chain_of(name, values))
            named |= {n for n in (next((n for n in chain if n in graph.nodes), None),) if n is not None}
        if named:
            between = _reached(named, graph.users) & _reached(
                named, {n: node.sources for n, node in graph.nodes.items()}
            )
            order = [n for n in graph.nodes if n in named or n in between]
            found.append(Demand(tuple(n for n in order if n in named), tuple(order), one.span))
    return tuple(found)


def _last(name: str, now: Mapping[str, str]) -> str:
    while name in now:
        name = now[name]
    return name


def _reached(start: Iterable[str], following: Mapping[str, Iterable[str]]) -> set[str]:
    """What can be reached from the values."""
    found: set[str] = set()
    pending = list(start)
    while pending:
        new = set(following.get(pending.pop(), ())) - found
        found |= new
        pending += new
    return found


def join_demanded(found: Partition, demands: Iterable[Demand]) -> dict[tuple[str, str], Verdict]:
    """Join, in place, what must share a kernel; the verdicts on the joins that are not legal."""
    refused: dict[tuple[str, str], Verdict] = {}
    for demand in demands:
        found.demanded.update(demand.values)
        while _join_readers(found, demand) or _join_beside(found, demand):
            pass
        refused.update(
            {pair: v for pair, v in found.verdicts.items() if not v.is_fused and set(pair) <= {*demand.values}}
        )
    return refused


def _join_readers(found: Partition, demand: Demand) -> bool:
    """Join one value of a demand with one that reads it; false when nothing more can be joined so."""
    inside, homes = set(demand.values), _homes(found, demand)
    for name in demand.values:
        for consumer in (c for c in found.computing(name) if c.number in homes):
            for source in sorted(inside & consumer.sources.keys(), key=lambda s: -found.order[s]):
                producer = found.cluster_of(source)
                if producer is None or source not in found.graph.nodes[name].sources:
                    continue
                if found.join(producer, consumer, source, is_demanded=True):
                    return True
                if found.verdicts[source, name].rule == "operand":
                    move_into_readers(source, found)
                    if source not in consumer.sources:
                        return True
    return False


def _join_beside(found: Partition, demand: Demand) -> bool:
    """Join two values of a demand none of which needs the other; false when nothing more can be joined so."""
    homes = list(_homes(found, demand).items())
    for at, (number, one) in enumerate(homes):
        for other_number, other in homes[at + 1 :]:
            left, right = found.clusters[number], found.clusters[other_number]
            if found.depends(left, right) or found.depends(right, left):
                if any(_join_hosts(found, demand, *way, (one, other)) for way in ((left, right), (right, left))):
                    return True
                continue
            join_demanded_siblings(left, right, (one, other), found)
            if found.verdicts[one, other].is_fused:
                return True
    return False


def _join_hosts(found: Partition, demand: Demand, producer: Cluster, consumer: Cluster, pair: tuple[str, str]) -> bool:
    """Join the clusters that compute the two values of a pair where one reads the other by values that are not both
    demanded; what forbids it is the verdict on the pair."""
    path = found.path(producer, consumer)
    for source in [s for s in producer.open if s in consumer.sources and not path]:
        readers = [u for u in found.graph.users[source] if u in consumer.members]
        if source in demand.values and set(readers) & {*demand.values}:
            continue
        if found.join(producer, consumer, source, is_demanded=True):
            return True
        reader = readers[0]
        path, verdict = [source, reader], found.verdicts[source, reader]
        found.verdicts.setdefault(pair, replace(verdict, source=pair[0], reader=pair[1], witness=_path(path, verdict)))
    if path:
        cycle = Verdict(*pair, False, "cycle", found.bytes_of(pair[0]), _path(path))
        found.verdicts.setdefault(pair, cycle)
    return False


def _path(names: list[str], verdict: Verdict | None = None) -> str:
    shown = " -> ".join(f"%{n}" for n in names)
    return f"{shown}: {verdict.witness}" if verdict is not None and verdict.witness else shown


def _homes(found: Partition, demand: Demand) -> dict[int, str]:
    """The clusters to be joined, each with the first value of the demand that it computes: those that compute a value
    for others, and of a value that each reader computes for itself the first such reader."""
    homes: dict[int, str] = {}
    for name in demand.values:
        home = found.cluster_of(name)
        if home is not None:
            homes.setdefault(home.number, name)
    for name in demand.values:
        computing = [c.number for c in found.computing(name)]
        if computing and homes.keys().isdisjoint(computing):
            homes[computing[0]] = name
    return homes


def kernel_of(demand: Demand, found: Partition, streams: Mapping[int, int]) -> frozenset[int] | None:
    """The clusters of the kernel that computes all values of a demand, each for all that read it in memory; None
    without one."""
    return next((k for k in _kernels(demand.named[0], found, streams) if _computes(k, demand.named, found)), None)


def _kernels(name: str, found: Partition, streams: Mapping[int, int]) -> Iterator[frozenset[int]]:
    """The kernels in which a value is computed, each as its clusters."""
    pairs = {**{second: first for first, second in streams.items()}, **streams}
    for cluster in found.computing(name):
        yield frozenset((cluster.number, pairs.get(cluster.number, cluster.number)))


def _computes(kernel: frozenset[int], names: Iterable[str], found: Partition) -> bool:
    members = {m for number in kernel for m in found.clusters[number].members}
    homes = [(name, found.cluster_of(name)) for name in names]
    return all(name in members and (home is None or home.number in kernel) for name, home in homes)


def refusal_of(
    demand: Demand,
    found: Partition,
    streams: Mapping[int, int],
    refused: Mapping[tuple[str, str], Verdict],
    apart: Mapping[str, str],
    needs: Needs,
) -> Diag:
    """Why no kernel computes the values of a demand: the first join that is not legal. `apart` gives for values that
    might be handed on by rows the reason why no family does that."""
    pairs = [(s, name) for name in demand.values for s in found.graph.nodes[name].sources if s in demand.values]
    cut = [p for p in pairs if not any(_computes(k, p, found) for k in _kernels(p[1], found, streams))]
    cut += [pair for pair in refused if set(pair) <= {*demand.values} and pair not in pairs]
    source, reader = cut[0] if cut else (demand.named[0], demand.named[-1])
    verdict = refused.get((source, reader)) or found.verdicts.get((source, reader))
    rule = verdict.rule if verdict is not None and not verdict.is_fused else "cycle"
    shows = [verdict.witness if verdict is not None else ""]
    is_needed = rule in ("other point", "cycle") or (source, reader) in pairs  # else the two are only side by side
    code = "E1422" if is_needed and rule in DEPENDENCE else "E1423" if rule in RESOURCE else "E1424"
    if source in apart:
        code, rule, shows = "E1424", "family", [apart[source]]
    elif code == "E1422" and verdict is not None:
        shows.append(_pairs_of(source, needs.witness_of(source, reader)))
    if code != "E1422":
        shows.insert(0, f"%{source} -> %{reader}")
    facts = {
        "values": ", ".join(f"%{n}" for n in demand.named),
        "source": source,
        "reader": reader,
        "rule": rule,
        "shows": Listing(filter(None, shows), ": ") or "-",
    }
    return Diag(code, reader, facts, demand.span or found.graph.nodes[reader].value.span)


def _pairs_of(source: str, witness: Witness | None) -> str:
    """Two points and the element that both need: `[i0] = [0], [7] -> %a[0] (N = 8)`."""
    if witness is None:
        return ""
    axes, element, first, second = (
        f"[{', '.join(map(str, at))}]" for at in (witness.axes, witness.element, witness.first, witness.second)
    )
    sizes = f" ({', '.join(f'{n} = {size}' for n, size in witness.sizes)})" if witness.sizes else ""
    return f"{axes} = {first}, {second} -> %{source}{element}{sizes}"
