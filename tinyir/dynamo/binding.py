"""Where a call finds the sizes of a program's symbols: in the shapes of its tensors and among its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.expr import Expr
from .graph import extent_of, is_tensor
from .piece import Piece


def sizes_from(placeholders: Sequence[Any], symbols: Sequence[str]) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    """The sizes of the symbols, in order, of a call's arguments. Raises LookupError for a symbol that no argument has
    by itself."""
    places: dict[str, tuple[int, int]] = {}
    for number, node in enumerate(placeholders):
        value = node.meta.get("val")
        extents = value.shape if is_tensor(value) else () if value is None else (value,)
        for axis, extent in enumerate(extents):
            if isinstance(extent, (bool, float)):
                continue
            name = Expr.of(extent_of(extent)).name
            if name is not None:
                places.setdefault(name, (number, axis if is_tensor(value) else -1))
    missing = [s for s in symbols if s not in places]
    if missing:
        raise LookupError(", ".join(missing))
    found = [places[s] for s in symbols]

    def sizes(arguments: Sequence[Any]) -> tuple[int, ...]:
        return tuple(int(arguments[n]) if axis < 0 else arguments[n].shape[axis] for n, axis in found)

    return sizes


def numbers_from(piece: Piece) -> Callable[[Sequence[Any]], list[int]]:
    """The numbers that a call of the program computes with, in the order of `piece.numbers`. Raises LookupError as
    `sizes_from` does."""
    symbols = tuple(dict.fromkeys(n for e in piece.numbers.values() for n in e.names()))
    sizes = sizes_from(piece.placeholders, symbols)
    exprs = tuple(piece.numbers.values())

    def numbers(arguments: Sequence[Any]) -> list[int]:
        bound = dict(zip(symbols, sizes(arguments)))
        return [e.evaluate(bound) for e in exprs]

    return numbers


def symbols_of(piece: Piece) -> tuple[str, ...]:
    """The symbols of a program, and those of its graph's outputs."""
    own = piece.model.symbols() if piece.is_made else ()
    return tuple(dict.fromkeys([*own, *(n for r in piece.results for n in r.symbols())]))
