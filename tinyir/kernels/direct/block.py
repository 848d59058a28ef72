"""The block of results that a thread computes, and what of an image it has at a time: the part of a row that the
block's windows cover.

    micro [2, 4, 8], 3x3 windows, channels innermost       rows of 6 places, 8 channels of each in one access
    micro [4, 8, 1], 3x3 windows from -1, columns innermost     rows of 24 elements from -8, three accesses
"""

from __future__ import annotations

import functools
import math

from ...ir.body import Read, Select, walk
from ...ir.expr import ZERO, Expr
from ...ir.neighbours import ACCESS_BYTES, is_multiple
from ...ir.plan.fields import Plan
from ...ir.present import names_in
from ...ir.region import Region
from ...ir.runs import offset_of
from ...kit.records import dataclass
from ..windowed import Fold, Image, Slide, Windowed

WIDTHS = (8, 4, 2)
MOST_ENDS = 2048  # steps of a walk, before its first row of results is whole, that are written out one by one
MOST_WRITTEN = 1024  # steps of the folds of one thread that are written out one by one
MOST_ROW = 160  # elements of an image that a thread holds at once
ACROSS_PLACES = {"planes": "thread.x", "columns": "thread.y", "rows": "thread.z"}
ALONG_PLACES = {"columns": "thread.x", "rows": "thread.y", "planes": "thread.z"}


