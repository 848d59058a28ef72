"""Clusters that do not depend on each other but read one tensor at the same points: one pass over it does both.

before: region mean reads X[i0, k0]; region top reads X[i0, k0]
after:  region mean yields both, reading X once

Rows must be the same rows, and a map's points the same points. Contractions of one operand (the projections of
attention) are siblings while one of them alone would leave much of a card idle.

What is small is joined where the two read nothing in common, too (the outputs of a recurrence, step after step), if
they have as many points, and as many to fold: their launches take longer than what they move.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...kit.groups import lists_of
from .cluster import MOST_VALUES, Cluster, joined
from .fuse import Partition, Verdict
from .normalise import holding_fault

# readers of one tensor, in the program's order, that are looked at together; a tensor that thousands read costs no
# square of them
NEAR = 8
SMALL = 1 << 20  # bytes that are read and written in less than a launch takes
MOST_FOLDS = 16  # that a kernel does for one point


def join_siblings(found: Partition, streamed: Collection[int]) -> None:
    """Join, in place, what may be joined, the clusters taken in the program's order; those that are `streamed` stay as
    they are."""
    readers = lists_of(
        (name, cluster.number)
        for cluster in found.in_order()
        for name in dict.fromkeys(s for n in cluster.members.values() for s in n.sources)
        if name not in cluster.members and cluster.number not in streamed
    )
    for name, numbers in readers.items():
        for at, number in enumerate(numbers):
            for other in numbers[at + 1 : at + NEAR]:
                left, right = found.clusters.get(number), found.clusters.get(other)
                if left is not None and right is not None and left.number != right.number:
                    _try(left, right, name, found)


def join_small(found: Partition, streamed: Collection[int]) -> None:
    """Join, in place, small clusters of one shape that do not depend on each other, each with the last one before it.
    What is made of constants, once, stays apart from what is made in each run; new values of states are left where they
    may be written in place."""
    lasts: dict[tuple[Any, ...], tuple[int, str]] = {}
    once, states = set(found.graph.program.model.constants()), found.graph.program.model.states()
    updated = set(states.values())
    for name, node in found.graph.nodes.items():
        once |= {name} if once.issuperset(node.sources) else set()
    for cluster in found.in_order():
        if cluster.number in streamed or cluster.is_memory or not _is_small(cluster, found):
            continue
        if any(not updated.isdisjoint(found.graph.results_of(name)) for name in cluster.members):
            continue
        name = (cluster.folds or tuple(cluster.escaping(found.graph)))[-1]
        node = found.graph.nodes[name]
        is_once = once.issuperset(cluster.members)
        shape = (is_once, bool(cluster.folds), *(tuple(a.size for a in axes) for axes in (node.own, node.extra)))
        number, before = lasts.get(shape, (-1, ""))
        last = found.clusters.get(number)
        if last is None or not _join_small(last, cluster, (before, name), found):
            lasts[shape] = (cluster.number, name)
        else:
            lasts[shape] = (found.home[name], name)


def _is_small(cluster: Cluster, found: Partition) -> bool:
    names = {s for n in cluster.members.values() for s in n.sources if s not in cluster.members}
    moved = sum(map(found.bytes_of, {*names, *cluster.open}))
    return 0 < moved < SMALL and bool(cluster.folds or cluster.escaping(found.graph))


def _join_small(left: Cluster, right: Cluster, alike: tuple[str, str], found: Partition) -> bool:
    if len(left.members) + len(right.members) > MOST_VALUES or len(left.folds) >= MOST_FOLDS:
        return False
    whole = joined(left, right, found.graph, found.order, is_sibling=True, alike=alike)
    if isinstance(whole, str) or not _is_one_space(left, right, whole) or _fault(left, right, whole, found):
        return False
    if whole.heavy() and holding_fault(whole, found.graph, found.order):
        return False
    found.verdicts[alike] = Verdict(*alike, True, "sibling", found.bytes_of(alike[0]))
    found.replace(left, right, whole)
    return True


def join_demanded_siblings(left: Cluster, right: Cluster, alike: tuple[str, str], found: Partition) -> None:
    """Join, in place and whatever it costs, two clusters of which none needs the other, by the axes of a member of
    each; the verdict on the two members tells the rule that forbids it."""
    rule, witness = "memory", ""
    whole: Cluster | str = ""
    if not (left.is_memory or right.is_memory):
        whole = joined(left, right, found.graph, found.order, is_sibling=True, alike=alike)
        rule = whole if isinstance(whole, str) else _fault(left, right, whole, found)
        witness = found.witness(rule, left, right, whole)
    found.verdicts[alike] = Verdict(*alike, not rule, rule or "sibling", found.bytes_of(alike[0]), witness)
    if not rule:
        found.replace(left, right, whole)


def _fault(left: Cluster, right: Cluster, whole: Cluster, found: Partition) -> str:
    """Why two clusters cannot be one kernel; empty when they can."""
    if len(whole.members) > MOST_VALUES:
        return "size"
    if found.depends(left, right) or found.depends(right, left):
        return "cycle"
    return found.family_fault(whole) or ("" if whole.heavy() else holding_fault(whole, found.graph, found.order))


def _try(left: Cluster, right: Cluster, name: str, found: Partition) -> None:
    graph = found.graph
    if left.is_memory or right.is_memory or len(left.members) + len(right.members) > MOST_VALUES:
        return
    if bool(left.folds) != bool(right.folds) or len(left.heavy()) * len(right.folds) != len(right.heavy()) * len(
        left.folds
    ):
        return
    if found.depends(left, right) or found.depends(right, left):  # as the steps of a recurrence that share weights
        return
    whole = joined(left, right, graph, found.order, is_sibling=True)
    if isinstance(whole, str) or found.family_fault(whole) or not _is_one_space(left, right, whole):
        return
    found.replace(left, right, whole)
    for a in left.computed():
        for b in right.computed():
            if (
                name in graph.nodes[a].sources
                and name in graph.nodes[b].sources
                or graph.nodes[a].is_heavy
                and graph.nodes[b].is_heavy
            ):
                found.verdicts[a, b] = Verdict(a, b, True, "sibling", found.bytes_of(name))


def _is_one_space(left: Cluster, right: Cluster, whole: Cluster) -> bool:
    """True when both have the same axes, folded ones included."""

    def axes(cluster: Cluster) -> set[int]:
        return {i for m in cluster.computed() for i in whole.place.get(m, {}).values()}

    return bool(axes(left)) and axes(left) == axes(right)
