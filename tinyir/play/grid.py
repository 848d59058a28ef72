"""Arrays over named axes: how the values of a region, and what a book reads, are in NumPy.

A Grid is an array and the names of its axes, one a dimension. Each axis runs over a range of a Frame, so that a region
can be played in blocks. Index expressions become integer Grids; a read whose index is plain (each dim one axis, scaled
and shifted) is a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.expr import Bound, Expr
from ..ir.types import DType
from ..kit.diag import refuse
from ..kit.records import dataclass, field
from .indirect import in_range


@dataclass(frozen=True, slots=True)
class Grid:
    """An array whose dimension d runs along the axis axes[d]."""

    array: np.ndarray
    axes: tuple[str, ...] = ()

    def along(self, axes: Sequence[str]) -> np.ndarray:
        """The array with one dimension for each of `axes`, of size 1 where it does not vary. Its own axes must be among
        them."""
        order = sorted(range(len(self.axes)), key=lambda d: axes.index(self.axes[d]))
        moved = self.array.transpose(order) if order != list(range(len(order))) else self.array
        return moved.reshape(list(_sizes(moved, [self.axes[d] for d in order], axes)))


def _sizes(array: np.ndarray, own: list[str], axes: Sequence[str]) -> Iterable[int]:
    size_of = dict(zip(own, array.shape))
    return (size_of.get(axis, 1) for axis in axes)


def union(grids: Iterable[Grid], order: Mapping[str, int]) -> tuple[str, ...]:
    """The axes of all the grids, in `order`."""
    return tuple(sorted({a for g in grids for a in g.axes}, key=order.__getitem__))


@dataclass(slots=True)
class Frame:
    """Where an expression is played: the name of the region or value that it is of, sizes of symbols, the range of each
    axis (start, stop), tensors, values, the order of axes, the points of axes that a value has chosen (Gather), the
    ranges that the values cover (`block`), by what roundings move values (`roundings.Moves`), and whether a part of a
    region alone is played (`is_part`)."""

    name: str
    symbols: Mapping[str, int]
    spans: dict[str, tuple[int, int]]
    tensors: Mapping[str, np.ndarray]
    dtypes: Mapping[str, DType]
    values: dict[str, Grid] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, Grid] = field(default_factory=dict)
    block: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moves: Any = None
    is_part: bool = False

    def within(self, spans: Mapping[str, tuple[int, int]]) -> Frame:
        """The same frame with some axes over other ranges, or with new ones."""
        order = dict(self.order)
        for name in spans:
            order.setdefault(name, len(order))
        return Frame(
            self.name,
            self.symbols,
            {**self.spans, **spans},
            self.tensors,
            self.dtypes,
            self.values,
            order,
            dict(self.chosen),
            self.block,
            self.moves,
            self.is_part,
        )

    def choosing(self, axis: str, size: int, at: Grid) -> tuple[Frame, Grid]:
        """The frame in which `axis`, of `size` points, is where the integers `at` choose, counted from the end
        below 0; and where they are inside. Elsewhere it is at 0."""
        place, is_inside = in_range(at.array, size)
        inside = self.within({axis: (0, size)})
        inside.chosen[axis] = Grid(place, at.axes)
        return inside, Grid(is_inside, at.axes)

    def extent(self, axes: Iterable[str]) -> tuple[int, ...]:
        """How many points each axis has here."""
        return tuple(self.spans[a][1] - self.spans[a][0] for a in axes)

    def integers(self, expr: Expr) -> Grid:
        """The value of an index expression at every point of its axes, as i64."""
        axes = self._axes_of((expr,))
        return Grid(self._evaluate(expr, axes), axes)

    def _axes_of(self, exprs: Iterable[Expr]) -> tuple[str, ...]:
        """The axes along which index expressions vary."""
        names = {n for e in exprs for n in e.names() if n in self.spans}
        names = {a for n in names for a in (self.chosen[n].axes if n in self.chosen else (n,))}
        return tuple(sorted(names, key=self.order.__getitem__))

    def _evaluate(self, expr: Expr, axes: tuple[str, ...]) -> np.ndarray:
        total = np.zeros((1,) * len(axes), np.int64)
        for coefficient, monomial in expr.terms:
            product = np.full((1,) * len(axes), coefficient, np.int64)
            for atom in monomial:
                if not isinstance(atom, str):
                    product = product * (self._evaluate(atom.num, axes) // self._evaluate(atom.den, axes))
                elif atom in self.chosen:
                    product = product * self.chosen[atom].along(axes)
                elif atom in self.spans:
                    shape = [1] * len(axes)
                    shape[axes.index(atom)] = -1
                    product = product * np.arange(*self.spans[atom], dtype=np.int64).reshape(shape)
                else:
                    product = product * self.symbols[atom]
            total = total + product
        return np.broadcast_to(total, self.extent(axes))

    def value(self, name: str) -> Grid:
        """A value of the region over the ranges of this frame."""
        found = self.values[name]
        cuts = [(self.spans[a], self.block[a]) for a in found.axes]
        if all(span == block for span, block in cuts):
            return found
        return Grid(
            found.array[tuple(slice(span[0] - block[0], span[1] - block[0]) for span, block in cuts)], found.axes
        )

    def mask(self, guard: Iterable[Bound]) -> Grid:
        """Where a guard holds, as bool."""
        found = Grid(np.array(True))
        for bound in guard:
            for grid in self._sides(bound):
                axes = union((found, grid), self.order)
                found = Grid(found.along(axes) & grid.along(axes), axes)
        return found

    def _sides(self, bound: Bound) -> Iterable[Grid]:
        if bound.equals is not None:
            difference = self.integers(bound.expr - bound.equals)
            yield Grid(difference.array == 0, difference.axes)
        if bound.lower is not None:
            above = self.integers(bound.expr - bound.lower)
            yield Grid(above.array >= 0, above.axes)
        if bound.upper is not None:
            below = self.integers(bound.upper - bound.expr)
            yield Grid(below.array > 0, below.axes)

    def pick(self, name: str, array: np.ndarray, index: Sequence[Expr], is_guarded: bool) -> Grid:
        """The elements of an array at an index. Where a guard is around it, places outside give any element;
        without a guard they are refused (E1403)."""
        axes = self._axes_of(index)
        walked = {*axes, *(self.spans.keys() - self.block.keys())}
        if 0 in self.extent(
            walked
        ):  # no point, under an empty fold for one: the index need not be inside, nor have a meaning
            return Grid(np.zeros(self.extent(axes), array.dtype), axes)
        plain = self._plain(array, index)
        if plain is not None:
            return plain
        places = [self.integers(e) for e in index]
        return self.fetch(name, array, places, is_guarded or 0 in self.extent(self.block))

    def fetch(self, name: str, array: np.ndarray, places: Sequence[Grid], is_guarded: bool) -> Grid:
        """The elements of an array at places given as integer grids."""
        axes = union(places, self.order)
        at = [g.along(axes) for g in places]
        for axis, (where, size) in enumerate(zip(at, array.shape)):
            if where.size and (where.min() < 0 or where.max() >= size):
                if not is_guarded:
                    raise refuse("E1403", self.name, read=name, axis=axis, bound=f"0 <= index < {size}")
                at[axis] = np.clip(where, 0, max(size - 1, 0))
        shape = np.broadcast_shapes(*(w.shape for w in at)) if at else ()
        if array.size == 0:
            return Grid(np.zeros(shape, array.dtype), axes)
        return Grid(array[tuple(at)] if at else array, axes)

    def _plain(self, array: np.ndarray, index: Sequence[Expr]) -> Grid | None:
        """A view, when every dim is a constant or one axis, scaled and shifted, in bounds, and no axis comes twice."""
        slices: list[slice | int] = []
        axes: list[str] = []
        for expr, size in zip(index, array.shape):
            placed = expr.substitute({n: self.symbols[n] for n in expr.names() if n in self.symbols})
            named = [t for t in placed.terms if t[1]]
            if not named:
                if not 0 <= placed.offset < size:
                    return None
                slices.append(placed.offset)
                continue
            scale, monomial = named[0]
            axis = monomial[0]
            if len(named) > 1 or len(monomial) > 1 or not isinstance(axis, str) or axis in axes or axis in self.chosen:
                return None
            start, stop = self.spans[axis]
            first, last = scale * start + placed.offset, scale * (stop - 1) + placed.offset
            if stop <= start or not (0 <= first < size and 0 <= last < size):
                return None
            end = last + (1 if scale > 0 else -1)
            slices.append(slice(first, end if end >= 0 else None, scale))
            axes.append(axis)
        return Grid(array[tuple(slices)], tuple(axes))
