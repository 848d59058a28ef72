"""Runs: axes of which neighbouring points are side by side in memory, so that a thread may move several in one access.

The points of a run's axes are counted through, the last axis the fastest. In every tensor that is written, and in every
one that is read at all points, the element of a point is that far behind the run's first one; all of these first
elements are equally far behind a whole access. So vectors that begin on whole accesses in one tensor do so in all.
`X[i0, i1] + Z[i0, i1]` of shape [M, N] is a run of M*N elements whatever N is; a few may be left behind its last whole
vector. A row of C elements is a run that begins C*i0 elements into the tensor: a few may be before its first
whole vector too. What is read at fewer points (a row beside a matrix) is taken one by one, wherever it is. So is,
beside writes in whole vectors, what a map reads from between two accesses, or in steps: `X[2*i0 + i1 - 1]`, a window.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..kit.records import dataclass
from .accumulate import is_plain
from .body import Axis, Body, Gather, Read, Reduce, Ref, Scan, Scatter, Transpose, walk
from .expr import ONE, ZERO, Expr, Floor
from .model import Tensor
from .neighbours import ACCESS_BYTES, is_multiple
from .present import guard_names, names_in
from .region import Region
from .traits import axes_of, bodies_of, extent_of

WIDTHS = (16, 8, 4, 2)  # elements
STEPS = (1, 2, 3, 4)  # elements from one to the next, so that a line still holds what neighbours read
SHARED = tuple(1 << n for n in range(13))  # points that share an element
WORD_BITS = 32  # as many numbers as share a word at most
MOST_HELD = 128  # registers of a thread for neighbours of all tensors
WORTH_CUTTING = 8  # vectors of a run whose first and last are cut


@dataclass(frozen=True, slots=True)
class Run:
    """`width` points along `axes` move at once. The run begins `start` elements, of which only the remainder by `width`
    counts, behind a whole access; 0 where it begins on one."""

    axes: tuple[Axis, ...]
    width: int
    start: Expr = ZERO

    @property
    def extent(self) -> Expr:
        """Points of the run."""
        return extent_of(self.axes)

    @property
    def is_whole(self) -> bool:
        """Whether the run is known to be made of whole vectors."""
        return self.start == ZERO and is_multiple(self.extent, self.width)

    @property
    def skew(self) -> Expr:
        """Elements before the run that its first whole access also covers."""
        return self.start - self.width * (self.start // self.width)

    @property
    def head(self) -> Expr:
        """Elements of the run before its first whole vector; fewer where it ends before."""
        return self.width * self.start.ceildiv(self.width) - self.start

    def covering(self, skew: Expr) -> Expr:
        """How many vectors cover the run, of which the first covers `skew` elements before it."""
        return (self.extent + skew).ceildiv(self.width)

    def whole(self, head: Expr) -> Expr:
        """How many whole vectors follow the first `head` elements; less than 0 where the run ends before."""
        return (self.extent - head) // self.width

    @property
    def most_left(self) -> int:
        """The most elements that no whole vector has."""
        return 0 if self.is_whole else self.width - 1 if self.start == ZERO else 2 * (self.width - 1)

    def left(self, thread: Expr, head: Expr, whole: Expr) -> Expr:
        """The element that a thread takes of those which no whole vector has, before them and behind: of that
        element and the run's end both must be below the latter, and the thread's number not above the element's."""
        behind = ONE if head == ZERO else (thread + self.width - head) // self.width
        return thread + self.width * whole * behind


