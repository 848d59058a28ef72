"""The direct plans that are worth pricing: blocks that registers hold, in CTAs that cover lines of memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.plan import Async, Cache, Plan
from ...ir.region import Region
from ...ir.traits import extent_of, sizes_of
from ...kit.records import replace
from ...target.device import Device
from ..candidate import over_registers
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..windowed import Windowed
from .block import (
    MOST_ROW,
    Block,
    accesses_of,
    is_ahead,
    is_staged,
    is_walked,
    is_written_out,
    slots_of,
    threads_along,
    wide_of,
)
from .declare import accumulators, declare, held, kept
from .fields import along, binds, cached, is_whole, loads

ROWS, COLUMNS = (1, 2, 4, 7), (1, 2, 4, 7, 8, 14, 16)
THREADS = (128, 256)
Counts = tuple[int, int, int]
PARTS = (1, 2, 4, 8)  # of the rows, of which a thread walks down one
CHANNELS, MORE = (64, 32), (80, 48)  # of walks down rows that come ahead: of a tile, and where no such number is,
ABREAST = (1, 2, 4)  # threads along its columns,
STAGES = 4  # rows in shared memory,
LEAST_THREADS, MOST_THREADS = 32, 128  # threads,
LEAST_COLUMNS, MOST_REGISTERS = 4, 168  # and of each of these, three warps of which fit a scheduler
MOST_RESULTS = 128  # of a thread, of all folds
LINE_BYTES = 128
MOST_DEEP = 64  # threads along z


def space(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Blocks of a few rows and columns, in one access or fewer elements each, by threads in the order of memory; and
    lines of a tile that threads walk down."""
    kernel, region = problem.kernel, problem.region
    sizes = sizes_of(problem.model)
    extents = tuple(max(1, extent_of(axes).evaluate(sizes)) for axes in kernel.groups)
    for wide in wide_of(region, kernel):
        held = [(micro, ()) for micro in _blocks(kernel, extents, wide)]
        walked = [(m, cached(kernel)) for m in _walks(kernel, extents, wide)] if is_walked(kernel) else []
        if is_staged(region, kernel):
            yield from _ahead(problem, card, extents, wide)
        for micro, cache in held + walked:
            access = wide if kernel.is_across else accesses_of(region, kernel, micro[1])[0]
            counts = tuple(-(-extent // size) for extent, size in zip(extents, micro))
            for most in THREADS:
                threads = (
                    _across(region, counts, wide, most) if kernel.is_across else _along(counts, most, bool(kernel.rows))
                )
                yield _proposal(problem, card, micro, threads, access, cache)


def _blocks(kernel: Windowed, extents: Counts, wide: int) -> Iterator[Counts]:
    """What a thread computes at once."""
    for high, long in itertools.product(ROWS if kernel.rows else (1,), COLUMNS):
        if high <= extents[0] and long <= extents[1] and high * long * wide * len(kernel.folds) <= MOST_RESULTS:
            yield high, long, wide


def _ahead(problem: Problem, card: Device, extents: Counts, wide: int) -> Iterator[Proposal]:
    """Walks down rows that come ahead, of tiles that are whole."""
    kernel = problem.kernel
    fitting = [count for count in CHANNELS if extents[2] % count == 0] or [n for n in MORE if extents[2] % n == 0][:1]
    for micro, channels, y in itertools.product(_walks(kernel, extents, wide), fitting, ABREAST):
        plan = _plan(problem, card, micro, (channels // wide, y, 1), wide, cached(kernel, "smem"))
        plan = replace(plan, stages=STAGES, load=loads(kernel), asynchrony=Async(STAGES - 1), barrier="cp_async_group")
        is_worth = micro[1] >= LEAST_COLUMNS and LEAST_THREADS <= channels // wide * y <= MOST_THREADS
        if is_worth and is_whole(plan, kernel) and declare(plan, problem).registers <= MOST_REGISTERS:
            yield _judged(plan, problem, card)


def _walks(kernel: Windowed, extents: Counts, wide: int) -> Iterator[Counts]:
    """What a thread computes row after row: all rows, or equal parts that are longer than what is read before the first
    row is whole. Walks whose first turns are not written out take longer than blocks."""
    slots = slots_of(kernel)
    lengths = {-(-extents[0] // parts) for parts in PARTS}
    for high, long in itertools.product(sorted(n for n in lengths if n > slots), COLUMNS):
        is_held = slots * long * wide <= MOST_RESULTS and is_written_out(kernel, long * wide)
        if long <= extents[1] and is_held:
            yield high, long, wide


def _across(region: Region, counts: Counts, wide: int, most: int) -> Counts:
    """Threads along planes, columns and rows: a line of planes, then what is left of a CTA along the columns, then
    along the rows."""
    size = max(1, min(t.type.dtype.bytes for t in region.outputs))
    x = min(counts[2], max(1, LINE_BYTES // (wide * size)))
    y = min(counts[1], max(1, most // x))
    return x, y, min(counts[0], max(1, most // (x * y)), MOST_DEEP)


def _along(counts: Counts, most: int, has_rows: bool) -> Counts:
    """Threads along columns, rows and planes: all of a row, of a plane, then planes."""
    x = min(counts[1], most)
    y = min(counts[0], max(1, most // x)) if has_rows else 1
    return x, y, min(counts[2], max(1, most // (x * y)), MOST_DEEP)


def _proposal(
    problem: Problem, card: Device, micro: Counts, threads: Counts, width: int, cache: tuple[Cache, ...]
) -> Proposal:
    return _judged(_plan(problem, card, micro, threads, width, cache), problem, card)


def _plan(problem: Problem, card: Device, micro: Counts, threads: Counts, width: int, cache: tuple[Cache, ...]) -> Plan:
    kernel: Windowed = problem.kernel
    tile = tuple(m * count for m, count in zip(micro, threads_along(threads, kernel)))
    guarded = {name for axes, size in zip(kernel.groups, tile) for name in guarded_axes(axes, size)}
    return Plan(
        (problem.region.name,),
        card.arch.name,
        "window",
        "direct",
        tile,
        micro=micro,
        threads=threads,
        bind=binds(kernel),
        cache=cache,
        vectorize=along(kernel, width),
        predicate=tuple(a.name for a in kernel.axes if a.name in guarded),
    )


def _judged(plan: Plan, problem: Problem, card: Device) -> Proposal:
    block = Block.of(plan, problem.kernel)
    row = held(block)
    rows = row if is_ahead(plan) else 2 * row
    taken = accumulators(block) + (rows + kept(block) if plan.cache else row)
    stop = over_registers(taken, card)
    return Proposal(plan, stop or (over_registers(2 * row, card) if row > MOST_ROW else ""))
