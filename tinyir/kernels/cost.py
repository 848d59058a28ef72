"""The cost model: what a plan's kernel is expected to take on a card (seed 001 section 11).

    time = start + max(arithmetic and shared memory of the busiest SM, bytes from L2, bytes from memory)

It is the seed's max(FLOPs/peak, Bytes/bandwidth) with `occ` and `pipeline_eff` taken apart into what causes them: whole
tiles on whole SMs, instructions issued a step, and the latency of a load that too few resident CTAs can hide. It is
meant to rank. For the synchronous template on an H100 it is off by 14 % (root mean square over 1192 timings of 149
emitted kernels), and the plan that it puts first took 8 % longer than the fastest on average, 20 % at worst. The
constants are the card's (`devices/*.toml`) and the few named here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..analysis.work import Work, ops_each
from ..ir.body import Body, Read, Reduce, Scan, Select, Unary, walk
from ..ir.neighbours import crossed_reads
from ..ir.plan import Estimate, Plan
from ..ir.region import Region
from ..ir.rules import product
from ..ir.runs import singles_of
from ..ir.traits import axes_of, bodies_of, extent_of, reads_apart, walks_apart
from ..target.device import Device, longer_of
from . import resources
from .flash.clocks import flash_parts
from .gemv.clocks import gemv_parts
from .multistage.clocks import multistage_parts
from .parts.boxes import LINE_BYTES
from .problem import Contraction, Kernel, Plain, Prefix, Row
from .scatter_atomic.clocks import LOOK_CLOCKS, LOOK_ISSUE, looks_of, scatter_atomic_parts
from .streaming.clocks import streaming_parts
from .streaming.match import Streaming
from .warp_specialized.clocks import warp_specialized_parts

BARRIER_CLOCKS = 40
SHUFFLE_CLOCKS = 30
CLUSTER_CLOCKS = 1500  # of a barrier of a cluster, and the reads of its CTAs' shared memory behind it
SCAN_CLOCKS = 5 * SHUFFLE_CLOCKS  # five shuffles of a warp, each needing the one before
LOOKS = 4  # at words that other CTAs publish, each behind the one before
SECTOR_BYTES = 32  # of memory, of which a thread whose neighbours read elsewhere uses one element
LINE_LOSS = 4  # sectors moved for the bytes used where neighbouring threads read different rows
WAITING_SHARPNESS = 4.0  # of bandwidth and latency, the nearer to one another the slower
SINGLE_ISSUE = 4  # warp instructions an element of a read that is taken one by one; counted in the text, not fitted
MAP_ISSUE = 12  # warp instructions an element of a map takes beside its arithmetic


@dataclass(frozen=True, slots=True)
class Cost:
    """What the model found, times in microseconds. `parts` are the candidates for the bound; `useful` is the share of
    the card's peak for the plan's unit that the time amounts to."""

    microseconds: float
    bound: str
    smem: int
    regs: int
    occupancy: int
    parts: Mapping[str, float]
    flops: int
    bytes: int

    @property
    def tflops(self) -> float:
        """Arithmetic a second, in TFLOP/s."""
        return self.flops / self.microseconds / 1e6

    @property
    def gbs(self) -> float:
        """Compulsory bytes a second, in GB/s."""
        return self.bytes / self.microseconds / 1e3

    def estimate(self) -> Estimate:
        """The plan's `estimate` line: the time to three digits."""
        digits = 2 - math.floor(math.log10(self.microseconds))
        return Estimate(round(self.microseconds, digits), self.bound, self.smem, self.regs, self.occupancy)


