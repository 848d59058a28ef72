"""Runs on a stream of the caller, as far as the CPU can tell: who waits for whom, in which memory, what is told."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.kit.diag import Refused
from tinyir.runtime.external import of_capsule

from .fake_cuda import Machine, machine  # noqa: F401
from .test_api import LAYERS, arrays_of
from .test_run_external import Claims, aligned
from .test_run_replay import MEAN

OWN, OTHER = 500, 600


class Lends:
    """An array that says by DLPack that it is on the GPU, and which readers it was told."""

    def __init__(self, array: np.ndarray):
        self.array, self.told = array, list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.told.append(stream)
        return self.array.__dlpack__()


@pytest.fixture
def program(machine: Machine) -> Any:  # noqa: F811
    machine.others = (0, OWN, OTHER)
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS), device="cuda", params=weights) as found:
        yield found


def on_card(**told: Any) -> Claims:
    return Claims(aligned((7, 20)), **told)


WAITS = {"wait for all", "synchronize", "cuStreamSynchronize"}


def test_a_run_is_queued_and_waited_for_by_nobody(machine: Machine, program: Any) -> None:  # noqa: F811
    run, x = program.on_stream(OWN), on_card()
    first = run(x)["p"]
    again = [run(x=x)["p"] for _ in range(3)]  # new memory, which is waited for while it is filled
    del again
    machine.names()
    results = [run(x)["p"] for _ in range(3)]
    assert not WAITS & set(machine.names()) and machine.followed == []
    assert first.stream == OWN and first.__cuda_array_interface__["stream"] == OWN
    assert len({r.address for r in (first, *results)}) == 4
    machine.names()
    first.numpy()
    assert machine.names() == ["cuStreamSynchronize"]


def test_what_makes_the_inputs_is_waited_for_on_the_stream(machine: Machine, program: Any) -> None:  # noqa: F811
    run = program.on_stream(SimpleNamespace(__cuda_stream__=lambda: (0, OWN)))
    run(on_card(stream=OTHER))
    run(on_card(stream=None))
    run(on_card(stream=OWN))
    assert machine.followed == [(OWN, OTHER)]
    x = Lends(aligned((7, 20)))
    run(x)
    program.on_stream(0)(x)
    program(x)
    assert x.told == [OWN, 1, None]  # the default stream has a name of its own


@pytest.mark.parametrize(("reader", "waits"), [(OTHER, [(OTHER, OWN)]), (None, [(1, OWN)]), (-1, []), (OWN, [])])
def test_whoever_reads_a_result_waits_for_it(machine: Machine, program: Any, reader: Any, waits: Any) -> None:  # noqa: F811
    found = program.on_stream(OWN)(on_card())["p"]
    capsule = found.__dlpack__(stream=reader, max_version=(1, 0), dl_device=(2, 0), copy=False)
    assert machine.followed == waits and of_capsule("p", capsule, found).address == found.address
    assert found._memory.is_elsewhere == (reader != OWN)


def test_a_result_of_a_call_that_waited_is_ready(machine: Machine, program: Any) -> None:  # noqa: F811
    found = program(on_card())["p"]
    found.__dlpack__(stream=OTHER)
    assert machine.followed == [] and found.__cuda_array_interface__["stream"] is None


@pytest.mark.parametrize("asked", [{"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 3)}])
def test_a_copy_is_not_promised(machine: Machine, program: Any, asked: Any) -> None:  # noqa: F811
    with pytest.raises(BufferError):
        program(on_card())["p"].__dlpack__(**asked)


def test_memory_that_another_stream_reads_is_not_taken_again(machine: Machine, program: Any) -> None:  # noqa: F811
    run, x = program.on_stream(OWN), on_card()
    found = run(x)["p"]
    address = found.address
    del found
    found = run(x)["p"]
    assert found.address == address  # what follows on the same stream comes later
    found.__dlpack__(stream=OTHER)
    del found
    assert address not in machine.living
    found = run(x)["p"]
    address = found.address
    assert found.__cuda_array_interface__ is not None  # whose reader is not known
    del found
    assert address not in machine.living


def test_sizes_that_go_on_changing_have_one_program_and_one_graph(machine: Machine, program: Any) -> None:  # noqa: F811
    """The kernels of the one graph are told the new sizes, and memory moves where it is too small by half."""
    run = program.on_stream(OWN)
    for turn, rows in enumerate(range(100, 228)):
        found = run(Claims(aligned((rows, 20))))["p"]
        del found
        names = machine.names()
        assert names.count("capture") == (turn == 2) and names.count("replay") == (turn >= 2)
        for graph in machine.graphs.values():
            assert {c[2][-1] % (1 << 32) for c in graph if c[0] == "launch"} == {rows}
    (kept,) = program._session.on_streams._kept
    assert kept[1]._program.moves == 2 and len(machine.graphs) == 1


def test_states_go_on_from_stream_to_stream(machine: Machine) -> None:  # noqa: F811
    machine.others = (OWN, OTHER)
    with tinyir.compile(MEAN, device="cuda", params={"s": np.zeros((4, 8), np.float32)}) as program:
        x = Claims(aligned((4, 8)))
        states = program.states
        for stream in (OWN, OWN, OTHER, OWN):
            assert set(program.on_stream(stream)(x)) == {"y"}
        assert {(OTHER, OWN), (OWN, OTHER)} == set(machine.followed)
        (kept,) = program._session.states.buffers().values()
        launches = [c for c in machine.calls if c[0] == "launch"]
        assert any(kept.address in c[2] for c in launches)
        machine.names()
        assert states["s"].shape == (4, 8) and "cuStreamSynchronize" in machine.names()
        assert states["s"].shape == (4, 8) and machine.names() == []
        program.on_stream(OWN)(x)
        machine.names()
        program(x)
        assert machine.names()[0] == "cuStreamSynchronize"
        with pytest.raises(Refused) as fault:
            program.on_stream(OWN)(x, s=x)
        assert [d.code for d in fault.value.diags] == ["E1732"]


def test_a_run_that_fails_says_so_where_it_is_waited_for(machine: Machine, program: Any) -> None:  # noqa: F811
    run, x = program.on_stream(OWN), on_card()
    found = run(x)["p"]
    machine.faults["cuStreamSynchronize"] = 700
    for wait in (found.numpy, lambda: program(x)):
        with pytest.raises(Refused) as fault:
            wait()
        assert [d.code for d in fault.value.diags] == ["E1730"]
    run(x)


def test_what_cannot_be_queued_is_refused(machine: Machine, program: Any) -> None:  # noqa: F811
    with pytest.raises(Refused, match="host") as fault:
        program.on_stream(OWN)(arrays_of(7)["x"])
    assert [d.code for d in fault.value.diags] == ["E1732"]
    with pytest.raises(Refused) as fault:
        program.on_stream(OWN)(on_card(), w1=on_card())
    assert [d.code for d in fault.value.diags] == ["E1704"]
    with pytest.raises(Refused) as fault:
        program.on_stream(OWN)()
    assert [d.code for d in fault.value.diags] == ["E1701"]
    for other in ("500", True, None):
        with pytest.raises(TypeError, match="stream"):
            program.on_stream(other)


def test_a_program_on_no_gpu_has_no_stream() -> None:
    with tinyir.compile(json.dumps(LAYERS), device="cpu") as program, pytest.raises(Refused) as fault:
        program.on_stream(OWN)
    assert [d.code for d in fault.value.diags] == ["E1718"]


def test_graphs_and_memory_are_given_back(machine: Machine) -> None:  # noqa: F811
    machine.others = (OWN,)
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    program = tinyir.compile(json.dumps(LAYERS), device="cuda", params=weights)
    x = on_card()
    for _ in range(3):
        program.on_stream(OWN)(x)
    assert "capture" in machine.names() and machine.living
    program.close()
    assert "cuGraphExecDestroy" in machine.names() and not machine.living
