"""The flat template of a map: the output's elements in one line, some to each thread, a block's width apart.

    for u in 0..4 unroll
      let e = 1024*cta.x + 256*u + thread.x
      if e < M*N
        let i0 = floor(e/N)
        let i1 = e - N*floor(e/N)
        the values at this point, and the stores

A fold inside runs in the thread, element after element; so does a scatter, whose element looks for its writers.
Neighbours that are known to be side by side are taken in vectors (`element_vectors`), without a guard each where the
whole tile is inside, so that all are on their way at once; what is left behind the last of them is the first CTA's, an
element a thread.
"""

from __future__ import annotations

from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.runs import Run, map_run
from ...ir.traits import extent_of
from ..family import Problem
from .element_vectors import vector_statements
from .point import Fresh, divides, names_in, numbered
from .statements import Statements


def element_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of `element_plans`."""
    region, kernel = problem.region, problem.kernel
    (threads,), each, (tile,) = plan.threads, plan.micro[0], plan.tile
    run, fresh = _run_of(plan, region), Fresh(names_in(region))
    width = run.width if run else 1
    turn, turns, total = Expr.of(fresh.of("u")), each // width, extent_of(kernel.axes)
    number = tile // width * Expr.of("cta.x") + "thread.x" + (threads * turn if turns > 1 else 0)
    is_guarded = not divides(tile, total)

    def taken(is_guarded: bool) -> tuple[Statement, ...]:
        body = (
            vector_statements(region, fresh, run, number, is_guarded)
            if run
            else _element(region, fresh, number, is_guarded)
        )
        return (nodes.For(str(turn), ZERO, Expr.of(turns), body, unroll=0),) if turns > 1 else body

    if run and turns > 1 and is_guarded:
        inside = Bound(
            tile // width * Expr.of("cta.x"), upper=run.whole(ZERO) * (total // run.extent) - (tile // width - 1)
        )
        body: tuple[Statement, ...] = (nodes.If((inside,), taken(False), taken(True)),)
    else:
        body = taken(is_guarded)
    if run and not run.is_whole:
        left = _element(region, fresh, Expr.of("thread.x") + width * run.whole(ZERO), True, "left")
        body = (*body, nodes.If((Bound(Expr.of("cta.x"), equals=ZERO),), left))
    return Kernel(
        plan.name, plan.regions, plan.arch, (total.ceildiv(width).ceildiv(tile // width),), plan.threads, body
    )


def _run_of(plan: Plan, region: Region) -> Run | None:
    """The run that the plan takes in vectors."""
    return map_run(region, len(plan.vectorize[0].axes), plan.vectorize[0].width) if plan.vectorize else None


def _element(region: Region, fresh: Fresh, number: Expr, is_guarded: bool, word: str = "e") -> tuple[Statement, ...]:
    """What a thread does with the element of this number, which is called `word` where there are several axes."""
    return numbered(region.iters, fresh, number, word, Statements(region, fresh).at_point(region.yields), is_guarded)
