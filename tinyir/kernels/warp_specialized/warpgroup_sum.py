"""How a warpgroup sums its part of a tile along the ring of tiles.

    for k in 0..steps                               both operands from shared memory: a product runs while the next tile
                                                    is waited for
      wait full[s.slot] phase s.phase
      fence wgmma
      %mma = wgmma acc += a[s.slot] * b[s.slot] shape m64n256k16 steps 4 zero k = 0
      wait_group wgmma pending 1 for %mma
      if 1 <= k
        arrive empty[s.previous]

wgmma takes an operand of words (fp32, of which it looks at 11 bits) from shared memory only where its rows run along
the sum. A left operand whose rows run across it comes from registers, in pieces of 16 along the sum, one being fetched
while the other is multiplied:

      for j in 0..2 unroll
        ldmatrix af[j] <- a[s.slot][16*j, part] trans
        fence wgmma
        %mma = wgmma acc += af[j] * b[s.slot][0, 16*j] shape m64n256k8 steps 2 zero k = 0, j = 0
        wait_group wgmma pending 1 for %mma
      if 1 <= k
        barrier warpgroup                           # all of its threads have read a
        arrive empty[s.previous]

Bytes are summed by the unit with few bits: `promote` adds each step's sum to the accumulator in fp32. With two
`partials` steps go in pairs (the last step may be one of zeros), and one sum is added while the other's products run.
The pairs do not overlap: ptxas serialises products that run over the end of a loop in which their sum is read.

      %mma = wgmma partial += a[s.slot] * b[s.slot] shape m64n128k32 steps 4 zero
      advance s
      wait full[s.slot] phase s.phase
      fence wgmma
      %mma.2 = wgmma other += a[s.slot] * b[s.slot] shape m64n128k32 steps 4 zero
      wait_group wgmma pending 1 for %mma
      arrive empty[s.previous]
      each r, n of acc
        acc[r, n] = add(acc[r, n], partial[r, n])
      wait_group wgmma pending 0 for %mma.2
      arrive empty[s.slot]
      ...                                           the same with `other`

fp32 by three products (`math tf32x3`): the left operand's words are split in registers, the right one's low parts are a
tile of their own (`split_words`). A step's products of low parts come first and are divided by 1024; its sum is then
added to the accumulator in fp32.

      wait ready[s.slot] phase s.phase
      ldmatrix ah <- a[s.slot][part, 0] low al
      fence wgmma
      %mma.low = wgmma partial += al * b[s.slot] shape m64n128k8 steps 4 zero
      %mma.mix = wgmma partial += ah * bl[s.slot] shape m64n128k8 steps 4
      wait_group wgmma pending 0 for %mma.low, %mma.mix
      each r, n of partial
        partial[r, n] = mul(partial[r, n], 0.0009765625)
      fence wgmma
      %mma = wgmma partial += ah * b[s.slot] shape m64n128k8 steps 4
      wait_group wgmma pending 0 for %mma
"""

from __future__ import annotations

from ...ir.body import Binary, Literal, Read
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.plan import Plan
from ...ir.types import DTYPES, DType, TensorType
from ...kit.records import dataclass
from ...target.hopper import PRODUCT_BYTES, WARPGROUP_ROWS
from ...target.tf32 import LOW_SCALE
from ..parts import shared_sum
from ..parts.fresh import Fresh
from .declare import OPERAND_DEPTH, OPERAND_SETS, ends_held


@dataclass(frozen=True, slots=True)
class Factors:
    """Of a warpgroup's product: rows, the dtypes, whether the operands' rows run along the sum, where its rows begin in
    a tile, and how far a released slot is told."""

    rows: int
    left: DType
    right: DType
    is_left_along: bool
    is_right_along: bool
    part: Expr
    cluster: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """The matrices in registers, and the statements that sum a tile into `acc`."""

    registers: tuple[Statement, ...]
    statements: tuple[Statement, ...]


def sum_of(plan: Plan, factors: Factors, dtype: DType, early: tuple[Statement, ...], fresh: Fresh) -> Sum:
    """The sum of a tile in `dtype`; `early` is done in its first step."""
    return _Sums(plan, factors, dtype, early, fresh).chosen()


