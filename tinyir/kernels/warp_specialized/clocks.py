"""What a warp-specialised contraction takes: whole tiles on whole SMs, each step of the sum as long as its products or
its loads.

    time of a tile = steps * (products and loads, smoothly joined, + a step's own, not less than a load's latency over
      the ring,
                     nor than what L2 gives all SMs together) + epilogue
    not less than what memory takes, and the boxes that hang over the operands' ends

    padded operands add their copies, a sum that a cluster shares the time to send its parts

Fitted to 2407 timings on an H100, from a cold L2 cache, of plans near the fastest at 43 shapes, and 468 older ones from
a warm one. The plan that it puts first takes 1.9 % longer than the fastest that was timed, in geometric mean, 33 % at
worst (152 columns, operands off the lines); to 1604 on an H200: 2 % and 13 %. What it does not know: clocks that sink
under load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.rules import product
from ...ir.traits import extent_of
from ...kit.numbers import Number, entry, least, most, pick, uniform
from ...target.device import Device, longer_of
from ...target.hopper import WARPGROUP
from ...target.tf32 import PRODUCTS
from ..family import Clocks, Conditions, Problem
from ..parts.boxes import LINE_BYTES, View, view_of
from ..parts.padding_clocks import padding_us
from ..parts.pairs import results_of
from ..parts.tile_clocks import worked_clocks
from ..parts.tile_reads import block_reads, blocks_of, reads_of, tile_reads
from ..parts.windows import operand_views
from ..problem import Contraction
from .declare import across_of, fetched_along, piece_of
from .fetched import steps_of

ROWS = 64  # of one wgmma
DRAIN_CLOCKS = 60  # from the last product to the first addition; worked out, not measured
READ_CLOCKS = 1.8  # an element that a thread reads from memory by itself: 105 us of a 1x1 convolution with a residual
SHORT_ROW_CLOCKS = 11.3  # of a copy engine for a row of a window of fewer channels than the box has: 7x7 of 3 channels
CAPPED = 8.0  # how sharply what all SMs take from L2 rules a step
OPERAND_A = 16  # clocks in which shared memory gives a wgmma its 64 rows of A, four bytes of B a clock and column


def warp_specialized_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds of computing and of memory. What ends a tile's sum follows memory as it follows products."""
    region, kernel, sizes, device = problem.region, problem.kernel, at.sizes, at.device
    moved = at.work.bytes
    t = device.tensor
    rows, columns, _ = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    bm, bn, bk = plan.tile
    depth, depths = float(bk * steps_of(plan, region, kernel).evaluate(sizes)), _depths(region, kernel, sizes)
    down, across = across_of(plan)
    clusters = -(-rows // (bm * down)) * -(-columns // (bn * across)) * extent_of(kernel.batch).evaluate(sizes)
    slots = (  # one CTA on an SM: what two take that share one is not measured
        entry(t["clusters"], down * across * plan.parts - 1)
        if plan.has_one_tile
        else most(1, (plan.persistent or device.sms) // (down * across))
    )
    busy = least(1.0, clusters / slots)
    products = _products(plan, kernel, t)
    fetched = _fetched(plan, region, kernel, sizes, device)
    loads = fetched / t["l2_bytes_per_clock"] * (1 - t["crowding"] + t["crowding"] * busy)
    step = longer_of(products, loads, t["sharpness"]) + _waiting(plan, products)
    if not plan.takes_turns:  # there the other warpgroup multiplies: 4096x4096x1024 takes 51.6 us, with this 58
        step += t["step_clocks"] + t["alone_clocks"] * (plan.consumers.count == 1)
    step += pick(down * across > 1, t["coupled_clocks"], 0.0) if plan.has_one_tile else 0.0
    step = longer_of(
        step, least(clusters, slots) * down * across * plan.parts * fetched / t["chip_bytes_per_clock"], CAPPED
    )
    if not plan.takes_turns:
        step = longer_of(step, t["latency_clocks"] / most(1, plan.stages - 1), t["sharpness"])
    # steps held up at the end by one that comes out of its turn
    late = t["late"] * plan.stages * step if plan.has_one_tile else 0
    joining = pick(down * across > 1, t["cluster_clocks"], 0.0)
    epilogue = _epilogue(plan, region, kernel, rows, t)
    rounds, of_tile = -(-clusters // slots), -(--(-depth // bk) // plan.parts) * step
    worked = bm * bn * worked_clocks(region, kernel)
    clocks = rounds * (of_tile + epilogue)
    if plan.takes_turns and not _leaves_by_rows(plan):  # a tile ends while the next is multiplied
        clocks = most(rounds * of_tile + epilogue, -(-rounds // plan.consumers.count) * (of_tile + epilogue))
    clocks = clocks + rounds * worked  # in turns too, of which no such timings are known
    clocks = clocks + joining + late
    for view, own, across_it in zip(operand_views(region, kernel), (rows, columns), (columns / bn, rows / bm)):
        if isinstance(view, View) and view.windows is not None and kernel.sum[-1].size.evaluate(sizes) < bk:
            copied = own * extent_of(kernel.batch).evaluate(sizes) * depth / bk * -(-across_it // 1) / device.sms
            clocks = most(clocks, SHORT_ROW_CLOCKS * copied)
    in_flight = (
        plan.stages
        * plan.parts
        * bk
        * (rows * kernel.lhs.dtype.bytes + columns * kernel.rhs.dtype.bytes)
        * extent_of(kernel.batch).evaluate(sizes)
        * least(1.0, slots / clusters)
    )
    moved = moved + t["again"] * least(1.0, slots / clusters) * _fetched_again(plan, kernel, sizes, depths)
    fetching = most(
        moved / device.dram_bytes_per_us,
        # of what has many waves, writes go on beside the loads of the next tile
        (moved - pick(clusters > slots, least(moved, _written(region, sizes)), 0.0)) / (in_flight / t["flight_us"]),
        _share_of_sm(plan, kernel, sizes, depths, device) / t["sm_bytes_per_us"],
    )
    before, clock = padding_us(plan, region, kernel, sizes, device), device.clock_ghz * 1e3
    beyond = _lines_beyond(plan, kernel, sizes, depths)
    fetching = longer_of(fetching, beyond * t["beyond_clocks"] / clock, t["sharpness"])
    # beside the last tile's end goes on the next one's fetching, where CTAs walk over tiles
    ended = (epilogue + worked) * (1 if plan.persistent else rounds)
    compute, memory = clocks / clock, fetching + (ended + joining + late) / clock
    joined, is_computing = longer_of(compute, memory, t["overlap"]), compute >= memory
    parts = {
        "compute": pick(is_computing, joined, compute) + before,
        "memory": pick(is_computing, memory, joined) + before,
    }
    return Clocks(parts, t["start_us"])


def _written(region: Region, sizes: Mapping[str, int]) -> float:
    """Bytes of the outputs, which nothing waits for."""
    return float(sum(product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in region.outputs))


def _depths(region: Region, kernel: Contraction, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Elements of memory for each of an operand's own: what it has along the sum, but for windows, which share them."""
    whole = extent_of(kernel.sum).evaluate(sizes)
    found = []
    for own, view in zip(kernel.groups, operand_views(region, kernel)):
        is_of_windows = isinstance(view, View) and view.windows is not None
        elements = product(view.tensor.type.shape).evaluate(sizes) if is_of_windows else 0
        of_all = max(1, extent_of(own).evaluate(sizes) * extent_of(kernel.batch).evaluate(sizes))
        found.append(elements / of_all if is_of_windows else whole)
    return float(found[0]), float(found[1])


def _fetched_again(plan: Plan, kernel: Contraction, sizes: Mapping[str, int], depths: tuple[float, float]) -> Number:
    """Bytes of the operands that several CTAs fetch, each for itself: what comes from memory for one of them, the
    others find in L2, half of which is far."""
    down, across = across_of(plan)
    rows, columns, _ = (float(extent_of(group).evaluate(sizes)) for group in kernel.groups)
    batch, found = extent_of(kernel.batch).evaluate(sizes), 0.0
    for read, own, depth, tiles, sharing in (
        (kernel.lhs, rows, depths[0], -(-columns // plan.tile[1]), across),
        (kernel.rhs, columns, depths[1], -(-rows // plan.tile[0]), down),
    ):
        shares = sharing if plan.cluster and read.tensor in plan.cluster.multicast else 1
        found = found + batch * own * depth * read.dtype.bytes * (tiles > shares)
    return found


def _lines_beyond(plan: Plan, kernel: Contraction, sizes: Mapping[str, int], depths: tuple[float, float]) -> Number:
    """Lines of all CTAs' boxes that are beyond the ends of the operands. The copy engines fill them with zeros, and
    together no faster than a number of lines a clock."""
    down, across = across_of(plan)
    rows, columns, _ = (float(extent_of(group).evaluate(sizes)) for group in kernel.groups)
    tiles = -(-rows // (plan.tile[0] * down)) * down, -(-columns // (plan.tile[1] * across)) * across
    beyond = (
        (kernel.lhs, depths[0], tiles[0] * plan.tile[0] - rows, tiles[1]),
        (kernel.rhs, depths[1], tiles[1] * plan.tile[1] - columns, tiles[0]),
    )
    found = sum(over * depth * read.dtype.bytes / LINE_BYTES * fetching for read, depth, over, fetching in beyond)
    return found * extent_of(kernel.batch).evaluate(sizes)


def _share_of_sm(
    plan: Plan, kernel: Contraction, sizes: Mapping[str, int], depths: tuple[float, float], device: Device
) -> Number:
    """Bytes of an operand that one SM fetches from memory: those of its tiles along the operand's own axis. What is
    across finds them in L2."""
    down, across = across_of(plan)
    batch = float(extent_of(kernel.batch).evaluate(sizes))
    longest: Number = 0.0
    for read, group, depth, size, sharing in (
        (kernel.lhs, kernel.left, depths[0], plan.tile[0], across),
        (kernel.rhs, kernel.right, depths[1], plan.tile[1], down),
    ):
        extent = float(extent_of(group).evaluate(sizes))
        shares = sharing if plan.cluster and read.tensor in plan.cluster.multicast else 1
        longest = most(
            longest,
            batch
            * extent
            * depth
            * read.dtype.bytes
            / least(device.sms, batch * -(-extent // size) * plan.parts * shares),
        )
    return longest


def _products(plan: Plan, kernel: Contraction, t: Mapping[str, float]) -> Number:
    """Clocks of a step's matrix products: each as long as its columns, or as its operands take from shared memory.
    Where fp32 is split (`tf32x3`) there are three of each, the left operand is read once for them, and the right one's
    low parts are written from it."""
    rows, columns, depth = plan.tile
    rows, columns = (columns, rows) if plan.swap_ab else (rows, columns)
    count, blocks = PRODUCTS[plan.math], rows // ROWS
    shared = OPERAND_A + count * columns / 4 + (columns / 2 / blocks if plan.is_split else 0)
    return blocks * (depth * kernel.lhs.dtype.bytes // 32) * most(count * columns / 2, t["shared_read"] * shared)


def _waiting(plan: Plan, products: Number) -> Number:
    """Clocks of a step in which nothing is multiplied: a warpgroup waits for its products and adds their sums, and
    those of the others are done before."""
    if not plan.promote:
        return 0.0
    count, waits = plan.consumers.count, (1 + plan.is_split) / plan.partials
    own = waits * (DRAIN_CLOCKS + plan.tile[0] * plan.tile[1] / (count * WARPGROUP))
    return most(0.0, own - products * (count - 1) / count)


def _fetched(plan: Plan, region: Region, kernel: Contraction, sizes: Mapping[str, int], device: Device) -> Number:
    """Bytes that a CTA fetches in a step, as many as their lines make them."""
    t = device.tensor
    rows, columns, _ = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    depths = _depths(region, kernel, sizes)
    down, across = across_of(plan)
    multicast = plan.cluster.multicast if plan.cluster else ()
    fetched: Number = 0.0
    for side, (read, sharing) in enumerate(((kernel.lhs, across), (kernel.rhs, down))):
        is_aligned = plan.is_copied(read.tensor) or _starts_on_lines(region, kernel, read, sizes)
        # all CTAs fetch at the same time: L2 serves those that ask for the same lines together, shared or not
        is_near = plan.has_one_tile and is_aligned
        shares = sharing if read.tensor in multicast and not is_near else 1
        fetched = fetched + (
            fetched_along(plan, kernel, side, plan.tile[side])
            / shares
            * plan.tile[2]
            * read.dtype.bytes
            * (1 if is_aligned else t["unaligned"])
        )
    operands = extent_of(kernel.batch).evaluate(sizes) * (
        rows * depths[0] * kernel.lhs.dtype.bytes + columns * depths[1] * kernel.rhs.dtype.bytes
    )
    return fetched * (t["missed"] if operands > device.l2_bytes else 1)


def _epilogue(plan: Plan, region: Region, kernel: Contraction, rows: Number, t: Mapping[str, float]) -> Number:
    """Clocks from a tile's last product to its last store."""
    bm, bn, _ = plan.tile
    count = plan.consumers.count if plan.consumers and not plan.takes_turns else 1  # warpgroups that end it together
    clocks = t["tile_clocks"] + t["element_clocks"] * bm * bn / count
    clocks += READ_CLOCKS * bm * bn / count * _read_directly(plan, region, kernel)
    if uniform(plan.parts > 1):
        return clocks + t["sum_clocks"] + t["sum_element_clocks"] * least(bm, rows) * bn * (plan.parts - 1) / plan.parts
    if plan.has_one_tile:
        return clocks + t["shared_clocks"]
    down, across = piece_of(plan, region, kernel)
    bm, bn, _ = results_of(plan, kernel)[0].tile
    rows, columns = (bn, bm) if plan.swap_ab else (bm, bn)
    # the ends of rows, which all of an SM's warps store
    clocks += t["row_clocks"] * bm * bn / (down if plan.swap_ab else across) if _leaves_by_rows(plan) else 0
    return clocks + t["piece_clocks"] * (rows // count // down) * -(-columns // across)


def _leaves_by_rows(plan: Plan) -> bool:
    """Whether outputs are stored along their rows by the threads, which products do not hide: GPT-2's logits take 186
    us in turns, for 196 expected so and 138 with them hidden."""
    return any(item.by == "rows" for item in plan.store)


def _read_directly(plan: Plan, region: Region, kernel: Contraction) -> int:
    """Tensors that each thread reads for itself at the places of its accumulator."""
    kernel = kernel.results
    of_blocks = len(block_reads(region, kernel)) - len(blocks_of(plan, region, kernel))
    return len(tile_reads(region, kernel)) - len(reads_of(plan, region, kernel)) + of_blocks


def _starts_on_lines(region: Region, kernel: Contraction, read: object, sizes: Mapping[str, int]) -> bool:
    """Whether every row of the operand in memory begins a line of the cache."""
    view = view_of(region, read.tensor, read.index, kernel)
    return (
        not isinstance(view, View)
        or len(view.dims) < 2
        or math.gcd(view.dims[-1].size.evaluate(sizes) * read.dtype.bytes, LINE_BYTES) == LINE_BYTES
    )
