"""Two contractions with work on rows between them, one kernel: the first hands its rows to the second without leaving
the chip.

before: region s (contraction) -> buffer; region max (rows of it: softmax) -> buffer P; region o (contraction that sums
along P's rows) after:  region s (contraction and the work on its rows) -> P {materialize=deferred}; region o

The second contraction consumes P along the very axis along which its rows are folded, so a row never needs to be whole:
the folds are carried along as the axis is walked (online softmax; kernels.attention has the rule). It pays when the
second contraction's other side is narrow, since each group of its columns walks the row again. Numbers of a row may be
handed on too. What others read of the first cluster and is not made of its scores, such as a mask of all layers, gets a
cluster of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.expr import ONE
from ...kit.phrase import Phrase
from .cluster import Cluster, joined, part_of
from .fuse import Partition, Verdict
from .graph import is_exponential, point_map, targets
from .normalise import holding_fault

WIDEST = 256  # columns of the second contraction that one group of threads can keep


def stream_rows(found: Partition, apart: Mapping[str, str]) -> dict[int, int]:
    """Join what can be streamed, but for the values that are `apart`, each with its reason; the number of each
    streaming cluster with that of its reader, which must follow it at once. `found.attentions` gets what each value is
    that a contraction sums along the rows that another's scores were folded along: why it is in memory, or nothing."""
    streams: dict[int, int] = {}
    for rows in found.in_order():
        if found.clusters.get(rows.number) is not rows or rows.heavy() or not rows.folds:
            continue
        value, reader = _reader_of(rows, found)
        firsts = _contractions_of(rows, found)
        if reader is None or not firsts:
            continue
        if not any(is_exponential(n) for c in (rows, *firsts) for n in c.members.values()):
            continue  # rows without one are no weights, as the rule would find
        whole: Cluster | str = apart.get(value) or _fault_of(rows, value, reader, firsts, found)
        if not whole and reader.number in streams.values():
            whole = Phrase("its reader sums another value's rows already")
        if not whole:
            whole = _joined(rows, value, reader, firsts[0], found)
        found.attentions[value] = whole if isinstance(whole, str) else ""
        if isinstance(whole, Cluster):
            streams[whole.number] = reader.number
            saved = found.bytes_of(value)
            for user in found.graph.users[value]:
                found.verdicts[value, user] = Verdict(value, user, True, "deferred", saved)
    return streams


def _reader_of(rows: Cluster, found: Partition) -> tuple[str, Cluster | None]:
    """A value of the cluster with a contraction that sums it along the axis that the cluster folds; None without
    one."""
    graph = found.graph
    folded = rows.folded(rows.folds[0])
    for value in rows.escaping(graph):
        place = rows.place.get(value)
        if place is None or not rows.own(value) & folded:  # written in the order of a movement, or a number of a row
            continue
        for reader in (c for c in found.clusters.values() if c.number != rows.number and value in c.sources):
            if len(reader.heavy()) == 1 and _sums_rows(rows, value, reader, found):
                return value, reader
    return "", None


def _sums_rows(rows: Cluster, value: str, reader: Cluster, found: Partition) -> bool:
    """Whether a contraction sums a value, read at its own point, along the axis that its cluster folds."""
    graph, place, (fold,) = found.graph, rows.place[value], reader.heavy()
    folded = rows.folded(rows.folds[0])
    for user in (u for u in graph.users[value] if u in reader.members):
        there = reader.place.get(user)
        if user not in reader.copies or there is None:
            return False
        for read in (t for a in graph.nodes[user].reads for t in targets(a) if t.source == value):
            point = point_map(graph.nodes[user], graph.nodes[value], read)
            if point is None or not place.keys() >= point.keys() or not there.keys() >= set(point.values()):
                return False
            met = {place[own]: there[axis] for own, axis in point.items()}
            if {met[i] for i in folded if i in met} != set(reader.folded(fold)):
                return False
    return True


def _contractions_of(rows: Cluster, found: Partition) -> list[Cluster]:
    """The clusters with a contraction whose results the rows are made of."""
    sources = {c.number: c for c in map(found.cluster_of, rows.sources) if c is not None and c.heavy()}
    return list(sources.values())


def _fault_of(rows: Cluster, value: str, reader: Cluster, firsts: list[Cluster], found: Partition) -> str:
    """Why a value cannot be handed on in registers, in words; empty when it can."""
    graph = found.graph
    if graph.results_of(value):
        return Phrase("it is an output of the model")
    if sum(value in c.sources for c in found.clusters.values()) != 1:
        return Phrase("more than one kernel reads it")
    if len(firsts) != 1:
        return Phrase("its scores come from more than one contraction")
    if firsts[0].number == reader.number:
        return Phrase("one contraction computes the scores and sums them")
    (fold,) = reader.heavy()
    met = {i for u in graph.users[value] if u in reader.members for i in _met(rows, value, u, reader, found)}
    total = ONE
    for size in (reader.sizes[i] for i in reader.own(fold) - met):
        total = total * size
    if total.constant is None or total.constant > WIDEST:
        return Phrase("the second product has {total} columns, more than {widest}", total=total, widest=WIDEST)
    return ""


