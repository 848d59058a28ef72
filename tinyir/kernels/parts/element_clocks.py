"""The cost of a map: one thread for each element, what it folds or looks for included."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from ...ir.body import Read, Scatter, Select
from ...ir.neighbours import crossed_elements, crossed_reads
from ...ir.plan import Plan
from ...ir.present import names_in
from ...ir.region import Region
from ...ir.rules import product
from ...ir.runs import singles_of
from ...ir.traits import extent_of, folds_of, nodes_of, reads_apart, walks_apart
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..resources import ON_THEIR_WAY, WALK, threads_of
from .boxes import LINE_BYTES
from .statements import FEW_SINGLE
from .waiting import CTAS_SHARPNESS, LATE, LEAST_THREADS, LINE_LOSS, MAP_ISSUE, WAITING_SHARPNESS, handed_out_us

SINGLE_ISSUE = 4  # warp instructions an element of a read that is taken one by one; counted in the text, not fitted
LOOK_ISSUE = (
    10  # warp instructions for one place: its load, which end it counts from, and whether it is the element's own
)
TURN_LOSS = 0.01  # of the bandwidth, for each access of a thread behind its first: on an H200, from 64 MB on
WALK_LOSS = 0.1  # the same where it walks along what it folds: there are fewer threads that do
# What walks across rows that begin anywhere takes, on an H200: sums of 4093 columns 28 and 26 us, 20 and 15 without.
ACROSS_LOSS = 1.5
TILE_TURNS = 0.05  # of a trip to memory, for each access of a thread whose tile passes through shared memory
# The same for each guarded tile behind the first: a block is in one of them, and each thread fills and reads all. 58
# concatenations of DenseNet-121, of some 7 pieces each, took 1.9 us more than element by element on an H200.
PIECE_TURNS = 0.4
SECTOR_BYTES = 32  # of memory, which the end of a row shares with what is behind it
LOOK_CLOCKS = 40  # until a place is there, from the L1 cache, and compared


def element_clocks(plan: Plan, problem: Problem, at: Conditions, tiles: int = 0) -> Clocks:
    """One thread for each element: its arithmetic, its index and guards, and the bytes. What it folds it walks along, a
    few elements at a time; for what is scattered there it looks at every place. `tiles` pass through shared memory, one
    in each CTA; 0 where neighbouring threads may read different rows."""
    region, device, sizes, occupancy = problem.region, at.device, at.sizes, at.occupancy
    flops, moved = at.work.flops, at.work.bytes
    elements, is_flat = extent_of(problem.kernel.groups[0]).evaluate(sizes), not tiles
    guards = _guards_of(region)
    walked = sum(extent_of(fold.axes).evaluate(sizes) for fold in folds_of(region))
    looks = looks_of(region, sizes)
    tiles = tiles or -(-elements // plan.tile[0])
    mine = -(-tiles // device.sms)
    width = plan.widest
    singles, is_split = (
        [step for item in plan.vectorize for step in singles_of(region, len(item.axes), item.width)],
        any(len(item.axes) > 1 for item in plan.vectorize),
    )
    taken = (
        MAP_ISSUE * (1 / width + walked / WALK / width + _apart(plan, region))
        + LOOK_ISSUE * looks
        + 2
        + 2 * guards
        + 2 * flops / max(elements, 1)
    )
    taken += len(singles) * (MAP_ISSUE if is_split else SINGLE_ISSUE)
    issue = mine * plan.tile[0] * taken / device.arch.warp / device.arch.schedulers
    issue = max(
        issue, mine * plan.tile[0] * sum(singles) * width / LINE_BYTES
    )  # lines that the lanes of a warp ask for, one a clock
    issue += elements * walked / device.sms if walks_apart(region) else 0  # a line for each lane
    crossed = {r.tensor for r in crossed_reads(region)} if is_flat else set()
    # The same; of a part that is joined with others, at its own elements.
    counts = [product(t.type.shape).evaluate(sizes) for t in region.inputs if t.name in crossed]
    issue = max(issue, mine * plan.tile[0] * sum(min(1.0, count / max(elements, 1)) for count in counts))
    waves = -(-mine // max(1, min(occupancy, mine)))
    short = _written_out(region) if width == 1 else 0
    passing = 0.0 if is_flat else TILE_TURNS * (plan.micro[0] // width) + PIECE_TURNS * max(0, _guarded(region) - 1)
    turns = waves * (2 + passing + plan.micro[0] // width * (-(-(walked - short) // WALK) + -(-short // ON_THEIR_WAY)))
    read = sum(product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in region.inputs)
    # of a walk, whose elements are on their way together
    steps = -(-walked // (max(2, ON_THEIR_WAY // width) if width > 1 else WALK)) if walked else 1
    held = plan.tile[0] if is_flat else elements / tiles
    # bytes that the resident threads wait for
    under_way = min(tiles, device.sms * min(occupancy, mine)) * held * read / max(elements, 1) / steps
    waited = read * device.dram_latency_ns / 1e3 / max(under_way, 1.0)
    moved += (LINE_LOSS - 1) * sum(
        product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in region.inputs if t.name in crossed
    )
    if not is_flat and width == 1:  # rows of tiles that begin anywhere
        narrow = min(t.type.dtype.bytes for t in (*region.inputs, *region.outputs))
        moved *= 1 + SECTOR_BYTES / (math.isqrt(plan.tile[0]) * narrow)
    # A sector for each element that is read across, which no neighbour uses while it is near: 256 x 1024 numbers of
    # fp16 turned take 6.7 us on an H200, through tiles 5.1.
    apart = sum(
        product(t.type.shape).evaluate(sizes) * max(0, SECTOR_BYTES - LINE_LOSS * t.type.dtype.bytes)
        for t in region.inputs
        if t.name in crossed
    )
    through = (moved + apart) * device.sms * mine / max(tiles, 1)  # the busiest SM's share, times SMs
    each = plan.micro[0] // (width if is_flat or width > 1 else ON_THEIR_WAY)
    turned = 1 + (WALK_LOSS if walked else TURN_LOSS) * max(0, each - 1)
    memory = longer_of(
        max(turned * moved / device.dram_bytes_per_us, through / device.l2_bytes_per_us), waited, WAITING_SHARPNESS
    )
    memory = longer_of(memory, handed_out_us(tiles), CTAS_SHARPNESS)
    memory *= 1 + LATE * (threads_of(plan) / LEAST_THREADS - 1)
    is_across = walked and is_flat and (width == 1 or singles) and reads_apart(region)
    across = ACROSS_LOSS if is_across else 1.0
    return Clocks(
        {
            "memory": across * memory,
            "compute": issue / device.clock_ghz / 1e3,
            "latency": across
            * (device.dram_latency_ns * turns + LOOK_CLOCKS / device.clock_ghz * looks * waves * plan.micro[0])
            / 1e3,
        }
    )


@functools.lru_cache(maxsize=4096)
def _guards_of(region: Region) -> int:
    """Bounds of all guards."""
    return sum(len(n.guard) for n in nodes_of(region) if isinstance(n, Select))


def _written_out(region: Region) -> int:
    """Elements of folds along one axis that are all on their way together."""
    folds = [fold for fold in folds_of(region) if len(fold.axes) == 1]
    sizes = [fold.axes[0].size.constant for fold in folds if fold.axes[0].size is not None]
    return sum(size for size in sizes if size is not None and size <= FEW_SINGLE)


def _guarded(region: Region) -> int:
    """Reads that pass through tiles with a guard around them."""
    return sum(element is not read for read, element in crossed_elements(region).items())


def _apart(plan: Plan, region: Region) -> int:
    """Reads whose place a map works out for each element of a vector, since they are not contiguous as its run is."""
    axes = {name for item in plan.vectorize if len(item.axes) > 1 for name in item.axes}
    named = [names_in(n.index) for n in nodes_of(region) if isinstance(n, Read)] if axes else []
    return sum(bool(axes & names) and not axes <= names for names in named)


def looks_of(region: Region, sizes: Mapping[str, int]) -> int:
    """Places that one element of the region's result looks at."""
    return sum(extent_of(n.axes).evaluate(sizes) for n in nodes_of(region) if isinstance(n, Scatter))
