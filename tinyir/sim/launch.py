"""The simulated device: allocations between guard zones, launches, and faults as diagnostics.

The same verbs as `runtime.cuda.CudaDevice`: load, allocate, upload, launch, download, release. One launch runs at a
time in a program, since the launcher's blocks, fibers and signal handlers are one set.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..kit.diag import Diag, Refused, refuse
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..runtime.device import Argument, Box, Buffer
from . import host
from . import layout as abi
from .report import Scene, diag_of, place_in

_ONE_AT_A_TIME = threading.Lock()
AWAITS = re.compile(r"\bawait_(?:word|flag)\(&")  # of a text whose blocks wait for one another
CLUSTERED = re.compile(r"__cluster_dims__\(([\d, ]+)\)[^;{}]*?\b(\w+)\s*\(")


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(host.launcher()), mode=ctypes.RTLD_GLOBAL)
    library.tinyir_allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
    library.tinyir_stray.restype = ctypes.c_int64
    library.tinyir_fill.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return library


@dataclass(frozen=True, slots=True)
class SimCode:
    """A text that is compiled and loaded, and the clusters of its kernels."""

    text: str
    place: Path
    library: Any
    clusters: Mapping[str, tuple[int, ...]]
    is_awaiting: bool


class SimDevice:
    """The simulator, for one program or several. `seed` 0 runs threads in their order and lets copies land as late as
    may be; any other draws both anew at each round. `limit` bounds one launch, in seconds; 0: no bound. `mode`: one of
    `host.MODES`."""

    name = "sim"
    is_packed = False
    can_replay = False

    def __init__(self, seed: int = 0, limit: float = 0.0, mode: str = "traced"):
        self.seed = seed
        self.limit = limit
        self.mode = mode
        self.description = Phrase(
            "CPU simulation of the CUDA text ({find_compiler})", find_compiler=host.find_compiler()[1]
        )
        self._buffers: dict[int, Buffer] = {}
        self._inputs: set[int] = set()

    def takes(self, arch: str) -> bool:
        """Any code whose PTX wrappers have twins; the host compiler names a missing one."""
        return True

    def takes_maps(self) -> bool:
        """The twin of the copy engine reads them."""
        return True

    def load(self, text: str, kernels: Mapping[str, int]) -> SimCode:
        """Compile (or take from the cache) and load `text`. Raises Refused (E1720, E1721)."""
        _library()
        code = host.code_of(text)
        clusters = {name: tuple(map(int, sizes.split(","))) for sizes, name in CLUSTERED.findall(code)}
        place = host.kernels_of(text, tuple(kernels), max(kernels.values(), default=0), self.mode)
        try:
            return SimCode(text, place, ctypes.CDLL(str(place)), clusters, bool(AWAITS.search(code)))
        except OSError as fault:  # a function that is declared and has no twin
            raise refuse("E1721", fault=str(fault).rsplit(": ", 1)[-1]) from None

    def unload(self, code: SimCode) -> None:
        """Nothing: a library stays in its process."""

    def allocate(self, name: str, count: int, item: int, alignment: int = 16) -> Buffer:
        """`count` elements of `item` bytes, poisoned with 0xFF. Raises Refused (E1717)."""
        address = ctypes.c_void_p()
        number = _library().tinyir_allocate(count * item, max(alignment, 16), ctypes.byref(address))
        if number < 0:
            raise refuse("E1717", name, buffer=name, size=count * item)
        self._buffers[number] = Buffer(name, address.value or 0, count, item, number)
        return self._buffers[number]

    def upload(self, buffer: Buffer, array: np.ndarray, is_constant: bool = True) -> None:
        """Copy a contiguous array in; from then on a store into a constant one is a fault."""
        _library().tinyir_fill(buffer.number, array.ctypes.data, is_constant)
        self._inputs.add(buffer.number) if is_constant else self._inputs.discard(buffer.number)

    def forget(self, buffer: Buffer) -> None:
        """Poison again, and a read before the next store is a fault."""
        _library().tinyir_forget(buffer.number)

    def free(self, buffer: Buffer) -> None:
        """Give one buffer back."""
        del self._buffers[buffer.number]
        self._inputs.discard(buffer.number)
        _library().tinyir_free(buffer.number)

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy the buffer into a contiguous array of its size."""
        if array.nbytes:
            ctypes.memmove(array.ctypes.data, buffer.address, array.nbytes)

    def launch(
        self,
        code: SimCode,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Argument],
    ) -> None:
        """Run one kernel to its end. `shared` is at most what `load` was told. Raises Refused (E1719, E1722 to E1729,
        E1750 to E1765)."""
        cluster = code.clusters.get(kernel, ())
        sizes = [_three(grid), _three(block), _three(cluster)]
        if any(g % c for g, c in zip(sizes[0], sizes[2])):
            raise refuse(
                "E1719",
                kernel,
                kernel=kernel,
                reason=Phrase(
                    "its grid {sizes} is not a multiple of its cluster {sizes2}",
                    sizes=list(sizes[0]),
                    sizes2=list(sizes[2]),
                ),
            )
        slots = _Slots(arguments)
        launch = abi.Launch(*(abi.Dim(*size) for size in sizes), shared, self.seed, int(self.limit * 1e9))
        fault, waits = abi.Fault(), (abi.Wait * (_count(block) * _count(cluster)))()
        entries = (
            getattr(code.library, name) for name in (f"tinyir_call_{kernel}", "tinyir_touch_shared", "tinyir_dynamic")
        )
        called = abi.Code(
            *(ctypes.cast(entry, ctypes.c_void_p) for entry in entries),
            self.mode == "traced",
            code.is_awaiting,
        )
        with _ONE_AT_A_TIME:
            _library().tinyir_launch(
                ctypes.byref(called), slots.pointers, ctypes.byref(launch), ctypes.byref(fault), waits
            )
        if fault.kind:
            scene = Scene(
                kernel,
                code.text,
                code.place,
                self._buffers,
                frozenset(self._inputs),
                _count(block),
                _count(cluster),
                self.limit,
            )
            raise Refused([diag_of(fault, waits[: fault.thread_count], scene)])
        self._check_strays(kernel)

    def release(self) -> None:
        """Give all buffers back."""
        for number in self._buffers:
            _library().tinyir_free(number)
        self._buffers.clear()
        self._inputs.clear()

    def _check_strays(self, kernel: str) -> None:
        for number, buffer in self._buffers.items():
            stray = _library().tinyir_stray(number)
            if stray:
                facts = {
                    "access": Phrase("a store"),
                    "buffer": buffer.name,
                    "place": place_in(stray, buffer),
                    "thread": Phrase("some thread"),
                    "kernel": kernel,
                }
                raise Refused([Diag("E1722", kernel, facts)])


class _Slots:
    """The arguments of a kernel in memory, each aligned as its type asks, and pointers to them."""

    def __init__(self, arguments: Sequence[Argument]):
        self._kept: list[Any] = []
        places = [self._place(a) for a in arguments]
        self.pointers = (ctypes.c_void_p * max(len(places), 1))(*places)

    def _place(self, argument: Argument) -> int:
        if isinstance(argument, Box):
            room = (ctypes.c_char * (2 * abi.MAP_ALIGNMENT + ctypes.sizeof(abi.Map) + 64))()
            place = -(-ctypes.addressof(room) // abi.MAP_ALIGNMENT) * abi.MAP_ALIGNMENT
            made = abi.map_of(argument)
            ctypes.memmove(place, ctypes.byref(made), ctypes.sizeof(made))
        else:
            value = argument.address if isinstance(argument, Buffer) else argument.value
            room = ctypes.c_uint64(value & (1 << 64) - 1)
            place = ctypes.addressof(room)
        self._kept.append(room)
        return place


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


def _count(sizes: Sequence[int]) -> int:
    x, y, z = _three(sizes)
    return x * y * z
