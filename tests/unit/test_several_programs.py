"""Several programs on one device, whose kernels have the same names: each launches its own, and gives back its own."""

from __future__ import annotations

import gc
import hashlib
import shutil
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.ir import manifest
from tinyir.kit.diag import Refused
from tinyir.runtime import compile as compiler
from tinyir.runtime import cuda
from tinyir.runtime.cuda import CudaDevice
from tinyir.runtime.program import Program
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .fake_cuda import Machine, machine  # noqa: F401

CHAIN = "graph<N=1> main(x: f32[N, 64]) -> (y: f32[N, 64]) {{ return cumsum(cumsum(x * {}, axis=1), axis=0) }}"


def made(scale: int) -> tuple[str, manifest.Module]:
    found = tinyir.compile(CHAIN.format(scale), device="cpu").text
    return found, manifest.parse(found)


@pytest.fixture
def images(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Cubins that differ where the texts do."""

    def compiled(text: str, arch: str, entries: Any, jobs: Any) -> dict[str, compiler.Cubin]:
        of = hashlib.sha256(text.encode()).hexdigest()
        return {n: compiler.Cubin(f"{of} {n}".encode(), arch, "paper", "") for n in entries}

    monkeypatch.setattr(cuda, "cubins_of", compiled)


def launched_from(machine: Machine) -> set[bytes]:  # noqa: F811
    """The texts whose kernels were launched or replayed since last asked."""
    calls = [each for c in machine.calls for each in (c[2] if c[0] == "replay" else [c]) if each[0] == "launch"]
    machine.calls.clear()
    return {machine.modules[c[1].module].split()[0] for c in calls}


@pytest.mark.usefixtures("images")
def test_each_launches_its_own_kernels_and_gives_back_its_own(machine: Machine) -> None:  # noqa: F811
    device = CudaDevice()
    (text, module), (other_text, other_module) = made(2), made(3)
    assert {launch.entry for launch in module.launches} == {launch.entry for launch in other_module.launches}
    first = Program(device, text, module, {"N": 40})
    for _ in range(3):
        first.run()  # one by one, queued, captured
    before = launched_from(machine)
    second = Program(device, other_text, other_module, {"N": 40})
    for _ in range(3):
        second.run()
    after = launched_from(machine)
    assert len(before) == len(after) == 1 and before != after
    first.run()
    first.enqueue()
    assert launched_from(machine) == before  # from its graph, and anew
    second.release()
    first.run()
    first.enqueue()
    assert launched_from(machine) == before
    assert {image.split()[0] for image in machine.modules.values()} == before
    first.release()
    gc.collect()
    assert not machine.modules and not any(graph.is_kept for graph in device._graphs)
    device.release()
    assert not machine.living


@pytest.mark.usefixtures("images")
def test_what_the_device_still_has_is_given_back_with_it(machine: Machine) -> None:  # noqa: F811
    device = CudaDevice()
    for scale in (2, 3):
        held = Program(device, *made(scale), {"N": 40})
        for _ in range(3):
            held.run()
    device.release()
    gc.collect()
    assert not machine.modules and not machine.living
    assert machine.names().count("cuGraphExecDestroy") == 2


@pytest.mark.usefixtures("images")
def test_a_program_that_finds_no_memory_leaves_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    device = CudaDevice()
    kept = Program(device, *made(2), {"N": 40})
    before = set(machine.living)
    count = 0

    def allocate(size: int) -> Any:
        nonlocal count
        count += 1
        if count > 1:
            raise device._driver.MemoryError("out of memory")
        return given(size)

    given = device._driver.mem_alloc
    monkeypatch.setattr(device._driver, "mem_alloc", allocate)
    with pytest.raises(Refused, match="E1717"):
        Program(device, *made(3), {"N": 40})
    gc.collect()
    assert machine.living == before and len({i.split()[0] for i in machine.modules.values()}) == 1
    kept.release()
    device.release()


@pytest.mark.usefixtures("images")
def test_a_code_that_is_handed_over_stays(machine: Machine) -> None:  # noqa: F811
    """As a session does, whose programs differ in sizes."""
    device = CudaDevice()
    text, module = made(2)
    code = device.load(text, {launch.entry: launch.smem for launch in module.launches})
    first, second = (Program(device, text, module, {"N": n}, code=code) for n in (40, 50))
    first.run()
    first.release()
    second.run()
    assert len(launched_from(machine)) == 1
    second.release()
    assert machine.modules
    device.unload(code)
    del code, first, second
    gc.collect()
    assert not machine.modules
    device.release()


@pytest.mark.usefixtures("images")
def test_a_kernel_may_take_the_most_shared_memory_of_its_launches(
    machine: Machine,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(machine, "_cuFuncSetAttribute", lambda f, which, most: asked.append(most) or 0, raising=False)
    device = CudaDevice()
    code = device.load("one text", {"k": 70000})
    for shared in (50000, 70000):
        device.enqueue(code, "k", (1,), (1,), shared, [], is_early=True)
    assert asked == [70000]
    device.release()


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_in_the_simulation_too() -> None:
    device = SimDevice(limit=60.0)
    x = np.random.default_rng(0).integers(-3, 4, (5, 64)).astype(np.float32)
    programs = [Program(device, *made(scale), {"N": 5}) for scale in (2, 3)]
    for scale, held in zip((2, 3), programs):
        held.upload({"x": x})
        held.run()
        np.testing.assert_array_equal(held.outputs()["y"], (scale * x).cumsum(1).cumsum(0))
    programs[1].release()
    programs[0].run()
    np.testing.assert_array_equal(programs[0].outputs()["y"], (2 * x).cumsum(1).cumsum(0))
    device.release()