@dataclass(frozen=True, slots=True)
class Start:
    """Elements before a run's first in a tensor, whose elements take `size` bytes, whether it is written there,
    elements from one point's to the next, and points that share an element."""

    at: Expr
    size: int
    is_written: bool
    step: int
    shared: int = 1

    def begins(self, width: int) -> bool:
        """Whether the elements of `width` points begin on whole accesses."""
        return is_multiple(self.at, max(1, width // self.shared))


def map_runs(region: Region) -> tuple[Run, ...]:
    """The runs of a map that are worth a plan: along the fewest axes in whole vectors, and the widest; of those in
    which all moves in vectors, and of all."""
    every = [
        run
        for count in range(1, len(region.iters) + 1)
        for width in WIDTHS
        if (run := map_run(region, count, width)) is not None
    ]
    found: dict[Run, None] = {}
    for runs in ([run for run in every if not singles_of(region, len(run.axes), run.width)], every):
        widest = max(runs, key=lambda run: (run.width, -len(run.axes)), default=None)
        found |= dict.fromkeys(
            run for run in (widest, *[r for r in runs if r.is_whole and len(r.axes) == 1][:1]) if run is not None
        )
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def map_run(region: Region, count: int, width: int) -> Run | None:
    """The run of a map's last `count` axes in vectors of `width`; None where it is none. One along all axes may end in
    a piece of a vector."""
    if not _folds_by_neighbours(region):
        return None
    axes = region.iters[len(region.iters) - count :]
    starts = _starts(region, (axes,), is_everywhere=True)
    if not starts or not _fits(starts, width) or not all(is_multiple(s.at, width) for s in starts if s.is_written):
        return None
    run = Run(axes, width)
    folds = any(isinstance(n, Reduce) for b in bodies_of(region) for n in walk(b))
    if not folds and not _stores_whole(starts, width):
        return None
    if not run.is_whole and (_singles(starts, width) or _are_shared(starts)):
        return None
    return run if run.is_whole or not folds and count == len(region.iters) and _is_worth_cutting(run) else None


@functools.lru_cache(maxsize=4096)
def column_run(region: Region, width: int) -> Run | None:
    """The run of the last axis of what folds columns, in vectors of `width`: all that is read begins as far behind a
    whole access, in each row of the fold, though not on one: `X[i0 + 8192*k0 + 1]`, or `X[4093*k0 + i0]`, whose rows
    begin where those `width` before them do. None where they do not."""
    found = map_run(region, 1, width)
    whole = found if found is not None and found.is_whole else None
    axes = region.iters[-1:]
    starts = [s for s in _starts(region, (axes,), is_everywhere=True) if not s.is_written]
    if whole is not None and not _singles(starts, width) or not starts or not _folds_by_neighbours(region):
        return whole
    skew = Expr.of(0)
    for c, m in starts[0].at.terms:
        skew = skew + Expr(((c % width, m),)) if c % width else skew
    is_even = all(s.step == s.shared == 1 and is_multiple(s.at - skew, width) for s in starts)
    run = Run(axes, width, skew)
    is_known = skew.constant is not None or _returns(region, skew, width)
    return run if is_even and is_known and _fits(starts, width) and _is_worth_cutting(run) else whole


def _returns(region: Region, start: Expr, width: int) -> bool:
    """Whether rows of a region's folds begin where those `width` rows before them do: all are along one axis, of which
    the place is a multiple."""
    folds = [n for b in bodies_of(region) for n in walk(b) if isinstance(n, Reduce)]
    axes = {a.name for fold in folds for a in fold.axes}
    if len(axes) != 1 or any(len(fold.axes) != 1 for fold in folds):
        return False
    (along,) = axes
    return is_multiple(start.substitute({along: Expr.of(along) + width}) - start, width)


@functools.lru_cache(maxsize=4096)
def singles_of(region: Region, count: int, width: int) -> tuple[int, ...]:
    """Bytes from one point's element to the next, of each read of the run of a map that is taken one by one, since it
    begins between two accesses, or has elements between them."""
    return _singles(_starts(region, (region.iters[len(region.iters) - count :],), is_everywhere=True), width)


def _singles(starts: Iterable[Start], width: int) -> tuple[int, ...]:
    return tuple(s.step * s.size for s in starts if not s.is_written and (s.step > 1 or not s.begins(width)))


def _are_shared(starts: Iterable[Start]) -> bool:
    return any(s.shared > 1 for s in starts)


@functools.lru_cache(maxsize=4096)
def _folds_by_neighbours(region: Region) -> bool:
    return all(map(_is_by_neighbours, bodies_of(region)))


def _is_by_neighbours(body: Body) -> bool:
    """Whether what a body folds can be folded for neighbours beside one another: plainly, and of what is read."""
    nodes = tuple(walk(body))
    inner = [n for fold in nodes if isinstance(fold, Reduce) for n in walk(fold.body)]
    is_plain_fold = all(
        is_plain(n.op) and all(a.size is not None for a in n.axes) for n in nodes if isinstance(n, Reduce)
    )
    return (
        is_plain_fold
        and not any(isinstance(n, (Scan, Scatter)) for n in nodes)
        and not any(isinstance(n, (Reduce, Ref, Gather)) for n in inner)
    )


def row_runs(region: Region, kernel: Any) -> tuple[Run, ...]:
    """The runs of a row or of a scan that are worth a plan: the widest, and the widest in whole vectors."""
    found = [run for width in WIDTHS if (run := row_run(region, kernel, width)) is not None]
    return tuple(dict.fromkeys((*found[:1], *[run for run in found if run.is_whole][:1])))


def row_run(region: Region, kernel: Any, width: int) -> Run | None:
    """The run of a row, or of one that is scanned forwards, in vectors of `width`; None where it is none."""
    if kernel.reverse:
        return None
    folds = [n.axes for b in bodies_of(region) for n in walk(b) if isinstance(n, Reduce) and n.axes[0].size is not None]
    starts = _starts(region, tuple(dict.fromkeys((kernel.row, *folds))), is_everywhere=False)
    if not starts or not _fits(starts, width) or not _stores_whole(starts, width):
        return None
    if _are_shared(starts):
        run = Run(kernel.row, width)
        return run if run.is_whole and all(s.begins(width) for s in starts) else None
    first = starts[0].at
    if not all(is_multiple(s.at - first, width) for s in starts):
        return None
    run = Run(kernel.row, width, ZERO if is_multiple(first, width) else first)
    return run if run.is_whole or _is_worth_cutting(run) else None


def _fits(starts: Iterable[Start], width: int) -> bool:
    """Whether the narrowest tensor's neighbours are one access, and those of all tensors fit in registers."""
    moved = [width // s.shared * s.size for s in starts if s.shared < width]
    words = sum(max(1, width // s.shared) * -(-s.size // 4) for s in starts)
    return bool(moved) and min(moved) <= ACCESS_BYTES and words <= MOST_HELD


def _stores_whole(starts: Iterable[Start], width: int) -> bool:
    """Whether neighbours of each output are one access: in two, a warp's stores of either would leave out every other
    piece of a line."""
    return all(width * s.size <= ACCESS_BYTES for s in starts if s.is_written)


def _is_worth_cutting(run: Run) -> bool:
    return run.extent.constant is None or run.extent.constant >= WORTH_CUTTING * run.width


@functools.lru_cache(maxsize=4096)
def _starts(region: Region, groups: tuple[tuple[Axis, ...], ...], is_everywhere: bool) -> tuple[Start, ...]:
    """Where the first element of the run is in what is written, then in what is read at all points; empty where
    neighbours are not side by side. `groups` are the names under which the run's axes go; `is_everywhere`: every
    write is along them."""
    along = {a.name for group in groups for a in group}
    nodes = [n for b in bodies_of(region) for n in walk(b)]
    is_moved = any(isinstance(n, Transpose) or isinstance(n, Ref) and n.index is not None for n in nodes)
    is_chosen = any(along & _all_axes(region, n.at) for n in nodes if isinstance(n, Gather))
    if not along or is_moved or is_chosen or any(along & guard_names(y.guard) for y in region.yields):
        return ()
    found: list[Start] = []
    writes = [(y.output, y.index, True) for y in region.yields]
    for name, index, is_write in dict.fromkeys(
        [*writes, *((n.tensor, n.index, False) for n in nodes if isinstance(n, Read))]
    ):
        names = names_in(index)
        if not along & names and not (is_write and is_everywhere):
            continue
        if not is_write and not _is_everywhere(region, groups, names):
            continue
        steps = (1,) if is_write or not is_everywhere else STEPS
        ways = [(step, 1) for step in steps] + [(1, shared) for shared in SHARED[1:] if not is_write]
        start = next(
            (
                Start(at, region.tensor(name).type.dtype.bytes, is_write, step, shared)
                for step, shared in ways
                if (at := start_of(region.tensor(name), index, groups, step, shared)) is not None
            ),
            None,
        )
        if start is None:
            return ()
        found.append(start)
    return tuple(found)


def _is_everywhere(region: Region, groups: tuple[tuple[Axis, ...], ...], names: frozenset[str]) -> bool:
    """Whether a read varies along every axis, so that it brings in as much as there are points."""
    along = {a.name for group in groups for a in group}
    rows = {a.name for a in region.iters} - along
    return rows <= names and any({a.name for a in group} <= names for group in groups)


def start_of(
    tensor: Tensor, index: tuple[Expr, ...], groups: tuple[tuple[Axis, ...], ...], step: int = 1, shared: int = 1
) -> Expr | None:
    """Where in a tensor the first point of a run is; None where the others do not follow it in steps of `step`
    elements, each of which `shared` points share."""
    offset = offset_of(tensor.type.shape, index)
    along = {a.name for group in groups for a in group}
    numbers = (
        number_in(group, {a.name: Expr.of(a.name) for a in group})
        for group in groups
        if _may_follow(offset, group, step, shared)
    )
    rests = (offset - step * (number // shared if shared > 1 else number) for number in numbers)
    return next((rest for rest in rests if along.isdisjoint(rest.names())), None)


def _may_follow(offset: Expr, group: tuple[Axis, ...], step: int, shared: int) -> bool:
    """Whether a place may have the last axis of a group as a run does: `step` times, or in a floor. It costs less than
    to subtract the run's number."""
    if shared > 1:
        return any(atom.__class__ is Floor for _, monomial in offset.terms for atom in monomial)
    return not group or step == sum(number for number, monomial in offset.terms if monomial == (group[-1].name,))


@functools.lru_cache(maxsize=1 << 14)
def offset_of(shape: tuple[Expr, ...], index: tuple[Expr, ...]) -> Expr:
    """How many elements of a tensor are before one."""
    offset = ZERO
    for size, e in zip(shape, index):
        offset = offset * size + e
    return offset


def sharing(region: Region) -> Iterator[int]:
    """How many neighbours may share an element of each read: what its index is divided by, up to the bits of a word."""
    for body in bodies_of(region):
        for node in walk(body):
            if isinstance(node, Read):
                atoms = (atom for e in node.index for _, monomial in e.terms for atom in monomial)
                yield from (d for a in atoms if isinstance(a, Floor) and (d := a.den.constant or 1) <= WORD_BITS)


def number_in(axes: tuple[Axis, ...], names: Mapping[str, Expr]) -> Expr:
    """The number of a point in the order of the axes, the last the fastest."""
    number, inner = ZERO, ONE
    for axis in reversed(axes):
        number = number + names[axis.name] * inner
        inner = inner * axis.size
    return number


def _all_axes(region: Region, body: Body) -> set[str]:
    """The names in an expression and in the values that it needs."""
    found = set(axes_of(body))
    for node in walk(body):
        if isinstance(node, Ref):
            found |= _all_axes(region, region.let(node.name).expr)
    return found
