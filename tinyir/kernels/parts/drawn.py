"""Tiles that CTAs draw: the counter, the kernel that sets it to 0 before each run, and the ring through which the
thread that draws hands the numbers on (`ir.gpu.drawn` checks them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir.accumulate import literal
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Statement
from ...ir.plan import Plan
from ...ir.region import Tensor
from ...ir.types import DTYPES, TensorType
from ..family import Array, Before, Problem
from .arrays import shared
from .point import Fresh, names_in

RING = 2  # numbers on their way: the thread that draws is a tile ahead of those that are handed it
WARP = 32
WORDS = ("turn", "turn.full", "turn.empty")


def is_drawn(plan: Plan) -> bool:
    """Whether a plan's tiles are drawn."""
    return plan.order is not None and plan.order.by == "drawn"


def turn_array(plan: Plan) -> tuple[Array, ...]:
    """The ring that numbers are handed on through, where they are drawn."""
    return (Array("turn", DTYPES["i32"], (1,), RING),) if is_drawn(plan) else ()


def turn_barriers(plan: Plan) -> int:
    """How many mbarriers the ring takes."""
    return 2 * RING * is_drawn(plan)


def turns_declared(plan: Plan, fresh: Callable[[str], str], warps: int) -> Iterator[Statement]:
    """The ring, and its barriers: of the thread that draws, and of those `warps` that are handed what it has
    drawn."""
    for array in turn_array(plan):
        own, full, empty = map(fresh, WORDS)
        yield from (shared(own, array), nodes.Mbarrier(full, 1, RING), nodes.Mbarrier(empty, warps, RING))


def over_tiles(
    plan: Plan,
    problem: Problem,
    fresh: Callable[[str], str],
    ends: Expr,
    body: tuple[Statement, ...],
    draws: bool,
) -> tuple[Statement, ...]:
    """The tiles of a CTA: its own, those a whole grid apart, or the first of these and what is drawn, by those who say
    so."""
    tile, first, step = fresh("tile"), Expr.of("cta.x"), Expr.of(plan.persistent)
    if not plan.persistent:
        return (nodes.Let(tile, first), *body)
    if not is_drawn(plan):
        return (nodes.For(tile, first, ends, body, step=step),)
    source = nodes.Place(counter_of(plan, problem).name, (ZERO,)) if draws else None
    return (nodes.For(tile, first, ends, body, step, 1, source, *map(fresh, WORDS)),)


def counter_of(plan: Plan, problem: Problem) -> Tensor:
    """The memory of the counter."""
    taken = {name for region in problem.regions for name in names_in(region)}
    return Tensor(Fresh(taken).name(f"{plan.name}.turn"), TensorType(DTYPES["u32"], (ONE,)))


def before(plan: Plan, problem: Problem) -> Before:
    """The kernel that sets the counter to 0, where numbers are drawn."""
    if not is_drawn(plan):
        return Before()
    counter = counter_of(plan, problem)
    store = nodes.Store(nodes.Place(counter.name, (ZERO,)), literal(0, counter.type.dtype))
    body = (nodes.If((Bound(Expr.of("thread.x"), equals=ZERO),), (store,)),)
    return Before((Kernel(f"{plan.name}.start", plan.regions, plan.arch, (ONE,), (WARP,), body),), (counter,))
