"""How an accumulator of wgmma leaves: the region's values on it, piece by piece, and each output by the copy engine, by
threads along its rows, or from registers.

    for j in 0..4 unroll                            pieces of 64 rows and as many columns as a swizzled row of the
                                                    output holds
      wait until the piece before the last has left shared memory; barrier
      each r, n of acc[0, 64*j] size [64, 64]
        %bias_add, %relu ...                        reads of tensors are guarded where a tile may hang over the end
        store c[...][r, n] = cast(%relu) : fp16 by stmatrix
      fence; barrier; one thread: tma_store, or all of them: store_rows

What takes long is computed before the wait (`computed_early`).

What a value reads along one side of the tile alone (a bias, a scale of the rows) is asked for before the first
products, and put into shared memory while they run. What it reads at each place of the tile (a residual) the copy
engine brings where the plan says so (`tile_reads`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Container

from ...ir.accumulate import literal
from ...ir.body import Body, BroadcastInDim, Read, Transpose, Unary, rebuild, substitute
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region, Yield
from ...ir.traits import axes_of, extent_of
from ...ir.types import DType, TensorType
from ...kit.records import dataclass, replace
from ...target.hopper import SWIZZLE_BYTES, WARPGROUP, WARPGROUP_ROWS
from ..problem import Contraction
from . import leave_in_columns as in_columns
from .arrays import shared
from .boxes import Vector, View, vectors_of
from .computed_early import put_out, takes_long
from .fresh import Fresh
from .leaving import (
    STAGED,
    STAGED_STORES,
    leave_by_rows,
    leave_in_columns,
    output_array,
    sums_array,
    turned,
    vector_array,
)
from .pairs import corners_of, left_view, pair_side, results_of
from .point import Values, below, divides, element_store, from_shared, guarded, split
from .sum_arrays import SUMS
from .tile_reads import TileReads

HELD = "held"  # how an output leaves
MOST_HELD = (
    128  # numbers of an accumulator in a thread, beside which a vector's elements find registers through the first step
)
MOST_EARLY = 192  # registers of accumulators and a piece computed early: 192 and 32 spill in 240
FIRST_THREAD = (Bound(Expr.of("warpgroup.thread"), equals=ZERO),)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`maps`, `tiles` and `barriers` to declare; statements `before` the walk over tiles, `asked` before a tile's sum,
    `early` in its first step, `pieces` at its end, `after` the walk; and what the reader of tiles does before its walk
    and for each tile."""

    dtype: DType
    maps: tuple[Statement, ...]
    tiles: tuple[Statement, ...]
    before: tuple[Statement, ...]
    asked: tuple[Statement, ...]
    early: tuple[Statement, ...]
    pieces: tuple[Statement, ...]
    after: tuple[Statement, ...]
    barriers: tuple[Statement, ...] = ()
    reader: tuple[tuple[Statement, ...], tuple[Statement, ...]] = ((), ())


@dataclass(frozen=True, slots=True)
class Leaving:
    """An output that leaves through shared memory, by the copy engine or (`by` rows) by threads, or from registers
    (HELD): its view, the tile there, and the token of its store; of one that takes the columns of a pair which `half`
    it is."""

    item: Yield
    dtype: DType
    view: View
    by: str
    tile: str
    token: str
    span: int  # bytes of a swizzled row of the tile
    half: int | None = None


