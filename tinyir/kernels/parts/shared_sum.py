"""The end of a sum in shared memory: the consumers leave their accumulators there, and all threads finish the tile
together. Where the CTAs of a cluster have cut the sum among them, each sends the others their rows of its part.

    barrier cluster arrive                          when mbarriers are set up
    ...
    each r, n of acc[0, 64*j] size [64, 64]         in the consumers
      store sums[r, 64*j + n] = acc[r, 64*j + n]
    fence async_proxy
    barrier cta
    barrier cluster wait                            the others' mbarriers are
    if thread.index = 0
      arrive joined expect 8704 B
      let c = 1 - cluster.rank                      the other; of several each, in a round
      %part = send parts <- sums[32*c, 0] size [32, 68] to c on joined
    wait joined phase 0 for %part
    barrier cluster arrive
    for v in 0..2 unroll                            at the rows of this CTA
      sums.near[e] over e: 4 = sums[r, n + e] vector 4 ...
      for e in 0..4 unroll
        %gemm = add(add(sums.near[e], parts.near[e]), ...) ...
      store C[row, col + e] over e: 4 = C.out[e] vector 4
    barrier cluster wait                            nobody leaves while its part is sent

A barrier of the cluster that orders memory costs some 700 clocks, a read of another CTA's memory as many: what is sent
takes 500, all of it. A CTA's own share stays where it is: sent to itself it costs 0.4 us. What a value reads along one
side of the tile alone is in shared memory by then (`epilogue.brought`). An element's parts are added in one order, its
own CTA's first, so the result is the same at every run. No memory outside the chip is touched. An accumulator whose
rows are the output's columns (`swap_ab`) is left transposed: the rows of `sums` are the output's.
"""

from __future__ import annotations

import functools
import math

from ...ir.body import Binary, Read, substitute
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.accesses import is_assumed_multiple
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.records import dataclass, replace
from ...target.hopper import WARPGROUP_ROWS
from ..problem import Contraction
from .arrays import shared
from .columns import Columns
from .epilogue import Staged
from .fresh import Fresh
from .leaving import turned
from .point import below, split
from .sum_arrays import PARTS, SUM_PAD, SUMS, share_of, sum_arrays

JOINED = "joined"
WIDTHS = (4, 2)  # neighbours that a thread may end together: four words of shared memory are one access
COLUMNS = 64  # of the accumulator that are written at once, at most


def steps(plan: Plan, fresh: Fresh) -> tuple[Expr, Expr, Expr]:
    """The first step of the sum that is this CTA's, the one behind the last, and how far apart they are: the CTAs of a
    cluster take turns, so that what they fetch at a time is close together."""
    return (Expr.of("cluster.rank") if plan.parts > 1 else ZERO, fresh.expr("steps"), Expr.of(plan.parts))


def declared(plan: Plan, kernel: Contraction, fresh: Fresh) -> tuple[Statement, ...]:
    """The CTA's tile, and what the CTAs of a cluster send it of its share; rows apart by a few words more than they are
    long."""
    rows, columns = turned(plan, plan.tile)
    return tuple(shared(fresh(a.label), a) for a in sum_arrays(kernel.dtype, rows, columns, plan.parts))


def set_up(plan: Plan, fresh: Fresh, arrivals: int = 1) -> tuple[Statement, ...]:
    """The barrier on which the others' parts land, where there are parts."""
    return (nodes.Mbarrier(fresh(JOINED), arrivals),) if plan.parts > 1 else ()


def told(plan: Plan) -> tuple[Statement, ...]:
    """What tells the others that this CTA's mbarriers are set up."""
    return (nodes.Barrier("cluster", half="arrive"),) if plan.parts > 1 else ()


