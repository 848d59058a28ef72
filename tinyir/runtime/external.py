"""Arrays of other libraries that are on the GPU: taken in, and given out, without a copy.

Two protocols: `__cuda_array_interface__` (Numba's, version 3: a dict) and DLPack (version 1.0 and before: a capsule
around a C struct). bf16 and fp8 have a name only in DLPack.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..ir.model import Tensor, is_exchanged, memory_order
from ..ir.types import DTYPES, DType
from ..kit.diag import Diag, Refused, refuse
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..play.arrays import in_memory, numpy_dtype
from .abi import address_faults
from .driver import follow

CPU = 1  # kDLCPU
CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged
NO_STREAM = -1  # what a reader of DLPack says that waits for nothing
LEGACY = 1  # how both protocols call the default stream, whose handle is 0
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLDataTypeCode
NARROW_CODES = {"bf16": 4, "fp8e4m3": 10, "fp8e5m2": 12}


class SupportsDLPack(Protocol):
    """An array that gives itself as a DLPack capsule."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """The capsule."""

    def __dlpack_device__(self) -> tuple[Any, int]:
        """Kind and number of the device that it is on."""


class SupportsCudaArrayInterface(Protocol):
    """An array on the GPU that says where by Numba's protocol."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Shape, dtype and address."""


Array = npt.ArrayLike | SupportsDLPack | SupportsCudaArrayInterface  # what a program takes


@dataclass(frozen=True, slots=True)
class External:
    """An array on the GPU that someone else owns: `owner` keeps it alive. `strides` are in elements. `stream` is the
    handle of the one on which it is still being made, None where nobody has to wait."""

    address: int
    shape: tuple[int, ...]
    dtype: DType
    owner: Any
    strides: tuple[int, ...]
    stream: int | None = None

    def faults(self, tensor: Tensor) -> list[Diag]:
        """Why its memory is not the tensor's: another order of elements (E1732), an address that the tensor's alignment
        does not divide (E1733)."""
        expected = strides_of(tensor, self.shape)
        if not _is_laid(self.shape, self.strides, expected):
            reason = Phrase(
                "its strides are {strides} elements, and those of a {attr} tensor of this shape are {expected}",
                strides=list(self.strides),
                attr=tensor.attr("layout"),
                expected=list(expected),
            )
            return [Diag("E1732", tensor.name, {"tensor": tensor.name, "reason": reason}, tensor.span)]
        return address_faults(tensor, self.address)

    def stand_in(self) -> np.ndarray:
        """An array of the same shape and dtype for checks, of one element's memory."""
        return np.broadcast_to(np.empty((), numpy_dtype(self.dtype)), self.shape)


def external_of(name: str, array: Any, stream: int | None = None) -> External | None:
    """What the object is on the GPU, or None when it is not there. `stream` is the handle of the stream that will read
    it, which DLPack's producers let wait for what makes the array; without one the caller waits for all that the GPU
    does. Raises Refused (E1732) for one that cannot be taken as it is."""
    if isinstance(array, np.ndarray):
        return None
    try:
        is_lent = hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] in CUDA_DEVICES
        interface = None if is_lent and stream is not None else getattr(array, "__cuda_array_interface__", None)
        if is_lent and (interface is None or "V" in interface["typestr"]):  # bits, for which DLPack has a name
            told = {} if stream is None else {"stream": stream or LEGACY}
            return of_capsule(name, array.__dlpack__(**told), array)
    except (BufferError, RuntimeError, TypeError, ValueError) as fault:
        raise refuse("E1732", name, tensor=name, reason=str(fault)) from None
    return None if interface is None else _of_interface(name, interface, array)


def on_host(name: str, array: Any) -> np.ndarray:
    """What the object is to NumPy, without a copy where it can be: through DLPack where it has no other way. bf16 and
    fp8, which NumPy's DLPack has not, are read from the capsule. Raises Refused (E1732)."""
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack__") or array.__dlpack_device__()[0] != CPU:
        return np.asarray(array)
    try:
        try:
            found = of_capsule(name, array.__dlpack__(), array)
        except Refused:  # another dtype: NumPy may know it
            found = None
        is_in_rows = found is not None and _is_laid(found.shape, found.strides, row_strides(found.shape))
        if found is None or found.dtype.name not in NARROW_CODES or not is_in_rows:
            return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as fault:
        raise refuse("E1732", name, tensor=name, reason=str(fault)) from None
    room = (ctypes.c_char * (math.prod(found.shape) * found.dtype.bytes)).from_address(found.address)
    room._owner = found.owner  # what NumPy keeps is this object
    return np.frombuffer(room, numpy_dtype(found.dtype)).reshape(found.shape)


