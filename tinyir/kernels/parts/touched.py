"""How much of a matrix of scores the masks of its first region leave, and the data that say where these end."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...analysis.tiles import classes_of
from ...ir.body import Axis, Gather, walk
from ...ir.region import Region
from ..attention import Streaming
from ..attention.score import score_of

SEEN = 0.5  # of the columns, as far as a price knows, where data say which of them a block of rows may see


def walked_share(region: Region, kernel: Streaming, tile: tuple[int, int], sizes: Mapping[str, int]) -> float:
    """The share of tiles that a kernel walks whose masks have numbers of data as ends (`attention.limits`)."""
    is_bounded = any(limit.rows for limit in score_of(kernel).limits)
    return touched_share(region, kernel, tile, sizes) * (SEEN if is_bounded else 1.0)


def touched_share(region: Region, kernel: Streaming, tile: tuple[int, int], sizes: Mapping[str, int]) -> float:
    """The share of tiles, of these rows and columns, that have an element inside the masks, as far as sizes tell."""
    axes = (*region.iters, *_chosen(kernel))
    return _share(region, kernel, tile, tuple(sorted({(s, sizes[s]) for a in axes for s in a.size.names()})))


def _chosen(kernel: Streaming) -> tuple[Axis, ...]:
    """The axes along which data choose the keys."""
    return tuple(n.axis for n in walk(kernel.key) if isinstance(n, Gather))


@functools.lru_cache(maxsize=1024)
def _share(region: Region, kernel: Streaming, tile: tuple[int, int], sizes: tuple[tuple[str, int], ...]) -> float:
    known = dict(sizes)
    whole = {a.name: max(1, a.size.evaluate(known)) for a in (*kernel.outer, *kernel.depth, *_chosen(kernel))}
    found = classes_of(region, {**whole, kernel.row.name: tile[0], kernel.column.name: tile[1]}, known)
    total = found.full + found.partial + found.empty
    return (found.full + found.partial) / total if total else 1.0
