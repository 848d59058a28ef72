"""The structs of `shim/abi.h` for ctypes, field by field, and the numbers of its enums."""

from __future__ import annotations

import ctypes
import math

from ..runtime.device import Box

(
    MEMORY,
    TRAP,
    DEADLOCK,
    DIVERGENCE,
    ARITHMETIC,
    TIME,
    COLLECTIVE,
    STACK,
    NO_MEMORY,
    UNWRITTEN,
    IN_FLIGHT,
    STILL_READ,
    RACE,
    PROXY,
    ACCUMULATOR,
    NO_BARRIER,
    ARRIVALS,
    BYTES,
    BEHIND,
    UNFENCED,
    OPERAND,
    UNEQUAL,
    LEFT,
    OUTSIDE,
    NO_FENCE,
) = range(1, 26)  # TinyirFaultKind
EXITED, AT_BARRIER, AT_COLLECTIVE, AT_MBARRIER, AT_CLUSTER, AT_WGMMA, AT_REGISTERS, AT_WORD = range(
    1, 9
)  # TinyirWaitKind
MAP_MARK = 0x70616D74
MAP_ALIGNMENT = 64  # bytes
MAX_THREADS = 1024  # of a block
STACK_BYTES = 128 << 10


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class Dim(ctypes.Structure):
    """TinyirDim."""

    _fields_ = _fields(ctypes.c_uint, "x y z")

    def __str__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class Launch(ctypes.Structure):
    """TinyirLaunch."""

    _fields_ = [
        *_fields(Dim, "grid block cluster"),
        ("dynamic_shared", ctypes.c_uint32),
        *_fields(ctypes.c_uint64, "seed limit_ns"),
    ]


class Code(ctypes.Structure):
    """TinyirCode."""

    _fields_ = [*_fields(ctypes.c_void_p, "call touch_shared dynamic"), *_fields(ctypes.c_int, "is_traced is_waiting")]


class Wait(ctypes.Structure):
    """TinyirWait."""

    _fields_ = [
        *_fields(ctypes.c_int32, "kind line"),
        *_fields(ctypes.c_uint32, "id arrived wanted"),
        ("numbers", ctypes.c_int64 * 2),
        ("code", ctypes.c_uint64),
    ]


class Fault(ctypes.Structure):
    """TinyirFault."""

    _fields_ = [
        *_fields(ctypes.c_int32, "kind is_write allocation line"),
        *_fields(Dim, "block thread other_block other_thread"),
        *_fields(ctypes.c_uint64, "address code other_code"),
        ("byte_offset", ctypes.c_int64),
        ("is_shared", ctypes.c_int32),
        ("thread_count", ctypes.c_uint32),
        ("numbers", ctypes.c_int64 * 2),
        *_fields(ctypes.c_char * 24, "function operand rule"),
    ]


class Map(ctypes.Structure):
    """TinyirMap: what is in the bytes of the text's `tensor_map`."""

    _fields_ = [
        ("mark", ctypes.c_uint32),
        *_fields(ctypes.c_uint8, "rank item swizzle is_rounded"),
        ("base", ctypes.c_uint64),
        ("sizes", ctypes.c_uint64 * 5),
        ("strides", ctypes.c_uint64 * 4),
        ("box", ctypes.c_uint16 * 5),
        ("steps", ctypes.c_uint16 * 5),
        ("low", ctypes.c_int16 * 3),
        ("counts", ctypes.c_uint32 * 3),
    ]


def map_of(box: Box) -> Map:
    """The row-major tensor of the argument, its axes the fastest first."""
    dims, sides, item = box.dims[::-1], box.box[::-1], box.buffer.item
    rank = len(dims)
    made = Map(MAP_MARK, rank, item, box.swizzle, box.dtype == "tf32", box.buffer.address)
    made.sizes[:rank] = dims
    made.strides[: rank - 1] = [math.prod(dims[: n + 1]) * item for n in range(rank - 1)]
    made.box[:rank] = sides
    made.steps[:rank] = (1,) * rank
    if box.windows is not None:
        axes = rank - 2
        made.box[:rank] = (sides[0], sides[-1], *(1,) * axes)
        made.steps[1 : 1 + axes] = box.windows.steps[::-1]
        made.low[:axes], made.counts[:axes] = box.windows.low[::-1], box.windows.counts[::-1]
    return made
