"""The multistage template of a contraction for mma.sync: a ring of tiles filled by cp.async, fragments by ldmatrix
(seed 001 section 9).

    fill the first `prefetch` slots; wait for the first; fetch its first fragments
    for k: start filling the slot that was left last
      for each 16 of the tile's depth: fetch the fragments of the next 16, multiply the present ones
      before the last of them: wait for the next tile, meet, go on to its slot
    (where a product takes long, its own fragments are fetched before it, and the wait is at the loop's start)
    the epilogue, warp by warp (`warp_epilogue`)

Whether an operand's rows run along the sum or across it is read off its map, and ldmatrix takes either, so no layout
needs a copy. An operand whose rows begin on multiples of 4, 8 or 16 bytes is copied asynchronously by as many; one
whose rows do not, element by element, since a copy of 2 bytes is not asynchronous; so is one that is gathered (a window
of a convolution, with its guard). One that the plan pads is copied 16 bytes at once from its copy (`padding`), where
every row has whole ones. What hangs over an end is zero. fp32 is multiplied as `math` says (`target.tf32`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.body import Axis, Body, Literal, Read
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.model import Model
from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.traits import extent_of
from ...ir.types import TensorType
from ...kit.records import dataclass
from ..family import Array, Problem
from ..parts.arrays import shared
from ..parts.boxes import View, is_along_sum, padded, view_of
from ..parts.fresh import Fresh
from ..parts.point import Values, below, divides, guarded, named, split
from ..parts.tiles import countable, counts, tile_at
from ..problem import Contraction
from .declare import FRAGMENTS, STEP, declare, tile_array
from .epilogue import warp_epilogue

SHAPES = {2: "m16n8k16", 4: "m16n8k8"}  # of one mma, by the bytes of an element
CORNERS = ("m0", "n0")


@dataclass(frozen=True, slots=True)
class Operand:
    """One factor: its tile, and `width` neighbours that one copy moves, later where it `is_async`. `is_along_sum`: the
    tile's rows, as the tensor's, run along the sum. `copy` is the view of its padded copy, from which it is read where
    it has one."""

    tile: str
    factor: Body
    read: Read
    axes: tuple[Axis, ...]
    corner: str
    size: int
    array: Array
    width: int
    is_async: bool
    is_along_sum: bool
    copy: View | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """Of its copies, the first ones and those of the loop; none where they are not asynchronous."""
        return (f"first.{self.tile}", f"load.{self.tile}") if self.is_async else ()


def multistage_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `multistage`."""
    region, kernel, model = problem.region, problem.kernel, problem.model
    fresh = Fresh(model, region)
    operands = _operand(plan, region, kernel, 0), _operand(plan, region, kernel, 1)
    epilogue = warp_epilogue(plan, region, kernel, fresh)
    body: list[Statement] = [nodes.Assume(plan.assume)] if plan.assume else []
    place, grid = _place(plan, kernel, model, fresh)
    body += [shared(fresh(o.tile), o.array) for o in operands]
    body += [epilogue.tile, *place]
    rows, columns = plan.warp_tile
    body.append(
        nodes.Reg(
            fresh("acc"),
            TensorType(kernel.dtype, (Expr.of(rows), Expr.of(columns))),
            kind="mma",
            init=Literal(0.0, kernel.dtype),
        )
    )
    for o, shape in zip(operands, ((rows, STEP), (STEP, columns))):
        body.append(nodes.Reg(f"{fresh(o.tile)}f", _matrix(o.read, shape), FRAGMENTS[plan.math], f"mma_{o.tile}"))
    body += [*_loop(plan, region, kernel, operands, fresh), *epilogue.statements]
    return Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        (grid,),
        plan.threads,
        tuple(body),
        regs=declare(plan, problem).registers,
    )


