"""What a CTA of a streaming kernel takes: tiles of the query, the key, the value and the weights."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ..attention import Streaming
from ..family import Array, Needs, Problem
from ..resources import allotted

ADDRESSING = 52  # registers: each row keeps a maximum, a sum and a scale
TILES = ("q.tile", "k.tile", "v.tile", "p.tile")


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes; fragments and what is known of the rows are held beside the accumulators."""
    kernel = problem.kernel
    rows, columns, width = *plan.micro, width_each(plan, kernel)
    arrays = rows * (columns + width + 3 + len(kernel.folds)) + kernel.access * (2 * rows + columns) + width
    held = arrays * max(1, kernel.dtype.bytes // 4)
    return Needs(tile_arrays(plan, kernel), registers=allotted(plan, held + ADDRESSING), accumulators=held)


def tile_arrays(plan: Plan, kernel: Streaming) -> tuple[Array, ...]:
    """The tiles of the query, the key, the value and the weights."""
    return tuple(Array(name, kernel.dtype, size) for name, size in zip(TILES, streamed_tiles(plan, kernel)))


def streamed_tiles(plan: Plan, kernel: Streaming) -> tuple[tuple[int, int], ...]:
    """Rows and columns of the tiles: the query's, the key's, the value's, the weights'. Where threads are below one
    another rows are padded by one access, so that they meet different banks."""
    rows, columns, _ = plan.tile
    depth, _ = kernel.sizes
    depth = -(-depth // kernel.access) * kernel.access + kernel.access
    return (
        (rows, depth),
        (columns, depth),
        (columns, plan.threads[0] * width_each(plan, kernel)),
        (rows, columns + kernel.access),
    )


def width_each(plan: Plan, kernel: Streaming) -> int:
    """Columns of the output that a thread sums."""
    return -(-kernel.sizes[1] // plan.threads[0])
