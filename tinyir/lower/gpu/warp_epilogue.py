"""The epilogue of warps that hold an accumulator of mma.sync: sixteen rows at a time through shared memory, so that neighbouring lanes get
neighbouring columns, several a lane.

    for i                                               sixteen rows of the warp's tile
      barrier warp; each r, n of acc[16*i, 0]: store staged[warp.index][r, n]; barrier warp
      for v                                             a lane's columns, `width` of them side by side
        if row and columns are inside
          bias.near[e] over e: 8 = bias[col + e] vector 8       what lies beside one another is read at once
          for e: %bias_add, %relu ...; C.out[e] = %relu
          store C[row, col + e] over e: 8 = cast(C.out[e]) : fp16 vector 8
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

from ...ir.body import Body, Read, Select, Unary, rebuild
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.kernels import Contraction, extent_of
from ...ir.model import is_exchanged
from ...ir.plan import Plan
from ...ir.region import Region, Yield
from ...ir.resources import FRAGMENT_PAD, FRAGMENT_ROWS
from ...ir.types import TensorType
from .fold import type_of
from .fresh import Fresh
from .point import Values, below, divides, element_store, split

LANES = 32
UNROLLED = 8  # turns of a lane's columns that are written out at most


@dataclass(frozen=True, slots=True)
class WarpEpilogue:
    """The shared tile to declare, and what follows the sum."""

    tile: nodes.Shared
    statements: tuple[Statement, ...]


def warp_epilogue(plan: Plan, region: Region, kernel: Contraction, fresh: Fresh) -> WarpEpilogue:
    """The epilogue of a plan whose warps hold `warp_tile` accumulators each."""
    rows, columns = plan.warp_tile
    warps, warp = plan.tile[0] // rows * (plan.tile[1] // columns), Expr.of("warp.index")
    tile = nodes.Shared(fresh("staged"), TensorType(kernel.dtype, (Expr.of(FRAGMENT_ROWS), Expr.of(columns + FRAGMENT_PAD))), warps)
    slot = warp if warps > 1 else None
    i, r, n, v = (fresh.expr(word) for word in "irnv")
    copy = nodes.Store(Place(fresh("staged"), (r, n), slot), Read(fresh("acc"), (r + FRAGMENT_ROWS * i, n), kernel.dtype))
    pieces = nodes.Each((str(r), str(n)), fresh("acc"), (copy,), (FRAGMENT_ROWS * i, ZERO), (FRAGMENT_ROWS, columns))
    width = plan.width_of(kernel.right[-1].name) if len(kernel.right) == 1 else 1
    in_row = columns // width
    turns = FRAGMENT_ROWS * in_row // LANES
    number = LANES * v + Expr.of("lane") if turns > 1 else Expr.of("lane")
    down, across = fresh.expr("down"), fresh.expr("across")
    row, col = fresh.expr("row"), fresh.expr("col")
    places = (
        nodes.Let(str(down), number // in_row),
        nodes.Let(str(across), width * (number - in_row * (number // in_row))),
        nodes.Let(str(row), fresh.expr("m0") + fresh.expr("wm") + FRAGMENT_ROWS * i + down),
        nodes.Let(str(col), fresh.expr("n0") + fresh.expr("wn") + across),
    )
    inside = () if divides(plan.tile[0], extent_of(kernel.left)) else below(row, extent_of(kernel.left))
    inside += () if divides(plan.tile[1], extent_of(kernel.right)) else below(col + width - 1, extent_of(kernel.right))
    elements = tuple(_Elements(region, kernel, fresh, width, slot).statements())
    turn = (*places, nodes.If(inside, elements)) if inside else (*places, *elements)
    walk: tuple[Statement, ...] = (nodes.For(str(v), ZERO, Expr.of(turns), turn, unroll=0 if turns <= UNROLLED else UNROLLED),) if turns > 1 else turn
    return WarpEpilogue(tile, (nodes.For(str(i), ZERO, Expr.of(rows // FRAGMENT_ROWS), (nodes.Barrier("warp"), pieces, nodes.Barrier("warp"), *walk), unroll=0),))


class _Elements:
    """The values and writes at a lane's `width` neighbouring columns."""

    def __init__(self, region: Region, kernel: Contraction, fresh: Fresh, width: int, slot: Expr | None):
        self.region, self.kernel, self.fresh, self.width = region, kernel, fresh, width
        self.e = fresh.expr("e") if width > 1 else ZERO
        self.place = fresh.expr("col") + self.e
        self.point = {**split(fresh.expr("row"), kernel.left), **split(self.place, kernel.right), **split(fresh.expr("batch"), kernel.batch)}
        acc = Read(fresh("staged"), (fresh.expr("down"), fresh.expr("across") + self.e), kernel.dtype, slot)
        self.values = Values(region, self.point, {kernel.value: acc})
        self.near: dict[Read, nodes.Reg] = {}
        self.named: list[str] = []

    def statements(self) -> Iterator[Statement]:
        """What is read at once, the values of each column, what is written at once."""
        inner = self.values.name_values(self._near)
        held, stores = [], []
        for item in self.region.yields:
            body = self._near(self.values.at(item.expr))
            if self._is_in_a_row(item.output, tuple(x.substitute(self.point) for x in item.index)):
                x = body.x if isinstance(body, Unary) and body.op == "cast" else body
                reg = nodes.Reg(self._named(item.output, "out"), type_of(x.dtype, self.width))
                held.append(reg)
                inner.append(nodes.Assign(Place(reg.name, (self.e,)), x))
                kept: Body = Read(reg.name, (self.e,), x.dtype)
                stores.append(self._store(item, Unary("cast", kept, body.dtype) if x is not body else kept, self.width))
            else:
                inner.append(self._store(item, body, 1))
        for read, reg in self.near.items():
            yield reg
            yield nodes.Assign(Place(reg.name, (self.e,)), read, ((str(self.e), Expr.of(self.width)),), self.width)
        yield from held
        yield from (nodes.For(str(self.e), ZERO, Expr.of(self.width), tuple(inner), unroll=0),) if self.width > 1 else inner
        yield from stores

    def _named(self, tensor: str, word: str) -> str:
        label = re.sub(r"\W", "_", tensor) + f".{word}"
        self.named.append(label)
        count = self.named.count(label)
        return self.fresh(label if count == 1 else f"{label}{count}")

    def _is_in_a_row(self, tensor: str, index: tuple[Expr, ...]) -> bool:
        """Whether the lane's columns are neighbours in memory, at an index that begins on a multiple of the width."""
        found = next(t for t in (*self.region.inputs, *self.region.outputs) if t.name == tensor)
        is_row = self.width > 1 and bool(index) and index[-1] == self.place and not any(str(self.e) in x.names() for x in index[:-1])
        return is_row and found.type.shape[-1] == extent_of(self.kernel.right) and not is_exchanged(found)

    def _near(self, body: Body) -> Body:
        """The expression with reads of neighbours from registers. One under a guard of its own stays where it is."""
        if isinstance(body, Read) and body.tensor != self.fresh("staged") and self._is_in_a_row(body.tensor, body.index):
            if body not in self.near:
                self.near[body] = nodes.Reg(self._named(body.tensor, "near"), type_of(body.dtype, self.width))
            return Read(self.near[body].name, (self.e,), body.dtype)
        return body if isinstance(body, Select) else rebuild(body, self._near)

    def _store(self, item: Yield, body: Body, width: int) -> Statement:
        over = ((str(self.e), Expr.of(width)),) if width > 1 else ()
        return element_store(item, body, self.point, self.region.iters, (), over, width)


__all__ = ["WarpEpilogue", "warp_epilogue"]
