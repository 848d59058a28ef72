"""What one CTA of a plan takes: threads, shared memory, registers. The checker, the cost model and the next filter read
the same sums."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.body import Axis, Read, Unary, walk
from ..ir.neighbours import ACCESS_BYTES
from ..ir.plan.fields import Plan
from ..ir.region import Region, Tensor
from ..ir.traits import bodies_of, nearest
from ..target.arch import ARCHS, Arch
from .flash import declare as flash
from .parts.boxes import vectors_of
from .problem import Contraction, Kernel, Prefix, Row
from .streaming.match import Streaming

WARPGROUP = 128  # threads
WARPGROUP_ROWS = 64  # of its matrix product
STAGED_STORES = ("tma", "rows")  # through shared memory
SUM_PAD = 4  # columns more of a cluster's sums, so that the rows of a fragment lie in different banks
PIECE = 16  # columns of the accumulator that a warp stores at once
HELD_COLUMNS = (
    8  # columns of which a thread has four elements one behind another: the least step of a product's columns
)
STAGED = 2  # pieces of an output that a warpgroup has on their way out by the copy engine
SWIZZLE_BYTES = 128  # the widest row of a swizzled tile
SPANS = (128, 64, 32)  # bytes of such rows
MBARRIER_BYTES = 8
OPERAND_DEPTH = 16  # along the sum, of a warpgroup's left operand that is in registers at once
OPERAND_SETS = 2  # of it: one is fetched while the other is multiplied
FRAGMENT_ROWS = 16  # of an accumulator of mma.sync that a warp's epilogue takes at once
FRAGMENT_PAD = 4  # elements behind a row of them, so that the rows of a fragment lie in different banks
WARP, WIDEST = 32, 8  # lanes; bytes of the widest number
SHARED_ALIGNMENT = 128
FRAGMENT_ADDRESSING = 68  # of the multistage template, whose copies keep an address each
STREAMED_ADDRESSING = 52  # of the streaming template, whose rows keep a maximum, a sum and a scale each
LEAVING_BYTES = 48  # registers: 192 sums spill with them in 232 and in 255
LEAST_SWIZZLE = 32  # bytes of a row of a swizzled tile
ROW_ADDRESSING = 24  # of the row templates
ON_THEIR_WAY = 32  # elements of a fold of neighbours that a thread has on their way at once
WALK = 8  # elements of a long walk that a thread has on their way at once
SINE_STACK = (32, 40)  # bytes, as ptxas says: of fp32 and narrower, of fp64
ADDRESSING = 36  # registers a thread beside accumulators and fragments: pointers, guards, loop counters


def threads_of(plan: Plan) -> int:
    """Threads of a CTA: as stated, or a producer, where words are split who does that, and the consumers, warpgroups of
    128 each."""
    return (
        math.prod(plan.threads)
        if plan.threads
        else WARPGROUP * (1 + plan.is_split + plan.consumers.count)
        if plan.consumers
        else 0
    )


def stack_of(regions: Iterable[Region]) -> int:
    """Bytes of local memory of a thread: CUDA's own sines, of fp32 and of fp64, each keep the digits of a large angle
    there."""
    return sum(
        SINE_STACK[is_wide]
        for is_wide in {
            n.dtype.bytes > 4
            for r in regions
            for body in bodies_of(r)
            for n in walk(body)
            if isinstance(n, Unary) and n.op == "sin"
        }
    )


def smem_of(plan: Plan, region: Region, kernel: Kernel, others: tuple[Region, ...] = ()) -> int:
    """Shared memory of a CTA in bytes: the cached tiles, a ring of `stages` each, and the tile of every output that
    leaves through it. The synchronous template keeps widened factors, the rows of an operand that is contiguous along
    the sum padded by one access. `others` are the further regions of the plan, whose inputs may be cached too."""
    if isinstance(kernel, Row):
        return aligned(4 * WARP) if threads_of(plan) > WARP and len(plan.threads) == 1 else 0
    if isinstance(kernel, Prefix):
        parts = {"scan_block": 1, "scan_look_back": held_of(plan) // plan.widest}.get(plan.algo, 0)
        return threads_of(plan) // WARP * WIDEST * parts if threads_of(plan) > WARP else 0
    if isinstance(kernel, Streaming) and plan.algo == "streaming_softmax":
        return flash.smem_of(plan, kernel)
    if isinstance(kernel, Streaming):
        return sum(aligned(rows * columns * kernel.dtype.bytes) for rows, columns in streamed_tiles(plan, kernel))
    if plan.algo == "transposed":
        side = math.isqrt(plan.tile[0])
        return sum(
            aligned(side * pitch_of(side, t.type.dtype.bytes) * t.type.dtype.bytes)
            for c in plan.cache
            for t in region.inputs
            if t.name == c.tensor
        )
    if not isinstance(kernel, Contraction):
        return 0
    if plan.algo == "warp_specialized":
        beside = _ring_of(plan, region, kernel, others)
        if ends_held(plan):
            return beside + aligned(4 * (plan.parts - 1) * plan.tile[0] * plan.tile[1] // plan.parts) + MBARRIER_BYTES
        if plan.has_one_tile:
            return beside + _sums(*(*plan.tile, 1, 1)[:2], plan.parts)
        count, staged = plan.consumers.count if plan.consumers else 1, staged_pieces(plan, region)
        return beside + count * staged * math.prod(_piece_beside(plan, region, beside)) * sum(
            t.type.dtype.bytes for t in _staged(plan, region)
        )
    rows, columns, depth = (*plan.tile, 1, 1, 1)[:3]
    if plan.algo == "synchronous":
        pads = (
            width_of(plan, kernel, side) if _is_along(read, kernel.sum) else 0
            for side, read in enumerate((kernel.lhs, kernel.rhs))
        )
        return depth * (rows + columns + sum(pads)) * kernel.factor_bytes
    if plan.algo == "gemv":
        part = 0 if stands_along_sum(plan, kernel) else plan.threads[1] * rows * columns
        return aligned(4 * part) + _sums(rows, columns, plan.parts)
    total = _cached(plan, region, kernel, others)
    if plan.algo == "multistage" and len(plan.warp_tile) == 2:
        warps = threads_of(plan) // ARCHS[plan.arch].warp
        return total + aligned(warps * FRAGMENT_ROWS * (plan.warp_tile[1] + FRAGMENT_PAD) * kernel.dtype.bytes)
    return total + sum(rows * columns * t.type.dtype.bytes for t in _staged(plan, region))


def _cached(plan: Plan, region: Region, kernel: Contraction, others: tuple[Region, ...]) -> int:
    """Bytes of the tiles that a plan keeps in shared memory, of all stages."""
    rows, columns, depth = (*plan.tile, 1, 1, 1)[:3]
    if plan.algo == "warp_specialized":
        rows, columns = (
            fetched_along(read, kernel, size) for read, size in ((kernel.lhs, rows), (kernel.rhs, columns))
        )
    sizes = {kernel.lhs.tensor: rows * depth * kernel.lhs.dtype.bytes}
    right = columns * depth * kernel.rhs.dtype.bytes
    if kernel.rhs.tensor in sizes:
        sizes[kernel.rhs.tensor] += right
    else:
        sizes[kernel.rhs.tensor] = right
    total = 0
    for item in plan.cache:
        tensor = next((t for r in (region, *others) for t in r.inputs if t.name == item.tensor), None)
        if item.where != "smem" or tensor is None:
            continue
        total += sizes.get(item.tensor, columns * depth * tensor.type.dtype.bytes) * plan.stages
    return total


def _ring_of(plan: Plan, region: Region, kernel: Contraction, others: tuple[Region, ...]) -> int:
    """Bytes of a warp-specialised plan's rings, barriers and vectors: all but what leaves."""
    rows, columns, depth = (*plan.tile, 1, 1, 1)[:3]
    count = plan.consumers.count if plan.consumers else 1
    sides = (rows, columns // count) if plan.swap_ab else (rows // count, columns)
    split = plan.stages * ((rows if plan.swap_ab else columns) * depth * 4 + MBARRIER_BYTES) if plan.is_split else 0
    vectors = sum(aligned(count * sides[v.side] * v.body.dtype.bytes) for v in vectors_of(region, kernel))
    return _cached(plan, region, kernel, others) + split + vectors + 2 * plan.stages * MBARRIER_BYTES


def _staged(plan: Plan, region: Region) -> list[Tensor]:
    """The outputs that leave through shared memory."""
    return [t for t in region.outputs if plan.store_of(t.name).by in STAGED_STORES]


def ends_held(plan: Plan) -> bool:
    """Whether the consumers of a cut sum end it in their registers: each CTA's share is whole pieces of the
    accumulator's columns, and these are the output's."""
    return (
        plan.algo == "warp_specialized"
        and plan.parts > 1
        and not plan.swap_ab
        and len(plan.tile) == 3
        and plan.tile[1] % (PIECE * plan.parts) == 0
    )


def across_of(plan: Plan) -> tuple[int, int]:
    """CTAs of a cluster along the tile's rows and columns."""
    return (*plan.cluster.shape, 1)[:2] if plan.cluster else (1, 1)


def share_of(rows: int, columns: int, parts: int) -> tuple[int, int]:
    """Rows and columns of a tile that one of so many CTAs ends: rows that lie one behind another, or where there are
    fewer of them so many of the columns."""
    return (rows // parts, columns) if rows % parts == 0 else (rows, columns // parts)


def _sums(rows: int, columns: int, parts: int) -> int:
    """Bytes of a tile of sums, and where a cluster has cut them of what its CTAs send one another, with the barrier on
    which that lands."""
    down, across = share_of(rows, columns, parts)
    sent = aligned(4 * (parts - 1) * down * (across + SUM_PAD)) + MBARRIER_BYTES if parts > 1 else 0
    return aligned(4 * rows * (columns + SUM_PAD)) + sent


def held_of(plan: Plan) -> int:
    """Elements of its tile that a thread of a scan by look back keeps in registers; 0 of other plans."""
    return plan.tile[1] // threads_of(plan) if plan.algo == "scan_look_back" and len(plan.tile) == 2 else 0


def pitch_of(side: int, size: int) -> int:
    """Elements of `size` bytes from a row of a transposed tile to the next: an odd number of words, so that a column
    lies in different banks."""
    return side + max(1, 4 // size)


def streamed_tiles(plan: Plan, kernel: Streaming) -> tuple[tuple[int, int], ...]:
    """Rows and columns of the tiles of a streaming kernel: the query's, the key's, the value's, the weights'. Where
    threads stand below one another rows are padded by one access, so that they meet different banks."""
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
    """Columns of the output that a thread of a streaming kernel sums."""
    return -(-kernel.sizes[1] // plan.threads[0])


def aligned(size: int) -> int:
    """Bytes of an array in shared memory with what follows it up to the next one."""
    return -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


def piece_of(plan: Plan, region: Region, kernel: Contraction) -> tuple[int, int]:
    """Rows and columns of a warpgroup's accumulator that leave together: 64 rows, and so many columns that they are one
    swizzled row of the widest output that leaves through shared memory, or in a transposed product, whose columns are
    the output's rows, 64 at most. The copy engine takes boxes of one size. Where threads write all rows
    (`leave_by_rows`) what is left of the columns leaves behind the others, and the output's rows are as long as shared
    memory has room for, since their ends are dear."""
    return _piece_beside(plan, region, _ring_of(plan, region, kernel, ()) if leave_by_rows(plan, region) else 0)


def _piece_beside(plan: Plan, region: Region, taken: int) -> tuple[int, int]:
    """The same, where so many bytes of shared memory are taken."""
    rows, columns = (*plan.tile, 1, 1)[:2][:: -1 if plan.swap_ab else 1]
    sizes, count = (
        [t.type.dtype.bytes for t in _staged(plan, region)] or [2],
        plan.consumers.count if plan.consumers else 1,
    )
    if not leave_by_rows(plan, region):
        turned = max((c for c in range(PIECE, WARPGROUP_ROWS + 1, PIECE) if columns % c == 0), default=PIECE)
        return WARPGROUP_ROWS, turned if plan.swap_ab else math.gcd(SWIZZLE_BYTES // max(sizes), columns)
    if plan.swap_ab:
        blocks = max(1, rows // count // WARPGROUP_ROWS)  # of a tile that no template takes there may be none
        return WARPGROUP_ROWS * blocks, min(max(1, WARPGROUP_ROWS // blocks), columns)
    one = max((span // max(sizes) for span in SPANS if span // max(sizes) <= columns), default=SPANS[-1] // max(sizes))
    most = (ARCHS[plan.arch].smem_per_cta - taken) // (count * WARPGROUP_ROWS * sum(sizes))
    is_wide = one * min(sizes) == SWIZZLE_BYTES and 2 * one <= min(columns, most)
    return WARPGROUP_ROWS, 2 * one if is_wide else one


def staged_pieces(plan: Plan, region: Region) -> int:
    """Pieces of an output that a warpgroup has in shared memory: two for the copy engine, which takes its time; threads
    read one before they write the next."""
    return 1 if leave_by_rows(plan, region) else STAGED


def leave_by_rows(plan: Plan, region: Region) -> bool:
    """Whether threads write all outputs that leave through shared memory, of which there are some."""
    return {plan.store_of(t.name).by for t in _staged(plan, region)} == {"rows"}


def fetched_along(read: Read, kernel: Contraction, size: int) -> int:
    """Elements that the copy engine brings for `size` of an operand along its own axis: whole swizzled rows where these
    lie along it."""
    row = SWIZZLE_BYTES // read.dtype.bytes
    return size if _is_along(read, kernel.sum) else -(-size // row) * row


def width_of(plan: Plan, kernel: Contraction, side: int) -> int:
    """Elements of an operand that a thread of the synchronous template takes from shared memory at once, 16 bytes at
    most."""
    return math.gcd(plan.micro[side], max(1, ACCESS_BYTES // kernel.factor_bytes)) if len(plan.micro) > side else 1


def stands_along_sum(plan: Plan, kernel: Contraction) -> bool:
    """Whether neighbouring threads of a gemv stand along the sum."""
    return plan.place_of(f"{kernel.sum[-1].name}.i") == "thread.x"


def _is_along(read: Read, axes: tuple[Axis, ...]) -> bool:
    return axes[-1].name in nearest(read.index)


def team_of(plan: Plan) -> int:
    """Threads that share a row of a row kernel."""
    return plan.threads[0] * (math.prod(plan.cluster.shape) if plan.cluster else 1)


def each_of(plan: Plan) -> int:
    """Elements of a row that a thread has at once."""
    return plan.tile[1] // team_of(plan)


def accumulators_of(plan: Plan, kernel: Kernel) -> int:
    """32-bit registers a thread that hold the accumulators, with what of an operand is held beside them; of a streaming
    kernel also fragments and what it knows of its rows; 0 when nothing is accumulated over the loop."""
    if isinstance(kernel, Streaming) and plan.algo == "streaming_softmax":
        return flash.registers_of(plan, kernel)
    if isinstance(kernel, Streaming):
        rows, columns, width = *plan.micro, width_each(plan, kernel)
        arrays = rows * (columns + width + 3) + kernel.access * (2 * rows + columns) + width
        return arrays * max(1, kernel.dtype.bytes // 4)
    if not isinstance(kernel, Contraction):
        return 0
    words = max(1, kernel.dtype.bytes // 4)
    if plan.micro:
        return math.prod(plan.micro[:2]) * words
    if plan.warp_tile:
        return math.prod(plan.warp_tile) // 32 * words
    if plan.consumers:
        share = plan.consumers.count if plan.consumers.mode == "cooperative" else 1
        return plan.tile[0] * plan.tile[1] // (128 * share) * words * (
            1 + plan.partials if plan.promote else 1
        ) + operand_of(plan, kernel)
    return 0


def operand_of(plan: Plan, kernel: Contraction) -> int:
    """Registers a thread of a warpgroup whose left operand comes from there: of words, both parts of a step's where
    they are split, pieces of it where it lies across the sum."""
    read, side = (kernel.rhs, 1) if plan.swap_ab else (kernel.lhs, 0)
    if plan.algo != "warp_specialized" or read.dtype.bytes != 4 or not plan.is_split and _is_along(read, kernel.sum):
        return 0
    return (
        plan.tile[side]
        // plan.consumers.count
        * (2 * plan.tile[2] if plan.is_split else OPERAND_DEPTH * OPERAND_SETS)
        // WARPGROUP
    )


def leaving_of(plan: Plan, region: Region) -> int:
    """Registers a thread of a consumer takes beside its accumulators when outputs of bytes leave through shared
    memory."""
    is_of_bytes = any(t.type.dtype.bytes == 1 and plan.store_of(t.name).by in STAGED_STORES for t in region.outputs)
    return LEAVING_BYTES if plan.consumers and is_of_bytes else 0


def registers_of(plan: Plan, kernel: Kernel) -> int:
    """Registers a thread, as the compiler is expected to allot them: a multiple of 8, at most the architecture's limit.
    For the synchronous template it is enough for ptxas to spill none of 149 tiles; the more of the sum is unrolled, the
    more it takes."""
    arch = ARCHS[plan.arch]
    if plan.consumers:
        return min(arch.registers_per_thread, arch.registers_per_sm // threads_of(plan) // 8 * 8)
    held = accumulators_of(plan, kernel)
    if isinstance(kernel, Row):
        return min(arch.registers_per_thread, -(-(each_of(plan) + ROW_ADDRESSING) // 8) * 8)
    if isinstance(kernel, Streaming):
        return min(arch.registers_per_thread, -(-(held + STREAMED_ADDRESSING) // 8) * 8)
    if plan.algo == "gemv" and isinstance(kernel, Contraction):
        rows = plan.micro[0] if stands_along_sum(plan, kernel) else 0  # whose elements are held too
        wanted = (
            held
            + plan.micro[2] * (plan.micro[1] * kernel.rhs.dtype.bytes + rows * kernel.lhs.dtype.bytes) // 4
            + ADDRESSING
        )
    elif plan.algo == "multistage":
        sides, words = sum(plan.warp_tile), 2 if kernel.lhs.dtype.bytes == 4 else 1
        wanted = held + words * sides // 2 + FRAGMENT_ADDRESSING  # two sets of fragments of 16 along the sum
    elif plan.warp_tile or not isinstance(kernel, Contraction):
        wanted = held + 5 * held_of(plan) // 4 + sum(plan.warp_tile) // 8 + ADDRESSING
    else:
        wide = 8 if kernel.lhs.dtype.bytes >= 4 else 0
        unrolled = max(held - 16, 0) // 2 + 4 if plan.tile[2] > 8 else max(held - 16, 0) // 4
        wanted = held + sum(plan.micro) + unrolled + wide + ADDRESSING
    return min(arch.registers_per_thread, -(-wanted // 8) * 8)


def register_limit(plan: Plan, region: Region, kernel: Kernel) -> int:
    """The most registers a thread that let as many CTAs on an SM as the plan counts on."""
    ctas = taken_by(plan, region, kernel).occupancy
    return ARCHS[plan.arch].registers_for(max(1, ctas), threads_of(plan))


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes of shared memory that a CTA takes, registers a thread, and CTAs that an SM holds at once; 0 when not one
    fits."""

    smem: int
    regs: int
    occupancy: int


def taken_by(plan: Plan, region: Region, kernel: Kernel) -> Taken:
    """What a CTA of a plan takes."""
    arch: Arch = ARCHS[plan.arch]
    smem, regs = smem_of(plan, region, kernel), registers_of(plan, kernel)
    return Taken(smem, regs, arch.ctas_that_fit(smem, regs, threads_of(plan)))
