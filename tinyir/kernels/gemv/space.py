"""Plans of a contraction with next to no rows: the large operand from memory into registers, each element once.

Neighbouring threads go along the axis in which the large operand is contiguous. As many of its elements move in one
access as the rows are multiples of, up to 16 bytes, which is proven, or holds at every shape set and is then assumed;
the same with single elements assumes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Bind, Plan, SplitK, Vectorize
from ...ir.region import Region
from ...ir.traits import extent_of, sizes_of
from ...target.device import Device
from ..candidate import batch_bind, holds_everywhere, parts_of_axes
from ..family import Problem, Proposal
from ..parts.boxes import View, multiple_of, unread, view_of
from ..parts.guards import guarded_axes
from ..parts.sum_arrays import can_end_in_parts
from ..problem import Contraction

MOST_ROWS = 4  # with more, the tensor cores are idle for nothing
ACROSS = ((4, 128), (8, 64), (16, 32), (32, 16), (4, 256))  # threads along the columns and along the sum
ALONG = ((32, 4), (32, 8), (32, 16))  # along the sum and along the columns
DEPTHS = (8, 4)  # elements along the sum, of a thread, where neighbouring threads go along the columns
COLUMNS = (4, 2)  # of a thread, where neighbouring threads go along the sum
PARTS = (1, 2, 4, 8)  # of a sum that a cluster shares


def propose_gemv(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Every shape of a CTA with each cut of the sum; none where there are many rows or the large operand's neighbours
    are of no one axis."""
    kernel, region, model = problem.kernel, problem.region, problem.model
    rows = extent_of(kernel.left).evaluate(sizes_of(model))
    view = view_of(region, kernel.rhs.tensor, kernel.rhs.index, kernel)
    if (
        unread(region, kernel)
        or rows > MOST_ROWS
        or not isinstance(view, View)
        or len(view.dims[-1].axes) > 1
        or kernel.dtype.name != "fp32"
    ):
        return ()
    few = next(r for r in (1, 2, MOST_ROWS) if r >= rows)
    inner = view.dims[-1]
    widths = [w for w in (1, 2, 4, 8, 16) if w * kernel.rhs.dtype.bytes <= ACCESS_BYTES]
    best = max(w for w in widths if holds_everywhere(multiple_of(inner.size, w), model))
    proven = max(w for w in widths if not multiple_of(inner.size, w))
    return tuple(
        p
        for width in dict.fromkeys((best, proven))
        for p in _proposals(kernel, region, card, few, view.inner == "sum", width)
    )


def _proposals(
    kernel: Contraction, region: Region, card: Device, rows: int, is_along_sum: bool, width: int
) -> Iterator[Proposal]:
    axes = (kernel.sum, kernel.right) if is_along_sum else (kernel.right, kernel.sum)
    grid = (
        *batch_bind(kernel),
        Bind(parts_of_axes(kernel.left, "o"), "cta.y"),
        Bind(parts_of_axes(kernel.right, "o"), "cta.x"),
    )
    inside = tuple(Bind(parts_of_axes(group, "i"), place) for group, place in zip(axes, ("thread.x", "thread.y")))
    for threads in ALONG if is_along_sum else ACROSS:
        for each in COLUMNS if is_along_sum else DEPTHS:
            columns, depth = (each, 2 * width) if is_along_sum else (width, each)
            spans = threads[::-1] if is_along_sum else threads
            tile = rows, columns * spans[0], depth * spans[1]
            guarded = {name for group, size in zip(kernel.groups, tile) for name in guarded_axes(group, size)}
            for parts in PARTS:
                if parts > 1 and not (card.arch.has_tma and can_end_in_parts(*tile[:2], parts)):
                    continue
                yield Proposal(
                    Plan(
                        regions=(region.name,),
                        arch=card.arch.name,
                        family="contraction",
                        algo="gemv",
                        tile=tile,
                        micro=(rows, columns, depth),
                        threads=threads,
                        bind=(*grid, *inside),
                        split_k=SplitK(parts, "cluster") if parts > 1 else None,
                        vectorize=(Vectorize(axes[0][-1].name, width),) if width > 1 else (),
                        assume=multiple_of(extent_of(axes[0][-1:]), width),
                        predicate=tuple(a.name for a in (*region.iters, *kernel.sum) if a.name in guarded),
                        epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
                    )
                )
