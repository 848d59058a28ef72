"""What runs beside a thread or over several: asynchronous movement, what orders it, matrix units, folds over
threads."""

from __future__ import annotations

from ...kit.records import dataclass
from ...kit.span import Spanned
from ..body import Body
from ..expr import Expr
from .memory import Axes, Guard, Place


@dataclass(frozen=True, slots=True)
class Commit(Spanned):
    """`commit %a, %b`: closes the group of cp_async copies that `wait_group` counts."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaitGroup(Spanned):
    """`wait_group cp_async pending 1 for %a, %b`: all but the last `pending` groups of the engine are done."""

    engine: str
    pending: int
    tokens: tuple[str, ...] = ()


ENGINES = ("cp_async", "wgmma", "tma_store")


@dataclass(frozen=True, slots=True)
class Wait(Spanned):
    """`wait full[s.slot] phase s.phase for %a, %b`: until the barrier's phase of this parity has completed."""

    barrier: Place
    phase: Expr
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrive(Spanned):
    """`arrive full[p.slot] expect 49152 B`, `arrive empty[s.previous] cluster [0, 1]`: one arrival of the warpgroup, or
    of the thread that a guard has picked; with `cluster` on the barriers of these CTAs."""

    barrier: Place
    expect: int = 0
    cluster: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain(Spanned):
    """`drain empty from p`: waits until every slot's readers are done, so that no CTA leaves while others still write
    to it."""

    barrier: str
    cursor: str


@dataclass(frozen=True, slots=True)
class TmaLoad(Spanned):
    """`%t = tma_load a[p.slot] <- A.map[128*tm, 64*k] on full[p.slot] multicast [0, 1]`: a tile of the tensor, zeros
    outside it, box by box. A box that has rows along several dims has all rows of the tile. With `multicast` the CTAs
    of the cluster fetch equal shares of the boxes, and each box goes to all of them. `streamed` at the end: nobody
    reads it again, so that the L2 cache gives it up before anything else."""

    token: str
    to: Place
    source: Place
    on: Place
    multicast: tuple[int, ...] = ()
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class Send(Spanned):
    """`%t = send parts[2] <- sums[32*c, 0] size [32, 68] to c on joined`: rows of this CTA's shared memory, which are
    one behind another, to the same array of CTA c of the cluster, by the copy engine; they land on that CTA's barrier.
    `%t = send sent <- acc[0, 32*c] size [64, 32] to c on joined`: columns of a warpgroup's accumulator, each thread's
    to the place of the thread of its number (`shared sent : fp32[64, 32] wgmma`)."""

    token: str
    to: Place
    source: Place
    size: tuple[int, ...]
    cta: Expr
    on: Place


@dataclass(frozen=True, slots=True)
class TmaStore(Spanned):
    """`%t = tma_store C2.map[128*tm, 256*tn] <- c[64*half, 0]`: a box of shared memory; what is outside the tensor is
    dropped."""

    token: str
    to: Place
    source: Place


@dataclass(frozen=True, slots=True)
class StoreRows(Spanned):
    """`store_rows C[m0 + part, 64*j + n0] box [64, 64] <- C.out[o.slot]`: the threads of a warpgroup write a tile of
    shared memory to a tensor whose rows may begin anywhere, in whole accesses but for the ends of each row; what is
    outside the tensor is dropped. `as [B*S, N]` before `box`: the tensor's memory as these dims, row-major. A tile
    in registers (a wgmma Reg) is rounded to the tensor's dtype."""

    to: Place
    box: tuple[Expr, ...]
    source: Place
    dims: tuple[Expr, ...] = ()

    @property
    def sides(self) -> tuple[int, ...]:
        """Which dims the tile's rows and columns run along."""
        return tuple(n for n, size in enumerate(self.box) if size != Expr.of(1))


@dataclass(frozen=True, slots=True)
class Fence(Spanned):
    """`fence wgmma` (registers before wgmma), `fence async_proxy` (shared memory before the copy engine), `fence
    mbarrier_init`."""

    what: str


FENCES = ("wgmma", "async_proxy", "mbarrier_init")


@dataclass(frozen=True, slots=True)
class Barrier(Spanned):
    """`barrier cta`, `barrier cluster`, `barrier warpgroup`, `barrier warp`, or `barrier 1 threads 256`, the named
    barrier that only these threads reach. `barrier cluster arrive` and, further down, `barrier cluster wait` are one
    barrier in two halves, which orders nothing but the set-up of mbarriers: what comes between them need not be waited
    for."""

    scope: str
    threads: int = 0
    half: str = ""