@functools.lru_cache(maxsize=64)
def _element_of(typestr: str) -> tuple[int, DType | None]:
    """Bytes of an element, and its dtype; None for one that is none of ours."""
    kind = np.dtype(typestr)
    return kind.itemsize, _dtype_named(kind.name) if kind.isnative else None


def _dtype_named(name: str) -> DType | None:
    """The dtype that NumPy, or ml_dtypes, calls so."""
    return next((d for d in DTYPES.values() if d.numpy == name), None)


def _of_interface(name: str, interface: dict[str, Any], owner: Any) -> External:
    size, dtype = _element_of(interface["typestr"])
    shape = tuple(interface["shape"])
    if dtype is None or interface.get("mask") is not None:
        raise refuse(
            "E1732", name, tensor=name, reason=Phrase("its elements are {interface}", interface=interface["typestr"])
        )
    strides = interface.get("strides")
    if strides is not None and any(s % size for s in strides):
        raise refuse("E1732", name, tensor=name, reason=Phrase("its strides are not whole elements"))
    stated = row_strides(shape) if strides is None else tuple(s // size for s in strides)
    return External(interface["data"][0], shape, dtype, owner, stated, interface.get("stream"))


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_UNUSED = b"dltensor"
_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    call = ctypes.pythonapi[name]
    call.restype, call.argtypes = result, list(arguments)
    return call


_pointer_in = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_of = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)
# of a capsule that is on its way out, which must not be referred to again: by its address
_is_unused = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def of_capsule(name: str, capsule: Any, owner: Any) -> External:
    """What a DLPack capsule holds. The capsule stays unused, so that its own end gives the tensor back: it is kept with
    the owner. Raises Refused (E1732)."""
    tensor = ctypes.cast(_pointer_in(capsule, _UNUSED), ctypes.POINTER(_Managed)).contents.tensor
    shape = tuple(tensor.shape[n] for n in range(tensor.ndim))
    dtype = next(
        (d for d in DTYPES.values() if (_code_of(d), d.bits) == (tensor.code, tensor.bits) and tensor.lanes == 1), None
    )
    if dtype is None:
        raise refuse(
            "E1732",
            name,
            tensor=name,
            reason=Phrase("its elements have DLPack code {code} and {bits} bits", code=tensor.code, bits=tensor.bits),
        )
    strides = tuple(tensor.strides[n] for n in range(tensor.ndim)) if tensor.strides else row_strides(shape)
    return External((tensor.data or 0) + tensor.byte_offset, shape, dtype, (owner, capsule), strides)


def _code_of(dtype: DType) -> int:
    return NARROW_CODES.get(dtype.name, CODES[dtype.kind])


def row_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array whose last axis is the fastest."""
    return tuple(math.prod(shape[n + 1 :]) for n in range(len(shape)))


def strides_of(tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of the tensor's logical axes at this logical shape."""
    return memory_order(tensor, row_strides(memory_order(tensor, shape)))


def _is_laid(shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether an array has its elements where the expected strides have them: those of axes of one place say nothing,
    nor do any where there is no element."""
    return not math.prod(shape) or all(s == e for size, s, e in zip(shape, strides, expected) if size > 1)


_LENT: dict[int, Any] = {}  # what a capsule that is out points at, by the address of its struct


@_DELETER
def _end(managed: Any) -> None:
    """Whoever took the tensor is done with it."""
    _LENT.pop(ctypes.addressof(managed.contents), None)


@_DESTRUCTOR
def _drop(capsule: int) -> None:
    """The capsule's own end: nobody took the tensor if it is still called as it was."""
    if _is_unused(capsule, _UNUSED):
        _LENT.pop(_pointer_at(capsule, _UNUSED), None)


def _lend(
    address: int, device: tuple[int, int], dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], owner: Any
) -> Any:
    """A capsule around memory that `owner` keeps; `strides` are in elements."""
    rank = max(len(shape), 1)
    sizes, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    managed = _Managed()
    managed.tensor = _Tensor(address, *device, len(shape), _code_of(dtype), dtype.bits, 1, sizes, steps, 0)
    managed.deleter = ctypes.cast(_end, ctypes.c_void_p)
    _LENT[ctypes.addressof(managed)] = (managed, sizes, steps, owner)
    return _capsule_of(ctypes.addressof(managed), _UNUSED, _drop)


