"""The simulated device: allocations between guard zones, launches, and faults as diagnostics.

The same verbs as `runtime.cuda.CudaDevice`: load, allocate, upload, launch, download, release. One launch runs at a time in a program,
since the launcher's blocks, fibers and signal handlers are one set.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from ..kit.diag import Diag, Label, Refused, refuse
from ..kit.span import Span, span_of_line
from ..runtime.device import Argument, Buffer
from . import host

_ONE_AT_A_TIME = threading.Lock()
MEMORY, TRAP, DEADLOCK, DIVERGENCE, ARITHMETIC, TIME, COLLECTIVE, STACK, NO_MEMORY = range(1, 10)  # TinyirFaultKind of shim/abi.h
EXITED, AT_BARRIER, AT_COLLECTIVE = range(1, 4)  # TinyirWaitKind
MAX_THREADS = 1024
STACK_BYTES = 128 << 10


class _Dim(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

    def __str__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class _Launch(ctypes.Structure):
    _fields_ = [("grid", _Dim), ("block", _Dim), ("seed", ctypes.c_uint64), ("limit_ns", ctypes.c_uint64)]


class _Wait(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in ("kind", "line")), *((name, ctypes.c_uint32) for name in ("id", "arrived", "wanted"))]


class _Fault(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "is_write", "allocation", "line")),
        ("block", _Dim),
        ("thread", _Dim),
        ("address", ctypes.c_uint64),
        ("code_offset", ctypes.c_uint64),
        ("byte_offset", ctypes.c_int64),
        ("thread_count", ctypes.c_uint32),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(host.launcher()), mode=ctypes.RTLD_GLOBAL)
    library.tinyir_allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
    library.tinyir_stray.restype = ctypes.c_int64
    return library


class SimDevice:
    """One program's use of the simulator. `seed` 0 runs threads in their order; any other draws an order anew at each round.
    `limit` bounds one launch, in seconds; 0 is no bound."""

    name = "sim"

    def __init__(self, seed: int = 0, limit: float = 0.0):
        self.seed = seed
        self.limit = limit
        self.description = f"CPU simulation of the CUDA text ({host.find_compiler()[1]})"
        self._buffers: dict[int, Buffer] = {}
        self._inputs: set[int] = set()
        self._text = ""
        self._object: Path | None = None
        self._code: Any = None

    def takes(self, arch: str) -> bool:
        """Any code whose PTX wrappers have twins; the host compiler names a missing one."""
        return True

    def takes_maps(self) -> bool:
        """Not yet: the copy engine has no twin."""
        return False

    def load(self, text: str, kernels: Sequence[str], dynamic_shared: int = 0) -> None:
        """Compile (or take from the cache) and load `text`. Raises Refused (E1720, E1721)."""
        _library()
        self._text = text
        self._object = host.kernels_of(text, tuple(kernels), dynamic_shared)
        self._code = ctypes.CDLL(str(self._object))

    def allocate(self, name: str, count: int, item: int, alignment: int = 16) -> Buffer:
        """`count` elements of `item` bytes, poisoned with 0xFF. Raises Refused (E1717)."""
        address = ctypes.c_void_p()
        number = _library().tinyir_allocate(count * item, max(alignment, 16), ctypes.byref(address))
        if number < 0:
            raise refuse("E1717", name, buffer=name, size=count * item)
        self._buffers[number] = Buffer(name, address.value or 0, count, item, number)
        return self._buffers[number]

    def upload(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy a contiguous array in; from then on a store into it is a fault."""
        if array.nbytes:
            ctypes.memmove(buffer.address, array.ctypes.data, array.nbytes)
        _library().tinyir_protect(buffer.number)
        self._inputs.add(buffer.number)

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy the buffer into a contiguous array of its size."""
        if array.nbytes:
            ctypes.memmove(array.ctypes.data, buffer.address, array.nbytes)

    def launch(self, kernel: str, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Argument]) -> None:
        """Run one kernel to its end. `shared` is what `load` was told. Raises Refused (E1722 to E1729)."""
        values = [ctypes.c_uint64((a.address if isinstance(a, Buffer) else a.value) & (1 << 64) - 1) for a in arguments]
        slots = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))
        launch = _Launch(_Dim(*_three(grid)), _Dim(*_three(block)), self.seed, int(self.limit * 1e9))
        fault, waits = _Fault(), (_Wait * MAX_THREADS)()
        call = getattr(self._code, f"tinyir_call_{kernel}")
        with _ONE_AT_A_TIME:
            _library().tinyir_launch(call, self._code.tinyir_touch_shared, slots, ctypes.byref(launch), ctypes.byref(fault), waits)
        if fault.kind:
            raise Refused([self._diag_of(kernel, fault, waits[: fault.thread_count])])
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
                facts = {"access": "a store", "buffer": buffer.name, "place": _place(stray, buffer), "thread": "some thread", "kernel": kernel}
                raise Refused([Diag("E1722", kernel, facts)])

    def _diag_of(self, kernel: str, fault: _Fault, waits: Sequence[_Wait]) -> Diag:
        line = fault.line or (host.find_line(self._object, fault.code_offset) if fault.code_offset and self._object else 0)
        where = {"thread": f"thread {fault.thread} of block {fault.block}", "kernel": kernel, "block": str(fault.block)}
        span = span_of_line(self._text, line)
        if fault.kind == MEMORY:
            buffer = self._buffers.get(fault.allocation)
            access = "a store" if fault.is_write else "a load"
            place = self._place_of(fault, buffer) if buffer else f"at address {fault.address:#x}"
            return Diag("E1722", kernel, where | {"access": access, "buffer": buffer.name if buffer else "no buffer", "place": place}, span)
        if fault.kind in _WAITING:
            labels = [Label(place, note) for place, note in self._notes_of(waits) if place]
            lines = "; ".join(note for _, note in self._notes_of(waits))
            span = span or (labels[0].span if labels else None)
            return Diag(_WAITING[fault.kind], kernel, where | {"waits": lines}, span, tuple(label for label in labels if label.span != span))
        if fault.kind == NO_MEMORY:
            return Diag("E1717", kernel, {"buffer": "the threads' stacks", "size": MAX_THREADS * STACK_BYTES})
        return Diag(_STOPPED[fault.kind], kernel, where | {"limit": self.limit}, span)

    def _place_of(self, fault: _Fault, buffer: Buffer) -> str:
        if fault.allocation in self._inputs and 0 <= fault.byte_offset < buffer.bytes:
            return f"element {fault.byte_offset // buffer.item}, an input"
        return _place(fault.byte_offset, buffer)

    def _notes_of(self, waits: Sequence[_Wait]) -> list[tuple[Span | None, str]]:
        """Who waits for what, where: one note for each line and barrier."""
        groups: dict[tuple[int, int, int], list[int]] = {}
        for thread, wait in enumerate(waits):
            groups.setdefault((wait.kind, wait.line, wait.id), []).append(thread)
        notes = []
        for (kind, line, number), threads in groups.items():
            last = waits[threads[-1]]
            come = f"{max(waits[t].arrived for t in threads)} of {last.wanted} came"
            what = {
                EXITED: "returned",
                AT_BARRIER: f"waiting at line {line} for barrier {number} ({come})",
                AT_COLLECTIVE: f"waiting at line {line} for the lanes {number:#010x} ({come})",
            }.get(kind, "could go on")
            notes.append((span_of_line(self._text, line) if kind in (AT_BARRIER, AT_COLLECTIVE) else None, f"{_threads(threads)} {what}"))
        return notes[:12]


_WAITING = {DEADLOCK: "E1724", DIVERGENCE: "E1725", COLLECTIVE: "E1728"}
_STOPPED = {TRAP: "E1723", ARITHMETIC: "E1726", TIME: "E1727", STACK: "E1729"}


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _place(offset: int, buffer: Buffer) -> str:
    side = "before its start" if offset < 0 else "past its end"
    return f"element {offset // buffer.item}, {side} ({buffer.count} elements)"


def _threads(threads: list[int]) -> str:
    """`thread 3`, `threads 0..31`, `threads 0, 2, 4, ... (32)`."""
    if len(threads) == 1:
        return f"thread {threads[0]}"
    if threads[-1] - threads[0] == len(threads) - 1:
        return f"threads {threads[0]}..{threads[-1]}"
    shown = ", ".join(map(str, threads[:3]))
    return f"threads {shown}, ... ({len(threads)})" if len(threads) > 3 else f"threads {shown}"
