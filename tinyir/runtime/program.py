"""A program of an emitted text on a device: memory for its tensors and buffers, its launches with sizes put in.

Grids and guards are expressions over the symbols of the signature; they get their values here, once. Of launches that are alternatives
the first that sizes and device allow is made. One with an empty grid, or with empty outputs alone, is not: there is nothing to write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import numpy as np

from ..ir import manifest
from ..ir.expr import show_guard
from ..ir.intervals import LARGEST_SIZE
from ..ir.verify_region import owner_of
from ..kit.diag import Diag, Refused
from ..play.arrays import numpy_dtype, sizes_of
from ..play.region import constant_of
from .abi import logical, room_for
from .device import Argument, Box, Buffer, Device, Scalar

MAX_GRID = (2**31 - 1, 65535, 65535)
SYMBOL_BYTES = 4  # a kernel takes each symbol as an int
ALIGNMENT = 16  # bytes; of every tensor, unless its attribute asks for more


@dataclass(frozen=True, slots=True)
class Bound:
    """A launch whose sizes are numbers. `shared` is dynamic shared memory in bytes."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: tuple[Argument, ...]


class Program:
    """One program, loaded on one device for one set of sizes. Raises Refused: E1719 (a launch that these sizes do not allow), E1716 and
    E1721 (the compiler), E1717 (memory)."""

    def __init__(self, device: Device, text: str, module: manifest.Module, sizes: Mapping[str, int]):
        assert module.region is not None, "manifest.check was not run"
        self.device = device
        self.module = module
        self.model = module.region.model
        self.sizes = dict(sizes)
        self.chosen = chosen_of(module, self.sizes, device)
        shared = {entry: max(launch.smem for launch in self.chosen if launch.entry == entry) for entry in (launch.entry for launch in self.chosen)}
        device.load(text, shared)
        self.buffers = self._allocate()
        bound = (self._bind(launch) for launch in self.chosen if not self._is_empty(launch))
        self.launches = tuple(b for b in bound if math.prod(b.grid))

    def upload(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Copy the inputs in, as they lie in memory (`abi.admit`)."""
        for tensor in self.model.inputs:
            self.device.upload(self.buffers[tensor.name], inputs[tensor.name])

    def run(self) -> None:
        """All launches, in order, each to its end. Raises Refused (E1722 to E1730)."""
        for b in self.launches:
            self.device.launch(b.kernel, b.grid, b.block, b.shared, b.arguments)

    def enqueue(self) -> None:
        """All launches, in order, queued on the stream of a `cuda.CudaDevice`; nothing is waited for."""
        for b in self.launches:
            self.device.enqueue(b.kernel, b.grid, b.block, b.shared, b.arguments)

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs by name, as the caller sees them."""
        found = {}
        for tensor in self.model.outputs:
            room = room_for(tensor, self.sizes)
            self.device.download(self.buffers[tensor.name], room)
            found[tensor.name] = logical(tensor, room)
        return found

    def flops(self) -> int:
        """Arithmetic operations of one run, as the launches state them."""
        return sum(launch.flops.evaluate(self.sizes) for launch in self.chosen)

    def bytes(self) -> int:
        """Bytes of one run when each launch reads each input and writes each output once."""
        return sum(launch.bytes.evaluate(self.sizes) for launch in self.chosen)

    def _allocate(self) -> dict[str, Buffer]:
        """Memory for the signature's tensors and every buffer that a launch names; a buffer with an alias has its owner's."""
        program = self.module.region.program
        types = self._types()
        named = {name for launch in self.module.launches for name in launch.tensors}
        named |= {m.tensor for m in self.module.maps}
        owner = {name: owner_of(program, name) for name in named}
        wanted = dict.fromkeys([*(t.name for t in (*self.model.inputs, *self.model.outputs)), *(owner[name] for name in sorted(named))])
        buffers = {}
        for name in wanted:
            tensor = types[name]
            shape = sizes_of(tensor.type.shape, self.sizes)
            buffers[name] = self.device.allocate(name, math.prod(shape), tensor.type.dtype.bytes, max(tensor.attr("alignment") or 0, ALIGNMENT))
        for tensor in program.buffers:
            if tensor.name in buffers and tensor.attr("value") is not None:
                constant = np.ascontiguousarray(constant_of(tensor, self.sizes), numpy_dtype(tensor.type.dtype))
                self.device.upload(buffers[tensor.name], constant)
        return buffers | {name: buffers[owner[name]] for name in named}

    def _bind(self, launch: manifest.Launch) -> Bound:
        tensors: list[Argument] = [self.buffers[name] for name in launch.tensors]
        symbols = [Scalar(self.sizes[name], SYMBOL_BYTES) for name in launch.symbols]
        maps = [self._box(m) for name in launch.maps for m in self.module.maps if m.name == name]
        return Bound(launch.entry, launch.grid_at(self.sizes), launch.block, launch.smem, (*tensors, *maps, *symbols))

    def _box(self, m: manifest.TensorMap) -> Box:
        tensor = self._types()[m.tensor]
        dims, box = sizes_of(m.dims or tensor.type.shape, self.sizes), sizes_of(m.box, {})
        return Box(self.buffers[m.tensor], tensor.type.dtype.name, dims, box, m.swizzle)

    def _is_empty(self, launch: manifest.Launch) -> bool:
        written = [t for name in launch.regions for t in self.module.region.program.region(name).outputs]
        return bool(written) and not any(math.prod(sizes_of(t.type.shape, self.sizes)) for t in written)

    def _types(self) -> dict[str, Any]:
        return {t.name: t for t in (*self.module.region.program.buffers, *self.module.buffers, *self.model.inputs, *self.model.outputs)}


def chosen_of(module: manifest.Module, sizes: Mapping[str, int], device: Device) -> tuple[manifest.Launch, ...]:
    """The launches to make, in order: of those of the same regions the first without a fault. Raises Refused (E1719) with the faults of all
    where each has one."""
    chosen: dict[tuple[str, ...], manifest.Launch] = {}
    faults: dict[tuple[str, ...], list[Diag]] = {}
    for launch in module.launches:
        found = list(faults_of(launch, sizes, device)) if launch.regions not in chosen else []
        if found:
            faults.setdefault(launch.regions, []).extend(found)
        else:
            chosen.setdefault(launch.regions, launch)
    left = [d for regions, found in faults.items() if regions not in chosen for d in found]
    if left:
        raise Refused(left)
    return tuple(launch for launch in module.launches if chosen[launch.regions] is launch)


def faults_of(launch: manifest.Launch, sizes: Mapping[str, int], device: Device) -> Iterator[Diag]:
    """Why the sizes or the device do not allow a launch (E1719)."""
    def fault(reason: str) -> Diag:
        return Diag("E1719", launch.name, {"kernel": launch.name, "reason": reason})

    for name in launch.symbols:
        if sizes[name] > LARGEST_SIZE:
            yield fault(f"{name} is {sizes[name]}, and kernels count up to {LARGEST_SIZE}")
    for guard in launch.assumes:
        if not all(bound.holds(sizes) for bound in guard):
            names = dict.fromkeys(n for b in guard for e in (b.expr, b.lower, b.upper, b.equals) if e is not None for n in e.names())
            yield fault(f"it was made for {show_guard(guard)}, and {', '.join(f'{n} = {sizes[n]}' for n in names)}")
    for axis, size, most in zip("xyz", launch.grid_at(dict(sizes)), MAX_GRID):
        if size > most:
            yield fault(f"its grid has {size} blocks along {axis}, and a device takes {most}")
    if launch.maps and not device.takes_maps():
        yield fault(f"it takes tensor maps, which {device.description} cannot make")
    if not device.takes(launch.arch):
        yield fault(f"it was made for {launch.arch}, which {device.description} is not")
