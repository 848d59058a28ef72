"""The end of a product at neighbouring columns of an output's row: what is adjacent is read at once, and
written at once.

bias.near[e] over e: 8 = bias[col + e] vector 8
reg C.out : fp16[8]
for e in 0..8 unroll
  %bias_add = add(staged[down, across + e], bias.near[e])
  C.out[e] = %bias_add
store C[row, col + e] over e: 8 = C.out[e] vector 8
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from ...ir.body import Axis, Body, Read, Select, Unary, rebuild
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_multiple
from ...ir.region import Region, Yield
from ...ir.runs import offset_of
from ...ir.traits import extent_of
from .fold import type_of
from .fresh import Fresh
from .point import Values, element_store, from_shared


class Columns:
    """The values and writes at `width` neighbouring columns along the axes `along`, at the region's `point`; `e` counts
    them and is part of the point. `known` are values that the kernel holds, `held` is what it has elsewhere than the
    region says. What is read from an array of the kernel stays there, but for what is adjacent (`beside`). Names that
    are `aligned` are multiples of the width; without any, rows of the outputs are those of the columns. With a `turn`,
    a counter and its end, what is read of the region's inputs is fetched for all turns before (`fetched`)."""

    def __init__(
        self,
        region: Region,
        fresh: Fresh,
        width: int,
        along: tuple[Axis, ...],
        column: Expr,
        point: Mapping[str, Expr],
        known: dict[str, Body],
        held: dict[Body, Body],
        beside: Container[Body] = (),
        aligned: frozenset[str] = frozenset(),
        turn: tuple[Expr, Expr] | None = None,
    ):
        self.region, self.fresh, self.width, self.extent = region, fresh, width, extent_of(along)
        self.e = fresh.expr("e") if width > 1 else ZERO
        self.place, self.point, self.held, self.beside = column, dict(point), held, beside
        self.aligned, self.turn = aligned, turn
        self.tensors = {t.name: t for t in (*region.inputs, *region.outputs)}
        self.values = Values(region, self.point, known)
        self.near: dict[Read, nodes.Reg] = {}
        self.before: dict[Read, tuple[nodes.Reg, Read]] = {}
        self.named: list[str] = []

    def statements(self) -> Iterator[Statement]:
        """What is read at once, the values of each column, what is written at once."""
        inner = self.values.name_values(self._near)
        kept, stores = [], []
        for item in self.region.yields:
            body = self._near(self.values.at(item.expr))
            if self._is_in_a_row(item.output, tuple(x.substitute(self.point) for x in item.index)):
                x = body.x if isinstance(body, Unary) and body.op == "cast" else body
                reg = nodes.Reg(self._named(item.output, "out"), type_of(x.dtype, self.width))
                kept.append(reg)
                inner.append(nodes.Assign(Place(reg.name, (self.e,)), x))
                made: Body = Read(reg.name, (self.e,), x.dtype)
                stores.append(self._store(item, Unary("cast", made, body.dtype) if x is not body else made, self.width))
            else:
                inner.append(self._store(item, body, 1))
        for read, reg in self.near.items():
            yield reg
            yield self._into(reg, (self.e,), self.before[read][1] if read in self.before else read)
        yield from kept
        yield from (
            (nodes.For(str(self.e), ZERO, Expr.of(self.width), tuple(inner), unroll=0),) if self.width > 1 else inner
        )
        yield from stores

    def fetched(self) -> tuple[tuple[nodes.Reg, ...], tuple[Statement, ...]]:
        """Registers for all turns, and what a turn loads into them."""
        loads = (self._into(reg, kept.index, read) for read, (reg, kept) in self.before.items())
        return tuple(reg for reg, _ in self.before.values()), tuple(loads)

    def _into(self, reg: nodes.Reg, place: tuple[Expr, ...], read: Read) -> Statement:
        over = ((str(self.e), Expr.of(self.width)),) if self.width > 1 else ()
        return nodes.Assign(Place(reg.name, place), read, over, self.width)

    def _named(self, tensor: str, word: str) -> str:
        label = re.sub(r"\W", "_", tensor) + f".{word}"
        self.named.append(label)
        count = self.named.count(label)
        return self.fresh(label if count == 1 else f"{label}{count}")

    def _is_in_a_row(self, tensor: str, index: tuple[Expr, ...]) -> bool:
        """Whether the columns are neighbours in memory, at an index that begins on a multiple of the width."""
        found = self.tensors[tensor]
        if self.aligned:
            rest = offset_of(found.type.shape, index) - self.e
            is_even = is_multiple(rest.substitute({n: self.width * Expr.of(n) for n in self.aligned}), self.width)
            return self.width > 1 and str(self.e) not in rest.names() and is_even
        is_row = (
            self.width > 1
            and bool(index)
            and index[-1] == self.place
            and not any(str(self.e) in x.names() for x in index[:-1])
        )
        return is_row and found.type.shape[-1] == self.extent

    def _near(self, body: Body) -> Body:
        """The expression with reads of neighbours from registers. One under a guard of its own stays where it is."""
        body = self.held.get(body, body)
        if isinstance(body, Read) and (
            body in self.beside
            if body.tensor not in self.tensors
            else self._is_in_a_row(body.tensor, body.index) or self.width == 1 and self.turn is not None
        ):
            if body not in self.near:
                self.near[body] = nodes.Reg(self._named(body.tensor, "near"), type_of(body.dtype, self.width))
                if self.turn is not None and body.tensor in self.tensors:
                    v, turns = self.turn
                    reg = nodes.Reg(self._named(body.tensor, "ahead"), type_of(body.dtype, turns, self.width))
                    self.before[body] = reg, Read(reg.name, (v, self.e), body.dtype)
            return Read(self.near[body].name, (self.e,), body.dtype)
        if isinstance(body, Select):
            return from_shared(body, self.held)
        return rebuild(body, self._near)

    def _store(self, item: Yield, body: Body, width: int) -> Statement:
        over = ((str(self.e), Expr.of(width)),) if width > 1 else ()
        return element_store(item, body, self.point, self.region.iters, (), over, width)
