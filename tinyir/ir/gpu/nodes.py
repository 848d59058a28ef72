"""The statements of a kernel. The class name is the text's keyword.

A Place is an element of a tensor or of an array, the corner of a tile, or (without an index) a whole tile. What is declared with a
ring has a slot in a first pair of brackets: `a[s.slot][64*half, 0]`, `full[s.slot]`. `over r: 128, c: 32` runs over all points; the
last axis is the fastest, and `vector 8` moves 8 neighbours of that axis in one access. A `value` is the region's body language
(ir.body), in which a Read may name an array of this kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from ...kit.span import Span
from ..body import Body
from ..expr import Bound, Expr
from ..model import show_name
from ..types import TensorType

Guard = tuple[Bound, ...]
Axes = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """`a[s.slot][0, kk]`: an element, a tile's corner or a whole tile, one barrier of a ring."""

    name: str
    index: tuple[Expr, ...] = ()
    slot: Expr | None = None

    def __str__(self) -> str:
        slot = "" if self.slot is None else f"[{self.slot}]"
        return show_name(self.name) + slot + (f"[{', '.join(map(str, self.index))}]" if self.index else "")


def _span() -> Any:
    return field(default=None, compare=False, kw_only=True)


# --- what a kernel has: facts, memory, registers, barriers


@dataclass(frozen=True, slots=True)
class Assume:
    """`assume GUARD`: the kernel may be launched only where the guard holds; what a vector width or a missing guard rests on."""

    guard: Guard
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Shared:
    """`shared a : fp16[128, 32] ring 3 swizzle 64`: a tile in shared memory; `swizzle` is the XOR pattern's span in bytes, 0 for none."""

    name: str
    type: TensorType
    ring: int = 1
    swizzle: int = 0
    span: Span | None = _span()

    @property
    def bytes(self) -> int:
        """What all slots take together. Needs constant sizes."""
        elements = self.ring
        for size in self.type.shape:
            elements *= size.evaluate({})
        return elements * self.type.dtype.bytes


@dataclass(frozen=True, slots=True)
class Reg:
    """`reg acc : fp32[8, 8] = 0`: registers. Without a kind an array of each thread, indexed by constants once loops are unrolled.

    With a kind one matrix that the threads share: `wgmma` (a warpgroup's accumulator or A operand), `mma` (a warp's accumulator),
    `mma_a`, `mma_b` (a warp's operands), or `rows`, one element for each row of a `wgmma` or `mma` matrix.
    """

    name: str
    type: TensorType
    ring: int = 1
    kind: str = ""
    init: Body | None = None
    span: Span | None = _span()


KINDS = ("wgmma", "mma", "mma_a", "mma_b", "rows")


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """`mbarrier full ring 4 count 1`: barriers in shared memory that complete a phase after `count` arrivals and all expected bytes."""

    name: str
    count: int
    ring: int = 1
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class TensorMap:
    """`tensor_map A.map = A box [128, 64] swizzle 128`: the descriptor by which the copy engine reads or writes boxes of a tensor."""

    name: str
    tensor: str
    box: tuple[Expr, ...]
    swizzle: int = 0
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Cursor:
    """`cursor p ring 4 at 2 phase 1`: a walk round a ring. `p.slot`, `p.phase` and `p.previous` (the slot before) are its fields."""

    name: str
    ring: int
    at: int = 0
    phase: int = 0
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Advance:
    """`advance p`: the next slot; the phase flips at the ring's end."""

    cursor: str
    span: Span | None = _span()


# --- integers, values, control