class _Sums:
    """The ways to sum, with what they have in common."""

    def __init__(self, plan: Plan, factors: Factors, dtype: DType, early: tuple[Statement, ...], fresh: Fresh):
        self.plan, self.factors, self.dtype, self.fresh = plan, factors, dtype, fresh
        self.slot, self.k = fresh.expr("s", "slot"), fresh.expr("k")
        self.first, self.last, self.step = shared_sum.steps(plan, fresh)
        self.is_first = (Bound(self.k, equals=self.first),)
        self.early = (nodes.If(self.is_first, early),) if early else ()
        self.advance = nodes.Advance(fresh("s"))
        loads = ("first.a", "first.b", "load.a", "load.b")[0 if ends_held(plan) else 2 :]
        self.ready = nodes.Wait(Place(fresh("full"), slot=self.slot), fresh.expr("s", "phase"), loads)
        self.given_back = self._arrive("previous")
        self.at_end = () if ends_held(plan) else (self.given_back,)  # nobody fills the slot again

    def chosen(self) -> Sum:
        """The way that the plan asks for."""
        if self.plan.is_split:
            return self._thrice()
        if self.plan.partials > 1:
            return self._in_turn()
        if self.plan.promote:
            return self._promoted()
        return self._plain() if self.factors.is_left_along or self.factors.left.bytes != 4 else self._held()

    # --- both operands in shared memory

    def _plain(self) -> Sum:
        step = (
            self.ready,
            nodes.Fence("wgmma"),
            self._product("acc", self.is_first),
            *self.early,
            self._wait(1),
            self._after_first(),
            self.advance,
        )
        return Sum((self._matrix("acc"),), (self._steps(step), self._wait(0), *self.at_end))

    def _promoted(self) -> Sum:
        step = (
            self.ready,
            nodes.Fence("wgmma"),
            self._product("partial", ()),
            *self.early,
            self._wait(0),
            self._arrive("slot"),
            self._each("acc", self._added()),
            self.advance,
        )
        return Sum((self._matrix("acc"), self._matrix("partial")), (self._zero("acc"), self._steps(step)))

    def _in_turn(self) -> Sum:
        begun = [
            (self.ready, nodes.Fence("wgmma"), self._product(to, (), token=token))
            for to, token in (("partial", "mma"), ("other", "mma.2"))
        ]
        ended = [
            (self._wait(1 - n, token), self._arrive(slot), self._each("acc", self._added(name)))
            for n, (name, token, slot) in enumerate((("partial", "mma", "previous"), ("other", "mma.2", "slot")))
        ]
        pair = (*begun[0], *self.early, self.advance, *begun[1], *ended[0], *ended[1], self.advance)
        loop = nodes.For(self.fresh("k"), self.first, self.last, pair, step=Expr.of(2))
        return Sum(tuple(map(self._matrix, ("acc", "partial", "other"))), (self._zero("acc"), loop))

    # --- the left operand in registers

    def _held(self) -> Sum:
        j, pieces = self.fresh.expr("j"), self.plan.tile[2] // OPERAND_DEPTH
        slot = j if pieces <= OPERAND_SETS else j - OPERAND_SETS * (j // OPERAND_SETS)
        of_registers = Place(self.fresh("af"), slot=slot)
        along = OPERAND_DEPTH * j
        inner = (
            self._fetched(of_registers, along),
            nodes.Fence("wgmma"),
            self._product("acc", (*self.is_first, Bound(j, equals=ZERO)), of_registers, along),
            self._wait(1),
        )
        turns = nodes.For(str(j), ZERO, Expr.of(pieces), inner, unroll=0)
        held = nodes.Reg(self.fresh("af"), self._type(OPERAND_DEPTH, self.factors.left), OPERAND_SETS, "wgmma_a")
        met = nodes.Barrier("warpgroup")
        step = (self.ready, turns, *self.early, self._after_first(met), self.advance)
        return Sum(
            (self._matrix("acc"), held),
            (self._steps(step), self._wait(0), *((met, *self.at_end) if self.at_end else ())),
        )

    def _thrice(self) -> Sum:
        high, low, right = (Place(self.fresh(name)) for name in ("ah", "al", "bl"))
        parts = tuple(
            nodes.Reg(place.name, self._type(self.plan.tile[2], self.factors.left), kind="wgmma_a")
            for place in (high, low)
        )
        scaled = Binary("mul", self._read("partial"), Literal(1 / LOW_SCALE, self.dtype), self.dtype)
        step = (
            self.ready,
            nodes.Wait(Place(self.fresh("ready"), slot=self.slot), self.fresh.expr("s", "phase")),
            self._fetched(high, ZERO, low),
            nodes.Fence("wgmma"),
            self._product("partial", (), low, token="mma.low"),
            self._product("partial", None, high, token="mma.mix", right=right.name),
            *self.early,
            self._wait(0, "mma.low", "mma.mix"),
            self._each("partial", scaled),
            nodes.Fence("wgmma"),
            self._product("partial", None, high),
            self._wait(0),
            nodes.Barrier("warpgroup"),
            self._arrive("slot"),
            self._each("acc", self._added()),
            self.advance,
        )
        return Sum((self._matrix("acc"), self._matrix("partial"), *parts), (self._zero("acc"), self._steps(step)))

    def _fetched(self, to: Place, along: Expr, low: Place | None = None) -> Statement:
        """A piece of the left operand, from `along` on."""
        at = (self.factors.part, along) if self.factors.is_left_along else (along, self.factors.part)
        return nodes.Ldmatrix(to, Place(self.fresh("a"), at, self.slot), not self.factors.is_left_along, low)

    # --- what they are made of

    def _type(self, columns: int, dtype: DType) -> TensorType:
        return TensorType(dtype, (Expr.of(self.factors.rows), Expr.of(columns)))

    def _matrix(self, name: str) -> Statement:
        return nodes.Reg(self.fresh(name), self._type(self.plan.tile[1], self.dtype), kind="wgmma")

    def _steps(self, step: tuple[Statement, ...]) -> Statement:
        return nodes.For(self.fresh("k"), self.first, self.last, step, step=self.step)

    def _wait(self, pending: int, *tokens: str) -> Statement:
        return nodes.WaitGroup("wgmma", pending, tokens or ("mma",))

    def _arrive(self, which: str) -> Statement:
        return nodes.Arrive(Place(self.fresh("empty"), slot=self.fresh.expr("s", which)), cluster=self.factors.cluster)

    def _after_first(self, *before: Statement) -> Statement:
        return nodes.If((Bound(self.k, lower=self.first + 1),), (*before, self.given_back))

    def _product(
        self,
        to: str,
        zero: tuple[Bound, ...] | None,
        held: Place | None = None,
        along: Expr | None = None,
        token: str = "mma",
        right: str = "",
    ) -> Statement:
        """The product of a tile, its left part in shared memory or in the registers `held`; or of a piece, from `along`
        on."""
        f, depth = self.factors, self.plan.tile[2] if along is None else OPERAND_DEPTH
        corner = () if f.part == ZERO else (f.part, ZERO) if f.is_left_along else (ZERO, f.part)
        return nodes.Wgmma(
            token,
            self.fresh(to),
            held or Place(self.fresh("a"), corner, self.slot),
            Place(right or self.fresh("b"), () if along is None else (ZERO, along), self.slot),
            f"m{WARPGROUP_ROWS}n{self.plan.tile[1]}k{PRODUCT_BYTES // f.left.bytes}",
            depth * f.left.bytes // PRODUCT_BYTES,
            held is None and not f.is_left_along,
            f.is_right_along,
            zero,
        )

    def _each(self, name: str, value: Literal | Binary) -> Statement:
        """Every element of a matrix becomes `value`, of the element (r, n) of 64 rows at a time."""
        down, rows = self.fresh.expr("i"), self.factors.rows
        corner = (WARPGROUP_ROWS * down if rows > WARPGROUP_ROWS else ZERO, ZERO)
        each = nodes.Each(
            tuple(map(str, self._point)),
            self.fresh(name),
            (nodes.Assign(Place(self.fresh(name), self._place), value),),
            corner,
            (WARPGROUP_ROWS, self.plan.tile[1]),
        )
        return (
            nodes.For(str(down), ZERO, Expr.of(rows // WARPGROUP_ROWS), (each,), unroll=0)
            if rows > WARPGROUP_ROWS
            else each
        )

    @property
    def _point(self) -> tuple[Expr, Expr]:
        return self.fresh.expr("r"), self.fresh.expr("n")

    @property
    def _place(self) -> tuple[Expr, Expr]:
        r, n = self._point
        return (r + WARPGROUP_ROWS * self.fresh.expr("i") if self.factors.rows > WARPGROUP_ROWS else r, n)

    def _read(self, name: str) -> Read:
        return Read(self.fresh(name), self._place, DTYPES["fp32"])

    def _zero(self, name: str) -> Statement:
        return self._each(name, Literal(0.0, self.dtype))

    def _added(self, name: str = "partial") -> Binary:
        return Binary("add", self._read("acc"), self._read(name), self.dtype)
