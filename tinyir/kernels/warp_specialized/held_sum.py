"""The end of a sum that the CTAs of a cluster have cut, in the consumers' registers: each CTA ends its share of the
accumulator's columns, and each thread sends what it has of the others' shares to the threads of its number there, which
hold the same elements.

    barrier cluster arrive                          when mbarriers are set up
    ...
    role consumer
      if warpgroup.thread = 0
        arrive joined expect 8192 B
      ...                                           the sum
      barrier cluster wait                          the others' mbarriers are set up
      let c = 1 - cluster.rank                      the other; of several each, in a round
      %part = send sent <- acc[0, 32*c] size [64, 32] to c on joined
      wait joined phase 0 for %part
      each r, n of acc[0, 32*cluster.rank] size [64, 32]
        let col = n0 + n + 32*cluster.rank
        %bias_add = add(add(acc[r, n + 32*cluster.rank], sent[r, n]), bias.tile[...])
        C.out[r, n] = %bias_add
      store_rows C[m0, n0 + 32*cluster.rank] box [64, 32] <- C.out

Nobody meets behind the sum, and nothing goes through shared memory but what is sent: some 500 clocks from the last
product to the last store, where leaving all sums in shared memory for the copy engine (`shared_sum`) takes 1500. A CTA
may leave when what is sent to it has come: its own has left its registers. An element's parts are added in one order,
its own CTA's first.
"""

from __future__ import annotations

import functools

from ...ir.body import Binary, Read
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.types import TensorType
from ...target.hopper import WARPGROUP_ROWS
from ..parts.arrays import shared
from ..parts.epilogue import (
    FIRST_THREAD,
    HELD,
    Epilogue,
    Leaving,
    Piece,
    brought,
    elements,
    staged_vectors,
    stored,
    tile_of,
)
from ..parts.fresh import Fresh
from ..parts.shared_sum import JOINED, other_of, slot_of
from ..problem import Contraction
from .declare import held_yields, sent_array

SENT = "sent"


def held_end(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh) -> Epilogue:
    """How the consumers end a cut sum: `declare.ends_held`."""
    columns, rows = plan.tile[1] // plan.parts, plan.tile[0] // plan.consumers.count
    staged = staged_vectors(plan, region, kernel, fresh)
    sent = shared(fresh(SENT), sent_array(plan, kernel))
    joined = Place(fresh(JOINED))
    expected = nodes.Arrive(joined, (plan.parts - 1) * rows * columns * kernel.dtype.bytes)
    met = (nodes.Barrier("warpgroup"),) if staged else ()
    before = nodes.If(FIRST_THREAD, (expected,)), *(brought(plan, kernel, fresh, s) for s in staged), *met
    down = WARPGROUP_ROWS * fresh.expr("i") if rows > WARPGROUP_ROWS else ZERO
    part, mine = (fresh.expr("part"), rows * Expr.of("warpgroup.index")) if plan.consumers.count > 1 else (ZERO, ZERO)
    own = columns * Expr.of("cluster.rank")
    piece = Piece(
        (down, own),
        {"left": fresh.expr("m0") + down + part, "right": fresh.expr("n0") + own},
        ZERO,
        None,
        (WARPGROUP_ROWS, columns),
    )
    r, n = fresh.expr("r"), fresh.expr("n")
    come = [Read(sent.name, (r + down + mine, n), kernel.dtype, slot_of(plan, i)) for i in range(plan.parts - 1)]
    leaving = _leaving(region, kernel, fresh)
    held = tuple(
        nodes.Reg(item.tile, TensorType(kernel.dtype, (Expr.of(WARPGROUP_ROWS), Expr.of(columns))), kind="wgmma")
        for item in leaving
    )
    ended = elements(
        plan,
        region,
        kernel,
        fresh,
        leaving,
        piece,
        staged,
        lambda own: functools.reduce(lambda sum_, x: Binary("add", sum_, x, kernel.dtype), come, own),
        (sent.name,),
    )
    stores = (stored(item, piece, plan, kernel, fresh) for item in leaving)
    pieces = (
        nodes.Barrier("cluster", half="wait"),
        *_sends(plan, fresh, down, mine),
        nodes.Wait(joined, ZERO, ("part",)),
        *held,
        *_over(plan, fresh, ended, *stores),
    )
    return Epilogue(kernel.dtype, (), (sent, *(s.tile for s in staged)), before, (), (), pieces, ())


def _leaving(region: Region, kernel: Contraction, fresh: Fresh) -> tuple[Leaving, ...]:
    """The outputs that leave from registers, each with those that hold its values."""
    dtypes = {t.name: t.type.dtype for t in region.outputs}
    return tuple(
        Leaving(item, dtypes[item.output], view, HELD, tile_of(item, fresh), "", 0)
        for item, view in held_yields(region, kernel)
    )


def _sends(plan: Plan, fresh: Fresh, down: Expr, mine: Expr) -> tuple[Statement, ...]:
    """Of this thread's elements those that other CTAs end."""
    columns, c = plan.tile[1] // plan.parts, fresh.expr("c")
    other, slot = other_of(plan, fresh)
    to = Place(fresh(SENT), () if down + mine == ZERO else (down + mine, ZERO), slot)
    send = nodes.Send(
        "part", to, Place(fresh("acc"), (down, columns * c)), (WARPGROUP_ROWS, columns), c, Place(fresh(JOINED))
    )
    each: tuple[Statement, ...] = (nodes.Let(str(c), other), *_over(plan, fresh, send))
    return (nodes.For(fresh("o"), ZERO, Expr.of(plan.parts - 1), each, unroll=0),) if plan.parts > 2 else each


def _over(plan: Plan, fresh: Fresh, *body: Statement) -> tuple[Statement, ...]:
    """Statements for each 64 rows of a warpgroup's accumulator."""
    blocks = plan.tile[0] // plan.consumers.count // WARPGROUP_ROWS
    return (nodes.For(fresh("i"), ZERO, Expr.of(blocks), body, unroll=0),) if blocks > 1 else body
