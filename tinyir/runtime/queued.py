"""Runs of a program on the stream of another library, which waits for them when it likes: nothing here waits.

A set of addresses is queued launch by launch when it is new, and from its second run on replayed as a CUDA graph. Where
there are more sets than are kept, inputs are copied to where one more graph reads them, and outputs from where it
writes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from .cuda import CudaDevice
from .device import Bound, Buffer
from .driver import call, follow
from .program import Program
from .replay import Set, Sets


class Queued:
    """One program for tensors that the caller keeps: `inputs` and `outputs` are the names of those that a run is given,
    in order; of the program's own buffers for these only the sizes count (`lent`). Its buffers between launches are its
    own, so runs follow one another, on whatever stream."""

    def __init__(self, device: CudaDevice, program: Program, inputs: Sequence[str], outputs: Sequence[str]):
        self._device, self._program = device, program
        self._names = (*inputs, *outputs)
        self._inputs = len(inputs)
        self._sets = Sets(device)
        self._copied: Sets | None = None
        self._rooms: list[Buffer] = []  # where inputs are copied to and outputs from, once that is needed
        self._status = ctypes.c_int()  # of a stream's capture
        self._status_at = ctypes.byref(self._status)
        self._last: int | None = None
        self._sizes = tuple(program.sizes.values())
        self._moves = program.moves
        self._program.make_once()

    def resize(self, sizes: Mapping[str, int]) -> bool:
        """Take other sizes: whether they ask for the same launches (`Program.resize`). What is queued keeps its own.
        Raises Refused (E1717)."""
        if not self._program.resize(sizes):
            return False
        self._program.make_once(anew=False)
        changed = tuple(self._program.sizes.values())
        if changed != self._sizes:
            self._sizes = changed
            self._give_back_copies()
        if self._program.moves != self._moves:
            self._moves = self._program.moves
            self._sets.move()
        return True

    def run(self, addresses: tuple[int, ...], stream: int) -> None:
        """Queue one run. Raises Refused (E1730)."""
        with self._device.refusing(self._program.model.name):
            if self._last != stream:
                self._follow(stream)
            found = self._sets.find(addresses, self._sizes, lambda: self._bound(addresses), gives_way=False)
            if found is not None:
                self._queue(self._sets, found, stream)
            else:
                self._run_on_copies(addresses, stream)

    def make_once(self) -> None:
        """What is computed of constants alone, anew."""
        self._program.make_once()

    def release(self) -> None:
        """Give the graphs and the program back, once all runs are over."""
        self._sets.release()
        self._give_back_copies()
        self._program.release()

    def _give_back_copies(self) -> None:
        if self._copied is not None:
            self._copied.release()
        self._copied = None
        for buffer in self._rooms:
            self._device.free(buffer)
        self._rooms.clear()

    def _follow(self, stream: int) -> None:
        """Let a run on another stream wait for the one before."""
        if self._last is not None and not self._is_captured(stream):
            follow(stream, self._last)
        self._last = stream

    def _bound(self, addresses: Sequence[int]) -> tuple[Bound, ...]:
        buffers = self._program.buffers
        given = {
            name: Buffer(name, address, buffers[name].count, buffers[name].item, -1)
            for name, address in zip(self._names, addresses)
            if name in buffers
        }
        return self._program.bound(given)

    def _queue(self, sets: Sets, found: Set, stream: int) -> None:
        is_graph = found.is_queued and len(found.launches) > 1
        sets.queue(found, stream, is_graph and self._is_captured(stream))

    def _run_on_copies(self, addresses: tuple[int, ...], stream: int) -> None:
        if self._copied is None:
            stated = [self._program.buffers[name] for name in self._names]
            self._rooms = [self._device.allocate(b.name, b.count, b.item) for b in stated]
            self._device.wait_for_all()  # they are being filled, on no stream that this one waits for
            self._copied = Sets(self._device)
        pairs = list(zip(self._rooms, addresses))
        for buffer, address in pairs[: self._inputs]:
            _copy(buffer.address, address, buffer.bytes, stream)
        own = tuple(b.address for b in self._rooms)
        found = self._copied.find(own, self._sizes, lambda: self._bound(own))
        assert found is not None
        found.is_queued = True  # its launches have been queued for others
        self._queue(self._copied, found, stream)
        for buffer, address in pairs[self._inputs :]:
            _copy(address, buffer.address, buffer.bytes, stream)

    def _is_captured(self, stream: int) -> bool:
        call("cuStreamIsCapturing", stream, self._status_at)
        return self._status.value != 0


def lent(name: str, count: int, item: int) -> Buffer:
    """What a program is told of a tensor whose memory each run is given: how large it is."""
    return Buffer(name, 0, count, item, -1)


def _copy(to: int, source: int, size: int, stream: int) -> None:
    if size and to != source:
        call("cuMemcpyDtoDAsync_v2", to, source, size, stream)
