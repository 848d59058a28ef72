"""The synchronous template of a contraction (seed 002 section 6): tiles of both operands in shared memory, a micro tile of accumulators
a thread, the epilogue on the accumulators.

    shared a, b                         one tile each, along k first, in the dtype of the arithmetic
    for k: copy a, b; barrier; multiply micro tiles; barrier
    for each accumulator: the values after the fold, and the stores, where the tile lies inside

What an operand's tile holds is its factor of the product at the tile's points: a transposed operand, a guard of padding, a batch axis
are all in the read's map. Lanes follow the axis along which the operand is contiguous in memory; where that is k, a warp takes 4 x 8
points and rows of the tile are padded, so that neither side has conflicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir import resources
from ...ir.arch import ARCHS
from ...ir.body import Axis, Binary, Body, Literal, Read, Reduce, Ref, walk
from ...ir.expr import ONE, ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.kernels import Contraction, extent_of
from ...ir.plan import Plan
from ...ir.region import Region, Yield
from ...ir.types import DType, TensorType
from ...kit.diag import refuse
from .point import Values, below, cast, divides, guarded, named, needed, split, wide

VECTOR_BYTES = 16  # the widest access of a thread to shared memory
IN_A_ROW = 128  # multiply-adds of a thread between two branches
LANES_OF_K = 8  # of a warp, when the operand is contiguous along k: 8 x 2 bytes are half a sector


@dataclass(frozen=True, slots=True)
class Side:
    """One operand: its factor, the axes it has alone, and how the tile and the threads lie along them. `origin` names the tile's first
    coordinate, `row` the accumulator loop's; `width` neighbours are one access."""

    tile: str
    factor: Body
    read: Read
    axes: tuple[Axis, ...]
    size: int
    micro: int
    place: str
    threads: int
    cta: str
    origin: str
    loop: str
    row: str

    @property
    def extent(self) -> Expr:
        """Elements along the side."""
        return extent_of(self.axes)


