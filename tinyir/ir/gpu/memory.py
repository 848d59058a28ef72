"""What a kernel declares: facts, shared memory, registers, barriers, tensor maps, cursors."""

from __future__ import annotations

import math

from ...kit.records import dataclass
from ...kit.span import Spanned
from ..body import Body, Literal
from ..expr import Bound, Expr
from ..model import show_name
from ..types import TensorType
from ..windows import Windows

Guard = tuple[Bound, ...]
Axes = tuple[tuple[str, Expr], ...]
Lets = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """`a[s.slot][0, kk]`: an element, a tile's corner or a whole tile, one barrier of a ring."""

    name: str
    index: tuple[Expr, ...] = ()
    slot: Expr | None = None

    def __str__(self) -> str:
        slot = "" if self.slot is None else f"[{self.slot}]"
        return show_name(self.name) + slot + (f"[{', '.join(map(str, self.index))}]" if self.index else "")


@dataclass(frozen=True, slots=True)
class Assume(Spanned):
    """`assume GUARD`: the kernel may be launched only where the guard holds; what a vector width or a missing guard
    rests on."""

    guard: Guard


@dataclass(frozen=True, slots=True)
class Shared(Spanned):
    """`shared a : fp16[128, 32] ring 3 swizzle 64`: a tile in shared memory; `swizzle` is the XOR pattern's span in
    bytes, 0 for a plain array, 16 for a span whose pieces keep their places. The rows of a swizzled tile are as long as
    the span; a wider tile is kept as several of them side by side, each with all rows. `shared part : fp32[64, 132]
    cluster 4`: the CTAs of a cluster read one another's, `part[2][r, n]`; each writes its own,
    `part[cluster.rank][r, n]`. `shared sent : fp32[64, 32] wgmma`: a matrix as the registers of a warpgroup hold
    it, each thread's elements one behind another; others send it."""

    name: str
    type: TensorType
    ring: int = 1
    swizzle: int = 0
    cluster: int = 0
    kind: str = ""

    @property
    def bytes(self) -> int:
        """What all slots of one CTA take together. Needs constant sizes."""
        elements = self.ring
        for size in self.type.shape:
            elements *= size.evaluate({})
        return elements * self.type.dtype.bytes


@dataclass(frozen=True, slots=True)
class Reg(Spanned):
    """`reg acc : fp32[8, 8] = 0`: registers. Without a kind an array of each thread, indexed by constants once loops
    are unrolled.

    With a kind one matrix that the threads share: `wgmma` (a warpgroup's accumulator), `wgmma_a` (its left operand),
    `mma` (a warp's accumulator), `mma_a`, `mma_b` (a warp's operands), `rows`, one element for each row of a `wgmma`
    matrix, alike in the four threads that hold the row, `row_parts`, of each row four elements, one in each of these
    threads, that are still to be folded, or `mma_rows` and `mma_row_parts`, the same of an `mma` matrix. Of matrices
    an `mma` alone starts from a number, which is 0.
    """

    name: str
    type: TensorType
    ring: int = 1
    kind: str = ""
    init: Body | None = None

    @property
    def is_zeroed(self) -> bool:
        """Whether all its bits are 0 at first."""
        return isinstance(self.init, Literal) and self.init.value == 0 and math.copysign(1, self.init.value) > 0


ROUNDINGS = ("", "tf32")
ROW_KINDS = {"rows": "wgmma", "row_parts": "wgmma", "mma_rows": "mma", "mma_row_parts": "mma"}  # and of which matrix
PART_KINDS = ("row_parts", "mma_row_parts")
OPERAND_KINDS = {"wgmma_a": "wgmma", "mma_a": "mma"}  # left operands, and which matrix may become one
WALKED_KINDS = ("mma_a", "mma_b")  # operands whose own elements `each` walks
KINDS = ("wgmma", "wgmma_a", "mma", "mma_a", "mma_b", *ROW_KINDS)


@dataclass(frozen=True, slots=True)
class Mbarrier(Spanned):
    """`mbarrier full ring 4 count 1`: barriers in shared memory that complete a phase after `count` arrivals and all
    expected bytes."""

    name: str
    count: int
    ring: int = 1


@dataclass(frozen=True, slots=True)
class TensorMap(Spanned):
    """`tensor_map A.map = A box [128, 64] swizzle 128`: the descriptor by which the copy engine reads or writes boxes
    of a tensor; `as [B*S, K]` when it sees the tensor's memory with other dims. `round tf32`: fp32 numbers are rounded
    to 11 bits as they are fetched.

    `tensor_map X.map = X as windows [P, Q] from [-1, -1] step [1, 1] box [128, 1, 1, 64]`: of X[N, H, W, C] boxes of
    windows (ir.windows). Such a map is read at [which of the N*P*Q windows, how far down and how far across in it,
    channel]."""

    name: str
    tensor: str
    box: tuple[Expr, ...]
    swizzle: int = 0
    dims: tuple[Expr, ...] = ()
    rounding: str = ""
    windows: Windows | None = None


@dataclass(frozen=True, slots=True)
class Pick(Spanned):
    """`pick w = [Wq, Wk, Wv] at sibling`: the one of these tensors, or tensor maps, whose number is `sibling`; they are
    alike in type, or in box."""

    name: str
    of: tuple[str, ...]
    at: Expr


@dataclass(frozen=True, slots=True)
class Cursor(Spanned):
    """`cursor p ring 4 at 2 phase 1`: a walk round a ring. `p.slot`, `p.phase` and `p.previous` (the slot before) are
    its fields."""

    name: str
    ring: int
    at: int = 0
    phase: int = 0


@dataclass(frozen=True, slots=True)
class Advance(Spanned):
    """`advance p`: the next slot; the phase flips at the ring's end. `advance p by steps`: `steps` slots on."""

    cursor: str
    by: Expr = Expr.of(1)
