"""What kind of kernel a region asks for, read off its expressions alone: no op name, no pattern word (seed 001 section
6.1).

contraction   sum over a product of two factors, each of which has axes that the other has not; a factor is a read or
              elementwise work on
              reads (a prologue); the rest works on the accumulator
row           folds over one group of axes, all over the same; the rest works on the row and on its results
scan          prefix folds along one axis, all in one direction; the rest works on the elements of a row and on their
              prefixes
map           every output element on its own; a fold or a scatter inside runs over axes of its own, element after
              element
window        folds over windows that slide along axes of what they read (`windowed`); a thread computes a block of
              results
plain         anything: each result by a thread that computes all it needs; no region asks for it, and it holds every
              one
"""

from __future__ import annotations

import functools
from typing import ClassVar, Union

from ..ir.alike import Alike
from ..ir.body import (
    Axis,
    Binary,
    Body,
    Gather,
    Index,
    Literal,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Unary,
    rebuild,
    show_body,
    walk,
)
from ..ir.expr import Expr
from ..ir.present import axes_of_values, present_axes
from ..ir.region import Region
from ..ir.scope import has_floor
from ..ir.traits import (
    Known,
    axes_of,
    bodies_of,
    extent_of,
    folds_of,
    folds_own_iters,
    is_product_of_sides,
    needed_lets,
    reads_apart,
    scans_of,
)
from ..ir.types import DType
from ..kit.records import dataclass, replace
from .windowed import Windowed, windowed_of


@dataclass(frozen=True, slots=True)
class Pair:
    """The second of two sums whose columns take turns in one operand, `width` of the one and then of the other: a gate
    and what it is for, both halves of what a rotation turns. An axis of the operand's own, PAIR, says which of the two
    a column is of.

        %u = reduce sum (k0: K) { mul(X[i0, k0], W[k0, 128*i1 + i2]) }        right [i1, pair: 2, i2: 64], of W
        %v = reduce sum (k0: K) { mul(X[i0, k0], W[k0, 128*i1 + i2 + 64]) }   128*i1 + 64*pair + i2
    """

    value: str
    width: int


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Contraction:
    """`value = sum over sum of the product of two factors`. `lhs` and `rhs` are their operands: the one read that each
    of `factors` is, or does its work on. `left` are axes that the first has alone and `right` such of the other;
    `batch` are those of both, and those that are not adjacent to the others in their operand. The sides are chosen so
    that the region's innermost axis is on the right, whatever the order of the factors. `is_alone` when the region
    folds nothing else (`factor_bytes` is the size in which factors are multiplied without tensor cores); what follows
    the accumulator is then its epilogue. With a `pair` it is two sums of the same rows side by side."""

    kind: ClassVar[str] = "contraction"
    value: str
    dtype: DType
    lhs: Read
    rhs: Read
    batch: tuple[Axis, ...]
    left: tuple[Axis, ...]
    right: tuple[Axis, ...]
    sum: tuple[Axis, ...]
    factor_bytes: int
    factors: tuple[Body, Body]
    is_alone: bool = True
    pair: Pair | None = None

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that each number of the tile cuts."""
        return (self.left, self.right, self.sum)

    @property
    def values(self) -> tuple[str, ...]:
        """The sums."""
        return (self.value, self.pair.value) if self.pair else (self.value,)

    @property
    def results(self) -> Contraction:
        """The same with the axes of what follows the sums, of which a pair is one."""
        left, right = (tuple(a for a in group if a.name != PAIR) for group in (self.left, self.right))
        return replace(self, left=left, right=right) if self.pair else self

    @property
    def siblings(self) -> int:
        """How many contractions it is, side by side."""
        return self.batch[0].size.evaluate({}) if self.batch and self.batch[0].name == SIBLING else 1


@dataclass(frozen=True, slots=True)
class Row:
    """Folds over `row` for each point of `rows`. `passes` counts folds that need the result of an earlier one, plus the
    final pass."""

    kind: ClassVar[str] = "row"
    rows: tuple[Axis, ...]
    row: tuple[Axis, ...]
    passes: int

    @property
    def reverse(self) -> bool:
        """Whether a row is walked from its end: a fold has no order."""
        return False

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that each number of the tile cuts."""
        return (self.rows, self.row)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Scans along the one axis of `row` for each point of `rows`, from its end when `reverse`."""

    kind: ClassVar[str] = "scan"
    rows: tuple[Axis, ...]
    row: tuple[Axis, ...]
    reverse: bool

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that each number of the tile cuts."""
        return (self.rows, self.row)


