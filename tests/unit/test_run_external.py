"""Arrays of other libraries: what the two protocols say is what is taken. Memory of the host stands for that of a GPU
here."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyir.ir.expr import Expr
from tinyir.ir.model import Tensor
from tinyir.ir.types import DTYPES, TensorType
from tinyir.kit.diag import Refused
from tinyir.runtime import external
from tinyir.runtime.external import GpuArray, external_of, of_capsule


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
        ({"strides": (2, 6)}, "contiguous"),
        ({"typestr": ">f2"}, ">f2"),
        ({"typestr": "<c8"}, "<c8"),
        ({"data": (1026, False)}, "16"),
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
    with pytest.raises(Refused, match="contiguous"):
        of_capsule("A", array[:, :, ::2].__dlpack__(), array)
    assert of_capsule("A", array[:1, :, ::6].__dlpack__(), array).shape == (
        1,
        1,
        1,
    )  # strides of single elements say nothing
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


def test_bf16_goes_through_dlpack_alone() -> None:
    given = result(aligned((8,), ml_dtypes.bfloat16), "bf16")
    assert not hasattr(given, "__cuda_array_interface__")
    assert external_of("C", given).dtype.name == "bf16"


def test_a_capsule_that_nobody_took_gives_its_memory_back() -> None:
    before = len(external._LENT)
    capsule = result(aligned((2, 3)), "fp32").__dlpack__()
    assert len(external._LENT) == before + 1
    del capsule
    gc.collect()
    assert len(external._LENT) == before
