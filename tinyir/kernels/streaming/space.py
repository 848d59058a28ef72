"""Plans of two contractions with a softmax between them: tiles of the key and of the value pass through shared memory,
a CTA keeps its rows of the query and of the output."""

from __future__ import annotations

from ...ir.body import Body, Read, walk
from ...ir.plan import Bind, Cache, Edge, Plan
from ...ir.region import Region
from ...kit.phrase import Phrase
from ...target.device import Device
from ..attention import Streaming
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from .declare import width_each

ROWS = (16, 32, 64, 128)
COLUMNS = (16, 32, 64)
THREADS = ((16, 16), (16, 8), (8, 16), (8, 8), (16, 4), (32, 4))  # x, y
MICRO = 8  # of the scores, either way


def propose_streaming(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Every tile and thread block that divide one another, the biggest first."""
    kernel, (first, second), found = problem.kernel, problem.regions, []
    if kernel.is_chosen:
        return ()
    for across, down in THREADS:
        for rows in reversed(ROWS):
            for columns in reversed(COLUMNS):
                if rows % down or columns % across or max(rows // down, columns // across) > MICRO:
                    continue
                plan = _streaming(kernel, first, second, card.arch.name, (rows, columns), (across, down))
                held = plan.micro[0] * width_each(plan, kernel)
                found.append(
                    Proposal(
                        plan,
                        Phrase("{held} sums a thread are over {micro}", held=held, micro=MICRO * MICRO)
                        if held > MICRO * MICRO
                        else "",
                    )
                )
    return tuple(found)


def _streaming(
    kernel: Streaming, first: Region, second: Region, arch: str, tile: tuple[int, int], threads: tuple[int, int]
) -> Plan:
    row, column = kernel.row.name, kernel.column.name
    rows, columns = ((kernel.row,), tile[0]), ((kernel.column,), tile[1])
    outer = (Bind(tuple(a.name for a in kernel.outer), "cta.x"),) if kernel.outer else ()
    return Plan(
        regions=(first.name, second.name),
        arch=arch,
        family="contraction",
        algo="streaming",
        tile=(*tile, kernel.sizes[0]),
        micro=(tile[0] // threads[1], tile[1] // threads[0]),
        threads=threads,
        bind=(
            *outer,
            Bind((f"{row}.o",), "cta.y" if kernel.outer else "cta.x"),
            Bind((f"{row}.i",), "thread.y"),
            Bind((f"{column}.i",), "thread.x"),
        ),
        cache=cached_by(kernel),
        predicate=(*guarded_axes(*rows), *guarded_axes(*columns)),
        edge=(Edge(first.yields[0].output, kernel.output, "smem", 1),),
    )


def cached_by(kernel: Streaming) -> tuple[Cache, ...]:
    """The tensors whose tiles are in shared memory: the query's throughout, the key's and the value's in turn."""
    row, column = kernel.row.name, kernel.column.name
    where = ((kernel.query, f"{row}.o"), (kernel.key, f"{column}.o"), (kernel.value, f"{column}.o"))
    return tuple({tensor: Cache(tensor, "smem", at) for body, at in where for tensor in _tensors_of(body)}.values())


def _tensors_of(body: Body) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n.tensor for n in walk(body) if isinstance(n, Read)))
