"""The states of a program between its calls: inputs that a run reads and leaves with their new value.

On a device each has one buffer, in which runs write; in playback it is an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..ir.model import Model, Tensor, is_fixed
from ..play.arrays import adopt, check_arrays, in_memory
from .abi import alignment_of, laid, native
from .device import Buffer, Device
from .external import on_host


def kept_states(model: Model) -> dict[str, str]:
    """The inputs that a program keeps between its calls, each with the output that is its new value. A weight that is
    an output under its own name is not among them: nothing changes it."""
    return {name: output for name, output in model.states().items() if not is_fixed(model.input(name))}


class States(Mapping[str, np.ndarray]):
    """The values of states by name: `states[name]` copies one out, `states[name] = array` sets it. One that has no
    value yet is not among them. `device` is None in playback. `wait` returns once no run changes them any more."""

    def __init__(self, model: Model, device: Device | None, wait: Callable[[], None] = lambda: None):
        self._wait = wait
        names = kept_states(model)
        self.types: dict[str, Tensor] = {t.name: t for t in model.inputs if t.name in names}
        self._device = device
        self._arrays: dict[str, np.ndarray] = {}
        self._buffers: dict[str, tuple[Buffer, np.ndarray]] = {}  # and an array of the shape, of one element's memory

    def __getitem__(self, name: str) -> np.ndarray:
        """Raises KeyError for what is not a state, or has no value yet."""
        if name not in self._buffers and name not in self._arrays:
            self._must_be_state(name)
            raise KeyError(f"{name} has no value yet: give it one before the first call, or run the program")
        if self._device is None or name not in self._buffers:
            return self._arrays[name].copy()
        self._wait()
        buffer, form = self._buffers[name]
        tensor = self.types[name]
        room = np.empty(in_memory(tensor, form).shape, form.dtype)
        self._device.download(buffer, room)
        return in_memory(tensor, room)

    def __setitem__(self, name: str, array: Any) -> None:
        """Raises KeyError for what is not a state, Refused (E1702, E1703) for an array that is not of its type."""
        self._must_be_state(name)
        tensor = self.types[name]
        own = Model("", (tensor,), ())
        found = native(on_host(name, array))
        check_arrays(own, {name: found})
        self._wait()
        self.keep(name, found)

    def _must_be_state(self, name: str) -> None:
        if name not in self.types:
            raise KeyError(f"{name} is not a state of the program; its states: {', '.join(self.types)}")

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.types if name in self._arrays or name in self._buffers])

    def __len__(self) -> int:
        return len(self._arrays) + len(self._buffers)

    def __repr__(self) -> str:
        known = self.forms()
        told = (f"{name}: {t.type}{'' if name in known else ' unset'}" for name, t in self.types.items())
        return f"<states {', '.join(told)}>"

    def forms(self) -> dict[str, np.ndarray]:
        """An array of the dtype and the shape of each that has a value; on a device not its numbers."""
        return dict(self._arrays) if self._device is None else {n: form for n, (_, form) in self._buffers.items()}

    def buffers(self) -> dict[str, Buffer]:
        """Where each that has a value is on the device."""
        return {name: buffer for name, (buffer, _) in self._buffers.items()}

    def keep(self, name: str, array: np.ndarray) -> None:
        """Set one to an array that was checked. Raises Refused (E1717)."""
        tensor = self.types[name]
        if self._device is None:
            self._arrays[name] = np.array(adopt(array, tensor.type.dtype))
            return
        found = laid(tensor, array)
        logical = adopt(array, tensor.type.dtype)
        if name not in self._buffers or self._buffers[name][1].shape != logical.shape:
            self._make_room(name, logical)
        self._device.upload(self._buffers[name][0], found, is_constant=False)

    def _make_room(self, name: str, array: np.ndarray) -> None:
        assert self._device is not None
        if name in self._buffers:
            self._device.free(self._buffers.pop(name)[0])
        buffer = self._device.allocate(name, array.size, array.itemsize, alignment_of(self.types[name]))
        self._buffers[name] = buffer, np.broadcast_to(np.empty((), array.dtype), array.shape)

    def close(self) -> None:
        """Forget all: the device gives its memory back."""
        self._buffers.clear()
        self._arrays.clear()
