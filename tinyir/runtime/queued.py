"""Runs of a program on the stream of another library, which waits for them when it likes: nothing here waits.

A set of addresses is queued launch by launch when it is new, and from its second run on replayed as a CUDA graph. Where
there are more sets than are kept, inputs are copied to where one more graph reads them, and outputs from where it
writes them. A program may run on several sets of constants, each with graphs of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from ..kit.records import dataclass
from .cuda import CudaDevice
from .device import Bound, Buffer
from .driver import call, follow
from .program import Program
from .replay import Set, Sets
from .storage import Storage


@dataclass(slots=True)
class Held:
    """One set of a program's constants: their memory where it is the caller's, and that of what is computed of them;
    the runs on them, and those of copies of their inputs and outputs."""

    given: dict[str, Buffer]
    room: Storage
    sets: Sets
    copied: Sets


class Queued:
    """One program for tensors that the caller keeps: `inputs` and `outputs` are the names of those that a run is given,
    in order; of the program's own buffers for these only the sizes count (`lent`). Its buffers between launches are its
    own, so runs follow one another, on whatever stream."""

    def __init__(self, device: CudaDevice, program: Program, inputs: Sequence[str], outputs: Sequence[str]):
        self._device, self._program = device, program
        self._names = (*inputs, *outputs)
        self._inputs = len(inputs)
        self._held: list[Held] = []
        self._rooms: list[Buffer] = []  # where inputs are copied to and outputs from, once that is needed
        self._status = ctypes.c_int()  # of a stream's capture
        self._status_at = ctypes.byref(self._status)
        self._last: int | None = None
        self._sizes = tuple(program.sizes.values())
        self._moves = program.moves

    def hold(self, given: Mapping[str, Buffer]) -> Held:
        """A set of constants to run on: memory of the caller's for some of them. What is computed of them alone is
        computed now. Raises Refused (E1717, E1722 to E1730)."""
        room = self._program.room_of_once()
        held = Held({**given, **room.buffers}, room, Sets(self._device), Sets(self._device))
        try:
            self.make_once(held)
        except BaseException:
            room.release()
            raise
        self._held.append(held)
        return held

    def let_go(self, held: Held) -> None:
        """Give back what was kept for a set of constants, once all runs on it are over."""
        self._held = [one for one in self._held if one is not held]
        _release(held)

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
            for held in self._held:
                held.sets.move()
        return True

    def run(self, addresses: tuple[int, ...], stream: int, held: Held | None = None) -> None:
        """Queue one run on a set of constants, without one on the program's own. Raises Refused (E1730)."""
        held = held or (self._held[0] if self._held else self.hold({}))
        with self._device.refusing(self._program.model.name):
            if self._last != stream:
                self._follow(stream)
            found = held.sets.find(addresses, self._sizes, lambda: self._bound(addresses, held), gives_way=False)
            if found is not None:
                self._queue(held.sets, found, stream)
            else:
                self._run_on_copies(addresses, stream, held)

    def make_once(self, held: Held) -> None:
        """What is computed of constants alone, anew."""
        self._program.make_once(given=held.given)

    def release(self) -> None:
        """Give the graphs and the program back, once all runs are over."""
        for held in self._held:
            _release(held)
        self._held.clear()
        self._give_back_copies()
        self._program.release()

    def _give_back_copies(self) -> None:
        for held in self._held:
            held.copied.release()
        for buffer in self._rooms:
            self._device.free(buffer)
        self._rooms.clear()

    def _follow(self, stream: int) -> None:
        """Let a run on another stream wait for the one before, unless one of them alone is captured."""
        if self._last is not None and self._is_captured(stream) == self._is_captured(self._last):
            follow(stream, self._last)
        self._last = stream

    def _bound(self, addresses: Sequence[int], held: Held) -> tuple[Bound, ...]:
        buffers = self._program.buffers
        given = {
            name: Buffer(name, address, buffers[name].count, buffers[name].item, -1)
            for name, address in zip(self._names, addresses)
            if name in buffers
        }
        return self._program.bound({**held.given, **given})

    def _queue(self, sets: Sets, found: Set, stream: int) -> None:
        is_graph = found.is_queued and len(found.launches) > 1
        sets.queue(found, stream, is_graph and self._is_captured(stream))

    def _run_on_copies(self, addresses: tuple[int, ...], stream: int, held: Held) -> None:
        if not self._rooms:
            stated = [self._program.buffers[name] for name in self._names]
            self._rooms = [self._device.allocate(b.name, b.count, b.item) for b in stated]
            self._device.wait_for_all()  # they are being filled, on no stream that this one waits for
        pairs = list(zip(self._rooms, addresses))
        for buffer, address in pairs[: self._inputs]:
            _copy(buffer.address, address, buffer.bytes, stream)
        own = tuple(b.address for b in self._rooms)
        found = held.copied.find(own, self._sizes, lambda: self._bound(own, held))
        assert found is not None
        found.is_queued = True  # its launches have been queued for others
        self._queue(held.copied, found, stream)
        for buffer, address in pairs[self._inputs :]:
            _copy(address, buffer.address, buffer.bytes, stream)

    def _is_captured(self, stream: int) -> bool:
        call("cuStreamIsCapturing", stream, self._status_at)
        return self._status.value != 0


def _release(held: Held) -> None:
    held.sets.release()
    held.copied.release()
    held.room.release()


def lent(name: str, count: int, item: int) -> Buffer:
    """What a program is told of a tensor whose memory each run is given: how large it is."""
    return Buffer(name, 0, count, item, -1)


def _copy(to: int, source: int, size: int, stream: int) -> None:
    if size and to != source:
        call("cuMemcpyDtoDAsync_v2", to, source, size, stream)