@dataclass(frozen=True, slots=True)
class WaitPrevious(Spanned):
    """`wait_previous`: until the launch before it has ended, and all that it wrote is seen. A launch whose kernel says
    so may start early: its CTAs come up while the one before it drains. It is outside all blocks, so that every
    thread waits, and before any access to a tensor."""


@dataclass(frozen=True, slots=True)
class LaunchNext(Spanned):
    """`launch_next`: from where all CTAs have come here on, or have ended, those of a launch behind that may start
    early come up. Not before `wait_previous`: so whatever starts early finds one launch before it that may still
    run, and not more."""


EARLY = (WaitPrevious, LaunchNext)


@dataclass(frozen=True, slots=True)
class Ldmatrix(Spanned):
    """`ldmatrix af <- a[s.slot][64*warp.y, 16*kk]`: a warp's operand from shared memory, or a warpgroup's left one;
    `trans`: the tile is transposed to it. `low al`: each word as high + low / 1024, both of 11 bits
    (`target.tf32`); `to` has the high ones."""

    to: Place
    source: Place
    is_transposed: bool = False
    low: Place | None = None


@dataclass(frozen=True, slots=True)
class Split(Spanned):
    """`split bl[c.slot] <- b[c.slot]`: of every word of a tile what a matrix unit does not look at, times 1024; by the
    threads of the role."""

    to: Place
    source: Place


@dataclass(frozen=True, slots=True)
class Resum(Spanned):
    """`resum acc[r, n] over k: K = mul(A[row, k], B[k, col])`: an element of a matrix in registers that is not finite
    becomes the sum in fp32, one after the other."""

    to: Place
    over: Axes
    value: Body


@dataclass(frozen=True, slots=True)
class Mma(Spanned):
    """`mma acc += af * bf shape m16n8k16`: the warp's tensor-core product, done when the statement is. `p[0, 16]` as
    the left operand: 16 columns of a wider one, from there on. `math tf32` or `math tf32x3` after the shape says how
    fp32 factors are multiplied (`ir.plan.words`)."""

    acc: str
    a: Place
    b: Place
    shape: str
    math: str = ""


@dataclass(frozen=True, slots=True)
class Wgmma(Spanned):
    """`%t = wgmma acc += a[s.slot][64*half, 0] * b[s.slot] shape m64n256k16 steps 4 zero k = 0`: a warpgroup's product,
    asynchronous.

    `steps` instructions along k. `zero` (where the guard holds, or always when there is none) forgets what acc held.
    `trans` after an operand: the tile is transposed, [K, M] or [N, K]. A place without indices may be registers (a
    wgmma Reg) for the left operand.
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


@dataclass(frozen=True, slots=True)
class RowReduce(Spanned):
    """`row_reduce sum sc into z`: folds each row of a wgmma or mma matrix, or of `row_parts`, and what z has of that
    row; into `rows` whole, into `row_parts` each thread what it holds."""

    op: str
    source: str
    to: str


@dataclass(frozen=True, slots=True)
class WarpReduce(Spanned):
    """`warp_reduce sum x width 32`: every element of a thread's array becomes the fold over `width` neighbouring
    lanes; with `exclusive` behind the op, over those of them before the thread's own."""

    op: str
    name: str
    width: int = 32
    is_exclusive: bool = False


@dataclass(frozen=True, slots=True)
class BlockReduce(Spanned):
    """`block_reduce sum x via part`: every element of a thread's array becomes the fold over the CTA; `part` holds one
    element a warp. `fresh` behind it: since a barrier nobody has touched `part`, so that none is needed before the
    first write to it."""

    op: str
    name: str
    via: str
    is_fresh: bool = False


@dataclass(frozen=True, slots=True)
class BlockScan(Spanned):
    """`block_scan sum x after carry via part`, `exclusive` behind the op: a thread's x becomes carry folded with the x
    of the threads before it and (unless exclusive) its own; carry, alike in all threads, becomes the fold with all of
    them. Of several elements x[0] of all threads comes before x[1] of any; carry has one. `part` holds as many for each
    warp, and a CTA of one warp goes without."""

    op: str
    is_exclusive: bool
    name: str
    carry: str
    via: str = ""
