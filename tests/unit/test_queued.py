"""Runs on the stream of another library, as far as the CPU can tell: what is queued, replayed and copied, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tinyir.api import lowered
from tinyir.runtime.cuda import CudaDevice
from tinyir.runtime.device import Buffer
from tinyir.runtime.program import Program, shared_of
from tinyir.runtime.queued import Queued, lent
from tinyir.runtime.replay import MOST_SETS

from .fake_cuda import Machine, machine  # noqa: F401
from .test_api import LAYERS

INPUTS, OUTPUTS = ("x",), ("p",)
SIZE = 7 * 20 * 4


@pytest.fixture
def queued(machine: Machine) -> Any:  # noqa: F811
    machine.others = (500, 600)
    text, module = lowered(json.dumps(LAYERS), "cpu")
    device = CudaDevice()
    code = device.load(text, shared_of(module.launches))
    rooms = {t.name: device.allocate(t.name, 400, 4) for t in module.region.model.inputs}
    kept = {n: Buffer(n, rooms[n].address, rooms[n].count, 4, -1) for n in ("w1", "b1", "w2", "b2")}
    kept |= {"x": lent("x", 7 * 20, 4), "p": lent("p", 7 * 10, 4)}
    found = Queued(device, Program(device, text, module, {"M": 7}, kept, code), INPUTS, OUTPUTS)
    machine.names()
    yield found
    found.release()
    device.release()


def places(machine: Machine, count: int) -> list[tuple[int, int]]:  # noqa: F811
    """Addresses of inputs and outputs, each of its own."""
    rooms = [machine.pycuda().mem_alloc(SIZE) for _ in range(2 * count)]
    queued_rooms.extend(rooms)
    return [(int(rooms[2 * n]), int(rooms[2 * n + 1])) for n in range(count)]


queued_rooms: list[Any] = []


def test_a_set_of_addresses_is_queued_then_captured_then_replayed(machine: Machine, queued: Queued) -> None:  # noqa: F811
    (one,) = places(machine, 1)
    count = len(queued._program.made)
    queued.run(one, 500)
    launches = [c for c in machine.calls if c[0] == "launch"]
    assert len(launches) == count > 1 and "replay" not in machine.names()
    assert {v for c in launches for v in c[2]} >= set(one)
    queued.run(one, 500)
    assert machine.names() == ["capture", "replay"]
    queued.run(one, 500)
    assert machine.names() == ["replay"]


def test_nothing_is_waited_for_and_streams_follow_one_another(machine: Machine, queued: Queued) -> None:  # noqa: F811
    (one,) = places(machine, 1)
    for stream in (500, 500, 600, 600, 500):
        queued.run(one, stream)
    names = machine.names()
    assert "synchronize" not in names and "cuStreamSynchronize" not in names
    assert names.count("cuEventRecord") == names.count("cuStreamWaitEvent") == names.count("cuEventDestroy_v2") == 2


def test_a_stream_that_is_captured_gets_the_launches(machine: Machine, queued: Queued) -> None:  # noqa: F811
    (one,) = places(machine, 1)
    for _ in range(3):
        queued.run(one, 500)
    machine.names()
    machine.capturing.add(600)
    queued.run(one, 600)
    assert set(machine.names()) == {"launch"}


def test_streams_of_one_capture_follow_one_another(machine: Machine, queued: Queued) -> None:  # noqa: F811
    (one,) = places(machine, 1)
    queued.run(one, 500)
    machine.capturing |= {500, 600}
    queued.run(one, 600)
    assert machine.followed == [(600, 500)]


def test_more_sets_than_are_kept_go_through_copies(machine: Machine, queued: Queued) -> None:  # noqa: F811
    every = places(machine, MOST_SETS + 3)
    for one in every[:MOST_SETS]:
        queued.run(one, 500)
    machine.names()
    for turn, one in enumerate(every[MOST_SETS:]):
        queued.run(one, 500)
        own = [b.address for b in queued._rooms]
        copies = [c[1:] for c in machine.calls if c[0] == "copy"]
        assert copies == [(own[0], one[0]), (one[1], own[1])]
        made = ["wait for all"] if not turn else [], ["capture"] if not turn else []
        assert machine.names() == [*made[0], "copy", *made[1], "replay", "copy"]
    queued.run(every[0], 500)
    assert "copy" not in machine.names()


def test_graphs_and_the_program_are_given_back(machine: Machine, queued: Queued) -> None:  # noqa: F811
    for one in places(machine, MOST_SETS + 1):
        queued.run(one, 500)
        queued.run(one, 500)
    machine.names()
    living = len(machine.living)
    queued.release()
    assert machine.names().count("cuGraphExecDestroy") == MOST_SETS + 1 and len(machine.living) < living
    queued.release()
    assert machine.names() == []
