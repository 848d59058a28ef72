"""Arrays of torch on a card, on streams: nothing is read before it is made, in either direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.runtime.cuda import find_fault

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_fault() is not None or not torch.cuda.is_available(), reason="no GPU"),
]

KINDS = {
    "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8e4m3": torch.float8_e4m3fn,
    "fp8e5m2": torch.float8_e5m2, "i64": torch.int64, "u8": torch.uint8,
}  # fmt: skip
SIZE = 1 << 20
CYCLES = 20_000_000  # that a stream is kept busy: some 10 ms


def doubled(kind: str) -> Any:
    """A program that doubles its input."""
    text = f"graph<N=1024> main(x: {kind}[N, 1024]) -> (y: {kind}[N, 1024]) {{ return x + x }}"
    return tinyir.compile(text, device="cuda")


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways(kind: str) -> None:
    """On streams that are busy when the next one is to read: a value that is read too early is the old one."""
    made, run, read = (torch.cuda.Stream() for _ in range(3))
    with doubled(kind) as program:
        queue = program.on_stream(run.cuda_stream)
        x = torch.zeros(SIZE // 1024, 1024, device="cuda", dtype=KINDS[kind])
        torch.cuda.synchronize()
        for turn in range(1, 5):
            with torch.cuda.stream(made):
                torch.cuda._sleep(CYCLES)
                x.copy_(torch.full_like(x, turn, dtype=torch.float32))
                y = queue(x)["y"]
            with torch.cuda.stream(read):
                z = torch.from_dlpack(y)
                assert z.dtype == KINDS[kind] and z.data_ptr() == y.address
                assert z.to(torch.float32).sum().item() == 2 * turn * SIZE
            made.wait_stream(run)
            del y, z


def test_a_program_waits_for_the_stream_that_made_its_input() -> None:
    """The reader's stream is told to the producer, who was on another one."""
    made, run = torch.cuda.Stream(), torch.cuda.Stream()

    class Told:
        """An array of CuPy's kind: the interface names the stream."""

        def __init__(self, tensor: Any, stream: int):
            self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}

    with doubled("fp32") as program:
        queue = program.on_stream(run.cuda_stream)
        x = torch.zeros(SIZE // 1024, 1024, device="cuda")
        torch.cuda.synchronize()
        for turn in range(1, 5):
            with torch.cuda.stream(made):
                torch.cuda._sleep(CYCLES)
                x.fill_(turn)
            y = queue(Told(x, made.cuda_stream))["y"]
            np.testing.assert_array_equal(y.numpy(), 2.0 * turn)


def test_results_that_are_let_go_of_are_not_written_too_early() -> None:
    run, read = torch.cuda.Stream(), torch.cuda.Stream()
    with doubled("fp32") as program:
        queue = program.on_stream(run.cuda_stream)
        inputs = [torch.full((SIZE // 1024, 1024), float(n), device="cuda") for n in range(6)]
        torch.cuda.synchronize()
        totals = []
        for x in inputs:
            y = queue(x)["y"]
            with torch.cuda.stream(read):
                z = torch.from_dlpack(y)
                torch.cuda._sleep(CYCLES)
                totals.append(z.sum())
            del y, z
        read.synchronize()
        assert [t.item() for t in totals] == [2.0 * n * SIZE for n in range(6)]


def test_states_go_on() -> None:
    model = {
        "signature": {
            "inputs": [{"tensor": "x"}, {"tensor": "s", "role": "state", "mutability": "mutable"}],
            "outputs": [{"tensor": "y"}, {"tensor": "t", "updates": "s"}],
        },
        "tensors": {n: {"dtype": "fp32", "shape": [1024]} for n in ("x", "s", "t", "y")},
        "graph": [
            {"op": "Elementwise", "fn": "add", "inputs": ["s", "x"], "outputs": ["t"]},
            {"op": "Elementwise", "fn": "mul", "inputs": ["t", "x"], "outputs": ["y"]},
        ],
    }
    streams = [torch.cuda.Stream() for _ in range(2)]
    with tinyir.compile(model, device="cuda", params={"s": np.zeros(1024, np.float32)}) as program:
        x = torch.full((1024,), 3.0, device="cuda")
        torch.cuda.synchronize()
        for turn in range(1, 9):
            y = program.on_stream(streams[turn % 2].cuda_stream)(x)["y"]
            np.testing.assert_array_equal(y.numpy(), 9.0 * turn)
        np.testing.assert_array_equal(program.states["s"], 24.0)
