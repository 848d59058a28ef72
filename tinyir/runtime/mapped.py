"""Launches with tensor maps, or that start early, through the driver's own interface: PyCUDA makes no maps, packs no
argument that is aligned to 64 bytes, and gives a launch no attribute.

A map is encoded by the driver for one address, shape and box; arguments are handed over as a pointer each, which leaves
their packing to the driver as well.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .device import Argument, Box, Buffer
from .driver import EARLY, MAX_DYNAMIC_SHARED, LaunchConfig, call, made_by

MAP_BYTES, MAP_ALIGNMENT = 128, 64
MOST_PACKED = 256  # sets of arguments that are kept for the next launch with them
DTYPES = {
    "fp8e4m3": 0,
    "fp8e5m2": 0,
    "bool": 0,
    "fp16": 6,
    "fp32": 7,
    "bf16": 9,
    "tf32": 11,
}  # CUtensorMapDataType; fp32 is rounded to tf32 as it is fetched
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
NOT_INTERLEAVED, PROMOTED_TO_128_BYTES, FILLED_WITH_ZEROS = (
    0,
    2,
    0,
)  # CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapFloatOOBfill


class MappedModule:
    """A cubin loaded in the current context, for kernels that take tensor maps or start early. `most` is the most
    dynamic shared memory, in bytes, that each kernel is launched with. Raises DriverFault."""

    def __init__(self, image: bytes, most: Mapping[str, int]):
        self._module = made_by("cuModuleLoadData", image)
        self._most = most
        self._functions: dict[str, int] = {}
        self._packed: dict[tuple[Argument, ...], Any] = {}

    def enqueue(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        stream: int,
        arguments: tuple[Argument, ...],
        is_early: bool = False,
    ) -> None:
        """Queue one kernel on the stream of this handle. An early one may start while the one before it drains;
        captured, the graph says so."""
        function, packed = self.function(kernel), self._pack(arguments)
        config = LaunchConfig(
            (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared, stream, ctypes.pointer(EARLY), int(is_early)
        )
        call("cuLaunchKernelEx", ctypes.addressof(config), function, ctypes.addressof(packed[0]), None)

    def release(self) -> None:
        """Unload the module."""
        call("cuModuleUnload", self._module)

    def function(self, kernel: str) -> int:
        """The driver's handle of a kernel."""
        if kernel not in self._functions:
            function = made_by("cuModuleGetFunction", self._module, kernel.encode())
            call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, self._most[kernel])
            self._functions[kernel] = function
        return self._functions[kernel]

    def _pack(self, arguments: tuple[Argument, ...]) -> Any:
        """`pack`, kept for the next launch with these arguments."""
        if arguments not in self._packed:
            if len(self._packed) >= MOST_PACKED:
                self._packed.clear()  # a launch has copied what it was given
            self._packed[arguments] = pack(arguments)
        return self._packed[arguments]


def pack(arguments: Sequence[Argument]) -> Any:
    """An array of pointers to the arguments, none behind the last, and what they point to, which must live as long."""
    placed = [_place(argument) for argument in arguments]
    return (ctypes.c_void_p * (len(placed) + 1))(*(place for place, _ in placed)), placed


def _place(argument: Argument) -> tuple[int, Any]:
    if isinstance(argument, Box):
        room = (ctypes.c_char * (MAP_BYTES + MAP_ALIGNMENT))()
        place = -(-ctypes.addressof(room) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        encode(argument, place)
        return place, room
    if isinstance(argument, Buffer):
        value: Any = ctypes.c_uint64(argument.address)
    else:
        value = (ctypes.c_int32 if argument.bytes == 4 else ctypes.c_int64)(argument.value)
    return ctypes.addressof(value), value


def encode(box: Box, place: int) -> None:
    """Write the driver's map of a row-major tensor to `place`, MAP_BYTES at a multiple of MAP_ALIGNMENT. Dims and
    strides are told innermost first. Raises DriverFault."""
    dims, sides = box.dims[::-1], box.box[::-1]
    rank = len(dims)
    strides = [math.prod(dims[: n + 1]) * box.buffer.item for n in range(rank - 1)] or [
        MAP_ALIGNMENT
    ]  # of one axis none is read
    sizes, steps = (ctypes.c_uint64 * rank)(*dims), (ctypes.c_uint64 * len(strides))(*strides)
    told = place, DTYPES[box.dtype], rank, box.buffer.address, sizes, steps
    how = NOT_INTERLEAVED, SWIZZLES[box.swizzle], PROMOTED_TO_128_BYTES, FILLED_WITH_ZEROS
    if box.windows is not None:
        low, high = corners_of(box)
        axes = len(low)
        apart = (ctypes.c_uint32 * rank)(1, *box.windows.steps[::-1], 1)
        first, last = (ctypes.c_int32 * axes)(*low[::-1]), (ctypes.c_int32 * axes)(*high[::-1])
        call("cuTensorMapEncodeIm2col", *told, first, last, sides[0], sides[-1], apart, *how)
        return
    corners, ones = (ctypes.c_uint32 * rank)(*sides), (ctypes.c_uint32 * rank)(*(1,) * rank)
    call("cuTensorMapEncodeTiled", *told, corners, ones, *how)


def corners_of(box: Box) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the corners of windows begin and end, outermost axis first: as far from the tensor's first element, and
    from its last."""
    walk = box.windows
    assert walk is not None
    high = (
        low + step * (count - 1) - (size - 1)
        for low, step, count, size in zip(walk.low, walk.steps, walk.counts, box.dims[1:-1])
    )
    return walk.low, tuple(high)
