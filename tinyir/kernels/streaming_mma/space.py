"""Plans of attention by warps: 16 or 32 rows a warp, as many columns of scores as registers hold beside the output's
sum."""

from __future__ import annotations

from ...ir.model import Model
from ...ir.plan import Async, Edge, Load, Order, Plan
from ...ir.traits import extent_of, sizes_of
from ...kit.records import replace
from ...target.device import Device
from ...target.hopper import SWIZZLE_BYTES
from ..attention.ahead import assumptions
from ..family import Problem, Proposal
from ..parts.guards import guarded_axes
from .fields import WARP_ROWS, bind_of, cached_by, loadable
from .legal import crowded
from .match import fault_of

WARPS = (4, 8)
COLUMNS = (64, 128, 32, 48)
STAGES = (2, 3)
SHARE_OF_L2 = 24 << 20  # bytes of keys and values that heads which run together may have
MOST_ORDER = 256


def propose_warps(problem: Problem, card: Device) -> tuple[Proposal, ...]:
    """Every tile that registers hold."""
    if why_none(problem, card):
        return ()
    plans = (
        replace(_plan(problem, card, warps, rows, columns, stages), assume=assume)
        for warps in WARPS
        for rows in reversed(WARP_ROWS)
        for columns in COLUMNS
        for stages in STAGES
        for assume in assumptions(problem.kernel, problem.model)
    )
    return tuple(Proposal(plan, crowded(plan, problem)) for plan in plans)


def why_none(problem: Problem, card: Device) -> str:
    """Why the family proposes nothing for the problem, in words; empty where it proposes plans."""
    return fault_of(problem.kernel)


def _plan(problem: Problem, card: Device, warps: int, warp_rows: int, columns: int, stages: int) -> Plan:
    kernel, (first, second) = problem.kernel, problem.regions
    rows, ways = warps * warp_rows, loadable(kernel)
    return Plan(
        regions=(first.name, second.name),
        arch=card.arch.name,
        family="contraction",
        algo="streaming_mma",
        tile=(rows, columns, kernel.sizes[0]),
        warp_tile=(warp_rows, columns),
        threads=(warps * card.arch.warp,),
        stages=stages,
        bind=bind_of(kernel),
        order=Order("group", _together(problem, problem.model)) if kernel.outer else None,
        cache=cached_by(kernel),
        load=tuple(Load(t, "cp_async" if is_moved else "ld", SWIZZLE_BYTES) for t, is_moved in ways.items()),
        predicate=(*guarded_axes((kernel.row,), rows), *guarded_axes((kernel.column,), columns)),
        asynchrony=Async(stages - 1),
        barrier="cp_async_group" if any(ways.values()) else "cta",
        edge=(Edge(first.yields[0].output, kernel.output, "reg", 1),),
    )


def _together(problem: Problem, model: Model) -> int:
    """Heads whose keys and values stay in L2 at the first shape set."""
    kernel, sizes = problem.kernel, sizes_of(model)
    one = kernel.column.size.evaluate(sizes) * sum(kernel.sizes) * kernel.key.dtype.bytes
    heads = extent_of(kernel.outer).evaluate(sizes)
    return max(1, min(SHARE_OF_L2 // max(one, 1), heads, MOST_ORDER))
