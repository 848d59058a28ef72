"""Where PyCUDA is not built: the same programs through cuda-bindings, here a driver that launches nothing."""

from __future__ import annotations

import ctypes
import json
import sys
import types
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.kit.diag import Refused
from tinyir.runtime import cuda

from .fake_cuda import Machine, machine  # noqa: F401
from .test_api import LAYERS, arrays_of


class Result(int):
    """CUresult."""

    name = "CUDA_ERROR_OF_PAPER"


class Bindings(types.ModuleType):
    """cuda.bindings.driver: each function gives its result first, then what it made."""

    CUresult = types.SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=2, CUDA_ERROR_NOT_READY=600)
    CUdevice_attribute = types.SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=38,
    )
    CUfunction_attribute = types.SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self, machine: Machine):  # noqa: F811
        super().__init__("cuda.bindings.driver")
        self.machine, self.fails = machine, dict[str, int]()
        self.living: dict[int, np.ndarray] = {}
        self.kernels: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        made = getattr(self, f"_{name}", lambda *_: ())
        return lambda *given: (Result(self.fails[name]),) if name in self.fails else (Result(0), *made(*given))

    _cuDriverGetVersion = staticmethod(lambda: (13000,))
    _cuDeviceGetCount = staticmethod(lambda: (1,))
    _cuDeviceGetName = staticmethod(lambda *_: (b"a card of paper\0\0\0",))
    _cuDeviceGet = _cuStreamCreate = _cuEventCreate = _cuDevicePrimaryCtxRetain = staticmethod(lambda *_: (77,))
    _cuDeviceGetAttribute = staticmethod(lambda attribute, _: ({75: 9, 76: 0}.get(attribute, 1 << 20),))
    _cuEventElapsedTime = staticmethod(lambda *_: (0.5,))
    _cuModuleLoadData = staticmethod(lambda image: (image,))

    def _cuMemAlloc(self, size: int) -> tuple[int]:
        room = np.zeros(size + 256, np.uint8)
        address = -(-room.ctypes.data // 256) * 256
        self.living[address] = room
        return (address,)

    def _cuMemFree(self, address: int) -> tuple[()]:
        del self.living[address]
        return ()

    def _cuMemsetD8(self, address: int, value: int, size: int) -> tuple[()]:
        ctypes.memset(address, value, size)
        return ()

    def _cuMemcpyHtoD(self, to: int, source: int, size: int) -> tuple[()]:
        ctypes.memmove(to, source, size)
        return ()

    _cuMemcpyDtoH = _cuMemcpyHtoD

    def _cuModuleGetFunction(self, _: Any, name: bytes) -> tuple[int]:
        self.kernels[len(self.kernels)] = name.decode()
        return (len(self.kernels) - 1,)

    def _cuLaunchKernel(self, function: int, *given: int) -> tuple[()]:
        *sides, shared, stream, places, extra = given
        assert len(sides) == 6 and stream == 77 and extra == 0
        first = ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(places).value).value
        self.machine.note("launch", self.kernels[function], first)
        return ()


@pytest.fixture
def bindings(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Bindings:  # noqa: F811
    """PyCUDA is not there; cuda-bindings is."""
    made = Bindings(machine)
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    package = types.ModuleType("cuda.bindings")
    package.driver = made  # type: ignore[attr-defined]
    for name, module in (("cuda", types.ModuleType("cuda")), ("cuda.bindings", package), (made.__name__, made)):
        monkeypatch.setitem(sys.modules, name, module)
    return made


def program_of() -> Any:
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    return tinyir.compile(json.dumps(LAYERS, indent=1), device="cuda", params=weights)


def test_a_program_runs_without_pycuda(bindings: Bindings, machine: Machine) -> None:  # noqa: F811
    assert cuda.find_gpu() == ("a card of paper", (9, 0))
    with program_of() as program:
        assert program(arrays_of(7)["x"])["p"].shape == (7, 10)
        launched = [c for c in machine.calls if c[0] == "launch"]
        assert [c[1] for c in launched] == [launch.entry for launch in program._session.module.launches]
        pointers = [c[2] for c in launched if isinstance(c[2], int)]
        assert pointers and set(pointers) <= {a + n for a in bindings.living for n in range(1 << 16)}
    assert bindings.living == {}


@pytest.mark.parametrize(
    ("function", "result", "code"),
    [("cuMemAlloc", 2, "E1717"), ("cuLaunchKernel", 700, "E1730"), ("cuInit", 3, "E1718")],
)
def test_faults_are_those_of_pycuda(bindings: Bindings, function: str, result: int, code: str) -> None:
    bindings.fails[function] = result
    with pytest.raises(Refused) as fault, program_of() as program:
        program(arrays_of(7)["x"])
    assert [d.code for d in fault.value.diags] == [code]
    if code != "E1717":
        assert f"{function} gave CUDA_ERROR_OF_PAPER" in fault.value.diags[0].facts["reason"]


def test_the_message_says_what_to_install(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    for name in ("pycuda", "pycuda.driver", "cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Refused) as fault:
        program_of()
    (diag,) = fault.value.diags
    assert diag.code == "E1718" and "pip install cuda-bindings" in diag.facts["reason"]
    assert "pip install cuda-bindings" in diag.facts["reason"].told("ja")
