"""Playback of index text by its book: what is computed is computed of what the composed maps read, and no movement is
played.

So a fault of the book shows in the numbers. A movement has an array of its own only where composition ends at it (a
reshape across symbols, a chain that is cut) or where it is a result. Poly text is played by the book that it carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..ir.evaluate import compute_dtype, convert, evaluate, fold, numpy_dtype, shape_of
from ..ir.expr import Expr
from ..ir.index import Access, Entry, Fill, Module, Piece, Read
from ..ir.ops import OPS
from ..ir.tiny import Value
from ..ir.types import DType
from ..kit.records import replace
from .arrays import adopt, bind_symbols, check_arrays
from .contraction import fold_product
from .grid import Frame, Grid, union
from .tiny import PLAYED, Watch


def play(
    module: Module, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None, watch: Watch | None = None
) -> dict[str, np.ndarray]:
    """The outputs by name, for input arrays by name, as `play.tiny.play`. Raises Refused (E1701 to E1711, E1403 a read
    out of bounds)."""
    model = module.tiny.model
    check_arrays(model, arrays, symbols)
    sizes = bind_symbols(model, arrays, symbols)
    return _Player(module, sizes, watch).run({t.name: adopt(arrays[t.name], t.type.dtype) for t in model.inputs})


class _Player:
    """One run."""

    def __init__(self, module: Module, symbols: Mapping[str, int], watch: Watch | None):
        self.module = module
        self.symbols = symbols
        self.watch = watch
        self.values = module.tiny.value_of()
        self.entries = module.entry_of()
        self.types = module.tiny.type_of()
        self.found: dict[str, np.ndarray] = {}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.found.update(inputs)
        needed = self.needed()
        with np.errstate(all="ignore"):
            for value in self.module.tiny.values:
                if value.name in needed:
                    self.found[value.name] = self.value(value, self.entries[value.name])
                    if self.watch:
                        self.watch(value.name, self.found[value.name])
        return {r.output: np.array(self.found[r.value], order="C") for r in self.module.tiny.results}

    def needed(self) -> set[str]:
        """The values that results and needed values read; a product that is only summed is not."""
        needed = {r.value for r in self.module.tiny.results}
        for value in reversed(self.module.tiny.values):
            if value.name in needed:
                entry = self.entries[value.name]
                product = self.product_of(value, entry)
                needed |= {
                    s for a in (self.entries[product.name].sources if product else entry.sources) if (s := a.source)
                }
        return needed

    def product_of(self, value: Value, entry: Entry) -> Value | None:
        """The product that the value sums, when its map to it is one read."""
        if value.op != "REDUCE" or value.attr("op") != "SUM" or entry.sources[0].read is None:
            return None
        source = self.values.get(entry.sources[0].read.source)
        return source if source is not None and source.op == "MUL" else None

    def value(self, value: Value, entry: Entry) -> np.ndarray:
        frame = self.frame(entry)
        product = self.product_of(value, entry)
        if product is not None:
            read = entry.sources[0].read
            x, y = (
                self.whole(self.types[o].dtype, _through(a, read.index), entry, frame)
                for o, a in zip(product.operands, self.entries[product.name].sources)
            )
            return fold_product(x, y, tuple(range(value.type.rank, x.ndim)), product.type.dtype, value.attr("dtype"))
        if OPS[value.op].group == "indirect":
            return _INDIRECT[value.op](self, value, entry, frame)
        if value.op == "RANDOM":
            return PLAYED["RANDOM"](value, shape_of(value, self.symbols))
        operands = [self.whole(self.types[o].dtype, a, entry, frame) for o, a in zip(value.operands, entry.sources)]
        if OPS[value.op].is_movement:
            return operands[0]
        if value.op == "REDUCE":
            trailing = tuple(range(value.type.rank, len(entry.axes)))
            value = replace(value, attrs=tuple((k, trailing if k == "axes" else v) for k, v in value.attrs))
        return evaluate(value, operands, self.symbols)

    def frame(self, entry: Entry) -> Frame:
        spans = {a.name: (0, a.size.evaluate(self.symbols)) for a in entry.axes}
        return Frame(
            entry.value,
            self.symbols,
            spans,
            self.found,
            {},
            order={name: n for n, name in enumerate(spans)},
            block=spans,
        )

    def whole(self, dtype: DType, access: Access, entry: Entry, frame: Frame) -> np.ndarray:
        """What an access reads as `dtype`, over every axis of the entry."""
        return self.over(dtype, access, frame, [a.name for a in entry.axes])

    def over(self, dtype: DType, access: Access, frame: Frame, axes: Iterable[str]) -> np.ndarray:
        """What an access reads as `dtype`, over the axes given."""
        axes = tuple(axes)
        return np.broadcast_to(self.read(dtype, access, frame, axes).along(axes), frame.extent(axes))

    def read(self, dtype: DType, access: Access, frame: Frame, over: Iterable[str]) -> Grid:
        """What an access reads as `dtype` over some axes, along those on which it varies."""
        if any(
            frame.spans[axis][0] == frame.spans[axis][1] for axis in over
        ):  # no point, so that the index of none need be inside
            return Grid(np.zeros((), numpy_dtype(dtype)))
        found: Grid | None = None
        for piece in reversed(access.pieces):
            grid = self.target(dtype, piece, frame, len(access.pieces) > 1)
            if found is None:
                found = grid
                continue
            holds = frame.mask(piece.guard)
            axes = union((holds, grid, found), frame.order)
            found = Grid(np.where(holds.along(axes), grid.along(axes), found.along(axes)), axes)
        return found

    def target(self, dtype: DType, piece: Piece, frame: Frame, is_guarded: bool) -> Grid:
        if isinstance(piece.target, Fill):
            return Grid(convert(np.array(piece.target.value), dtype))
        found = frame.pick(piece.target.source, self.found[piece.target.source], piece.target.index, is_guarded)
        return Grid(convert(found.array, dtype), found.axes)

    def gather(self, value: Value, entry: Entry, frame: Frame) -> np.ndarray:
        own = [a.name for a in entry.own_axes]
        (axis,) = (a for a in entry.axes if a.kind == "indirect")
        source, chosen = entry.sources
        inside, holds = frame.choosing(
            axis.name,
            axis.size.evaluate(self.symbols),
            self.read(self.types[value.operands[1]].dtype, chosen, frame, [*own, axis.name]),
        )
        found = self.over(self.types[value.operands[0]].dtype, source, inside, own)
        return np.where(np.broadcast_to(holds.along(own), found.shape), found, np.zeros((), found.dtype))

    def scatter(self, value: Value, entry: Entry, frame: Frame) -> np.ndarray:
        own, places = [a.name for a in entry.own_axes], [a.name for a in entry.axes if a.kind == "indirect"]
        if 0 in frame.extent(own):  # no point at which a map would mean anything
            return np.zeros(shape_of(value, self.symbols), numpy_dtype(value.type.dtype))
        axis = value.attr("axis") % len(own)
        spread = [own, places, [*own[:axis], *places, *own[axis + 1 :]]]
        # The base does not vary along the places, of which there may be none.
        frames = [frame.within({name: (0, 1) for name in frame.spans if name not in axes}) for axes in spread]
        operands = [
            self.over(self.types[o].dtype, a, own_frame, axes)
            for o, a, own_frame, axes in zip(value.operands, entry.sources, frames, spread)
        ]
        return PLAYED["SCATTER"](value, shape_of(value, self.symbols), *operands)

    def scan(self, value: Value, entry: Entry, frame: Frame) -> np.ndarray:
        """Each place folds those that the guard lets through, a place at a time."""
        own, dtype = [a.name for a in entry.own_axes], value.attr("dtype")
        here = own[value.attr("axis") % len(own)]
        rows = []
        for at in range(*frame.spans[here]):
            row = self.whole(dtype, entry.sources[0], entry, frame.within({here: (at, at + 1)}))
            rows.append(fold(value.attr("op"), row.astype(compute_dtype(dtype), copy=False), (row.ndim - 1,), dtype))
        return (
            convert(np.concatenate(rows, own.index(here)), dtype)
            if rows
            else np.zeros(shape_of(value, self.symbols), numpy_dtype(dtype))
        )


def _through(access: Access, index: tuple[Expr, ...]) -> Access:
    """The access at the points that an index gives."""
    point = {f"i{n}": e for n, e in enumerate(index)}

    def moved(piece: Piece) -> Piece:
        target = (
            piece.target
            if isinstance(piece.target, Fill)
            else Read(piece.target.source, tuple(e.substitute(point) for e in piece.target.index))
        )
        return Piece(tuple(b.substitute(point) for b in piece.guard), target)

    return Access(tuple(map(moved, access.pieces)))


_INDIRECT: dict[str, Callable[..., np.ndarray]] = {
    "GATHER": _Player.gather,
    "SCATTER": _Player.scatter,
    "SCAN": _Player.scan,
}