def cost_of(
    plan: Plan,
    region: Region,
    kernel: Kernel,
    work: Work,
    sizes: Mapping[str, int],
    device: Device,
    taken: resources.Taken | None = None,
) -> Cost:
    """The cost of one plan at the symbol values `sizes`, where the region has the `work` and a CTA takes `taken`, if
    that is known. The plan must fit (`occupancy` of at least one CTA)."""
    taken = taken or resources.taken_by(plan, region, kernel)
    smem, regs, occupancy = taken.smem, taken.regs, max(1, taken.occupancy)
    flops, moved = work.flops, work.bytes
    start = device.start_us
    if extent_of(region.iters).evaluate(sizes) <= 0:  # at these sizes there is no result: every plan is a start alone
        return Cost(start, "latency", smem, regs, occupancy, {"latency": 0.0}, flops, moved)
    if isinstance(kernel, Contraction) and plan.algo == "warp_specialized" and device.tensor:
        parts, start = (
            warp_specialized_parts(plan, region, kernel, sizes, device, occupancy, moved),
            device.tensor["start_us"],
        )
    elif isinstance(kernel, Contraction) and plan.algo == "multistage" and device.mma:
        parts, start = multistage_parts(plan, region, kernel, sizes, device, occupancy, moved), device.mma["start_us"]
    elif isinstance(kernel, Contraction) and plan.algo == "gemv":
        parts, start = gemv_parts(plan, kernel, sizes, device, occupancy, moved), device.gemv["start_us"]
    elif isinstance(kernel, Contraction):
        contraction = _synchronous if plan.algo == "synchronous" else _tensor
        parts = contraction(plan, kernel, sizes, device, occupancy, moved)
    elif isinstance(kernel, Streaming) and plan.algo == "streaming_softmax":
        parts, start = flash_parts(plan, region, kernel, sizes, device, moved), device.tensor["start_us"]
    elif isinstance(kernel, Streaming):
        parts = streaming_parts(plan, region, kernel, sizes, device, occupancy, moved)
    elif isinstance(kernel, Row):
        parts = _row(plan, region, kernel, sizes, device, occupancy, flops, moved)
    elif isinstance(kernel, Prefix):
        parts = _scan(plan, region, kernel, sizes, device, occupancy, moved)
    elif plan.algo == "scatter_atomic":
        parts = scatter_atomic_parts(plan, region, sizes, device, moved)
    elif isinstance(kernel, Plain):
        parts = _plain(plan, region, sizes, device, moved)
    else:
        parts = _map(plan, region, kernel, sizes, device, occupancy, flops, moved)
    bound = max(parts, key=lambda part: parts[part])
    time = start + parts[bound]
    return Cost(time, bound if parts[bound] > start else "latency", smem, regs, occupancy, parts, flops, moved)


