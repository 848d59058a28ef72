"""What a warp-specialised contraction takes: whole tiles on whole SMs, each step of the sum as long as its products or its loads.

    time of a tile = steps * (products and loads, smoothly joined, + a step's own) + epilogue

    padded operands add their copies, a sum that a cluster shares the time to join its parts

Fitted to 1092 timings on an H100: 26 plans at 42 shapes, 0.03 to 550 GFLOP, aligned and not. The model is off by 13 % (root mean square); the
plan that it puts first took 3 % longer than the fastest of the 26 on average, 19 % at worst; among 207 timings of padded and cut plans at 16
more shapes 3 % and 20 %. What it does not know: how L2 serves tiles that several clusters fetch at once, and clocks that sink under load.
"""

from __future__ import annotations

import math
from typing import Mapping

from ..ir.boxes import View, view_of
from ..ir.kernels import Contraction, extent_of
from ..ir.plan import Plan
from ..ir.region import Region
from .device import Device, longer_of

LINE_BYTES = 128  # of the L2 cache
ROWS = 64  # of one wgmma
OPERAND_A = 16  # clocks in which shared memory gives a wgmma its 64 rows of A, four bytes of B a clock and column


def warp_specialized_parts(plan: Plan, region: Region, kernel: Contraction, sizes: Mapping[str, int], device: Device, moved: int) -> dict[str, float]:
    """Microseconds of computing and of memory, at the symbol values `sizes`."""
    t = device.tensor
    rows, columns, depth = (extent_of(g).evaluate(sizes) for g in kernel.groups)
    bm, bn, bk = plan.tile
    down, across = (*plan.cluster.shape, 1)[:2] if plan.cluster else (1, 1)
    clusters = -(-rows // (bm * down)) * -(-columns // (bn * across)) * extent_of(kernel.batch).evaluate(sizes)
    slots = t["clusters"][plan.parts - 1] if plan.parts > 1 else max(1, (plan.persistent or device.sms) // (down * across))
    instructions = bm // ROWS * (bk * kernel.lhs.dtype.bytes // 32)
    products = instructions * max(bn / 2, t["shared_read"] * (OPERAND_A + bn / 4))
    multicast = plan.cluster.multicast if plan.cluster else ()
    fetched = 0.0
    for read, side, sharing in ((kernel.lhs, bm, across), (kernel.rhs, bn, down)):
        shares = sharing if read.tensor in multicast else 1
        fetched += side / shares * bk * read.dtype.bytes * (1 if plan.is_padded(read.tensor) or _starts_on_lines(region, kernel, read, sizes) else t["unaligned"])
    busy = min(1.0, clusters / slots)
    operands = extent_of(kernel.batch).evaluate(sizes) * depth * (rows * kernel.lhs.dtype.bytes + columns * kernel.rhs.dtype.bytes)
    fetched *= t["missed"] if operands > device.l2_bytes else 1
    loads = fetched / t["l2_bytes_per_clock"] * (1 - t["crowding"] + t["crowding"] * busy)
    step = longer_of(products, loads, t["sharpness"]) + t["step_clocks"]
    consumers = plan.consumers.count if plan.consumers else 1
    by_rows = any(item.by == "rows" for item in plan.store)
    epilogue = t["tile_clocks"] + (t["element_clocks"] + by_rows * t["row_clocks"]) * bm * bn / consumers + (t["sum_clocks"] if plan.parts > 1 else 0)
    steps = -(--(-depth // bk) // plan.parts)
    clocks = -(-clusters // slots) * (steps * step + epilogue) + (t["cluster_clocks"] if down * across * plan.parts > 1 else 0)
    before = _padding(plan, region, kernel, sizes, device)
    return {"compute": clocks / device.clock_ghz / 1e3 + before, "memory": moved / device.dram_bytes_per_us + before}


def _padding(plan: Plan, region: Region, kernel: Contraction, sizes: Mapping[str, int], device: Device) -> float:
    """Microseconds of the kernel that makes the padded copies at each run: each byte read and written once."""
    reads = {r.tensor: r for r in (kernel.lhs, kernel.rhs) if plan.is_padded(r.tensor) and not plan.is_padded_once(r.tensor)}
    if not reads:
        return 0.0
    types = {tensor.name: tensor.type for tensor in region.inputs}
    copied = sum(2 * math.prod(e.evaluate(sizes) for e in types[name].shape) * types[name].dtype.bytes for name in reads)
    return device.tensor["padding_us"] + copied / device.tensor["padding_bytes_per_us"]


def _starts_on_lines(region: Region, kernel: Contraction, read: object, sizes: Mapping[str, int]) -> bool:
    """Whether every row of the operand in memory begins a line of the cache."""
    view = view_of(region, read.tensor, read.index, kernel)
    return not isinstance(view, View) or len(view.dims) < 2 or math.gcd(view.dims[-1].size.evaluate(sizes) * read.dtype.bytes, LINE_BYTES) == LINE_BYTES
