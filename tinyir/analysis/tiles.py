"""Tiles of a domain: which are full, partial or empty under masks and pads, counted exactly; which axes leave a rest
(seed 001 section 7.1).

A full tile needs no predicate, an empty one no work. A domain is a box of axes cut by guards: the pads and masks that
the reads of a region are under.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir.body import Gather, Reduce, Scatter, Select, walk
from ..ir.expr import ZERO, Bound, Expr
from ..ir.region import Region
from ..ir.scope import halves_of
from ..ir.sets import bound_text, domain_text, is_representable, read_set
from ..ir.traits import bodies_of
from ..kit.records import dataclass
from .counting import count

MOST_TILES = 1 << 16  # that are looked at one by one
RING = 8  # points along an axis beyond which they are no ring of shared memory


@dataclass(frozen=True, slots=True)
class TileClasses:
    """How many tiles have all their points in the domain, some, or none. A tile that reaches over the end of an axis is
    partial."""

    full: int
    partial: int
    empty: int


def tile_classes(domain: Any, box: Any, tile: Sequence[int]) -> TileClasses:
    """The classes of the tiles that hold a point of `box`, under `domain`; both are isl sets without parameters of one
    space. Tiles start at 0 and hold `tile[n]` points along dim n."""
    import islpy as isl

    axes = [f"x{n}" for n in range(len(tile))]
    text = " and ".join(
        f"{size}*t{n} <= {axis} < {size}*t{n} + {size}" for n, (axis, size) in enumerate(zip(axes, tile))
    )
    within = isl.Map(
        f"{{ [{', '.join(axes)}] -> [{', '.join(f't{n}' for n in range(len(tile)))}] : {text or 'true'} }}"
    )
    domain, box = (s.reset_tuple_id() if s.has_tuple_id() else s for s in (domain, box))
    inside = domain.intersect(box)
    tiles, touched = box.apply(within), inside.apply(within)
    cut = within.reverse().intersect_domain(tiles).subtract_range(inside).domain()
    full = tiles.subtract(cut)
    return TileClasses(count(full), count(touched.subtract(full)), count(tiles.subtract(touched)))


def classes_of(region: Region, tile: Mapping[str, int], sizes: Mapping[str, int]) -> TileClasses:
    """The classes of a region's tiles at the symbol values `sizes`: its axes and those of its folds, under every guard
    in it. An axis that `tile` does not name is taken point by point. A guard that is not affine makes every tile
    partial that is not empty without it."""
    extents = {a.name: a.size.substitute(sizes) for a in region.iters}
    guards: dict[Bound, None] = {}
    for body in bodies_of(region):
        for node in walk(body):
            if isinstance(node, Select):
                guards.update(dict.fromkeys(b.substitute(sizes) for b in node.guard))
            for axis in (
                node.axes if isinstance(node, (Reduce, Scatter)) else (node.axis,) if isinstance(node, Gather) else ()
            ):
                if axis.size is not None:
                    extents[axis.name] = axis.size.substitute(sizes)
    for item in region.yields:
        guards.update(dict.fromkeys(b.substitute(sizes) for b in item.guard))
    axes = tuple(extents.items())
    known = [
        b
        for b in guards
        if all(is_representable(e, extents) for e in (b.expr, b.lower, b.upper, b.equals) if e is not None)
    ]
    halves = [half for b in known for half in halves_of(b)]
    if len(known) == len(guards) and len(halves) <= 1:
        plain = plain_classes(extents, tile, halves[0] if halves else ZERO)
        if plain is not None:
            return plain
    box = read_set(_text(axes, ()), ())
    found = tile_classes(read_set(_text(axes, known), ()), box, [tile.get(name, 1) for name, _ in axes])
    return found if len(known) == len(guards) else TileClasses(0, found.full + found.partial, found.empty)


def plain_classes(extents: Mapping[str, Expr], tile: Mapping[str, int], half: Expr) -> TileClasses | None:
    """The classes where one linear expression >= 0 is all that cuts the box, as a causal mask does: it is greatest and
    least in corners of a tile. None where the box has symbols, the expression is not linear, or the tiles are many."""
    slopes = {m[0]: c for c, m in half.terms if len(m) == 1}
    if len(slopes) + bool(half.offset) != len(half.terms) or not slopes.keys() <= extents.keys():
        return None
    import numpy as np

    least = most = np.array(half.offset)
    whole, total, full = np.array(True), 1, 1
    for name, extent in extents.items():
        size, end = tile.get(name, 1), extent.constant
        if end is None:
            return None
        if name not in slopes:
            total, full = total * -(-end // size), full * (end // size)
            continue
        first = np.arange(0, end, size)
        corners = slopes[name] * np.stack([first, np.minimum(first + size, end) - 1])
        least = np.add.outer(least, corners.min(axis=0))
        most = np.add.outer(most, corners.max(axis=0))
        whole = np.logical_and.outer(whole, first + size <= end)
        if least.size > MOST_TILES:
            return None
    touched, inside = total * int((most >= 0).sum()), full * int(((least >= 0) & whole).sum())
    return TileClasses(inside, touched - inside, total * least.size - touched)


def _text(axes: Sequence[tuple[str, Expr]], guards: Iterable[Bound]) -> str:
    constraints = [*domain_text(tuple(axes), {}), *(bound_text(b, {}) for b in guards)]
    return f"{{ [{', '.join(name for name, _ in axes)}] : {' and '.join(constraints) or 'true'} }}"


def leaves_rest(size: Expr, tile: int) -> bool:
    """True unless `tile` divides the size whatever its symbols are: then tiles of it need no predicate."""
    return any(coefficient % tile for coefficient, _ in size.terms)
