"""The statements of a kernel. The class name is the text's keyword.

A Place is an element of a tensor or of an array, the corner of a tile, or (without an index) a whole tile. What is
declared with a ring has a slot in a first pair of brackets: `a[s.slot][64*half, 0]`, `full[s.slot]`. `over r: 128, c:
32` runs over all points; the last axis is the fastest, and `vector 8` moves 8 neighbours of that axis in one access. A
`value` is the region's body language (ir.body), in which a Read may name an array of this kernel.
"""

from __future__ import annotations

from typing import Union

from ...kit.records import dataclass
from ...kit.span import Spanned
from ..body import Body
from ..expr import Expr
from .across import LookBack, Publish, Ticket
from .engines import (
    EARLY,
    ENGINES,
    FENCES,
    Arrive,
    Barrier,
    BlockReduce,
    BlockScan,
    Commit,
    Drain,
    Fence,
    LaunchNext,
    Ldmatrix,
    Mma,
    Resum,
    RowReduce,
    Send,
    Split,
    StoreRows,
    TmaLoad,
    TmaStore,
    Wait,
    WaitGroup,
    WaitPrevious,
    WarpReduce,
    Wgmma,
)
from .extremes import EXTREMES, Least, Most
from .memory import (
    KINDS,
    OPERAND_KINDS,
    PART_KINDS,
    ROUNDINGS,
    ROW_KINDS,
    WALKED_KINDS,
    Advance,
    Assume,
    Axes,
    Cursor,
    Guard,
    Lets,
    Mbarrier,
    Pick,
    Place,
    Reg,
    Shared,
    TensorMap,
)

# --- integers, values, control


@dataclass(frozen=True, slots=True)
class Let(Spanned):
    """`let m0 = 128*cta.y`: an integer of the thread."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Choose(Spanned):
    """`choose k = idx[i] below N`: an integer that the data give, as a place of 0..N: a negative one counts from the
    end, and one that is outside becomes -1."""

    name: str
    value: Body
    extent: Expr


@dataclass(frozen=True, slots=True)
class Value(Spanned):
    """`%relu = relu(%bias_add)`: a scalar of the thread, in a register."""

    name: str
    value: Body


@dataclass(frozen=True, slots=True)
class For(Spanned):
    """`for k in 0..K step 16 unroll`: low <= k < high. `unroll`: 1 not at all, 4 by four, 0 whole (written `unroll`
    alone).

    `for tile in cta.x..tiles step 132 drawn of gemm.turn[0] via turn full turn.full empty turn.empty`: the first number
    is the CTA's own, and each further one is drawn of a counter that all 132 CTAs share, so that one that has long
    tiles takes few. The thread that draws hands each number on through a ring of `turn`; the warps of other roles take
    it where they have the same loop without `of`."""

    name: str
    low: Expr
    high: Expr
    body: tuple[Statement, ...]
    step: Expr = Expr.of(1)
    unroll: int = 1
    source: Place | None = None
    via: str = ""
    full: str = ""
    empty: str = ""


@dataclass(frozen=True, slots=True)
class If(Spanned):
    """`if GUARD` and, where there is one, `else`."""

    guard: Guard
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Role(Spanned):
    """`role consumer warpgroups 1..3 regs 232`: what these warps (first <= w < last) do; `warpgroup.index` counts from
    the first."""

    name: str
    unit: str
    first: int
    last: int
    body: tuple[Statement, ...]
    regs: int = 0

    @property
    def threads(self) -> int:
        """Threads of the role."""
        return (self.last - self.first) * (128 if self.unit == "warpgroups" else 32)


@dataclass(frozen=True, slots=True)
class Order(Spanned):
    """`order [tm, tn] = tile in [tiles.m, tiles.n] group 8`: the tile's coordinates, so that neighbours in time share
    L2. Without a group column by column: one division, where a group takes three. `group 8 turning`: every other group
    takes its columns from the last to the first, so that a CTA whose tile is long in one group has a short one in the
    next."""

    names: tuple[str, ...]
    tile: Expr
    extents: tuple[Expr, ...]
    group: int = 0
    is_turning: bool = False


@dataclass(frozen=True, slots=True)
class Each(Spanned):
    """`each r, c of acc`: those elements of a matrix in registers that this thread holds; r, c are their coordinates in
    it. `each r, c of acc[0, 64*j] size [64, 64]`: of a piece of it, r, c counting from its corner. `each r of top`: of
    `rows`, `row_parts` and those of an `mma` matrix, the rows of which this thread holds elements. `each r, c of bias`:
    of a left operand, which is read of a tensor, pairs of neighbours at once. `each r, k of wf`: of an operand of
    `mma`, whose elements are made there. `approx` at the end: exp2 is the unit's own, within 2 ulps, and 0 where it is
    below 2^-126."""

    names: tuple[str, ...]
    of: str
    body: tuple[Statement, ...]
    at: tuple[Expr, ...] = ()
    size: tuple[int, ...] = ()
    is_approx: bool = False


# --- elements


@dataclass(frozen=True, slots=True)
class Assign(Spanned):
    """`x[v] = ...`, or `x[v] over v: 4 = ... vector 4`: registers of this thread."""

    to: Place
    value: Body
    over: Axes = ()
    vector: int = 1


@dataclass(frozen=True, slots=True)
class Store(Spanned):
    """`store C2[row, col] = ...`: this thread writes to a tensor or to shared memory; `over` and `vector` as in Assign.
    `by stmatrix`: inside `each`, the elements of eight columns are written by their warp in one instruction."""

    to: Place
    value: Body
    over: Axes = ()
    vector: int = 1
    by: str = ""


@dataclass(frozen=True, slots=True)
class Atomic(Spanned):
    """`atomic sum Y[i] = ...`: fold into a tensor's element; the order of the threads is not defined."""

    op: str
    to: Place
    value: Body


