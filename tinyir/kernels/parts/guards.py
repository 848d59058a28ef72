"""Which axes a plan must guard, and how large a size may be."""

from __future__ import annotations

from ...ir.body import Axis
from ...ir.expr import Expr
from ...ir.model import Model
from ...ir.neighbours import is_multiple
from ...ir.traits import extent_of


def guarded_axes(group: tuple[Axis, ...], tile: int) -> tuple[str, ...]:
    """The axes of a group that predicate must name: none where the tile divides their product, else those of symbolic
    size, else all."""
    if is_multiple(extent_of(group), tile):
        return ()
    symbolic = tuple(a.name for a in group if a.size is None or a.size.constant is None)
    return symbolic or tuple(a.name for a in group)


def most_of(size: Expr, model: Model) -> int | None:
    """The largest value of `size` within the symbols' ranges; None where it is not plainly growing in each."""
    if any(c < 0 or not all(isinstance(atom, str) for atom in monomial) for c, monomial in size.terms):
        return None
    return size.evaluate({name: model.range_of(name).high for name in size.names()})
