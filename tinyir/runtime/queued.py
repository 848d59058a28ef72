"""Runs of a program on the stream of another library, which waits for them when it likes: nothing here waits.

A set of addresses is queued launch by launch when it is new, and from its second run on replayed as a CUDA graph. Where
there are more sets than are kept, inputs are copied to where one more graph reads them, and outputs from where it
writes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..kit.records import dataclass
from .cuda import CudaDevice
from .device import Buffer
from .driver import call, follow
from .program import Program

MOST_SETS = 8  # of addresses


@dataclass(slots=True)
class _Set:
    launches: tuple[Any, ...]
    graph: Any = None


class Queued:
    """One program for tensors that the caller keeps: `inputs` and `outputs` are the names of those that a run is given,
    in order; of the program's own buffers for these only the sizes count (`lent`). Its buffers between launches are its
    own, so runs follow one another, on whatever stream."""

    def __init__(self, device: CudaDevice, program: Program, inputs: Sequence[str], outputs: Sequence[str]):
        self._device, self._program = device, program
        self._names = (*inputs, *outputs)
        self._inputs = len(inputs)
        self._sets: dict[tuple[int, ...], _Set] = {}
        self._own: _Set | None = None
        self._rooms: list[Buffer] = []  # where inputs are copied to and outputs from, once that is needed
        self._status = ctypes.c_int()  # of a stream's capture
        self._status_at = ctypes.byref(self._status)
        self._last: int | None = None
        self._program.make_once()

    def run(self, addresses: tuple[int, ...], stream: int) -> None:
        """Queue one run. Raises Refused (E1730)."""
        with self._device.refusing(self._program.model.name):
            if self._last != stream:
                self._follow(stream)
            found = self._sets.get(addresses)
            if found is None and len(self._sets) < MOST_SETS:
                found = self._sets[addresses] = _Set(self._bound(addresses))
                self._queue(found, stream)
            elif found is not None:
                self._replay(found, stream)
            else:
                self._run_on_copies(addresses, stream)

    def make_once(self) -> None:
        """What is computed of constants alone, anew."""
        self._program.make_once()

    def release(self) -> None:
        """Give the graphs and the program back, once all runs are over."""
        for found in (*self._sets.values(), *([self._own] if self._own else [])):
            if found.graph is not None:
                found.graph.release()
        self._sets.clear()
        self._own = None
        for buffer in self._rooms:
            self._device.free(buffer)
        self._rooms.clear()
        self._program.release()

    def _follow(self, stream: int) -> None:
        """Let a run on another stream wait for the one before."""
        if self._last is not None and not self._is_capturing(stream):
            follow(stream, self._last)
        self._last = stream

    def _bound(self, addresses: Sequence[int]) -> tuple[Any, ...]:
        buffers = self._program.buffers
        given = {
            name: Buffer(name, address, buffers[name].count, buffers[name].item, -1)
            for name, address in zip(self._names, addresses)
            if name in buffers
        }
        return self._program.bound(given)

    def _queue(self, found: _Set, stream: int) -> None:
        for b in found.launches:
            self._device.enqueue(b.code, b.kernel, b.grid, b.block, b.shared, b.arguments, b.is_early, stream)

    def _replay(self, found: _Set, stream: int) -> None:
        if len(found.launches) < 2 or self._is_capturing(stream):
            self._queue(found, stream)
            return
        if found.graph is None:
            own = self._device.stream.handle
            found.graph = self._device.capture(lambda: self._queue(found, own))
        found.graph.run(stream)

    def _run_on_copies(self, addresses: tuple[int, ...], stream: int) -> None:
        if self._own is None:
            stated = [self._program.buffers[name] for name in self._names]
            self._rooms = [self._device.allocate(b.name, b.count, b.item) for b in stated]
            self._device.wait_for_all()  # they are being filled, on no stream that this one waits for
            self._own = _Set(self._bound([b.address for b in self._rooms]))
        pairs = list(zip(self._rooms, addresses))
        for buffer, address in pairs[: self._inputs]:
            _copy(buffer.address, address, buffer.bytes, stream)
        self._replay(self._own, stream)
        for buffer, address in pairs[self._inputs :]:
            _copy(address, buffer.address, buffer.bytes, stream)

    def _is_capturing(self, stream: int) -> bool:
        call("cuStreamIsCapturing", stream, self._status_at)
        return self._status.value != 0


def lent(name: str, count: int, item: int) -> Buffer:
    """What a program is told of a tensor whose memory each run is given: how large it is."""
    return Buffer(name, 0, count, item, -1)


def _copy(to: int, source: int, size: int, stream: int) -> None:
    if size and to != source:
        call("cuMemcpyDtoDAsync_v2", to, source, size, stream)


__all__ = ["MOST_SETS", "Queued", "lent"]
