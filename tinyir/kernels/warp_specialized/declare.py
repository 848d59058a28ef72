"""What a CTA of a warp-specialised contraction takes: rings of both operands with their barriers, vectors of the
epilogue, and what its outputs leave through."""

from __future__ import annotations

import math

from ...ir.body import Read
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...target.arch import ARCHS
from ...target.hopper import ATOM_BYTES, WARPGROUP
from ..family import Array, Needs, Problem
from ..parts.boxes import is_along_sum, vectors_of
from ..parts.leaving import PIECE, leave_by_rows, piece_beside, staged_outputs, staged_pieces
from ..parts.sum_arrays import sum_arrays
from ..problem import Contraction
from ..resources import threads_of

OPERAND_DEPTH = 16  # along the sum, of a warpgroup's left operand that is in registers at once
OPERAND_SETS = 2  # of it: one is fetched while the other is multiplied
LEAVING_BYTES = 48  # registers: 192 sums spill with them in 232 and in 255


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    region, kernel, arch = problem.region, problem.kernel, ARCHS[plan.arch]
    ring, barriers = _ring(plan, region, kernel)
    ending, joined = _ending(plan, region, kernel, ring, barriers)
    is_of_bytes = any(t.type.dtype.bytes == 1 for t in staged_outputs(plan, region))
    return Needs(
        (*ring, *ending),
        barriers + joined,
        min(arch.registers_per_thread, arch.registers_per_sm // threads_of(plan) // 8 * 8),
        accumulators_of(plan, kernel),
        LEAVING_BYTES if is_of_bytes else 0,
    )


def smem_of(plan: Plan, region: Region, kernel: Contraction) -> int:
    """Bytes of shared memory alone."""
    ring, barriers = _ring(plan, region, kernel)
    ending, joined = _ending(plan, region, kernel, ring, barriers)
    return Needs((*ring, *ending), barriers + joined).smem


def _ring(plan: Plan, region: Region, kernel: Contraction) -> tuple[tuple[Array, ...], int]:
    """The rings and the vectors, all but what the outputs leave through, and the rings' barriers."""
    rows, columns, depth = plan.tile
    count = plan.consumers.count
    sides = (rows, columns // plan.sharers) if plan.swap_ab else (rows // plan.sharers, columns)
    arrays = [
        Array(name, fetched_along(plan, kernel, side, size) * depth * read.dtype.bytes, plan.stages)
        for side, (name, read, size) in enumerate((("a", kernel.lhs, rows), ("b", kernel.rhs, columns)))
    ]
    if plan.is_split:
        arrays.append(Array("low", (rows if plan.swap_ab else columns) * depth * 4, plan.stages))
    arrays += [Array("vector", sides[v.side] * v.body.dtype.bytes, count) for v in vectors_of(region, kernel)]
    return tuple(arrays), (3 if plan.is_split else 2) * plan.stages + ends_apart(plan) + (
        count if plan.takes_turns else 0
    )


def _ending(
    plan: Plan, region: Region, kernel: Contraction, ring: tuple[Array, ...], barriers: int
) -> tuple[tuple[Array, ...], int]:
    """What the outputs leave through beside the ring, and the barriers of that."""
    rows, columns, _ = plan.tile
    if ends_held(plan):
        return (Array("sent", 4 * rows * columns // plan.parts, plan.parts - 1),), 1
    if plan.has_one_tile:
        return sum_arrays(rows, columns, plan.parts), int(plan.parts > 1)
    size = math.prod(piece_beside(plan, region, Needs(ring, barriers).smem))
    slots = plan.consumers.count * staged_pieces(plan, region)
    return tuple(Array(t.name, size * t.type.dtype.bytes, slots) for t in staged_outputs(plan, region)), 0


def ends_apart(plan: Plan) -> bool:
    """Whether a tile's loads wait for the epilogue of the tile before it."""
    return plan.persistent > 0 and plan.asynchrony is not None and not plan.asynchrony.overlap


def ends_held(plan: Plan) -> bool:
    """Whether the consumers of a cut sum end it in their registers: each CTA's share is whole pieces of the
    accumulator's columns, and these are the output's."""
    return plan.parts > 1 and not plan.swap_ab and len(plan.tile) == 3 and plan.tile[1] % (PIECE * plan.parts) == 0


def across_of(plan: Plan) -> tuple[int, int]:
    """CTAs of a cluster along the tile's rows and columns."""
    return (*plan.cluster.shape, 1)[:2] if plan.cluster else (1, 1)


def piece_of(plan: Plan, region: Region, kernel: Contraction) -> tuple[int, int]:
    """Rows and columns of a warpgroup's accumulator that leave together (`piece_beside`)."""
    return piece_beside(plan, region, Needs(*_ring(plan, region, kernel)).smem if leave_by_rows(plan, region) else 0)


def span_of(plan: Plan, tensor: str) -> int:
    """Bytes of a row of an operand's tile in shared memory: of its swizzle, or one of the pieces that no swizzle
    exchanges."""
    return plan.load_of(tensor).swizzle or ATOM_BYTES


def fetched_along(plan: Plan, kernel: Contraction, side: int, size: int) -> int:
    """Elements that the copy engine brings for `size` of an operand along its own axis: whole swizzled rows where these
    lie along it."""
    read = (kernel.lhs, kernel.rhs)[side]
    row = span_of(plan, read.tensor) // read.dtype.bytes
    return size if is_along_sum(kernel, side) else -(-size // row) * row


def accumulators_of(plan: Plan, kernel: Contraction) -> int:
    """32-bit registers a thread that hold the accumulators, with what of an operand is held beside them."""
    words = max(1, kernel.dtype.bytes // 4)
    sums = (
        plan.tile[0] * plan.tile[1] // (WARPGROUP * plan.sharers) * words * (1 + plan.partials if plan.promote else 1)
    )
    return sums + _operand_of(plan, kernel)


def _operand_of(plan: Plan, kernel: Contraction) -> int:
    """Registers a thread of a warpgroup whose left operand comes from there: of words, both parts of a step's where
    they are split, pieces of it where it lies across the sum."""
    read, side = _left_of(plan, kernel)
    if read.dtype.bytes != 4 or not plan.is_split and is_along_sum(kernel, side):
        return 0
    depth = 2 * plan.tile[2] if plan.is_split else OPERAND_DEPTH * OPERAND_SETS
    return plan.tile[side] // plan.sharers * depth // WARPGROUP


def _left_of(plan: Plan, kernel: Contraction) -> tuple[Read, int]:
    """The operand that wgmma takes on the left, and its side."""
    return (kernel.rhs, 1) if plan.swap_ab else (kernel.lhs, 0)


__all__ = [
    "OPERAND_DEPTH",
    "OPERAND_SETS",
    "accumulators_of",
    "across_of",
    "declare",
    "ends_held",
    "fetched_along",
    "piece_of",
    "smem_of",
    "span_of",
]
