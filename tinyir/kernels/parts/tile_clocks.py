"""What the tiles of a contraction take from memory, and from tensor cores of which no timings are known."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...kit.numbers import Number, least, most
from ..family import Clocks, Conditions, Problem
from ..problem import Contraction

UNIT = {"bf16": "bf16", "fp32": "tf32", "fp8e4m3": "fp8", "fp8e5m2": "fp8", "i8": "i8", "u8": "i8"}


def roofline(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Tensor cores whose loads are hidden, on a card for which nothing was measured: whole tiles on whole SMs at the
    share of the peak that the instruction reaches; a multicast tile is fetched once a cluster."""
    kernel, device, sizes = problem.kernel, at.device, at.sizes
    rows, columns, depth = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    bm, bn, bk = plan.tile
    tiles = -(-rows // bm) * -(-columns // bn) * extent_of(kernel.batch).evaluate(sizes)
    mine = -(-tiles // device.sms)
    peak = (
        device.peak[f"mma_{UNIT.get(kernel.lhs.dtype.name, 'fp16')}"]
        * device.reached["wgmma" if plan.consumers else "mma_sync"]
    )
    one = 2 * bm * bn * -(-depth // bk) * bk / (peak / device.sms * 1e6)
    down, across = (*plan.cluster.shape, 1)[:2] if plan.cluster else (1, 1)
    multicast = plan.cluster.multicast if plan.cluster else ()
    left, right = (
        side * read.dtype.bytes / (sharers if read.tensor in multicast else 1)
        for side, read, sharers in ((bm, kernel.lhs, across), (bn, kernel.rhs, down))
    )
    traffic = tiles * -(-depth // bk) * bk * (left + right)
    fetched = dram_bytes(plan, kernel, at, tiles, least(at.occupancy, mine))
    memory = most(traffic / device.l2_bytes_per_us, fetched / device.dram_bytes_per_us)
    return Clocks({"compute": mine * one, "memory": memory})


def dram_bytes(plan: Plan, kernel: Contraction, at: Conditions, tiles: Number, resident: Number) -> Number:
    """Bytes from memory: everything once, or what each wave of tiles reads anew when the operands do not stay in L2."""
    sizes, device, moved = at.sizes, at.device, at.work.bytes
    rows, columns, depth = (float(extent_of(g).evaluate(sizes)) for g in kernel.groups)
    batch = extent_of(kernel.batch).evaluate(sizes)
    operands = batch * depth * (rows * kernel.lhs.dtype.bytes + columns * kernel.rhs.dtype.bytes)
    if operands <= device.l2_useful_bytes:
        return moved
    bm, bn, _ = plan.tile
    across = -(-columns // bn)
    wave = least(tiles, device.sms * resident)
    down = -(-wave // across)
    one_wave = depth * (
        least(down * bm, rows) * kernel.lhs.dtype.bytes + least(wave * bn, columns) * kernel.rhs.dtype.bytes
    )
    return most(moved, one_wave * -(-tiles // wave))


__all__ = ["dram_bytes", "roofline"]
