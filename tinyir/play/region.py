"""Playback of region text on NumPy: the program's regions in order, each value an array over its axes.

A region whose values would not fit in memory is played in blocks of its independent axes. Deferred buffers are ordinary
ones here. Errors: each op and fold as in `play.body`; against exact arithmetic the error is that of fp32 accumulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..ir.body import Body, Reduce, Ref, Scan, Scatter, Transpose, walk
from ..ir.evaluate import sizes_of
from ..ir.in_place import owner_of
from ..ir.model import memory_type
from ..ir.present import axes_of_values
from ..ir.region import Module, Region, Tensor, Yield
from ..ir.types import round_to
from .arrays import adopt, bind_symbols, check_arrays, in_memory, numpy_dtype
from .body import MOST_POINTS, evaluate
from .grid import Frame, union
from .tiny import Watch

Spans = dict[str, tuple[int, int]]


def play(
    module: Module,
    arrays: Mapping[str, Any],
    symbols: Mapping[str, int] | None = None,
    watch: Watch | None = None,
    moves: Any = None,
) -> dict[str, np.ndarray]:
    """The outputs by name, for input arrays by name. `symbols` gives sizes that no input's shape settles; `moves` moves
    values by what roundings do (`roundings.Moves`). Raises Refused (E17xx arrays that do not fit, E1403 a read out of
    bounds)."""
    check_arrays(module.model, arrays, symbols)
    symbols = bind_symbols(module.model, arrays, symbols)
    memory = _Memory(module, symbols, arrays)
    for at, region in enumerate(module.program.regions):
        outputs = memory.of(region.outputs)
        play_region(region, symbols, memory.of(region.inputs), outputs, watch, moves=moves)
        for name, array in outputs.items() if watch else ():
            watch(name, memory.logical(name, array))
        memory.release(at)
    return {t.name: memory.logical(t.name, memory.of((t,))[t.name]) for t in module.model.outputs}


def play_region(
    region: Region,
    symbols: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    watch: Watch | None = None,
    part: Mapping[str, tuple[int, int]] | None = None,
    moves: Any = None,
) -> None:
    """Write the outputs of one region, which are given as arrays to fill. `watch` is told its values, each over its
    axes in the order of `for`. `part`: only for these points of axes, where values are independent along them."""
    spans = {a.name: (0, a.size.evaluate(symbols)) for a in region.iters}
    if any(stop <= start for start, stop in spans.values()) and not any(o.size for o in outputs.values()):
        return
    spans |= {a: span for a, span in (part or {}).items() if a in free_axes(region)}
    dtypes = {t.name: t.type.dtype for t in region.inputs + region.outputs}
    whole: dict[str, np.ndarray] = {}
    for block in _blocks(region, spans):
        order = {n: at for at, n in enumerate(spans)}
        is_part = part is not None
        frame = Frame(region.name, symbols, block, inputs, dtypes, {}, order, {}, block, moves, is_part)
        for let in region.lets:
            found = frame.values[let.name] = evaluate(let.expr, frame)
            if watch:
                array = whole.setdefault(let.name, np.empty([spans[a][1] for a in found.axes], found.array.dtype))
                array[tuple(slice(*block[a]) for a in found.axes)] = found.array
        for item in region.yields:
            _write(item, outputs[item.output], frame)
    for name, array in whole.items() if watch else ():
        watch(name, array)


class _Memory:
    """The arrays of the program: inputs, buffers, outputs, and buffers that live in another's memory."""

    def __init__(self, module: Module, symbols: Mapping[str, int], arrays: Mapping[str, Any]):
        self.module, self.program = module, module.program
        self.symbols = symbols
        self.signature = {t.name: t for t in (*module.model.outputs, *module.model.inputs)}
        self.types = {name: memory_type(t) for name, t in self.signature.items()}
        self.types |= {t.name: t.type for t in self.program.buffers}
        self.arrays = {t.name: in_memory(t, adopt(arrays[t.name], t.type.dtype)) for t in module.model.inputs}
        for state in module.model.states():
            self.arrays[state] = self.arrays[state].copy()  # the caller's array stays as it is
        for buffer in self.program.buffers:
            if buffer.attr("value") is not None:
                self.arrays[buffer.name] = constant_of(buffer, symbols)

    def of(self, tensors: tuple[Any, ...]) -> dict[str, np.ndarray]:
        """The arrays of some tensors, made when first asked for."""
        return {t.name: self._view(t.name) for t in tensors}

    def logical(self, name: str, array: np.ndarray) -> np.ndarray:
        """What the caller sees of a tensor's memory."""
        return in_memory(self.signature[name], array) if name in self.signature else array

    def _view(self, name: str) -> np.ndarray:
        owner = owner_of(self.module, name)
        if owner not in self.arrays:
            kind = self.types[owner]
            self.arrays[owner] = np.zeros(sizes_of(kind.shape, self.symbols), numpy_dtype(kind.dtype))
        array = self.arrays[owner]
        return array if owner == name else array.reshape(sizes_of(self.types[name].shape, self.symbols))

    def release(self, at: int) -> None:
        """Forget what no region after number `at` reads."""
        later = {owner_of(self.module, t.name) for r in self.program.regions[at + 1 :] for t in r.inputs + r.outputs}
        for name in [n for n in self.arrays if n not in later and n not in self.signature]:
            del self.arrays[name]


