"""How a program's launches are run again and again on a GPU, for one set of addresses and sizes after another.

A set is queued launch by launch when it is new, and from its second run on replayed as a CUDA graph, which costs the
host one call. Where sizes are new at each run, as a decoder's are at each token, no set comes again. Then one graph
serves them all: those of its kernels get other arguments that these sizes tell something else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .device import Bound, Buffer

MOST_SETS = 8  # of addresses and sizes
Sizes = tuple[int, ...]


@dataclass(slots=True)
class Set:
    """Launches for one set of addresses and sizes. `is_queued`: they have been once, so that a graph is worth while;
    `comes_again`: the graph stays their own."""

    sizes: Sizes
    launches: tuple[Bound, ...]
    kernels: str
    is_queued: bool = False
    graph: Any = None
    comes_again: bool = False


class Sets:
    """The sets of a program. `device` is a `cuda.CudaDevice`."""

    def __init__(self, device: Any):
        self._device = device
        self._kept: OrderedDict[tuple[Any, ...], Set] = OrderedDict()
        self._changes = 0  # sets that were new and had other sizes than the one before
        self._sizes: Sizes | None = None  # of the one before

    def find(
        self, addresses: tuple[Any, ...], sizes: Sizes, bind: Callable[[], tuple[Bound, ...]], gives_way: bool = True
    ) -> Set | None:
        """The set of these addresses and sizes, whose launches `bind` makes. Where as many as are kept have these
        sizes, the one that was not used the longest gives way, or there is none. Raises DriverFault."""
        key = sizes, addresses
        found = self._kept.get(key)
        if found is not None:
            found.comes_again = True
        else:
            if len(self._kept) >= MOST_SETS and not self._make_way(sizes, gives_way):
                return None
            found = self._kept[key] = self._new(bind(), sizes)
        self._kept.move_to_end(key)
        self._sizes = sizes
        return found

    def queue(self, found: Set, stream: int | None = None, is_captured: bool = False) -> None:
        """Queue one run of a set on a stream (default: the device's), which somebody else captures perhaps. Raises
        DriverFault."""
        if found.is_queued and len(found.launches) > 1 and not is_captured:
            found.graph = found.graph or self._device.capture_each(found.launches)
            found.graph.run(stream)
            return
        for b in found.launches:
            self._device.enqueue(b.code, b.kernel, b.grid, b.block, b.shared, b.arguments, b.is_early, stream)
        found.is_queued = True

    def move(self) -> None:
        """The program's memory is elsewhere: no set is of use, but a graph that may get other arguments."""
        *others, last = [s for s in self._kept.values() if s.graph is not None] or [None]
        for old in others:
            _drop(old)
        self._kept.clear()
        if last is not None:
            last.sizes, last.comes_again = (), False
            self._kept[()] = last

    def release(self) -> None:
        """Give the graphs back."""
        for found in self._kept.values():
            _drop(found)
        self._kept.clear()

    def _make_way(self, sizes: Sizes, gives_way: bool) -> bool:
        """Whether a set could be let go of: those of other sizes first."""
        of_others = (key for key, s in self._kept.items() if s.sizes != sizes)
        old = next(of_others, next(iter(self._kept)) if gives_way else None)
        if old is not None:
            _drop(self._kept.pop(old))
        return old is not None

    def _new(self, launches: tuple[Bound, ...], sizes: Sizes) -> Set:
        """A set of these launches. Where sizes go on changing it has the graph of one that came once, changed to these
        launches, or gets one at its first run, for those that come."""
        found = Set(sizes, launches, one_of(b.kernel for b in launches))
        if self._sizes in (None, sizes) or len(launches) < 2 or not self._device.changes_graphs:
            return found
        self._changes += 1
        kept = self._kept.items()
        old = next((k for k, s in kept if s.graph is not None and not s.comes_again and s.sizes != sizes), None)
        if old is not None:
            before = self._kept.pop(old)
            found.graph = before.graph
            for number, (was, b) in enumerate(zip(before.launches, launches)):
                if was is not b and was != b:
                    self._device.change(found.graph, number, b)
        found.is_queued = self._changes > 1 or found.graph is not None
        return found


class Replays:
    """The runs of a program, each to its end, whose launches `bind` makes of buffers of the caller's. The first
    launches kernels one by one, so that one that fails is named, unless their kernels have run before, for other sizes
    (`is_tried`)."""

    def __init__(self, device: Any, bind: Callable[[Mapping[str, Buffer]], tuple[Bound, ...]], is_tried: bool = False):
        self._device = device
        self._bind = bind
        self.sets = Sets(device)
        self._is_tried = is_tried

    def run(self, given: Mapping[str, Buffer], sizes: Sizes, name: str) -> None:
        """All launches, for these sizes, to their end; `name` is the program's. Raises Refused (E1730)."""
        addresses = tuple((name, buffer.address) for name, buffer in given.items())
        with self._device.refusing(name):
            found = self.sets.find(addresses, sizes, lambda: self._bind(given))
        assert found is not None
        if not self._is_tried:
            for b in found.launches:
                b.run_on(self._device)
            self._is_tried = found.is_queued = True
            return
        with self._device.refusing(found.kernels):
            self.sets.queue(found)
            self._device.wait(found.kernels)


def _drop(found: Set) -> None:
    if found.graph is not None:
        found.graph.release()


def one_of(kernels: Iterable[str]) -> str:
    """What a fault names of launches that were queued together: the driver does not say which it was."""
    names = [*dict.fromkeys(kernels)]
    return Phrase("one of {kernels}", kernels=", ".join(names)) if len(names) > 1 else ", ".join(names)
