"""Plans of a contraction for mma.sync: a ring of tiles filled by cp.async, fragments by ldmatrix. sm80's tensor cores,
and those of sm90 where its copy engine cannot serve.

How many neighbours one copy moves follows from the rows: 16, 8 or 4 bytes where every row has a multiple of them, which
is proven, or holds at every shape set and is then assumed by the plan. The same tiles with element-wise copies assume
nothing. Where there is no copy engine, whose template pads by itself, an operand whose rows no copy of 16 bytes fits
may be padded first (`layout A padded`), a constant of the model once.

fp32 is multiplied by `tf32x3`, where the sum is so long that fp32 itself rounds as much, or by `tf32` if that is asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Axis, Read
from ...ir.expr import Bound
from ...ir.plan import Async, Bind, Cache, Layout, Load, Order, Plan, Vectorize
from ...ir.plan.words import LEAST_SUM
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.numbers import Number, least
from ...target.ampere import COPIES
from ...target.device import Device
from ...target.hopper import SWIZZLE_BYTES
from ..candidate import batch_bind, guarded, holds_everywhere, layout_of, math_of, parts_of_axes
from ..family import Problem
from ..parts.boxes import MMA_FACTORS, View, at_least, is_along_sum, misfit, multiple_of, view_of
from ..problem import Contraction
from ..sheet import Sheet, columns_of
from .fields import vector_axes

# Rows and columns of a tile, then of a warp's part of it.
TILES = (
    (256, 128, 64, 64),
    (128, 256, 64, 64),
    (128, 128, 64, 64),
    (128, 64, 64, 32),
    (64, 128, 32, 64),
    (64, 64, 32, 32),
)
SMALL_TILES = ((128, 64, 32, 32), (64, 128, 32, 32), (64, 64, 32, 32))
TILES_OF = {
    "": TILES,
    "tf32": ((128, 128, 64, 32), *SMALL_TILES),
    "tf32x3": SMALL_TILES,
}  # by `math`: a warp holds both parts of its fragments
DEPTHS = (64, 32)
STAGES = (5, 4, 3)
ORDER = 8  # rows of tiles that are taken together


def propose_multistage(problem: Problem, card: Device) -> tuple[Sheet, ...]:
    """Every tile with each depth and number of stages; none where the tensor cores cannot serve. fp32 is multiplied as
    `card.fp32` says, where it says nothing as exactly as fp32."""
    kernel, region, model = problem.kernel, problem.region, problem.model
    math = math_of(kernel, card)
    enough = at_least(extent_of(kernel.sum), LEAST_SUM[math], model) if math == "tf32x3" else ()
    if misfit(region, kernel, MMA_FACTORS[math], is_gathered=True) or not holds_everywhere(enough, model):
        return ()
    sizes = [size // kernel.lhs.dtype.bytes for size in COPIES]
    groups = {group[-1].name: group for group in kernel.groups}
    axes = dict.fromkeys(axis for axis in _inner(kernel, region) if axis in groups)
    best, proven = {}, {}
    for axis in axes:
        needs = {w: _whole_copies(groups[axis], w) for w in sizes}
        best[axis] = next((w for w in sizes if holds_everywhere(needs[w], model)), 1)
        proven[axis] = next((w for w in sizes if not needs[w]), 1)
    ways = [best] if best == proven else [best, proven]
    inner = {read.tensor: _inner_axis(region, kernel, side) for side, read in enumerate((kernel.lhs, kernel.rhs))}
    found: list[Sheet] = []
    for widths in ways:
        several = {axis: w for axis, w in widths.items() if w > 1}
        narrow = tuple(
            t for t, axis in inner.items() if axis and widths[axis] < sizes[0] and not card.arch.has_tma
        )  # else the copy engine's template pads
        for padded in dict.fromkeys(((), narrow)):
            first, layout = sum(sheet.count for sheet in found), layout_of(padded, (), model)
            found.append(_sheet(kernel, region, card, several, math, enough, layout, first))
    return tuple(found)


def _whole_copies(group: tuple[Axis, ...], width: int) -> tuple[Bound, ...]:
    """The guard that copies of `width` neighbours along the last axis of a group cross no end."""
    return tuple(dict.fromkeys((*multiple_of(extent_of(group), width), *multiple_of(extent_of(group[-1:]), width))))


def _inner(kernel: Contraction, region: Region) -> Iterator[str]:
    """The axis along which each operand and output has its neighbours in memory, where it is whole."""
    for read in (kernel.lhs, kernel.rhs):
        view = view_of(region, read.tensor, read.index, kernel)
        if isinstance(view, View):
            yield view.dims[-1].axes[-1].name
    for item in region.yields:
        view = view_of(region, item.output, item.index, kernel)
        if isinstance(view, View):
            yield view.dims[-1].axes[-1].name


def _sheet(
    kernel: Contraction,
    region: Region,
    card: Device,
    widths: dict[str, int],
    math: str,
    enough: tuple[Bound, ...],
    layout: tuple[Layout, ...],
    first: int,
) -> Sheet:
    """Every tile, depth and number of stages with copies of these widths; `first` is the number of the first one among
    all."""
    outermost = f"{kernel.sum[0].name}.o"
    binds = (
        *batch_bind(kernel),
        *(
            Bind(parts_of_axes(group, part), f"{place}.{axis}")
            for part, place in (("o", "cta"), ("i", "warp"))
            for group, axis in ((kernel.left, "y"), (kernel.right, "x"))
        ),
    )
    reads = {read.tensor: (read, side) for side, read in enumerate((kernel.lhs, kernel.rhs))}
    inner = {tensor: _inner_axis(region, kernel, side) for tensor, (_, side) in reads.items()}
    size = kernel.lhs.dtype.bytes
    padded = {item.tensor for item in layout}
    ways = {
        tensor: "cp_async" if tensor in padded or widths.get(axis, 1) * size >= COPIES[-1] else "ld"
        for tensor, axis in inner.items()
    }
    is_async = "cp_async" in ways.values()
    in_vectors = vector_axes(kernel, region, {t for t, way in ways.items() if way == "cp_async" and t not in padded})
    needs = tuple(
        dict.fromkeys(
            (*(b for group in kernel.groups for b in _whole_copies(group, widths.get(group[-1].name, 1))), *enough)
        )
    )
    rows, columns, down, across, depth, stages = columns_of(
        (*tile, depth, stages)
        for tile in TILES_OF[math]
        for depth in DEPTHS
        if depth * size <= SWIZZLE_BYTES
        for stages in (STAGES if is_async else (2,))
    )
    tile = rows, columns, depth
    plan = Plan(
        regions=(region.name,),
        arch=card.arch.name,
        family="contraction",
        algo="multistage",
        tile=tile,
        warp_tile=(down, across),
        threads=(rows // down * (columns // across) * card.arch.warp,),
        stages=stages,
        math=math,
        bind=binds,
        order=Order("group", ORDER),
        cache=tuple(Cache(tensor, "smem", outermost) for tensor in reads),
        load=tuple(
            Load(tensor, ways[tensor], _swizzle(kernel, read, tile, side)) for tensor, (read, side) in reads.items()
        ),
        vectorize=tuple(Vectorize(axis, width) for axis, width in widths.items() if axis in in_vectors),
        assume=needs,
        epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
        asynchrony=Async(stages - 1),
        layout=layout,
        barrier="cp_async_group" if is_async else "cta",
    )

    return Sheet(plan, len(rows), range(first, first + len(rows)), whole=lambda plan: guarded(plan, region, kernel))


def _inner_axis(region: Region, kernel: Contraction, side: int) -> str:
    """The axis along which an operand has its neighbours in memory; empty where no copy moves several of them."""
    read = (kernel.lhs, kernel.rhs)[side]
    view = view_of(region, read.tensor, read.index, kernel)
    return view.dims[-1].axes[-1].name if isinstance(view, View) else ""


def _swizzle(kernel: Contraction, read: Read, tile: tuple[Number, Number, Number], side: int) -> Number:
    """Bytes of a row of the operand's tile in shared memory, 128 at most."""
    return least(SWIZZLE_BYTES, tile[2 if is_along_sum(kernel, side) else side] * read.dtype.bytes)