@dataclass(frozen=True, slots=True)
class Map:
    """One output element a point of `axes`."""

    kind: ClassVar[str] = "map"
    axes: tuple[Axis, ...]

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that the tile's number cuts."""
        return (self.axes,)


@dataclass(frozen=True, slots=True)
class Plain:
    """Anything: each result by a thread of its own, whatever the axes."""

    kind: ClassVar[str] = "plain"
    axes: tuple[Axis, ...] = ()

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The tile's number counts results, which cut no axis."""
        return (self.axes,)


Kernel = Union[Contraction, Row, Prefix, Map, Windowed, Plain]  # noqa: UP007
PAIR = "pair"  # the axis of a contraction that says which of a pair a column is of
MOST_WIDTH = 128  # columns that are side by side of either: more have no place in a tile
SIBLING = "sibling"  # the axis of a contraction that says which of several it is (`kernels.siblings`)
LONG_FOLD = 128  # from this many elements on, a block folds faster than a thread alone


def kernels_of(region: Region, sizes: dict[str, int] | None = None) -> tuple[Kernel, ...]:
    """Every kind but `plain` that can compute the region, the best first; empty when none can (`why_none` says why).
    `sizes` are the symbols' values of a shape set, which decide between kinds that are all correct. What no write needs
    is not looked at."""
    return _kernels_of(_needed(region), tuple((sizes or {}).items()))


def is_covered(region: Region) -> bool:
    """Whether a kind but `plain` computes all values of the region, those that no write needs too."""
    return bool(_kernels_of(region, ()))


@functools.lru_cache(maxsize=8192)
def _kernels_of(region: Region, sizes: tuple[tuple[str, int], ...]) -> tuple[Kernel, ...]:
    if why_none(region):
        return ()
    if scans_of(region):
        prefix = _prefix_of(region)
        return () if prefix is None else (prefix,)
    contraction, row = _contraction_of(region), _row_of(region)
    found: list[Kernel] = [contraction] if contraction is not None and contraction.is_alone else []
    if row is not None and (folds_own_iters(region) or extent_of(row.row).evaluate(Known(sizes)) >= LONG_FOLD):
        found.append(row)
    if not folds_own_iters(region):
        found.insert(len(found) - (row in found and reads_apart(region)), Map(region.iters))
    return tuple(found)


@functools.lru_cache(maxsize=8192)
def _needed(region: Region) -> Region:
    """The region without values that no write needs, of which it asks nothing."""
    kept = needed_lets(region)
    return region if len(kept) == len(region.lets) else replace(region, lets=kept)


def is_contraction(region: Region, sizes: dict[str, int]) -> bool:
    """Whether the best kind of a region is a contraction; found once for all that are alike."""
    return _is_contraction(Alike.of(region), tuple(sizes.items()))


@functools.lru_cache(maxsize=4096)
def _is_contraction(alike: Alike, sizes: tuple[tuple[str, int], ...]) -> bool:
    kernels = kernels_of(alike.regions[0], dict(sizes))
    return bool(kernels) and isinstance(kernels[0], Contraction)


def kernel_of(region: Region, family: str) -> Kernel | None:
    """The region as a kernel of `family`, or None when it is not one. What no write needs is not looked at."""
    region = _needed(region)
    if family == "contraction":
        return _contraction_of(region)
    if family == "plain":
        return Plain()
    if family == "window":
        return windowed_of(region)
    if why_none(region):
        return None
    if family == "row":
        return _row_of(region)
    if family == "scan":
        return _prefix_of(region)
    return Map(region.iters) if family == "map" and not folds_own_iters(region) and not scans_of(region) else None


@functools.lru_cache(maxsize=4096)
def why_none(region: Region) -> str:
    """What in the region no family of kernels covers, as the text has it; empty when there is nothing of the kind."""
    beside = _beside_product(region)
    if beside:
        return beside
    if scans_of(region) and _prefix_of(region) is None:
        own = (
            f"reduce {f.op} ({', '.join(a.name for a in f.axes)})" for f in folds_of(region) if f.axes[0].size is None
        )
        return ", ".join(
            dict.fromkeys(
                (*(f"scan {s.op}{' reverse' if s.reverse else ''} ({s.axis})" for s in scans_of(region)), *own)
            )
        )
    if folds_own_iters(region) and _row_of(region) is None:
        return ", ".join(
            dict.fromkeys(f"reduce {f.op} ({', '.join(a.name for a in f.axes)})" for f in folds_of(region))
        )
    return _uncovered(region)


