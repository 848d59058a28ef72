"""Plans that fold columns: lanes along the columns, as many as there are, and the threads of a CTA that are left along
the fold."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Bind, Plan, Vectorize
from ...target.device import Device
from ..candidate import over_registers, parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..parts.kept import words_beside
from .match import folds_of_columns, runs_of_columns

THREADS = (128, 256, 512)
LANES = (32, 16, 8, 4, 2, 1)  # along the columns


def propose_columns(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each block size with lanes over the columns: whole warps of them, or as many as cover all."""
    region = problem.region
    if not folds_of_columns(region):
        return
    last = region.iters[-1]
    for run in runs_of_columns(region):
        width = run.width if run else 1
        size = last.size.constant
        cover = next(n for n in reversed(LANES) if n == LANES[0] or size is not None and n * width >= size)
        lanes_tried = [n for n in LANES if n == cover or cover == LANES[0] and n * width >= LANES[0]]
        held = width * words_beside(region, {last.name}, False)
        for threads in THREADS:
            for lanes in lanes_tried:
                tile = lanes * width
                plan = Plan(
                    (region.name,),
                    card.arch.name,
                    "map",
                    "columns",
                    (tile,),
                    micro=(width,),
                    threads=(lanes, threads // lanes),
                    bind=(
                        Bind(parts_of_axes(region.iters, "o"), "cta.x"),
                        Bind(parts_of_axes((last,), "i"), "thread.x"),
                    ),
                    vectorize=(Vectorize(last.name, width),) if run else (),
                    predicate=guarded_axes(region.iters, tile),
                )
                yield Proposal(plan, over_registers(held, card))


__all__ = ["propose_columns"]
