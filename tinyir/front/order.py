"""The order in which the ops of a graph can be built, for languages whose ops may come in any order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ..kit.groups import lists_of


def in_order(needs: Sequence[set[int]]) -> tuple[list[int], list[int]]:
    """For what each op needs: the ops such that each comes after those, else as written; and the ops that need one
    another in a circle. What merely waits for a circle is in neither list."""
    waits = [set(n) for n in needs]
    users = lists_of((other, index) for index, needed in enumerate(waits) for other in needed)
    ready = [i for i, needed in enumerate(waits) if not needed]
    ordered = []
    while ready:
        ordered.append(index := heapq.heappop(ready))
        for user in users.get(index, ()):
            waits[user].discard(index)
            if not waits[user]:
                heapq.heappush(ready, user)
    stuck = {i for i, needed in enumerate(waits) if needed}
    waiting = {i: sum(u in stuck for u in users.get(i, ())) for i in stuck}
    outer = [i for i, count in waiting.items() if not count]
    while outer:
        stuck.discard(index := outer.pop())
        for other in waits[index]:
            waiting[other] -= 1
            if not waiting[other]:
                outer.append(other)
    return ordered, sorted(stuck)
