"""A callable on a GPU, as far as the CPU can tell: what is launched, queued and replayed, with which addresses, and
what memory is kept."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.kit.diag import Refused
from tinyir.runtime.device import Box, Buffer
from tinyir.runtime.driver import DriverFault
from tinyir.runtime.graph import Graph
from tinyir.runtime.mapped import encode

from .fake_cuda import Machine, machine  # noqa: F401
from .test_api import LAYERS, arrays_of
from .test_run_external import Claims, aligned

LAUNCHES = ["launch", "synchronize"]


@pytest.fixture
def program(machine: Machine) -> Any:  # noqa: F811
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS, indent=1), device="cuda", params=weights) as found:
        yield found


def on_card(rows: int = 7) -> Claims:
    return Claims(aligned((rows, 20)))


def test_one_by_one_then_as_a_graph(machine: Machine, program: Any) -> None:  # noqa: F811
    x = on_card()
    first = program(x)["p"]
    count = len(program._session.module.launches)
    assert count > 1 and machine.names() == ["wait for all", *count * LAUNCHES]
    address = first.__cuda_array_interface__["data"][0]
    del first
    for turn in range(3):
        assert program(x)["p"].__cuda_array_interface__["data"][0] == address  # let go of, and taken again
        assert [name for name in machine.names() if name != "cuFuncSetAttribute"] == [
            "wait for all",
            *(["capture"] if turn == 0 else []),
            "replay",
            "synchronize",
        ]


def test_other_sizes_are_queued_as_a_whole_at_once(machine: Machine, program: Any) -> None:  # noqa: F811
    """As each token of a decoder has another size: a fault of a kernel has been seen before."""
    program(on_card())
    machine.names()
    program(on_card(9))
    assert machine.names().count("synchronize") == 1


def test_sizes_that_go_on_changing_have_one_program_and_one_graph(machine: Machine, program: Any) -> None:  # noqa: F811
    count = len(program._session.module.launches)
    for turn, rows in enumerate(range(9, 40)):
        program(on_card(rows))
        names = machine.names()
        assert names.count("capture") == (turn == 2) and names.count("replay") == (turn >= 2)
        assert names.count("change") == (count if turn > 2 else 0) and names.count("synchronize") <= max(1, count)
        (graph,) = machine.graphs.values() if turn >= 2 else ([],)
        assert {c[2][-1] % (1 << 32) for c in graph} == ({rows} if graph else set())  # what the kernels are told
    assert len(program._session._programs) == 1


def test_sizes_that_come_again_keep_graphs_of_their_own(machine: Machine, program: Any) -> None:  # noqa: F811
    for _ in range(3):
        for rows in (7, 9):
            program(on_card(rows))
    machine.names()
    for rows in (7, 9, 7, 9):
        program(on_card(rows))
        assert machine.names() == ["wait for all", "replay", "synchronize"]
    assert len(machine.graphs) == 2 and len(program._session._programs) == 1


def test_an_older_driver_changes_no_graph(machine: Machine) -> None:  # noqa: F811
    machine.version = 12020
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS, indent=1), device="cuda", params=weights) as program:
        for rows in range(9, 20):
            program(on_card(rows))
        assert not {"change", "capture"} & set(machine.names())
        machine.faults["cuStreamGetCaptureInfo_v3"] = 1  # which it does not have
        x = on_card()
        for _ in range(3):
            program(x)
        assert machine.names().count("replay") == 2


def test_a_length_that_grows_moves_memory_a_few_times(machine: Machine, program: Any) -> None:  # noqa: F811
    places = set()
    for rows in range(1, 257):
        program(on_card(rows))
        held = program._session._programs[-1]
        places.add(held._storage._arena.address)
        assert {b.bytes for n, b in held.buffers.items() if n in held._passing} <= {rows * 4 * n for n in range(1, 64)}
        assert machine.calls and machine.names().count("replay") <= 1
    assert len(places) <= 9 and len(program._session._programs) == 1


def test_a_graph_holds_the_launches_with_the_addresses_of_its_call(machine: Machine, program: Any) -> None:  # noqa: F811
    x, y = on_card(), on_card()
    kept = [program(x), program(x), program(y), program(y)]  # results that live have addresses of their own
    replays = [c for c in machine.calls if c[0] == "replay"]
    assert replays == [] and len({r["p"].__cuda_array_interface__["data"] for r in kept}) == 4
    kept.clear()
    for given in (x, y, x, y, x, y, x, y):
        program(given)
    replays = [c for c in machine.calls if c[0] == "replay"]
    assert len(replays) >= 2
    for _, _, launches in replays:
        assert [c[1] for c in launches] == list(
            dict.fromkeys(launch.entry for launch in program._session.module.launches)
        )
        assert [c[3:] for c in launches] == [
            (),
            *[((6, 1),)] * (len(launches) - 1),
        ]  # all but the first may start early, in the graph too
        used = {value for c in launches for value in c[2]}
        assert len(used & {g.array.ctypes.data for g in (x, y)}) == 1


def test_sets_of_addresses_are_bounded_and_graphs_are_given_back(machine: Machine, program: Any) -> None:  # noqa: F811
    inputs = [on_card() for _ in range(20)]
    for x in inputs:
        for _ in range(3):
            program(x)
    held = program._session._programs[-1]
    assert len(held._replays.sets._kept) <= 8
    made = machine.names()
    assert made.count("capture") >= 12 and made.count("cuGraphExecDestroy") >= made.count("capture") - 8
    program.close()
    assert machine.names().count("cuGraphExecDestroy") + made.count("cuGraphExecDestroy") == made.count("capture")
    gc.collect()
    assert machine.living == set()


def test_memory_that_is_lent_outlives_the_session(machine: Machine, program: Any) -> None:  # noqa: F811
    result = program(on_card())["p"]
    program.close()
    address = result.__cuda_array_interface__["data"][0]
    assert address in machine.living and result.numpy().shape == (7, 10)


def test_host_arrays_are_replayed_too(machine: Machine, program: Any) -> None:  # noqa: F811
    x = np.zeros((7, 20), np.float32)
    for _ in range(3):
        program(x)
    assert machine.names()[-2:] == ["replay", "synchronize"]


def test_arrays_like_earlier_ones_are_not_checked_again(
    machine: Machine,  # noqa: F811
    program: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # noqa: F811
    from tinyir.runtime import session

    program(on_card())
    with monkeypatch.context() as patched:  # undone alone: `machine` has patched the driver with the same fixture
        patched.setattr(session, "check_arrays", lambda *_: pytest.fail("checked again"))
        program(on_card())
        with pytest.raises(pytest.fail.Exception):
            program(on_card(9))


def test_faults_of_the_arrays_are_found_in_later_calls(machine: Machine, program: Any) -> None:  # noqa: F811
    program(on_card())
    for wrong, code in ((Claims(aligned((7, 21))), "E1703"), (Claims(aligned((7, 20), np.float16)), "E1702")):
        with pytest.raises(Refused) as fault:
            program(wrong)
        assert [d.code for d in fault.value.diags] == [code]


def test_a_fault_of_the_driver_names_the_kernels(machine: Machine, program: Any) -> None:  # noqa: F811
    x = on_card()
    for _ in range(2):
        program(x)
    machine.faults["cuGraphLaunch"] = 700
    with pytest.raises(Refused) as fault:
        program(x)
    (diag,) = fault.value.diags
    assert (
        diag.code == "E1730"
        and "CUDA_ERROR_OF_PAPER" in diag.facts["reason"]
        and diag.facts["kernel"].startswith("one of l1, ")
    )


def test_a_capture_that_fails_leaves_the_stream_free(machine: Machine) -> None:  # noqa: F811
    def enqueue() -> None:
        raise DriverFault("no")

    with pytest.raises(DriverFault, match="no"):
        Graph(77, enqueue)
    assert machine.captured is None
    with Graph(77, lambda: machine.launch(machine.load(b"k"), "k", ())) as graph:
        graph.run()
    assert machine.calls[-2][:1] == ("replay",) and machine.calls[-1] == ("cuGraphExecDestroy",)


def test_a_map_tells_the_driver_sizes_innermost_first(machine: Machine) -> None:  # noqa: F811
    import ctypes

    room = ctypes.create_string_buffer(256)
    place = -(-ctypes.addressof(room) // 64) * 64
    encode(Box(Buffer("A", 1 << 20, 24, 2, 0), "fp16", (4, 3, 8), (2, 1, 8), 64), place)
    encode(Box(Buffer("b", 1 << 21, 24, 4, 0), "fp32", (24,), (8,), 0), place)
    assert machine.maps == [
        (0, 6, 1 << 20, [8, 3, 4], [16, 48], [8, 1, 2], [1, 1, 1], 0, 2, 2, 0),
        (0, 7, 1 << 21, [24], [64], [8], [1], 0, 0, 2, 0),
    ]


def test_a_kernel_with_maps_is_captured_as_any_other(machine: Machine) -> None:  # noqa: F811
    sample = Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
    with tinyir.compile(sample, device="cuda") as program:
        arrays = [Claims(aligned(shape, np.float16)) for shape in ((64, 77), (77, 131), (131,))]
        for _ in range(3):
            program(*arrays)
        replay = next(c for c in reversed(machine.calls) if c[0] == "replay")
        assert [c[1] for c in replay[2]] == ["gemm_2_pad", "gemm_2"] and len(machine.maps) >= 2


TURNED = {
    "signature": {"inputs": [{"tensor": "A"}, {"tensor": "B"}], "outputs": [{"tensor": "C"}]},
    "tensors": {
        "A": {"dtype": "fp32", "shape": ["M", "K"], "layout": "col_major", "alignment": 64},
        "B": {"dtype": "fp32", "shape": ["K", "N"]},
        "C": {"dtype": "fp32", "shape": ["M", "N"], "layout": "col_major"},
    },
    "graph": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["C"]}],
}


def test_arrays_are_passed_in_the_order_of_the_layout(machine: Machine) -> None:  # noqa: F811
    """What is col_major already is launched at its own address; what is not, or begins elsewhere, is refused."""
    turned, plain = aligned((6, 7)), aligned((6, 5))
    with tinyir.compile(json.dumps(TURNED), device="cuda") as product:
        a = Claims(turned, shape=(7, 6), strides=(4, 28))
        result = product(A=a, B=Claims(plain))["C"]
        (launch,) = [c for c in machine.calls if c[0] == "launch"]
        assert {turned.ctypes.data, plain.ctypes.data} < set(launch[2])
        described = result.__cuda_array_interface__
        assert described["shape"] == (7, 5) and described["strides"] == (4, 28)
        with pytest.raises(Refused) as fault:
            product(A=Claims(aligned((7, 6))), B=Claims(plain))
        assert [(d.code, d.at) for d in fault.value.diags] == [("E1732", "A")]
        assert "[6, 1]" in fault.value.diags[0].facts["reason"] and "[1, 7]" in fault.value.diags[0].facts["reason"]
        for behind, codes in ((0, []), (16, ["E1733"]), (64, [])):
            moved = Claims(turned, shape=(7, 6), strides=(4, 28), data=(turned.ctypes.data + behind, False))
            if not codes:
                product(A=moved, B=Claims(plain))
                continue
            with pytest.raises(Refused) as fault:
                product(A=moved, B=Claims(plain))
            assert [d.code for d in fault.value.diags] == codes
            assert (fault.value.diags[0].facts["given"], fault.value.diags[0].facts["wanted"]) == (16, 64)


MEAN = (
    "graph<N=1> main(x: f32[N, 8], s: f32[N, 8]) -> (s: f32[N, 8], y: f32[N, 8]) "
    "{ a = s * 0.5 + cumsum(cumsum(x, axis=1), axis=0) return a, x - a }"
)


def test_a_state_has_one_address_and_its_launches_are_replayed(machine: Machine) -> None:  # noqa: F811
    x = np.zeros((4, 8), np.float32)
    with tinyir.compile(MEAN, device="cuda", params={"s": x}) as program:
        (buffer,) = program._session.states.buffers().values()
        for _ in range(4):
            program(x)
        program.states["s"] = x + 1
        program(x, s=x)
        assert program._session.states.buffers()["s"] == buffer
        launches = [c for c in machine.calls if c[0] == "launch"] + [
            c for r in machine.calls if r[0] == "replay" for c in r[2] if c[0] == "launch"
        ]
        assert sum(buffer.address in c[2] for c in launches) >= 5
        assert [c[0] for c in machine.calls].count("capture") == 1
        held = program._session._programs[-1]
        assert buffer not in held._storage.buffers.values()  # the program has no other memory for it


def test_states_of_the_callers_are_written_where_they_are(machine: Machine) -> None:  # noqa: F811
    x, s = Claims(aligned((4, 8))), Claims(aligned((4, 8)))
    with tinyir.compile(MEAN, device="cuda", params={"s": np.zeros((4, 8), np.float32)}) as program:
        found = program(x, s=s)
        (kept,) = program._session.states.buffers().values()
        writers = [c for c in machine.calls if c[0] == "launch" and s.array.ctypes.data in c[2]]
        assert writers and not any(kept.address in c[2] for c in machine.calls if c[0] == "launch")
        assert found["s"].__cuda_array_interface__["data"][0] == s.array.ctypes.data
        assert set(program(x)) == {"y"}  # and the one that is kept is another
        assert any(kept.address in c[2] for c in machine.calls if c[0] == "launch")
        found = program(x, s=np.zeros((4, 8), np.float32))  # what was given on the host comes back there
        assert isinstance(found["s"], np.ndarray) and not isinstance(found["y"], np.ndarray)


def test_an_input_in_another_shape_is_the_callers_too(machine: Machine) -> None:  # noqa: F811
    """What is an alias of an input is where the caller's array is."""
    flat = "graph<M=4, N=4> main(x: f32[M, N]) -> (y: f32[M*N]) { return relu(reshape(x, [M*N])) }"
    x = Claims(aligned((6, 5)))
    with tinyir.compile(flat, device="cuda") as program:
        program(x)
        (launch,) = [c for c in machine.calls if c[0] == "launch"]
        assert x.array.ctypes.data in launch[2]
