"""Arrays of other libraries: what the two protocols say is what is taken. Memory of the host takes the place of that of
a GPU here."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyir.ir.expr import Expr
from tinyir.ir.model import Tensor
from tinyir.ir.types import DTYPES, TensorType
from tinyir.kit.diag import Refused
from tinyir.runtime import external
from tinyir.runtime.external import External, GpuArray, external_of, lendable, of_capsule, on_host

COL_MAJOR = (("layout", "col_major"),)


class Claims:
    """An object that says that a NumPy array's memory is a GPU's."""

    def __init__(self, array: np.ndarray, **changes: Any):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
            **changes,
        }


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    room = np.zeros(int(np.prod(shape)) * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start:][: int(np.prod(shape)) * np.dtype(dtype).itemsize].view(dtype).reshape(shape)


def test_the_cuda_array_interface_is_taken_as_it_is() -> None:
    array = aligned((3, 5), np.float16)
    found = external_of("A", Claims(array, strides=None))
    assert (found.address, found.shape, found.dtype.name) == (array.ctypes.data, (3, 5), "fp16")
    assert found.stand_in().shape == (3, 5) and found.stand_in().dtype == np.float16
    assert external_of("A", Claims(array, strides=array.strides)).shape == (3, 5)
    assert external_of("A", array) is None and external_of("A", [1, 2]) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"strides": (10, 1)}, "whole elements"),
        ({"typestr": ">f2"}, ">f2"),
        ({"typestr": "<c8"}, "<c8"),
        ({"mask": 1}, "elements"),
    ],
)
def test_what_a_kernel_cannot_read_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason) as fault:
        external_of("A", Claims(aligned((3, 5), np.float16), **changes))
    assert [d.code for d in fault.value.diags] == ["E1732"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "uint16", "int64", "bool"])
def test_a_capsule_of_numpy_is_read_field_by_field(dtype: str) -> None:
    array = aligned((4, 1, 6), np.dtype(dtype))
    found = of_capsule("A", array.__dlpack__(), array)
    assert (found.address, found.shape, found.dtype.numpy) == (array.ctypes.data, array.shape, dtype)
    assert found.strides == (6, 6, 1)
    assert of_capsule("A", array[:, :, ::2].__dlpack__(), array).strides[2] == 2
    with pytest.raises(Refused, match="code 5 and 64 bits"):
        of_capsule("A", np.zeros(3, np.complex64).__dlpack__(), None)


def result(array: np.ndarray, kind: str) -> GpuArray:
    def download(address: int, room: np.ndarray) -> None:
        assert address == array.ctypes.data
        room[...] = array

    return GpuArray(array.ctypes.data, _tensor(kind), array.shape, array, download)


def _tensor(kind: str) -> Tensor:
    return Tensor("C", TensorType(DTYPES[kind], (Expr.of(2),)))


def test_a_result_is_seen_through_both_protocols() -> None:
    array = aligned((2, 3))
    given = result(array, "fp32")
    assert external_of("C", given).address == array.ctypes.data
    found = of_capsule("C", given.__dlpack__(), given)
    assert (found.address, found.shape, found.dtype.name) == (array.ctypes.data, (2, 3), "fp32")
    assert given.__dlpack_device__() == (2, 0) and np.array_equal(given.numpy(), array)


ROWS, COLUMNS = (Tensor("A", TensorType(DTYPES["fp16"], (Expr.of("M"), Expr.of("K"))), a) for a in ((), COL_MAJOR))


@pytest.mark.parametrize(
    ("shape", "strides", "orders"),
    [
        ((3, 5), (5, 1), "rows"),
        ((3, 5), (1, 3), "columns"),
        ((3, 5), (8, 1), ""),
        ((3, 5), (1, 8), ""),
        ((3, 5), (-5, 1), ""),
        ((5, 5), (0, 1), ""),
        ((1, 5), (7, 1), "rows columns"),  # the stride of an axis of one place says nothing
        ((3, 1), (1, 9), "rows columns"),
        ((1, 5), (1, 2), ""),
        ((0, 5), (9, 9), "rows columns"),
    ],
)
def test_memory_is_taken_in_the_order_of_the_layout(
    shape: tuple[int, ...], strides: tuple[int, ...], orders: str
) -> None:
    found = External(0, shape, DTYPES["fp16"], None, strides)
    for tensor, word in ((ROWS, "rows"), (COLUMNS, "columns")):
        assert [d.code for d in found.faults(tensor)] == ([] if word in orders.split() else ["E1732"])
    if not orders:
        assert str(list(strides)) in found.faults(ROWS)[0].facts["reason"]


def test_order_is_that_of_numpy() -> None:
    """Every shape: a C array is taken for rows, an array with its last two axes exchanged for columns."""
    for shape in itertools.product((1, 2, 3), repeat=3):
        kind = TensorType(DTYPES["fp16"], tuple(map(Expr.of, shape)))
        array = np.zeros(shape, np.float16)
        moved = np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
        for attrs, made in (((), array), (COL_MAJOR, moved)):
            strides = tuple(s // 2 for s in made.strides)
            assert External(0, shape, kind.dtype, None, strides).faults(Tensor("A", kind, attrs)) == []


@pytest.mark.parametrize("stated", [None, 1, 16, 32, 128, 256])
def test_an_address_must_be_as_aligned_as_the_signature_says(stated: int | None) -> None:
    tensor = Tensor("A", ROWS.type, (("alignment", stated),) if stated else ())
    wanted = max(stated or 0, 16)
    for address in range(0, 1024, 2):
        found = External(address, (3, 5), DTYPES["fp16"], None, (5, 1)).faults(tensor)
        assert [d.code for d in found] == ([] if address % wanted == 0 else ["E1733"])
        if found:
            facts = found[0].facts
            assert (facts["tensor"], facts["wanted"], facts["address"]) == ("A", wanted, f"{address:#x}")
            assert address % facts["given"] == 0 and address % (2 * facts["given"])


def test_a_col_major_result_says_its_strides() -> None:
    memory = aligned((3, 2))  # of [2, 3], col_major
    memory[...] = np.arange(6).reshape(3, 2)

    def download(address: int, room: np.ndarray) -> None:
        assert room.shape == memory.shape
        room[...] = memory

    tensor = Tensor("C", TensorType(DTYPES["fp32"], (Expr.of(2), Expr.of(3))), COL_MAJOR)
    given = GpuArray(memory.ctypes.data, tensor, (2, 3), memory, download)
    assert np.array_equal(given.numpy(), memory.T)
    assert external_of("C", given).strides == (1, 2)
    assert of_capsule("C", given.__dlpack__(), given).strides == (1, 2)
    assert external_of("C", given).faults(tensor) == []


def test_bf16_goes_through_dlpack_alone() -> None:
    given = result(aligned((8,), ml_dtypes.bfloat16), "bf16")
    assert not hasattr(given, "__cuda_array_interface__")
    assert external_of("C", given).dtype.name == "bf16"


class Bits(Claims):
    """As PyTorch gives bf16 and fp8 of a GPU: as raw bits in one protocol, by name in the other."""

    def __init__(self, array: np.ndarray, kind: str):
        super().__init__(array, typestr=f"<V{array.itemsize}")
        self.given = result(array, kind)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **told: Any) -> Any:
        return self.given.__dlpack__(**told)


NARROW = {"bf16": ml_dtypes.bfloat16, "fp8e4m3": ml_dtypes.float8_e4m3fn, "fp8e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("kind", NARROW)
def test_narrow_elements_go_both_ways(kind: str) -> None:
    array = aligned((2, 3), NARROW[kind])
    found = external_of("A", Bits(array, kind))
    assert (found.address, found.dtype.name, found.shape) == (array.ctypes.data, kind, (2, 3))
    array[...] = np.arange(6).reshape(2, 3)
    given = lendable(array)
    assert np.shares_memory(on_host("A", given), array)
    for part in (given, given[1:], given.T):
        taken = of_capsule("A", part.__dlpack__(max_version=(1, 0)), part)
        assert (taken.address, taken.dtype.name, taken.shape) == (part.ctypes.data, kind, part.shape)
        assert taken.strides == tuple(s // array.itemsize for s in part.strides)
    with pytest.raises(BufferError):
        given.__dlpack__(copy=True)
    assert isinstance(np.from_dlpack(lendable(aligned((2, 3)))), np.ndarray)


class Keeps:
    """An array that its library gives to nobody."""

    @property
    def __cuda_array_interface__(self) -> Any:
        raise RuntimeError("it needs a gradient")


def test_what_a_library_does_not_give_is_refused_in_its_words() -> None:
    with pytest.raises(Refused, match="needs a gradient") as fault:
        external_of("A", Keeps())
    assert [d.code for d in fault.value.diags] == ["E1732"]


def test_a_capsule_that_nobody_took_gives_its_memory_back() -> None:
    before = len(external._LENT)
    capsule = result(aligned((2, 3)), "fp32").__dlpack__()
    assert len(external._LENT) == before + 1
    del capsule
    gc.collect()
    assert len(external._LENT) == before
