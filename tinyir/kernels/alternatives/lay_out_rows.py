"""A contraction over windows of few channels with the taps of a window's row as channels: what the copy engine
fetches for a tap is then whole accesses, and tensor cores multiply more than zeros. Only rows are laid out, the taps of
one axis of the windows: the matrix of whole windows would be larger by the other taps.

before: region y    %y = reduce sum (k0: 3, k1: 7, k2: 7) {
                      mul(x[i0, k0, 2*i2 + k1 - 3, 2*i3 + k2 - 3] where ..., w[i1, k0, k1, k2]) }
after:  region y.x  for i0: N, i1: H, i2: Q, i3: 24
                    yield y.x[i0, i1, i2, i3] = x[i0, i3 - 3*floor(i3/3), i1, 2*i2 + floor(i3/3) - 3] where ...
        region y.w  yield y.w[i0, i1, i2] = w[i0, i2 - 3*floor(i2/3), i1, floor(i2/3)] where i2 < 21
        region y    %y = reduce sum (k1: 7, k2: 24) { mul(y.x[i0, 2*i2 + k1 - 3, i3, k2] where ..., y.w[i1, k1, k2]) }
"""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.regions import analyse
from ...ir.accumulate import literal
from ...ir.body import Axis, Body, Read, Reduce, Select, rebuild
from ...ir.expr import Bound, Expr
from ...ir.neighbours import is_multiple
from ...ir.region import Region, Tensor, Yield
from ...ir.types import TensorType
from ...kit.records import dataclass, replace
from ..problem import Contraction
from ..windowed import Image, windowed_of
from .channels_innermost import Side
from .parts import free_name, point_of

ACCESS = 8  # elements of 16 bits that a copy of rows has a multiple of
MOST_CHANNELS = 16  # of which rows are worth laying out


@dataclass(frozen=True, slots=True)
class Rows:
    """A contraction whose windows' rows are channels: the copies that it reads then, the axes of its sum, and the guard
    around the read of the image."""

    sides: tuple[Side, Side]
    axes: tuple[Axis, ...]
    guard: tuple[Bound, ...]

    def ordered(self, parts: tuple[Region, ...]) -> tuple[Region, ...]:
        """The regions, the last of which is the contraction, with this sum."""
        *before, last = parts
        image = next(r.read for r in self.sides if r.read.tensor in {t.name for t in last.inputs})

        def put(body: Body) -> Body:
            if body == image and self.guard:
                return Select(self.guard, body, literal(0, body.dtype), body.dtype)
            return rebuild(body, put)

        lets = tuple(
            replace(let, expr=replace(let.expr, axes=self.axes, body=put(let.expr.body)))
            if isinstance(let.expr, Reduce)
            else let
            for let in last.lets
        )
        last = replace(last, lets=lets)
        return (*before, replace(last, analysis=analyse(last)))


