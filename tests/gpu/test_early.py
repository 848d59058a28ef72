"""Launches that start early, on a GPU of compute capability 9.0: the numbers are those of launches one by one, however
often, whatever comes before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.models import bert, gpt2, resnet50
from tests.unit.test_network_kernels import emitted
from tinyir.front.json import read
from tinyir.ir import manifest
from tinyir.play.arrays import bind_symbols
from tinyir.play.tiny import play
from tinyir.runtime.cuda import CudaDevice, find_fault, find_gpu
from tinyir.runtime.program import Program

ROUNDS = 100
Arrays = Mapping[str, np.ndarray]
NETWORKS: dict[str, Callable[[], Any]] = {
    "small bert": lambda: bert(tokens=6, layers=2, hidden=16, heads=2, words=20, positions=8, dtype="fp16"),
    "bert": lambda: bert(tokens=128, layers=2, hidden=256, heads=4, words=100, positions=128, dtype="fp16"),
    "gpt2": lambda: gpt2(tokens=77, layers=2, hidden=192, heads=3, words=100, positions=128, dtype="fp16"),
    "bert in fp32": lambda: bert(tokens=96, layers=2, hidden=128, heads=4, words=100, positions=128, dtype="fp32"),
    "resnet": lambda: resnet50(layers=(1, 2), width=8, size=32, classes=10, dtype="fp16"),
}
WIDTHS = {"whole tiles": (256, 320, 512, 192, 64), "odd rows": (131, 67, 99, 133, 51), "few rows": (3, 40, 24, 72, 16)}


def _why_not() -> str | None:
    found = find_gpu()
    return find_fault() if found is None else None if found[1] >= (9, 0) else f"{found[0]} starts no launch early"


REASON = _why_not()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"no GPU: {REASON}")]


def outputs_of(device: Any, code: manifest.Module, inputs: list[Arrays], rounds: int) -> list[dict[str, bytes]]:
    """What each of `rounds` runs gives, the inputs taking turns: the first launch by launch, those from the third on by
    a graph. The device is given back."""
    try:
        program = Program(device, manifest.show(code), code, bind_symbols(code.region.model, dict(inputs[0])))
        found = []
        for turn in range(rounds):
            program.upload(inputs[turn % len(inputs)])
            program.run()
            found.append({name: array.tobytes() for name, array in program.outputs().items()})
        return found
    finally:
        device.release()


def chain_of(widths: tuple[int, ...]) -> tuple[str, list[Arrays]]:
    """Layers of a product and a relu, the first width the rows; and two sets of whole numbers, of which all sums are
    exact."""
    rows, *sizes = widths
    names = [f"w{n}" for n in range(len(sizes) - 1)]
    shapes = {"h0": [rows, sizes[0]], **{name: list(pair) for name, pair in zip(names, zip(sizes, sizes[1:]))}}
    tensors = {
        name: {"dtype": "fp16", "shape": shape}
        for name, shape in {**shapes, f"h{len(names)}": [rows, sizes[-1]]}.items()
    }
    graph = []
    for n, name in enumerate(names):
        graph.append({"op": "GEMM", "name": f"l{n}", "inputs": [f"h{n}", name], "outputs": [f"p{n}"]})
        graph.append({"op": "Elementwise", "fn": "relu", "inputs": [f"p{n}"], "outputs": [f"h{n + 1}"]})
    inputs = [{"tensor": "h0"}, *({"tensor": name, "role": "param", "storage": "const_pool"} for name in names)]
    model = {
        "signature": {"inputs": inputs, "outputs": [{"tensor": f"h{len(names)}"}]},
        "tensors": tensors,
        "graph": graph,
    }
    draw = np.random.default_rng(7)
    weights = {
        name: (draw.integers(-1, 2, shapes[name]) * (draw.random(shapes[name]) < 0.2)).astype(np.float16)
        for name in names
    }
    return json.dumps(model, indent=1), [
        {**weights, "h0": draw.integers(-2, 3, shapes["h0"]).astype(np.float16)} for _ in range(2)
    ]


def early_in(code: manifest.Module) -> int:
    """How many launches may start early."""
    return sum(launch.is_early for launch in code.launches)


@pytest.mark.parametrize("name", WIDTHS)
def test_dependent_products_are_exact_at_every_run(name: str) -> None:
    text, inputs = chain_of(WIDTHS[name])
    code = emitted(text, "sm90")
    assert early_in(code) >= 2
    wanted = [{output: array.tobytes() for output, array in play(read(text), given).items()} for given in inputs]
    for turn, found in enumerate(outputs_of(CudaDevice(), code, inputs, ROUNDS)):
        assert found == wanted[turn % 2], turn


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_the_bits_of_launches_one_by_one(name: str) -> None:
    model = NETWORKS[name]()
    code = emitted(model.text, "sm90")
    assert early_in(code) > 5
    weights, inputs = set(model.weights), [model.arrays(seed) for seed in (1, 2)]
    inputs[1] = {n: inputs[0][n] if n in weights else array for n, array in inputs[1].items()}
    wanted = outputs_of(CudaDevice(overlaps=False), code, inputs, 2)
    for turn, found in enumerate(outputs_of(CudaDevice(), code, inputs, ROUNDS)):
        assert found == wanted[turn % 2], turn
