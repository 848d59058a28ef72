"""The memory that a program owns: a buffer for each tensor that lasts, and an arena for what lives between its launches
alone, where the device packs.

A program that changes its sizes keeps its memory where that is large enough, and so its addresses. What is too small
becomes twice as large at least, so that a length which grows by one at each run moves a few times in all. A device that
does not pack has memory of just the size: a stray access shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..ir.evaluate import sizes_of
from ..ir.model import Tensor
from ..kit.phrase import Phrase
from ..kit.records import replace
from .abi import alignment_of
from .arena import ALIGNMENT, Lifetime, pack
from .device import Buffer, Device

GROWTH = 2  # times the bytes that were too few


class Storage:
    """Memory for tensors of these types: `lasting` have buffers of their own, `passing` live from one launch to another
    alone. Raises Refused (E1717)."""

    def __init__(
        self,
        device: Device,
        types: Mapping[str, Tensor],
        lasting: Iterable[str],
        passing: Mapping[str, tuple[int, int]],
        sizes: Mapping[str, int],
    ):
        self._device, self._types, self._passing = device, types, passing
        self.buffers: dict[str, Buffer] = {}
        self._rooms: dict[str, int] = {}  # bytes that each may have
        self._lasting = [n for n in lasting if not (device.is_packed and n in passing)]
        self._arena: Buffer | None = None
        try:
            for name in self._lasting:
                self._allocate(name, self._bytes(name, sizes), sizes)
            if device.is_packed:
                self._pack({name: self._bytes(name, sizes) for name in passing}, sizes)
        except BaseException:
            self.release()
            raise

    def fit(self, sizes: Mapping[str, int], changed: frozenset[str]) -> frozenset[str]:
        """Make all buffers as large as these sizes ask, of which some are `changed`; the names of those that are
        elsewhere now. Raises Refused (E1717), after which the memory is of no use."""
        packed = self._device.is_packed
        varying = [n for n in self.buffers if changed & _names_of(self._types[n])]
        needs = {name: self._bytes(name, sizes) for name in varying}
        moved = {n for n, need in needs.items() if need > self._rooms[n] or not packed and need < self.buffers[n].bytes}
        if moved and self._device.can_replay:
            self._device.wait_for_all()  # of what is queued on other streams
        for name in varying:
            if name not in moved:
                item = self.buffers[name].item
                self.buffers[name] = replace(self.buffers[name], count=needs[name] // item)
        grown = {n: max(needs[n], GROWTH * self._rooms[n]) if packed else needs[n] for n in moved}
        for name in (n for n in self._lasting if n in moved):
            self._device.free(self.buffers.pop(name))
            self._allocate(name, grown[name], sizes)
        if packed and not moved.isdisjoint(self._passing):
            self._pack({name: grown.get(name, self._rooms[name]) for name in self._passing}, sizes)
            moved |= self._passing.keys()
        return frozenset(moved)

    def release(self) -> None:
        """Give all of it back."""
        for name in self._lasting:
            if name in self.buffers:
                self._device.free(self.buffers[name])
        if self._arena is not None:
            self._device.free(self._arena)
        self._arena = None
        self.buffers.clear()

    def _bytes(self, name: str, sizes: Mapping[str, int]) -> int:
        tensor = self._types[name]
        return math.prod(sizes_of(tensor.type.shape, sizes)) * tensor.type.dtype.bytes

    def _allocate(self, name: str, room: int, sizes: Mapping[str, int]) -> None:
        tensor = self._types[name]
        item = tensor.type.dtype.bytes
        whole = self._device.allocate(name, room // item, item, alignment_of(tensor))
        self._rooms[name] = room
        self.buffers[name] = replace(whole, count=self._bytes(name, sizes) // item)

    def _pack(self, rooms: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        places, total = pack(Lifetime(name, room, *self._passing[name]) for name, room in rooms.items())
        arena, self._arena = self._arena, None
        if arena is not None:
            self._device.free(arena)
        if not places:
            return
        self._arena = self._device.allocate(Phrase("the arena"), total, 1, ALIGNMENT)
        self._rooms |= rooms
        for name, at in places.items():
            item = self._types[name].type.dtype.bytes
            count = self._bytes(name, sizes) // item
            self.buffers[name] = Buffer(name, self._arena.address + at, count, item, self._arena.number)


def _names_of(tensor: Tensor) -> frozenset[str]:
    return frozenset().union(*(size.vocabulary for size in tensor.type.shape))