def _beside_product(region: Region) -> str:
    """What reads at places that data choose, or counts along an axis, beside a contraction: no template of contractions
    has a place for it, and no other family multiplies as fast."""
    product = _contraction_of(region)
    if product is None or len(folds_of(region)) > 1:
        return ""
    return next((show_body(n) for body in bodies_of(region) for n in walk(body) if isinstance(n, Gather)), "")


def _uncovered(region: Region) -> str:
    for body in bodies_of(region):
        for node in walk(body):
            if isinstance(node, Ref) and node.index is not None:
                return show_body(node)
    return ""


ELEMENTWISE = (Read, Literal, Index, Unary, Binary, Ternary, Select)


def _operand_of(factor: Body) -> Read | None:
    """The read that a factor is, or on which it does its work: of several the one along most axes, then one that shares
    no element among neighbours, then the one of the most bytes; None where it is more than elementwise work on
    reads."""
    nodes = tuple(walk(factor))
    reads = [n for n in nodes if isinstance(n, Read)]
    if not reads or not all(isinstance(n, ELEMENTWISE) for n in nodes):
        return None
    return max(reads, key=lambda r: (len(axes_of(r)), not any(map(has_floor, r.index)), r.dtype.bytes))


@functools.lru_cache(maxsize=4096)
def _prefix_of(region: Region) -> Prefix | None:
    scans = scans_of(region)
    if not scans or folds_own_iters(region) or _scans_inside(region) or len({(s.axis, s.reverse) for s in scans}) > 1:
        return None
    row = tuple(a for a in region.iters if a.name == scans[0].axis)
    return Prefix(tuple(a for a in region.iters if a not in row), row, scans[0].reverse) if row else None


def _folds_in_gathers(region: Region, kind: type) -> bool:
    """Whether a fold is done at places that the data choose."""
    return any(
        isinstance(n, kind)
        for body in bodies_of(region)
        for g in walk(body)
        if isinstance(g, Gather)
        for n in walk(g.body)
    )


def _scans_inside(region: Region) -> bool:
    """Whether a scan is done again at each turn of a fold, or at places that the data choose."""
    around = (n for body in bodies_of(region) for n in walk(body) if isinstance(n, (Gather, Reduce, Scatter)))
    inside = (inner for n in around for inner in ((n.update, n.at) if isinstance(n, Scatter) else (n.body,)))
    return any(isinstance(n, Scan) for body in inside for n in walk(body))


def _scatters(region: Region) -> bool:
    return any(isinstance(node, Scatter) for body in bodies_of(region) for node in walk(body))


@functools.lru_cache(maxsize=4096)
def _contraction_of(region: Region) -> Contraction | None:
    if _uncovered(region) or scans_of(region) or _scatters(region):
        return None
    let = next((v for v in region.lets if isinstance(v.expr, Reduce)), None)
    if let is None or let.expr.init is not None or not is_product_of_sides(let.expr, region.iters):
        return None
    fold, product = let.expr, let.expr.body
    factors = (product.left, product.right)
    reads = tuple(map(_operand_of, factors))
    if None in reads:
        return None
    used = [axes_of(f) for f in factors]
    sides = [tuple(a for a in region.iters if a.name in used[s] and a.name not in used[1 - s]) for s in (0, 1)]
    batch = tuple(a for a in region.iters if a.name in used[0] and a.name in used[1])
    if len(batch) + len(sides[0]) + len(sides[1]) != len(region.iters):
        return None
    last = 0 if max(map(region.iters.index, sides[0])) > max(map(region.iters.index, sides[1])) else 1
    sides = [_together(axes, read) for axes, read in zip(sides, reads)]
    batch = tuple(a for a in region.iters if a not in (*sides[0], *sides[1]))
    first = 1 - last
    bytes_each = max(4, product.dtype.bytes)
    found = Contraction(
        let.name,
        fold.dtype,
        reads[first],
        reads[last],
        batch,
        sides[first],
        sides[last],
        fold.axes,
        bytes_each,
        (factors[first], factors[last]),
        len(folds_of(region)) == 1,
    )
    return found if found.is_alone else _paired(region, found)