def _operand(plan: Plan, region: Region, kernel: Contraction, side: int) -> Operand:
    read, axes = (kernel.lhs, kernel.rhs)[side], kernel.groups[side]
    is_along = is_along_sum(kernel, side)
    inner = (kernel.sum if is_along else axes)[-1].name
    is_async, view = plan.load_of(read.tensor).by == "cp_async", view_of(region, read.tensor, read.index, kernel)
    copy = padded(view, region) if plan.is_padded(read.tensor) and isinstance(view, View) else None
    width = (
        ACCESS_BYTES // read.dtype.bytes
        if copy is not None
        else plan.width_of(inner)
        if is_async and isinstance(view, View)
        else 1
    )
    return Operand(
        "ab"[side],
        kernel.factors[side],
        read,
        axes,
        CORNERS[side],
        plan.tile[side],
        tile_array(plan, kernel, side),
        width,
        is_async,
        is_along,
        copy,
    )


def _matrix(read: Read, shape: tuple[int, int]) -> TensorType:
    return TensorType(read.dtype, tuple(map(Expr.of, shape)))


def _place(plan: Plan, kernel: Contraction, model: Model, fresh: Fresh) -> tuple[list[Statement], Expr]:
    """What gives a CTA its tile and a warp its part of it, and the number of CTAs."""
    rows, columns = (extent_of(g).ceildiv(size) for g, size in zip(kernel.groups[:2], plan.tile))
    count = rows * columns * extent_of(kernel.batch)
    body: list[Statement] = [
        *countable(kernel, model, count),
        *counts(fresh, rows, columns),
        *tile_at(plan, kernel, fresh, Expr.of("cta.x"), columns),
    ]
    body += [
        nodes.Let(fresh(word), size * fresh.expr(tile)) for word, tile, size in zip(CORNERS, ("tm", "tn"), plan.tile)
    ]
    across, warp = plan.tile[1] // plan.warp_tile[1], Expr.of("warp.index")
    parts = warp // across, warp - across * (warp // across)
    body += [nodes.Let(fresh(word), size * part) for word, size, part in zip(("wm", "wn"), plan.warp_tile, parts)]
    return body, count


