"""What the work on scores reads of tensors, and may read before the scores are there: while the products run.

    sc[r, n] = add(sc[r, n], cast(bias[i2, i3]))   →   each r, n of ahead   ahead[r, n] = bias[i2, i3]
                                                       wait for the scores
                                                       sc[r, n] = add(sc[r, n], cast(ahead[r, n]))

Only reads of 16 bits whose neighbours along the columns are neighbours in memory: registers hold them as those
of a left operand, two in a word, and two are read at once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Mapping

from ...ir.body import Axis, Body, Gather, Read, Reduce, Ref, Scan, Scatter, Select, operands_of, rebuild
from ...ir.expr import Bound
from ...ir.model import Model
from ...ir.plan import Plan
from ...ir.runs import offset_of
from ...ir.traits import axes_of
from ..candidate import holds_everywhere
from ..parts.boxes import multiple_of
from ..parts.point import needed
from .match import Streaming
from .score import score_of

PAIR = 2  # neighbours that are read at once
BYTES = 2  # of an element
LANES, LINES = 32, 8  # of a read by a warp: elements or pairs of them, and rows of a fragment that these are of
ALONE = 0.85  # of the lines of reads one by one that show: two are of one line, and come together
MOST = 2  # tensors: each takes as many registers as weights do


def reads_ahead(kernel: Streaming) -> tuple[Read, ...]:
    """The reads, in the order of the text; at most `MOST` of them."""
    words = (r for r in reads_beside(kernel) if r.dtype.bytes == BYTES and r.dtype.is_float)
    return tuple(itertools.islice(words, MOST))


@functools.lru_cache(maxsize=256)
def reads_beside(kernel: Streaming) -> tuple[Read, ...]:
    """What the work on a score reads of tensors whose neighbours along the columns are neighbours in memory, in the
    order of the text."""
    work = score_of(kernel).work
    if work is None:
        return ()
    lets = [kernel.first.let(name).expr for name in needed(kernel.first, (work,)) if name != kernel.scores]
    column = kernel.column.name
    shapes = {t.name: t.type.shape for t in kernel.first.inputs}
    found = dict.fromkeys(read for body in (*lets, work) for read in _always(body))
    return tuple(read for read in found if _has_neighbours(read, column, shapes))


def _always(body: Body) -> Iterator[Read]:
    """What an expression reads wherever the row and the column are inside."""
    if isinstance(body, Read):
        yield body
    elif not isinstance(body, (Select, Gather, Reduce, Scan, Scatter, Ref)):
        for inner in operands_of(body):
            yield from _always(inner)


def _has_neighbours(read: Read, column: str, shapes: Mapping[str, tuple]) -> bool:
    rest = offset_of(shapes[read.tensor], read.index) - column if read.tensor in shapes else None
    return rest is not None and column not in rest.names()


def needs_of(kernel: Streaming, others: Collection[Read] = ()) -> tuple[Bound, ...]:
    """What must hold of the symbols for two neighbours to be one access, but for `others`: rows of even lengths."""
    shapes = {t.name: t.type.shape for t in kernel.first.inputs}
    reads = (read for read in reads_ahead(kernel) if read not in others)
    return tuple(dict.fromkeys(b for read in reads for b in multiple_of(shapes[read.tensor][-1], PAIR)))


def outer_of(kernel: Streaming) -> tuple[Axis, ...]:
    """The axes of tiles in the order in which these are taken, the last the fastest: along an axis that no tensor which
    scores meet has, CTAs that run together read the same of it."""
    row = kernel.row.name
    reads = [read for read in reads_beside(kernel) if read in reads_ahead(kernel) or row in axes_of(read)]
    return tuple(sorted(kernel.outer, key=lambda a: bool(reads) and all(a.name not in axes_of(r) for r in reads)))


def assumptions(kernel: Streaming, model: Model, always: tuple[Bound, ...] = ()) -> tuple[tuple[Bound, ...], ...]:
    """What plans may assume, beside what they have to: rows of even lengths where all shape sets have them, and
    nothing."""
    wide = needs_of(kernel)
    both = ((*always, *wide), always) if wide and holds_everywhere(wide, model) else (always,)
    return tuple(tuple(dict.fromkeys(assumed)) for assumed in both)


def load_clocks(kernel: Streaming, plan: Plan, elements: int, others: Collection[Read] = ()) -> float:
    """Clocks of an SM in which it reads this number of elements of each tensor, but for `others`."""
    width = PAIR if set(needs_of(kernel, others)) <= set(plan.assume) else 1
    ahead = reads_ahead(kernel)
    alone = sum(read not in ahead and read not in others for read in reads_beside(kernel))
    early = sum(read not in others for read in ahead)
    reads = early / width if width > 1 else ALONE * early
    return (reads + ALONE * alone) * elements / LANES * LINES


def put_ahead(body: Body, held: Mapping[Read, Body]) -> Body:
    """An expression with registers in the place of what was read ahead."""

    def put(inner: Body) -> Body:
        if isinstance(inner, Read) and inner in held:
            return held[inner]
        return rebuild(inner, put)

    return put(body)
