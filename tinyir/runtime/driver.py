"""The CUDA driver's own interface, for what PyCUDA does not wrap: tensor maps, launches that take them or start early,
graphs. PyCUDA makes the context."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ..kit.phrase import Phrase

LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
_P, _I, _U, _N = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_ulonglong
FUNCTIONS = {
    "cuGetErrorName": (_I, _P),
    "cuModuleLoadData": (_P, ctypes.c_char_p),
    "cuModuleUnload": (_P,),
    "cuModuleGetFunction": (_P, _P, ctypes.c_char_p),
    "cuFuncSetAttribute": (_P, _I, _I),
    "cuLaunchKernelEx": (_P, _P, _P, _P),
    "cuTensorMapEncodeTiled": (_P, _I, _U, _P, _P, _P, _P, _P, *(_I,) * 4),
    "cuTensorMapEncodeIm2col": (_P, _I, _U, _P, _P, _P, _P, _P, _U, _U, _P, *(_I,) * 4),
    "cuStreamBeginCapture_v2": (_P, _I),
    "cuStreamEndCapture": (_P, _P),
    "cuGraphInstantiateWithFlags": (_P, _P, _N),
    "cuGraphLaunch": (_P, _P),
    "cuGraphExecDestroy": (_P,),
    "cuGraphDestroy": (_P,),
    "cuGraphExecKernelNodeSetParams_v2": (_P, _P, _P),
    "cuStreamGetCaptureInfo_v3": (_P, _P, _P, _P, _P, _P, _P),
    "cuMemcpyDtoDAsync_v2": (_N, _N, ctypes.c_size_t, _P),
    "cuStreamIsCapturing": (_P, _P),
    "cuStreamSynchronize": (_P,),
    "cuStreamWaitEvent": (_P, _P, _U),
    "cuEventCreate": (_P, _U),
    "cuEventRecord": (_P, _P),
    "cuEventDestroy_v2": (_P,),
    "cuCtxPushCurrent_v2": (_P,),
    "cuCtxGetCurrent": (_P,),
}  # cuda.h
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: which one, and its value, of which `number` is the first word."""

    _fields_ = [("id", _I), ("_hole", _I), ("number", _I), ("_rest", _I * 15)]


EARLY = LaunchAttribute(6, 0, 1)  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, allowed


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", _U * 3),
        ("block", _U * 3),
        ("shared", _U),
        ("stream", _P),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", _U),
    ]


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", _P),
        *((f"{of}_{side}", _U) for of in ("grid", "block") for side in "xyz"),
        ("shared", _U),
        ("arguments", _P),
        ("_extra", _P),
        ("_kernel", _P),
        ("_context", _P),
    ]


class DriverFault(Exception):
    """The driver refuses; `args[0]` is its word."""


@functools.cache
def library() -> Any:
    """The driver, loaded, with the types of its functions. Raises DriverFault."""
    for name in LIBRARIES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        for function, types in FUNCTIONS.items():
            if hasattr(found, function):  # an older driver lacks the newest, which are not asked of it
                getattr(found, function).argtypes = types
        return found
    raise DriverFault(Phrase("none of {libraries} can be loaded", libraries=", ".join(LIBRARIES)))


def call(function: str, *arguments: Any) -> None:
    """One of FUNCTIONS. Raises DriverFault with the name of what it returns."""
    result = getattr(library(), function)(*arguments)
    if result:
        name = ctypes.c_char_p()
        library().cuGetErrorName(result, ctypes.byref(name))
        raise DriverFault(f"{function} gave {(name.value or str(result).encode()).decode()}")


def follow(later: int, earlier: int) -> None:
    """Let what is queued on a stream from now on wait for what is queued on another so far. Raises DriverFault."""
    event = made_by("cuEventCreate", NO_TIMING)
    try:
        call("cuEventRecord", event, earlier)
        call("cuStreamWaitEvent", later, event, 0)
    finally:
        call("cuEventDestroy_v2", event)  # at once, or when it is reached


def made_by(function: str, *arguments: Any) -> int:
    """The handle that the function writes through its first parameter; `arguments` are the others. Raises
    DriverFault."""
    handle = ctypes.c_void_p()
    call(function, ctypes.byref(handle), *arguments)
    return handle.value or 0
