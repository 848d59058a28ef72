"""Which of several programs of one model runs: each was planned for a shape set, and the nearest set is asked first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Sizes = Mapping[str, int]
FAR = 4  # times larger or smaller


def order_of(sets: Sequence[Sizes], sizes: Sizes) -> list[int]:
    """The places of the sets, the nearest to these sizes first: by how many times larger or smaller each size is. Of
    two that are as near the one with the smaller sizes is first, whatever their order in the list."""

    def distance(known: Sizes) -> float:
        return sum(abs(math.log2((sizes[s] + 1) / (known[s] + 1))) for s in known if s in sizes)

    return sorted(range(len(sets)), key=lambda n: (round(distance(sets[n]), 9), sorted(sets[n].items())))


def is_far(known: Sizes, sizes: Sizes) -> bool:
    """Whether one of the sizes is more than FAR times larger or smaller than the known one, so that plans for those
    would waste much: a tile of as many rows as a large batch has is nearly empty in a small one."""
    pairs = [(max(1, known[s]), max(1, sizes[s])) for s in known if s in sizes]
    return any(max(pair) > FAR * min(pair) for pair in pairs)
