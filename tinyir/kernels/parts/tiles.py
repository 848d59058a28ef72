"""Which tile of a contraction's output a CTA computes: tiles are counted along rows and columns, and batch by batch.

assume 0 <= ... < 2147483648                    where a size or a count might be more than an int holds
let tiles.m = ceildiv(M, 128), tiles.n = ...
let batch = floor(tile/(tiles.m*tiles.n))
order tm, tn = tile ... of [tiles.m, tiles.n]
"""

from __future__ import annotations

from ...ir.expr import Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.intervals import LARGEST_SIZE, Interval, interval_of
from ...ir.model import Model
from ...ir.plan import Plan
from ...ir.traits import extent_of
from ..problem import SIBLING, Contraction
from .fresh import Fresh
from .picks import sibling_let


def countable(kernel: Contraction, model: Model, tiles: Expr) -> tuple[Statement, ...]:
    """What the launch must refuse: sizes, and a number of `tiles`, that the signature allows and an int does not
    hold."""
    ranges = {s: Interval(r.low, min(r.high, LARGEST_SIZE)) for s in model.symbols() for r in (model.range_of(s),)}
    counted = dict.fromkeys((*map(extent_of, (*kernel.groups, kernel.batch)), tiles))
    return tuple(
        nodes.Assume((Bound(e, upper=Expr.of(LARGEST_SIZE + 1)),))
        for e in counted
        if not interval_of(e, ranges).fits(LARGEST_SIZE)
    )


def fewer(model: Model, most: int, *counted: Expr) -> tuple[Statement, ...]:
    """What the launch must refuse: more than a limit of what is counted, where the signature allows it."""
    ranges = {s: Interval(r.low, min(r.high, LARGEST_SIZE)) for s in model.symbols() for r in (model.range_of(s),)}
    return tuple(
        nodes.Assume((Bound(e, upper=Expr.of(most + 1)),))
        for e in dict.fromkeys(counted)
        if not interval_of(e, ranges).fits(most)
    )


def counts(fresh: Fresh, rows: Expr, columns: Expr) -> tuple[Statement, Statement]:
    """How many tiles there are one below, and one beside another."""
    return nodes.Let(fresh("tiles.m"), rows), nodes.Let(fresh("tiles.n"), columns)


def tile_at(plan: Plan, kernel: Contraction, fresh: Fresh, number: Expr, columns: Expr) -> tuple[Statement, ...]:
    """The batch, the sibling, and the coordinates `tm`, `tn` of the tile of this number; there are `columns` columns of
    tiles."""
    tiles_m, tiles_n, before = fresh.expr("tiles.m"), fresh.expr("tiles.n"), ()
    if kernel.batch:
        before = (
            nodes.Let(fresh("batch"), number // (tiles_m * tiles_n)),
            *sibling_let(kernel, fresh.expr("batch"), fresh(SIBLING)),
        )
        number = number - tiles_m * tiles_n * fresh("batch")
    width = plan.order.width if plan.order and plan.order.by == "group" else 0
    return (*before, nodes.Order((fresh("tm"), fresh("tn")), number, (tiles_m, tiles_n if width else columns), width))
