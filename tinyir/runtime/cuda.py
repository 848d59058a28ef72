"""An NVIDIA GPU through PyCUDA, or through cuda-bindings where PyCUDA is not built: modules, memory, launches. What
PyCUDA lacks, tensor maps, early launches and graphs, is asked of the driver itself."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import math
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..kit.diag import Refused, refuse
from ..kit.phrase import Phrase
from .compile import cubins_of
from .device import Argument, Bound, Box, Buffer
from .driver import DriverFault, call
from .graph import Graph
from .mapped import MappedModule, pack

# bytes; a kernel that wants more must be told so (CUDA programming guide, compute capabilities)
STATIC_SHARED = 48 << 10
MOST_SPARE = 16  # pieces of memory that were lent, came back and are kept
EARLY_IN_GRAPHS = 12030  # the first driver that captures launches which may start early, and says their nodes
_ASK_SECONDS = 2e-4  # between two questions whether a launch has ended, where it has a limit
SCALARS = {4: "I", 8: "Q"}  # by their bits: a matrix descriptor uses the highest


def driver_module() -> Any:
    """PyCUDA's interface of the driver: its own, else the same over cuda-bindings. Raises ImportError, whose words say
    what to install."""
    try:
        import pycuda.driver as driver

        return driver
    except ImportError as fault:
        try:
            import cuda.bindings.driver  # noqa: F401
        except ImportError:
            raise ImportError(
                Phrase(
                    "neither PyCUDA ({fault}) nor cuda-bindings can be imported; `pip install cuda-bindings` needs no "
                    "CUDA toolkit, `pip install pycuda` builds with one",
                    fault=fault,
                )
            ) from None
    from . import bindings

    return bindings


@functools.cache
def find_fault() -> str | None:
    """Why no GPU can be used here, or None when one can."""
    try:
        driver = driver_module()
    except ImportError as fault:
        return fault.args[0]
    try:
        driver.init()
        return None if driver.Device.count() else Phrase("the driver knows no device")
    except driver.Error as fault:
        return Phrase("the driver refuses ({split})", split=str(fault).split(chr(10), 1)[0])


def find_gpu() -> tuple[str, tuple[int, int]] | None:
    """What the driver calls the first GPU, and its compute capability; None where none can be used."""
    if find_fault() is not None:
        return None
    driver = driver_module()
    first = driver.Device(0)
    return first.name(), first.compute_capability()


def target_of(capability: tuple[int, int]) -> str:
    """What to compile for: `sm_90a` on Hopper, whose own instructions only that target has."""
    return "sm_90a" if capability == (9, 0) else f"sm_{capability[0]}{capability[1]}"


@contextlib.contextmanager
def compiled_beside(text: str, entries: Iterable[str], jobs: int | None) -> Iterator[None]:
    """While inside, these kernels of a text are compiled for the first GPU, `jobs` at a time, into the cache. What the
    compiler refuses is told by who loads them."""
    found = find_gpu()
    if found is None:
        yield
        return

    def compiled() -> None:
        with contextlib.suppress(Refused):
            cubins_of(text, target_of(found[1]), entries, jobs=jobs)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(compiled)
        yield


class CudaCode:
    """Kernels that are loaded on a GPU: `images` are their cubins, by name. Codes know nothing of one another."""

    def __init__(self, driver: Any, images: Mapping[str, bytes], kernels: Mapping[str, int]):
        modules = {image: driver.module_from_buffer(image) for image in dict.fromkeys(images[name] for name in kernels)}
        self._functions = {name: modules[images[name]].get_function(name) for name in kernels}
        self._modules = [*modules.values()]  # a function does not keep its module
        self._formats: dict[str, str] = {}
        self._mapped: dict[bytes, MappedModule] = {}
        self._most = dict(kernels)
        self.images = {name: images[name] for name in kernels}
        for name, shared in kernels.items():
            if shared > STATIC_SHARED:
                self._functions[name].set_attribute(driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)

    def function(self, kernel: str, form: str) -> Any:
        """A kernel for arguments of this form, a letter for each as in `struct`."""
        function = self._functions[kernel]
        if self._formats.get(kernel) != form:
            function.prepare(form)
            self._formats[kernel] = form
        return function

    def mapped(self, kernel: str) -> MappedModule:
        """The module of a kernel, for launches that PyCUDA cannot make."""
        image = self.images[kernel]
        if image not in self._mapped:
            self._mapped[image] = MappedModule(image, self._most)
        return self._mapped[image]

    def release(self) -> None:
        """Unload the kernels. Graphs of their launches must be gone."""
        for module in self._mapped.values():
            module.release()
        self._mapped.clear()
        self._functions.clear()
        self._modules.clear()


_OPEN: weakref.WeakSet[CudaDevice] = weakref.WeakSet()  # devices whose context is on PyCUDA's stack
# GPUs by number that this process cannot use any more: the kernel that failed, and how
_LOST: dict[int, tuple[str, str]] = {}


@atexit.register
def _release_all() -> None:
    """Give back what nobody gave back: PyCUDA ends the process where a context is left."""
    for device in list(_OPEN):
        device.release()


class CudaDevice:
    """A GPU in its primary context, so that other libraries of the process share it, for one program or several, whose
    launches follow each other. `release` must be called. `overlaps`: launches that may start early do. `jobs` kernels
    are compiled side by side (default: one a core). A launch that is waited for may take `limit` seconds (0: as many
    as it likes). Raises Refused (E1718 no GPU, E1734 one that an earlier fault has ended for this process)."""

    name = "cuda"
    is_packed = True
    can_replay = True

    def __init__(self, ordinal: int = 0, overlaps: bool = True, jobs: int | None = None, limit: float = 0.0):
        fault = find_fault()
        if fault is not None:
            raise refuse("E1718", reason=fault)
        if ordinal in _LOST:
            raise lost(ordinal)
        self._driver = driver = driver_module()
        self.ordinal = ordinal
        self.jobs = jobs
        self.limit = limit
        if ordinal >= driver.Device.count():
            raise refuse(
                "E1718",
                reason=Phrase(
                    "there are {count} devices, and {ordinal} is not among them",
                    count=driver.Device.count(),
                    ordinal=ordinal,
                ),
            )
        self._device = driver.Device(ordinal)
        self.capability = self._device.compute_capability()
        version = driver.get_driver_version()
        self.overlaps = overlaps and version >= EARLY_IN_GRAPHS
        self.changes_graphs = version >= EARLY_IN_GRAPHS
        major, minor = self.capability
        self.description = (
            f"{self._device.name()} (sm_{major}{minor}, CUDA driver {version // 1000}.{version % 1000 // 10})"
        )
        self.l2_bytes = self._device.get_attribute(driver.device_attribute.L2_CACHE_SIZE)
        self._context = self._device.retain_primary_context()
        self._context.push()
        _OPEN.add(self)
        self.stream = driver.Stream()
        self._memory: dict[int, Any] = {}
        self._codes: list[CudaCode] = []
        # (bytes, stream, memory) that was lent and came back, the oldest first
        self._spare: list[tuple[int, int | None, Any]] = []
        self._graphs: list[Graph] = []
        self._is_released = False  # what was lent may outlive that, and with it the context

    @property
    def arch(self) -> str:
        """What to compile for."""
        return target_of(self.capability)

    def takes(self, arch: str) -> bool:
        """Code for a generation runs on it and, compiled anew, on later ones."""
        return int(arch.removeprefix("sm")) <= 10 * self.capability[0] + self.capability[1]

    def takes_maps(self) -> bool:
        """From Hopper on the driver makes them."""
        return self.capability >= (9, 0)

    def load(self, text: str, kernels: Mapping[str, int]) -> CudaCode:
        """Compile (or take from the cache) and load `text`. Raises Refused (E1715, E1716, E1730 the driver does not
        take it)."""
        found = cubins_of(text, self.arch, kernels, jobs=self.jobs)
        return self.load_images({name: cubin.image for name, cubin in found.items()}, kernels)

    def load_images(self, images: Mapping[str, bytes], kernels: Mapping[str, int]) -> CudaCode:
        """Load kernels that are compiled for `arch`, one or several in an image; of each the most dynamic shared
        memory, in bytes. Raises Refused (E1730 the driver does not take one)."""
        with self.refusing(", ".join(kernels)):
            code = CudaCode(self._driver, images, kernels)
        self._codes.append(code)
        return code

    def unload(self, code: CudaCode) -> None:
        """Give the code back; graphs of its launches must be gone."""
        self._codes.remove(code)
        code.release()

    def allocate(self, name: str, count: int, item: int, alignment: int = 256) -> Buffer:
        """`count` elements of `item` bytes, filled with 0xFF; at a multiple of 256 bytes always. Memory comes in whole
        16 bytes, which `copy_16` reads at a time. Raises Refused (E1717)."""
        size = count * item
        with self.refusing(Phrase("the allocation of {buffer}", buffer=name)):
            try:
                memory = self._driver.mem_alloc(max(16 * math.ceil(size / 16), 16))
            except self._driver.MemoryError:
                raise refuse("E1717", name, buffer=name, size=size) from None
            self._memory[int(memory)] = memory
            if size:
                self._driver.memset_d8(memory, 0xFF, size)
        return Buffer(name, int(memory), count, item, 0)

    def upload(self, buffer: Buffer, array: np.ndarray, is_constant: bool = True) -> None:
        """Copy a contiguous array in."""
        with self._copying(buffer.name):
            if array.nbytes:
                self._driver.memcpy_htod(buffer.address, _bytes_of(array))

    def forget(self, buffer: Buffer) -> None:
        """Nothing: the next launch that writes there decides."""

    def free(self, buffer: Buffer) -> None:
        """Give one buffer back."""
        self._memory.pop(buffer.address).free()

    @contextlib.contextmanager
    def room(self, size: int) -> Iterator[Any]:
        """Memory of the driver's with that size in bytes, until the block ends. Raises Refused (E1717, E1730)."""
        buffer = self.allocate(Phrase("what is written between two runs"), size, 1)
        try:
            yield self._memory[buffer.address]
        finally:
            with contextlib.suppress(self._driver.Error):  # after a fault the memory is lost
                self.free(buffer)

    def lend(self, name: str, count: int, item: int, stream: int | None = None) -> tuple[Buffer, Lent]:
        """A buffer whose memory lives as long as the second object does, and then serves the next one of its size: what
        is called in a loop finds the same addresses. What it holds is not defined. It is used by what is queued on a
        stream, or by runs that are waited for (None). Raises Refused (E1717)."""
        size = count * item
        kept = next((n for n, spare in enumerate(self._spare) if spare[:2] == (size, stream)), None)
        if kept is not None:
            memory = self._spare.pop(kept)[2]
        else:
            memory = self._memory.pop(self.allocate(name, count, item).address)
            if stream is not None:
                self.wait_for_all()  # it is being filled, on no stream that the caller's waits for
        return Buffer(name, int(memory), count, item, 0), Lent(self, size, memory, stream)

    def take_back(self, size: int, memory: Any, stream: int | None, is_elsewhere: bool) -> None:
        """Lent memory that nobody uses any more, but for what is queued on its stream, or `is_elsewhere`: on another as
        well. Then it is freed, for which the driver waits."""
        if self._is_released:
            return  # the memory's own end frees it
        if is_elsewhere:
            memory.free()
            return
        self._spare.append((size, stream, memory))
        if len(self._spare) > MOST_SPARE:
            self._spare.pop(0)[2].free()

    def download(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy the buffer into a contiguous array of its size."""
        with self._copying(buffer.name):
            if array.nbytes:
                self._driver.memcpy_dtoh(_bytes_of(array), buffer.address)

    def copy_out(self, address: int, array: np.ndarray, stream: int | None = None, name: str = "") -> None:
        """Copy memory of this GPU into a contiguous array, whoever owns it, once what `stream` does now is over: the
        run of a program of this name. Raises Refused (E1730) where that fails."""
        self._context.push()
        try:
            if stream is not None:
                with self.refusing(name):
                    call("cuStreamSynchronize", stream)
            with self._copying(Phrase("an array")):
                if array.nbytes:
                    self._driver.memcpy_dtoh(_bytes_of(array), address)
        finally:
            self._context.pop()

    def wait_for_all(self) -> None:
        """Until all streams of the context are idle, those of other libraries too."""
        with self.refusing(Phrase("what other libraries have queued")):
            self._driver.Context.synchronize()

    def enter(self) -> None:
        """Make the context current in a thread that did not make this object."""
        self._context.push()

    def launch(
        self,
        code: CudaCode,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Argument],
    ) -> None:
        """Run one kernel to its end. Raises Refused (E1730)."""
        with self.refusing(kernel):
            self.enqueue(code, kernel, grid, block, shared, arguments)
            self.wait(kernel)

    def wait(self, kernel: str) -> None:
        """Until all that was queued on `stream`, of this kernel, has ended. Raises what the driver raises, and Refused
        (E1735) where it takes longer than `limit`: the GPU is lost for this process then, which cannot stop a
        kernel."""
        if not self.limit:
            self.stream.synchronize()
            return
        end = time.monotonic() + self.limit
        while not self.stream.is_done():
            if time.monotonic() > end:
                facts = {"kernel": kernel, "device": self.description, "limit": self.limit}
                _LOST[self.ordinal] = kernel, Phrase("it has not ended")
                raise refuse("E1735", kernel, **facts)
            time.sleep(_ASK_SECONDS)

    def enqueue(
        self,
        code: CudaCode,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Argument],
        is_early: bool = False,
        stream: int | None = None,
    ) -> None:
        """Queue one kernel on the stream of a handle (default: `self.stream`), for timings and graphs; a fault shows
        when the stream is waited for. An early one may start while the one before it drains."""
        is_early = is_early and self.overlaps
        if stream is not None or is_early or any(isinstance(a, Box) for a in arguments):
            handle = self.stream.handle if stream is None else stream
            code.mapped(kernel).enqueue(kernel, grid, block, shared, handle, tuple(arguments), is_early)
            return
        form = "".join("P" if isinstance(a, Buffer) else SCALARS[a.bytes] for a in arguments)
        function = code.function(kernel, form)
        values = [a.address if isinstance(a, Buffer) else a.value % (1 << 8 * a.bytes) for a in arguments]
        function.prepared_async_call(tuple(grid), (*block, 1, 1)[:3], self.stream, *values, shared_size=shared)

    def change(self, graph: Graph, number: int, b: Bound) -> None:
        """Let a graph's launch of this number, whose kernel is the same, be made with other arguments. Raises
        DriverFault."""
        function, packed = b.code.mapped(b.kernel).function(b.kernel), pack(b.arguments)
        graph.change(number, function, b.grid, b.block, b.shared, ctypes.addressof(packed[0]))

    def capture(self, enqueue: Callable[[], Iterable[None] | None]) -> Graph:
        """A graph of what `enqueue` queues on `stream`; given back with the device at the latest. Raises
        DriverFault."""
        graph = Graph(self.stream.handle, enqueue)
        self._graphs = [*(kept for kept in self._graphs if kept.is_kept), graph]
        return graph

    def capture_each(self, launches: Sequence[Bound]) -> Graph:
        """A graph of these launches, each of which may be changed later if the device `changes_graphs`. Raises
        DriverFault."""
        for b in launches:  # loaded now: no module is while a stream is captured
            b.code.mapped(b.kernel).function(b.kernel)

        def queued() -> Iterator[None]:
            own = self.stream.handle
            for b in launches:
                yield self.enqueue(b.code, b.kernel, b.grid, b.block, b.shared, b.arguments, b.is_early, own)

        return self.capture(queued if self.changes_graphs else lambda: [*queued()][:0])

    def refusing(self, kernel: str) -> _Refusing:
        """A `with` block in which what the driver raises becomes Refused (E1730) of this kernel, with whether the GPU
        can still be used. Raises Refused (E1734) where an earlier fault has ended that."""
        return _Refusing(self, kernel)

    def _copying(self, buffer: str) -> contextlib.AbstractContextManager[None]:
        return self.refusing(Phrase("the copy of {buffer}", buffer=buffer))

    def release(self) -> None:
        """Free all memory and leave the context; nothing when that is done."""
        if self._is_released:
            return
        _OPEN.discard(self)
        if self._is_running():
            self._is_released = True
            self._context.pop()
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # whatever frees memory would wait for the kernel
            return
        try:
            for graph in self._graphs:
                graph.release()
            for code in self._codes:
                code.release()
            for memory in (*self._memory.values(), *(memory for *_, memory in self._spare)):
                memory.free()
        except (self._driver.Error, DriverFault):
            pass  # after a fault the context is lost and so is its memory
        self._graphs.clear()
        self._spare.clear()
        self._memory.clear()
        self._codes.clear()
        self.stream = None
        self._context.pop()
        self._is_released = True

    def _is_running(self) -> bool:
        """Whether a kernel that was given up is still running."""
        if self.ordinal not in _LOST:
            return False
        try:
            return not self.stream.is_done()
        except self._driver.Error:
            return False  # it has failed

    def _refusal(self, kernel: str, fault: Exception) -> Refused:
        reason = str(fault).split("\n", 1)[0]
        left = Phrase("the GPU can be used as before")
        try:
            self.stream.is_done()
        except self._driver.Error:
            left = Phrase("this process cannot use the GPU any more")
            _LOST[self.ordinal] = kernel, reason
        return refuse("E1730", kernel, kernel=kernel, device=self.description, reason=reason, left=left)


def lost(ordinal: int) -> Refused:
    """E1734: this process cannot use a GPU any more, and what has ended it."""
    kernel, reason = _LOST[ordinal]
    return refuse("E1734", kernel, kernel=kernel, ordinal=ordinal, reason=reason)


class _Refusing:
    """What `CudaDevice.refusing` gives. A class, since each call of a program enters one: a generator takes thrice the
    time."""

    __slots__ = ("_device", "_kernel")

    def __init__(self, device: CudaDevice, kernel: str):
        self._device, self._kernel = device, kernel

    def __enter__(self) -> None:
        if self._device.ordinal in _LOST:
            raise lost(self._device.ordinal)

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: Any) -> None:
        if isinstance(fault, (self._device._driver.Error, DriverFault)):
            raise self._device._refusal(self._kernel, fault) from None


class Lent:
    """Memory of a device that someone outside uses; it goes back when this object ends. `is_elsewhere`: what is queued
    on other streams than its own may use it too."""

    def __init__(self, device: CudaDevice, size: int, memory: Any, stream: int | None):
        self._device, self._size, self._memory, self._stream = device, size, memory, stream
        self.is_elsewhere = False

    def __del__(self) -> None:
        self._device.take_back(self._size, self._memory, self._stream, self.is_elsewhere)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The array's bytes: PyCUDA copies any buffer, but does not know the dtypes of ml_dtypes."""
    return array.reshape(-1).view(np.uint8)