def _must_share(copy: bool | None, asked: tuple[Any, int] | None, own: tuple[int, int]) -> None:
    """Raise BufferError where a reader asks for a copy, or for memory of another device."""
    if copy or asked not in (None, own):
        raise BufferError(Phrase("a result gives its own memory, on the device that it is on"))


class NarrowArray(np.ndarray):
    """A NumPy array of bf16 or fp8, which also gives itself by DLPack: NumPy's own knows none of them."""

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule, of DLPack's form before 1.0 whatever `max_version` is. Raises BufferError where a copy or another
        device is asked for."""
        kind = _dtype_named(self.dtype.name)
        if kind is None or kind.name not in NARROW_CODES:
            return super().__dlpack__()
        _must_share(copy, dl_device, (CPU, 0))
        strides = tuple(s // self.itemsize for s in self.strides)
        return _lend(self.ctypes.data, (CPU, 0), kind, self.shape, strides, self)


def lendable(array: Any) -> Any:
    """A result as other libraries can take it by DLPack: bf16 and fp8 of the host as `NarrowArray`."""
    is_narrow = isinstance(array, np.ndarray) and array.dtype.isbuiltin != 1
    return array.view(NarrowArray) if is_narrow else array


class GpuArray:
    """A result on the GPU. Other libraries see it through `__cuda_array_interface__` or `__dlpack__`, and share its
    memory; `numpy()` copies. `stream` is the handle of the one on which it is being made, None once that is over; both
    protocols tell it, so readers wait on their own streams and the host does not."""

    def __init__(
        self,
        address: int,
        tensor: Tensor,
        shape: tuple[int, ...],
        memory: Any,
        download: Any,
        ordinal: int = 0,
        stream: int | None = None,
    ):
        self.shape = shape
        self.dtype = tensor.type.dtype
        self.stream = stream
        self.address = address
        self._tensor = tensor
        self._memory = memory
        self._download = download
        self._ordinal = ordinal

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.name in NARROW_CODES:
            raise AttributeError(f"__cuda_array_interface__ has no name for {self.dtype}: use __dlpack__")
        strides = strides_of(self._tensor, self.shape)
        return {
            "shape": self.shape,
            "typestr": numpy_dtype(self.dtype).str,
            "data": (self.address, False),
            "version": 3,
            "strides": tuple(s * self.dtype.bytes for s in strides) if is_exchanged(self._tensor) else None,
            "stream": None if self.stream is None else self._shared_on_other_streams() or LEGACY,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA_DEVICES[0], self._ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule, of DLPack's form before 1.0 whatever `max_version` is. `stream` is the reader's (None: the legacy
        default one, -1: it waits for nothing); it waits where the array is still being made. Raises BufferError where
        a copy or another device is asked for."""
        own = CUDA_DEVICES[0], self._ordinal
        _must_share(copy, dl_device, own)
        reader = LEGACY if stream is None else stream
        if self.stream is not None and reader != (self.stream or LEGACY):
            made_on = self._shared_on_other_streams()
            if reader != NO_STREAM:
                follow(reader, made_on)
        return _lend(self.address, own, self.dtype, self.shape, strides_of(self._tensor, self.shape), self)

    def numpy(self) -> np.ndarray:
        """A copy on the host, once the array is made."""
        room = np.empty(memory_order(self._tensor, self.shape), numpy_dtype(self.dtype))
        self._download(self.address, room)
        return in_memory(self._tensor, room)

    def _shared_on_other_streams(self) -> int:
        """The stream on which it is being made; from here on readers on others may use the memory."""
        assert self.stream is not None
        self._memory.is_elsewhere = True
        return self.stream

    def __repr__(self) -> str:
        return f"GpuArray({self.dtype}{list(self.shape)} at {self.address:#x})"


Result = npt.NDArray[Any] | GpuArray  # what a program gives
