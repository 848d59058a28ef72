"""Programs on torch's tensors on a GPU, as far as the CPU can tell: a torch and a card that launch nothing."""

from __future__ import annotations

import contextlib
import sys
import types
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tinyir.dynamo import on_cuda
from tinyir.dynamo.piece import Piece
from tinyir.runtime import driver, graph, queued

from .fake_cuda import Machine, machine  # noqa: F401
from .test_dynamo import MM, Device, Fake, Graph, dtype, layers

STREAM = 500
MOST_CALLS = 21  # of our functions, in one call of a program that was called before


class Memory:
    """What several tensors may be in."""


class Tensor:
    """A tensor on the card: its memory is the host's."""

    is_cuda = True

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...] = (), offset: int = 0):
        self.shape, self.strides, self.dtype = shape, strides, dtype("float32")
        self.room = np.zeros(4 * int(np.prod(shape)) + 512, np.uint8)
        self.address = -(-self.room.ctypes.data // 256) * 256 + offset
        self._version, self.copies, self.memory = 0, list[Any](), Memory()

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        return 4

    def is_contiguous(self) -> bool:
        return not self.strides

    def is_inference(self) -> bool:
        return False

    def to(self, _: Any) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        self.copies.append(Tensor(self.shape) if self.strides else self)
        return self.copies[-1]

    def untyped_storage(self) -> Any:
        return self.memory

    def copy_(self, other: Tensor) -> None:
        other.copies.append(self)

    def clone(self) -> Tensor:
        self.copies.append(Tensor(self.shape))
        return self.copies[-1]


@pytest.fixture
def torch(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """What is asked of torch: memory, and its current stream."""
    machine.others = (STREAM,)
    waits: list[int] = []
    stream = types.SimpleNamespace(cuda_stream=STREAM, synchronize=lambda: waits.append(STREAM))
    made = types.ModuleType("torch")
    made.made = []  # type: ignore[attr-defined]

    def empty(shape: Any, strides: Any, **_: Any) -> Tensor:
        made.made.append(Tensor(tuple(shape), tuple(strides)))
        return made.made[-1]

    made.empty_strided, made.waits = empty, waits  # type: ignore[attr-defined]
    made._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda _: STREAM)  # type: ignore[attr-defined]
    made.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        current_stream=lambda _=0: stream,
        device_count=lambda: 1,
        current_device=lambda: 0,
        device=lambda _: contextlib.nullcontext(),
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    on_cuda._SHARED.clear()
    yield made
    for one in on_cuda._SHARED.values():
        one.device.release()
    on_cuda._SHARED.clear()


def on_card(graph: Graph) -> Graph:
    """The graph with its tensors on a GPU."""
    for node in graph.graph.nodes:
        value = node.meta["val"]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Fake):
                one.device = Device("cuda", 0)
                one.dtype.itemsize = 2 if one.dtype[:] == "float16" else 4
    return graph


@pytest.fixture
def program(torch: Any) -> Any:
    piece = Piece(on_card(layers()), frozenset(["w", "b"]))
    made = on_cuda.OnCuda(piece, 3, 4)
    yield made
    made.close()


def arguments(rows: int = 7) -> list[Any]:
    return [Tensor((rows, 6)), Tensor((6, 400), (1, 6)), Tensor((400,)), rows]


def test_memory_is_torchs_and_nothing_is_waited_for(machine: Machine, torch: Any, program: Any) -> None:  # noqa: F811
    given = arguments()
    narrow, x, rows, none, left, again = program(*given)
    assert x is given[0] and rows == 7 and none is None and again is narrow
    assert [t.shape for t in (narrow, left)] == [(7, 2, 200), (7, 200)]
    used = {v for c in machine.calls if c[0] == "launch" for v in c[2]}
    assert {given[0].address, given[2].address, narrow.address, left.address} <= used
    maps = {m[2] for m in machine.maps}
    assert given[1].address in used | maps  # the weight is read where it is
    machine.names()
    torch.waits.clear()
    for _ in range(3):
        program(*given)
    assert torch.waits == [] and "synchronize" not in machine.names()


