"""The values at one element of a row: computed there, or taken from what registers keep of it from one pass to the
next."""

from __future__ import annotations

from typing import Any

from ...analysis.traffic import SLOW
from ...ir.body import (
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Literal,
    Read,
    Reduce,
    Ref,
    Ternary,
    Transpose,
    Unary,
    rebuild,
    walk,
)
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...kit.phrase import Phrase
from ..parts.beyond import beyond_in
from ..parts.fold import type_of
from ..parts.point import Point, Values, choice, is_in_place, needed

OPS = (Unary, Binary, Ternary)


class RowPoint:
    """The values at one element of the row of `rows` (`row_passes.Passes`): computed here, or taken from the registers
    that an earlier pass filled."""

    def __init__(self, rows: Any, at: Point, inner: list[Statement], declared: list[Statement]):
        self.rows = rows
        self.inner = inner
        self.declared = declared
        self.known = dict(rows.known)
        self.point = {**rows.point, **at}

    def at(self, body: Body) -> Body:
        """The expression, after the values that it needs."""
        for name in needed(self.rows.region, (body,)):
            if name not in self.known:
                self._value(name)
        return self._here(body)

    def _value(self, name: str) -> None:
        let = self.rows.region.let(name)
        ref = Ref(name, let.expr.dtype)
        register = self.rows.held.get(ref)
        if register is not None:
            self.known[name] = Read(register, (self.rows.turn,), let.expr.dtype)
            return
        body = self._here(let.expr)
        if name in self.rows.carried and ref not in self.rows.kept:
            self.known[name] = body
        elif ref in self.rows.kept:
            self.known[name] = self._keep(ref, self.rows.fresh.name(f"{name}.row"), body)
        else:
            self.inner.append(nodes.Value(name, body))
            self.known[name] = ref

    def _keep(self, node: Body, register: str, body: Body) -> Read:
        self.rows.held[node] = register
        self.declared.append(nodes.Reg(register, type_of(node.dtype, self.rows.each + self.rows.is_cut)))
        self.inner.append(nodes.Assign(Place(register, (self.rows.turn,)), body))
        return Read(register, (self.rows.turn,), node.dtype)

    def _here(self, body: Body) -> Body:
        def emit(inner: Reduce | Gather, values: Values) -> Body:
            if isinstance(inner, Reduce):
                raise beyond_in(self.rows.region, inner.span, Phrase("a fold inside a value that varies along the row"))
            return choice(inner, values, self.rows.fresh.name(f"{inner.axis.name}.at"), self.inner)

        values = Values(self.rows.region, self.point, self.known, emit)
        return self._with_row_values(values.at(self._with_kept_reads(body)))

    def _with_row_values(self, body: Body) -> Body:
        """The expression with what is slow to compute and the same along the row computed before the pass, once: of
        elements under guards the compiler would compute it under each."""
        leaves = {x for x in walk(body) if not isinstance(x, (*OPS, Literal))}
        if not leaves or not leaves <= set(self.rows.known.values()) or not any(map(_is_slow, walk(body))):
            return rebuild(body, self._with_row_values)
        if body not in self.rows.values:
            self.rows.values[body] = Ref(self.rows.fresh.name("row.value"), body.dtype)
            self.declared.append(nodes.Value(self.rows.values[body].name, body))
        return self.rows.values[body]

    def _with_kept_reads(self, body: Body) -> Body:
        """The expression with reads that registers keep named as values."""
        if is_in_place(self.rows.region, body):
            return self._with_kept_reads(body.x)
        if isinstance(body, (BroadcastInDim, Transpose, Gather)):
            return body
        if not isinstance(body, Read) or body not in self.rows.kept:
            return rebuild(body, self._with_kept_reads)
        if body not in self.rows.held:
            name = self.rows.fresh.name(f"{body.tensor}.row")
            self._keep(body, name, Values(self.rows.region, self.point, self.known).at(body))
        register = self.rows.held[body]
        self.known[register] = Read(register, (self.rows.turn,), body.dtype)
        return Ref(register, body.dtype)


def _is_slow(body: Body) -> bool:
    """Whether an op takes more than an instruction or two."""
    return isinstance(body, OPS) and (body.op == "fdiv" or body.op.upper() in SLOW)