@dataclass(frozen=True, slots=True)
class Copy(Spanned):
    """`copy a[r, c] over r: 128, c: 16 with i0 = m0 + r, k0 = k + c = A[i0, k0] where ... else 0.0`: all threads of the
    CTA (or role) together; neighbouring threads take neighbouring vectors. `with` names integers of one point. Ends
    when this thread's part is written: others see it after a barrier."""

    to: Place
    over: Axes
    value: Body
    vector: int = 1
    lets: Lets = ()


@dataclass(frozen=True, slots=True)
class CpAsync(Spanned):
    """`%t = cp_async a[s][r, c] over ... = A[...] where ... else 0.0 vector 8`: as Copy, but the bytes land later."""

    token: str
    to: Place
    over: Axes
    value: Body
    vector: int = 1
    lets: Lets = ()


Statement = Union[  # noqa: UP007
    Assume,
    Shared,
    Reg,
    Mbarrier,
    TensorMap,
    Pick,
    Cursor,
    Advance,
    Let,
    Least,
    Most,
    Choose,
    Value,
    For,
    If,
    Role,
    Order,
    Each,
    Assign,
    Store,
    Atomic,
    Copy,
    CpAsync,
    Commit,
    WaitGroup,
    Wait,
    Arrive,
    Drain,
    TmaLoad,
    Send,
    TmaStore,
    StoreRows,
    Fence,
    Barrier,
    Ldmatrix,
    Split,
    Resum,
    Mma,
    Wgmma,
    RowReduce,
    WarpReduce,
    BlockReduce,
    BlockScan,
    Ticket,
    Publish,
    LookBack,
    WaitPrevious,
    LaunchNext,
]
PRODUCERS = (CpAsync, TmaLoad, Send, TmaStore, Wgmma)


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Kernel(Spanned):
    """`kernel qk.pv of qk, pv : sm90 grid [...] block [384] cluster [2]`: a kernel and its first launch. `regions` are
    those that it computes; grid and block count from x on. `regs 128` holds the compiler to this number of registers a
    thread (0: to what the block size allows). `kernel gemm.2.pad of gemm for gemm.2` is launched only where gemm.2 is,
    before or after it, as they are written in the text; `for gemm.2 once` before the first of its launches alone, since
    it reads nothing but constants of the model. `kernel w.packed once` is such a kernel of a region of its own."""

    name: str
    regions: tuple[str, ...]
    arch: str
    grid: tuple[Expr, ...]
    block: tuple[int, ...]
    body: tuple[Statement, ...]
    cluster: tuple[int, ...] = ()
    regs: int = 0
    serves: str = ""
    is_once: bool = False

    @property
    def threads(self) -> int:
        """Threads of one CTA."""
        total = 1
        for size in self.block:
            total *= size
        return total


@dataclass(frozen=True, slots=True)
class Launch(Spanned):
    """`launch fc2 as fc1 with X = H, W1 = W2, H = Y`: one more launch of the kernel fc1, for a region that is the same
    but for names. `passed` gives for each tensor of the kernel that is another one here the tensor in its place. `fed =
    fed at [3]`: what the kernel reads of it at [0, i, k] is read at [3, i, k], and at [1, i, k] at [4, i, k]; axes
    behind those that are said are not moved (`moved`, by the kernel's tensor). What `of`, `for` and `once` say is said
    of this launch, as a kernel says it of its own."""

    name: str
    regions: tuple[str, ...]
    kernel: str
    passed: tuple[tuple[str, str], ...]
    serves: str = ""
    is_once: bool = False
    moved: tuple[tuple[str, tuple[int, ...]], ...] = ()


def kernel_named(launch: Kernel | Launch) -> str:
    """The name of the kernel that is launched: a kernel is launched itself where it is."""
    return launch.kernel if isinstance(launch, Launch) else launch.name
