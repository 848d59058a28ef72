"""A tensor of a contraction as the copy engine sees it (TMA): its memory as a few dims, each of one role.

    A[i0, k0] of fp16[M, K], left i0, sum k0       →   dims (left M, sum K): innermost along the sum
    X[i0, i1, k0] of fp16[B, S, K], left i0, i1    →   dims (left B*S, sum K): one dim, since i0 and i1 are side by side
    Q[i0, i1, k0] of fp16[H, S, K], batch i0       →   dims (batch H, left S, sum K)
    A[i0, 64*c0 + k0] of fp16[M, 512], batch c0    →   dims (left M, batch 8, sum 64)

A box of such dims is a tile of the contraction. No op name is asked: only where each axis is in the read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from ...ir.body import Axis, Body, Gather, Random, Read, Reduce, Ref, Scan, Scatter, Select, Unary, operands_of, walk
from ...ir.expr import ONE, ZERO, Bound, Expr, Floor
from ...ir.model import Model
from ...ir.region import Region, Tensor, Yield
from ...ir.traits import extent_of, nearest
from ...ir.types import TensorType, is_exact
from ...ir.windows import Windows
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ..problem import SIBLING, Contraction

STRIDE_BYTES = 16  # every stride but the innermost is a multiple of it (CUDA driver API, cuTensorMapEncodeTiled)
LINE_BYTES = 128  # of the caches; where rows begin on lines no fetch touches a line twice
MOST_DIMS = 5
ROLES = ("left", "right", "sum")
STAGED_DTYPES = ("fp16", "bf16", "fp32", "fp8e4m3", "fp8e5m2")  # of an output that leaves through shared memory
WGMMA_FACTORS = {"": ("fp16", "bf16", "fp8e4m3", "fp8e5m2"), "tf32": ("fp32",), "tf32x3": ("fp32",)}  # by `math`
MMA_FACTORS = WGMMA_FACTORS | {"": ("fp16", "bf16")}


@dataclass(frozen=True, slots=True)
class Dim:
    """A dim of the view: `role` is left, right, sum, tap or batch; `axes`, outermost first, count its elements. Of
    windows (`parts.windows`) the sum's axes are those of the channels, and taps those of the places in a window."""

    role: str
    axes: tuple[Axis, ...]

    @property
    def size(self) -> Expr:
        """Elements."""
        return extent_of(self.axes)

    def place(self, at: Mapping[str, Expr]) -> Expr:
        """The element at these coordinates."""
        return functools.reduce(lambda outer, axis: outer * axis.size + at[axis.name], self.axes, ZERO)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as the copy engine sees it: row-major dims, outermost first. `row` elements are from a row to the next
    where they are more than the innermost dim has. With `windows` the first dim counts these, and neighbouring taps are
    `spread` elements apart along each axis of a window; by the batch's axes the channels of a group have `ahead` before
    them, and a window begins `later` along each of its axes."""

    tensor: Tensor
    dims: tuple[Dim, ...]
    row: Expr | None = None
    windows: Windows | None = None
    spread: tuple[int, ...] = ()
    ahead: Expr = ZERO
    later: tuple[Expr, ...] = ()

    @property
    def inner(self) -> str:
        """The role whose neighbours are neighbours in memory."""
        return self.dims[-1].role

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The sizes of the dims, with what pads the innermost."""
        sizes = tuple(d.size for d in self.dims)
        return sizes if self.row is None else (*sizes[:-1], self.row)

    def needs(self) -> tuple[Bound, ...]:
        """What must hold of the symbols for the strides to be whole 16 bytes; empty when it always does."""
        is_free = len(self.dims) == 1 or self.row is not None
        corners = self.windows.needs(self.tensor.type.shape) if self.windows else ()
        return (
            corners
            if is_free
            else (
                *multiple_of(self.dims[-1].size, STRIDE_BYTES // self.tensor.type.dtype.bytes),
                *corners,
            )
        )


@dataclass(frozen=True, slots=True)
class Vector:
    """A read in the epilogue that varies along one side of the tile alone, with its cast where it has one:
    `cast(bias[i1]) : fp32`. `limits`: of a read that is under a guard, that its index is inside, which the whole
    tile's need not be."""

    side: int  # 0 along left, 1 along right
    body: Body
    tensor: str
    limits: tuple[Bound, ...] = ()


@functools.lru_cache(maxsize=4096)
def vectors_of(region: Region, kernel: Contraction) -> tuple[Vector, ...]:
    """The vectors of an epilogue, each once, in the order of the values."""
    names = tuple({a.name for a in group} for group in (kernel.left, kernel.right))
    axes = {a.name for a in region.iters}
    shapes = {t.name: t.type.shape for t in region.inputs}
    size_of = {a.name: a.size for a in region.iters}
    found: dict[Body, Vector] = {}

    def search(body: Body, is_guarded: bool = False) -> None:
        read = body.x if isinstance(body, Unary) and body.op == "cast" else body
        if isinstance(read, Read):
            used = {n for e in read.index for n in e.names()} & axes
            side = next((s for s in (0, 1) if used & names[s] and not used & names[1 - s]), None)
            if side is not None:
                limits = tuple(
                    Bound(e, ZERO, size)
                    for e, size in zip(read.index, shapes[read.tensor])
                    if size_of.get(e.name or "") != size and e.constant is None
                )
                found.setdefault(body, Vector(side, body, read.tensor, limits if is_guarded else ()))
                return
        for inner in operands_of(body):
            search(inner, is_guarded or isinstance(body, Select))

    for body in [let.expr for let in region.lets if let.name not in kernel.values] + [y.expr for y in region.yields]:
        search(body)
    return tuple(found.values())


def misfit(region: Region, kernel: Contraction, factors: tuple[str, ...], is_gathered: bool = False) -> str:
    """Why tensor cores that multiply `factors` cannot compute a contraction as written, in words; empty when they
    can. `is_gathered`: each element is copied by itself, so that a guard may be around what is read."""
    product = region.let(kernel.value).expr.body
    dtypes = (kernel.lhs.dtype, kernel.rhs.dtype)
    is_alike = dtypes[0] == dtypes[1] or {d.bytes for d in dtypes} == {1}
    if (
        not is_alike
        or not {d.name for d in dtypes} <= set(factors)
        or {kernel.dtype.name, product.dtype.name} != {"fp32"}
    ):
        return Phrase(
            "a product of {dtype} and {dtype2}, summed in {dtype3}",
            dtype=kernel.lhs.dtype,
            dtype2=kernel.rhs.dtype,
            dtype3=kernel.dtype,
        )
    return unread(region, kernel, is_gathered, True)


def unread(region: Region, kernel: Contraction, is_gathered: bool = False, may_widen: bool = False) -> str:
    """Why a contraction is not a sum of products of what memory holds, with values of its own element behind it, in
    words; empty when it is. `may_widen`: bytes may be read as wider floats, which hold them exactly."""
    for factor, read in zip(kernel.factors, (kernel.lhs, kernel.rhs)):
        if (factor.then if is_gathered and isinstance(factor, Select) else factor) is not read and not (
            may_widen and _is_widened(factor, read)
        ):
            return Phrase("a factor that is more than a read")
    bodies = [let.expr for let in region.lets if let.name not in kernel.values] + [y.expr for y in region.yields]
    for node in (n for body in bodies for n in walk(body)):
        if (
            isinstance(node, Ref)
            and node.name in kernel.values
            and node.index is not None
            or isinstance(node, (Gather, Random, Reduce, Scan, Scatter))
        ):
            return Phrase("a {name} after the accumulator", name=type(node).__name__.lower())
    return ""


def _is_widened(factor: Body, read: Read) -> bool:
    """Whether a factor is a read of bytes as floats that hold each of them exactly: bytes of two kinds are multiplied
    so, and units take them as they are."""
    return (
        isinstance(factor, Unary)
        and factor.op == "cast"
        and factor.x is read
        and read.dtype.bytes == 1
        and read.dtype.is_float
        and is_exact(read.dtype, factor.dtype)
    )


def joined_dims(shape: Sequence[Expr], index: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The dims of memory as fewer, and the place in them: neighbours of which one axis counts the points of both are
    one dim.

    [B, C, 32, 32] at [i0, k0, floor(i1/32), i1 - 32*floor(i1/32)]   →   [B, C, 1024] at [i0, k0, i1]
    """
    sizes, places = [*shape], [*index]
    at = 0
    while at + 1 < len(places):
        one = places[at] * sizes[at + 1] + places[at + 1]
        if _floors(one) < _floors(places[at]) + _floors(places[at + 1]):
            sizes[at : at + 2], places[at : at + 2] = [sizes[at] * sizes[at + 1]], [one]
        else:
            at += 1
    return tuple(sizes), tuple(places)


def _floors(place: Expr) -> int:
    return sum(isinstance(atom, Floor) for _, monomial in place.terms for atom in monomial)


def is_along_sum(kernel: Contraction, side: int) -> bool:
    """Whether neighbours in memory of an operand are neighbours along the sum, and not along the operand's own axes."""
    read, own = (kernel.lhs, kernel.rhs)[side], {a.name for a in kernel.groups[side]}
    names = nearest(read.index)
    return kernel.sum[-1].name in names and not names & own


def padded(view: View, region: Region) -> View:
    """The view of a copy of the tensor in which every row begins on a line, with zeros behind each row: the workspace
    `r.A.padded` of the region r."""
    line = LINE_BYTES // view.tensor.type.dtype.bytes
    row = line * view.dims[-1].size.ceildiv(line)
    shape = tuple(d.size for d in view.dims[:-1])
    return View(
        Tensor(f"{region.name}.{view.tensor.name}.padded", TensorType(view.tensor.type.dtype, (*shape, row))),
        view.dims,
        row,
    )


def turned(view: View, region: Region) -> View:
    """The view of a copy of the tensor whose rows run along the sum, each row beginning on a line, with zeros behind
    it: the workspace `r.A.turned`."""
    line = LINE_BYTES // view.tensor.type.dtype.bytes
    batch, own, (term,) = (
        [d for d in view.dims if d.role in roles] for roles in (("batch",), ("left", "right"), ("sum",))
    )
    row = line * term.size.ceildiv(line)
    dims = (*batch, *own, term)
    shape = (*(d.size for d in dims[:-1]), row)
    return View(
        Tensor(f"{region.name}.{view.tensor.name}.turned", TensorType(view.tensor.type.dtype, shape)), dims, row
    )


def copied(view: View, region: Region, hint: str) -> View:
    """The view of the copy that a plan's `layout` asks for, or the view itself."""
    way = {"padded": padded, "turned": turned}.get(hint.removesuffix("_once"))
    return way(view, region) if way else view


def store_view(region: Region, kernel: Contraction, item: Yield, inner: str = "right") -> View | str:
    """The view of an output whose tiles the copy engine can write from the accumulator, or in words why it cannot.
    `inner` is the role along which the output is contiguous."""
    view = view_of(region, item.output, item.index, kernel)
    if isinstance(view, str):
        return view
    named = {a.name for d in view.dims for a in d.axes}
    if view.inner != inner or {d.role for d in view.dims} - {"batch"} != {"left", "right"} or item.guard:
        return Phrase("{output} does not take the tile as it is", output=item.output)
    if any(a.name not in named and a.size != ONE and a.name != SIBLING for a in kernel.batch):
        return Phrase("{output} lacks an axis, and is written by one CTA of those along it", output=item.output)
    return (
        view
        if view.tensor.type.dtype.name in STAGED_DTYPES
        else Phrase("{output} is {dtype}", output=item.output, dtype=view.tensor.type.dtype)
    )


def multiple_of(size: Expr, count: int) -> tuple[Bound, ...]:
    """The guard that `size` is a multiple of `count`; empty when its coefficients say so."""
    return (
        ()
        if count == 1 or all(c % count == 0 for c, _ in size.terms)
        else (Bound(count * (size // count), equals=size),)
    )


def view_of(
    region: Region, name: str, index: Iterable[Expr], kernel: Contraction, taps: tuple[Axis, ...] = ()
) -> View | str:
    """The view of the tensor `name`, read or written at `index`; or in words why the copy engine cannot move its
    tiles. `taps`: of the sum's axes those that are a dim of their own."""
    tensor = next(t for t in (*region.inputs, *region.outputs) if t.name == name)
    if tensor.type.dtype.bits < 16 and not tensor.type.dtype.is_float:
        return Phrase("{name} is {dtype}", name=name, dtype=tensor.type.dtype)
    groups = dict(zip(ROLES, kernel.groups)) | {"tap": taps, "batch": kernel.batch}
    groups["sum"] = tuple(a for a in kernel.sum if a not in taps)
    role_of = {a.name: role for role, group in groups.items() for a in group}
    axes = {a.name: a for group in groups.values() for a in group}
    found: list[Dim] = []
    for e, size in zip(index, tensor.type.shape):
        if e.constant == 0 and size == ONE:
            continue
        digits = _digits(e, size, axes)
        if not digits:
            return Phrase("{name}[... {e} ...] is not a whole axis", name=name, e=e)
        for axis in digits:
            if found and found[-1].role == role_of[axis.name] != "batch":
                found[-1] = Dim(found[-1].role, (*found[-1].axes, axis))
            else:
                found.append(Dim(role_of[axis.name], (axis,)))
    if len(found) > MOST_DIMS:
        found = _of_one_batch(found)
    return _fault_of(name, found, groups) or View(tensor, tuple(found))


def _of_one_batch(dims: list[Dim]) -> list[Dim]:
    """The dims of memory, of which neighbours of the batch are one."""
    found: list[Dim] = []
    for dim in dims:
        if found and found[-1].role == dim.role == "batch":
            found[-1] = Dim("batch", (*found[-1].axes, *dim.axes))
        else:
            found.append(dim)
    return found


def _digits(place: Expr, size: Expr, axes: Mapping[str, Axis]) -> tuple[Axis, ...]:
    """The axes that count the places of a dim together, as the digits of a number do (`i1`, or `288*c0 + k0`),
    outermost first; none where `place` is another number."""
    if place.name in axes:
        return (axes[place.name],) if axes[place.name].size == size else ()
    found: list[Axis] = []
    step = ONE
    while place.terms:
        axis = next((axes[n] for n in place.names() if n in axes and n not in (place - step * n).names()), None)
        if axis is None:
            return ()
        found.insert(0, axis)
        place, step = place - step * axis.name, step * axis.size
    return tuple(found) if step == size else ()


def _fault_of(name: str, dims: list[Dim], groups: Mapping[str, tuple[Axis, ...]]) -> str:
    if not dims or dims[-1].role in ("batch", "tap"):
        return Phrase("{name} is not contiguous along an axis of the tile", name=name)
    for dim in dims:
        if dim.role != "batch" and tuple(a.name for a in dim.axes) != tuple(a.name for a in groups[dim.role]):
            return Phrase(
                "{name} does not keep {a} together in this order",
                name=name,
                a=", ".join(a.name for a in groups[dim.role]),
            )
    return Phrase("{name} has more than {most} dims", name=name, most=MOST_DIMS) if len(dims) > MOST_DIMS else ""


def at_least(size: Expr, least: int, model: Model) -> tuple[Bound, ...]:
    """The guard that there are `least` elements; empty when the symbols' ranges say so."""
    lows = {name: model.range_of(name).low for name in size.names()}
    is_sure = all(c >= 0 and all(isinstance(a, str) for a in m) for c, m in size.terms) and size.evaluate(lows) >= least
    return () if is_sure else (Bound(size, lower=Expr.of(least)),)


def operand_needs(kernel: Contraction, model: Model, views: Iterable[View], least: int = 1) -> tuple[Bound, ...]:
    """All that must hold for these views to be moved, and for the sum to have `least` elements: each guard once."""
    bounds = [b for view in views for b in view.needs()] + list(at_least(extent_of(kernel.sum), least, model))
    return tuple(dict.fromkeys(bounds))