def lay_out_rows(one: Region, kernel: Contraction, names: Iterable[str]) -> Rows | None:
    """The contraction so; None where its windows have no rows of their own, or channels enough."""
    windows = windowed_of(one)
    if windows is None or kernel.batch or len(windows.folds) != 1 or len(windows.folds[0].images) != 1:
        return None
    (fold,), (image,) = windows.folds, windows.folds[0].images
    sides = [s for s, read in enumerate((kernel.lhs, kernel.rhs)) if read == image.read]
    plain = {e.name for e in image.read.index if e.name}
    channels = [a for a in fold.beside if a.name in plain]
    if len(sides) != 1 or image.rows is None or len(channels) != 1 or image.columns.taps == 1:
        return None
    (side,), (channel,) = sides, channels
    other = (kernel.lhs, kernel.rhs)[1 - side]
    shape = next(t for t in one.inputs if t.name == image.read.tensor).type.shape
    dim = next(n for n, e in enumerate(image.read.index) if e.name == channel.name)
    count, element = channel.size.constant, kernel.factors[side]
    is_bare = element == image.element and (image.outside is None or image.outside.value == 0)
    is_plain = all(_is_counted(one, other, a) for a in kernel.sum) and kernel.factors[1 - side] is other
    if count is None or count != shape[dim].constant or count > MOST_CHANNELS or count % ACCESS == 0:
        return None
    if not is_bare or not is_plain or image.read.dtype.bytes != 2:
        return None
    columns = image.columns
    row = Axis(columns.tap.name, Expr.of(-(-columns.taps * count // ACCESS) * ACCESS))
    taken = {*names}
    images = _image_rows(one, image, dim, count, row, taken)
    matrix = _matrix_rows(one, other, image, channel, row, taken)
    if images is None or matrix is None:
        return None
    axes = (*(a for a in kernel.sum if a not in (channel, columns.tap)), row)
    guard = element.guard if isinstance(element, Select) else ()
    place = image.read.index[columns.dim]
    kept = tuple(b for b in guard if (b.expr - place).constant is None)
    return Rows((images, matrix), axes, kept)


def _is_counted(one: Region, read: Read, axis: Axis) -> bool:
    """Whether an axis alone counts a dim of a tensor."""
    shape = next(t for t in one.inputs if t.name == read.tensor).type.shape
    return sum(e.name == axis.name and size == axis.size for e, size in zip(read.index, shape)) == 1


def _image_rows(one: Region, image: Image, dim: int, count: int, row: Axis, names: set[str]) -> Side | None:
    """The image with the elements of each window's row behind one another, in the place of its columns."""
    read, columns = image.read, image.columns
    tensor = next(t for t in one.inputs if t.name == read.tensor)
    kept = [at for at in range(len(read.index)) if at not in (dim, columns.dim)]
    sizes = {at: columns.axis.size if at == columns.dim else tensor.type.shape[at] for at in (*kept, columns.dim)}
    order = sorted(sizes)
    shape = (*(sizes[at] for at in order), row.size)
    iters, index = point_of(shape)
    if not names.isdisjoint(a.name for a in iters):
        return None
    at = dict(zip(order, index))
    tap, channel = index[-1] // count, index[-1] - count * (index[-1] // count)
    place = columns.step * at[columns.dim] + columns.spread * tap + columns.low
    source = tuple(place if n == columns.dim else channel if n == dim else at[n] for n in range(len(read.index)))
    moved = image.read.index[columns.dim]
    guard = tuple(replace(b, expr=place) for d, b in image.inside if d == columns.dim and b.expr == moved)
    if not is_multiple(row.size, columns.taps * count):
        guard = (*guard, Bound(index[-1], upper=Expr.of(columns.taps * count)))
    own = tuple(read.index[n] if n in kept else Expr.of(columns.axis.name) for n in order)
    return _side(one, read, tensor, shape, iters, index, Read(read.tensor, source, read.dtype), guard, own, row, names)


def _matrix_rows(one: Region, read: Read, image: Image, channel: Axis, row: Axis, names: set[str]) -> Side | None:
    """The other factor, with channels and the taps of a row as one dim, innermost."""
    tensor = next(t for t in one.inputs if t.name == read.tensor)
    found = {a: next(n for n, e in enumerate(read.index) if e.name == a.name) for a in (channel, image.columns.tap)}
    kept = [n for n in range(len(read.index)) if n not in found.values()]
    taps = [n for n in kept if read.index[n].name in {a.name for a in _sum_of(one, read)}]
    order = [n for n in kept if n not in taps] + sorted(taps, key=lambda n: _place(image, read.index[n].name or ""))
    shape = (*(tensor.type.shape[n] for n in order), row.size)
    iters, index = point_of(shape)
    count, at = channel.size.constant or 1, dict(zip(order, index))
    tap = index[-1] // count
    at |= {found[channel]: index[-1] - count * tap, found[image.columns.tap]: tap}
    source = tuple(at[n] for n in range(len(read.index)))
    filled = Expr.of(image.columns.taps * count)
    guard = (Bound(index[-1], upper=filled),) if filled != row.size else ()
    own = tuple(read.index[n] for n in order)
    return _side(one, read, tensor, shape, iters, index, Read(read.tensor, source, read.dtype), guard, own, row, names)


def _sum_of(one: Region, read: Read) -> tuple[Axis, ...]:
    """The axes of the sum."""
    return next(let.expr.axes for let in one.lets if isinstance(let.expr, Reduce))


def _place(image: Image, name: str) -> int:
    """The dim of the image along which a tap is."""
    return next((n for n, e in enumerate(image.read.index) if name in e.names()), -1)


def _side(
    one: Region,
    read: Read,
    tensor: Tensor,
    shape: tuple[Expr, ...],
    iters: tuple[Axis, ...],
    index: tuple[Expr, ...],
    source: Read,
    guard: tuple[Bound, ...],
    own: tuple[Expr, ...],
    row: Axis,
    names: set[str],
) -> Side:
    """The region that makes a copy, and what is read of it in place of the factor."""
    name = free_name(f"{one.name}.{tensor.name}", names)
    names.add(name)
    let = next(let for let in one.lets if isinstance(let.expr, Reduce))
    body = Select(guard, source, literal(0, read.dtype), read.dtype) if guard else source
    item = Yield(name, index, body, (), let.origin)
    made = Region(
        name, (tensor,), (Tensor(name, TensorType(read.dtype, shape)),), iters, (), (item,), None, span=one.span
    )
    product = let.expr.body
    work = next(f for f in (product.left, product.right) if f == read or isinstance(f, Select) and f.then == read)
    return Side(work, made, Read(name, (*own, Expr.of(row.name)), read.dtype))
