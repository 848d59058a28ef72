"""The names and the guards of a tile's rows: those of one axis, or of a group of heads beside it; and of pages."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ..parts.point import Values, below, divides, guarded
from .match import Flash
from .pages import Page


def names_of_row(flash: Flash, number: Expr, name: str) -> tuple[Statement, ...]:
    """The axes of the row of this number, which gets a `name` of its own where it is made of two axes."""
    packed = flash.packed
    if packed is None:
        return (nodes.Let(flash.streaming.row.name, number),)
    major = Expr.of(name) // packed.each
    lets = (nodes.Let(packed.major.name, major), nodes.Let(packed.minor.name, Expr.of(name) - packed.each * major))
    return (nodes.Let(name, number), *lets)


def guard_of_row(flash: Flash, rows: int) -> tuple[Bound, ...]:
    """What must hold of the axes for a row of a tile with this number of rows to be one of the query's."""
    row, packed = flash.streaming.row, flash.packed
    if packed is None:
        return () if divides(rows, row.size) else below(Expr.of(row.name), row.size)
    ends = ((packed.minor, packed.each), (packed.major, rows // packed.each))
    return tuple(b for a, size in ends if a.size != Expr.of(size) for b in below(Expr.of(a.name), a.size))


def named_page(flash: Flash, page: Page, name: str, masks: Sequence[Bound], first: Expr) -> tuple[Statement, ...]:
    """The number of the page that a block of columns is in, whose `first` is this one; page 0 of a block that the
    masks leave nothing of."""
    row, column = flash.streaming.row.name, flash.streaming.column.name
    point = {a.name: Expr.of(a.name) for a in flash.streaming.first.iters} | {column: first}
    ends = (m.substitute({column: first}) for m in masks if column in m.expr.names() and row not in m.expr.names())
    value = Values(flash.streaming.first, point).at(page.at)
    return (nodes.Choose(name, guarded(tuple(ends), value), page.extent),)
