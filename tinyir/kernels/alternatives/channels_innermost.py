"""A contraction over windows as the copy engine fetches it: channels innermost in memory and in the sum, the other
operand a matrix of rows of taps and channels. What is in another order is copied so, a constant once; a factor that
has no dim for an axis of the sum, or the others not in their order and each in one, as the weights of phases
(`w[k0, i1, 3 - i0 - 2*k1]`, `w[k0, floor(i1/2), i1 - 2*floor(i1/2)]`), is laid out by its axes.

before: region y    %y = reduce sum (k0: C, k1: 3) { mul(x[i0, k0, i2 + k1], w[i1, k0, k1]) }
after:  region y.x  yield y.x[i0, i1, i2] = x[i0, i2, i1]
        region y.w  yield y.w[i0, i1, i2] = w[i0, i2, i1]
        region y    %y = reduce sum (k1: 3, k0: C) { mul(y.x[i0, i2 + k1, k0], y.w[i1, k1, k0]) }
"""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.regions import analyse
from ...ir.body import Axis, Body, Read, Reduce
from ...ir.expr import Expr
from ...ir.region import Region, Tensor, Yield
from ...ir.types import TensorType
from ...kit.records import dataclass, replace
from ..parts.windows import operand_views, windowed
from ..problem import Contraction, kernel_of
from .parts import free_name, point_of


@dataclass(frozen=True, slots=True)
class Side:
    """A factor of a contraction: the work in it, where that may be computed apart as `region`, and what is read of it
    then."""

    work: Body
    region: Region
    read: Read


@dataclass(frozen=True, slots=True)
class Windows:
    """A contraction over windows: the axes of its sum with the channels last, and the copies that it reads then, of the
    image and of the `matrix`."""

    axes: tuple[Axis, ...]
    sides: tuple[Side, ...]
    matrix: tuple[Side, ...]

    def ordered(self, parts: tuple[Region, ...], is_image_copied: bool = True) -> tuple[Region, ...]:
        """The regions, the last of which is the contraction, with its sum in this order; where the image is copied too,
        none if the copy engine would not fetch the windows."""
        *before, last = parts
        lets = tuple(
            replace(let, expr=replace(let.expr, axes=self.axes)) if isinstance(let.expr, Reduce) else let
            for let in last.lets
        )
        last = replace(last, lets=lets)
        kernel = kernel_of(last, "contraction")
        is_fetched = isinstance(kernel, Contraction) and windowed(operand_views(last, kernel)) is not None
        if is_image_copied and not is_fetched:
            return ()
        return (*before, replace(last, analysis=analyse(last)))


def channels_innermost(one: Region, kernel: Contraction, names: Iterable[str]) -> Windows | None:
    """The contraction so; None where no factor is read through windows whose channels are a dim of the tensor."""
    side = next((s for s in (0, 1) if _axes(one, kernel, s)), None)
    if side is None:
        return None
    axes, reads = _axes(one, kernel, side), (kernel.lhs, kernel.rhs)
    windows, matrix = reads[side], reads[1 - side]
    (channels,) = _channels(kernel, windows, axes[-1])
    others, taken = [at for at in range(len(windows.index)) if at != channels], {*names}
    orders = {windows: (*others, channels)}
    if not _is_counted(one, kernel, side):
        found = (_laid_out(one, matrix, (*kernel.batch, *kernel.groups[1 - side], *axes), taken),)
        if orders[windows] != tuple(sorted(orders[windows])):
            found = (_copied(one, windows, orders[windows], taken, set()), *found)
        return Windows(axes, found, found[-1:])
    terms = [at for a in axes for at in _counted(one, matrix, a)]
    inside = [at for at in range(len(matrix.index)) if at in terms]
    mirrored = {at for at in terms if not matrix.index[at].name}
    if inside != terms or mirrored:
        orders[matrix] = (*(at for at in range(len(matrix.index)) if at not in terms), *terms)
    found = tuple(
        _copied(one, read, places, taken, mirrored if read is matrix else set())
        for read, places in orders.items()
        if [*places] != sorted(places) or read is matrix and mirrored
    )
    return Windows(axes, found, tuple(side for side in found if side.work is matrix))


def channels_of(one: Region, kernel: Contraction, side: int) -> int | None:
    """The dim of the channels of a factor that is read through windows; None where it is not read so."""
    axes = _axes(one, kernel, side)
    return _channels(kernel, (kernel.lhs, kernel.rhs)[side], axes[-1])[0] if axes else None


