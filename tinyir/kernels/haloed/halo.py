"""Which contractions the family computes, and what of the image a tile of them covers: its rows and columns with what
the windows reach beyond them.

    tile of 8 rows of 16 results, 3x3 windows           180 places of the image, 10 rows of 18
    by steps of 2                                       17 rows of 33; columns of one remainder are contiguous, so
                                                        that those of one tap are
    groups of 16 channels                               four groups side by side are the channels of a place
    of 4 channels                                       sixteen; a fragment has four taps of one
"""

from __future__ import annotations

import functools

from ...ir.body import Axis, Read
from ...ir.expr import ZERO, Bound, Expr
from ...ir.neighbours import is_multiple
from ...ir.region import Region
from ...ir.runs import offset_of
from ...ir.traits import extent_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from ...target.ampere import COPIES
from ..family import Problem
from ..parts.boxes import MMA_FACTORS, View, misfit, view_of
from ..problem import Contraction
from ..windowed import Image, windowed_of

ALONG = 16  # results of a row of the tile: those of one fragment
DEPTH = 64  # channels of a block: a swizzled row
FEW = 8  # channels up to which windows are expanded on the chip
MOST_SUM = 512  # elements of the sum then
OCT = 8  # channels that one store has of a place: 16 bytes
MOST_ALONG = 4  # columns that an access has where channels are not contiguous
STEP = 16
LEAST_GROUP = 4  # channels of a group that is multiplied, and what it makes