def _paired(region: Region, found: Contraction) -> Contraction:
    """The contraction with the other fold of the region, where that sums the same over columns of the same operand that
    are beside it."""
    folds = [let for let in region.lets if isinstance(let.expr, Reduce)]
    inner, index = found.right[-1], found.rhs.index
    width = inner.size.constant
    if len(folds) != 2 or len(folds_of(region)) != 2 or not width or width > MOST_WIDTH or _names_axis(region, PAIR):
        return found
    for at, place in enumerate(index):
        beside = replace(found.rhs, index=(*index[:at], place + width, *index[at + 1 :]))
        if inner.name in place.names() and _exchanged(folds[0].expr, found.rhs, beside) == folds[1].expr:
            both = replace(found.rhs, index=(*index[:at], place + width * Expr.of(PAIR), *index[at + 1 :]))
            return replace(
                found,
                rhs=both,
                right=(*found.right[:-1], Axis(PAIR, Expr.of(2)), inner),
                factors=(found.factors[0], _exchanged(found.factors[1], found.rhs, both)),
                is_alone=True,
                pair=Pair(folds[1].name, width),
            )
    return found


def _names_axis(region: Region, name: str) -> bool:
    return any(a.name == name for a in region.iters)


def _exchanged(body: Body, read: Read, other: Read) -> Body:
    """The expression with another read in the place of one."""
    return other if body == read else rebuild(body, lambda inner: _exchanged(inner, read, other))


def _together(axes: tuple[Axis, ...], read: Read) -> tuple[Axis, ...]:
    """Those of an operand's own axes, from the last one back, that are adjacent in it, in this order: one
    side of a tile. The others count as batch, along which the other operand is the same. All, where one is not an index
    by itself."""
    places = {e.name: number for number, e in enumerate(e for e in read.index if e.constant != 0) if e.name}
    if any(a.name not in places for a in axes):
        return axes
    first = len(axes) - 1
    while first and places[axes[first - 1].name] + 1 == places[axes[first].name]:
        first -= 1
    return axes[first:]


@functools.lru_cache(maxsize=4096)
def _row_of(region: Region) -> Row | None:
    folds = folds_of(region)
    if (
        not folds
        or scans_of(region)
        or _scatters(region)
        or any(isinstance(n, Reduce) for fold in folds for n in walk(fold.body))
    ):
        return None
    if _folds_in_gathers(region, Reduce):
        return None
    own = {tuple(a.name for a in fold.axes) for fold in folds if all(a.size is None for a in fold.axes)}
    new = {tuple(a.size for a in fold.axes) for fold in folds if all(a.size is not None for a in fold.axes)}
    if len(own) > 1 or len(own) + len(new) == 0 or any(len({a.size is None for a in fold.axes}) > 1 for fold in folds):
        return None
    if own:
        names = next(iter(own))
        row = tuple(a for a in region.iters if a.name in names)
        if any(sizes != tuple(a.size for a in row) for sizes in new):
            return None
    elif len(new) == 1:
        row = next(fold.axes for fold in folds)
    else:
        return None
    if own and _folds_along(region, names):
        return None
    rows = tuple(a for a in region.iters if a not in row)
    return Row(rows, row, _passes_of(region) + (1 if own or _writes_rows(region, row) else 0))


def _folds_along(region: Region, row: tuple[str, ...]) -> bool:
    """Whether a value or a write that varies along the row folds something at each of its points."""
    axes_of_value = axes_of_values(region)
    iters = tuple(a.name for a in region.iters)
    varying = [let.expr for let in region.lets if set(row) & set(axes_of_value[let.name])]
    varying += [
        y.expr
        for y in region.yields
        if set(row) & (present_axes(y.expr, iters, axes_of_value) | {n for e in y.index for n in e.names()})
    ]
    return any(isinstance(n, Reduce) for body in varying for n in walk(body))


def _writes_rows(region: Region, row: tuple[Axis, ...]) -> bool:
    names = {a.name for a in row}
    return any(names & set(e.names()) for item in region.yields for e in item.index)


def _passes_of(region: Region) -> int:
    """How many folds follow one another at most, each needing the one before."""
    depth: dict[str, int] = {}
    deepest = 0
    for let in region.lets:
        below = max((depth.get(n.name, 0) for n in walk(let.expr) if isinstance(n, Ref)), default=0)
        depth[let.name] = below + any(isinstance(n, Reduce) for n in walk(let.expr))
        deepest = max(deepest, depth[let.name])
    return max(deepest, 1)
