"""The warp-specialised template of a contraction on sm90: TMA, mbarriers, wgmma, clusters (seed 001 section 9).

    role producer    one thread keeps a ring of tiles full: wait until a slot is empty, say how many bytes will land,
                     fetch
    role consumer    warpgroups multiply what is full; at the end of the sum the epilogue, piece by piece, while the
                     next tile is fetched

With `consumers 2 pingpong` each of two warpgroups has every other tile: they take turns at the tensor cores, and the
epilogue of one runs beside the products of the other.

Where there are few tiles and a long sum, the CTAs of a cluster share one tile and cut the sum (`split_k`), which ends
in registers (`held_sum`) or in shared memory (`shared_sum`). Where there are few rows, the columns of the output take
the place of a matrix product's 64 rows (`swap_ab`), so that none of these is empty. Factors of one byte are summed by
the unit with some 14 bits: `promote` adds each step's sum to the accumulator in fp32.

Loads run `prefetch` steps ahead of the products, as far as the ring has room: the producer waits until the slot of the
step so far back has been emptied. With `overlap epilogue` it goes on to the next tile while the consumers end this one;
without it waits for them. Another of its threads fetches what the epilogue reads at every place of the tile, where the
plan has the copy engine bring it (`load residual tma`).

CTAs walk over the tiles of the output (`persistent`), the CTAs of a cluster over neighbours, so that a tile which all
of them need is fetched once (`multicast`). Which operand's rows run along the sum and which along its own axis, and
where batch axes are, is read off the access maps (`kernels.parts.boxes`); of 16 bits wgmma takes either, so no such
operand is ever copied. fp32 is multiplied by `math tf32`, the copy engine rounding what it fetches to 11 bits, or by
`math tf32x3`, one more warpgroup splitting words (`split_words`); the left operand's rows may run across the sum there,
and comes from registers (`warpgroup_sum`). What hangs over an end is zero when fetched and dropped when stored.
"""

from __future__ import annotations

import math

from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.model import Model
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...kit.records import dataclass
from ...target.hopper import ATOM_BYTES
from ..family import Array, Problem
from ..parts import shared_sum
from ..parts.arrays import shared
from ..parts.boxes import View, copied
from ..parts.epilogue import FIRST_THREAD, Epilogue, brought, epilogue_of, staged_vectors
from ..parts.fresh import Fresh
from ..parts.leaving import turned
from ..parts.pairs import doubled, results_of
from ..parts.picks import sibling_let
from ..parts.tile_reads import READER_ALONE
from ..parts.tiles import countable, counts, fewer, tile_at
from ..parts.windows import operand_views
from ..problem import SIBLING, Contraction
from ..resources import threads_of
from . import split_words
from .declare import (
    across_of,
    as_multiplied,
    box_of,
    declare,
    ends_apart,
    ends_held,
    operand_array,
    piece_of,
    shares_of,
)
from .fetched import steps_of
from .held_sum import held_end
from .step import corner, step_at
from .walk import Walk, in_turn
from .warpgroup_sum import Factors, sum_of

MOST_ALONG = 65535  # CTAs along y or z


@dataclass(frozen=True, slots=True)
class Operand:
    """One factor: its tiles in shared memory, and the map by which it is fetched. `shares` CTAs of the cluster fetch it
    together."""

    tile: str
    view: View
    array: Array
    shares: int

    @property
    def is_along_sum(self) -> bool:
        """Whether neighbours along the sum are neighbours in memory."""
        return self.view.inner == "sum"

    @property
    def shape(self) -> tuple[int, int]:
        """The tile's rows and columns; a row is contiguous in memory."""
        rows, columns = self.array.shape
        return rows, columns

    @property
    def span(self) -> int:
        """Bytes of a swizzled row."""
        return self.array.swizzle

    @property
    def box(self) -> tuple[int, int]:
        """What one copy brings."""
        return box_of(self.array, self.shares)

    @property
    def bytes(self) -> int:
        """Of one tile."""
        return math.prod(self.shape) * self.view.tensor.type.dtype.bytes

    def declared(self, fresh: Fresh, rounding: str) -> tuple[Statement, Statement]:
        """The map, which may round, and the ring of tiles."""
        sides, view = iter(self.box), self.view
        box = tuple(ONE if d.role in ("batch", "tap") else Expr.of(next(sides)) for d in view.dims)
        dims = () if view.windows or view.shape == view.tensor.type.shape else view.shape
        swizzle = 0 if self.span == ATOM_BYTES else self.span
        mapped = nodes.TensorMap(
            f"{fresh(self.tile)}.map", view.tensor.name, box, swizzle, dims, rounding, view.windows
        )
        return mapped, shared(fresh(self.tile), self.array)


