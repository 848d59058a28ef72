"""Plans that fold columns: lanes along the columns, as many as there are, and the threads of a CTA that are left along
the fold."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ZERO
from ...ir.plan import Bind, Plan, Vectorize
from ...target.device import Device
from ..candidate import over_registers, parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..parts.kept import words_beside
from .match import covered_of, folds_of_columns, is_slanted, runs_of_columns

THREADS = (128, 256, 512)
LANES = (32, 16, 8, 4, 2, 1)  # along the columns
MOST_BESIDE = 32  # threads of a column that begins between accesses: 64 took 1.4 times as long on an H200
FEWEST = 4  # of them where one of each row of threads is a neighbour's too


def propose_columns(problem: Problem, card: Device) -> Iterator[Proposal]:
    """Each block size with lanes over the columns: whole warps of them, or as many as cover all."""
    region = problem.region
    if not folds_of_columns(region):
        return
    last = region.iters[-1]
    for run in runs_of_columns(region):
        width = run.width if run else 1
        size = last.size.constant
        cover = next(
            n
            for n in reversed(LANES)
            if n == LANES[0] or size is not None and (covered_of(run, n * width) if run else n) >= size
        )
        lanes_tried = [n for n in LANES if n == cover or cover == LANES[0] and n * width >= LANES[0]]
        held = width * words_beside(region, {last.name}, False)
        for threads in THREADS:
            for lanes in lanes_tried:
                if run and run.start != ZERO and threads // lanes > MOST_BESIDE:
                    continue
                if run and is_slanted(run) and (lanes < FEWEST or threads // lanes % width):
                    continue
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