def _axes(one: Region, kernel: Contraction, side: int) -> tuple[Axis, ...]:
    """The axes of the sum, taps in the order in which they are in the tensor, the channels behind them: the one axis
    that is a place by itself. None at all where the other factor has not a place for each."""
    read, other = ((kernel.lhs, kernel.rhs)[s] for s in (side, 1 - side))
    channels = [a for a in kernel.sum if _channels(kernel, read, a)]
    dims = {at for a in channels for at in _channels(kernel, read, a)}
    mixed = [e for at, e in enumerate(read.index) if not e.name and e.constant is None and at not in dims]
    axes = (*(a for e in mixed for a in kernel.sum if a.name in e.names()), *channels)
    own = {a.name for a in kernel.groups[side]}
    is_slid = all(own & {*e.names()} for e in mixed) and kernel.factors[1 - side] is other
    is_matrix = is_slid or _is_counted(one, kernel, side)
    is_whole = len(channels) == 1 and sorted(axes, key=kernel.sum.index) == [*kernel.sum]
    return axes if mixed and is_matrix and is_whole and len(_channels(kernel, read, axes[-1])) == 1 else ()


def _is_counted(one: Region, kernel: Contraction, side: int) -> bool:
    """Whether the factor beside windows has a dim for each axis of the sum, and the others in their order, each in one
    dim."""
    other = (kernel.lhs, kernel.rhs)[1 - side]
    used = {name for e in other.index for name in e.names()}
    own = [a.name for a in (*kernel.batch, *kernel.groups[1 - side]) if a.name in used]
    met = [name for e in other.index for name in own if name in e.names()]
    return met == own and all(len(_counted(one, other, a)) == 1 for a in kernel.sum)


def _channels(kernel: Contraction, read: Read, axis: Axis) -> tuple[int, ...]:
    """The dims along which an axis is the place, alone or in the group that batch axes count."""
    batch = {a.name for a in kernel.batch}
    behind = ((at, e - axis.name) for at, e in enumerate(read.index) if axis.name in e.names())
    return tuple(at for at, e in behind if axis.name not in e.names() and set(e.names()) <= batch and e.offset == 0)


def _counted(one: Region, read: Read, axis: Axis) -> tuple[int, ...]:
    """The dims that an axis alone counts, from the first element on or from the last one back."""
    shape = next(t for t in one.inputs if t.name == read.tensor).type.shape
    return tuple(
        at for at, (e, size) in enumerate(zip(read.index, shape)) if e.name == axis.name or e == size - 1 - axis.name
    )


def _copied(one: Region, read: Read, places: tuple[int, ...], names: set[str], mirrored: set[int]) -> Side:
    """The operand with its dims in the order of `places`, those that are `mirrored` from the last element back. Its
    name goes to `names`."""
    tensor = next(t for t in one.inputs if t.name == read.tensor)
    shape = tuple(tensor.type.shape[at] for at in places)
    iters, index = point_of(shape)
    found = {at: index[places.index(at)] for at in range(len(places))}
    source = tuple(tensor.type.shape[at] - 1 - e if at in mirrored else e for at, e in found.items())
    name = free_name(f"{one.name}.{tensor.name}", names)
    names.add(name)
    origin = next(let.origin for let in one.lets if isinstance(let.expr, Reduce))
    item = Yield(name, index, Read(read.tensor, source, read.dtype), (), origin)
    region = Region(
        name, (tensor,), (Tensor(name, TensorType(read.dtype, shape)),), iters, (), (item,), None, span=one.span
    )
    own = {at: tensor.type.shape[at] - 1 - e if at in mirrored else e for at, e in enumerate(read.index)}
    return Side(read, region, Read(name, tuple(own[at] for at in places), read.dtype))


def _laid_out(one: Region, read: Read, axes: tuple[Axis, ...], names: set[str]) -> Side:
    """The operand with a dim for each of these axes. Its name goes to `names`."""
    tensor = next(t for t in one.inputs if t.name == read.tensor)
    iters = tuple(Axis(f"i{n}", size) for n, size in enumerate(a.size for a in axes))
    at = {a.name: Expr.of(i.name) for a, i in zip(axes, iters)}
    name = free_name(f"{one.name}.{tensor.name}", names)
    names.add(name)
    origin = next(let.origin for let in one.lets if isinstance(let.expr, Reduce))
    source = Read(read.tensor, tuple(e.substitute(at) for e in read.index), read.dtype)
    item = Yield(name, tuple(Expr.of(i.name) for i in iters), source, (), origin)
    out = Tensor(name, TensorType(read.dtype, tuple(i.size for i in iters)))
    region = Region(name, (tensor,), (out,), iters, (), (item,), span=one.span)
    return Side(read, region, Read(name, tuple(Expr.of(a.name) for a in axes), read.dtype))
