"""An operand of a contraction that is read through affine windows, as the copy engine fetches it without a matrix of
them in memory.

    sum (k1: 3, k2: 3, k0: C) X[i0, 2*i1 + k1 - 1, i2 + k2 - 1, k0]       of X : fp16[N, H, W, C]
    →  windows [P, Q] from [-1, -1] step [2, 1], taps k1 and k2, channels k0

Read off the access map alone. The channels are innermost in the tensor and in the sum, all of them, or those of the
group that a batch axis counts (`X[..., 64*i3 + k0]`). A batch axis may move windows (`X[i0, i1 + k1 + i4 - 1, k0]`):
the engine adds that to the place of the tap. The other axes of the sum, the taps, say where in a window an element is;
what a guard puts 0 around is outside of the tensor, where the engine gives 0 as well. The other operand is a matrix
whose rows have a dim of taps and one of channels.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...ir.body import Axis, Body, Literal, Read, Select
from ...ir.expr import ONE, ZERO, Expr
from ...ir.neighbours import is_multiple
from ...ir.region import Region
from ...ir.windows import CORNER_BITS, MOST_STEP, OFFSET_BITS, Windows
from ..problem import Contraction
from .boxes import Dim, View, view_of

GROUP_CHANNELS = 64  # of which a group has a multiple, so that no step of the sum has another group's
Views = tuple["View | str", "View | str"]


@functools.lru_cache(maxsize=4096)
def operand_views(region: Region, kernel: Contraction) -> Views:
    """How the copy engine fetches each factor, or in words why it cannot: as boxes of the tensor where it can, as
    windows where the other factor is a matrix of their taps and channels."""
    reads = (kernel.lhs, kernel.rhs)
    plain = tuple(view_of(region, r.tensor, r.index, kernel) for r in reads)
    whole = [isinstance(v, View) and f is r for v, f, r in zip(plain, kernel.factors, reads)]
    if all(whole):
        return plain
    for side in (0, 1):
        found = _windows(region, kernel, side)
        if found is not None:
            other = reads[1 - side]
            taps = tuple(a for a in kernel.sum if a != kernel.sum[-1])
            matrix = view_of(region, other.tensor, other.index, kernel, taps)
            if isinstance(matrix, View) and kernel.factors[1 - side] is other:
                return (found, matrix) if side == 0 else (matrix, found)
    return plain


def windowed(views: Views) -> View | None:
    """The one of the two that is fetched as windows."""
    return next((v for v in views if isinstance(v, View) and v.windows), None)


def _windows(region: Region, kernel: Contraction, side: int) -> View | None:
    """The factor as windows, where it is read through some that the engine takes."""
    read, own, role = (kernel.lhs, kernel.rhs)[side], kernel.groups[side], ("left", "right")[side]
    tensor = next(t for t in region.inputs if t.name == read.tensor)
    rank, shape = tensor.type.rank, tensor.type.shape
    if rank - 2 not in CORNER_BITS or tensor.type.dtype.bits < 16 or not tensor.type.dtype.is_float:
        return None
    *taps, channel = kernel.sum
    image, *middle, last = read.index
    ahead = _ahead(last, channel, shape[-1], kernel.batch)
    if ahead is None:
        return None
    rest = list(own)
    if image.constant != 0 or shape[0] != ONE:
        if not rest or image.name != rest[0].name or rest[0].size != shape[0]:
            return None
        rest.pop(0)
    counts, low, steps, spread, dims, later = [], [], [], [], [], []
    left, batch = {a.name: a for a in taps}, {a.name: a for a in kernel.batch}
    for e in middle:
        terms = _terms(e)
        if terms is None:
            return None
        moved = {name: (terms.pop(name), batch[name]) for name in [*terms] if name in batch}
        most = _most(moved)
        if most is None:
            return None
        place = rest.pop(0) if rest and rest[0].name in terms else None
        inside = [left.pop(n) for n in terms if n in left]
        step = terms.get(place.name, 0) if place else 1
        apart = terms[inside[0].name] if inside else 1
        if len(terms) - ("" in terms) != len(inside) + (place is not None) or len(inside) > 1 or apart < 1:
            return None
        if not 1 <= step <= MOST_STEP or not _is_near(terms.get("", 0), apart, inside, most, rank - 2):
            return None
        later.append(sum((n * Expr.of(name) for name, (n, _) in moved.items()), ZERO))
        counts.append(place.size if place else ONE)
        low.append(terms.get("", 0))
        steps.append(step)
        spread.append(apart)
        dims.append(Dim("tap", tuple(inside)))
    if rest or left:
        return None
    if not _is_outside(kernel.factors[side], read, shape):
        return None
    return View(
        tensor,
        (Dim(role, own), *dims, Dim("sum", (channel,))),
        windows=Windows(tuple(counts), tuple(low), tuple(steps)),
        spread=tuple(spread),
        ahead=ahead,
        later=tuple(later),
    )


def _ahead(place: Expr, channel: Axis, size: Expr, batch: tuple[Axis, ...]) -> Expr | None:
    """How many channels are before those that are summed: none where these are all, whole steps of the others'
    where batch axes count groups of them; None where it is neither."""
    if place.name == channel.name:
        return ZERO if channel.size == size else None
    ahead = place - channel.name
    groups = {a.name for a in batch}
    is_of_groups = channel.name not in ahead.names() and set(ahead.names()) <= groups and bool(groups)
    return (
        ahead
        if is_of_groups and is_multiple(ahead, GROUP_CHANNELS) and is_multiple(channel.size, GROUP_CHANNELS)
        else None
    )


def _terms(e: Expr) -> Mapping[str, int] | None:
    """The factors of an affine place by axis, its constant under ""; None where it is none."""
    if any(len(names) > 1 or not all(isinstance(n, str) for n in names) for _, names in e.terms):
        return None
    return {names[0] if names else "": factor for factor, names in e.terms}


def _most(moved: Mapping[str, tuple[int, Axis]]) -> int | None:
    """The most places that batch axes move a window by; None where that is not known, or it may be back."""
    if any(n < 0 or axis.size.constant is None for n, axis in moved.values()):
        return None
    return sum(n * (axis.size.constant - 1) for n, axis in moved.values())


def _is_near(low: int, apart: int, inside: list[Axis], moved: int, axes: int) -> bool:
    """Whether a window begins and ends where the engine can say so, moved by `moved` places at most."""
    most, far = 1 << CORNER_BITS[axes] - 1, 1 << OFFSET_BITS[axes]
    size = inside[0].size.constant if inside else 1
    return -most <= low < most and size is not None and apart * (size - 1) + moved < far


def _is_outside(factor: Body, read: Read, shape: tuple[Expr, ...]) -> bool:
    """Whether a factor is the read, or 0 just where that is outside of the tensor."""
    if factor is read:
        return True
    if not isinstance(factor, Select) or factor.then is not read:
        return False
    sizes = dict(zip(read.index, shape))
    return (
        isinstance(factor.other, Literal)
        and factor.other.value == 0
        and all(
            b.lower in (None, ZERO) and b.equals is None and b.expr in sizes and b.upper in (None, sizes[b.expr])
            for b in factor.guard
        )
    )


def tap_offset(view: View, number: int, tap: Expr, taps: tuple[Axis, ...]) -> Expr:
    """How far inside a window the tap is along one of the window's axes, and batch axes move that; `taps` count it."""
    dim, later = view.dims[1 + number], view.later[number]
    if not dim.axes:
        return later
    digit = tap
    for axis in reversed(taps):
        if axis == dim.axes[0]:
            outer = taps.index(axis) == 0
            return later + view.spread[number] * (digit if outer else digit - axis.size * (digit // axis.size))
        digit = digit // axis.size
    raise AssertionError("a tap of no axis of the sum")
