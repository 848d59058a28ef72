"""The direct plans that are worth pricing: blocks that registers hold, in CTAs that cover lines of memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.plan import Cache, Plan
from ...ir.region import Region
from ...ir.traits import extent_of, sizes_of
from ...target.device import Device
from ..candidate import over_registers
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..windowed import Windowed
from .block import MOST_ROW, Block, accesses_of, is_walked, is_written_out, slots_of, threads_along, wide_of
from .declare import declare, held, kept
from .fields import along, binds, cached

ROWS, COLUMNS = (1, 2, 4, 7), (1, 2, 4, 7, 8, 14, 16)
THREADS = (128, 256)
Counts = tuple[int, int, int]
PARTS = (1, 2, 4, 8)  # of the rows, of which a thread walks down one
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
        walked = [(micro, cached(kernel)) for micro in _walks(kernel, extents, wide)]
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


def _walks(kernel: Windowed, extents: Counts, wide: int) -> Iterator[Counts]:
    """What a thread computes row after row: all rows, or equal parts that are longer than what is read before the first
    row is whole. Walks whose first turns are not written out take longer than blocks."""
    if not is_walked(kernel):
        return
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
    kernel: Windowed = problem.kernel
    tile = tuple(m * count for m, count in zip(micro, threads_along(threads, kernel)))
    guarded = {name for axes, size in zip(kernel.groups, tile) for name in guarded_axes(axes, size)}
    plan = Plan(
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
    block = Block.of(plan, kernel)
    row = held(block)
    taken = declare(plan, problem).accumulators + (2 * row + kept(block) if cache else row)
    stop = over_registers(taken, card)
    return Proposal(plan, stop or (over_registers(2 * row, card) if row > MOST_ROW else ""))


__all__ = ["space"]
