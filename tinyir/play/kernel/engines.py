"""What the copy engine and the matrix units do for threads that compute, and folds over threads. Each is done where it
is started: that nobody looks before it has ended is for `ir.gpu.dry`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...ir.accumulate import neutral_of
from ...ir.gpu import nodes
from ...ir.gpu.across import LookBack, Publish, Ticket
from ...ir.gpu.dry.integers import holds
from ...ir.gpu.dry.memory import Here
from ...ir.gpu.dry.steps import Step
from ...ir.gpu.dry.threads import At, Unknown, Wish
from ...ir.gpu.nodes import PART_KINDS, Place
from ..product import multiplied
from .threads import PARTS, UFUNCS, Computing, fetched


class Engines(Computing):
    """Threads with the engines that they start."""

    # --- boxes of tensors

    def _box(self, name: str, start: Sequence[Any], tile: Sequence[int]) -> tuple[Any, tuple[Any, ...], Any]:
        """The tensor of a map, the index of each element of a tile [rows, columns] that begins at `start`, and where
        that is inside."""
        m = self.run.arrays[self.named(name)]
        tensor = self.run.tensors[m.tensor]
        if m.windows is not None:
            dims = (tensor.shape[0] * m.windows.count.evaluate(self.run.sizes), *tensor.shape[1:])
        else:
            dims = tuple(d.evaluate(self.run.sizes) for d in m.dims) or tensor.shape
        box = [int(self._number(side)) for side in m.box]
        index = _in_box(start, [n for n in range(len(box) - 1) if box[n] != 1], box, tile)
        if m.windows is None:
            return tensor, *_of_dims(index, dims, tensor.shape)
        counts = [c.evaluate(self.run.sizes) for c in m.windows.counts]
        whole = 0 <= index[0]
        number, *window = np.unravel_index(np.clip(index[0], 0, dims[0] - 1), (tensor.shape[0], *counts))
        places = [low + step * p + o for low, step, p, o in zip(m.windows.low, m.windows.steps, window, index[1:-1])]
        inside = whole & (index[0] < dims[0])
        found = (number, *places, index[-1])
        for place, size in zip(found, tensor.shape):
            inside = inside & (0 <= place) & (place < size)
        return tensor, found, inside

    def _tmaload(self, s: nodes.TmaLoad, here: Here) -> None:
        tile, ctas = self.run.arrays[s.to.name], s.multicast or (self.party.cta,)
        if s.to.index:
            raise Unknown
        shape = [d.evaluate({}) for d in tile.type.shape]
        start = [int(self._number(e)) for e in s.source.index]
        tensor, index, inside = self._box(s.source.name, start, (math.prod(shape[:-1]), shape[-1]))
        elements = np.where(inside, fetched(tensor, _clipped(index, tensor.shape)), np.zeros((), tensor.dtype))
        for cta in ctas:
            self.run.shared[s.to.name][cta, self._slot(s.to)] = elements.reshape(shape)
            self.run.barrier(cta, s.on.name, self._slot(s.on)).land(tile.bytes // tile.ring // len(ctas))

    def _tmastore(self, s: nodes.TmaStore, here: Here) -> None:
        box = [int(self._number(side)) for side in self.run.arrays[self.named(s.to.name)].box]
        tile = math.prod(box[:-1]), box[-1]
        start = [int(self._number(e)) for e in s.to.index]
        tensor, index, inside = self._box(s.to.name, start, tile)
        name = self.run.arrays[self.named(s.to.name)].tensor
        self._drop(name, tensor, index, inside, self._tile(s.source, tile))

    def _storerows(self, s: nodes.StoreRows, here: Here) -> None:
        name = self.named(s.to.name)
        tensor, box = self.run.tensors[name], [int(self._number(side)) for side in s.box]
        sides = [box[n] for n in s.sides]
        tile = (1, *sides)[-2:] if sides else (1, 1)
        dims = tuple(d.evaluate(self.run.sizes) for d in s.dims) or tensor.shape
        start = [int(self._number(e)) for e in s.to.index]
        index = [np.full((1, 1), n) for n in start]
        for axis, n in enumerate(s.sides, 2 - len(s.sides)):
            index[n] = start[n] + np.arange(tile[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
        places, inside = _of_dims(index, dims, tensor.shape)
        self._drop(name, tensor, places, inside, self._tile(s.source, tile))

    def _drop(self, name: str, tensor: Any, index: Any, inside: Any, found: Any) -> None:
        """Writes the elements that are inside."""
        inside = np.broadcast_to(inside, found.shape)
        places = tuple(np.broadcast_to(i, found.shape)[inside] for i in index)
        self.store(name, tensor, places, found[inside])

    def _tile(self, place: Place, shape: Sequence[int], is_transposed: bool = False) -> np.ndarray:
        """A piece of a tile in shared memory, or of a warpgroup's matrix in registers."""
        array, slot = self.run.arrays[place.name], self._slot(place)
        if isinstance(array, nodes.Reg):
            whole = self.held[place.name][slot, 0]
        else:
            whole = self.run.shared[place.name][self.party.cta, slot]
        start = [int(self._number(e)) for e in place.index] or [0] * whole.ndim
        sides = (shape[::-1] if is_transposed else shape)[-whole.ndim :]
        found = whole[tuple(slice(n, n + side) for n, side in zip(start, sides))]
        if found.shape != tuple(sides):
            raise Unknown
        return found.T if is_transposed else found.reshape(shape)

    def _send(self, s: nodes.Send, here: Here) -> None:
        cta = int(self._number(s.cta))
        to = self.run.shared[s.to.name][cta, self._slot(s.to)]
        start = [int(self._number(e)) for e in s.to.index] or [0] * to.ndim
        to[tuple(slice(n, n + side) for n, side in zip(start, s.size))] = self._tile(s.source, s.size)
        size = math.prod(s.size) * self.run.arrays[s.to.name].type.dtype.bytes
        self.run.barrier(cta, s.on.name, self._slot(s.on)).land(size)

    # --- matrices

    def _ldmatrix(self, s: nodes.Ldmatrix, here: Here) -> None:
        declared = self.run.arrays[s.to.name]
        size, held = self.threads_of(declared.kind), self.held[s.to.name]
        rows, columns = np.ogrid[: held.shape[2], : held.shape[3]]
        if s.is_transposed:
            rows, columns = columns, rows
        start = [np.asarray(self.units(e, size)).reshape(-1, 1, 1) for e in s.source.index] or [0, 0]
        tile = self.run.shared[s.source.name]
        index = (self.party.cta, self._slot(s.source), start[0] + rows, start[1] + columns)
        where = self.at_work(held.shape[1])
        to = held[self._slot(s.to)]
        to[where] = np.broadcast_to(fetched(tile, index), to.shape)[where]
        if s.low is not None:
            self.held[s.low.name][self._slot(s.low)][where] = 0

    def _split(self, s: nodes.Split, here: Here) -> None:
        """Nothing is left of what a matrix unit does not look at, since here it looks at all of it."""
        self.run.shared[s.to.name][self.party.cta, self._slot(s.to)] = 0

    def _mma(self, s: nodes.Mma, here: Here) -> None:
        left, right = (self.held[p.name][self._slot(p)] for p in (s.a, s.b))
        first = int(self._number(s.a.index[1])) if s.a.index else 0
        left = left[:, :, first : first + right.shape[1]]
        acc = self.held[s.acc][0]
        where = self.at_work(len(acc))
        acc[where] += _product(left[where], right[where])

    def _wgmma(self, s: nodes.Wgmma, here: Here) -> None:
        zero = False if s.zero is None else holds(s.zero, self.names)
        _, n, k = (int(part) for part in s.shape[1:].replace("n", " ").replace("k", " ").split())
        acc = self.held[s.acc][0, 0]
        depth = k * s.steps
        left = self._tile(s.a, (acc.shape[0], depth), s.a_transposed)
        right = self._tile(s.b, (depth, n), s.b_transposed)
        if zero is None or isinstance(zero, np.ndarray):
            raise Unknown
        product = _product(left, right)
        acc[:, :n] = product if zero else acc[:, :n] + product

    def _rowreduce(self, s: nodes.RowReduce, here: Here) -> None:
        fold, source, to = UFUNCS[s.op], self.held[s.source][0], self.held[s.to][0]
        is_parts = [self.run.arrays[name].kind in PART_KINDS for name in (s.source, s.to)]
        if is_parts[1] and not is_parts[0]:
            source = fold.reduce(source.reshape(*source.shape[:2], -1, PARTS, 2), axis=(2, 4))
        elif not is_parts[1]:
            source = fold.reduce(source, axis=2)
        where = self.at_work(len(to))
        to[where] = fold(to[where], source[where])

    # --- folds over threads

    def _warpreduce(self, s: nodes.WarpReduce, here: Here) -> None:
        held = self.held[s.name]
        groups = held.reshape(held.shape[0], -1, s.width, *held.shape[2:])
        if s.is_exclusive:
            found = np.full(groups.shape, neutral_of(s.op, self.run.arrays[s.name].type.dtype).value, held.dtype)
            found[:, :, 1:] = UFUNCS[s.op].accumulate(groups[:, :, :-1], axis=2, dtype=held.dtype)
            held[...] = found.reshape(held.shape)
            return
        held[...] = np.broadcast_to(UFUNCS[s.op].reduce(groups, axis=2, keepdims=True), groups.shape).reshape(
            held.shape
        )

    def _fold(self, s: Any, step: Step, at: At, here: Here) -> Iterator[Wish]:
        """Over all threads of a CTA that go together. Raises Unknown where they do not."""
        if self.run.groups > 1:
            raise Unknown
        yield from super()._fold(s, step, at, here)
        if isinstance(s, Ticket):
            number = self.run.told.get((s.source.name,), 0)
            self.run.told[s.source.name,] = number + 1
            self.names[s.name] = number
        elif isinstance(s, LookBack):
            self._look_back(s)
        elif isinstance(s, nodes.BlockReduce):
            held = self.held[s.name]
            held[...] = UFUNCS[s.op].reduce(held, axis=1, keepdims=True)
        else:
            self._block_scan(s)

    def _block_scan(self, s: nodes.BlockScan) -> None:
        held, carry = self.held[s.name][0], self.held[s.carry][0]
        line = held.reshape(self.count, -1).T.reshape(-1)
        line = UFUNCS[s.op].accumulate(np.concatenate([carry[0].reshape(1), line]), dtype=held.dtype)
        carry[...] = line[-1]
        found = line[:-1] if s.is_exclusive else line[1:]
        held[...] = found.reshape(-1, self.count).T.reshape(held.shape)

    def _publish(self, s: Publish, here: Here) -> None:
        self.run.told[(s.to.name, *(int(self._first(e)) for e in s.to.index))] = self.held[s.name][0, 0].copy()

    def _look_back(self, s: LookBack) -> None:
        held = self.held[s.name]
        *before, last = (int(self._first(e)) for e in s.source.index)
        total = np.full(held.shape[2:], neutral_of(s.op, self.run.arrays[s.name].type.dtype).value, held.dtype)
        for tile in range(last):
            if (s.source.name, *before, tile) not in self.run.told:
                raise Unknown
            total = UFUNCS[s.op](total, self.run.told[(s.source.name, *before, tile)])
        held[...] = total

    def _first(self, e: Any) -> Any:
        return np.ravel(self.number(e))[0]


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A product, whose numbers are added up in a wider dtype."""
    wide = np.int32 if left.dtype.kind in "iu" else np.float64 if left.dtype == np.float64 else np.float32
    return multiplied(left.astype(wide), right.astype(wide))


def _in_box(start: Sequence[int], sides: Sequence[int], box: Sequence[int], tile: Sequence[int]) -> list[np.ndarray]:
    """The index of each element of a tile of boxes: its rows run along `sides`, its columns along the last dim."""
    rows = np.arange(tile[0]).reshape(-1, 1)
    index = [np.full((1, 1), n) for n in start]
    index[-1] = start[-1] + np.arange(tile[1]).reshape(1, -1)
    if len(sides) == 1:
        index[sides[0]] = start[sides[0]] + rows
    elif sides:
        for n, part in zip(sides, np.unravel_index(rows, [box[n] for n in sides])):
            index[n] = start[n] + part
    elif tile[0] > 1:
        raise Unknown
    return index


def _of_dims(index: Sequence[Any], dims: Sequence[int], shape: Sequence[int]) -> tuple[tuple[Any, ...], Any]:
    """The index of elements of a tensor that are seen with other dims, and where they are inside of these."""
    inside: Any = True
    for place, size in zip(index, dims):
        inside = inside & (0 <= place) & (place < size)
    if tuple(dims) == tuple(shape):
        return tuple(index), inside
    flat: Any = 0
    for place, size in zip(_clipped(index, dims), dims):
        flat = flat * size + place
    return tuple(np.unravel_index(flat, shape)), inside


def _clipped(index: Sequence[Any], shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple(np.clip(place, 0, size - 1) for place, size in zip(index, shape))


Engines.go = {
    **Computing.go,
    nodes.BlockReduce: Engines._fold,
    nodes.BlockScan: Engines._fold,
    Ticket: Engines._fold,
    LookBack: Engines._fold,
}
Engines.act = {
    **Computing.act,
    nodes.TmaLoad: Engines._tmaload,
    nodes.TmaStore: Engines._tmastore,
    nodes.StoreRows: Engines._storerows,
    nodes.Send: Engines._send,
    nodes.Ldmatrix: Engines._ldmatrix,
    nodes.Split: Engines._split,
    nodes.Mma: Engines._mma,
    nodes.Wgmma: Engines._wgmma,
    nodes.RowReduce: Engines._rowreduce,
    nodes.WarpReduce: Engines._warpreduce,
    Publish: Engines._publish,
}