def synchronous_kernel(plan: Plan, region: Region, kernel: Contraction) -> Kernel:
    """The kernel of a plan of algo `synchronous`. Raises Refused (E1611) for what the template has no place for."""
    fold: Reduce = region.let(kernel.value).expr
    sides = _sides(plan, fold, kernel)
    depth = plan.tile[2]
    dtype = wide(fold.body.left.dtype if fold.body.dtype == fold.body.left.dtype else fold.body.dtype)
    batch = split(_cta(plan, kernel.batch), kernel.batch) if kernel.batch else {}
    width = [math.gcd(s.micro, max(1, VECTOR_BYTES // dtype.bytes)) for s in sides]
    contiguous = [_is_contiguous_along(s.read, kernel.sum) for s in sides]
    pad = [w if along_k else 0 for w, along_k in zip(width, contiguous)]

    body: list[Statement] = [nodes.Shared(s.tile, _type(dtype, depth, s.size + p)) for s, p in zip(sides, pad)]
    body.append(nodes.Reg("acc", _type(fold.dtype, *(s.micro for s in sides)), init=Literal(_zero(fold.dtype), fold.dtype)))
    body += [nodes.Reg(f"{s.tile}r", _type(dtype, s.micro)) for s in sides]
    body += [nodes.Let(s.origin, s.size * Expr.of(s.cta)) for s in sides if s.cta]
    loop: list[Statement] = [_copy(s, kernel, depth, dtype, batch, w, k) for s, w, k in zip(sides, width, contiguous)]
    loop.append(nodes.Barrier("cta"))
    loop.append(nodes.For("kk", ZERO, Expr.of(depth), (*_fragments(sides, width, dtype), _multiply(sides, fold, dtype)), unroll=_turns(sides, depth)))
    loop.append(nodes.Barrier("cta"))
    body.append(nodes.For("k", ZERO, extent_of(kernel.sum), tuple(loop), step=Expr.of(depth)))
    body.append(_epilogue(sides, width, region, kernel, batch))
    return Kernel(plan.name, plan.regions, plan.arch, _grid(plan, kernel, sides), plan.threads, tuple(body), regs=_registers(plan, region, kernel))


def _turns(sides: tuple[Side, Side], depth: int) -> int:
    """How many k are written out in a row: enough to keep a scheduler busy, not so many that registers spill."""
    turns = max(1, IN_A_ROW // (sides[0].micro * sides[1].micro))
    return 0 if turns >= depth else turns


def _registers(plan: Plan, region: Region, kernel: Contraction) -> int:
    """The most registers that let as many CTAs on an SM as the plan counts on, or one fewer where these are many: the count may err, and a
    spill costs more than a CTA."""
    counted = resources.occupancy_of(plan, resources.smem_of(plan, region, kernel), resources.registers_of(plan, kernel))
    ctas = max(1, counted - (counted > 2))
    arch, warps = ARCHS[plan.arch], -(-math.prod(plan.threads) // 32)
    return min(arch.registers_per_thread, arch.registers_per_sm // (ctas * warps * 32)) // 8 * 8


def _sides(plan: Plan, fold: Reduce, kernel: Contraction) -> tuple[Side, Side]:
    """The operands as the plan cuts them. The factors stand in the product in either order."""
    swapped = not _reads(fold.body.left, kernel.lhs)
    factors = (fold.body.right, fold.body.left) if swapped else (fold.body.left, fold.body.right)
    sides = []
    for number, (names, read, axes) in enumerate((("am", kernel.lhs, kernel.left), ("bn", kernel.rhs, kernel.right))):
        place = plan.place_of(f"{axes[-1].name}.i") or ""
        threads = dict(zip(("thread.x", "thread.y", "thread.z"), plan.threads)).get(place, 1)
        cta = plan.place_of(f"{axes[0].name}.o") or plan.place_of(axes[0].name) or ""
        size, micro = plan.tile[number], plan.micro[number]
        if threads * micro != size:
            raise refuse("E1611", plan.name, plan.span_of("micro"), what=f"a micro tile of {micro} on {threads} threads for a tile of {size}", region=plan.name)
        sides.append(Side(names[0], factors[number], read, axes, size, micro, place, threads, cta, f"{names[1]}0", "ij"[number], ("row", "col")[number]))
    return tuple(sides)


def _reads(body: Body, read: Read) -> bool:
    return any(node is read for node in walk(body))


def _is_contiguous_along(read: Read, axes: tuple[Axis, ...]) -> bool:
    """Whether neighbours along the axes are neighbours in memory, more than neighbours along the operand's own axes."""
    return bool(read.index) and axes[-1].name in set(read.index[-1].names())


def _type(dtype: DType, *shape: int) -> TensorType:
    return TensorType(dtype, tuple(map(Expr.of, shape)))


def _zero(dtype: DType) -> float | int:
    return 0.0 if dtype.is_float else 0


def _cta(plan: Plan, axes: tuple[Axis, ...]) -> Expr:
    place = plan.place_of(axes[0].name) or plan.place_of(f"{axes[0].name}.o")
    return Expr.of(place) if place else ZERO


def _grid(plan: Plan, kernel: Contraction, sides: tuple[Side, Side]) -> tuple[Expr, ...]:
    counts = {s.cta: s.extent.ceildiv(s.size) for s in sides if s.cta}
    if kernel.batch:
        counts[str(_cta(plan, kernel.batch))] = extent_of(kernel.batch)
    used = [counts.get(place, ONE) for place in ("cta.x", "cta.y", "cta.z")]
    while len(used) > 1 and used[-1] == ONE:
        used.pop()
    return tuple(used)


def _copy(side: Side, kernel: Contraction, depth: int, dtype: DType, batch: dict[str, Expr], width: int, is_along_k: bool) -> Statement:
    """Fills one operand's tile. Outside the operand it holds zero, which adds nothing."""
    if is_along_k:
        lanes = math.gcd(LANES_OF_K, depth)
        across = math.gcd(width, side.size)
        over = (("ro", side.size // across), ("co", depth // lanes), ("ri", across), ("ci", lanes))
        row, column = across * Expr.of("ro") + "ri", lanes * Expr.of("co") + "ci"
    else:
        over = (("c", depth), ("r", side.size))
        row, column = Expr.of("r"), Expr.of("c")
    none = {name: ZERO for name, size in over if size == 1}
    row, column = row.substitute(none), column.substitute(none)
    first, first_lets = named(side.axes, (side.origin if side.cta else ZERO) + row, side.row)
    second, second_lets = named(kernel.sum, Expr.of("k") + column, "term")
    guard = () if divides(side.size, side.extent) else below(first, side.extent)
    guard += () if divides(depth, extent_of(kernel.sum)) else below(second, extent_of(kernel.sum))
    values = Values(_NO_REGION, {**batch, **{a.name: Expr.of(a.name) for a in (*side.axes, *kernel.sum)}})
    body = guarded(guard, cast(values.at(side.factor), dtype), _zero(dtype))
    axes = tuple((name, Expr.of(size)) for name, size in over if size > 1)
    return nodes.Copy(Place(side.tile, (column, row)), axes, body, lets=(*first_lets, *second_lets))


_NO_REGION = Region("", (), (), (), (), ())


def _fragments(sides: tuple[Side, Side], width: list[int], dtype: DType) -> tuple[Statement, ...]:
    """The thread's share of one k of each tile, in accesses of `width` elements."""
    statements: list[Statement] = []
    for side, w in zip(sides, width):
        group, v = Expr.of("g"), Expr.of("v")
        source = Read(side.tile, (Expr.of("kk"), w * side.threads * group + (w * Expr.of(side.place) if side.place else 0) + v), dtype)
        load = nodes.Assign(Place(f"{side.tile}r", (w * group + v,)), source, (("v", Expr.of(w)),), w)
        if side.micro == w:
            statements.append(_at(load, {"g": ZERO}))
        else:
            statements.append(nodes.For("g", ZERO, Expr.of(side.micro // w), (load,), unroll=0))
    return tuple(statements)


def _at(load: nodes.Assign, bindings: dict[str, Expr]) -> nodes.Assign:
    index = tuple(e.substitute(bindings) for e in load.to.index)
    value = Read(load.value.tensor, tuple(e.substitute(bindings) for e in load.value.index), load.value.dtype)
    return nodes.Assign(Place(load.to.name, index), value, load.over, load.vector)


def _multiply(sides: tuple[Side, Side], fold: Reduce, dtype: DType) -> Statement:
    i, j = (Expr.of(s.loop) for s in sides)
    left, right = (Read(f"{s.tile}r", (e,), dtype) for s, e in zip(sides, (i, j)))
    product: Body = cast(Binary("mul", left, right, dtype), fold.body.dtype)
    acc = Read("acc", (i, j), fold.dtype)
    step = nodes.Assign(Place("acc", (i, j)), Binary("add", acc, cast(product, fold.dtype), fold.dtype))
    inner = nodes.For(sides[1].loop, ZERO, Expr.of(sides[1].micro), (step,), unroll=0)
    return nodes.For(sides[0].loop, ZERO, Expr.of(sides[0].micro), (inner,), unroll=0)


def _coordinate(side: Side, width: int) -> Expr:
    """Where accumulator number `loop` of the thread stands along its side: groups of `width`, a whole row of threads apart."""
    loop = Expr.of(side.loop)
    start = (side.origin if side.cta else ZERO) + (width * Expr.of(side.place) if side.place else 0)
    return start + loop + width * (side.threads - 1) * (loop // width)


def _epilogue(sides: tuple[Side, Side], width: list[int], region: Region, kernel: Contraction, batch: dict[str, Expr]) -> Statement:
    """The values after the fold at each accumulator's point, then the writes, where the point lies inside the output."""
    point = {**batch, **{a.name: Expr.of(a.name) for s in sides for a in s.axes}}
    acc = Read("acc", tuple(Expr.of(s.loop) for s in sides), region.let(kernel.value).expr.dtype)
    values = Values(region, point, {kernel.value: acc})
    statements: list[Statement] = []
    for name in needed(region, (y.expr for y in region.yields)):
        if name != kernel.value:
            let = region.let(name)
            statements.append(nodes.Value(name, values.at(let.expr)))
            values.known[name] = Ref(name, let.expr.dtype)
    statements += [_write(item, values, region) for item in region.yields]
    guard: tuple[Bound, ...] = ()
    numbers: list[Statement] = []
    parts: list[Statement] = []
    for side, w in zip(sides, width):
        index, made = named(side.axes, _coordinate(side, w), side.row)
        guard += () if divides(side.size, side.extent) else below(index, side.extent)
        numbers.append(nodes.Let(*made[0]))
        parts += [nodes.Let(name, e) for name, e in made[1:]]
    inner = (nodes.If(guard, (*parts, *statements)),) if guard else (*parts, *statements)
    rows, columns = sides
    across = nodes.For(columns.loop, ZERO, Expr.of(columns.micro), (numbers[1], *inner), unroll=0)
    return nodes.For(rows.loop, ZERO, Expr.of(rows.micro), (numbers[0], across), unroll=0)


def _write(item: Yield, values: Values, region: Region) -> Statement:
    """One output's store. An output without some axis is written by that axis's first point alone."""
    store = nodes.Store(Place(item.output, tuple(e.substitute(values.point) for e in item.index)), values.at(item.expr))
    used = {name for e in item.index for name in e.names()}
    guard = tuple(b.substitute(values.point) for b in item.guard)
    guard += tuple(Bound(values.point[a.name], equals=ZERO) for a in region.iters if a.name not in used and a.size != ONE)
    return nodes.If(guard, (store,)) if guard else store