def _loop(
    plan: Plan, region: Region, kernel: Contraction, operands: tuple[Operand, Operand], fresh: Fresh
) -> Iterator[Statement]:
    """The ring's first tiles, then the walk along the sum."""
    bk, ahead = plan.tile[2], plan.asynchrony.prefetch
    tokens = tuple(t for number in (0, 1) for o in operands for t in o.tokens[number : number + 1])
    s, p, k = fresh.expr("s", "slot"), fresh.expr("p", "slot"), fresh.expr("k")
    first = [_fill(o, region, kernel, fresh, fresh.expr("t"), bk * fresh.expr("t"), 0) for o in operands]
    first += [nodes.Commit(tuple(o.tokens[0] for o in operands if o.tokens))] if tokens else []
    yield nodes.For(fresh("t"), ZERO, Expr.of(ahead), tuple(first), unroll=0)
    yield nodes.Cursor(fresh("p"), plan.stages, ahead)
    yield nodes.Cursor(fresh("s"), plan.stages)
    ready = (*((nodes.WaitGroup("cp_async", ahead - 1, tokens),) if tokens else ()), nodes.Barrier("cta"))
    fill: list[Statement] = [nodes.Let(fresh("next"), k + ahead * bk)]
    fill += [_fill(o, region, kernel, fresh, p, fresh.expr("next"), 1) for o in operands]
    fill += [nodes.Commit(tuple(o.tokens[1] for o in operands if o.tokens))] if tokens else []
    onward = (nodes.Advance(fresh("p")), nodes.Advance(fresh("s")))
    steps = range(bk // STEP)
    products = [_product(plan, kernel, operands, step, fresh) for step in steps]
    if FRAGMENTS[plan.math] == 1:
        body = [
            *ready,
            *fill,
            *(part for step in steps for part in (*_fragments(operands, step, s, plan, fresh), products[step])),
            *onward,
        ]
    else:
        yield from ready
        yield from _fragments(operands, 0, s, plan, fresh)
        body = fill
        for step in steps:
            is_last = step == len(steps) - 1
            body += (*onward, *ready) if is_last else ()
            body += (*_fragments(operands, 0 if is_last else step + 1, s, plan, fresh), products[step])
    yield nodes.For(fresh("k"), ZERO, extent_of(kernel.sum), tuple(body), step=Expr.of(bk))
    if tokens:
        yield nodes.WaitGroup("cp_async", 0, tokens)


def _set(plan: Plan, step: int) -> Expr | None:
    """Which set of fragments a step's are in."""
    return Expr.of(step % FRAGMENTS[plan.math]) if FRAGMENTS[plan.math] > 1 else None


def _product(plan: Plan, kernel: Contraction, operands: tuple[Operand, Operand], step: int, fresh: Fresh) -> Statement:
    places = (Place(f"{fresh(o.tile)}f", slot=_set(plan, step)) for o in operands)
    return nodes.Mma(fresh("acc"), *places, SHAPES[kernel.lhs.dtype.bytes], plan.math)


def _fragments(
    operands: tuple[Operand, Operand], step: int, slot: Expr, plan: Plan, fresh: Fresh
) -> Iterator[Statement]:
    for o, start in zip(operands, ("wm", "wn")):
        along, side = Expr.of(STEP * step), fresh.expr(start)
        source = Place(fresh(o.tile), (side, along) if o.is_along_sum else (along, side), slot)
        yield nodes.Ldmatrix(
            Place(f"{fresh(o.tile)}f", slot=_set(plan, step)),
            source,
            o.is_along_sum if o.tile == "b" else not o.is_along_sum,
        )


def _fill(
    o: Operand, region: Region, kernel: Contraction, fresh: Fresh, slot: Expr, start: Expr, turn: int
) -> Statement:
    """Brings the tile of the sum's elements from `start` on into a slot."""
    r, c = fresh("r"), fresh("c")
    side, along = (r, c) if o.is_along_sum else (c, r)
    over = tuple((name, Expr.of(size)) for name, size in zip((r, c), o.array.shape))
    to = Place(fresh(o.tile), (Expr.of(r), Expr.of(c)), slot)
    if o.copy is not None:
        places = {"sum": start + along, "left": fresh.expr(o.corner) + side, "right": fresh.expr(o.corner) + side}
        return nodes.CpAsync(o.tokens[turn], to, over, _from_copy(o, o.copy, kernel, places, fresh), o.width, ())
    first, first_lets = named(o.axes, fresh.expr(o.corner) + side, fresh("row" if o.tile == "a" else "col"))
    second, second_lets = named(kernel.sum, start + along, fresh("term"))
    guard = () if divides(o.size, extent_of(o.axes)) else below(first, extent_of(o.axes))
    guard += below(second, extent_of(kernel.sum))
    point = {a.name: Expr.of(a.name) for a in (*o.axes, *kernel.sum)} | split(fresh.expr("batch"), kernel.batch)
    value = guarded(guard, Values(region, point).at(o.factor))
    lets = (*first_lets, *second_lets)
    return (
        nodes.CpAsync(o.tokens[turn], to, over, value, o.width, lets)
        if o.tokens
        else nodes.Copy(to, over, value, 1, lets)
    )


def _from_copy(o: Operand, copy: View, kernel: Contraction, places: Mapping[str, Expr], fresh: Fresh) -> Body:
    """An element of a padded copy, whose rows are whole vectors: what is behind an end of the tensor is zero there."""
    batch = split(fresh.expr("batch"), kernel.batch)
    index = tuple(d.place(batch) if d.role == "batch" else places[d.role] for d in copy.dims)
    is_guarded = [
        d.role == "sum" or d.role != "batch" and not divides(o.size, size) for d, size in zip(copy.dims, copy.shape)
    ]
    guard = tuple(b for is_so, size, e in zip(is_guarded, copy.shape, index) if is_so for b in below(e, size))
    return guarded(guard, Read(copy.tensor.name, index, o.read.dtype))
