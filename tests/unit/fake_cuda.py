"""A PyCUDA and a driver library that launch nothing: memory is the host's, and every call is written down. For what
decides on the CPU."""

from __future__ import annotations

import ctypes
import itertools
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tinyir.runtime import compile as compiler
from tinyir.runtime import cuda, driver


class Fault(Exception):
    """pycuda.driver.Error."""


class NoMemory(Fault):
    """pycuda.driver.MemoryError."""


class Memory:
    """A DeviceAllocation."""

    def __init__(self, machine: Machine, size: int):
        if machine.is_lost or size > machine.room:
            raise Fault("an illegal address of paper") if machine.is_lost else NoMemory("none is left")
        self.machine, self.room = machine, np.zeros(size + 256, np.uint8)
        self.address = -(-self.room.ctypes.data // 256) * 256
        machine.living.add(self.address)

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        """Once only."""
        self.machine.living.remove(self.address)


class Name(str):
    """A kernel's name in what was called; `module` is the number of that which it was launched from."""

    module: int


class Module:
    """A cubin that PyCUDA loaded: it is unloaded when nobody holds it, whoever has a function of it."""

    def __init__(self, machine: Machine, image: bytes):
        self.machine, self.number = machine, machine.load(image)

    def get_function(self, name: str) -> Function:
        """One kernel."""
        return Function(self.machine, self.number, name)

    def __del__(self) -> None:
        del self.machine.modules[self.number]


class Function:
    """A kernel of a module."""

    def __init__(self, machine: Machine, module: int, name: str):
        self.machine, self.module, self.name = machine, module, name

    def prepare(self, form: str) -> None:
        """Nothing."""

    def set_attribute(self, *_: Any) -> None:
        """Nothing."""

    def prepared_async_call(self, grid: Any, block: Any, stream: Any, *values: int, shared_size: int = 0) -> None:
        """Written down."""
        self.machine.launch(self.module, self.name, values)


class Stream:
    """A stream with a handle of its own."""

    handle = 77

    def __init__(self, machine: Machine):
        self.machine = machine

    def synchronize(self) -> None:
        """Written down."""
        self.machine.note("synchronize")
        self.is_done()

    def is_done(self) -> bool:
        """Not while a kernel runs without an end. Raises Fault after one that has ended all use of the card."""
        if self.machine.is_lost:
            raise Fault("an illegal address of paper")
        return not self.machine.is_stuck


class Event:
    """Its time is that of a clock that every launch moves on, by as many microseconds as its kernel's name is long."""

    def __init__(self, machine: Machine):
        self.machine, self.at = machine, 0.0

    def record(self, stream: Stream) -> None:
        """The time of what was queued so far."""
        self.at = sum(len(call[1]) for call in self.machine.calls if call[0] == "launch")

    def time_since(self, other: Event) -> float:
        """Milliseconds."""
        return (self.at - other.at) / 1e3


@dataclass
class Machine:
    """What was asked of the card. While `is_captured` launches go to the graph that is being made; `faults` makes calls
    fail, by name."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    living: set[int] = field(default_factory=set)
    graphs: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    captured: list[tuple[Any, ...]] | None = None
    nodes: list[Any] = field(default_factory=list)  # of graphs, as the driver tells them
    faults: dict[str, int] = field(default_factory=dict)
    maps: list[tuple[Any, ...]] = field(default_factory=list)
    modules: dict[int, bytes] = field(default_factory=dict)  # that are loaded, their images by number
    functions: dict[int, tuple[int, str]] = field(default_factory=dict)  # module and name
    count: itertools.count[int] = field(default_factory=lambda: itertools.count(5))
    version: int = 13000
    is_lost: bool = False  # after an illegal address
    is_stuck: bool = False  # by a kernel without an end
    room: int = 1 << 40  # bytes that one piece of memory may have
    others: tuple[int, ...] = ()  # streams of other libraries
    recorded: dict[int, int] = field(default_factory=dict)  # events, and the streams that they are recorded on
    followed: list[tuple[int, int]] = field(default_factory=list)  # streams that wait, each with what it waits for
    capturing: set[int] = field(default_factory=set)  # of those, the ones that their library captures

    def note(self, *call: Any) -> None:
        """One call; of a launch the kernel, its arguments and its attributes."""
        (self.calls if self.captured is None else self.captured).append(call)

    def load(self, image: bytes) -> int:
        """The number of a new module."""
        number = next(self.count)
        self.modules[number] = image
        return number

    def launch(self, module: int, kernel: str, values: tuple[int, ...], *attributes: Any) -> None:
        """A launch from a module, which must be loaded."""
        assert module in self.modules, f"{kernel} is launched and was unloaded"
        name = Name(kernel)
        name.module = module
        self.note("launch", name, values, *attributes)

    def names(self) -> list[str]:
        """What was called since last asked."""
        found = [call[0] for call in self.calls]
        self.calls.clear()
        return found

    def pycuda(self) -> types.ModuleType:
        """pycuda.driver."""
        machine = self

        class Device:
            count = staticmethod(lambda: 1)

            def __init__(self, ordinal: int):
                self.retain_primary_context = lambda: types.SimpleNamespace(push=lambda: None, pop=lambda: None)

            name = staticmethod(lambda: "a card of paper")
            compute_capability = staticmethod(lambda: (9, 0))
            get_attribute = staticmethod(lambda _: 1 << 20)

        def copied(to: Any, source: Any) -> None:
            if machine.is_lost:
                raise Fault("an illegal address of paper")
            whole = [x if isinstance(x, np.ndarray) else None for x in (to, source)]
            size = next(x.nbytes for x in whole if x is not None)
            ctypes.memmove(*(x.ctypes.data if isinstance(x, np.ndarray) else x for x in (to, source)), size)

        module = types.ModuleType("pycuda.driver")
        module.__dict__.update(
            Error=Fault,
            MemoryError=NoMemory,
            init=lambda: None,
            Device=Device,
            get_driver_version=lambda: machine.version,
            Stream=lambda: Stream(machine),
            Context=types.SimpleNamespace(synchronize=lambda: machine.note("wait for all")),
            device_attribute=types.SimpleNamespace(L2_CACHE_SIZE=0),
            function_attribute=types.SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8),
            mem_alloc=lambda size: Memory(machine, size),
            memset_d8=lambda memory, value, size: ctypes.memset(int(memory), value, size),
            Event=lambda: Event(machine),
            memset_d8_async=lambda *_: machine.note("memset"),
            memcpy_htod=copied,
            memcpy_dtoh=copied,
            module_from_buffer=lambda image: Module(machine, image),
        )
        return module

    # --- the driver library

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: (
            self.faults.get(name, 0) or getattr(self, f"_{name}", lambda *_: self.note(name) or 0)(*arguments)
        )

    def _cuGetErrorName(self, _: int, out: Any) -> int:
        out._obj.value = b"CUDA_ERROR_OF_PAPER"
        return 0

    def _cuModuleLoadData(self, out: Any, image: bytes) -> int:
        out._obj.value = self.load(image)
        return 0

    def _cuModuleUnload(self, module: ctypes.c_void_p) -> int:
        del self.modules[getattr(module, "value", module)]
        return 0

    def _cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> int:
        out._obj.value = next(self.count)
        self.functions[out._obj.value] = module, name.decode()
        return 0

    def _cuLaunchKernelEx(self, config: int, function: int, places: int, extra: Any) -> int:
        asked = driver.LaunchConfig.from_address(config)
        assert (asked.stream or 0) in (77, *self.others) and asked.count <= 1 and extra is None
        values = arguments_at(places)
        self.launch(*self.functions[function], values, *((a.id, a.number) for a in asked.attributes[: asked.count]))
        return 0

    def _cuTensorMapEncodeTiled(
        self,
        place: int,
        dtype: int,
        rank: int,
        address: int,
        sizes: Any,
        strides: Any,
        box: Any,
        steps: Any,
        *rest: int,
    ) -> int:
        self.maps.append((place % 64, dtype, address, [*sizes], [*strides], [*box], [*steps], *rest))
        return 0

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> int:
        assert self.captured is None and (stream, mode) == (77, 2)
        self.captured = []
        return 0

    def _cuStreamEndCapture(self, stream: int, out: Any) -> int:
        number = len(self.graphs) + 1
        self.graphs[number], self.captured = self.captured, None
        self.note("capture")
        out._obj.value = number
        return 0

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: int, flags: int) -> int:
        out._obj.value = graph
        return 0

    def _cuStreamGetCaptureInfo_v3(self, stream: int, *found: Any) -> int:
        """Of a chain the last node alone: its number among the graph's launches."""
        assert self.captured is not None and stream == 77
        node = (ctypes.c_void_p * 1)(len(self.captured))
        self.nodes.append(node)
        ctypes.memmove(found[3], ctypes.byref(ctypes.c_void_p(ctypes.addressof(node))), 8)
        return 0

    def _cuGraphExecKernelNodeSetParams_v2(self, graph: int, node: int, at: int) -> int:
        asked = driver.KernelNode.from_address(at)
        before = self.graphs[graph][node - 1]
        module, kernel = self.functions[asked.function]
        assert module in self.modules and before[1] == kernel
        self.graphs[graph][node - 1] = ("launch", before[1], arguments_at(asked.arguments), *before[3:])
        self.note("change", kernel)
        return 0

    def _cuGraphLaunch(self, graph: int, stream: int) -> int:
        launched = [call[1] for call in self.graphs[graph] if call[0] == "launch"]
        gone = [name for name in launched if name.module not in self.modules]
        assert not gone, f"{', '.join(gone)} are replayed and were unloaded"
        self.note("replay", graph, tuple(self.graphs[graph]))
        return 0

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        ctypes.memmove(to, source, size)
        self.note("copy", to, source)
        return 0

    def _cuStreamIsCapturing(self, stream: int, out: Any) -> int:
        out._obj.value = int(stream in self.capturing)
        return 0

    def _cuEventCreate(self, out: Any, flags: int) -> int:
        out._obj.value = next(self.count)
        return 0

    def _cuEventRecord(self, event: int, stream: int) -> int:
        self.recorded[event] = stream
        self.note("cuEventRecord")
        return 0

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> int:
        self.followed.append((stream, self.recorded[event]))
        self.note("cuStreamWaitEvent")
        return 0


def arguments_at(places: int) -> tuple[int, ...]:
    """Eight bytes of each argument, to which the pointers at a place point."""
    pointers = itertools.takewhile(
        bool, (ctypes.c_uint64.from_address(places + 8 * n).value for n in itertools.count())
    )
    return tuple(ctypes.c_uint64.from_address(p).value for p in pointers)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A card of paper, found by everything that looks for one."""
    made = Machine()
    package = types.ModuleType("pycuda")
    package.driver = made.pycuda()
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", package.driver)
    monkeypatch.setattr(
        cuda,
        "cubins_of",
        lambda text, arch, entries, jobs: {n: compiler.Cubin(n.encode(), arch, "paper", "") for n in entries},
    )
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setattr(cuda, "_LOST", {})
    cuda.find_fault.cache_clear()
    yield made
    cuda.find_fault.cache_clear()
