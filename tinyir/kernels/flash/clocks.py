"""The cost of a flash kernel: products and exponentials of the blocks that its masks touch, on whole SMs."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.device import longer_of
from ..attention.ahead import load_clocks
from ..family import Clocks, Conditions, Problem
from ..parts.touched import walked_share
from .declare import sizes_of, tiles_of
from .match import flash_of

TILE_ELEMENTS = 32  # of a tensor that scores meet, which an SM takes from shared memory and adds in a clock
PRODUCTS = 4096  # operations of 16-bit factors that an SM's tensor cores do in a clock
EXPONENTIALS = 16  # of an SM in a clock
BLOCK_CLOCKS = 150  # of each block: barriers, shuffles, the first exponential
CHAIN_CLOCKS = {1: 250, 2: 0, 3: 0}  # of it beside, where warpgroups wait for memory: one alone hides nothing of it
TILE_CLOCKS = 1500  # of each tile: the first scores, the last values, the way out
SM_BYTES_PER_US = 4.5e4  # that one SM fetches
NEAR = 0.6  # of the time of computing: less of memory does not show
MANY = 4  # times as many columns as rows
SHARPNESS = 8.0  # how sharply the longer of computing and memory rules the whole
BESIDE = {1: 1.15, 2: 1.0, 3: 0.96}  # how much of the exponentials' time stays beside the products, by warpgroups


def flash_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what binds. Exponentials run beside products only in part: measured on an H200, a block takes
    about the sum of both."""
    kernel, sizes, device = problem.kernel, at.sizes, at.device
    tile, count = sizes_of(plan, kernel), plan.consumers.count
    flash, length = flash_of(kernel), kernel.column.size.evaluate(sizes)
    walks = -(-flash.height.evaluate(sizes) // tile.rows) * extent_of(flash.outer).evaluate(sizes)
    share = walked_share(problem.region, kernel, (tile.rows, tile.columns), sizes)
    blocks = -(-length // tile.columns) * share
    narrow = max(1.0, (16 + tile.columns / 4) / (tile.columns / 2))  # operands from shared memory
    products = 2 * tile.rows * tile.columns * (tile.depth * narrow + tile.width) / PRODUCTS
    weights = tile.rows * tile.columns / EXPONENTIALS * BESIDE[count]
    tiles = tiles_of(plan, kernel)
    loads = load_clocks(kernel, plan, tile.rows * tile.columns, [read for read, _ in tiles])
    loads += len(tiles) * tile.rows * tile.columns / TILE_ELEMENTS
    one = blocks * (products + weights + loads + BLOCK_CLOCKS) + TILE_CLOCKS
    mine = max(walks / device.sms, 1.0)
    waves = mine + (0.5 if blocks * tile.columns < length else -(-walks // device.sms) - mine)
    of_block = tile.columns * (tile.deep + tile.wide + len(tiles) * tile.rows)
    fetched = walks * (blocks * of_block + tile.rows * tile.deep) * 2
    compute = waves * one / device.clock_ghz / 1e3
    memory = max(
        fetched / device.l2_bytes_per_us,
        at.work.bytes / device.dram_bytes_per_us,
        fetched / min(max(walks, 1), device.sms) / SM_BYTES_PER_US,
    )
    parts = {"compute": compute, "memory": memory}
    if memory > NEAR * compute:
        first = chain = 0.0
        height = flash.height.evaluate(sizes)
        if height <= tile.rows and length >= MANY * height:  # few queries: columns are read once, from memory
            first = tile.columns * (tile.deep + tile.wide) * 2 / SM_BYTES_PER_US  # which all products wait for
            chain = waves * blocks * CHAIN_CLOCKS[count] / device.clock_ghz / 1e3
        parts[max(parts, key=parts.__getitem__)] = longer_of(compute + chain, memory, SHARPNESS) + first
    return Clocks(parts, device.tensor["start_us"] if device.tensor else None)


__all__ = ["flash_clocks"]