def test_a_call_asks_each_weight_once_and_the_driver_twice(
    machine: Machine,  # noqa: F811
    torch: Any,
    program: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call of a network with hundreds of weights takes the host no longer than it must: the driver is asked whether
    the stream is captured, and is given the graph."""
    given = arguments()
    results = [program(*given) for _ in range(2)]
    made = {t.shape: t for t in results[0] if isinstance(t, Tensor)}
    torch.empty_strided = lambda shape, *_, **__: made[tuple(shape)]
    program(*given)
    program(*given)
    asked = Counter[int]()
    data_ptr = Tensor.data_ptr
    monkeypatch.setattr(Tensor, "data_ptr", lambda self: asked.update([id(self)]) or data_ptr(self))
    called: list[str] = []
    own = driver.call
    for module in (driver, graph, queued):
        monkeypatch.setattr(module, "call", lambda name, *rest: called.append(name) or own(name, *rest))
    ours: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and "/tinyir/" in code.co_filename and not code.co_name.startswith("<"):
            ours.append(code.co_name)

    sys.setprofile(note)
    try:
        program(*given)
    finally:
        sys.setprofile(None)
    assert len(ours) <= MOST_CALLS, ours  # of Python, whatever the number of weights and launches
    assert called == ["cuStreamIsCapturing", "cuGraphLaunch"]
    assert [asked[id(weight)] for weight in given[1:3]] == [1, 1] and asked[id(given[0])] <= 2


def test_sizes_have_programs_of_their_own_and_share_the_code(machine: Machine, torch: Any, program: Any) -> None:  # noqa: F811
    kept = arguments()
    shapes = [program(Tensor((rows, 6)), *kept[1:3], rows)[0].shape[0] for rows in (7, 9, 7, 20, 9)]
    assert shapes == [7, 9, 7, 20, 9] and [*program._sized] == [(7,), (9,), (20,)]
    codes = {id(found.queued._program._code) for found in program._sized.values()}
    assert len(codes) == 1


def test_weights_that_move_are_read_where_they_are(machine: Machine, torch: Any, program: Any) -> None:  # noqa: F811
    given = arguments()
    program(*given)
    moved = [given[0], Tensor((6, 400), (1, 6)), *given[2:]]
    machine.calls.clear()
    machine.maps.clear()
    program(*moved)
    used = {v for c in machine.calls if c[0] == "launch" for v in c[2]} | {m[2] for m in machine.maps}
    assert moved[1].address in used and given[1].address not in used


def once_of_weights() -> Graph:
    """A product of two weights, which is computed once, times an input."""
    g = Graph()
    x, v, w = (g.input(name, Fake((64, 64))) for name in "xvw")
    made = g.call("mm", MM, (v, w), Fake((64, 64)))
    g.output(g.call("product", MM, (x, made), Fake((64, 64))))
    return on_card(g)


@pytest.fixture
def packed(torch: Any) -> Any:
    made = on_cuda.OnCuda(Piece(once_of_weights(), frozenset(["v", "w"])), None, 4)
    assert made._plans.every[0].module.launches[0].is_once
    yield made
    made.close()


def launched(machine: Machine) -> list[str]:  # noqa: F811
    """What was launched or replayed since last asked, and what was waited for."""
    return [name for name in machine.names() if name in ("launch", "replay", "wait for all")]


def test_layers_that_take_turns_keep_what_each_has(
    machine: Machine,  # noqa: F811
    torch: Any,
    packed: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Counter[str]()
    own = on_cuda.Program.__init__
    monkeypatch.setattr(
        on_cuda.Program, "__init__", lambda self, *given, **how: made.update(["program"]) or own(self, *given, **how)
    )
    x, layers_of = Tensor((64, 64)), [[Tensor((64, 64)), Tensor((64, 64))] for _ in range(5)]
    results = [Tensor((64, 64)) for _ in layers_of]
    for turn in range(4):
        torch.waits.clear()
        machine.names()
        for weights, result in zip(layers_of, results):
            torch.empty_strided = lambda *_, result=result, **__: result
            packed(x, *weights)
        count = 2 if turn == 0 else 1  # what is computed once, in the first
        assert launched(machine) == ["launch"] * count * len(layers_of)
        assert len(torch.waits) == (len(layers_of) if turn == 0 else 0)
    assert made["program"] == 1
    held = [one for weights in packed._kept.values() for one in weights.held.values()]
    assert len({b.address for one in held for b in one.room.buffers.values()}) == len(layers_of)  # each has its own


def test_memory_that_comes_again_holds_other_numbers(machine: Machine, torch: Any, packed: Any) -> None:  # noqa: F811
    x, v, w = (Tensor((64, 64)) for _ in range(3))
    other = Tensor((64, 64))
    packed(x, v, w)
    packed(x, v, other)
    machine.names()
    living = len(machine.living)
    w.memory = Memory()  # the old memory is given back, and the new one is at the same place, as often written to
    packed(x, v, w)
    assert launched(machine).count("launch") == 2 and len(machine.living) == living
    packed(x, v, other)
    assert launched(machine) == ["launch"]
    w._version += 1
    packed(x, v, w)
    assert launched(machine).count("launch") == 2


def test_sets_of_weights_beyond_those_that_are_kept_are_given_back(
    machine: Machine,  # noqa: F811
    torch: Any,
    packed: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_cuda, "MOST_WEIGHTS", 3)
    x, v, every = Tensor((64, 64)), Tensor((64, 64)), [Tensor((64, 64)) for _ in range(6)]
    for w in every[:3]:
        packed(x, v, w)
    living = len(machine.living)
    for w in every:
        packed(x, v, w)
    assert len(packed._kept) == 3 and len(machine.living) == living


def test_a_weight_at_an_odd_address_is_copied_and_copied_anew(machine: Machine, torch: Any, program: Any) -> None:  # noqa: F811
    given = arguments()
    given[1] = Tensor((6, 400), (1, 6), offset=4)
    program(*given)
    program(*given)
    assert len(given[1].copies) == 1
    given[1]._version += 1
    program(*given)
    program(*given)
    assert len(given[1].copies) == 2 and given[1].copies[0] is given[1].copies[1]  # where it was


def test_an_input_in_another_order_is_copied(machine: Machine, torch: Any, program: Any) -> None:  # noqa: F811
    given = arguments()
    given[0] = Tensor((7, 6), (1, 7))
    program(*given)
    used = {v for c in machine.calls if c[0] == "launch" for v in c[2]}
    assert given[0].copies[0].address in used and given[0].address not in used


def test_a_program_gives_its_memory_back(machine: Machine, torch: Any) -> None:  # noqa: F811
    made = on_cuda.OnCuda(Piece(on_card(layers()), frozenset(["w", "b"])), None, 4)
    kept = arguments()
    for rows in range(2, 14):
        made(Tensor((rows, 6)), *kept[1:3], rows)
    assert len(made._sized) == on_cuda.MOST_SIZES
    living = set(machine.living)
    made.close()
    made.close()
    assert machine.living < living
