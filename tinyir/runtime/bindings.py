"""What is used here of PyCUDA's `pycuda.driver`, over the cuda-bindings package, which installs from a wheel: for where
PyCUDA, which is built with a CUDA toolkit, cannot be.

Names, arguments and results are PyCUDA's, so that whoever has the module need not know which of the two it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kit.phrase import Phrase

_SCALARS = {"P": ctypes.c_void_p, "I": ctypes.c_uint32, "Q": ctypes.c_uint64}  # of PyCUDA's formats


class Error(Exception):
    """A call that the driver refuses, and how."""


class MemoryError(Error):  # noqa: A001 (PyCUDA's word)
    """No memory left on the GPU."""


class NotReady(Error):
    """What was asked for has not ended."""


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _called(name: str, *arguments: Any) -> Any:
    """What a function of the driver gives: nothing, one result, or several. Raises Error."""
    driver = _driver()
    try:
        result, *found = getattr(driver, name)(*arguments)
    except RuntimeError as fault:  # no library of the driver
        raise Error(str(fault)) from None
    if int(result):
        known = {driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY: MemoryError, driver.CUresult.CUDA_ERROR_NOT_READY: NotReady}
        kind = next((kind for word, kind in known.items() if int(word) == int(result)), Error)
        raise kind(Phrase("{function} gave {word}", function=name, word=getattr(result, "name", str(result))))
    return found[0] if len(found) == 1 else tuple(found)


def init() -> None:
    """Start the driver."""
    _called("cuInit", 0)


def get_driver_version() -> int:
    """12030 for CUDA 12.3."""
    return int(_called("cuDriverGetVersion"))


class _Attributes:
    """The driver's enumeration of that name, its members without the prefix."""

    def __init__(self, enumeration: str, prefix: str):
        self._enumeration, self._prefix = enumeration, prefix

    def __getattr__(self, word: str) -> Any:
        return getattr(getattr(_driver(), self._enumeration), self._prefix + word)


device_attribute = _Attributes("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_")
function_attribute = _Attributes("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_")


class Device:
    """A GPU by its number."""

    def __init__(self, ordinal: int):
        self._device = _called("cuDeviceGet", ordinal)

    @staticmethod
    def count() -> int:
        """How many there are."""
        return int(_called("cuDeviceGetCount"))

    def name(self) -> str:
        """What the driver calls it."""
        return bytes(_called("cuDeviceGetName", 256, self._device)).split(b"\0")[0].decode()

    def get_attribute(self, attribute: Any) -> int:
        """One of `device_attribute`."""
        return int(_called("cuDeviceGetAttribute", attribute, self._device))

    def compute_capability(self) -> tuple[int, int]:
        """Major and minor version."""
        return (
            self.get_attribute(device_attribute.COMPUTE_CAPABILITY_MAJOR),
            self.get_attribute(device_attribute.COMPUTE_CAPABILITY_MINOR),
        )

    def retain_primary_context(self) -> _Primary:
        """The context that the libraries of a process share."""
        return _Primary(_called("cuDevicePrimaryCtxRetain", self._device))


class _Primary:
    """A primary context."""

    def __init__(self, context: Any):
        self._context = context

    def push(self) -> None:
        """Make it that of this thread."""
        _called("cuCtxPushCurrent", self._context)

    def pop(self) -> None:
        """Take it away again."""
        _called("cuCtxPopCurrent")


class Context:
    """The context of this thread."""

    @staticmethod
    def synchronize() -> None:
        """Wait for all of its streams."""
        _called("cuCtxSynchronize")


class Stream:
    """A stream of its own; `handle` is the driver's."""

    def __init__(self) -> None:
        self._stream = _called("cuStreamCreate", 0)
        self.handle = int(self._stream)

    def synchronize(self) -> None:
        """Wait for what was queued on it."""
        _called("cuStreamSynchronize", self._stream)

    def is_done(self) -> bool:
        """Whether all that was queued on it has ended."""
        try:
            _called("cuStreamQuery", self._stream)
        except NotReady:
            return False
        return True


class Event:
    """A mark in a stream, with its time."""

    def __init__(self) -> None:
        self._event = _called("cuEventCreate", 0)

    def record(self, stream: Stream) -> None:
        """Mark what was queued so far."""
        _called("cuEventRecord", self._event, stream.handle)

    def time_since(self, other: Event) -> float:
        """Milliseconds from another one, both reached."""
        return float(_called("cuEventElapsedTime", other._event, self._event))


class _Memory:
    """Memory of the GPU, given back at its end or before."""

    def __init__(self, address: int):
        self._address = address

    def __int__(self) -> int:
        return self._address

    def free(self) -> None:
        """Give it back."""
        address, self._address = self._address, 0
        if address:
            _called("cuMemFree", address)

    def __del__(self) -> None:
        try:
            self.free()
        except Exception:  # noqa: BLE001 (the context may be gone, and its memory with it)
            pass


def mem_alloc(size: int) -> _Memory:
    """Memory of this many bytes. Raises MemoryError."""
    return _Memory(int(_called("cuMemAlloc", size)))


def memset_d8(memory: Any, value: int, size: int) -> None:
    """Fill bytes."""
    _called("cuMemsetD8", int(memory), value, size)


def memset_d8_async(memory: Any, value: int, size: int, stream: Stream) -> None:
    """Fill bytes when the stream comes to it."""
    _called("cuMemsetD8Async", int(memory), value, size, stream.handle)


def memcpy_htod(to: Any, array: np.ndarray) -> None:
    """Copy a contiguous array in."""
    _called("cuMemcpyHtoD", int(to), array.ctypes.data, array.nbytes)


def memcpy_dtoh(array: np.ndarray, source: Any) -> None:
    """Copy into a contiguous array."""
    _called("cuMemcpyDtoH", array.ctypes.data, int(source), array.nbytes)


def module_from_buffer(image: bytes) -> _Module:
    """A cubin, loaded."""
    return _Module(_called("cuModuleLoadData", image))


class _Module:
    def __init__(self, module: Any):
        self._module = module

    def get_function(self, name: str) -> _Function:
        """One of its kernels."""
        return _Function(_called("cuModuleGetFunction", self._module, name.encode()))


class _Function:
    def __init__(self, function: Any):
        self._function, self._types = function, ()

    def set_attribute(self, attribute: Any, value: int) -> None:
        """One of `function_attribute`."""
        _called("cuFuncSetAttribute", self._function, attribute, value)

    def prepare(self, form: str) -> None:
        """The kernel's parameters: P a pointer, I four bytes, Q eight."""
        self._types = tuple(_SCALARS[c] for c in form)

    def prepared_async_call(
        self, grid: Sequence[int], block: Sequence[int], stream: Stream, *values: int, shared_size: int = 0
    ) -> None:
        """Queue a launch; `shared_size` bytes of dynamic shared memory."""
        kept = [kind(value) for kind, value in zip(self._types, values)]
        places = (ctypes.c_void_p * max(len(kept), 1))(*map(ctypes.addressof, kept))
        sides = (*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3])
        _called("cuLaunchKernel", self._function, *sides, shared_size, stream.handle, ctypes.addressof(places), 0)