@dataclass(frozen=True, slots=True)
class Block:
    """`rows` x `columns` results of a thread, of `wide` neighbours each where those are along the planes. `access` is
    how many elements of an image a thread takes at once, `walk` how many blocks it computes one below the other."""

    kernel: Windowed
    rows: int
    columns: int
    wide: int
    access: int
    walk: int = 1

    @classmethod
    def of(cls, plan: Plan, kernel: Windowed) -> Block:
        """The block of a plan."""
        high, columns, wide = plan.micro
        rows, walk = (1, high) if plan.cache else (high, 1)
        return cls(kernel, rows, columns, wide if kernel.is_across else 1, plan.widest, walk)

    @property
    def reach(self) -> tuple[int, int, int]:
        """Results that a thread computes along rows, columns and planes."""
        return self.rows * self.walk, self.columns, self.wide

    @property
    def along(self) -> str:
        """The axis that a thread has neighbours along; empty where it has none. An image may have no planes at all."""
        return self.kernel.planes[-1].name if self.wide > 1 else ""

    @property
    def results(self) -> int:
        """Of a thread, of one fold."""
        return self.rows * self.columns * self.wide

    @property
    def is_written(self) -> bool:
        """Whether the rows of the image are written out one by one, not in a loop."""
        images = (f.images[0] for f in self.kernel.folds)
        taps = (i.columns.taps * (i.rows.taps if i.rows else 1) for i in images)
        return self.results * max(taps) <= MOST_WRITTEN

    @property
    def slots(self) -> int:
        """Rows of results that registers hold: of a walk, those that a row of the image may belong to."""
        return self.rows if self.walk == 1 else slots_of(self.kernel)

    @property
    def turns(self) -> int:
        """Of a walk: one for each row of results, and for those before the first is whole."""
        return self.walk + self.slots - 1

    def row_step(self, image: Image) -> int:
        """Elements of the image from one row that the block reads to the next."""
        slide = image.rows
        return 1 if slide is None else slide.spread if self.rows == 1 else math.gcd(slide.step, slide.spread)

    def image_rows(self, image: Image) -> int:
        """Rows of the image that the block reads."""
        if self.walk > 1:
            return image.rows.step * self.turns
        return 1 if image.rows is None else (image.rows.places(self.rows) - 1) // self.row_step(image) + 1

    def place_step(self, image: Image) -> int:
        """The same along a row, where its places are taken one by one."""
        slide = image.columns
        return slide.spread if self.columns == 1 else math.gcd(slide.step, slide.spread)

    def loads(self, image: Image) -> int:
        """Accesses for the part of a row."""
        if self.kernel.is_across:
            return (image.columns.places(self.columns) - 1) // self.place_step(image) + 1
        return (self.ahead(image) + image.columns.places(self.columns) - 1) // self.access + 1

    def held(self, image: Image) -> int:
        """Elements of the part of a row."""
        return self.loads(image) * self.of_access(image)

    def words(self, image: Image) -> int:
        """Registers of the part of a row as it comes."""
        return self.loads(image) * max(1, self.of_access(image) * image.read.dtype.bytes // 4)

    def of_access(self, image: Image) -> int:
        """Elements that one access brings."""
        if self.kernel.is_across:
            return self.wide if image.has(self.kernel.planes[-1]) else 1
        return self.access

    def ahead(self, image: Image) -> int:
        """Elements of the first access before the first that is used."""
        return 0 if self.kernel.is_across else image.columns.low % self.access

    def place_of(self, image: Image, column: Expr, tap: Expr) -> Expr:
        """Which element (or place of several neighbours) of the row's part a result of the block uses for a tap."""
        slide = image.columns
        if self.kernel.is_across:
            step = self.place_step(image)
            return tap if self.columns == 1 else slide.step // step * column + slide.spread // step * tap
        return slide.step * column + slide.spread * tap + self.ahead(image)


def threads_along(threads: tuple[int, ...], kernel: Windowed) -> tuple[int, int, int]:
    """Threads of a CTA along rows, columns and planes."""
    places = ACROSS_PLACES if kernel.is_across else ALONG_PLACES
    count = dict(zip(("thread.x", "thread.y", "thread.z"), threads))
    return count[places["rows"]], count[places["columns"]], count[places["planes"]]


def wide_of(region: Region, kernel: Windowed) -> tuple[int, ...]:
    """How many neighbours along the planes a thread may have, the most first: as many as are one access in all that
    is written, and in what is read of an image along them."""
    if not kernel.is_across:
        return (1,)
    axis = kernel.planes[-1]
    places = [(region.tensor(y.output).type, y.index) for y in region.yields]
    places += [(region.tensor(i.read.tensor).type, i.read.index) for f in kernel.folds for i in f.images if i.has(axis)]
    return (
        *(
            w
            for w in WIDTHS
            if is_multiple(axis.size, w) and all(_is_side_by_side(t, i, axis.name, w) for t, i in places)
        ),
        1,
    )


@functools.lru_cache(maxsize=4096)
def accesses_of(region: Region, kernel: Windowed, columns: int) -> tuple[int, ...]:
    """How many elements along the columns a thread may take of an image at once, the most first: rows and guards begin
    and end on whole accesses, and so do the blocks."""
    if kernel.is_across:
        return (1,)
    images = [i for f in kernel.folds for i in f.images]
    return (*(w for w in WIDTHS if all(_is_cut_by(region, i, columns, w) for i in images)), 1)


@functools.lru_cache(maxsize=4096)
def store_width(region: Region, kernel: Windowed, columns: int) -> int:
    """How many results along the columns leave at once."""
    axis = kernel.columns[0]
    return next(
        w
        for w in (*WIDTHS, 1)
        if columns % w == 0
        and is_multiple(axis.size, w)
        and all(w == 1 or _is_side_by_side(region.tensor(y.output).type, y.index, axis.name, w) for y in region.yields)
    )


@functools.lru_cache(maxsize=4096)
def is_one_access(region: Region, read: Read, axis: str, wide: int) -> bool:
    """Whether this number of neighbours along an axis, read beside an image, are one access."""
    rest = offset_of(region.tensor(read.tensor).type.shape, read.index) - axis
    return axis not in rest.names() and is_multiple(rest, wide)


@functools.lru_cache(maxsize=4096)
def beside_of(fold: Fold) -> tuple[Read, ...]:
    """What a fold reads beside its images: factors that are the same for a row of results."""
    images = {i.read for i in fold.images}
    return tuple(dict.fromkeys(n for n in walk(fold.reduce.body) if isinstance(n, Read) and n not in images))


def names_of(read: Read) -> frozenset[str]:
    """The axes that a read depends on."""
    return names_in(read.index)


def is_guarded(fold: Fold, read: Read) -> bool:
    """Whether a factor is read only where a guard holds."""
    return any(isinstance(n, Select) and read in walk(n) for n in walk(fold.reduce.body))


def slots_of(kernel: Windowed) -> int:
    """Rows of results that a row of the image may belong to."""
    slide = kernel.folds[0].images[0].rows
    return -(-slide.taps // slide.step)


def is_written_out(kernel: Windowed, results: int) -> bool:
    """Whether those turns of a walk are that take in rows for less than all its rows of results; a thread has this
    number of results of each."""
    image = kernel.folds[0].images[0]
    return results * image.columns.taps * image.rows.taps * (slots_of(kernel) - 1) <= 2 * MOST_ENDS


def is_ahead(plan: Plan) -> bool:
    """Whether the rows of the image come to shared memory some turns ahead."""
    return any(item.where == "smem" for item in plan.cache)


def is_staged(region: Region, kernel: Windowed) -> bool:
    """Whether rows of the image may come so: a walk with the planes innermost, of one image that has them, whose rows
    are whole accesses, with zeros around it."""
    if not kernel.is_across or len(kernel.planes) != 1 or not _overlaps(kernel) or len(kernel.folds[0].images) != 1:
        return False
    (image,), (plane,) = kernel.folds[0].images, kernel.planes
    kind, width = region.tensor(image.read.tensor).type, ACCESS_BYTES // image.read.dtype.bytes
    return (
        image.has(plane)
        and is_multiple(plane.size, width)
        and _is_side_by_side(kind, image.read.index, plane.name, width)
        and not image.others
        and (image.outside is None or image.outside.value == 0)
    )


def is_walked(kernel: Windowed) -> bool:
    """Whether threads may walk down a tile with a row of the image in registers, columns innermost. (With planes
    innermost what a thread reads is too short to wait for.)"""
    return not kernel.is_across and _overlaps(kernel)


def _overlaps(kernel: Windowed) -> bool:
    """Whether a kernel is one fold of no other axes than its taps, whose rows are side by side and overlap."""
    if len(kernel.folds) > 1 or kernel.folds[0].beside:
        return False
    slide = kernel.folds[0].images[0].rows
    return slide is not None and slide.spread == 1 and slide.taps > slide.step


def _is_side_by_side(kind: object, index: tuple[Expr, ...], axis: str, width: int) -> bool:
    """Whether this number of neighbours along an axis are one access."""
    rest = offset_of(kind.shape, index) - axis
    return axis not in rest.names() and is_multiple(rest, width) and width * kind.dtype.bytes <= ACCESS_BYTES


def _is_cut_by(region: Region, image: Image, columns: int, width: int) -> bool:
    """Whether accesses of this number of elements cut an image's rows, its guards and the threads' blocks evenly."""
    slide, kind = image.columns, region.tensor(image.read.tensor).type
    rest = offset_of(kind.shape, image.read.index) - offset_of(kind.shape, _only(image.read.index, slide))
    ends = [e for dim, b in image.inside if dim == slide.dim for e in (b.lower, b.upper) if e is not None]
    return (
        slide.dim == len(image.read.index) - 1
        and width * kind.dtype.bytes <= ACCESS_BYTES
        and slide.step * columns % width == 0
        and is_multiple(kind.shape[-1], width)
        and is_multiple(rest, width)
        and all(is_multiple(e, width) for e in ends)
    )


def _only(index: tuple[Expr, ...], slide: Slide) -> tuple[Expr, ...]:
    return tuple(e if n == slide.dim else ZERO for n, e in enumerate(index))
