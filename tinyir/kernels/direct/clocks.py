"""The cost of a direct kernel: instructions of the folds and of what brings the rows, lines from the L1 cache, and the
bytes with the halos that neighbouring CTAs fetch again.

Fitted to 118 timings on an H200, 5 or 6 plans each of 24 problems: off by 28 % (root mean square of the logarithm);
walks to 48 of 6 problems, off by 19 %, of rows that come ahead to 65 of 6, off by 12 %.
"""

from __future__ import annotations

import functools
import math

from ...ir.body import Binary, Read, Ternary, Unary, walk
from ...ir.expr import Expr
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.rules import product
from ...ir.runs import offset_of
from ...ir.traits import extent_of, nearest
from ...target.device import longer_of
from ..family import Clocks, Conditions, Problem
from ..parts.boxes import LINE_BYTES
from ..windowed import Fold, Image
from .block import Block, beside_of, is_one_access, names_of, store_width
from .declare import Rows, rows_of

ACCESS_ISSUE = 4.4  # warp instructions of an access beside what it converts: place, guard, fill
TURN_ISSUE = 16  # of a turn whose row came to shared memory: that it has come, and that all have read the last one,
COPY_ISSUE = 23  # and for a copy of another row
ELEMENT_ISSUE = 0.9  # of an element that it brings
STORE_ISSUE = 20  # of what leaves at once: values, conversions, place, guard
STORE_LINES = 4  # what a line that is written takes of the L1 cache, in lines read
FOLD_ISSUE = {"max": 2.5, "min": 2.5}  # of one element; a sum takes one
APART_LINES = 16  # that a warp asks for where neighbouring threads read far apart
WARP = 32
START_US = 5.1  # of a kernel in a graph: launch, first loads, last store
CHAIN_CLOCKS = 100  # of a thread that waits for nothing but itself, before its rows,
ROW_CLOCKS = 67  # for a row,
ISSUE_CLOCKS = 4.7  # and for an instruction,
BESIDE_ISSUE = 3.6  # of a fold over several channels, whose turns overlap;
WALKED_SHARE = 0.81  # of the instructions that could be issued: of a walk, whose loop is long
AHEAD_SHARE = 1.18  # where its rows come ahead, with the clock that the card runs such loops at;
WALKED_CLOCKS = 21  # of a walk, whose next row is on its way,
WALKED_ISSUE = 0.67  # and whose sums are many
WAITING = 0.73  # share of the time of memory that goes by unused with one warp of 16 bytes a thread on each scheduler
WALKED_WAITING = 1.2  # the same of a walk
SHARPNESS = 3.0  # how sharply the longest of all rules the time


def clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """What a launch takes by what may bound it; they overlap, so that the longest is taken."""
    kernel, region, device, sizes = problem.kernel, problem.region, at.device, at.sizes
    block = Block.of(plan, kernel)
    ctas = math.prod(
        -(-extent_of(axes).evaluate(sizes) // tile) for axes, tile in zip(kernel.groups, plan.tile)
    ) * extent_of(kernel.batch).evaluate(sizes)
    warps = -(-math.prod(plan.threads) // device.arch.warp)
    mine = -(-ctas // device.sms)
    resident = max(1, min(at.occupancy, mine))
    us = 1 / device.clock_ghz / 1e3
    width = block.wide if kernel.is_across else store_width(region, kernel, block.columns)
    results = block.results * block.walk
    ahead = rows_of(plan, kernel)
    issue = STORE_ISSUE * results / width + sum(_issued(block, f, region, ahead) for f in kernel.folds)
    if ahead is not None:
        copies = math.prod(ahead.array.shape) * ahead.array.dtype.bytes / ACCESS_BYTES
        issue += block.image_rows(kernel.folds[0].images[0]) * (
            TURN_ISSUE + COPY_ISSUE * -(-copies // math.prod(plan.threads))
        )
    lines = STORE_LINES * _lines_stored(plan, block, region, width) + sum(
        _lines(plan, block, f, region) for f in kernel.folds
    )
    turns = sum(block.image_rows(f.images[0]) * extent_of(f.beside).evaluate(sizes) for f in kernel.folds)
    access = max(block.of_access(i) * i.read.dtype.bytes for f in kernel.folds for i in f.images)
    halo = sum(
        product(region.tensor(i.read.tensor).type.shape).evaluate(sizes) * i.read.dtype.bytes * (_halo(plan, i) - 1)
        for f in kernel.folds
        for i in f.images
    )
    through = (at.work.bytes + halo) / device.l2_bytes_per_us * device.sms * mine / max(ctas, 1)
    on_a_scheduler = resident * warps / device.arch.schedulers * access / 16
    share = 1.0 if block.walk == 1 else WALKED_SHARE if ahead is None else AHEAD_SHARE
    waiting = WAITING if block.walk == 1 else WALKED_WAITING if ahead is None else 0.0
    parts = {
        "memory": longer_of(at.work.bytes / device.dram_bytes_per_us, through, SHARPNESS)
        * (1 + waiting / on_a_scheduler),
        "compute": us * mine * warps * issue / device.arch.schedulers / share,
        "cached": us * mine * warps * lines,
        "latency": us * mine / resident * _alone(block, turns, issue),
    }
    joined = sum(part**SHARPNESS for part in parts.values()) ** (1 / SHARPNESS)
    longest = max(parts, key=lambda part: parts[part])
    told = "compute" if longest == "cached" else longest
    found = {part: parts[part] for part in ("memory", "compute", "latency")}
    return Clocks({**found, told: joined}, START_US)


def _alone(block: Block, turns: int, issue: float) -> float:
    """Clocks of a thread that waits for nothing but itself."""
    if block.walk > 1:
        return CHAIN_CLOCKS + WALKED_CLOCKS * turns + WALKED_ISSUE * issue
    each = BESIDE_ISSUE if any(_turns(f) > 1 for f in block.kernel.folds) else ISSUE_CLOCKS
    return CHAIN_CLOCKS + ROW_CLOCKS * turns + each * issue


def _lines_stored(plan: Plan, block: Block, region: Region, width: int) -> float:
    """Lines that a warp writes for the results of its threads."""
    size = max(t.type.dtype.bytes for t in region.outputs)
    return (
        block.results
        * block.walk
        / width
        * _lines_of_warp(plan, block, block.wide if block.kernel.is_across else block.columns, size)
    )


def _lines_of_warp(plan: Plan, block: Block, apart: int, size: int) -> float:
    """Lines of an access of a warp whose neighbouring threads are as many elements apart; where channels are innermost,
    threads along other axes are on other lines."""
    if not block.kernel.is_across:
        return max(1.0, min(WARP, WARP * apart * size / LINE_BYTES))
    beside = min(WARP, plan.threads[0])
    return WARP / beside * max(1.0, beside * apart * size / LINE_BYTES)


def _turns(fold: Fold) -> int:
    """How often a fold walks over its rows: for each element of the axes beside the taps."""
    return extent_of(fold.beside).constant or 1


def _pairs(block: Block, fold: Fold) -> int:
    """Rows of results that take a row of an image, over all its rows."""
    rows = fold.images[0].rows
    if block.walk > 1:
        return block.walk * rows.taps
    return block.rows * (rows.taps if rows else 1) * _turns(fold)


def _factors(block: Block, fold: Fold) -> int:
    """How often the factors of a tap are fetched: for each row of results, of a walk once, and once in each turn of
    rows that are written out (of one turn the fitted costs have it)."""
    taps, rows = fold.images[0].columns.taps, fold.images[0].rows
    if block.walk == 1 and block.is_written and _turns(fold) > 1:
        return taps * (rows.taps if rows else 1) * _turns(fold)
    return taps * (rows.taps if block.walk > 1 else _pairs(block, fold))


def _issued(block: Block, fold: Fold, region: Region, ahead: Rows | None) -> float:
    """Warp instructions of a thread's fold."""
    taps = fold.images[0].columns.taps
    work = _work_of(fold)
    along, pairs = block.columns * block.wide, _pairs(block, fold)
    found = pairs * taps * along * work + _factors(block, fold) * _beside_issued(block, fold, region)
    if fold.is_of_elements and block.slots > 1:
        found = along * work * (block.image_rows(fold.images[0]) * taps * _turns(fold) + pairs)
    for image in fold.images:
        accesses = block.image_rows(image) * block.loads(image) * _turns(fold)
        found += accesses * ((ACCESS_ISSUE if ahead is None else 1) + ELEMENT_ISSUE * block.of_access(image))
    return found


@functools.lru_cache(maxsize=4096)
def _work_of(fold: Fold) -> float:
    """Instructions for one element of a fold: a product and its sum are one."""
    work = sum(isinstance(n, (Unary, Binary, Ternary)) for n in walk(fold.reduce.body))
    return max(1, work) * FOLD_ISSUE.get(fold.reduce.op, 1.0)


def _beside_issued(block: Block, fold: Fold, region: Region) -> float:
    """Instructions that bring the factors of a tap."""
    found = 0.0
    for read in beside_of(fold):
        is_wide, is_whole = _in_neighbours(block, read, region)
        found += (1 if is_whole else 2 * block.wide) + block.wide if is_wide else 2
    return found


def _in_neighbours(block: Block, read: Read, region: Region) -> tuple[bool, bool]:
    """Whether a factor is another one for each neighbour of a thread, and whether these are one access."""
    name = block.along
    is_wide = name in names_of(read)
    return is_wide, is_wide and is_one_access(region, read, name, block.wide)


def _lines(plan: Plan, block: Block, fold: Fold, region: Region) -> float:
    """Lines of the L1 cache that a warp asks for in a fold, one a clock."""
    found = 0.0
    for read in beside_of(fold):
        is_wide, is_whole = _in_neighbours(block, read, region)
        is_apart = block.kernel.is_across and region.iters[-1].name not in nearest(read.index)
        each = block.wide * read.dtype.bytes / 4 if is_whole else APART_LINES * block.wide if is_apart else 1.0
        found += _factors(block, fold) * max(1.0, each)
    for image in fold.images:
        each = _lines_of_warp(plan, block, _apart(block, image, region), image.read.dtype.bytes)
        found += block.image_rows(image) * block.loads(image) * _turns(fold) * each
    return found


def _apart(block: Block, image: Image, region: Region) -> int:
    """Elements of the image's memory from what a thread reads to what its neighbour does; where they are in another
    order than the results, a line or more."""
    kernel = block.kernel
    axis, count = (kernel.planes[-1], block.wide) if kernel.is_across else (kernel.columns[0], block.columns)
    apart = _apart_along(region.tensor(image.read.tensor).type.shape, image.read.index, axis.name)
    return LINE_BYTES if apart is None else apart * count


@functools.lru_cache(maxsize=4096)
def _apart_along(shape: tuple[Expr, ...], index: tuple[Expr, ...], axis: str) -> int | None:
    """Elements of memory from one place to the next along an axis; None where they are not equally far apart."""
    terms = [(factor, names) for factor, names in offset_of(shape, index).terms if axis in names]
    return sum(factor for factor, _ in terms) if all(names == (axis,) for _, names in terms) else None


def _halo(plan: Plan, image: Image) -> float:
    """How many times a CTA fetches what it computes results of, for the windows' reach."""
    found = 1.0
    for slide, tile in ((image.rows, plan.tile[0]), (image.columns, plan.tile[1])):
        if slide is not None:
            found *= max(1.0, slide.places(tile) / (slide.step * tile))
    return found
