"""Folds over windows that slide along axes of a tensor: neighbouring results share most of what they fold, so that a
thread which computes a block of them reads an image's rows once.

    sum (k0: 3, k1: 3) { X[i0, i1, 2*i2 + k0 - 1, 2*i3 + k1 - 1] * W[i1, 0, k0, k1] }       for i0, i1, i2, i3
    →  rows i2, columns i3; X along rows: step 2, spread 1, low -1, tap k0; planes i0, i1

Read off the access maps alone: a window's axis is a dim of a tensor whose place is a multiple of one axis of the region
plus a multiple of one that is folded. The last one of a read is the columns, the one before it the rows. Depthwise and
grouped convolutions, convolutions of few channels and pools are of this kind, in every order of their dims.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import ClassVar

from ..ir.accumulate import is_plain
from ..ir.body import (
    Axis,
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Transpose,
    Unary,
    operands_of,
    walk,
)
from ..ir.expr import Bound, Expr
from ..ir.region import Region
from ..ir.runs import start_of
from ..ir.traits import bodies_of, nearest
from ..kit.records import dataclass, field

ELEMENTWISE = (Read, Literal, Index, Unary, Binary, Ternary, Select)
MOST_TAPS = 1024  # of one window
LIGHT = 160  # products of a result from which on tensor cores are faster
PART = 64  # elements that a part of a sum has at least
ACCESS = 8  # channels that tensor cores and copy engines take at least


@dataclass(frozen=True, slots=True)
class Slide:
    """How a place moves along dim number `dim` of a tensor: at `step*axis + spread*tap + low`. A window
    has `taps` places."""

    dim: int
    axis: Axis
    tap: Axis
    step: int
    spread: int
    low: int
    taps: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "taps", self.tap.size.constant or 1)

    @property
    def is_tiling(self) -> bool:
        """Whether windows neither overlap nor begin outside, as the channels of groups do."""
        return self.low == 0 and self.step >= self.spread * self.taps

    def places(self, count: int) -> int:
        """Elements from the first that the windows of `count` neighbours have to the last."""
        return self.step * (count - 1) + self.spread * (self.taps - 1) + 1


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Image:
    """A read through windows, along the rows (where there are any) and the columns. `element` is the read, or what a
    guard puts in its place outside; the guard's bounds on the place along rows and columns are those of `inside`, told
    by dim, and `others` what it asks beside."""

    read: Read
    element: Body
    rows: Slide | None
    columns: Slide
    inside: tuple[tuple[int, Bound], ...] = ()
    others: tuple[Bound, ...] = ()

    @property
    def outside(self) -> Literal | None:
        """What there is outside of the guard; None where there is no guard."""
        return self.element.other if isinstance(self.element, Select) else None

    def has(self, axis: Axis) -> bool:
        """Whether what is read depends on an axis of the region."""
        name = axis.name
        for e in self.read.index:  # a loop: each candidate asks
            if name in e.vocabulary:
                return True
        return False


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Fold:
    """A fold over windows: its images, and the axes that it folds beside the taps of rows and columns."""

    reduce: Reduce
    images: tuple[Image, ...]
    beside: tuple[Axis, ...]

    @property
    def is_of_elements(self) -> bool:
        """Whether it folds the image's elements as they are, so that a row of them can be folded before the rows."""
        return len(self.images) == 1 and self.reduce.body == self.images[0].element

    def is_light(self, is_alone: bool) -> bool:
        """Whether a result folds few elements, or only those of its own plane; of one contraction alone (`is_alone`)
        also, whether its channels are no whole accesses. A sum in parts folds many, none of them twice."""
        slides = [s for i in self.images for s in (i.rows, i.columns) if s is not None]
        if all(s.is_tiling for s in slides) and math.prod(s.taps for s in slides) >= PART:
            return False
        count = math.prod(a.size.constant or LIGHT for a in self.reduce.axes)
        channels = math.prod(a.size.constant or 0 for a in self.beside)
        return not self.beside or count <= LIGHT and (not is_alone or channels % ACCESS != 0)


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Windowed:
    """Folds over windows that slide along `rows` (one axis, or none) and `columns` (one). `planes` are what is beside
    the image: where neighbours in memory are along other axes than the columns, those that are contiguous, and what is
    left is the `batch`; else all other axes. `is_across`: neighbours in memory are along the planes, since channels are
    innermost."""

    kind: ClassVar[str] = "window"
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    planes: tuple[Axis, ...]
    batch: tuple[Axis, ...]
    folds: tuple[Fold, ...]
    axes: tuple[Axis, ...]
    is_across: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_across", self.axes[-1] in self.planes)  # kept: each of thousands of plans asks

    @property
    def groups(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that each number of the tile cuts."""
        return (self.rows, self.columns, self.planes)

    def is_worth(self, is_alone: bool) -> bool:
        """Whether tensor cores may not pay: a result has few products, or no factor is the same for several planes.
        `is_alone`: it is one contraction, of no batch."""
        return all(f.is_light(is_alone) for f in self.folds)


@functools.lru_cache(maxsize=4096)
def windowed_of(region: Region) -> Windowed | None:
    """The region as such folds; None where it is something else."""
    bodies = tuple(bodies_of(region))
    nodes = [n for body in bodies for n in walk(body)]
    if not region.iters or any(isinstance(n, (Scan, Scatter, Gather, Transpose, Random)) for n in nodes):
        return None
    if any(isinstance(n, Ref) and n.index is not None for n in nodes) or _is_moved(region):
        return None
    reduces = tuple(dict.fromkeys(n for n in nodes if isinstance(n, Reduce)))
    if not reduces or not all(map(_is_held, reduces)):
        return None
    iters = {a.name: a for a in region.iters}
    first = next((s for n in walk(reduces[0].body) if isinstance(n, Read) and (s := _slides(n, reduces[0], iters))), ())
    if not first:
        return None
    first = tuple(s for s in first if not s.is_tiling) or first
    rows, columns = (first[-2].axis,) if len(first) > 1 else (), first[-1].axis
    folds = tuple(_fold_of(one, iters, rows, columns) for one in reduces)
    innermost = nearest(region.yields[0].index)
    if None in folds or innermost & {a.name for a in rows}:
        return None
    others = tuple(a for a in region.iters if a not in rows and a != columns)
    if columns.name in innermost or not others:
        return Windowed(rows, (columns,), others, (), folds, (*others, *rows, columns))
    if others[-1].name not in innermost:
        return None
    planes = _beside_in_memory(region, others)
    batch = others[: -len(planes)]
    return Windowed(rows, (columns,), planes, batch, folds, (*batch, *rows, columns, *planes))


def _beside_in_memory(region: Region, others: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The last of the axes, as many as are contiguous in all outputs."""
    tensors = {t.name: t for t in region.outputs}
    found = others[-1:]
    for first in range(len(others) - 2, -1, -1):
        several = others[first:]
        if any(start_of(tensors[y.output], y.index, (several,)) is None for y in region.yields):
            break
        found = several
    return found


def _is_held(one: Reduce) -> bool:
    """Whether a fold is one that a thread's registers hold: a plain one, of elementwise work on reads, over axes of its
    own."""
    return (
        is_plain(one.op)
        and one.init is None
        and all(a.size is not None for a in one.axes)
        and all(isinstance(n, ELEMENTWISE) for n in walk(one.body))
    )


def _is_moved(region: Region) -> bool:
    """Whether a fold is asked for at another point than that of the axes."""
    folding: set[str] = set()

    def folds(body: Body) -> bool:
        return any(isinstance(n, Reduce) or isinstance(n, Ref) and n.name in folding for n in walk(body))

    for let in region.lets:
        if folds(let.expr):
            folding.add(let.name)
    return any(isinstance(n, BroadcastInDim) and folds(n.x) for body in bodies_of(region) for n in walk(body))


def _slides(read: Read, fold: Reduce, iters: dict[str, Axis]) -> tuple[Slide, ...]:
    """The dims of a read that windows slide along."""
    folded = {a.name: a for a in fold.axes}
    found = (_slide(number, e, folded, iters) for number, e in enumerate(read.index))
    return tuple(s for s in found if s is not None)


def _slide(number: int, place: Expr, folded: dict[str, Axis], iters: dict[str, Axis]) -> Slide | None:
    if any(len(names) > 1 or not all(isinstance(n, str) for n in names) for _, names in place.terms):
        return None
    terms = {names[0] if names else "": factor for factor, names in place.terms}
    low = terms.pop("", 0)
    taps, axes = [n for n in terms if n in folded], [n for n in terms if n in iters]
    if len(terms) != 2 or len(taps) != 1 or len(axes) != 1 or min(terms.values()) < 1:
        return None
    tap = folded[taps[0]]
    if tap.size is None or tap.size.constant is None or not 1 <= tap.size.constant <= MOST_TAPS:
        return None
    return Slide(number, iters[axes[0]], tap, terms[axes[0]], terms[taps[0]], low)


def _fold_of(one: Reduce, iters: dict[str, Axis], rows: tuple[Axis, ...], columns: Axis) -> Fold | None:
    """A fold whose images all slide along these axes by the same taps, along the rows in the same steps."""
    sliding = {columns.name, *(a.name for a in rows)}
    images: dict[Read, Image] = {}
    for element, read in _elements(one.body):
        if not sliding & {n for e in read.index for n in e.names()}:
            continue
        image = _image(element, read, one, iters, rows, columns)
        if image is None or images.setdefault(read, image) != image:
            return None
    found = tuple(images.values())
    moves = {(i.columns.tap, i.rows and (i.rows.tap, i.rows.step, i.rows.spread)) for i in found}
    if len(moves) != 1:
        return None
    column_tap, row_tap = found[0].columns.tap, found[0].rows and found[0].rows.tap
    return Fold(one, found, tuple(a for a in one.axes if a not in (row_tap, column_tap)))


def _elements(body: Body) -> Iterator[tuple[Body, Read]]:
    """Each read with the choice that is made around it alone, or by itself."""
    if isinstance(body, Read):
        yield body, body
    elif isinstance(body, Select) and isinstance(body.then, Read) and isinstance(body.other, Literal):
        yield body, body.then
    else:
        for inner in operands_of(body):
            yield from _elements(inner)


def _image(
    element: Body, read: Read, one: Reduce, iters: dict[str, Axis], rows: tuple[Axis, ...], columns: Axis
) -> Image | None:
    slides = {s.axis: s for s in _slides(read, one, iters)}
    along = slides.get(columns), slides.get(rows[0]) if rows else None
    if along[0] is None or rows and along[1] is None:
        return None
    moved = {n for s in along if s is not None for n in (s.axis.name, s.tap.name)}
    at = {s.dim for s in along if s is not None}
    if any(moved & set(e.names()) for number, e in enumerate(read.index) if number not in at):
        return None
    inside, others = [], []
    for bound in element.guard if isinstance(element, Select) else ():
        limits = {n for e in (bound.lower, bound.upper, bound.equals) if e is not None for n in e.names()}
        dim = next((n for n in sorted(at) if (bound.expr - read.index[n]).constant is not None), None)
        if (
            limits & moved
            or dim is None
            and moved & set(bound.expr.names())
            or dim is not None
            and bound.equals is not None
        ):
            return None
        if dim is None:
            others.append(bound)
            continue
        apart = bound.expr - read.index[dim]
        ends = (e if e is None else e - apart for e in (bound.lower, bound.upper))
        inside.append((dim, Bound(read.index[dim], *ends)))
    return Image(read, element, along[1], along[0], tuple(inside), tuple(others))
