"""The cost of a flash kernel: products and exponentials of the blocks that its masks touch, on whole SMs."""

from __future__ import annotations

import math

from ...ir.plan import Plan
from ...ir.traits import extent_of
from ...target.device import longer_of
from ..attention.ahead import load_clocks
from ..family import Clocks, Conditions, Problem
from ..parts.drawn import is_drawn
from ..parts.touched import walked_share
from .declare import sizes_of, tiles_of
from .legal import LEAST_STAGES
from .match import flash_of

TILE_ELEMENTS = 64  # of a tensor that scores meet, which an SM takes from shared memory and adds in a clock
OF_TILES = 1.12  # times as long where three warpgroups read tiles of what scores meet, and rings have two slots or one
TWO_SLOTS = 1.03  # times as long where three have rings of two for keys and values
PRODUCTS = 4096  # operations of 16-bit factors that an SM's tensor cores do in a clock
EXPONENTIALS = 16  # of an SM in a clock
BLOCK_CLOCKS = 150  # of each block: barriers, shuffles, the first exponential
CHAIN_CLOCKS = {1: 250, 2: 0, 3: 0}  # of it beside, where warpgroups wait for memory: one alone hides nothing of it
TILE_CLOCKS = 1500  # of each tile: the first scores, the last values, the way out
END_CLOCKS = 400  # of each tile of an SM whose CTAs hide one another's ends
NEXT_CLOCKS = 4500  # until a CTA that takes the place of another has its first block
FEW = 2  # tiles of a CTA that walks over them: of few the longest is beside others that are long
BROAD = 144  # columns of a block; beyond them registers leave less room to hide waits
WIDE = 0.0035  # of a block's clocks, for each column more
SM_BYTES_PER_US = 4.5e4  # that one SM fetches
NEAR = 0.6  # of the time of computing: less of memory does not show
ALONE = 0.015  # of the memory's time more, where an SM has one CTA alone
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
    all_blocks = -(-length // tile.columns)
    blocks = all_blocks * share or 1.0  # a window through which no row sees costs a block all the same
    narrow = max(1.0, (16 + tile.columns / 4) / (tile.columns / 2))  # operands from shared memory
    products = 2 * tile.rows * tile.columns * (tile.depth * narrow + tile.width) / PRODUCTS
    weights = tile.rows * tile.columns / EXPONENTIALS
    tiles = tiles_of(plan, kernel)
    loads = load_clocks(kernel, plan, tile.rows * tile.columns, [read for read, _ in tiles])
    loads += len(tiles) * tile.rows * tile.columns / TILE_ELEMENTS
    wide = 1 + WIDE * max(0, tile.columns - BROAD)
    if count == max(BESIDE) and plan.stages == LEAST_STAGES:
        wide *= OF_TILES if tiles else TWO_SLOTS
    block = (products + weights * BESIDE[count] + loads + BLOCK_CLOCKS) * wide
    mine = max(walks / device.sms, 1.0)
    is_uneven = blocks * tile.columns < length
    most = all_blocks if is_uneven else blocks
    if plan.persistent:
        waves = mine + (0.5 if is_uneven else -(-walks // device.sms) - mine)
        if is_uneven and mine <= FEW and not is_drawn(plan):
            waves = max(waves, _blocks_together(mine, most, True) / blocks)
        clocks = waves * (blocks * block + TILE_CLOCKS)
    elif at.occupancy >= mine:  # all CTAs at once: those of an SM keep its units busy together
        shared = (products + weights + loads + BLOCK_CLOCKS / 2) * wide
        together = _blocks_together(mine, most, is_uneven) * shared + math.ceil(mine) * END_CLOCKS
        clocks = longer_of(most * block + TILE_CLOCKS, together, SHARPNESS)
    else:
        balanced = mine * (blocks * block + TILE_CLOCKS) + (mine - 1) * NEXT_CLOCKS
        clocks = longer_of(most * block + TILE_CLOCKS, balanced, SHARPNESS)
    of_tiles = tile.rows * sum(read.dtype.bytes for read, _ in tiles)
    fetched = walks * (blocks * tile.columns * (2 * (tile.deep + tile.wide) + of_tiles) + 2 * tile.rows * tile.deep)
    compute = clocks / device.clock_ghz / 1e3
    memory = max(
        fetched / device.l2_bytes_per_us,
        at.work.bytes / device.dram_bytes_per_us,
        fetched / min(max(walks, 1), device.sms) / SM_BYTES_PER_US,
    )
    parts = {"compute": compute, "memory": memory}
    if memory > NEAR * compute:
        first = chain = 0.0  # the first block, which all products wait for
        height = flash.height.evaluate(sizes)
        if height <= tile.rows and length >= MANY * height:  # few queries: columns are read once, from memory
            beside = 1 if plan.persistent else at.occupancy  # CTAs of an SM hide one another's waits
            first = tile.columns * (tile.deep + tile.wide) * 2 / SM_BYTES_PER_US + ALONE * memory * (beside == 1)
            chain = clocks / block * CHAIN_CLOCKS[count] / beside / device.clock_ghz / 1e3
        parts[max(parts, key=parts.__getitem__)] = longer_of(compute + chain, memory, SHARPNESS) + first
    return Clocks(parts, device.tensor["start_us"] if device.tensor else None)


def _blocks_together(mine: float, most: float, is_uneven: bool) -> float:
    """Blocks of the SM that has the most, where it has every tile that is a whole card's SMs behind the one before: of
    `mine` tiles the longest, of `most` blocks, come first where they are `uneven`."""
    count = math.ceil(mine)
    return most * (count - (count * (count - 1) / (2 * mine) if is_uneven else 0))
