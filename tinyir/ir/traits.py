"""What is asked of a region's expressions, whatever kernel will compute them: their axes, folds, reads and sizes."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from .body import Axis, Binary, Body, Index, Random, Read, Reduce, Ref, Scan, Select, walk
from .expr import ONE, Expr
from .region import Let, Region

FAR = 32  # elements from which those along one axis are not beside those along another


@functools.lru_cache(maxsize=4096)
def nearest(index: tuple[Expr, ...]) -> frozenset[str]:
    """The axes along which the nearest elements are: those of the last place that is not a number. Behind it come dims
    of one element. Of a place in a flat tensor, `i0 + 8192*k0`, those whose elements are not far apart."""
    place = next((e for e in reversed(index) if any(e.names())), None)
    if place is None:
        return frozenset()
    names = frozenset(place.names())
    beside = {m[0] for c, m in place.terms if abs(c) < FAR and len(m) == 1} & names
    far = {n for n in names if all(abs(c) >= FAR or len(m) > 1 for c, m in place.terms if n in m)} & _plain(place)
    return names - far if beside - far else names


def _plain(place: Expr) -> frozenset[str]:
    """The names of a place that are terms of it, and are in no division."""
    inner = {n for _, m in place.terms for atom in m if not isinstance(atom, str) for n in atom.num.names()}
    return frozenset(n for _, m in place.terms for n in m if isinstance(n, str)) - inner


@functools.lru_cache(maxsize=4096)
def reads_apart(region: Region) -> bool:
    """Whether neighbours along what the region folds are apart in memory, and those along the last of its axes that it
    does not fold side by side: the columns of a matrix, of which neighbouring threads take neighbouring ones. What is
    the same in all columns has no say."""
    folded = {a.name for fold in folds_of(region) for a in fold.axes}
    axis = next((a.name for a in reversed(region.iters) if a.name not in folded), None)
    if not folded or axis is None:
        return False
    reads = (n for n in nodes_of(region) if isinstance(n, Read))
    last = [nearest(n.index) for n in reads if any(axis in e.names() for e in n.index)]
    return not any(folded & names for names in last) and any(axis in names for names in last)


@functools.lru_cache(maxsize=4096)
def walks_apart(region: Region) -> bool:
    """Whether threads that each fold a row of their own would read what is far apart: a read runs along a row, and
    not along what neighbouring threads are neighbours in."""
    if not region.iters:
        return False
    folds = [n for fold in folds_of(region) for n in walk(fold.body) if isinstance(n, Read)]
    folded = {a.name for fold in folds_of(region) for a in fold.axes}
    return any(folded & (names := nearest(n.index)) and region.iters[-1].name not in names for n in folds)


@functools.lru_cache(maxsize=4096)
def extent_of(axes: tuple[Axis, ...]) -> Expr:
    """The number of points of a group of axes."""
    total = ONE
    for axis in axes:
        total = total * (axis.size if axis.size is not None else ONE)
    return total


def needed_lets(region: Region) -> tuple[Let, ...]:
    """The values of a region that some write needs, in their order."""
    needed = {n.name for item in region.yields for n in walk(item.expr) if isinstance(n, Ref)}
    for let in reversed(region.lets):
        if let.name in needed:
            needed.update(n.name for n in walk(let.expr) if isinstance(n, Ref))
    return tuple(let for let in region.lets if let.name in needed)


def bodies_of(region: Region) -> Iterator[Body]:
    """The expression of every value, then of every write."""
    yield from (let.expr for let in region.lets)
    yield from (item.expr for item in region.yields)


@functools.lru_cache(maxsize=4096)
def nodes_of(region: Region) -> tuple[Body, ...]:
    """Every expression of the region, those inside of others too, each from the outside in."""
    return tuple(node for body in bodies_of(region) for node in walk(body))


def axes_of(body: Body) -> set[str]:
    """Every name that the expression's indices and guards use: axes, and symbols too."""
    found: set[str] = set()
    for node in walk(body):
        kind = node.__class__
        if kind is Read:
            found.update(*[e.vocabulary for e in node.index])
        elif kind is Index:
            found.update(node.expr.vocabulary)
        elif kind is Random:
            found.update(node.index.vocabulary)
        elif kind is Select:
            found.update(*[bound.vocabulary for bound in node.guard])
    return found


class Known(dict):
    """Symbol values, 1024 for one that no shape set names."""

    def __missing__(self, name: str) -> int:
        return 1024


def sizes_of(model: object) -> dict[str, int]:
    """The values of the first shape set; a symbol without one counts 1024."""
    return Known(dict(model.shape_sets[0].sizes) if model.shape_sets else {})


@functools.lru_cache(maxsize=4096)
def folds_of(region: Region) -> tuple[Reduce, ...]:
    """Every fold of the region, as its bodies have them."""
    return tuple(node for node in nodes_of(region) if isinstance(node, Reduce))


def folds_own_iters(region: Region) -> bool:
    """Whether a fold is over an axis of the region itself."""
    return any(axis.size is None for fold in folds_of(region) for axis in fold.axes)


def is_product_of_sides(fold: Reduce, iters: tuple[Axis, ...]) -> bool:
    """Whether a fold sums products of two factors, each with axes that the other has not, over axes that both have."""
    product = fold.body
    if fold.op != "sum" or not isinstance(product, Binary) or product.op != "mul":
        return False
    used = [axes_of(f) for f in (product.left, product.right)]
    is_summed = all(a.size is not None and a.name in used[0] and a.name in used[1] for a in fold.axes)
    return is_summed and all(any(a.name in used[s] and a.name not in used[1 - s] for a in iters) for s in (0, 1))


@functools.lru_cache(maxsize=4096)
def scans_of(region: Region) -> tuple[Scan, ...]:
    """Every scan of the region, an inner one before the one around it."""
    return tuple(node for body in bodies_of(region) for node in reversed(tuple(walk(body))) if isinstance(node, Scan))
