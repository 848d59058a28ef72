"""A program of an emitted text on a device: memory for its tensors and buffers, its launches with sizes put in.

Grid sizes and guards are expressions over the symbols of the signature; they get their values here, once. A launch with an empty grid is
not made: there is nothing for it to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import numpy as np

from ..ir import manifest
from ..kit.diag import Diag, Refused
from ..play.arrays import sizes_of
from .abi import logical, room_for
from .device import Argument, Buffer, Device, Scalar

MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class Bound:
    """A launch whose sizes are numbers. `shared` in bytes."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: tuple[Argument, ...]


class Program:
    """One program, loaded on one device for one set of sizes. Raises Refused: E1716 and E1721 (the compiler), E1717 (memory), E1719 (a
    launch that these sizes do not allow)."""

    def __init__(self, device: Device, text: str, module: manifest.Module, sizes: Mapping[str, int]):
        self.device = device
        self.module = module
        self.sizes = dict(sizes)
        faults = [d for launch in module.launches for d in _faults_of(launch, self.sizes)]
        if faults:
            raise Refused(faults)
        device.load(text, tuple(dict.fromkeys(launch.kernel for launch in module.launches)), max((launch.shared for launch in module.launches), default=0))
        self.buffers = self._allocate()
        self.launches = tuple(bound for launch in module.launches if 0 not in (bound := self._bind(launch)).grid)

    def upload(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Copy the inputs in, as they lie in memory (`abi.admit`)."""
        for name, array in inputs.items():
            self.device.upload(self.buffers[name], array)

    def run(self) -> None:
        """All launches, in order, each to its end."""
        for bound in self.launches:
            self.device.launch(bound.kernel, bound.grid, bound.block, bound.shared, bound.arguments)

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs by name, as the caller sees them."""
        found = {}
        for tensor in self.module.model.outputs:
            room = room_for(tensor, self.sizes)
            self.device.download(self.buffers[tensor.name], room)
            found[tensor.name] = logical(tensor, room)
        return found

    def flops(self) -> int | None:
        """Arithmetic of one run; None when a launch does not state its own."""
        return _total([launch.flops for launch in self.module.launches], self.sizes)

    def bytes(self) -> int | None:
        """Compulsory traffic of one run in bytes; None when a launch does not state its own."""
        return _total([launch.bytes for launch in self.module.launches], self.sizes)
