"""The weights that a graph is called with, each set of which has what was computed of it and CUDA graphs of its own.

Layers of one form share a graph, which is called with the weights of one layer after the other. A set is known by the
places of its tensors as long as all their memory is there: what is given back may come again with other numbers.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..runtime.abi import ALIGNMENT
from ..runtime.device import Buffer
from ..runtime.queued import Held


class Weights:
    """Weights at their places: `numbers` are those of a call's arguments. One that does not begin at a whole 16 bytes
    is copied."""

    def __init__(self, places: list[int], arguments: Sequence[Any], numbers: Iterable[int]):
        self.places = places
        self.gone: list[Any] = []  # memory of theirs that was given back
        self.held: dict[tuple[int, ...], Held] = {}  # by the sizes of the symbols
        self.copies = {n: arguments[n].clone() for n in numbers if arguments[n].data_ptr() % ALIGNMENT}
        self._memories = [weakref.ref(arguments[n].untyped_storage(), self.gone.append) for n in numbers]
        self._read = dict.fromkeys(self.copies)  # those that something was computed of
        self.note(arguments)

    def buffers(self, arguments: Sequence[Any], numbers: dict[str, int]) -> dict[str, Buffer]:
        """The memory of the weights, by name."""
        there = {name: self.copies.get(n, arguments[n]) for name, n in numbers.items()}
        return {n: Buffer(n, t.data_ptr(), t.numel(), t.element_size(), -1) for n, t in there.items()}

    def add(self, sizes: tuple[int, ...], held: Held, read: Iterable[int], arguments: Sequence[Any]) -> None:
        """Keep what a program has for this set, which computed something of some of the weights."""
        self.held[sizes] = held
        self._read |= dict.fromkeys(read)
        self.note(arguments)

    def note(self, arguments: Sequence[Any]) -> None:
        """What was computed of weights is that of their numbers now."""
        self._read_of = picker([*self._read])
        self._versions = _versions(self._read_of(arguments))

    def have_changed(self, arguments: Sequence[Any]) -> bool:
        """Whether one of those that something was computed of was written to since."""
        return bool(self._read) and _versions(self._read_of(arguments)) != self._versions

    def copy(self, arguments: Sequence[Any]) -> None:
        """Copy anew what is copied."""
        for n, made in self.copies.items():
            made.copy_(arguments[n])


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The arguments at these places. A call asks each of a model's weights, so this is one call for all of them."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda arguments: tuple([arguments[n] for n in places])


def _versions(tensors: Sequence[Any]) -> list[int]:
    """How often tensors were written to; 0 for those of inference mode, which do not count that."""
    try:
        return [t._version for t in tensors]
    except RuntimeError:
        return [0 if t.is_inference() else t._version for t in tensors]
