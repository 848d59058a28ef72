"""Launches with tensor maps, through cuda-bindings: PyCUDA makes no maps, and packs no argument that is aligned to 64 bytes.

A map is encoded by the driver for one address, shape and box; arguments are handed over as a pointer each, which leaves their packing to the
driver as well.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
from typing import Any, Sequence

from .device import Argument, Box, Buffer

MAP_BYTES, MAP_ALIGNMENT = 128, 64
MOST_PACKED = 256  # sets of arguments that are kept for the next launch with them
DTYPES = {"fp16": "FLOAT16", "bf16": "BFLOAT16", "fp32": "FLOAT32"}


class LaunchFault(Exception):
    """The driver refuses; `args[0]` is its word."""


def has_bindings() -> bool:
    """Whether cuda-bindings is installed."""
    return importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None


class MappedModule:
    """A cubin loaded in the current context, whose kernels take tensor maps. Raises LaunchFault."""

    def __init__(self, image: bytes):
        from cuda.bindings import driver

        self._driver = driver
        self._module = self._must(driver.cuModuleLoadData(image))
        self._functions: dict[str, Any] = {}
        self._packed: dict[tuple[Argument, ...], Any] = {}

    def enqueue(self, kernel: str, grid: Sequence[int], block: Sequence[int], shared: int, stream: int, arguments: tuple[Argument, ...]) -> None:
        """Queue one kernel on the stream of this handle."""
        function, packed = self._function(kernel, shared), self._pack(arguments)
        x, y, z = (*grid, 1, 1)[:3]
        self._must(self._driver.cuLaunchKernel(function, x, y, z, *(*block, 1, 1)[:3], shared, stream, ctypes.addressof(packed[0]), 0))

    def release(self) -> None:
        """Unload the module."""
        self._driver.cuModuleUnload(self._module)

    def _function(self, kernel: str, shared: int) -> Any:
        if kernel not in self._functions:
            function = self._must(self._driver.cuModuleGetFunction(self._module, kernel.encode()))
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._must(self._driver.cuFuncSetAttribute(function, attribute, shared))
            self._functions[kernel] = function
        return self._functions[kernel]

    def _pack(self, arguments: tuple[Argument, ...]) -> Any:
        """An array of pointers to the arguments, and what they point to, which must live as long."""
        if arguments not in self._packed:
            if len(self._packed) >= MOST_PACKED:
                self._packed.clear()  # a launch has copied what it was given
            kept, places = [], []
            for argument in arguments:
                place, owner = self._place(argument)
                places.append(place)
                kept.append(owner)
            self._packed[arguments] = ((ctypes.c_void_p * max(1, len(places)))(*places), kept)
        return self._packed[arguments]

    def _place(self, argument: Argument) -> tuple[int, Any]:
        if isinstance(argument, Box):
            room = (ctypes.c_char * (MAP_BYTES + MAP_ALIGNMENT))()
            place = -(-ctypes.addressof(room) // MAP_ALIGNMENT) * MAP_ALIGNMENT
            encoded = self._encode(argument)
            ctypes.memmove(place, encoded.getPtr(), MAP_BYTES)
            return place, (room, encoded)
        if isinstance(argument, Buffer):
            value: Any = ctypes.c_uint64(argument.address)
        else:
            value = (ctypes.c_int32 if argument.bytes == 4 else ctypes.c_int64)(argument.value)
        return ctypes.addressof(value), value

    def _encode(self, box: Box) -> Any:
        """The driver's map of a row-major tensor. Dims and strides are told innermost first."""
        d = self._driver
        dims, sides = box.dims[::-1], box.box[::-1]
        strides = [math.prod(dims[: i + 1]) * box.buffer.item for i in range(len(dims) - 1)] or [MAP_ALIGNMENT]  # no list may be empty
        return self._must(
            d.cuTensorMapEncodeTiled(
                getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{DTYPES[box.dtype]}"),
                len(dims),
                box.buffer.address,
                [d.cuuint64_t(n) for n in dims],
                [d.cuuint64_t(n) for n in strides],
                [d.cuuint32_t(n) for n in sides],
                [d.cuuint32_t(1)] * len(dims),
                d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                getattr(d.CUtensorMapSwizzle, "CU_TENSOR_MAP_SWIZZLE_" + (f"{box.swizzle}B" if box.swizzle else "NONE")),
                d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )

    def _must(self, answer: tuple[Any, ...]) -> Any:
        if answer[0] != self._driver.CUresult.CUDA_SUCCESS:
            raise LaunchFault(str(answer[0]))
        return answer[1] if len(answer) > 1 else None