def kept(plan: Plan, kernel: Contraction, fresh: Fresh) -> tuple[Statement, ...]:
    """A consumer's accumulator into its CTA's tile."""
    count = plan.consumers.count
    r, n = fresh.expr("r"), fresh.expr("n")
    rows, columns = plan.tile[0] // count, math.gcd(COLUMNS, plan.tile[1])
    down = WARPGROUP_ROWS * fresh.expr("i") if rows > WARPGROUP_ROWS else ZERO
    across = columns * fresh.expr("j") if plan.tile[1] > columns else ZERO
    above = fresh.expr("part") if count > 1 else ZERO
    to = Place(fresh(SUMS), turned(plan, (r + down + above, n + across)))
    store = nodes.Store(to, Read(fresh("acc"), (r + down, n + across), kernel.dtype))
    body: tuple[Statement, ...] = (
        nodes.Each((str(r), str(n)), fresh("acc"), (store,), (down, across), (WARPGROUP_ROWS, columns)),
    )
    for word, turns in (("j", plan.tile[1] // columns), ("i", rows // WARPGROUP_ROWS)):
        body = (nodes.For(fresh(word), ZERO, Expr.of(turns), body, unroll=0),) if turns > 1 else body
    return body


@dataclass(frozen=True, slots=True)
class Turns:
    """How threads share the elements of a tile of `rows` x `columns` with the `parts` CTAs of a cluster
    (`share_of`); neighbours along a row are neighbouring threads', `width` of them each."""

    rows: int
    columns: int
    threads: int
    parts: int
    fresh: Fresh
    width: int = 1

    @property
    def share(self) -> tuple[int, int]:
        """Rows and columns of one CTA."""
        return share_of(self.rows, self.columns, self.parts)

    @property
    def inside(self) -> tuple[Expr, Expr]:
        """A turn's row and first column in the share."""
        start, turn, n = (self.fresh.expr(word) for word in ("start", "own", "n"))
        return turn, n if self.share[1] == self.columns else start - self.share[1] * turn

    @property
    def count(self) -> int:
        """Turns of a thread."""
        return -(-self.share[0] * self.share[1] // (self.threads * self.width))

    def over(self, inside: tuple[Bound, ...], *body: Statement) -> Statement:
        """`body` at each turn of a thread, where the guard holds of `r` and `n`, its row and its first column in the
        tile."""
        e, turn, v, r, n = (self.fresh.expr(word) for word in ("start", "own", "v", "r", "n"))
        rank = Expr.of("cluster.rank") if self.parts > 1 else ZERO
        rows, columns = self.share
        row, column = (turn + rows * rank, ZERO) if rows < self.rows else (turn, columns * rank)
        body = (nodes.If(inside, body),) if inside else body
        body = (nodes.Let(str(r), row), nodes.Let(str(n), column + e - columns * turn), *body)
        body = (
            (nodes.If((Bound(turn, upper=Expr.of(rows)),), body),)
            if rows * columns % (self.threads * self.width)
            else body
        )
        lets = (
            nodes.Let(str(e), self.width * (Expr.of("thread.index") + self.threads * v)),
            nodes.Let(str(turn), e // columns),
        )
        return nodes.For(str(v), ZERO, Expr.of(self.count), (*lets, *body), unroll=0)


def finished(
    plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, threads: int, staged: tuple[Staged, ...]
) -> tuple[Statement, ...]:
    """What all threads do behind the sum: add the parts, compute the region's values, of which some are `staged` in
    shared memory, store."""
    r, n, row, col = (fresh.expr(word) for word in ("r", "n", "row", "col"))
    (rows, columns), corners = turned(plan, plan.tile), turned(plan, (fresh.expr("m0"), fresh.expr("n0")))
    over_rows, over_columns = turned(plan, kernel.groups)
    turns = Turns(rows, columns, threads, plan.parts, fresh)
    turns = replace(turns, width=_width(plan, region, turns.share[1], extent_of(over_columns)))
    e = fresh.expr("e") if turns.width > 1 else ZERO
    place = nodes.Let(str(row), corners[0] + r), nodes.Let(str(col), corners[1] + n)
    bounds = (*below(row, extent_of(over_rows)), *below(col + turns.width - 1, extent_of(over_columns)))
    point = {**split(row, over_rows), **split(col + e, over_columns), **split(fresh.expr("batch"), kernel.batch)}
    places = turned(plan, (r, n + e))
    held = {substitute(s.vector.body, point): s.at(places[s.vector.side]) for s in staged}
    own, across = turns.inside
    parts = (
        Read(fresh(SUMS), (r, n + e), kernel.dtype),
        *(Read(fresh(PARTS), (own, across + e), kernel.dtype, slot_of(plan, i)) for i in range(plan.parts - 1)),
    )
    total = functools.reduce(lambda sum_, part: Binary("add", sum_, part, kernel.dtype), parts)
    beside = {x for x in (*held.values(), *parts) if str(e) in x.index[-1].names()} if turns.width > 1 else set()
    statements = tuple(
        Columns(
            region, fresh, turns.width, over_columns, col + e, point, {kernel.value: total}, held, beside
        ).statements()
    )
    ended = turns.over((), *place, *((nodes.If(bounds, statements),) if bounds else statements))
    return (
        (*_joined(plan, turns, kernel, fresh), ended, nodes.Barrier("cluster", half="wait"))
        if plan.parts > 1
        else (nodes.Barrier("cta"), ended)
    )


def other_of(plan: Plan, fresh: Fresh) -> tuple[Expr, Expr | None]:
    """The CTA that is sent to in turn `o` of those for all others, and the place that it has for what comes from here:
    what comes from the CTA after next is in the slot behind the next's."""
    if plan.parts == 2:
        return 1 - Expr.of("cluster.rank"), None
    turn = fresh.expr("o")
    behind = Expr.of("cluster.rank") + turn + 1
    return behind - plan.parts * (behind // plan.parts), slot_of(plan, plan.parts - 2 - turn)


def slot_of(plan: Plan, number: Expr | int) -> Expr | None:
    """The place of what one of the others sends; there is none to tell where one CTA sends."""
    return ZERO + number if plan.parts > 2 else None


def _joined(plan: Plan, turns: Turns, kernel: Contraction, fresh: Fresh) -> tuple[Statement, ...]:
    """Each CTA's part is sent to those that end it, and what they have sent has come."""
    rows, columns = turns.share
    c, row, joined, others = fresh.expr("c"), fresh.expr("row"), Place(fresh(JOINED)), plan.parts - 1
    other, slot = other_of(plan, fresh)
    to = Place(fresh(PARTS), slot=slot)
    if rows < turns.rows:
        sent = rows, columns + SUM_PAD
        send: Statement = nodes.Send("part", to, Place(fresh(SUMS), (rows * c, ZERO)), sent, c, joined)
    else:
        sent = rows, columns
        send = nodes.Send(
            "part", replace(to, index=(row, ZERO)), Place(fresh(SUMS), (row, columns * c)), (1, columns), c, joined
        )
        send = nodes.For(str(row), ZERO, Expr.of(rows), (send,), unroll=0)
    each: tuple[Statement, ...] = (nodes.Let(str(c), other), send)
    if others > 1:
        each = (nodes.For(fresh("o"), ZERO, Expr.of(others), each, unroll=0),)
    sends = nodes.Arrive(joined, others * math.prod(sent) * kernel.dtype.bytes), *each
    return (
        nodes.Fence("async_proxy"),
        nodes.Barrier("cta"),
        nodes.Barrier("cluster", half="wait"),
        nodes.If((Bound(Expr.of("thread.index"), equals=ZERO),), sends),
        nodes.Wait(joined, ZERO, ("part",)),
        nodes.Barrier("cluster", half="arrive"),
    )


def _width(plan: Plan, region: Region, columns: int, extent: Expr) -> int:
    """Columns that a thread takes at once: as many as every access of a row of the output can have, by what the plan
    assumes."""
    widest = max(t.type.dtype.bytes for t in (*region.inputs, *region.outputs))
    return next(
        (
            w
            for w in WIDTHS
            if columns % w == 0 and w * widest <= ACCESS_BYTES and is_assumed_multiple(plan.assume, extent, w)
        ),
        1,
    )
