"""Plans of a contraction. Now: the synchronous template, tiles in shared memory and a micro tile of accumulators a
thread."""

from __future__ import annotations

from ...ir.plan import Bind, Cache, Plan
from ...ir.region import Region
from ...kit.phrase import Phrase
from ...target.device import Device
from ..candidate import batch_bind, parts_of_axes
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from ..problem import Contraction

SIDES = (16, 32, 64, 128)
DEPTHS = (8, 16, 32)
THREADS = ((8, 8), (16, 8), (16, 16), (32, 8))  # x, y
MICRO = 8  # an 8 x 8 micro tile of fp32 is what 255 registers hold with its fragments


def propose_contraction(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Every tile, depth and thread block that divide one another, the biggest first."""
    kernel, region, found = problem.kernel, problem.region, []
    for across, down in THREADS:
        for rows in reversed(SIDES):
            for columns in reversed(SIDES):
                if rows % down or columns % across:
                    continue
                for depth in DEPTHS:
                    plan = _synchronous(kernel, region, card.arch.name, (rows, columns, depth), (across, down))
                    wide = max(plan.micro) > MICRO
                    found.append(
                        Proposal(
                            plan,
                            Phrase(
                                "a micro tile of {micro} x {micro2} is over {micro3} x {micro3}",
                                micro=plan.micro[0],
                                micro2=plan.micro[1],
                                micro3=MICRO,
                            )
                            if wide
                            else "",
                        )
                    )
    return tuple(found)


def _synchronous(
    kernel: Contraction, region: Region, arch: str, tile: tuple[int, int, int], threads: tuple[int, int]
) -> Plan:
    outermost = f"{kernel.sum[0].name}.o"
    cached = tuple(dict.fromkeys((kernel.lhs.tensor, kernel.rhs.tensor)))
    guarded = {name for group, size in zip(kernel.groups, tile) for name in guarded_axes(group, size)}
    return Plan(
        regions=(region.name,),
        arch=arch,
        family="contraction",
        algo="synchronous",
        tile=tile,
        micro=(tile[0] // threads[1], tile[1] // threads[0]),
        threads=threads,
        bind=_bind(kernel),
        cache=tuple(Cache(tensor, "smem", outermost) for tensor in cached),
        predicate=tuple(a.name for a in (*region.iters, *kernel.sum) if a.name in guarded),
        epilogue=tuple(let.name for let in region.lets if let.name != kernel.value),
    )


def _bind(kernel: Contraction) -> tuple[Bind, ...]:
    return (
        *batch_bind(kernel),
        Bind(parts_of_axes(kernel.left, "o"), "cta.y"),
        Bind(parts_of_axes(kernel.right, "o"), "cta.x"),
        Bind(parts_of_axes(kernel.left, "i"), "thread.y"),
        Bind(parts_of_axes(kernel.right, "i"), "thread.x"),
    )
