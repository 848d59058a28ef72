"""The cost of attention by warps: products and exponentials of the blocks that its masks touch, on whole SMs."""

from __future__ import annotations

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.device import longer_of
from ..attention.ahead import load_clocks
from ..family import Clocks, Conditions, Problem
from ..parts.touched import walked_share
from ..resources import threads_of
from .declare import sizes_of
from .match import factors_of

EXPONENTIALS = 16  # of an SM in a clock
BESIDE = 0.9  # how much of the exponentials' time stays beside the products
BLOCK_CLOCKS = 220  # of each block of a CTA: its barrier, the copies' addresses
CHAIN_CLOCKS = 1100  # of a block of one warp whose SM has no other: fragments, shuffles, the first products
TILE_CLOCKS = 1800  # of each tile: the query, the first key, the way out
SHARED_BYTES = 128  # a clock, of an SM
SHARPNESS = 2.0
COPIED = 30.0  # warp instructions for 32 elements that are copied one by one


def warps_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """Microseconds by what binds. Not fitted: the rate of products is the instruction's, shared memory's that of its
    reads by fragments; CTAs that share an SM hide one another's waits."""
    kernel, sizes, device = problem.kernel, at.sizes, at.device
    tile, warps = sizes_of(plan, kernel), threads_of(plan) // 32
    height, length = (a.size.evaluate(sizes) for a in (kernel.row, kernel.column))
    tiles = -(-height // tile.rows) * extent_of(kernel.outer).evaluate(sizes)
    share = walked_share(problem.region, kernel, (tile.rows, tile.columns), sizes)
    blocks = -(-length // tile.columns) * share
    unit = kernel.query.dtype.name
    rate = device.peak[f"mma_{unit}"] * device.reached["mma_sync"] / device.sms * 1e3 / device.clock_ghz
    products = 2 * tile.rows * tile.columns * (tile.depth + tile.width) / rate
    fragments = warps * (plan.warp_tile[0] * tile.depth + tile.columns * (tile.depth + tile.width)) * 2 / SHARED_BYTES
    weights = tile.rows * tile.columns / EXPONENTIALS * BESIDE
    single = sum(tile.columns * extent_of(f.across).constant for f in factors_of(kernel)[1:] if not f.width)
    copies = single * COPIED / 32 / device.arch.schedulers
    loads = load_clocks(kernel, plan, tile.rows * tile.columns)
    one = blocks * (max(products, fragments) + weights + copies + loads + BLOCK_CLOCKS) + TILE_CLOCKS
    alone = blocks * CHAIN_CLOCKS + (products + weights) * blocks * 4 / min(4, warps)
    mine = max(tiles / device.sms, 1.0)
    is_uneven = blocks * tile.columns < length
    mine = mine + 0.5 if is_uneven else float(-(-tiles // device.sms))
    resident = max(1.0, min(at.occupancy, mine))
    clocks = mine / resident * longer_of(resident * one, alone, SHARPNESS)
    fetched = tiles * (blocks * tile.columns * (tile.deep + tile.wide) + tile.rows * tile.deep) * 2
    parts = {
        "compute": clocks / device.clock_ghz / 1e3,
        "memory": max(fetched / device.l2_bytes_per_us, at.work.bytes / device.dram_bytes_per_us),
    }
    return Clocks(parts, device.tensor["start_us"] if device.tensor else None)
