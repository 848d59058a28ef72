"""The image that windows slide over, where it is not the tensor: spread by zeros, as that of a transposed convolution
by steps, repeated, as a larger one, or another function of where in it an element is.

    x[i0, floor((i1 + k1)/2), k0] where (i1 + k1) mod 2 < 1     →  image[i0, i1 + k1, k0], of i1 + k1 elements

A place of a window and a tap are one axis of the image where the factor depends on their sum alone; found by putting
that in.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Axis, Body, Read, Select, substitute, walk
from ...ir.expr import ONE, ZERO, Expr
from ...ir.traits import axes_of
from ...kit.records import dataclass
from ..problem import Contraction

SLID, IMAGE = "@slid", "@image"
MOST_APART = 16  # elements, of neighbouring taps


@dataclass(frozen=True, slots=True)
class Slid:
    """The image of a factor: its axes, that of the images first and the channels last, what a window reads along each,
    and the taps, with the batch axes that move windows."""

    axes: tuple[Axis, ...]
    places: tuple[Expr, ...]
    taps: tuple[Axis, ...]


def slid_image(kernel: Contraction, side: int) -> Slid | None:
    """The image; None where a factor is not of one."""
    factor, own = kernel.factors[side], (kernel.left, kernel.right)[side]
    used = axes_of(factor)
    summed = [a for a in kernel.sum if a.name in used]
    channels = [a for a in summed if _is_alone(factor, a)]
    taps = [a for a in summed if a not in channels]
    moved = [a for a in kernel.batch if a.name in used]
    if not taps or len(channels) != 1 or any(a.size.constant is None for a in taps + moved):
        return None
    reach, read = dict.fromkeys(own, ZERO), {axis: Expr.of(axis.name) for axis in own}
    slid: set[Axis] = set()
    for tap in taps + moved:
        found = next(((a, n) for a in own if tap in moved or a not in slid for n in _apart(factor, a, tap)), None)
        if found is None:
            return None
        axis, apart = found
        factor = substitute(factor, {axis.name: Expr.of(axis.name) - apart * Expr.of(tap.name)})
        reach[axis] += apart * (tap.size - 1)
        read[axis] += apart * Expr.of(tap.name)
        slid |= {axis}
    is_one = not own or own[0] in slid or (kernel.lhs, kernel.rhs)[side].index[0] == ZERO
    axes, places = ([Axis(IMAGE, ONE)], [ZERO]) if is_one else ([], [])
    axes += [Axis(axis.name, axis.size + reach[axis]) for axis in own]
    return Slid(
        (*axes, *channels),
        (*places, *read.values(), *(Expr.of(a.name) for a in channels)),
        tuple(taps + moved),
    )


def _is_alone(factor: Body, axis: Axis) -> bool:
    """Whether an axis is a place in what a factor reads, and nothing else knows it."""
    return all(axis.name not in e.names() or e.name == axis.name for e in _expressions(factor))


def _apart(factor: Body, axis: Axis, tap: Axis) -> Iterator[int]:
    """How many elements of an image neighbouring taps are apart, where windows are one apart along the axis and the
    factor knows no more than where in the image it reads."""
    for apart in range(1, MOST_APART + 1):
        slid = substitute(factor, {axis.name: Expr.of(SLID) - apart * Expr.of(tap.name)})
        if tap.name not in axes_of(slid):
            yield apart


def _expressions(factor: Body) -> Iterator[Expr]:
    """The places and the bounds of a factor."""
    for node in walk(factor):
        if isinstance(node, Read):
            yield from node.index
        elif isinstance(node, Select):
            for b in node.guard:
                yield from (e for e in (b.expr, b.lower, b.upper, b.equals) if e is not None)