def epilogue_of(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, sides: tuple[int, int]) -> Epilogue:
    """The epilogue of a plan, of which this number of rows and columns of a warpgroup's accumulator leave together
    (`leaving.piece_beside`)."""
    down, chunk = sides
    held, paired = math.prod(plan.tile[:2]), kernel
    plan, kernel = results_of(plan, kernel)
    leaving = tuple(
        _leaving(plan, region, paired, fresh, y, sides)
        for y in region.yields
        if plan.store_of(y.output).by in STAGED_STORES
    )
    by_engine = tuple(item for item in leaving if item.by == "tma")
    rows = plan.tile[0] // plan.sharers
    waits = tuple(item.token for item in by_engine)
    staged = staged_vectors(plan, region, kernel, fresh)
    near = TileReads(plan, region, kernel, fresh, sides)
    is_early = down == WARPGROUP_ROWS and not near.all and not near.blocks and _is_early(plan, region, leaving, chunk)

    def statements(across: Expr, columns: int) -> tuple[Statement, ...]:
        """This number of columns of the accumulator, from `across` on."""
        piece = _piece_of(plan, region, fresh, across, (down, columns))
        if leave_in_columns(plan, region):
            vectors = tuple((s.vector.side, s.vector.body, s.tile.name) for s in staged)
            origin = piece.origin["left"], piece.origin["right"]
            hangs = tuple(bool(bounds_of(fresh.expr("row"), plan, kernel, side)) for side in (0, 1))
            one = in_columns.Piece(piece.corner, origin, columns, vectors, hangs)
            return in_columns.piece(plan, region, kernel, fresh, one)
        at_once = tuple(replace(item, by=HELD, tile=fresh(f"{item.tile}.held")) for item in leaving) if is_early else ()
        elements_: Statement = elements(plan, region, paired, fresh, at_once or leaving, piece, staged, near=near)
        if down > WARPGROUP_ROWS:
            elements_ = nodes.For(fresh("i"), ZERO, Expr.of(down // WARPGROUP_ROWS), (elements_,), unroll=0)
        stores = [stored(item, piece, plan, paired, fresh) for item in leaving]
        along = tuple(s for s in stores if isinstance(s, nodes.StoreRows))
        if not leaving:
            return (elements_,)
        if not by_engine:
            return (nodes.Barrier("warpgroup"), elements_, nodes.Barrier("warpgroup"), *along)
        wait = nodes.WaitGroup("tma_store", (STAGED - 1) * len(by_engine), waits)
        by_one = tuple(s for s in stores if isinstance(s, nodes.TmaStore))
        before: tuple[Statement, ...] = (nodes.If(FIRST_THREAD, (wait,)), nodes.Barrier("warpgroup"))
        if is_early:
            shape = (Expr.of(WARPGROUP_ROWS), Expr.of(columns))
            held = (nodes.Reg(item.tile, TensorType(kernel.dtype, shape), kind="wgmma") for item in at_once)
            before = (*held, elements_, *before)
            point = fresh.expr("r"), fresh.expr("n")
            to = Place(leaving[0].tile, turned(plan, point), piece.slot)
            elements_ = put_out(Read(at_once[0].tile, point, kernel.dtype), to, leaving[0].dtype)
        return (
            *before,
            *near.awaited,
            elements_,
            nodes.Fence("async_proxy"),
            nodes.Barrier("warpgroup"),
            *near.given_back,
            nodes.If(FIRST_THREAD, by_one),
            *along,
            nodes.Advance(fresh("o")),
        )

    whole = plan.tile[1] // chunk
    body = statements(chunk * fresh.expr("j") if whole > 1 else ZERO, chunk)
    if whole > 1:
        body = (nodes.For(fresh("j"), ZERO, Expr.of(whole), body, unroll=0),)
    if plan.tile[1] % chunk:
        body = (*body, *statements(Expr.of(chunk * whole), plan.tile[1] % chunk))
    if is_early and staged:  # vectors are read before the first piece waits
        first: tuple[Statement, ...] = (nodes.Barrier("warpgroup"),)
    else:
        first = ()
    if staged and not leaving:
        body = (nodes.Barrier("warpgroup"), *body, nodes.Barrier("warpgroup"))
    if rows > down:
        body = (nodes.For(fresh("i"), ZERO, Expr.of(rows // down), body, unroll=0),)
    last = (nodes.If(FIRST_THREAD, (nodes.WaitGroup("tma_store", 0, waits),)),) if by_engine else ()
    cursor = (nodes.Cursor(fresh("o"), STAGED), *near.cursors) if by_engine else ()
    maps, tiles = _declared(plan, region, leaving, sides)
    if leave_in_columns(plan, region):
        tiles = (shared(fresh(SUMS), sums_array(plan, kernel.dtype, chunk)),)
    fetched = (*near.all, *near.blocks)
    maps, tiles = (*(each.map for each in fetched), *maps), (*(each.tile for each in fetched), *tiles)
    asked, early = (), tuple(brought(plan, kernel, fresh, s) for s in staged)
    if staged and held <= MOST_HELD * plan.sharers * WARPGROUP:
        parted = [asked_for(plan, kernel, fresh, s) for s in staged]
        asked, early = (
            tuple(itertools.chain.from_iterable(first for first, _ in parted)),
            tuple(last for _, last in parted),
        )
    tiles = (*tiles, *(s.tile for s in staged))
    reader = near.piece() if fetched else ((), ())
    body = (*first, *near.around(body))
    return Epilogue(kernel.dtype, maps, tiles, cursor, asked, early, body, last, near.barriers, reader)


def _is_early(plan: Plan, region: Region, leaving: tuple[Leaving, ...], chunk: int) -> bool:
    """Whether a piece is computed before there is room for it, in registers beside the accumulators."""
    sums = plan.tile[0] * plan.tile[1] // (plan.sharers * WARPGROUP)
    is_alone = [(i.by, i.dtype.bytes, i.half) for i in leaving] == [("tma", 2, None)]
    return is_alone and sums + WARPGROUP_ROWS * chunk // WARPGROUP <= MOST_EARLY and takes_long(region)


def _leaving(
    plan: Plan, region: Region, kernel: Contraction, fresh: Fresh, item: Yield, sides: tuple[int, int]
) -> Leaving:
    (view, half), by = (
        left_view(region, kernel, item, "left" if plan.swap_ab else "right"),
        plan.store_of(item.output).by,
    )
    dtype = next(t.type.dtype for t in region.outputs if t.name == item.output)
    span = min(turned(plan, sides)[1] * dtype.bytes, SWIZZLE_BYTES)
    word = ".high" if half else ""
    return Leaving(item, dtype, view, by, tile_of(item, fresh, word), f"store.{item.output}{word}", span, half)


def tile_of(item: Yield, fresh: Fresh, word: str = "") -> str:
    """The name of what holds an output's values on their way out."""
    return fresh(re.sub(r"\W", "_", item.output) + f"{word}.out")


def _tile_shape(plan: Plan, sides: tuple[int, int]) -> tuple[Expr, Expr]:
    """Rows and columns of a piece of the accumulator, as the output has them."""
    return turned(plan, tuple(map(Expr.of, sides)))


def _box_of(view: View, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The sides of a tile along the dims of an output."""
    sides = iter(shape)
    return tuple(ONE if d.role == "batch" else next(sides) for d in view.dims)


def _dims_of(view: View) -> tuple[Expr, ...]:
    """The dims of a view, where they are not the tensor's own."""
    return () if view.shape == view.tensor.type.shape else view.shape


@dataclass(frozen=True, slots=True)
class Staged:
    """A vector's place in shared memory: one array a warpgroup, as long as its part of the tile."""

    vector: Vector
    tile: nodes.Shared
    length: int
    register: str

    def at(self, index: Expr) -> Body:
        """The element `index` of the CTA's tile, whichever warpgroup brought it."""
        slot = index // self.length if self.tile.ring > 1 else None
        return Read(
            self.tile.name, (index if slot is None else index - self.length * slot,), self.vector.body.dtype, slot
        )


def staged_vectors(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh) -> tuple[Staged, ...]:
    """The vectors of a plan's epilogue. Along the side that the warpgroups share each holds its part, along the other
    each the whole."""
    return tuple(_staged(plan, fresh, vector, number) for number, vector in enumerate(vectors_of(region, kernel)))


def _staged(plan: Plan, fresh: Fresh, vector: Vector, number: int) -> Staged:
    array = vector_array(plan, vector)
    label = re.sub(r"\W", "_", vector.tensor) + (f".tile{number}" if number else ".tile")
    return Staged(
        vector,
        shared(fresh(label), array),
        *array.shape,
        fresh(f"{label}.early"),
    )


def _warpgroup(plan: Plan) -> Expr | None:
    return Expr.of("warpgroup.index") if plan.consumers.count > 1 else None


def brought(plan: Plan, kernel: Contraction, fresh: Fresh, staged: Staged) -> Statement:
    """A vector into shared memory: each thread brings an element, or several a warpgroup apart."""
    return _put(plan, fresh, staged, _fetched(plan, kernel, fresh, staged))


def asked_for(plan: Plan, kernel: Contraction, fresh: Fresh, staged: Staged) -> tuple[tuple[Statement, ...], Statement]:
    """The same in two: into registers, which nobody waits for, and from there into shared memory."""
    body, kept = (
        _fetched(plan, kernel, fresh, staged),
        Place(staged.register, (fresh.expr("v") if staged.length > WARPGROUP else ZERO,)),
    )
    turns = Expr.of(-(-staged.length // WARPGROUP))
    register = nodes.Reg(staged.register, TensorType(body.dtype, (turns,)), init=literal(0, body.dtype))
    return (register, _by_threads(staged, fresh, nodes.Assign(kept, body))), _put(
        plan, fresh, staged, Read(kept.name, kept.index, body.dtype)
    )


def _fetched(plan: Plan, kernel: Contraction, fresh: Fresh, staged: Staged) -> Body:
    """The element of a vector that a thread brings."""
    group = kernel.groups[staged.vector.side]
    word = turned(plan, ("row", "col"))[staged.vector.side]
    start = (fresh.expr("m0") + (fresh.expr("part") if plan.sharers > 1 else 0), fresh.expr("n0"))[staged.vector.side]
    place = fresh.expr(word)
    point = {**split(place, group), **split(fresh.expr("batch"), kernel.batch)}
    inside = {
        place: (
            *bounds_of(place, plan, kernel, staged.vector.side),
            *(b.substitute(point) for b in staged.vector.limits),
        )
    }
    return substitute(
        _shielded(substitute(staged.vector.body, point), (), inside), {str(place): start + _element_of(staged, fresh)}
    )


def _put(plan: Plan, fresh: Fresh, staged: Staged, body: Body) -> Statement:
    return _by_threads(
        staged, fresh, nodes.Store(Place(staged.tile.name, (_element_of(staged, fresh),), _warpgroup(plan)), body)
    )


def _element_of(staged: Staged, fresh: Fresh) -> Expr:
    return Expr.of("warpgroup.thread") + (WARPGROUP * fresh.expr("v") if staged.length > WARPGROUP else 0)


def _by_threads(staged: Staged, fresh: Fresh, body: Statement) -> Statement:
    """At each element of a vector that a thread brings."""
    if staged.length % WARPGROUP:
        body = nodes.If((Bound(_element_of(staged, fresh), upper=Expr.of(staged.length)),), (body,))
    return (
        nodes.For(fresh("v"), ZERO, Expr.of(-(-staged.length // WARPGROUP)), (body,), unroll=0)
        if staged.length > WARPGROUP
        else body
    )


def bounds_of(place: Expr, plan: Plan, kernel: Contraction, side: int) -> tuple[Bound, ...]:
    """The guard that a row or column is inside; empty where whole clusters of tiles fit."""
    across = (*plan.cluster.shape, 1)[side] if plan.cluster else 1
    extent = extent_of(kernel.groups[side])
    return () if divides(plan.tile[side] * across, extent) else below(place, extent)


def _declared(
    plan: Plan, region: Region, leaving: tuple[Leaving, ...], sides: tuple[int, int]
) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    maps, tiles = [], []
    shape = _tile_shape(plan, sides)
    for item in leaving:
        if item.by == "tma":
            maps.append(
                nodes.TensorMap(
                    f"{item.tile}.map", item.view.tensor.name, _box_of(item.view, shape), item.span, _dims_of(item.view)
                )
            )
        tiles.append(shared(item.tile, output_array(plan, region, item.view.tensor, sides)))
    return tuple(maps), tuple(tiles)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the accumulator: the corner in it of the current 64 rows, `below` rows after the piece's own, where
    that is among the rows and columns of the output, its slot of those on their way out, its rows and columns."""

    corner: tuple[Expr, Expr]
    origin: dict[str, Expr]
    below: Expr
    slot: Expr | None
    sides: tuple[int, int]


def _piece_of(plan: Plan, region: Region, fresh: Fresh, across: Expr, sides: tuple[int, int]) -> Piece:
    count = plan.consumers.count
    down = WARPGROUP_ROWS * fresh.expr("i") if plan.tile[0] // plan.sharers > WARPGROUP_ROWS else ZERO
    is_whole = sides[0] > WARPGROUP_ROWS
    row = fresh.expr("m0") + (0 if is_whole else down) + (fresh.expr("part") if plan.sharers > 1 else 0)
    slot = (
        _warpgroup(plan)
        if leave_by_rows(plan, region)
        else fresh.expr("o", "slot") + (STAGED * Expr.of("warpgroup.index") if count > 1 else 0)
    )
    return Piece(
        (down, across), {"left": row, "right": fresh.expr("n0") + across}, down if is_whole else ZERO, slot, sides
    )


def stored(item: Leaving, piece: Piece, plan: Plan, kernel: Contraction, fresh: Fresh) -> Statement:
    """The piece from shared memory to the output."""
    batch = split(fresh.expr("batch"), kernel.batch)
    origin = dict(piece.origin)
    if item.half is not None:  # in the operand's columns, of which a tile has twice as many
        side = pair_side(kernel)
        own = piece.origin["left"] - piece.corner[0], piece.origin["right"] - piece.corner[1]
        first = corners_of(plan, kernel, piece.corner)[item.half][side]
        origin[("left", "right")[side]] = 2 * own[side] + first
    at = tuple(d.place(batch) if d.role == "batch" else origin[d.role] for d in item.view.dims)
    tile = Place(item.tile, slot=piece.slot)
    if item.by == "tma":
        return nodes.TmaStore(item.token, Place(f"{item.tile}.map", at), tile)
    return nodes.StoreRows(
        Place(item.view.tensor.name, at), _box_of(item.view, _tile_shape(plan, piece.sides)), tile, _dims_of(item.view)
    )


def elements(
    plan: Plan,
    region: Region,
    kernel: Contraction,
    fresh: Fresh,
    leaving: tuple[Leaving, ...],
    piece: Piece,
    staged: tuple[Staged, ...],
    ended: Callable[[Body], Body] = lambda own: own,
    beside: tuple[str, ...] = (),
    near: TileReads | None = None,
) -> Statement:
    """The values and the writes of one piece, at each result that a thread holds; what `ended` makes of that is the
    sum, of the arrays `beside` it too. Plan and piece are those of results, the contraction has the sums."""
    sums, corners, kernel = kernel, corners_of(plan, kernel, piece.corner), kernel.results
    r, n, row, col = (fresh.expr(word) for word in ("r", "n", *turned(plan, ("row", "col"))))
    point = {**split(row, kernel.left), **split(col, kernel.right)}
    if kernel.batch:
        point |= split(fresh.expr("batch"), kernel.batch)
    acc, *others = (Read(fresh("acc"), (r + down, n + across), kernel.dtype) for down, across in corners)
    inside = {e: bounds_of(e, plan, kernel, side) for side, e in enumerate((row, col))}
    values = Values(region, point, dict(zip(sums.values, (ended(acc), *others))))
    held: dict[Body, Body] = {}
    for s in staged:
        index = (r + piece.corner[0], n + piece.corner[1])[s.vector.side]
        held[substitute(s.vector.body, point)] = Read(s.tile.name, (index,), s.vector.body.dtype, _warpgroup(plan))
    tiles = (*near.all, *near.blocks) if near is not None else ()
    held |= near.places(point, r, n, piece.corner) if near is not None else ()
    known = frozenset({acc.tensor, *beside, *(s.tile.name for s in staged), *(each.tile.name for each in tiles)})

    def shielded(body: Body) -> Body:
        return _shielded(from_shared(body, held), known, inside)

    statements = values.name_values(shielded)
    staged_at = {item.item: item for item in leaving}
    for item in region.yields:
        body = shielded(values.at(item.expr))
        if item in staged_at and staged_at[item].by == HELD:
            statements.append(nodes.Assign(Place(staged_at[item].tile, (r, n)), _unrounded(body, kernel.dtype)))
        elif item in staged_at:
            to = Place(staged_at[item].tile, turned(plan, (r + piece.below, n)), piece.slot)
            statements.append(nodes.Store(to, body, by="stmatrix" if body.dtype.bytes == 2 else ""))
        else:
            statements.append(
                element_store(item, body, point, region.iters, tuple(b for bounds in inside.values() for b in bounds))
            )
    used = {name for s in statements for name in _names_in(s)}
    lets = [
        nodes.Let(str(e), start + e0)
        for e, start, e0 in ((row, piece.origin["left"] + piece.below, r), (col, piece.origin["right"], n))
        if str(e) in used
    ]
    part = (corners[0], (WARPGROUP_ROWS, piece.sides[1]))
    if not others and plan.tile[:2] == (WARPGROUP_ROWS * plan.sharers, piece.sides[1]):
        part = ((), ())
    return nodes.Each((str(r), str(n)), fresh("acc"), (*lets, *statements), *part)


def _unrounded(body: Body, dtype: DType) -> Body:
    """A value in the accumulator's dtype: what stores it rounds it."""
    inner = body.x if isinstance(body, Unary) and body.op == "cast" else body
    return inner if inner.dtype == dtype else body if body.dtype == dtype else Unary("cast", body, dtype)


def _names_in(s: Statement) -> set[str]:
    """The integers that a value or a store uses."""
    if isinstance(s, nodes.If):
        return {n for b in s.guard for e in (b.expr, b.upper, b.equals) if e is not None for n in e.names()}.union(
            *map(_names_in, s.body)
        )
    place = {n for e in s.to.index for n in e.names()} if isinstance(s, nodes.Store) else set()
    return place | axes_of(s.value)


def _shielded(body: Body, known: Container[str], inside: dict[Expr, tuple[Bound, ...]]) -> Body:
    """The expression with every read of a tensor, but for the arrays `known`, guarded by the bounds of the coordinates
    in its index."""
    if isinstance(body, Read):
        names = {name for e in body.index for name in e.names()}
        bounds = tuple(b for e, bounds in inside.items() if str(e) in names for b in bounds)
        return body if body.tensor in known else guarded(bounds, body)
    assert not isinstance(body, (BroadcastInDim, Transpose)), "Values.at leaves no movement"
    return rebuild(body, lambda inner: _shielded(inner, known, inside))
