"""What a CTA of a row kernel takes: where its warps and the CTAs of a cluster meet, and the elements of a row that a
thread has at once."""

from __future__ import annotations

import math

from ...ir.accumulate import is_plain, wide
from ...ir.body import Binary, Body, BroadcastInDim, Reduce, walk
from ...ir.expr import Expr
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan
from ...ir.region import Region
from ...ir.traits import extent_of, nodes_of
from ...ir.types import DTYPES, DType
from ...kit.records import replace
from ..family import Array, Needs, Problem
from ..parts.kept import bytes_beside
from ..parts.point import free_axes, needed
from ..problem import Row
from ..resources import allotted

ADDRESSING = 24  # registers, with those of one access
WALKING = 48  # registers, of a walk along rows that the compiler holds to no number
WARP = 32


def declare_streamed(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes that reads a row again: the compiler asks for as much of it at once as there are registers for
    where it is told a limit, and for less where it is not."""
    needs = declare(plan, problem)
    if divides_slowly(problem.region, problem.kernel):
        return needs
    return replace(needs, registers=min(needs.registers, allotted(plan, WALKING)))


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes whose rows are resident."""
    region, kernel = problem.region, problem.kernel
    read = bytes_beside(region, {a.name for a in kernel.row if a in region.iters}) * plan.widest
    beside = max(0, read - ACCESS_BYTES) // 4
    shared = meeting_arrays(plan, region, kernel)
    return Needs(shared, registers=allotted(plan, 5 * each_of(plan) // 4 + beside + ADDRESSING))


def meeting_arrays(plan: Plan, region: Region, kernel: Row) -> tuple[Array, ...]:
    """Where a CTA's warps meet, two arrays of each dtype that take turns; then where the CTAs of a cluster do, a number
    for each fold."""
    lanes, ctas = plan.threads[0], team_of(plan) // plan.threads[0]
    if lanes <= WARP and ctas == 1:
        return ()
    dtypes = tuple(map(wide, folded(region, kernel)))
    turns = dict.fromkeys((dtype, number % 2) for number, dtype in enumerate(dtypes)) if lanes > WARP else ()
    warps = tuple(Array("part", dtype, (lanes // WARP,)) for dtype, _ in turns)
    return warps + (tuple(Array("all", dtype, (1,), cluster=ctas) for dtype in dtypes) if ctas > 1 else ())


def folded(region: Region, kernel: Row) -> tuple[DType, ...]:
    """The dtypes of what a row's threads fold together, in the order in which `passes` does it: the best element of
    argmax and argmin, then its place."""
    row = {a.name for a in kernel.row if a in region.iters}
    values = (region.let(name).expr for name in needed(region, (y.expr for y in region.yields)))
    bodies = [body for body in values if not row & set(free_axes(region, body))]
    bodies += [y.expr for y in region.yields if not row & {n for e in y.index for n in e.names()}]
    folds = (n for body in bodies for n in walk(body) if isinstance(n, Reduce))
    return tuple(
        d
        for f in folds
        for d in ((f.dtype,) if is_plain(f.op) else (f.body.dtype, place_dtype(f, extent_of(kernel.row))))
    )


def place_dtype(fold: Reduce, extent: Expr) -> DType:
    """In what argmax and argmin count the places of a row: 32 bits where they are known to be enough."""
    is_short = extent.constant is not None and extent.constant < 1 << 31
    return DTYPES["i32"] if is_short and fold.dtype.bits > 32 else fold.dtype


def divides_slowly(region: Region, kernel: Row) -> bool:
    """Whether something is divided but elements of the row by a number of the row, whose reciprocal is found once. A
    slow division is a call, around which ptxas spills where nothing limits it; elsewhere it spills under a limit."""
    row, names = {a.name for a in kernel.row}, tuple(a.name for a in region.iters)

    def varies(body: Body) -> bool:
        if isinstance(body, BroadcastInDim):
            return any((body.axes or names)[d] in row for d in body.dims)
        return not row.isdisjoint(free_axes(region, body))

    divisions = (n for n in nodes_of(region) if isinstance(n, Binary) and n.op == "fdiv")
    return not all(varies(n.left) and not varies(n.right) for n in divisions)


def team_of(plan: Plan) -> int:
    """Threads that share a row."""
    return plan.threads[0] * (math.prod(plan.cluster.shape) if plan.cluster else 1)


def each_of(plan: Plan) -> int:
    """Elements of a row that a thread has at once."""
    return plan.tile[1] // team_of(plan)


__all__ = ["declare", "declare_streamed", "divides_slowly", "each_of", "meeting_arrays", "place_dtype", "team_of"]