def _met(rows: Cluster, value: str, user: str, reader: Cluster, found: Partition) -> set[int]:
    """The reader's axes that a value has."""
    nodes, there = found.graph.nodes, reader.place[user]
    reads = (t for a in nodes[user].reads for t in targets(a) if t.source == value)
    return {there[axis] for read in reads for axis in (point_map(nodes[user], nodes[value], read) or {}).values()}


def _joined(rows: Cluster, value: str, reader: Cluster, first: Cluster, found: Partition) -> Cluster | str:
    """The contraction and all work on its rows as one cluster, which takes their place; or why they cannot be one."""
    graph = found.graph
    group = [*_between(first, rows, found), rows]
    if any(c.heavy() or c.is_memory for c in group) or reader in group:
        return Phrase("another contraction, or a reshape, is between the scores and their weights")
    own = {first.number, *(c.number for c in group)}
    kept, rest = _without_others(first, own, found)
    if kept is None:
        return Phrase("others read the scores")
    steps = _joins(kept, group, found)
    if isinstance(steps, str):
        return Phrase("the rows are not rows of the scores ({one})", one=steps)
    whole = steps[-1][2]
    if any(not whole.iters(graph) <= whole.own(f) for f in whole.heavy()):
        return Phrase("the rows have an axis that the scores do not have")
    folded = whole.folded(next(n for n in whole.folds if n not in whole.heavy()))
    if any(n != value and (n not in whole.place or whole.own(n) & folded) for n in whole.escaping(graph)):
        return Phrase("another value of each score is wanted beside the weights")
    if rest is None:
        if found.cycle(whole, reader, parts=(first, *group)):
            return Phrase("what it waits for waits for it")
    else:
        found.split(first, kept, rest)
        steps = _joins(kept, group, found)  # under the numbers that the parts have now
        whole = steps[-1][2]
        if found.cycle(whole, reader, parts=(kept, *group)):
            return Phrase("what it waits for waits for it")
    for before, part, one in steps:
        found.replace(before, part, one)
    whole.is_streamed = True
    return whole


def _joins(first: Cluster, group: list[Cluster], found: Partition) -> list[tuple[Cluster, Cluster, Cluster]] | str:
    """A cluster joined with others one by one: at each step what is there, what comes to it, and both as one; or why
    they cannot be one."""
    whole, steps = first, []
    for part in group:
        one = joined(whole, part, found.graph, found.order)
        if isinstance(one, str):
            return one
        steps.append((whole, part, one))
        whole = one
    return steps


def _between(first: Cluster, rows: Cluster, found: Partition) -> list[Cluster]:
    """The clusters on the ways from a contraction to the rows, in the program's order."""
    last = max(found.order[m] for m in rows.members)
    onward, back = _walk(first, last, found), {rows.number}
    pending = [rows]
    while pending:
        for source in map(found.cluster_of, pending.pop().sources):
            if source is not None and source.number in onward and source.number not in back:
                back.add(source.number)
                pending.append(source)
    return [c for c in found.in_order() if c.number in back - {rows.number, first.number}]


def _walk(first: Cluster, last: int, found: Partition) -> set[int]:
    """The clusters that what a cluster computes leads to, up to a place in the program's order."""
    seen: set[int] = set()
    pending = [first]
    while pending:
        names = pending.pop().open
        for cluster in found.readers_of(names):
            if cluster.number not in seen and min(map(found.order.__getitem__, cluster.members)) <= last:
                seen.add(cluster.number)
                pending.append(cluster)
    return seen


def _without_others(first: Cluster, own: set[int], found: Partition) -> tuple[Cluster | None, Cluster | None]:
    """The contraction's cluster without the values that others read and that are not made of its sum, and a cluster of
    these, or None; None for the first where others read what is made of it."""
    graph = found.graph
    made: set[str] = set()
    for name in sorted(first.members, key=found.order.__getitem__):
        if name in first.heavy() or made.intersection(first.members[name].sources):
            made.add(name)
    others = [n for n in first.escaping(graph) if graph.results_of(n) or _is_read_by_others(n, own, found)]
    if not others:
        return first, None
    if made.intersection(others) or any(n not in first.place for n in others):
        return None, None
    pending, apart = list(others), set()
    while pending:
        name = pending.pop()
        if name not in apart:
            apart.add(name)
            pending += [s for s in first.members[name].sources if s in first.members]
    kept = part_of(first, {n for n in first.members if n not in apart or n in first.copies}, graph)
    rest = part_of(first, apart, graph)
    if (
        found.family_fault(rest)
        or holding_fault(rest, graph, found.order)
        or not all(n in first.copies for n in apart & made)
    ):
        return None, None
    return kept, rest


def _is_read_by_others(name: str, own: set[int], found: Partition) -> bool:
    return any(c.number not in own for c in found.readers_of((name,)))
