"""How the CTAs of a warp-specialised contraction walk over the tiles of the output, all warpgroups together or two in
turn."""

from __future__ import annotations

from ...ir.expr import ONE, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...kit.records import dataclass, replace
from ..parts.fresh import Fresh


@dataclass(frozen=True, slots=True)
class Walk:
    """How the CTAs walk over the tiles: what must hold, what comes before the loop, the loop's range, and what gives a
    tile's place. Where a tile is all that a CTA or a cluster does (`is_single`) there is no loop, and its place is
    before the roles."""

    assumes: tuple[Statement, ...]
    before: tuple[Statement, ...]
    low: Expr
    high: Expr
    step: Expr
    inside: tuple[Statement, ...]
    is_single: bool = False

    def over(self, tile: str, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The loop with `body` in it."""
        return (
            body if self.is_single else (nodes.For(tile, self.low, self.high, (*self.inside, *body), step=self.step),)
        )


def in_turn(
    plan: Plan, walk: Walk, summed: tuple[Statement, ...], fresh: Fresh
) -> tuple[tuple[Statement, ...], tuple[Statement, ...], Walk]:
    """What two warpgroups do before their walk that take turns, a tile's sum, and the walk of each: every other tile.

    A warpgroup begins its products when the other has begun its last, and goes over the slots of the other's tile; its
    epilogue runs beside the other's products. The turns are told by mbarriers, of which the first warpgroup finds its
    own complete at its first tile: a numbered barrier would want as many arrivals as waits, and a last tile has none
    after it.
    """
    own = Expr.of("warpgroup.index")
    skip = nodes.Advance(fresh("s"), fresh.expr("steps"))
    second = nodes.If((Bound(own, equals=ONE),), (skip, nodes.Advance(fresh("t"))))
    begun = nodes.Wait(Place(fresh("turn"), slot=own), fresh.expr("t", "phase"))
    ended = nodes.Arrive(Place(fresh("turn"), slot=1 - own))
    last = max(at for at, s in enumerate(summed) if isinstance(s, nodes.For) and str(s.name) == fresh("k"))
    tile = (begun, *summed[: last + 1], ended, *summed[last + 1 :], skip, nodes.Advance(fresh("t")))
    turns = replace(walk, low=walk.low + own * walk.step.constant, step=Expr.of(2 * walk.step.constant))
    return (nodes.Cursor(fresh("t"), 1, phase=1), second), tile, turns