def warp_specialized_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `warp_specialized`."""
    region, kernel, model = problem.region, problem.kernel, problem.model
    sides = piece_of(plan, region, kernel)
    plan, kernel = as_multiplied(plan, kernel)
    fresh = Fresh(model, region)
    operands = _operand(plan, region, kernel, 0), _operand(plan, region, kernel, 1)
    walk = _walk(plan, kernel, model, fresh)
    epilogue = _end_of(plan, region, kernel, fresh, sides)
    cluster, threads = _cluster(plan) * plan.parts, threads_of(plan)
    declared = [o.declared(fresh, "tf32" if plan.math == "tf32" else "") for o in operands]
    body: list[Statement] = [*([nodes.Assume(plan.assume)] if plan.assume else []), *walk.assumes]
    low = split_words.declared(plan, kernel, fresh) if plan.is_split else ()
    body += [m for m, _ in declared] + [*epilogue.maps] + [t for _, t in declared] + [*low[:1], *epilogue.tiles]
    steps = nodes.Let(fresh("steps"), plan.partials * steps_of(plan, region, kernel).ceildiv(plan.partials))
    body.append(nodes.Mbarrier(fresh("full"), 1, plan.stages))
    body += (
        [*walk.before, steps, nodes.Fence("mbarrier_init"), _first_step(plan, kernel, operands, fresh)]
        if ends_held(plan)
        else []
    )
    body.append(nodes.Mbarrier(fresh("empty"), plan.sharers * max(1, len(_readers(plan, operands))), plan.stages))
    body += [nodes.Mbarrier(fresh("done"), plan.consumers.count)] if ends_apart(plan) else []
    body += [nodes.Mbarrier(fresh("turn"), 1, plan.consumers.count)] if plan.takes_turns else []
    body += [
        *epilogue.barriers,
        *low[1:],
        *shared_sum.set_up(plan, fresh, _arrivals(plan)),
        nodes.Fence("mbarrier_init"),
        *shared_sum.told(plan),
    ]
    body += [
        nodes.Barrier("cluster" if _cluster(plan) > 1 else "cta"),
        *(() if ends_held(plan) else (*walk.before, steps)),
    ]
    again = (split_words.resummed(plan, region, kernel, fresh),) if plan.is_split else ()
    body += [
        _producer(plan, kernel, walk, operands, epilogue, fresh),
        *_splitter(plan, walk, fresh),
        _consumer(plan, kernel, walk, operands, epilogue, again, fresh),
    ]
    if plan.has_one_tile and not ends_held(plan):
        body += shared_sum.finished(plan, region, kernel, fresh, threads, staged_vectors(plan, region, kernel, fresh))
    return Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        _grid(plan, kernel),
        (threads,),
        tuple(body),
        (cluster,) if cluster > 1 else (),
        regs=0 if plan.regs else declare(plan, problem).registers,
    )


def _end_of(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, sides: tuple[int, int]) -> Epilogue:
    """How the consumers leave their accumulators: to the output, cut sums with what other CTAs send, or to shared
    memory, from which all threads end the sum."""
    if not plan.has_one_tile:
        return epilogue_of(plan, region, kernel, fresh, sides)
    if ends_held(plan):
        return held_end(plan, region, kernel, fresh)
    staged = staged_vectors(plan, region, kernel, fresh)
    early = tuple(brought(plan, kernel, fresh, s) for s in staged)
    tiles = *shared_sum.declared(plan, kernel, fresh), *(s.tile for s in staged)
    return Epilogue(kernel.dtype, (), tiles, early, (), (), shared_sum.kept(plan, kernel, fresh), ())


def _arrivals(plan: Plan) -> int:
    """How many threads tell a CTA what the others send it."""
    return plan.consumers.count if ends_held(plan) else 1


def _readers(plan: Plan, operands: tuple[Operand, Operand]) -> tuple[int, ...]:
    """The CTAs of the cluster that read what is fetched to a slot; none where each fetches for itself."""
    return tuple(range(_cluster(plan))) if any(o.shares > 1 for o in operands) else ()


def _cluster(plan: Plan) -> int:
    return math.prod(plan.cluster.shape) if plan.cluster else 1


def _operand(plan: Plan, region: Region, kernel: Contraction, side: int) -> Operand:
    read = (kernel.lhs, kernel.rhs)[side]
    view = operand_views(region, kernel)[side]
    view = copied(view, region, plan.layout_of(read.tensor))
    return Operand("ab"[side], view, operand_array(plan, kernel, side), shares_of(plan, kernel, side))


def _tiles(plan: Plan, kernel: Contraction) -> tuple[Expr, Expr, Expr]:
    """How many tiles there are for a cluster, or for a CTA where there is none: along left, along right, of batch."""
    rows, columns = (extent_of(g).ceildiv(size * c) for g, size, c in zip(kernel.groups, plan.tile, across_of(plan)))
    return rows, columns, extent_of(kernel.batch)


def _grid(plan: Plan, kernel: Contraction) -> tuple[Expr, ...]:
    """CTAs along x; where each has one tile also along y, one for a row of tiles of the output, and z, one for each of
    a batch."""
    if plan.persistent:
        return (Expr.of(plan.persistent),)
    (rows, columns, batch), ctas = _tiles(plan, kernel), _cluster(plan) * plan.parts
    if not plan.has_one_tile:
        return (ctas * rows * columns * batch,)
    wide, high = turned(plan, (columns, rows))
    return (ctas * wide, high, *((batch,) if kernel.batch else ()))


def _walk(plan: Plan, kernel: Contraction, model: Model, fresh: Fresh) -> Walk:
    """The order of the tiles. One that is all its CTA does is found without a division, which the first load would wait
    for."""
    rows, columns, batch = _tiles(plan, kernel)
    corners, of_results = [], results_of(plan, kernel)[0].tile
    for word, tile, size, across in zip(("m0", "n0"), ("tm", "tn"), of_results, across_of(plan)):
        corners.append(
            nodes.Let(
                fresh(word), across * size * fresh.expr(tile) + (size * Expr.of("cluster.rank") if across > 1 else 0)
            )
        )
    if plan.has_one_tile:
        x, y = turned(plan, ("tn", "tm"))
        mine = (
            nodes.Let(fresh(x), Expr.of("cta.x") // (_cluster(plan) * plan.parts)),
            nodes.Let(fresh(y), Expr.of("cta.y")),
        )
        mine += (
            (nodes.Let(fresh("batch"), Expr.of("cta.z")), *sibling_let(kernel, fresh.expr("batch"), fresh(SIBLING)))
            if kernel.batch
            else ()
        )
        wide, high = turned(plan, (columns, rows))
        return Walk(
            (*countable(kernel, model, wide), *fewer(model, MOST_ALONG, high, batch)),
            (*mine, *corners),
            ZERO,
            ONE,
            ONE,
            (),
            is_single=True,
        )
    assumes, before = countable(kernel, model, rows * columns * batch), counts(fresh, rows, columns)
    inside = [*tile_at(plan, kernel, fresh, fresh.expr("tile"), columns), *corners]
    before += (nodes.Let(fresh("tiles"), fresh.expr("tiles.m") * fresh.expr("tiles.n") * batch),)
    step = Expr.of(plan.persistent // _cluster(plan)) if plan.persistent else fresh.expr("tiles")
    return Walk(assumes, before, Expr.of("cta.x") // _cluster(plan), fresh.expr("tiles"), step, tuple(inside))


def _first_step(plan: Plan, kernel: Contraction, operands: tuple[Operand, Operand], fresh: Fresh) -> Statement:
    """The loads of a cut sum's first step, which every CTA has: on their way before the CTA's threads have met."""
    fill = _fill(plan, kernel, operands, fresh, "first", ZERO, shared_sum.steps(plan, fresh)[0])
    return nodes.If((Bound(Expr.of("thread.index"), equals=ZERO),), fill)


def _producer(
    plan: Plan,
    kernel: Contraction,
    walk: Walk,
    operands: tuple[Operand, Operand],
    epilogue: Epilogue,
    fresh: Fresh,
) -> Statement:
    slot, begun = fresh.expr("p", "slot"), int(ends_held(plan))
    cursors = [nodes.Cursor(fresh("p"), plan.stages, begun, phase=1)]
    emptied = plan.stages - plan.asynchrony.prefetch + begun
    if emptied > begun:  # loads run less far ahead than there are slots: they wait for a slot that is emptied later
        cursors.append(nodes.Cursor(fresh("w"), plan.stages, emptied % plan.stages, phase=int(emptied < plan.stages)))
    behind = cursors[-1].name
    fill = (
        nodes.Wait(Place(fresh("empty"), slot=Expr.of(f"{behind}.slot")), Expr.of(f"{behind}.phase")),
        *_fill(plan, kernel, operands, fresh, "load", slot, fresh.expr("k")),
        *(nodes.Advance(c.name) for c in cursors),
    )
    first, last, step = shared_sum.steps(plan, fresh)
    tile: tuple[Statement, ...] = (nodes.For(fresh("k"), first + begun * step, last, fill, step=step),)
    if ends_apart(plan):
        cursors.append(nodes.Cursor(fresh("d"), 1, phase=1))
        tile = (nodes.Wait(Place(fresh("done")), fresh.expr("d", "phase")), nodes.Advance(fresh("d")), *tile)
    loop = walk.over(fresh("tile"), tile)
    shared = _readers(plan, operands)  # others write to this CTA's slots and barriers
    one = (
        *cursors,
        *loop,
        *((nodes.Drain(fresh("empty"), fresh("p")),) if shared else ()),
    )
    before, for_tile = epilogue.reader
    reader = (nodes.If(READER_ALONE, (*before, *walk.over(fresh("tile"), for_tile))),) if for_tile else ()
    threads = (nodes.If(FIRST_THREAD, one), *reader)
    return nodes.Role("producer", "warpgroups", 0, 1, threads, plan.regs.producer if plan.regs else 0)


def _fill(
    plan: Plan, kernel: Contraction, operands: tuple[Operand, Operand], fresh: Fresh, word: str, slot: Expr, k: Expr
) -> tuple[Statement, ...]:
    """The loads of step `k` into a slot."""
    full = Place(fresh("full"), slot=slot)
    at = step_at(tuple(o.view for o in operands), plan, kernel, fresh, k)
    lets = tuple(nodes.Let(str(name), e) for name, e in at.lets)
    fill: list[Statement] = [*lets, nodes.Arrive(full, sum(o.bytes for o in operands))]
    for o in operands[
        :: -1 if plan.parts > 1 and not plan.swap_ab else 1
    ]:  # what few rows fetch once comes before what they all fetch
        source = Place(f"{fresh(o.tile)}.map", corner(o.view, plan, kernel, fresh, at))
        fill.append(
            nodes.TmaLoad(
                f"{word}.{o.tile}",
                Place(fresh(o.tile), slot=slot),
                source,
                full,
                tuple(range(o.shares)) if o.shares > 1 else (),
            )
        )
    return tuple(fill)


def _splitter(plan: Plan, walk: Walk, fresh: Fresh) -> tuple[Statement, ...]:
    """The role that splits words, where a plan has one."""
    body = (
        nodes.Cursor(fresh("c"), plan.stages),
        *walk.over(fresh("tile"), (split_words.splitter_steps(plan, fresh),)),
    )
    return (
        (nodes.Role("splitter", "warpgroups", 1, 2, body, plan.regs.producer if plan.regs else 0),)
        if plan.is_split
        else ()
    )


def _consumer(
    plan: Plan,
    kernel: Contraction,
    walk: Walk,
    operands: tuple[Operand, Operand],
    epilogue: Epilogue,
    again: tuple[Statement, ...],
    fresh: Fresh,
) -> Statement:
    """The warpgroups that sum; `again` comes between a sum and its epilogue."""
    left, right = operands
    rows, each = plan.tile[0] // plan.sharers, doubled(kernel, 0)
    part = each * fresh.expr("part") if plan.sharers > 1 else ZERO
    dtypes = (o.view.tensor.type.dtype for o in operands)
    factors = Factors(rows, *dtypes, left.is_along_sum, right.is_along_sum, part, _readers(plan, operands))
    found = sum_of(plan, factors, epilogue.dtype, epilogue.early, fresh)
    body: list[Statement] = [nodes.Cursor(fresh("s"), plan.stages)]
    if plan.sharers > 1:
        body.append(nodes.Let(fresh("part"), rows // each * Expr.of("warpgroup.index")))
    done = (nodes.Barrier("warpgroup"), nodes.Arrive(Place(fresh("done")))) if ends_apart(plan) else ()
    summed = found.statements
    if plan.takes_turns:
        before, summed, walk = in_turn(plan, walk, summed, fresh)
        body += before
    body += [
        *epilogue.before,
        *found.registers,
        *walk.over(fresh("tile"), (*epilogue.asked, *summed, *again, *epilogue.pieces, *done)),
        *epilogue.after,
    ]
    return nodes.Role(
        "consumer",
        "warpgroups",
        1 + plan.is_split,
        1 + plan.is_split + plan.consumers.count,
        tuple(body),
        plan.regs.consumer if plan.regs else 0,
    )
