"""A piece of an output that takes long to compute is computed before its place in shared memory is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.activations import model_of
from tinyir.front import read
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.ir.pipeline import STAGES
from tinyir.lower import lower_to


def order_of(function: str) -> list[str]:
    """What a consumer does at the end of a tile, in order: computes elements of the accumulator, waits for a piece that
    leaves, stores elements."""
    module: Any = read(model_of((4096, 3072, 768), function), "activation.json")
    for stage in STAGES[1 : STAGES.index("gpu") + 1]:
        module = lower_to(stage, module, "sm90", "h200")
    found = []
    for s in statements(module.launches[0].body):
        if isinstance(s, nodes.Each):
            stored = any(isinstance(i, nodes.Store) for i in s.body)
            found.append(("compute " if s.of == "acc" else "") + ("store" if stored else ""))
        elif isinstance(s, nodes.WaitGroup) and s.engine == "tma_store" and s.pending:
            found.append("wait")
    return [word.strip() for word in found]


@pytest.mark.parametrize("function", ["gelu", "silu"])
def test_what_takes_long_is_computed_before_the_wait(function: str) -> None:
    assert order_of(function) == ["compute", "wait", "store"]


@pytest.mark.parametrize("function", ["relu", "tanh"])
def test_what_is_quick_is_computed_as_it_is_stored(function: str) -> None:
    assert order_of(function) == ["wait", "compute store"]
