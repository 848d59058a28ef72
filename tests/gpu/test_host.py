"""Programs as C on a GPU: the same bits as the Python callable, from threads of their own, and captured in a graph."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tests.host.calls import built_gpt2, continued
from tests.models import gpt2, resnet50
from tests.unit.test_moved_launches import steps
from tinyir.host import write_host
from tinyir.host.outline import outline_of
from tinyir.host.spelling import name_of
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.cuda import find_fault
from tinyir.runtime.driver import call, made_by
from tinyir.runtime.graph import Graph

MLP = Path(__file__).resolve().parents[2] / "samples" / "mlp" / "mlp.json"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]


def includes() -> list[str]:
    """Where the toolkit's cuda.h may be."""
    nvcc = shutil.which("nvcc")
    homes = [Path(nvcc).resolve().parents[1]] if nvcc else []
    wheels = [found for p in sys.path for found in Path(p).glob("nvidia/*") if (found / "include" / "cuda.h").exists()]
    return [f"-I{home}/include" for home in (*homes, Path("/usr/local/cuda"), *wheels)]


class Called:
    """A program written as C, compiled with the toolkit's own header, called through ctypes with arrays of the host."""

    def __init__(self, folder: Path, program: Any, weights: Mapping[str, np.ndarray]):
        self.module = program._session.module
        self.outline = outline_of(self.module, weights)
        arch, images = program._session.cubins
        base = folder / "program"
        write_host(base, self.module, {arch: images}, weights)
        flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", *includes()]
        done = subprocess.run(["cc", *flags, "-o", f"{base}.so", f"{base}.c"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        self.name, self.library = name_of(self.outline.name), ctypes.CDLL(f"{base}.so")
        self.of("error").restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.must(self.of("create")(f"{base}.data".encode(), 0, ctypes.byref(self.handle)))

    def of(self, word: str) -> Any:
        """One of its functions."""
        return getattr(self.library, f"{self.name}_{word}")

    def must(self, fault: int) -> None:
        """No fault."""
        assert fault == 0, self.of("error")()

    def workspace(self, sizes: Mapping[str, int]) -> int:
        """The bytes that a run needs."""
        found = ctypes.c_size_t()
        told = [ctypes.c_int64(sizes[s]) for s in self.outline.symbols]
        self.must(self.of("workspace_bytes")(*told, ctypes.byref(found)))
        return found.value

    def run(self, rooms: Mapping[str, int], sizes: Mapping[str, int], workspace: int, stream: int) -> None:
        """Queue one run; addresses by the tensors' names."""
        tensors = [ctypes.c_void_p(rooms[t.name]) for t in self.outline.parameters]
        told = [ctypes.c_int64(sizes[s]) for s in self.outline.symbols]
        self.must(
            self.of("run")(self.handle, *tensors, *told, ctypes.c_void_p(workspace or None), ctypes.c_void_p(stream))
        )

    def close(self) -> None:
        """Give it back."""
        self.of("destroy")(self.handle)


def as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def check(folder: Path, model: Any, weights: Mapping[str, np.ndarray], calls: list[dict[str, np.ndarray]]) -> None:
    """Each call gives the bits that the callable gives: run after run, from a thread each, and from a graph."""
    import pycuda.driver as driver

    with tinyir.compile(model, device="cuda", params=weights) as program:
        wanted = [program(**given) for given in calls]
        outputs = {t.name: t for t in program._session.model.outputs}
        sized = [program._session._sizes_of(given, {}) for given in calls]
        called = Called(folder, program, weights)
        driver.Context.synchronize()
        context = made_by("cuCtxGetCurrent")
        found: list[dict[str, np.ndarray]] = [{} for _ in calls]

        def rooms_of(n: int) -> tuple[dict[str, Any], Any, Any]:
            rooms = {
                k: driver.mem_alloc(-(-max(a.nbytes, 16) // 16) * 16) for k, a in {**calls[n], **wanted[n]}.items()
            }
            for k, a in calls[n].items():
                driver.memcpy_htod(rooms[k], as_bytes(a))
            for k, a in wanted[n].items():
                driver.memset_d8(rooms[k], 0xEE, a.nbytes)
            return rooms, driver.mem_alloc(max(called.workspace(sized[n]), 256)), driver.Stream()

        def one(n: int, way: str, rooms: dict[str, Any], workspace: Any, stream: Any) -> None:
            call("cuCtxPushCurrent_v2", context)
            addresses = {k: int(room) for k, room in rooms.items()}
            queue = lambda: called.run(addresses, sized[n], int(workspace), stream.handle)  # noqa: E731
            if way == "graph":
                with Graph(stream.handle, queue) as graph:
                    graph.run()
                    graph.run()
                    call("cuStreamSynchronize", stream.handle)
            else:
                for _ in range(3):
                    queue()
                call("cuStreamSynchronize", stream.handle)

        for way in ("alone", "threads", "graph"):
            found[:] = [{} for _ in calls]
            places = [rooms_of(n) for n in range(len(calls))]
            driver.Context.synchronize()
            if way == "threads":
                threads = [threading.Thread(target=one, args=(n, way, *places[n])) for n in range(len(calls))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            else:
                for n in range(len(calls)):
                    one(n, way, *places[n])
            for n, (rooms, _, _) in enumerate(places):
                for k, a in wanted[n].items():
                    found[n][k] = np.empty(a.nbytes, np.uint8)
                    driver.memcpy_dtoh(found[n][k], rooms[k])
            for n, by_name in enumerate(wanted):
                for k, a in by_name.items():
                    assert k in outputs and found[n][k].tobytes() == as_bytes(a).tobytes(), (way, n, k)
        called.close()


def test_mlp(tmp_path: Path) -> None:
    with tinyir.compile(MLP, device="cpu") as program:
        signature = program._session.model
    arrays = random_arrays(signature, {"M": 2048}, 0)
    weights = {t.name: arrays[t.name] for t in signature.inputs if t.attr("role") == "param"}
    calls = [{"X": random_arrays(signature, {"M": m}, 1)["X"]} for m in (2048, 7, 300)]
    check(tmp_path, MLP, weights, calls)
    (tmp_path / "again").mkdir()
    check(tmp_path / "again", MLP, {}, [{**weights, **calls[1]}])


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_tensors_from_another_place_on(dtype: str, tmp_path: Path) -> None:
    """One kernel, launched with a tensor from several places on, backwards as well: what NumPy adds, to the bit."""
    places, kind = (5, 3, 0, 7), np.dtype({"fp16": np.float16, "fp32": np.float32}[dtype])
    text, draw = steps("8, 2, 64", places, dtype), np.random.default_rng(0)
    calls = [{"X": draw.standard_normal((8, 2, 64)).astype(kind)} for _ in range(2)]
    calls = [{**call, "S": draw.standard_normal((2, 64)).astype(kind)} for call in calls]
    with tinyir.compile(text, device="cuda") as program:
        assert len({one.entry for one in program._session.module.launches}) == 1
        for given in calls:
            wanted = given["S"]
            for at in places:
                wanted = given["X"][at] + wanted
            np.testing.assert_array_equal(program(**given)["Y"], wanted)
    check(tmp_path, text, {}, calls)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("network", [gpt2, resnet50])
def test_networks(network: Any, dtype: str, tmp_path: Path) -> None:
    model = network(dtype=dtype)
    arrays = model.arrays()
    weights = {n: arrays[n] for n in model.weights}
    calls = [{n: a for n, a in model.arrays(seed).items() if n not in weights} for seed in (0, 1)]
    check(tmp_path, model.text, weights, calls)


def test_gpt2_writes_on_in_c_alone(tmp_path: Path) -> None:
    """Word after word the same as from Python, and the same bits of the last logits."""
    tokens, first, count = 64, [464, 3290, 318], 20
    model = gpt2(tokens=tokens)
    arrays = model.arrays()
    weights = {n: arrays[n] for n in model.weights}
    ids = np.zeros((1, tokens), np.int64)
    ids[0, : len(first)] = first
    with tinyir.compile(model.text, device="cuda", params=weights) as program:
        arch, images = program._session.cubins
        write_host(tmp_path / "program", program._session.module, {arch: images}, weights)
        for known in range(len(first), len(first) + count):
            (logits,) = program(ids).values()
            ids[0, known] = logits[0, known - 1].argmax()
    main = built_gpt2(tmp_path / "program", tokens, 50257, (*includes(), "-O2", "-l:libcuda.so.1"))
    _, found, last = continued(main, count, first)
    assert found == ids[0, : len(first) + count].tolist() and len(set(found)) > 3
    assert last.tobytes() == logits.tobytes()