def constant_of(buffer: Tensor, symbols: Mapping[str, int]) -> np.ndarray:
    """The numbers of a constant buffer, in its shape."""

    def rounded(value: Any) -> Any:
        return [rounded(v) for v in value] if isinstance(value, tuple) else round_to(buffer.type.dtype, value)

    shape = sizes_of(buffer.type.shape, symbols)
    stated = np.array(rounded(buffer.attr("value"))).astype(numpy_dtype(buffer.type.dtype))
    return np.broadcast_to(
        stated if stated.size else stated.reshape(shape), shape
    )  # lists do not say what follows an empty axis


def _write(item: Yield, output: np.ndarray, frame: Frame) -> None:
    value = evaluate(item.expr, frame, bool(item.guard))
    names = [e.name for e in item.index]
    if not item.guard and all(n in frame.spans for n in names) and len(set(names)) == len(names):
        output[tuple(slice(*frame.spans[n]) for n in names)] = value.along(names)
        return
    mask = frame.mask(item.guard)
    places = [frame.integers(e) for e in item.index]
    axes = union((value, mask, *places), frame.order)
    extent = frame.extent(axes)
    holds = np.broadcast_to(mask.along(axes), extent)
    index = tuple(np.broadcast_to(p.along(axes), extent)[holds] for p in places)
    output[index] = np.broadcast_to(value.along(axes), extent)[holds]


def _blocks(region: Region, spans: Spans) -> Iterator[Spans]:
    """The region's points in blocks that fit, cut along axes along which every value is independent."""
    axes_of, free = axes_of_values(region), free_axes(region)

    def cut(block: Spans) -> Iterator[Spans]:
        points = max((math.prod(block[a][1] - block[a][0] for a in axes) for axes in axes_of.values()), default=1)
        axis = next((n for n in free if block[n][1] - block[n][0] > 1), None)
        if points <= MOST_POINTS or axis is None:
            yield block
            return
        start, stop = block[axis]
        step = max(1, (stop - start) * MOST_POINTS // points)
        for first in range(start, stop, step):
            yield from cut({**block, axis: (first, min(stop, first + step))})

    return cut(spans)


def free_axes(region: Region) -> list[str]:
    """The axes along which every value is independent, in the order of `for`."""
    tied = {n for item in (*region.lets, *region.yields) for node in walk(item.expr) for n in _tied_axes(node, region)}
    return [a.name for a in region.iters if a.name not in tied]


def _tied_axes(node: Body, region: Region) -> tuple[str, ...]:
    """Axes along which a form reads other points of a value."""
    kind = node.__class__
    if kind is Reduce:
        return tuple(a.name for a in node.axes if a.size is None)
    if kind is Scan or kind is Scatter:
        return (node.axis, *(a.name for a in getattr(node, "axes", ())))
    if kind is Transpose or kind is Ref and node.index is not None:
        return tuple(a.name for a in region.iters)
    return ()