def _synchronous(
    plan: Plan, kernel: Contraction, sizes: Mapping[str, int], device: Device, occupancy: int, moved: int
) -> dict[str, float]:
    """The synchronous template: per step of the sum every thread copies its share and does the prologues' work on it,
    waits, and multiplies its micro tile. The resident CTAs of an SM hide one another's waits; a step takes the longer
    of the SM's issue and one CTA's own chain, smoothly joined."""
    simt = device.simt
    rows, columns, depth = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    bm, bn, bk = plan.tile
    steps = -(-depth // bk)
    tiles = -(-rows // bm) * -(-columns // bn) * extent_of(kernel.batch).evaluate(sizes)
    threads = resources.threads_of(plan)
    m, n = plan.micro
    words = max(1, kernel.dtype.bytes // 4)
    reads = sum(count // resources.width_of(plan, kernel, side) for side, count in enumerate(plan.micro))
    issued = m * n * words + reads
    lanes = m * n * words * device.arch.warp / device.arch.fp32_lanes
    multiply = bk * max(
        lanes / device.reached["ffma"],
        issued / device.arch.schedulers / device.reached["ffma"],
        _shared_reads(plan, kernel) * simt["shared_read_clocks"],
    )
    copied = (bm + bn) * bk / threads
    prologue = sum(side * bk / threads * _prologue_ops(factor) for factor, side in zip(kernel.factors, (bm, bn)))
    busy = threads / device.arch.warp * (multiply + (copied * simt["copy_issue"] + prologue) / device.arch.schedulers)
    chain = simt["wait_clocks"] + copied * simt["copy_wait_clocks"]

    def step(resident: int) -> float:
        return longer_of(resident * busy, chain, simt["sharpness"])

    mine = -(-tiles // device.sms)
    resident = min(occupancy, mine)
    rounds, rest = divmod(mine, resident)
    clocks = steps * (rounds * step(resident) + (step(rest) if rest else 0.0))
    traffic = tiles * steps * bk * (bm * kernel.lhs.dtype.bytes + bn * kernel.rhs.dtype.bytes)
    return {
        "latency" if chain > resident * busy else "compute": clocks / device.clock_ghz / 1e3,
        "memory": max(
            traffic / device.l2_bytes_per_us,
            _dram(plan, kernel, sizes, device, tiles, resident, moved) / device.dram_bytes_per_us,
        ),
    }


def _prologue_ops(factor: Body) -> int:
    """Instructions an element of a tile beside its copy; a cast is part of that."""
    return ops_each(factor) - sum(isinstance(n, Unary) and n.op == "cast" for n in walk(factor))


def _shared_reads(plan: Plan, kernel: Contraction) -> float:
    """Lines of 128 bytes that a warp reads from shared memory for one k: lanes that want the same element share it."""
    across = min(plan.threads[0], 32)
    total = 0.0
    for side, lanes in ((0, max(1, 32 // across)), (1, across)):
        count = plan.micro[side]
        total += max(count // resources.width_of(plan, kernel, side), count * kernel.factor_bytes * lanes / 128)
    return total


def _tensor(
    plan: Plan, kernel: Contraction, sizes: Mapping[str, int], device: Device, occupancy: int, moved: int
) -> dict[str, float]:
    """A tensor-core template that hides its loads: whole tiles on whole SMs at the share of the peak that its
    instruction reaches; a multicast tile is fetched once a cluster."""
    rows, columns, depth = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    bm, bn, bk = plan.tile
    tiles = -(-rows // bm) * -(-columns // bn) * extent_of(kernel.batch).evaluate(sizes)
    mine = -(-tiles // device.sms)
    peak = (
        device.peak[f"mma_{_UNIT.get(kernel.lhs.dtype.name, 'fp16')}"]
        * device.reached["wgmma" if plan.consumers else "mma_sync"]
    )
    one = 2 * bm * bn * -(-depth // bk) * bk / (peak / device.sms * 1e6)
    shared = {name: math.prod(plan.cluster.shape) for name in plan.cluster.multicast} if plan.cluster else {}
    left, right = (
        side * read.dtype.bytes / shared.get(read.tensor, 1) for side, read in ((bm, kernel.lhs), (bn, kernel.rhs))
    )
    traffic = tiles * -(-depth // bk) * bk * (left + right)
    fetched = _dram(plan, kernel, sizes, device, tiles, min(occupancy, mine), moved)
    return {"compute": mine * one, "memory": max(traffic / device.l2_bytes_per_us, fetched / device.dram_bytes_per_us)}


_UNIT = {"bf16": "bf16", "fp32": "tf32", "fp8e4m3": "fp8", "fp8e5m2": "fp8", "i8": "i8", "u8": "i8"}


def _dram(
    plan: Plan, kernel: Contraction, sizes: Mapping[str, int], device: Device, tiles: int, resident: int, moved: int
) -> float:
    """Bytes from memory: everything once, or what each wave of tiles reads anew when the operands do not stay in L2."""
    rows, columns, depth = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    batch = extent_of(kernel.batch).evaluate(sizes)
    operands = batch * depth * (rows * kernel.lhs.dtype.bytes + columns * kernel.rhs.dtype.bytes)
    if operands <= device.l2_useful_bytes:
        return moved
    bm, bn, _ = plan.tile
    across = -(-columns // bn)
    wave = min(tiles, device.sms * resident)
    down = -(-wave // across)
    one_wave = depth * (
        min(down * bm, rows) * kernel.lhs.dtype.bytes + min(wave * bn, columns) * kernel.rhs.dtype.bytes
    )
    return max(moved, one_wave * -(-tiles // wave))


def _row(
    plan: Plan,
    region: Region,
    kernel: Row,
    sizes: Mapping[str, int],
    device: Device,
    occupancy: int,
    flops: int,
    moved: int,
) -> dict[str, float]:
    """Each pass reads a row, folds it over its team of threads and waits. A row in registers is on its way at once; one
    that is read again comes from L2 then, or from memory where the rows at hand do not stay there, and a few elements
    at a time."""
    rows, length = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    team, width, is_resident = resources.team_of(plan), plan.widest, plan.algo == "row_resident"
    elements = -(-length // (team * width)) * width
    ctas = -(-rows // plan.tile[0]) * (team // plan.threads[0])
    again = 0 if is_resident else kernel.passes - 1
    issued = MAP_ISSUE / width + 2
    moved *= LINE_LOSS if reads_apart(region) else 1
    waits = 1 if is_resident else -(-length // plan.tile[1])
    wait = (device.dram_latency_ns + again * device.l2_latency_ns) * device.clock_ghz * waits
    one = wait + kernel.passes * (_meeting(plan) + elements * issued)
    resident = max(1, min(occupancy, -(-ctas // device.sms)))
    latency = -(-ctas // (device.sms * resident)) * one / device.clock_ghz / 1e3
    issue = (
        (ctas * resources.threads_of(plan) * elements * (1 + again) * issued + flops)
        / device.arch.warp
        / device.arch.schedulers
        / device.sms
    )
    stays = min(ctas, device.sms * resident) * plan.tile[0] * moved / max(rows, 1) <= device.l2_useful_bytes
    fetched = moved * (1 if stays else 1 + again)
    # the busiest SM's share, times SMs
    through = moved * (1 + again) * device.sms * -(-ctas // device.sms) / max(ctas, 1)
    return {
        "memory": longer_of(
            max(fetched / device.dram_bytes_per_us, through / device.l2_bytes_per_us), latency, WAITING_SHARPNESS
        ),
        "compute": issue / device.clock_ghz / 1e3,
        "latency": latency,
    }


def _meeting(plan: Plan) -> float:
    """Clocks in which the threads of a row close a fold."""
    shuffles = SHUFFLE_CLOCKS * math.log2(min(plan.threads[0], 32))
    of_block = 2 * BARRIER_CLOCKS + plan.threads[0] if plan.threads[0] > 32 else 0
    return shuffles + of_block + (CLUSTER_CLOCKS if plan.cluster else 0)


def _scan(
    plan: Plan, region: Region, kernel: Prefix, sizes: Mapping[str, int], device: Device, occupancy: int, moved: int
) -> dict[str, float]:
    """A CTA a row, a barrier twice a turn of it; a thread a row, whose loads follow one another; or a CTA a tile, which
    waits for those before it once, behind a launch that clears their words. A load is a sector for every thread where
    neighbouring threads have no neighbours in memory."""
    rows, length = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    threads, tiles = resources.threads_of(plan), -(-length // plan.tile[1])
    is_apart = (plan.algo == "scan_thread") == (kernel.row[0] == region.iters[-1])
    wait = device.dram_latency_ns * device.clock_ghz
    block = wait + 2 * BARRIER_CLOCKS + MAP_ISSUE * plan.widest + SCAN_CLOCKS
    look_back = (
        block + resources.held_of(plan) // plan.widest * SCAN_CLOCKS + LOOKS * device.l2_latency_ns * device.clock_ghz
    )
    ctas, turns, one, before = {
        "scan_block": (rows, tiles, block, 0.0),
        "scan_thread": (-(-rows // threads), length, wait + MAP_ISSUE, 0.0),
        "scan_look_back": (rows * tiles, 1, look_back, device.padding["us"]),
    }[plan.algo]
    resident = max(1, min(occupancy, -(-ctas // device.sms)))
    narrowest = min(t.type.dtype.bytes for t in (*region.inputs, *region.outputs))
    memory = moved / device.dram_bytes_per_us * (SECTOR_BYTES / narrowest if is_apart else 1)
    latency = -(-ctas // (device.sms * resident)) * turns * one / device.clock_ghz / 1e3
    joined = longer_of(memory, latency, WAITING_SHARPNESS) if plan.algo == "scan_look_back" else memory
    return {"memory": before + joined, "latency": before + latency}


def _plain(plan: Plan, region: Region, sizes: Mapping[str, int], device: Device, moved: int) -> dict[str, float]:
    """A thread a result, which walks along all that it folds, one load behind another; neighbouring threads share
    nothing that they read."""
    size_of = {a.name: a.size for a in region.iters}
    results = sum(product(t.type.shape).evaluate(sizes) for t in region.outputs)
    folds = [
        [a.size if a.size is not None else size_of[a.name] for a in n.axes]
        for body in bodies_of(region)
        for n in walk(body)
        if isinstance(n, Reduce)
    ]
    folds += [[size_of[n.axis]] for body in bodies_of(region) for n in walk(body) if isinstance(n, Scan)]
    walked = 1 + sum(product(tuple(extents)).evaluate(sizes) for extents in folds)
    waves = -(-results // (device.sms * plan.tile[0]))
    issue = waves * plan.tile[0] * walked * MAP_ISSUE / device.arch.warp / device.arch.schedulers
    return {
        "compute": issue / device.clock_ghz / 1e3,
        "memory": moved * LINE_LOSS / device.dram_bytes_per_us,
        "latency": waves * walked * device.dram_latency_ns / 1e3,
    }


def _apart(plan: Plan, region: Region) -> int:
    """Reads whose place a map works out for each element of a vector, since they do not lie as its run does."""
    axes = {name for item in plan.vectorize if len(item.axes) > 1 for name in item.axes}
    return sum(
        bool(axes & set(axes_of(n))) and not axes <= axes_of(n)
        for body in bodies_of(region)
        for n in walk(body)
        if isinstance(n, Read)
    )


def _map(
    plan: Plan,
    region: Region,
    kernel: Kernel,
    sizes: Mapping[str, int],
    device: Device,
    occupancy: int,
    flops: int,
    moved: int,
) -> dict[str, float]:
    """A thread an element: its arithmetic, its index and guards, and the bytes. What it folds it walks along, a few
    elements at a time; for what is scattered there it looks at every place."""
    elements = extent_of(kernel.groups[0]).evaluate(sizes)
    guards = sum(len(n.guard) for body in bodies_of(region) for n in walk(body) if isinstance(n, Select))
    walked = sum(
        extent_of(n.axes).evaluate(sizes) for body in bodies_of(region) for n in walk(body) if isinstance(n, Reduce)
    )
    looks = looks_of(region, sizes)
    tiles = -(-elements // plan.tile[0])
    mine = -(-tiles // device.sms)
    width = plan.widest
    singles, is_split = (
        [step for item in plan.vectorize for step in singles_of(region, len(item.axes), item.width)],
        any(len(item.axes) > 1 for item in plan.vectorize),
    )
    taken = (
        MAP_ISSUE * (1 / width + walked / resources.WALK / width + _apart(plan, region))
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
    waves = -(-mine // max(1, min(occupancy, mine)))
    turns = waves * (2 + plan.micro[0] // width * -(-walked // resources.WALK))
    read = sum(product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in region.inputs)
    # of a walk, whose elements are on their way together
    steps = -(-walked // (max(2, resources.ON_THEIR_WAY // width) if width > 1 else resources.WALK)) if walked else 1
    # bytes that the resident threads wait for
    under_way = min(tiles, device.sms * min(occupancy, mine)) * plan.tile[0] * read / max(elements, 1) / steps
    waited = read * device.dram_latency_ns / 1e3 / max(under_way, 1.0)
    crossed = {r.tensor for r in crossed_reads(region)} if plan.algo == "flat" else set()
    moved += (LINE_LOSS - 1) * sum(
        product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in region.inputs if t.name in crossed
    )
    through = moved * device.sms * mine / max(tiles, 1)  # the busiest SM's share, times SMs
    memory = longer_of(
        max(moved / device.dram_bytes_per_us, through / device.l2_bytes_per_us), waited, WAITING_SHARPNESS
    )
    return {
        "memory": memory,
        "compute": issue / device.clock_ghz / 1e3,
        "latency": (device.dram_latency_ns * turns + LOOK_CLOCKS / device.clock_ghz * looks * waves * plan.micro[0])
        / 1e3,
    }
