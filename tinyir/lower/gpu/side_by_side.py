"""Neighbours along an axis that move together: their loads in front of a loop over them, and their stores behind it.

    X.v[v] over v: 8 = X[i0, i1 + v] vector 8         i1 names the first of them
    for v in 0..8 unroll
      the values at i1 + v, from X.v[v]; Y.v[v] = ...
    store Y[i0, i1 + v] over v: 8 = cast(Y.v[v]) : fp16 vector 8
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Iterable

from ...ir.accumulate import wide
from ...ir.body import Axis, Body, Literal, Read, Select, Unary, rebuild
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_multiple
from ...ir.present import guard_names
from ...ir.region import Region, Yield
from .fold import type_of
from .point import Fresh, Point, element_store


@dataclass
class SideBySide:
    """`width` neighbours along the axis `along`, whose name is the first one's place. `loads` are the reads that move at once, with the registers
    that hold them; `registers` and `stores` are those of the outputs."""

    region: Region
    fresh: Fresh
    width: int
    along: str
    loads: dict[Read, str] = field(default_factory=dict)
    registers: list[Statement] = field(default_factory=list)
    stores: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turn = self.fresh.of("v")
        self.over = ((self.turn, Expr.of(self.width)),)

    @property
    def place(self) -> Expr:
        """Where the neighbour at hand stands."""
        return Expr.of(self.along) + self.turn

    def store(self, item: Yield, body: Body, point: Point, axes: Iterable[Axis]) -> list[Statement]:
        """What is done at each neighbour for an output that varies along the axis; the store itself comes behind the loop."""
        inside: list[Statement] = []
        if not self.moves_whole(body):
            body = self._held(item, body, inside)
        self.stores.append(element_store(item, body, point, axes, over=self.over, vector=self.width))
        return inside

    def loop(self, lines: Iterable[Statement]) -> list[Statement]:
        """Loads, the loop over the neighbours around the lines, stores."""
        inside = tuple(self._with_registers(s) for s in lines)
        loads: list[Statement] = []
        for read, name in self.loads.items():
            loads.append(nodes.Reg(name, type_of(read.dtype, self.width)))
            loads.append(nodes.Assign(Place(name, (Expr.of(self.turn),)), read, self.over, self.width))
        loop = [nodes.For(self.turn, ZERO, Expr.of(self.width), inside, unroll=0)] if inside else []
        return [*loads, *self.registers, *loop, *self.stores]

    def moves_whole(self, body: Body) -> bool:
        """Whether an output's neighbours are those of another tensor."""
        if isinstance(body, Select) and isinstance(body.other, Literal):
            return self.turn not in guard_names(body.guard) and self._is_whole(body.then)
        return self._is_whole(body)

    def _held(self, item: Yield, body: Body, inside: list[Statement]) -> Body:
        """Registers for the neighbours of an output, in the dtype of arithmetic; gives what is stored of each."""
        is_rounded = isinstance(body, Unary) and body.op == "cast" and body.x.dtype == wide(body.dtype)
        value = body.x if is_rounded else body
        name, at = self.fresh.name(f"{item.output}.v"), (Expr.of(self.turn),)
        held: Body = Read(name, at, value.dtype)
        self.registers.append(nodes.Reg(name, type_of(value.dtype, self.width)))
        inside.append(nodes.Assign(Place(name, at), value))
        return replace(body, x=held) if is_rounded else held

    def _is_whole(self, read: Body) -> bool:
        """Whether a read takes neighbours that begin on a whole access."""
        if not isinstance(read, Read) or self.region.tensor(read.tensor) is None or not read.index:
            return False
        first = read.index[-1] - self.place
        steps = (first, self.region.tensor(read.tensor).type.shape[-1])
        alone = {self.turn, self.along}.isdisjoint({n for e in (first, *read.index[:-1]) for n in e.names()})
        return alone and all(is_multiple(e, self.width) for e in steps)

    def _with_registers(self, s: Statement) -> Statement:
        if isinstance(s, (nodes.Value, nodes.Assign, nodes.Store, nodes.Choose)):
            return replace(s, value=self._from_registers(s.value))
        if isinstance(s, (nodes.If, nodes.For)):
            return replace(s, body=tuple(self._with_registers(inner) for inner in s.body))
        return s

    def _from_registers(self, body: Body) -> Body:
        """The expression with the reads that move at once taken from registers; what a guard keeps from being read stays."""
        if isinstance(body, Select):
            return body
        if self._is_whole(body):
            name = self.loads.get(body) or self.fresh.name(f"{body.tensor}.v")
            self.loads[body] = name
            return Read(name, (Expr.of(self.turn),), body.dtype)
        return rebuild(body, self._from_registers)


__all__ = ["SideBySide"]