@dataclass(frozen=True, slots=True)
class Let:
    """`let m0 = 128*cta.y`: an integer of the thread."""

    name: str
    value: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Value:
    """`%relu = relu(%bias_add)`: a scalar of the thread, in a register."""

    name: str
    value: Body
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class For:
    """`for k in 0..K step 16 unroll`: low <= k < high. `unroll`: 1 not at all, 4 by four, 0 whole (written `unroll` alone)."""

    name: str
    low: Expr
    high: Expr
    body: tuple["Statement", ...]
    step: Expr = Expr.of(1)
    unroll: int = 1
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class If:
    """`if GUARD` and, where there is one, `else`."""

    guard: Guard
    body: tuple["Statement", ...]
    otherwise: tuple["Statement", ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Role:
    """`role consumer warpgroups 1..3 regs 232`: what these warps (first <= w < last) do; `warpgroup.index` counts from the first."""

    name: str
    unit: str
    first: int
    last: int
    body: tuple["Statement", ...]
    regs: int = 0
    span: Span | None = _span()

    @property
    def threads(self) -> int:
        return (self.last - self.first) * (128 if self.unit == "warpgroups" else 32)


@dataclass(frozen=True, slots=True)
class Order:
    """`order [tm, tn] = tile in [tiles.m, tiles.n] group 8`: the tile's coordinates, so that neighbours in time share L2."""

    names: tuple[str, ...]
    tile: Expr
    extents: tuple[Expr, ...]
    group: int
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Each:
    """`each r, c of acc`: those elements of a matrix in registers that this thread holds; r, c are their coordinates in it."""

    names: tuple[str, ...]
    of: str
    body: tuple["Statement", ...]
    span: Span | None = _span()


# --- elements


@dataclass(frozen=True, slots=True)
class Assign:
    """`x[v] = ...`, or `x[v] over v: 4 = ... vector 4`: registers of this thread."""

    to: Place
    value: Body
    over: Axes = ()
    vector: int = 1
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Store:
    """`store C2[row, col] = ...`: this thread writes to a tensor or to shared memory; `over` and `vector` as in Assign."""

    to: Place
    value: Body
    over: Axes = ()
    vector: int = 1
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Atomic:
    """`atomic sum Y[i] = ...`: fold into a tensor's element; the order of the threads is not defined."""

    op: str
    to: Place
    value: Body
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Copy:
    """`copy a[r, c] over r: 128, c: 16 = A[m0 + r, k + c] where ... else 0.0`: all threads of the CTA (or role) together; neighbouring
    threads take neighbouring vectors. Ends when this thread's part is written: others see it after a barrier."""

    to: Place
    over: Axes
    value: Body
    vector: int = 1
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class CpAsync:
    """`%t = cp_async a[s][r, c] over ... = A[...] where ... else 0.0 vector 8`: as Copy, but the bytes land later."""

    token: str
    to: Place
    over: Axes
    value: Body
    vector: int = 1
    span: Span | None = _span()


# --- asynchronous movement and what orders it


@dataclass(frozen=True, slots=True)
class Commit:
    """`commit %a, %b`: closes the group of cp_async copies that `wait_group` counts."""

    tokens: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """`wait_group cp_async pending 1 for %a, %b`: all but the last `pending` groups of the engine are done."""

    engine: str
    pending: int
    tokens: tuple[str, ...]
    span: Span | None = _span()


ENGINES = ("cp_async", "wgmma", "tma_store")


@dataclass(frozen=True, slots=True)
class Wait:
    """`wait full[s.slot] phase s.phase for %a, %b`: until the barrier's phase of this parity has completed."""

    barrier: Place
    phase: Expr
    tokens: tuple[str, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Arrive:
    """`arrive full[p.slot] expect 49152 B`, `arrive empty[s.previous] cluster [0, 1]`: one arrival, of one elected thread of the role."""

    barrier: Place
    expect: int = 0
    cluster: tuple[int, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Drain:
    """`drain empty from p`: waits until every slot's readers are done, so that no CTA leaves while others still write to it."""

    barrier: str
    cursor: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class TmaLoad:
    """`%t = tma_load a[p.slot] <- A.map[128*tm, 64*k] on full[p.slot] multicast [0, 1]`: a box of the tensor, zeros outside it."""

    token: str
    to: Place
    source: Place
    on: Place
    multicast: tuple[int, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class TmaStore:
    """`%t = tma_store C2.map[128*tm, 256*tn] <- c[64*half, 0]`: a box of shared memory; what lies outside the tensor is dropped."""

    token: str
    to: Place
    source: Place
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Fence:
    """`fence wgmma` (registers before wgmma), `fence async_proxy` (shared memory before the copy engine), `fence mbarrier_init`."""

    what: str
    span: Span | None = _span()


FENCES = ("wgmma", "async_proxy", "mbarrier_init")


@dataclass(frozen=True, slots=True)
class Barrier:
    """`barrier cta`, `barrier cluster`, or `barrier 1 threads 256`, the named barrier that only these threads reach."""

    scope: str
    threads: int = 0
    span: Span | None = _span()


# --- matrix units and reductions


@dataclass(frozen=True, slots=True)
class Ldmatrix:
    """`ldmatrix af <- a[s.slot][64*warp.y, 16*kk]`: a warp's operand from shared memory; `trans`: the tile stands transposed to it."""

    to: Place
    source: Place
    is_transposed: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Stmatrix:
    """`stmatrix c[64*half, 0] <- acc`: a matrix in registers to shared memory, rounded to the tile's dtype."""

    to: Place
    source: str
    is_transposed: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Mma:
    """`mma acc += af * bf shape m16n8k16`: the warp's tensor-core product, done when the statement is."""

    acc: str
    a: Place
    b: Place
    shape: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Wgmma:
    """`%t = wgmma acc += a[s.slot][64*half, 0] * b[s.slot] shape m64n256k16 steps 4 zero k = 0`: a warpgroup's product, asynchronous.

    `steps` instructions along k. `zero` (where the guard holds, or always when there is none) forgets what acc held. `trans` after an
    operand: the tile stands transposed, [K, M] or [N, K]. A place without indices may be registers (a wgmma Reg) for the left operand.
    """

    token: str
    acc: str
    a: Place
    b: Place
    shape: str
    steps: int = 1
    a_transposed: bool = False
    b_transposed: bool = False
    zero: Guard | None = None  # None: accumulate; (): always from zero
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class RowReduce:
    """`row_reduce sum sc into z`: folds each row of a matrix in registers into a `rows` register."""

    op: str
    source: str
    to: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class WarpReduce:
    """`warp_reduce sum x width 32`: every element of a thread's array becomes the fold over `width` neighbouring lanes."""

    op: str
    name: str
    width: int = 32
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class BlockReduce:
    """`block_reduce sum x via part`: every element of a thread's array becomes the fold over the CTA; `part` holds one element a warp."""

    op: str
    name: str
    via: str
    span: Span | None = _span()


Statement = Union[
    Assume, Shared, Reg, Mbarrier, TensorMap, Cursor, Advance, Let, Value, For, If, Role, Order, Each, Assign, Store, Atomic, Copy, CpAsync,
    Commit, WaitGroup, Wait, Arrive, Drain, TmaLoad, TmaStore, Fence, Barrier, Ldmatrix, Stmatrix, Mma, Wgmma, RowReduce, WarpReduce, BlockReduce,
]
PRODUCERS = (CpAsync, TmaLoad, TmaStore, Wgmma)


@dataclass(frozen=True, slots=True)
class Kernel:
    """`kernel qk.pv of qk, pv : sm90 grid [...] block [384] cluster [2]`: one launch. `regions` are those that it computes; grid and
    block count from x on. `regs 128` holds the compiler to so many registers a thread (0: to what the block size allows)."""

    name: str
    regions: tuple[str, ...]
    arch: str
    grid: tuple[Expr, ...]
    block: tuple[int, ...]
    body: tuple[Statement, ...]
    cluster: tuple[int, ...] = ()
    regs: int = 0
    span: Span | None = _span()

    @property
    def threads(self) -> int:
        """Threads of one CTA."""
        total = 1
        for size in self.block:
            total *= size
        return total
