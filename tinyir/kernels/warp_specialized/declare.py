"""What a CTA of a warp-specialised contraction takes: rings of both operands with their barriers, vectors of the
epilogue, what it reads by tiles, and what its outputs leave through."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.body import Read
from ...ir.plan.fields import Plan
from ...ir.region import Region, Yield
from ...kit.numbers import Number, least, pick, uniform
from ...kit.records import replace
from ...target.arch import ARCHS, aligned
from ...target.hopper import ATOM_BYTES, HELD, WARPGROUP
from ..family import MBARRIER_BYTES, Array, Needs, Problem
from ..parts.boxes import View, is_along_sum, store_view, vectors_of
from ..parts.leaving import (
    PIECE,
    leave_by_rows,
    leave_in_columns,
    output_array,
    piece_beside,
    staged_outputs,
    sums_array,
    vector_array,
)
from ..parts.pairs import results_of
from ..parts.sum_arrays import sum_arrays
from ..parts.tile_reads import block_array, blocks_of, read_array, read_barriers, reads_of
from ..problem import Contraction
from ..resources import allotted, threads_of

COLUMNS = 256  # at most, of one wgmma
BOX_ROWS = 256  # at most, along a dim of a box
LAID_ALONG = ((1, 0), (1, 1), (4, 1))  # bytes of a factor, side: what wgmma takes only where its rows run along the sum
OPERAND_DEPTH = 16  # along the sum, of a warpgroup's left operand that is in registers at once
OPERAND_SETS = 2  # of it: one is fetched while the other is multiplied
ADDRESSING = 34  # registers beside accumulators: ptxas asks for 26
LEAVING_BYTES = 48  # registers: 192 sums spill with them in 232 and in 255
PACKED = 8  # registers less than its numbers that a thread takes for a piece of bytes, whose words are made of four
COLUMN_PLACES = 16  # registers of where neighbours along columns go
LEAVING_COLUMNS = 32  # registers of what neighbours along columns take: 192 sums spill with them in 232


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    region, kernel, arch = problem.region, problem.kernel, ARCHS[plan.arch]
    memory, held = allocated(plan, region, kernel), accumulators_of(plan, kernel)
    most = least(arch.registers_per_thread, arch.registers_per_sm // threads_of(plan) // 8 * 8)
    alone = least(most, allotted(plan, held + ADDRESSING + _ending_registers(plan, region, kernel, held)))
    return Needs(
        memory.shared,
        memory.mbarriers,
        pick(plan.regs.producer > 0, most, alone) if plan.regs else alone,  # in a sheet 0 says that a row has none
        held,
        LEAVING_BYTES if _is_of_bytes(plan, region) else LEAVING_COLUMNS if leave_in_columns(plan, region) else 0,
    )


def _ending_registers(plan: Plan, region: Region, kernel: Contraction, held: Number) -> Number:
    """Registers beside the accumulators of CTAs that walk over tiles, whose next addresses stay: outputs that threads
    write along rows keep those of their rows, outputs from registers those of their elements, outputs of bytes the
    numbers of a piece. What is read of a matrix beside each piece that leaves (a residual) is on its way at once."""
    if not plan.persistent:
        return 0
    if all(plan.store_of(t.name).by == "tma" for t in region.outputs):
        return _read_beside(region, kernel, held) + _packed(plan, region, kernel)
    if leave_by_rows(plan, region):
        return held // 2 + _read_beside(region, kernel, held)
    return held // 4 + (COLUMN_PLACES if leave_in_columns(plan, region) else 0)


def _is_of_bytes(plan: Plan, region: Region) -> bool:
    return any(t.type.dtype.bytes == 1 for t in staged_outputs(plan, region))


def _packed(plan: Plan, region: Region, kernel: Contraction) -> Number:
    if not _is_of_bytes(plan, region):
        return 0
    rows, columns = piece_of(plan, region, kernel)
    return rows * columns // WARPGROUP - PACKED


def _read_beside(region: Region, kernel: Contraction, held: Number) -> Number:
    vectors = vectors_of(region, kernel)
    known = {kernel.lhs.tensor, kernel.rhs.tensor, *(v.tensor for v in vectors)}
    if {t.name for t in region.inputs} <= known:
        return 0
    return held * 3 // 4 + 8 if vectors else held // 2


def allocated(plan: Plan, region: Region, kernel: Contraction) -> Needs:
    """The shared memory and the barriers alone."""
    ring = _ring(plan, region, kernel)
    arrays, barriers = _ending(plan, region, kernel, ring.smem)
    return Needs((*ring.shared, *arrays), ring.mbarriers + barriers)


def smem_by_stages(plan: Plan, region: Region, kernel: Contraction) -> Callable[[Number], Number]:
    """The bytes of shared memory of a plan by the number of its stages: rings alone grow with it, and what the outputs
    leave through depends on that where threads write their rows."""
    ring, rings = _ring(replace(plan, stages=1), region, kernel), 3 if plan.is_split else 2
    rest = sum(array.taken for array in ring.shared[rings:]) + MBARRIER_BYTES * (ring.mbarriers - rings)
    each = [array.bytes for array in ring.shared[:rings]]

    def taken(count: Number) -> Number:
        return rest + sum(aligned(size * count) for size in each) + MBARRIER_BYTES * rings * count

    def ending(beside: Number) -> Number:
        return Needs(*_ending(plan, region, kernel, beside)).smem

    if leave_by_rows(plan, region):
        return lambda count: (beside := taken(count)) + ending(beside)
    same = ending(taken(1))
    return lambda count: taken(count) + same


def as_multiplied(plan: Plan, kernel: Contraction) -> tuple[Plan, Contraction]:
    """Plan and product with the operands in the order in which wgmma takes them: of a transposed product (`swap_ab`)
    the right operand's columns are rows, tile and cluster so."""
    if not plan.swap_ab:
        return plan, kernel
    rows, columns, depth = plan.tile
    cluster = replace(plan.cluster, shape=(*plan.cluster.shape, 1)[1::-1]) if plan.cluster else None
    other = replace(
        kernel, lhs=kernel.rhs, rhs=kernel.lhs, left=kernel.right, right=kernel.left, factors=kernel.factors[::-1]
    )
    return replace(plan, tile=(columns, rows, depth), cluster=cluster), other