@dataclass(frozen=True, slots=True)
class Halo:
    """The image of a contraction: on which `side` of the product it is, and its channels; `taps` are the sum's other
    axes, in its order. `width` channels are what one copy of the image moves, `beside` what one of the other factor
    does; 1 where no 4 bytes of them are contiguous: then the image may be read along its columns, `along` of them at
    once, 1 where rows do not begin on an access. `no_ring` says in words why the other factor has no ring of tiles,
    and is empty where it has; `depth` is what a tile has of the sum without one: a row of expanded windows with zeros
    at its end, the whole sum of `groups`; 0 where there are too many channels. `made` begins with the groups."""

    image: Image
    side: int
    channel: Axis
    taps: tuple[Axis, ...]
    images: tuple[Axis, ...]
    groups: tuple[Axis, ...]
    made: tuple[Axis, ...]
    width: int
    along: int
    beside: int
    no_ring: str
    depth: int

    @property
    def summed(self) -> int:
        """Elements of the sum of a row of taps."""
        return (self.image.columns.tap.size.constant or 1) * (self.channel.size.constant or 1)

    @property
    def line(self) -> int:
        """The same with the zeros behind them."""
        return -(-self.summed // STEP) * STEP

    @property
    def rows(self) -> Axis:
        """The axis of the results' rows."""
        return self.image.rows.axis

    @property
    def columns(self) -> Axis:
        """The axis of the results' columns."""
        return self.image.columns.axis

    @property
    def blocks(self) -> int:
        """Blocks of channels."""
        return -(-(self.channel.size.constant or 1) // DEPTH)

    @property
    def channels(self) -> Expr:
        """Channels of the image, of all groups."""
        return self.channel.size * extent_of(self.groups)

    @property
    def packed(self) -> int:
        """Groups whose channels a place of the image has in shared memory."""
        return DEPTH // self.room

    @property
    def room(self) -> int:
        """Places for the channels of a group, which have zeros behind them: those of whole fragments, where one has not
        several taps."""
        count = self.channel.size.constant or DEPTH
        return count if count < STEP else -(-count // STEP) * STEP

    @property
    def of_group(self) -> int:
        """What a group makes."""
        return extent_of(self.made[len(self.groups) :]).constant or 0

    @property
    def made_room(self) -> int:
        """Places for what a group makes: those of whole fragments, or a part of one that several groups share."""
        return self.of_group if STEP % self.of_group == 0 else -(-self.of_group // STEP) * STEP

    @property
    def slots(self) -> Expr:
        """Places for all that is made."""
        return extent_of(self.groups) * self.made_room if self.groups else extent_of(self.made)

    def made_at(self, slot: Expr) -> tuple[Expr, tuple[Bound, ...]]:
        """What is made at a place, and under which guard anything is."""
        room, count = (self.made_room, self.of_group) if self.groups else (1, 1)
        if room == count:
            return slot, ()
        rest = slot - room * (slot // room)
        return count * (slot // room) + rest, (Bound(rest, upper=Expr.of(count)),)

    def channel_at(self, block: Expr, place: Expr) -> tuple[Expr, tuple[Bound, ...]]:
        """The channel of the image that a place of a block has, and under which guard it has one."""
        count = self.channel.size.constant or DEPTH
        if not self.groups or count == self.room and self.packed * count == DEPTH:
            return DEPTH * block + place, ()
        group = place // self.room if self.packed > 1 else ZERO
        rest = place - self.room * group
        return count * (self.packed * block + group) + rest, (Bound(rest, upper=Expr.of(count)),)

    @property
    def at_once(self) -> int:
        """Groups that make what is in one fragment: each has a sum of its own."""
        return max(1, STEP // self.made_room) if self.groups else 1

    @property
    def is_narrow(self) -> bool:
        """Whether a fragment has several taps of a group."""
        return bool(self.groups) and (self.channel.size.constant or STEP) < STEP

    def high(self, rows: int) -> int:
        """Rows of the image that this number of rows of results covers."""
        return self.image.rows.places(rows)

    @property
    def apart(self) -> int:
        """Columns of one remainder by the step."""
        return -(-self.image.columns.places(ALONG) // self.image.columns.step)

    @property
    def wide(self) -> int:
        """Places of a row in shared memory."""
        return self.apart * self.image.columns.step

    def pieces(self, width: int) -> int:
        """Accesses of this many columns that have the places of a row."""
        return -(-(self.image.columns.low % width + self.wide) // width)

    def at_column(self, place: Expr) -> Expr:
        """Where in shared memory the place of a row is that has this number in the image."""
        step = self.image.columns.step
        return place // step + (self.apart * (place - step * (place // step)) if step > 1 else 0)

    def places(self, rows: int) -> int:
        """Places of the image that this number of rows of results covers."""
        return self.high(rows) * self.wide


def beyond(problem: Problem) -> str:
    """Why a contraction has no such image, in words; empty where it has one."""
    halo = halo_of(problem.region, problem.kernel)
    return "" if isinstance(halo, Halo) else halo


@functools.lru_cache(maxsize=4096)
def halo_of(region: Region, kernel: Contraction) -> Halo | str:
    """The image of a contraction, or in words why it has none."""
    windows = windowed_of(region)
    if fault := misfit(region, kernel, MMA_FACTORS[""], is_gathered=True):
        return fault
    if windows is None or len(kernel.batch) > 1 or len(windows.folds) != 1 or len(windows.folds[0].images) != 1:
        return Phrase("a product that is not of one image's windows")
    image, beside = windows.folds[0].images[0], windows.folds[0].beside
    side = next((s for s, read in enumerate((kernel.lhs, kernel.rhs)) if read == image.read), None)
    if side is None or image.rows is None or image.rows.step > ALONG or image.columns.step > ALONG:
        return Phrase("windows of one axis")
    if kernel.factors[side] != image.element or image.outside is not None and image.outside.value != 0:
        return Phrase("an image that is more than a read, with zeros around it")
    shape = next(t.type.shape for t in region.inputs if t.name == image.read.tensor)
    plain = {e.name: size for e, size in zip(image.read.index, shape) if e.name}
    (channel, *more) = beside or (None,)
    if more or channel is None:
        return Phrase("channels that are not a dim of the image, the last of the sum")
    if channel.size.constant is None:
        return Phrase("any number of channels")
    place = sum((channel.size.constant * Expr.of(a.name) for a in kernel.batch), Expr.of(channel.name))
    if (place, channel.size * extent_of(kernel.batch)) not in zip(image.read.index, shape):
        return Phrase("channels that are not a dim of the image, the last of the sum")
    own = kernel.groups[side]
    images = tuple(a for a in own if a not in (image.rows.axis, image.columns.axis))
    if any(a.name not in plain for a in images) or len(images) + 2 != len(own):
        return Phrase("an image whose results are not images, rows and columns")
    taps, other = tuple(a for a in kernel.sum if a != channel), (kernel.lhs, kernel.rhs)[1 - side]
    no_ring, count = _no_ring(region, kernel, other, channel, taps), extent_of(kernel.sum).constant or MOST_SUM
    made = kernel.groups[1 - side]
    width = _width(region, image.read, channel, kernel.batch)
    whole = channel.size * (extent_of(kernel.batch) if DEPTH % channel.size.constant == 0 else 1)
    is_apart = width == 1 and is_multiple(whole, OCT)
    widths = width, _along(image, shape) if is_apart else 1, _width(region, other, channel)
    if kernel.batch:
        if not _is_packed(kernel, image, channel, made) or kernel.factors[1 - side] is not other:
            return Phrase("groups whose channels neither divide 16 nor are a multiple of it")
        own = kernel.batch, (*kernel.batch, *made), *widths, Phrase("groups, of which a tile has several")
        found = Halo(image, side, channel, taps, images, *own, 0)
        if not found.is_narrow:
            return replace(found, depth=(extent_of(taps).constant or 1) * found.room)
        if {image.rows.tap, image.columns.tap} != {*taps}:
            return Phrase("windows of one axis")
        return replace(found, depth=(image.rows.tap.size.constant or 1) * found.line)
    is_few = channel.size.constant <= FEW and count < MOST_SUM and extent_of(made).constant is not None
    if kernel.factors[1 - side] is not other or no_ring and not is_few:
        return no_ring or Phrase("a factor beside the image that is not a matrix of taps and channels")
    depth = -(-count // STEP) * STEP if is_few else 0
    return Halo(image, side, channel, taps, images, (), made, *widths, no_ring, depth)


def _is_packed(kernel: Contraction, image: Image, channel: Axis, made: tuple[Axis, ...]) -> bool:
    """Whether the channels of groups, and what these make, are whole fragments or parts of one, and those of several a
    block."""
    groups = {a.name for a in kernel.batch}
    asked = (e for b in (*image.others, *(b for _, b in image.inside)) for e in (b.expr, b.lower, b.upper, b.equals))
    if any(e is not None and groups & set(e.names()) for e in asked):
        return False
    count, of_group = channel.size.constant, extent_of(made).constant or 0
    if min(count, of_group) < LEAST_GROUP or count > DEPTH or count < STEP and DEPTH % count:
        return False
    packed = DEPTH // (count if count < STEP else -(-count // STEP) * STEP)
    return (
        (of_group > STEP or STEP % of_group != 0 or packed * of_group % STEP == 0)
        and extent_of(kernel.sum).constant is not None
        and kernel.siblings == 1
    )


def _no_ring(region: Region, kernel: Contraction, other: Read, channel: Axis, taps: tuple[Axis, ...]) -> str:
    """Why the factor beside the image has no tiles of a tap's channels, in words; empty where it has."""
    if channel != kernel.sum[-1]:
        return Phrase("channels that are not a dim of the image, the last of the sum")
    matrix = view_of(region, other.tensor, other.index, kernel, taps)
    if not isinstance(matrix, View) or matrix.inner != "sum":
        return Phrase("a factor beside the image that is not a matrix of taps and channels")
    return ""


def _along(image: Image, shape: tuple[Expr, ...]) -> int:
    """Columns that one access moves, two at least: 1 where rows of memory do not begin on one."""
    if image.columns.dim != len(shape) - 1 or OCT * image.read.dtype.bytes != COPIES[0]:
        return 1
    ends = [e for dim, b in image.inside if dim == image.columns.dim for e in (b.lower, b.upper) if e is not None]
    found = (n for n in (MOST_ALONG, MOST_ALONG // 2) if all(is_multiple(e, n) for e in (shape[-1], *ends)))
    return next(found, 1)


def _width(region: Region, read: Read, channel: Axis, groups: tuple[Axis, ...] = ()) -> int:
    """Channels that one asynchronous copy moves, of these groups together; 1 where no 4 bytes of them are
    contiguous."""
    shape = next(t.type.shape for t in region.inputs if t.name == read.tensor)
    rest = offset_of(shape, read.index).substitute({a.name: ZERO for a in groups}) - channel.name
    if channel.name in rest.names():
        return 1
    is_whole = DEPTH % (channel.size.constant or DEPTH) == 0  # groups are side by side without zeros between them
    channels = channel.size * extent_of(groups) if is_whole else channel.size
    return next(
        (
            size // read.dtype.bytes
            for size in COPIES
            if is_multiple(rest, size // read.dtype.bytes) and is_multiple(channels, size // read.dtype.bytes)
        ),
        1,
    )
