"""What a program needs of a device, whichever it is: `runtime.cuda.CudaDevice` on a GPU, `sim.launch.SimDevice` on the
CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np

from ..kit.diag import Refused
from ..kit.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a device: `count` elements of `item` bytes at `address`. `number` is the device's own."""

    name: str
    address: int
    count: int
    item: int
    number: int

    @property
    def bytes(self) -> int:
        """What a kernel may touch."""
        return self.count * self.item


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer argument of `bytes` (4 or 8) bytes, passed by value."""

    value: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Windows of an argument's tensor (`ir.windows`), their sizes known; outermost axis first."""

    counts: tuple[int, ...]
    low: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A tensor map as an argument: the buffer as row-major `dims`, moved in boxes of `box` elements, both outermost
    first; `swizzle` is the span of the pattern in bytes, 0 for none. With `windows` a box is a number of these, and a
    number of their channels."""

    buffer: Buffer
    dtype: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    windows: Walk | None = None


Argument = Union[Buffer, Scalar, Box]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class Bound:
    """A launch whose sizes are numbers. `code` is what the device loaded its kernel with. `shared` is dynamic shared
    memory in bytes. One that `is_early` may start while the one before it drains. `name` is its own where its kernel
    has several launches."""

    code: Any
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: tuple[Argument, ...]
    is_early: bool = False
    name: str = ""

    def run_on(self, device: Device) -> None:
        """Run it to its end. Raises Refused (E17xx), which names it."""
        try:
            device.launch(self.code, self.kernel, self.grid, self.block, self.shared, self.arguments)
        except Refused as fault:
            told = [replace(d, at=self.name) if self.name and d.at == self.kernel else d for d in fault.diags]
            raise Refused(told, fault.file) from None


class Device(Protocol):
    """Verbs of a device. Several texts may be loaded at a time, whose kernels may have the same names: each load gives
    a code of its own, and a launch says of which. Launches follow each other; `launch` reports a fault of the kernel as
    Refused (E17xx)."""

    name: str
    description: str
    is_packed: (
        bool  # buffers may share memory, one after the other; else each has its own, so that a stray access shows
    )
    can_replay: bool  # launches may be queued and captured in graphs (`replay`)

    def takes(self, arch: str) -> bool:
        """Whether code made for `arch` (sm80, sm90) can run."""

    def takes_maps(self) -> bool:
        """Whether kernels can be given tensor maps."""

    def load(self, text: str, kernels: Mapping[str, int]) -> Any:
        """Compile and load an emitted text; for each kernel that will be launched the most dynamic shared memory, in
        bytes. The code that it gives lasts until `unload` or `release`."""

    def unload(self, code: Any) -> None:
        """Give what `load` gave back; other codes stay."""

    def allocate(self, name: str, count: int, item: int, alignment: int) -> Buffer:
        """Memory, filled with 0xFF: NaN in every float, so that what nobody wrote shows."""

    def upload(self, buffer: Buffer, array: np.ndarray, is_constant: bool = True) -> None:
        """Copy a contiguous array in; kernels only read it, unless it is not constant."""

    def wait_for_all(self) -> None:
        """Until nothing is queued any more; of a device that `can_replay`."""

    def forget(self, buffer: Buffer) -> None:
        """What is in it is of no use any more: a device that is not packed makes it as if newly allocated."""

    def free(self, buffer: Buffer) -> None:
        """Give one buffer back."""

    def launch(
        self,
        code: Any,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Argument],
    ) -> None:
        """Run a kernel of a code to its end. Grid and block in x, y, z; `shared` in bytes."""

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy out into a contiguous array."""

    def release(self) -> None:
        """Give everything back. The device is of no use afterwards."""