def operand_array(plan: Plan, kernel: Contraction, side: int) -> Array:
    """The ring of an operand's tiles, `as_multiplied`; a row is contiguous in memory, and made of whole swizzled
    rows."""
    read, along, depth = (
        (kernel.lhs, kernel.rhs)[side],
        fetched_along(plan, kernel, side, plan.tile[side]),
        plan.tile[2],
    )
    shape = (along, depth) if is_fetched_along(plan, kernel, side) else (depth, along)
    return Array("ab"[side], read.dtype, shape, plan.stages, span_of(plan, read.tensor))


def shares_of(plan: Plan, kernel: Contraction, side: int) -> int:
    """CTAs of the cluster that fetch an operand's tile together, `as_multiplied`."""
    read = (kernel.lhs, kernel.rhs)[side]
    return across_of(plan)[1 - side] if plan.cluster and read.tensor in plan.cluster.multicast else 1


def box_of(array: Array, shares: int) -> tuple[int, int]:
    """Rows and columns of an operand's tile that one copy brings: a swizzled row's columns, and so few rows that the
    CTAs that fetch it together can share the copies."""
    rows, columns = array.shape
    width = array.swizzle // array.dtype.bytes
    return min(rows // (shares // math.gcd(shares, columns // width)), BOX_ROWS), width


def low_array(plan: Plan, kernel: Contraction) -> Array:
    """The low parts of the right operand's words, `as_multiplied`."""
    return replace(operand_array(plan, kernel, 1), label="bl")


def sent_array(plan: Plan, kernel: Contraction) -> Array:
    """What the other CTAs of a cluster send of their sums."""
    rows, columns, _ = plan.tile
    return Array("sent", kernel.dtype, (rows, columns // plan.parts), plan.parts - 1, kind="wgmma")


def _ring(plan: Plan, region: Region, kernel: Contraction) -> Needs:
    """The rings with their barriers, and the vectors: all but what the outputs leave through."""
    plan, kernel = as_multiplied(plan, kernel)
    arrays = [operand_array(plan, kernel, 0), operand_array(plan, kernel, 1)]
    arrays += [low_array(plan, kernel)] if plan.is_split else []
    of_results, results = results_of(plan, kernel)
    arrays += (vector_array(of_results, vector) for vector in vectors_of(region, results))
    turns = plan.consumers.count if plan.takes_turns else 0
    return Needs(tuple(arrays), (3 if plan.is_split else 2) * plan.stages + ends_apart(plan) + turns)


def _ending(plan: Plan, region: Region, kernel: Contraction, taken: Number) -> tuple[tuple[Array, ...], int]:
    """What the outputs leave through beside a ring that takes this number of bytes, and the barriers of that."""
    rows, columns, _ = plan.tile
    pair = kernel.pair
    if ends_held(plan):
        return (sent_array(plan, kernel),), 1
    if plan.has_one_tile:
        return sum_arrays(kernel.dtype, rows, columns, plan.parts), int(uniform(plan.parts > 1))
    plan, kernel = results_of(plan, kernel)
    sides = piece_beside(plan, region, taken, pair.width if pair else 0)
    if leave_in_columns(plan, region):
        return (sums_array(plan, kernel.dtype, sides[1]),), 0
    read = tuple(read_array(plan, one, sides) for one, _ in reads_of(plan, region, kernel))
    read += tuple(block_array(plan.tile[0], kernel, one.read) for one in blocks_of(plan, region, kernel))
    left = tuple(output_array(plan, region, t, sides) for t in staged_outputs(plan, region))
    return (*read, *left), read_barriers(plan, region, kernel)


def ends_apart(plan: Plan) -> bool:
    """Whether a tile's loads wait for the epilogue of the tile before it."""
    return plan.persistent > 0 and plan.asynchrony is not None and not plan.asynchrony.overlap


def ends_held(plan: Plan) -> bool:
    """Whether the consumers of a cut sum end it in their registers: each CTA's share is whole pieces of the
    accumulator's columns, and these are the output's."""
    return len(plan.tile) == 3 and uniform(ends_held_of(plan.parts, plan.swap_ab, plan.tile[1]))


def ends_held_of(parts: Number, is_swapped: bool, columns: Number) -> Number:
    """The same of a sum that is cut in parts, in tiles with this number of columns."""
    return (parts > 1) & (columns % (PIECE * parts) == 0) if not is_swapped else False


def held_yields(region: Region, kernel: Contraction) -> tuple[tuple[Yield, View], ...]:
    """The outputs that take the accumulator untransposed, whose values stay in registers where a cut sum ends there;
    others are stored element by element."""
    dtypes = {t.name: t.type.dtype.name for t in region.outputs}
    found = ((item, store_view(region, kernel, item)) for item in region.yields)
    return tuple((item, view) for item, view in found if isinstance(view, View) and dtypes[item.output] in HELD)


def ending_arrays(plan: Plan, region: Region, kernel: Contraction) -> Number:
    """32-bit registers a thread of a cut sum that ends there (`ends_held`): the accumulator, and beside it all outputs'
    values of this CTA's share, which arrays hold together though the compiler lets values take the places of sums."""
    sums = _sums_of(plan, kernel)
    return sums + len(held_yields(region, kernel)) * (sums // plan.parts)


def across_of(plan: Plan) -> tuple[Number, Number]:
    """CTAs of a cluster along the tile's rows and columns."""
    return (*plan.cluster.shape, 1)[:2] if plan.cluster else (1, 1)


def piece_of(plan: Plan, region: Region, kernel: Contraction) -> tuple[Number, Number]:
    """Rows and columns of a warpgroup's results that leave together (`piece_beside`)."""
    taken = _ring(plan, region, kernel).smem if leave_by_rows(plan, region) else 0
    return piece_beside(results_of(plan, kernel)[0], region, taken, kernel.pair.width if kernel.pair else 0)


def span_of(plan: Plan, tensor: str) -> int:
    """Bytes of a row of an operand's tile in shared memory: of its swizzle, or one of the pieces that no swizzle
    exchanges."""
    return plan.load_of(tensor).swizzle or ATOM_BYTES


def fetched_along(plan: Plan, kernel: Contraction, side: int, size: Number) -> Number:
    """Elements that the copy engine brings for `size` of an operand along its own axis: whole swizzled rows where these
    run along it, as they do not in a copy that is turned."""
    read = (kernel.lhs, kernel.rhs)[side]
    row = span_of(plan, read.tensor) // read.dtype.bytes
    return size if is_fetched_along(plan, kernel, side) else -(-size // row) * row


def is_fetched_along(plan: Plan, kernel: Contraction, side: int) -> bool:
    """Whether the rows of what is fetched of an operand run along the sum, itself or its copy."""
    return is_along_sum(kernel, side) or plan.is_turned((kernel.lhs, kernel.rhs)[side].tensor)


def accumulators_of(plan: Plan, kernel: Contraction) -> Number:
    """32-bit registers a thread that hold the accumulators, with what of an operand is held beside them."""
    return _sums_of(plan, kernel) * (1 + plan.partials if plan.promote else 1) + _operand_of(plan, kernel)


def _sums_of(plan: Plan, kernel: Contraction) -> Number:
    """Of these the accumulator's own."""
    return plan.tile[0] * plan.tile[1] // (WARPGROUP * plan.sharers) * max(1, kernel.dtype.bytes // 4)


def _operand_of(plan: Plan, kernel: Contraction) -> Number:
    """Registers a thread of a warpgroup whose left operand comes from there: of words, both parts of a step's where
    they are split, pieces of it where its rows run across the sum."""
    read, side = _left_of(plan, kernel)
    if read.dtype.bytes != 4 or not plan.is_split and is_along_sum(kernel, side):
        return 0
    depth = 2 * plan.tile[2] if plan.is_split else OPERAND_DEPTH * OPERAND_SETS
    return plan.tile[side] // plan.sharers * depth // WARPGROUP


def _left_of(plan: Plan, kernel: Contraction) -> tuple[Read, int]:
    """The operand that wgmma takes on the left, and its side."""
    return (kernel.rhs, 1) if plan.swap_ab else (kernel.lhs, 0)
