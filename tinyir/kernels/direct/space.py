"""The direct plans that are worth pricing: blocks that registers hold, in CTAs that cover lines of memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of, sizes_of
from ...target.device import Device
from ..candidate import over_registers
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..windowed import Windowed
from .block import MOST_ROW, Block, accesses_of, wide_of
from .declare import declare
from .fields import along, binds

ROWS, COLUMNS = (1, 2, 4, 7), (1, 2, 4, 7, 8, 14, 16)
THREADS = (128, 256)
MOST_RESULTS = 128  # of a thread, of all folds
LINE_BYTES = 128
MOST_DEEP = 64  # threads along z


def space(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Blocks of a few rows and columns, in one access or fewer elements each, by threads in the order of memory."""
    kernel, region = problem.kernel, problem.region
    sizes = sizes_of(problem.model)
    rows, columns, planes = (max(1, extent_of(axes).evaluate(sizes)) for axes in kernel.groups)
    for wide in wide_of(region, kernel):
        for high, long in itertools.product(ROWS if kernel.rows else (1,), COLUMNS):
            results = high * long * wide * len(kernel.folds)
            if high > rows or long > columns or results > MOST_RESULTS:
                continue
            access = accesses_of(region, kernel, long)[0]
            for most in THREADS:
                counts = (-(-rows // high), -(-columns // long), -(-planes // wide))
                threads = (
                    _across(region, counts, wide, most) if kernel.is_across else _along(counts, most, bool(kernel.rows))
                )
                yield _proposal(problem, card, (high, long, wide), threads, wide if kernel.is_across else access)


def _across(region: Region, counts: tuple[int, int, int], wide: int, most: int) -> tuple[int, int, int]:
    """Threads along planes, columns and rows: a line of planes, then what is left of a CTA along the columns, then
    along the rows."""
    size = max(1, min(t.type.dtype.bytes for t in region.outputs))
    x = min(counts[2], max(1, LINE_BYTES // (wide * size)))
    y = min(counts[1], max(1, most // x))
    return x, y, min(counts[0], max(1, most // (x * y)), MOST_DEEP)


def _along(counts: tuple[int, int, int], most: int, has_rows: bool) -> tuple[int, int, int]:
    """Threads along columns, rows and planes: all of a row, of a plane, then planes."""
    x = min(counts[1], most)
    y = min(counts[0], max(1, most // x)) if has_rows else 1
    return x, y, min(counts[2], max(1, most // (x * y)), MOST_DEEP)


def _proposal(
    problem: Problem, card: Device, micro: tuple[int, int, int], threads: tuple[int, int, int], width: int
) -> Proposal:
    kernel: Windowed = problem.kernel
    order = (2, 1, 0) if kernel.is_across else (1, 0, 2)  # which of rows, columns, planes are along x, y, z
    tile = tuple(m * threads[order.index(n)] for n, m in enumerate(micro))
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
        vectorize=along(kernel, width),
        predicate=tuple(a.name for a in kernel.axes if a.name in guarded),
    )
    block = Block.of(plan, kernel)
    held = max(sum(block.held(i) for i in f.images) for f in kernel.folds)
    needs = declare(plan, problem)
    stop = over_registers(needs.accumulators + held, card)
    return Proposal(plan, stop or (over_registers(2 * held, card) if held > MOST_ROW else ""))


__all__ = ["space"]
