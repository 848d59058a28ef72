"""How a program's launches are run again and again on a GPU, for one set of addresses after another.

The first run of all launches kernels one by one, so that one that fails is named. Later a set of addresses is queued as
a whole when it is new, and from its second run on replayed as a CUDA graph, which costs the host one call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .device import Bound, Buffer

MOST_SETS = 8  # of addresses


@dataclass(slots=True)
class _Set:
    launches: tuple[Bound, ...]
    kernels: str
    is_queued: bool = False
    graph: Any = None


class Replays:
    """The launches that `bind` makes of buffers of the caller's, kept ready. `device` is a `cuda.CudaDevice`. Where
    their kernels have run before, for other sizes, they are not launched one by one at first (`is_tried`)."""

    def __init__(self, device: Any, bind: Callable[[Mapping[str, Buffer]], tuple[Bound, ...]], is_tried: bool = False):
        self._device = device
        self._bind = bind
        self._sets: OrderedDict[tuple[tuple[str, int], ...], _Set] = OrderedDict()
        self._is_tried = is_tried

    def run(self, given: Mapping[str, Buffer]) -> None:
        """All launches, to their end. Raises Refused (E1730)."""
        found = self._set_of(given)
        if not self._is_tried:
            for b in found.launches:
                b.run_on(self._device)
            self._is_tried = found.is_queued = True
            return
        with self._device.refusing(found.kernels):
            self._queue(found)
            self._device.wait(found.kernels)

    def release(self) -> None:
        """Give the graphs back."""
        for found in self._sets.values():
            _drop(found)
        self._sets.clear()

    def _set_of(self, given: Mapping[str, Buffer]) -> _Set:
        key = tuple((name, buffer.address) for name, buffer in given.items())
        if key not in self._sets:
            launches = self._bind(given)
            self._sets[key] = _Set(launches, one_of(b.kernel for b in launches))
            if len(self._sets) > MOST_SETS:
                _drop(self._sets.popitem(last=False)[1])
        self._sets.move_to_end(key)
        return self._sets[key]

    def _queue(self, found: _Set) -> None:
        if found.is_queued and len(found.launches) > 1:
            found.graph = found.graph or self._device.capture(lambda: self._queue_each(found))
            found.graph.run()
        else:
            self._queue_each(found)
            found.is_queued = True

    def _queue_each(self, found: _Set) -> None:
        for b in found.launches:
            self._device.enqueue(b.code, b.kernel, b.grid, b.block, b.shared, b.arguments, b.is_early)


def _drop(found: _Set) -> None:
    if found.graph is not None:
        found.graph.release()


def one_of(kernels: Iterable[str]) -> str:
    """What a fault names of launches that were queued together: the driver does not say which it was."""
    names = [*dict.fromkeys(kernels)]
    return Phrase("one of {kernels}", kernels=", ".join(names)) if len(names) > 1 else ", ".join(names)
